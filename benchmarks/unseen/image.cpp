// Networks on images and volumes.
#include "benchmarks/residual.h"
#include "benchmarks/unseen/networks.h"

namespace tapegrad::bench {
namespace {

struct InvertedResidual : nn::Model<InvertedResidual> {
  nn::Conv2d expand, depthwise, project;
  nn::BatchNorm2d norm1, norm2, norm3;
  bool is_residual;

  InvertedResidual(int64_t in, int64_t out, int64_t stride, int64_t factor)
      : expand({.in_channels = in, .out_channels = in * factor, .kernel_size = 1, .bias = false}),
        depthwise({.in_channels = in * factor,
                   .out_channels = in * factor,
                   .kernel_size = 3,
                   .stride = stride,
                   .padding = 1,
                   .groups = in * factor,
                   .bias = false}),
        project({.in_channels = in * factor, .out_channels = out, .kernel_size = 1, .bias = false}),
        norm1({.num_features = in * factor}),
        norm2({.num_features = in * factor}),
        norm3({.num_features = out}),
        is_residual(in == out && stride == 1) {}

  void members(nn::Members& m) override {
    m("expand", expand)("norm1", norm1)("depthwise", depthwise)("norm2", norm2);
    m("project", project)("norm3", norm3);
  }
  Variable forward(const Variable& x) const {
    Variable y = relu6(norm1(expand(x)));
    y = relu6(norm2(depthwise(y)));
    y = norm3(project(y));
    return is_residual ? x + y : y;
  }
};

struct MobileNet : nn::Model<MobileNet> {
  nn::Conv2d stem{{.in_channels = 3,
                   .out_channels = 32,
                   .kernel_size = 3,
                   .stride = 2,
                   .padding = 1,
                   .bias = false}};
  nn::BatchNorm2d stem_norm{{.num_features = 32}};
  std::vector<InvertedResidual> blocks;
  nn::Conv2d last{{.in_channels = 320, .out_channels = 1280, .kernel_size = 1, .bias = false}};
  nn::BatchNorm2d last_norm{{.num_features = 1280}};
  nn::Linear fc{{.in_features = 1280, .out_features = 100}};

  MobileNet() {
    struct Stage {
      int64_t factor, channels, depth, stride;
    };
    int64_t in = 32;
    for (const Stage& stage :
         {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
          Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}})
      for (int64_t k = 0; k < stage.depth; ++k, in = stage.channels)
        blocks.emplace_back(in, stage.channels, k == 0 ? stage.stride : 1, stage.factor);
  }
  void members(nn::Members& m) override {
    m("stem", stem)("stem_norm", stem_norm)("blocks", blocks);
    m("last", last)("last_norm", last_norm)("fc", fc);
  }
  Variable forward(const Variable& x) const {
    Variable y = relu6(stem_norm(stem(x)));
    for (const InvertedResidual& block : blocks) y = block(y);
    y = relu6(last_norm(last(y)));
    return fc(mean(y, {2, 3}));
  }
};

struct VitBlock : nn::Model<VitBlock> {
  static constexpr int64_t kWidth = 192, kHeads = 3;
  nn::LayerNorm norm1{{.normalized_shape = {kWidth}}}, norm2{{.normalized_shape = {kWidth}}};
  nn::Linear qkv{{.in_features = kWidth, .out_features = 3 * kWidth}};
  nn::Linear proj{{.in_features = kWidth, .out_features = kWidth}};
  nn::Linear up{{.in_features = kWidth, .out_features = 4 * kWidth}};
  nn::Linear down{{.in_features = 4 * kWidth, .out_features = kWidth}};

  void members(nn::Members& m) override {
    m("norm1", norm1)("norm2", norm2)("qkv", qkv)("proj", proj)("up", up)("down", down);
  }
  Variable forward(const Variable& x) const {
    const int64_t batch = x.size(0), length = x.size(1);
    const Variable parts = permute(
        reshape(qkv(norm1(x)), {batch, length, 3, kHeads, kWidth / kHeads}), {2, 0, 3, 1, 4});
    const Variable seen =
        scaled_dot_product_attention(select(parts, 0, 0), select(parts, 0, 1), select(parts, 0, 2));
    const Variable y = x + proj(reshape(transpose(seen, 1, 2), x.shape()));
    return y + down(gelu(up(norm2(y))));
  }
};

struct VitTiny : nn::Model<VitTiny> {
  static constexpr int64_t kWidth = VitBlock::kWidth, kPatches = 196;
  nn::Conv2d patches{{.in_channels = 3, .out_channels = kWidth, .kernel_size = 16, .stride = 16}};
  Variable token = zeros({1, 1, kWidth}).requires_grad_();
  Variable place = randn({1, kPatches + 1, kWidth}).requires_grad_();
  std::vector<VitBlock> blocks = std::vector<VitBlock>(12);
  nn::LayerNorm norm{{.normalized_shape = {kWidth}}};
  nn::Linear head{{.in_features = kWidth, .out_features = 1000}};

  void members(nn::Members& m) override {
    m("patches", patches)("token", token)("place", place)("blocks", blocks);
    m("norm", norm)("head", head);
  }
  Variable forward(const Variable& x) const {
    Variable y = transpose(flatten(patches(x), 2), 1, 2);
    y = cat({expand(token, {x.size(0), 1, kWidth}), y}, 1) + place;
    for (const VitBlock& block : blocks) y = block(y);
    return head(select(norm(y), 1, 0));
  }
};

struct DoubleConv : nn::Model<DoubleConv> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;

  DoubleConv(int64_t in, int64_t out)
      : conv1({.in_channels = in, .out_channels = out, .kernel_size = 3, .padding = 1}),
        conv2({.in_channels = out, .out_channels = out, .kernel_size = 3, .padding = 1}),
        norm1({.num_features = out}),
        norm2({.num_features = out}) {}
  void members(nn::Members& m) override {
    m("conv1", conv1)("norm1", norm1)("conv2", conv2)("norm2", norm2);
  }
  Variable forward(const Variable& x) const { return relu(norm2(conv2(relu(norm1(conv1(x)))))); }
};

struct UNet : nn::Model<UNet> {
  DoubleConv down1{3, 32}, down2{32, 64}, down3{64, 128}, middle{128, 256};
  DoubleConv up3{256, 128}, up2{128, 64}, up1{64, 32};
  nn::ConvTranspose2d grow3{
      {.in_channels = 256, .out_channels = 128, .kernel_size = 2, .stride = 2}};
  nn::ConvTranspose2d grow2{
      {.in_channels = 128, .out_channels = 64, .kernel_size = 2, .stride = 2}};
  nn::ConvTranspose2d grow1{{.in_channels = 64, .out_channels = 32, .kernel_size = 2, .stride = 2}};
  nn::Conv2d out{{.in_channels = 32, .out_channels = 2, .kernel_size = 1}};

  void members(nn::Members& m) override {
    m("down1", down1)("down2", down2)("down3", down3)("middle", middle);
    m("grow3", grow3)("up3", up3)("grow2", grow2)("up2", up2)("grow1", grow1)("up1", up1);
    m("out", out);
  }
  Variable forward(const Variable& x) const {
    const Variable a = down1(x);
    const Variable b = down2(max_pool2d(a, {.kernel_size = 2}));
    const Variable c = down3(max_pool2d(b, {.kernel_size = 2}));
    Variable y = middle(max_pool2d(c, {.kernel_size = 2}));
    y = up3(cat({c, grow3(y)}, 1));
    y = up2(cat({b, grow2(y)}, 1));
    y = up1(cat({a, grow1(y)}, 1));
    return out(y);
  }
};

struct Video : nn::Model<Video> {
  nn::Conv3d conv1{{.in_channels = 3, .out_channels = 32, .kernel_size = 3, .padding = 1}};
  nn::Conv3d conv2{{.in_channels = 32, .out_channels = 64, .kernel_size = 3, .padding = 1}};
  nn::Conv3d conv3{{.in_channels = 64, .out_channels = 128, .kernel_size = 3, .padding = 1}};
  nn::BatchNorm3d norm1{{.num_features = 32}}, norm2{{.num_features = 64}},
      norm3{{.num_features = 128}};
  nn::Linear fc{{.in_features = 128, .out_features = 10}};

  void members(nn::Members& m) override {
    m("conv1", conv1)("norm1", norm1)("conv2", conv2)("norm2", norm2)("conv3", conv3);
    m("norm3", norm3)("fc", fc);
  }
  Variable forward(const Variable& x) const {
    Variable y = max_pool3d(relu(norm1(conv1(x))), {.kernel_size = {1, 2, 2}});
    y = max_pool3d(relu(norm2(conv2(y))), {.kernel_size = 2});
    y = max_pool3d(relu(norm3(conv3(y))), {.kernel_size = 2});
    return fc(flatten(adaptive_avg_pool3d(y, 1), 1));
  }
};

Step mobile_net() {
  const Variable x = randn({16, 3, 96, 96}), y = randint(0, 100, {16});
  return training(MobileNet(), [=](const auto& net) { return cross_entropy(net(x), y); });
}

Step resnet50(bool is_bf16) {
  const Variable x = randn({4, 3, 224, 224}), y = randint(0, 1000, {4});
  return training(ResNet50(), [=](const auto& net) {
    const Autocast amp(bf16, is_bf16);
    return cross_entropy(net(x), y);
  });
}

Step vit_tiny() {
  const Variable x = randn({8, 3, 224, 224}), y = randint(0, 1000, {8});
  return training<optim::AdamW>(VitTiny(),
                                [=](const auto& net) { return cross_entropy(net(x), y); });
}

Step u_net() {
  const Variable x = randn({4, 3, 128, 128}), y = randint(0, 2, {4, 128, 128});
  return training<optim::Adam>(UNet(), [=](const auto& net) { return cross_entropy(net(x), y); });
}

Step video() {
  const Variable x = randn({4, 3, 16, 32, 32}), y = randint(0, 10, {4});
  return training<optim::Adam>(Video(), [=](const auto& net) { return cross_entropy(net(x), y); });
}

struct WindowAttention : nn::Model<WindowAttention> {
  nn::Linear qkv{96, 288}, proj{96, 96};
  Variable bias = randn({3, 49, 49}).requires_grad_();
  void members(nn::Members& m) override { m("qkv", qkv)("proj", proj)("bias", bias); }
  Variable forward(const Variable& x) const {
    const auto b = x.size(0);
    auto t = qkv(x).reshape({b, 49, 3, 3, 32}).permute({2, 0, 3, 1, 4});
    auto q = t[0], k = t[1], v = t[2];
    auto a = matmul(q, k.transpose(-2, -1)) / std::sqrt(32.0) + bias;
    return proj(matmul(softmax(a, -1), v).transpose(1, 2).reshape({b, 49, 96}));
  }
};
struct SwinBlock : nn::Model<SwinBlock> {
  int64_t shift;
  nn::LayerNorm norm1{96}, norm2{96};
  WindowAttention attention;
  nn::Linear up{96, 384}, down{384, 96};
  explicit SwinBlock(int64_t s) : shift(s) {}
  void members(nn::Members& m) override {
    m("norm1", norm1)("norm2", norm2)("attention", attention)("up", up)("down", down);
  }
  Variable forward(const Variable& x) const {
    const auto b = x.size(0);
    auto y = roll(norm1(x), {-shift, -shift}, {1, 2});
    y = y.reshape({b, 8, 7, 8, 7, 96}).permute({0, 1, 3, 2, 4, 5}).reshape({b * 64, 49, 96});
    y = attention(y);
    y = y.reshape({b, 8, 8, 7, 7, 96}).permute({0, 1, 3, 2, 4, 5}).reshape({b, 56, 56, 96});
    y = x + roll(y, {shift, shift}, {1, 2});
    return y + down(gelu(up(norm2(y))));
  }
};
/// Attention within windows of 7 x 7, which the second block shifts.
struct Swin : nn::Model<Swin> {
  nn::Conv2d patch{3, 96, 4, {.stride = 4}};
  SwinBlock a{0}, b{3};
  nn::Linear head{96, 10};
  void members(nn::Members& m) override { m("patch", patch)("a", a)("b", b)("head", head); }
  Variable forward(const Variable& x) const {
    auto y = patch(x).permute({0, 2, 3, 1});
    return head(b(a(y)).mean({1, 2}));
  }
};
Step swin() {
  auto x = randn({4, 3, 224, 224}), y = randint(0, 10, {4});
  return training<optim::AdamW>(Swin(), [=](auto& net) { return cross_entropy(net(x), y); });
}

}  // namespace

std::vector<Network> image_networks() {
  return {
      {"mobile_net", "MobileNetV2, 96 x 96, batch 16, SGD", mobile_net},
      {"resnet50", "ResNet-50, 224 x 224, batch 4, SGD", [] { return resnet50(false); }},
      {"resnet50_bf16", "the same under Autocast(bf16)", [] { return resnet50(true); }},
      {"vit_tiny", "ViT-Tiny/16, 224 x 224, batch 8, AdamW", vit_tiny},
      {"u_net", "U-Net of four levels, 128 x 128, batch 4, Adam", u_net},
      {"video", "three Conv3d with batch norm, 16 x 32 x 32, batch 4, Adam", video},
      {"swin", "two blocks of window attention of 96, 224 x 224, batch 4, AdamW", swin},
  };
}

}  // namespace tapegrad::bench
