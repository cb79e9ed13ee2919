#include "nn/sequential.h"

#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/init.h"
#include "nn/linear.h"

namespace tapegrad::nn {
namespace {

/// Whether layer i is a Layer, and nothing watches what it gives.
template <typename Layer>
bool is_plain(std::span<const AnyModule> layers, size_t i) {
  if (i >= layers.size()) return false;
  const Module& layer = *layers[i];
  return typeid(layer) == typeid(Layer) && !layer.is_watched();
}

/// A layer and what is behind it, by one op of the layer.
template <typename Layer>
Variable call_as(Variable (Layer::*forward)(const Variable&, Where) const, const Module& module,
                 const Variable& x, Where where) {
  const auto& layer = static_cast<const Layer&>(module);
  const ModuleCall call(layer, where);
  try {
    return (layer.*forward)(x, where);
  } catch (Error& error) {
    tapegrad::detail::locate(error, where);
    throw;
  }
}

/// Runs the first layer, or the first two where they are faster together; gives how many.
size_t run_first(std::span<const AnyModule> layers, Variable& y, Where where) {
  // The largest of rectified values is the largest value, rectified: of fewer values. The gradient
  // goes to the same element, or to none.
  if (is_plain<ReLU>(layers, 0) && is_plain<MaxPool2d>(layers, 1)) {
    y = layers[0]->call(layers[1]->call(y, where), where);
    return 2;
  }
  const bool relu_follows = is_plain<ReLU>(layers, 1) && !is_plain<MaxPool2d>(layers, 2);
  if (relu_follows && is_plain<Linear>(layers, 0)) {
    y = call_as(&Linear::forward_relu, *layers[0], y, where);
    return 2;
  }
  if (relu_follows && is_plain<Conv2d>(layers, 0)) {
    y = call_as(&Conv2d::forward_relu, *layers[0], y, where);
    return 2;
  }
  if (is_plain<Linear>(layers, 0) && is_plain<GELU>(layers, 1) &&
      static_cast<const GELU&>(*layers[1]).approximate() == Gelu::kTanh) {
    y = call_as(&Linear::forward_gelu, *layers[0], y, where);
    return 2;
  }
  y = layers[0]->call(y, where);
  return 1;
}

}  // namespace

Sequential::Sequential(std::vector<AnyModule> layers, SequentialOptions options)
    : layers_(std::move(layers)) {
  if (options.init) nn::initialize(*this, options.init);
  if (options.input_shape) infer(*options.input_shape);
}

Module& Sequential::operator[](int64_t index) const {
  if (index < -size() || index >= size())
    fail<IndexError>("Sequential: no layer ", index, " among ", size());
  return *layers_[index < 0 ? index + size() : index];
}

void Sequential::members(Members& m) {
  for (size_t i = 0; i < layers_.size(); ++i) m(std::to_string(i), *layers_[i]);
}

Variable Sequential::forward(const Variable& x, Where where) const {
  Variable y = x;
  for (std::span<const AnyModule> left = layers_; !left.empty();)
    left = left.subspan(run_first(left, y, where));
  return y;
}

Sequential::Sequential(std::initializer_list<AnyModule> layers, SequentialOptions options)
    : Sequential(std::vector<AnyModule>(layers), std::move(options)) {}

}  // namespace tapegrad::nn
