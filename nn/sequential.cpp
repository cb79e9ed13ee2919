#include "nn/sequential.h"

#include "nn/init.h"

namespace tapegrad::nn {

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
  for (const AnyModule& layer : layers_) y = layer->call(y, where);
  return y;
}

Sequential::Sequential(std::initializer_list<AnyModule> layers, SequentialOptions options)
    : Sequential(std::vector<AnyModule>(layers), std::move(options)) {}

}  // namespace tapegrad::nn
