#include "nn/sequential.h"

#include <utility>

#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "ops/linear.h"

namespace tapegrad::nn {
namespace {

/// Whether layer i is a Layer whose result nothing observes.
template <typename Layer>
bool is_plain(std::span<const AnyModule> layers, size_t i) {
  if (i >= layers.size()) return false;
  const Module& layer = *layers[i];
  return typeid(layer) == typeid(Layer) && !layer.is_watched();
}

bool is_tanh_gelu(std::span<const AnyModule> layers, size_t i) {
  return is_plain<GELU>(layers, i) &&
         static_cast<const GELU&>(*layers[i]).approximate() == Gelu::kTanh;
}

/// A layer with what is around it, by one op of the layer: run(layer).
template <typename Layer, typename Run>
auto call_joined(const Module& module, Where where, const Run& run) {
  const auto& layer = static_cast<const Layer&>(module);
  const ModuleCall call(layer, where);
  try {
    return run(layer);
  } catch (Error& error) {
    tapegrad::detail::locate(error, where);
    throw;
  }
}

/// Runs the first layer, or the first two where they are faster together; gives how many. A Linear
/// that joins the activation behind it hands on what a Linear that comes next takes its gradient
/// along by.
size_t run_first(std::span<const AnyModule> layers, Activated& value, Where where) {
  const Activated from = std::exchange(value, {});
  // The largest of rectified values is the largest value, rectified: of fewer values. The gradient
  // goes to the same element, or to none.
  if (is_plain<ReLU>(layers, 0) && is_plain<MaxPool2d>(layers, 1)) {
    value.y = layers[0]->call(layers[1]->call(from.y, where), where);
    return 2;
  }
  const bool relu_follows = is_plain<ReLU>(layers, 1) && !is_plain<MaxPool2d>(layers, 2);
  if (relu_follows && is_plain<Conv2d>(layers, 0)) {
    value.y = call_joined<Conv2d>(
        *layers[0], where, [&](const Conv2d& layer) { return layer.forward_relu(from.y, where); });
    return 2;
  }
  const Activation behind = relu_follows              ? Activation::kRelu
                            : is_tanh_gelu(layers, 1) ? Activation::kGelu
                                                      : Activation::kNone;
  if (is_plain<Linear>(layers, 0) && (behind != Activation::kNone || from.x.defined())) {
    value = call_joined<Linear>(*layers[0], where, [&](const Linear& layer) {
      const bool is_alone = relu_follows && !from.x.defined() && !is_plain<Linear>(layers, 2);
      return is_alone ? Activated{layer.forward_relu(from.y, where)}
                      : layer.forward_joined(from, behind, where);
    });
    return behind == Activation::kNone ? 1 : 2;
  }
  value.y = layers[0]->call(from.y, where);
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
  Activated value{x};
  for (std::span<const AnyModule> left = layers_; !left.empty();)
    left = left.subspan(run_first(left, value, where));
  return value.y;
}

Sequential::Sequential(std::initializer_list<AnyModule> layers, SequentialOptions options)
    : Sequential(std::vector<AnyModule>(layers), std::move(options)) {}

}  // namespace tapegrad::nn
