// Networks that predict images, boxes or pixels, and two newer classifiers.
#include "benchmarks/unseen/networks.h"

namespace tapegrad::bench {
namespace {

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t dilation = 1) {
  return nn::Conv2d({.in_channels = in,
                     .out_channels = out,
                     .kernel_size = kernel,
                     .stride = stride,
                     .padding = kernel / 2 * dilation,
                     .dilation = dilation});
}

nn::ConvTranspose2d grow(int64_t in, int64_t out) {
  return nn::ConvTranspose2d(
      {.in_channels = in, .out_channels = out, .kernel_size = 4, .stride = 2, .padding = 1});
}

struct Autoencoder : nn::Model<Autoencoder> {
  nn::Conv2d down1 = conv(3, 32, 3, 2), down2 = conv(32, 64, 3, 2), down3 = conv(64, 128, 3, 2);
  nn::ConvTranspose2d up3 = grow(128, 64), up2 = grow(64, 32), up1 = grow(32, 3);

  void members(nn::Members& m) override {
    m("down1", down1)("down2", down2)("down3", down3)("up3", up3)("up2", up2)("up1", up1);
  }
  Variable forward(const Variable& x) const {
    const Variable code = relu(down3(relu(down2(relu(down1(x))))));
    return sigmoid(up1(relu(up2(relu(up3(code))))));
  }
};

struct Segmentation : nn::Model<Segmentation> {
  nn::Conv2d stem = conv(3, 32, 3, 2), body = conv(32, 64, 3, 2);
  nn::Conv2d wide1 = conv(64, 64, 3, 1, 2), wide2 = conv(64, 64, 3, 1, 4), mixed = conv(192, 64, 1);
  nn::Conv2d out = conv(64, 21, 1);
  nn::BatchNorm2d norm1{{.num_features = 32}}, norm2{{.num_features = 64}},
      norm3{{.num_features = 64}};

  void members(nn::Members& m) override {
    m("stem", stem)("norm1", norm1)("body", body)("norm2", norm2)("wide1", wide1)("wide2", wide2);
    m("mixed", mixed)("norm3", norm3)("out", out);
  }
  Variable forward(const Variable& x) const {
    const Variable y = relu(norm2(body(relu(norm1(stem(x))))));
    const Variable parts = cat({y, relu(wide1(y)), relu(wide2(y))}, 1);
    const Variable scores = out(relu(norm3(mixed(parts))));
    return interpolate(scores, {.scale_factor = 4.0, .mode = SampleMode::kLinear});
  }
};

/// Classes and boxes at every place of two feature maps, as single-shot detectors have them.
struct Detection : nn::Model<Detection> {
  static constexpr int64_t kClasses = 20, kBoxes = 6;
  nn::Conv2d conv1 = conv(3, 32, 3, 2), conv2 = conv(32, 64, 3, 2), conv3 = conv(64, 128, 3, 2),
             conv4 = conv(128, 128, 3, 2);
  nn::GroupNorm norm1{{.num_groups = 8, .num_channels = 64}},
      norm2{{.num_groups = 8, .num_channels = 128}};
  nn::Conv2d class3 = conv(128, kBoxes*kClasses, 3), box3 = conv(128, kBoxes * 4, 3);
  nn::Conv2d class4 = conv(128, kBoxes*kClasses, 3), box4 = conv(128, kBoxes * 4, 3);

  void members(nn::Members& m) override {
    m("conv1", conv1)("conv2", conv2)("norm1", norm1)("conv3", conv3)("norm2", norm2);
    m("conv4", conv4)("class3", class3)("box3", box3)("class4", class4)("box4", box4);
  }
  static Variable rows(const Variable& y, int64_t columns) {
    return reshape(permute(y, {0, 2, 3, 1}), {y.size(0), -1, columns});
  }
  /// Returns scores [batch, places, classes] and boxes [batch, places, 4].
  std::vector<Variable> forward(const Variable& x) const {
    const Variable y = relu(norm1(conv2(relu(conv1(x)))));
    const Variable a = relu(norm2(conv3(y))), b = relu(conv4(a));
    return {cat({rows(class3(a), kClasses), rows(class4(b), kClasses)}, 1),
            cat({rows(box3(a), 4), rows(box4(b), 4)}, 1)};
  }
};

struct ConvNextBlock : nn::Model<ConvNextBlock> {
  nn::Conv2d depthwise;
  nn::LayerNorm norm;
  nn::Linear up, down;
  Variable scale;

  explicit ConvNextBlock(int64_t width)
      : depthwise({.in_channels = width,
                   .out_channels = width,
                   .kernel_size = 7,
                   .padding = 3,
                   .groups = width}),
        norm({.normalized_shape = {width}}),
        up({.in_features = width, .out_features = 4 * width}),
        down({.in_features = 4 * width, .out_features = width}),
        scale(full({width}, 1e-6).requires_grad_()) {}
  void members(nn::Members& m) override {
    m("depthwise", depthwise)("norm", norm)("up", up)("down", down)("scale", scale);
  }
  Variable forward(const Variable& x) const {
    const Variable y = norm(permute(depthwise(x), {0, 2, 3, 1}));
    return x + permute(scale * down(gelu(up(y))), {0, 3, 1, 2});
  }
};

struct ConvNext : nn::Model<ConvNext> {
  nn::Conv2d stem{{.in_channels = 3, .out_channels = 96, .kernel_size = 4, .stride = 4}};
  std::vector<ConvNextBlock> blocks;
  nn::Linear fc{{.in_features = 96, .out_features = 100}};

  ConvNext() {
    for (int i = 0; i < 4; ++i) blocks.emplace_back(96);
  }
  void members(nn::Members& m) override { m("stem", stem)("blocks", blocks)("fc", fc); }
  Variable forward(const Variable& x) const {
    Variable y = stem(x);
    for (const ConvNextBlock& block : blocks) y = block(y);
    return fc(mean(y, {2, 3}));
  }
};

/// Squeeze and excitation with SiLU, as in EfficientNet.
struct SqueezeBlock : nn::Model<SqueezeBlock> {
  nn::Conv2d conv1, reduce, expand;
  nn::BatchNorm2d norm;

  explicit SqueezeBlock(int64_t width)
      : conv1(conv(width, width, 3)),
        reduce(conv(width, width / 8, 1)),
        expand(conv(width / 8, width, 1)),
        norm({.num_features = width}) {}
  void members(nn::Members& m) override {
    m("conv1", conv1)("norm", norm)("reduce", reduce)("expand", expand);
  }
  Variable forward(const Variable& x) const {
    const Variable y = silu(norm(conv1(x)));
    const Variable gate = sigmoid(expand(silu(reduce(mean(y, {2, 3}, true)))));
    return x + y * gate;
  }
};

struct SqueezeNet : nn::Model<SqueezeNet> {
  nn::Conv2d stem = conv(3, 64, 3, 2);
  std::vector<SqueezeBlock> blocks;
  nn::Linear fc{{.in_features = 64, .out_features = 10}};

  SqueezeNet() {
    for (int i = 0; i < 4; ++i) blocks.emplace_back(64);
  }
  void members(nn::Members& m) override { m("stem", stem)("blocks", blocks)("fc", fc); }
  Variable forward(const Variable& x) const {
    Variable y = silu(stem(x));
    for (const SqueezeBlock& block : blocks) y = block(y);
    return fc(mean(y, {2, 3}));
  }
};

Step autoencoder() {
  const Variable x = rand({32, 3, 64, 64});
  return training<optim::Adam>(Autoencoder(), [=](const auto& net) { return mse_loss(net(x), x); });
}

Step segmentation() {
  const Variable x = randn({4, 3, 128, 128}), y = randint(0, 21, {4, 128, 128});
  return training(Segmentation(), [=](const auto& net) { return cross_entropy(net(x), y); });
}

Step detection() {
  constexpr int64_t kBatch = 8, kPlaces = (16 * 16 + 8 * 8) * Detection::kBoxes;
  const Variable x = randn({kBatch, 3, 128, 128});
  const Variable classes = (rand({kBatch, kPlaces, Detection::kClasses}) < 0.01).to(f32);
  const Variable boxes = randn({kBatch, kPlaces, 4});
  return training<optim::Adam>(Detection(), [=](const auto& net) {
    const std::vector<Variable> y = net(x);
    return binary_cross_entropy_with_logits(y[0], classes) + smooth_l1_loss(y[1], boxes);
  });
}

template <typename Model>
Step classifier(int64_t batch, int64_t side, int64_t classes) {
  const Variable x = randn({batch, 3, side, side}), y = randint(0, classes, {batch});
  return training<optim::AdamW>(Model(), [=](const auto& net) { return cross_entropy(net(x), y); });
}

struct TimedBlock : nn::Model<TimedBlock> {
  bool same;
  nn::GroupNorm norm1, norm2;
  nn::Conv2d conv1, conv2, skip;
  nn::Linear time;
  TimedBlock(int64_t in, int64_t out)
      : same(in == out),
        norm1(8, in),
        norm2(8, out),
        conv1(in, out, 3, {.padding = 1}),
        conv2(out, out, 3, {.padding = 1}),
        skip(in, out, 1),
        time(128, out) {}
  void members(nn::Members& m) override {
    m("norm1", norm1)("norm2", norm2)("conv1", conv1)("conv2", conv2)("skip", skip)("time", time);
  }
  Variable forward(const Variable& x, const Variable& t) const {
    auto h = conv1(silu(norm1(x)));
    h = h + time(silu(t)).unsqueeze(-1).unsqueeze(-1);
    h = conv2(silu(norm2(h)));
    return h + (same ? x : skip(x));
  }
};
/// Predicts the noise in an image by a U-Net with the time as input.
struct Diffusion : nn::Model<Diffusion> {
  nn::Conv2d in{3, 64, 3, {.padding = 1}}, out{64, 3, 3, {.padding = 1}};
  nn::Conv2d down{64, 64, 3, {.stride = 2, .padding = 1}};
  TimedBlock a{64, 64}, b{64, 128}, c{128, 128}, d{192, 64};
  nn::GroupNorm norm{8, 128};
  nn::MultiheadAttention attention{{.embed_dim = 128, .num_heads = 4, .batch_first = true}};
  nn::Linear time1{64, 128}, time2{128, 128};
  void members(nn::Members& m) override {
    m("in", in)("out", out)("down", down)("a", a)("b", b)("c", c)("d", d)("norm", norm);
    m("attention", attention)("time1", time1)("time2", time2);
  }
  Variable forward(const Variable& x, const Variable& t) const {
    auto freqs = exp(arange(0, 32, {.dtype = f32}) * (-std::log(10000.0) / 32));
    auto args = t.to(f32).unsqueeze(1) * freqs;
    auto e = time2(silu(time1(cat({sin(args), cos(args)}, 1))));
    auto y0 = a(in(x), e);
    auto y = b(down(y0), e);
    auto n = y.size(0), ch = y.size(1), h = y.size(2), w = y.size(3);
    auto s = norm(y).flatten(2).transpose(1, 2);
    y = y + attention(s, s, s).transpose(1, 2).reshape({n, ch, h, w});
    y = c(y, e);
    y = interpolate(y, {.scale_factor = 2.0, .mode = "nearest"});
    return out(d(cat({y, y0}, 1), e));
  }
};
Step diffusion() {
  auto x = randn({8, 3, 32, 32}), noise = randn({8, 3, 32, 32}), t = randint(0, 1000, {8});
  return training<optim::AdamW>(Diffusion(), [=](auto& net) { return mse_loss(net(x, t), noise); });
}

struct StyleBlock : nn::Model<StyleBlock> {
  nn::Conv2d conv1{64, 64, 3}, conv2{64, 64, 3};
  nn::InstanceNorm2d norm1{64, {.affine = true}}, norm2{64, {.affine = true}};
  void members(nn::Members& m) override {
    m("conv1", conv1)("conv2", conv2)("norm1", norm1)("norm2", norm2);
  }
  Variable forward(const Variable& x) const {
    auto y = relu(norm1(conv1(pad(x, {1, 1, 1, 1}, {.mode = "reflect"}))));
    return x + norm2(conv2(pad(y, {1, 1, 1, 1}, {.mode = "reflect"})));
  }
};
/// An image in another style: instance norm, reflected borders.
struct Style : nn::Model<Style> {
  nn::Conv2d in{3, 32, 9}, down{32, 64, 3, {.stride = 2}}, up{64, 32, 3}, out{32, 3, 9};
  nn::InstanceNorm2d norm1{32}, norm2{64}, norm3{32};
  std::vector<StyleBlock> blocks = std::vector<StyleBlock>(2);
  void members(nn::Members& m) override {
    m("in", in)("down", down)("up", up)("out", out)("norm1", norm1)("norm2", norm2)("norm3", norm3)(
        "blocks", blocks);
  }
  Variable forward(const Variable& x) const {
    auto reflect = [](const Variable& v, int64_t p) {
      return pad(v, {p, p, p, p}, {.mode = "reflect"});
    };
    auto y = relu(norm1(in(reflect(x, 4))));
    y = relu(norm2(down(reflect(y, 1))));
    for (auto& b : blocks) y = b(y);
    y = interpolate(y, {.scale_factor = 2.0, .mode = "nearest"});
    y = relu(norm3(up(reflect(y, 1))));
    return out(reflect(y, 4));
  }
};
Step style() {
  auto x = rand({2, 3, 128, 128}), y = rand({2, 3, 128, 128});
  return training<optim::Adam>(Style(), [=](auto& net) { return mse_loss(net(x), y); });
}

}  // namespace

std::vector<Network> dense_image_networks() {
  return {
      {"autoencoder", "three convolutions and three transposed, 64 x 64, batch 32, Adam",
       autoencoder},
      {"segmentation", "dilated convolutions and bilinear upsampling, 128 x 128, batch 4, SGD",
       segmentation},
      {"detection", "single-shot head on two maps, group norm, 128 x 128, batch 8, Adam",
       detection},
      {"conv_next", "four ConvNeXt blocks of 96, 128 x 128, batch 4, AdamW",
       [] { return classifier<ConvNext>(4, 128, 100); }},
      {"squeeze", "squeeze and excitation with SiLU, 64 x 64, batch 16, AdamW",
       [] { return classifier<SqueezeNet>(16, 64, 10); }},
      {"diffusion", "U-Net with group norm, time and attention, 32 x 32, batch 8, AdamW",
       diffusion},
      {"style", "instance norm and reflected borders, 128 x 128, batch 2, Adam", style},
  };
}

}  // namespace tapegrad::bench
