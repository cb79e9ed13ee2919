// ResNet-50 (He et al. 2015, with the stride in the 3 x 3 convolution), for several benchmarks.
#pragma once

#include <tapegrad/tapegrad.h>

namespace tapegrad::bench {

struct Bottleneck : nn::Model<Bottleneck> {
  nn::Conv2d conv1, conv2, conv3;
  nn::BatchNorm2d norm1, norm2, norm3;
  nn::Sequential shortcut;  // empty: the shortcut is the input itself

  Bottleneck(int64_t in, int64_t width, int64_t stride)
      : conv1({.in_channels = in, .out_channels = width, .kernel_size = 1, .bias = false}),
        conv2({.in_channels = width,
               .out_channels = width,
               .kernel_size = 3,
               .stride = stride,
               .padding = 1,
               .bias = false}),
        conv3({.in_channels = width, .out_channels = 4 * width, .kernel_size = 1, .bias = false}),
        norm1({.num_features = width}),
        norm2({.num_features = width}),
        norm3({.num_features = 4 * width}) {
    if (in == 4 * width && stride == 1) return;
    shortcut.push_back(nn::Conv2d({.in_channels = in,
                                   .out_channels = 4 * width,
                                   .kernel_size = 1,
                                   .stride = stride,
                                   .bias = false}));
    shortcut.push_back(nn::BatchNorm2d({.num_features = 4 * width}));
  }

  void members(nn::Members& m) override {
    m("conv1", conv1)("norm1", norm1)("conv2", conv2)("norm2", norm2)("conv3", conv3);
    m("norm3", norm3)("shortcut", shortcut);
  }
  Variable forward(const Variable& x) const {
    Variable y = relu(norm1(conv1(x)));
    y = relu(norm2(conv2(y)));
    y = norm3(conv3(y));
    return relu(y + shortcut(x));
  }
};

struct ResNet50 : nn::Model<ResNet50> {
  nn::Conv2d stem{{.in_channels = 3,
                   .out_channels = 64,
                   .kernel_size = 7,
                   .stride = 2,
                   .padding = 3,
                   .bias = false}};
  nn::BatchNorm2d norm{{.num_features = 64}};
  std::vector<Bottleneck> blocks;
  nn::Linear fc{{.in_features = 2048, .out_features = 1000}};

  ResNet50() {
    int64_t in = 64, width = 64;
    for (const int64_t depth : {3, 4, 6, 3}) {
      for (int64_t k = 0; k < depth; ++k, in = 4 * width)
        blocks.emplace_back(in, width, k == 0 && width > 64 ? 2 : 1);
      width *= 2;
    }
  }
  void members(nn::Members& m) override {
    m("stem", stem)("norm", norm)("blocks", blocks)("fc", fc);
  }
  Variable forward(const Variable& x) const {
    Variable y = max_pool2d(relu(norm(stem(x))), {.kernel_size = 3, .stride = {{2}}, .padding = 1});
    for (const Bottleneck& block : blocks) y = block(y);
    return fc(flatten(adaptive_avg_pool2d(y, 1), 1));
  }
};

}  // namespace tapegrad::bench
