#include "nn/builder.h"

#include "nn/init.h"

namespace tapegrad::nn {

LayerBuilder& LayerBuilder::add(char kind, LayerOptions o) {
  const Shape before = size() == 0 ? input_shape_ : model_[-1].out_shape();
  const AnyModule activation = o.activation ? *o.activation : AnyModule(ReLU());
  Sequential layer;
  if ((kind == 'c' || kind == 'p') && before.rank() == 2)
    layer.push_back(Unflatten(1, {1, before[0]}));  // [n, h, w] -> [n, 1, h, w]
  switch (kind) {
    case 'c':
      layer.push_back(Conv2d({.out_channels = o.out,
                              .kernel_size = o.kernel_size,
                              .stride = o.stride == Size2d(0) ? Size2d(1) : o.stride,
                              .padding = o.padding}));
      layer.push_back(activation);
      break;
    case 'p':
      require_option("MaxPool2d", ".kernel_size", o.kernel_size.height);
      layer.push_back(
          MaxPool2d({.kernel_size = o.kernel_size,
                     .stride = o.stride == Size2d(0) ? std::nullopt : std::optional(o.stride),
                     .padding = o.padding}));
      break;
    case 'm':
    case 'o':
      if (before.rank() > 1) layer.push_back(Flatten());
      layer.push_back(Linear({.out_features = o.out}));
      if (kind == 'm') layer.push_back(activation);
      break;
    default:
      fail<ArgumentError>("LayerBuilder: a layer is c, p, m or o, not '", kind, '\'');
  }
  initialize(layer, init::uniform_range(o.weight_range));
  layer.infer(before);
  model_.push_back(layer);
  return *this;
}

LayerBuilder::LayerBuilder(const Shape& input_shape) : input_shape_(input_shape) {}
int64_t LayerBuilder::size() const { return model_.size(); }
}  // namespace tapegrad::nn
