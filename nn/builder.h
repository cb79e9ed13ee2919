// LayerBuilder: builds a network from letters. The input size of each layer is taken from the
// previous layer.
//
//   nn::LayerBuilder net({1, 28, 28});
//   net.add('c', {.out = 10, .kernel_size = 3, .padding = 1});    // convolution
//   net.add('p', {.kernel_size = 2});                             // pooling
//   net.add('m', {.out = 100});                                   // dense ("middle")
//   net.add('o', {.out = 10});                                    // output: no activation
//   net[-1].out_shape();                                          // [10]
//   cross_entropy(net.model()(x), labels);                        // softmax and error in one
//
// Each layer is one entry of model(), and can therefore be a separate parameter group: `{.params =
// net[0].parameters(), .lr = 0.1}`.
#pragma once

#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/sequential.h"

namespace tapegrad::nn {

struct LayerOptions {
  int64_t out = 0;                           // channels (c) or features (m, o); required for these
  Size2d kernel_size = 0;                    // for c and p; required for these
  Size2d stride = 0;                         // 0 means the default: 1 for c, kernel_size for p
  Size2d padding = 0;                        // for c and p
  std::optional<AnyModule> activation = {};  // for c and m; ReLU by default
  double weight_range = 0.05;                // weights are uniform in +-weight_range, biases 0
};

class LayerBuilder {
 public:
  /// Shape of an example, without the batch dimension. An image [h, w] has one channel.
  explicit LayerBuilder(const Shape& input_shape);

  /// Adds a layer: c for convolution and activation, p for max pooling, m for dense and activation,
  /// o for dense. Images are flattened before the first dense layer. Throws ArgumentError for
  /// another letter.
  LayerBuilder& add(char kind, LayerOptions options);

  /// Returns a layer; a negative index counts from the end.
  Module& operator[](int64_t index) const { return model_[index]; }
  int64_t size() const;
  Sequential& model() { return model_; }

 private:
  Shape input_shape_;
  Sequential model_;
};

}  // namespace tapegrad::nn
