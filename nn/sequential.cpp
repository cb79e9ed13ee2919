#include "nn/sequential.h"

#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/init.h"
#include "nn/linear.h"

namespace tapegrad::nn {
namespace {

/// y = relu(layer(y)) by one op: false where there is none, or something watches what is between.
bool call_with_relu(const Module& layer, const Module& next, Variable& y, Where where) {
  if (typeid(next) != typeid(ReLU) || layer.is_watched() || next.is_watched()) return false;
  const auto* linear = dynamic_cast<const Linear*>(&layer);
  const auto* conv = dynamic_cast<const Conv2d*>(&layer);
  if (linear == nullptr && conv == nullptr) return false;
  const ModuleCall call(layer, where);
  try {
    y = linear != nullptr ? linear->forward_relu(y, where) : conv->forward_relu(y, where);
  } catch (Error& error) {
    tapegrad::detail::locate(error, where);
    throw;
  }
  return true;
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
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i + 1 < layers_.size() && call_with_relu(*layers_[i], *layers_[i + 1], y, where))
      ++i;
    else
      y = layers_[i]->call(y, where);
  }
  return y;
}

Sequential::Sequential(std::initializer_list<AnyModule> layers, SequentialOptions options)
    : Sequential(std::vector<AnyModule>(layers), std::move(options)) {}

}  // namespace tapegrad::nn
