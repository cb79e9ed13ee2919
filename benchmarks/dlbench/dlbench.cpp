// The networks of "Benchmarking State-of-the-Art Deep Learning Software Tools" (Shi, Wang, Xu and
// Chu, arXiv 1608.07249), with the sizes of its repository (hclhkbu/dlbench): a training step on
// data in memory, by SGD. benchmarks/steps.h describes the command line; TAPEGRAD_DEVICE=cuda runs
// on a GPU. benchmarks/peers/torch_dlbench.py has the same networks in PyTorch.
#include "benchmarks/residual.h"
#include "benchmarks/steps.h"

namespace tapegrad::bench {
namespace {

/// Dense layers with a sigmoid between them.
nn::Sequential dense(const std::vector<int64_t>& sizes) {
  std::vector<nn::AnyModule> layers;
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (i > 1) layers.emplace_back(nn::Sigmoid());
    layers.emplace_back(nn::Linear({.in_features = sizes[i - 1], .out_features = sizes[i]}));
  }
  return nn::Sequential(layers);
}

/// AlexNet in the form of Krizhevsky 2014 (arXiv 1404.5997), as the repository's Torch program has
/// it: without groups, local normalisation and dropout.
nn::Sequential alexnet() {
  const nn::MaxPool2d pool(MaxPool2dOptions{.kernel_size = 3, .stride = Size2d(2)});
  return nn::Sequential(
      {nn::Conv2d(
           {.in_channels = 3, .out_channels = 64, .kernel_size = 11, .stride = 4, .padding = 2}),
       nn::ReLU(), pool,
       nn::Conv2d({.in_channels = 64, .out_channels = 192, .kernel_size = 5, .padding = 2}),
       nn::ReLU(), pool,
       nn::Conv2d({.in_channels = 192, .out_channels = 384, .kernel_size = 3, .padding = 1}),
       nn::ReLU(),
       nn::Conv2d({.in_channels = 384, .out_channels = 256, .kernel_size = 3, .padding = 1}),
       nn::ReLU(),
       nn::Conv2d({.in_channels = 256, .out_channels = 256, .kernel_size = 3, .padding = 1}),
       nn::ReLU(), pool, nn::Flatten(),
       nn::Linear({.in_features = 256 * 6 * 6, .out_features = 4096}), nn::ReLU(),
       nn::Linear({.in_features = 4096, .out_features = 4096}), nn::ReLU(),
       nn::Linear({.in_features = 4096, .out_features = 1000})});
}

/// Returns the small network of cuda-convnet ("layers-18pct") without its local normalisation.
nn::Sequential alexnet_r() {
  const nn::AvgPool2d mean_pool(
      AvgPool2dOptions{.kernel_size = 3, .stride = Size2d(2), .ceil_mode = true});
  return nn::Sequential(
      {nn::Conv2d({.in_channels = 3, .out_channels = 32, .kernel_size = 5, .padding = 2}),
       nn::MaxPool2d(MaxPool2dOptions{.kernel_size = 3, .stride = Size2d(2), .ceil_mode = true}),
       nn::ReLU(),
       nn::Conv2d({.in_channels = 32, .out_channels = 32, .kernel_size = 5, .padding = 2}),
       nn::ReLU(), mean_pool,
       nn::Conv2d({.in_channels = 32, .out_channels = 64, .kernel_size = 5, .padding = 2}),
       nn::ReLU(), mean_pool, nn::Flatten(),
       nn::Linear({.in_features = 64 * 4 * 4, .out_features = 10})});
}

/// A block of ResNet-56 for images of 32 x 32 (He et al. 2015). The shortcut of a block that halves
/// the image takes every second pixel and pads the channels with zeros.
struct Basic : nn::Model<Basic> {
  int64_t in, out;
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;

  Basic(int64_t in, int64_t out)
      : in(in),
        out(out),
        conv1({.in_channels = in,
               .out_channels = out,
               .kernel_size = 3,
               .stride = in == out ? 1 : 2,
               .padding = 1,
               .bias = false}),
        conv2({.in_channels = out,
               .out_channels = out,
               .kernel_size = 3,
               .padding = 1,
               .bias = false}),
        norm1({.num_features = out}),
        norm2({.num_features = out}) {}

  void members(nn::Members& m) override {
    m("conv1", conv1)("norm1", norm1)("conv2", conv2)("norm2", norm2);
  }
  Variable forward(const Variable& x) const {
    const Variable y = norm2(conv2(relu(norm1(conv1(x)))));
    if (in == out) return relu(y + x);
    const Variable half = slice(slice(x, 2, 0, kEnd, 2), 3, 0, kEnd, 2);
    return relu(y + pad(half, {0, 0, 0, 0, in / 2, in / 2}));
  }
};

struct ResNet56 : nn::Model<ResNet56> {
  nn::Conv2d stem{
      {.in_channels = 3, .out_channels = 16, .kernel_size = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d norm{{.num_features = 16}};
  std::vector<Basic> blocks;
  nn::Linear fc{{.in_features = 64, .out_features = 10}};

  ResNet56() {
    int64_t in = 16;
    for (const int64_t out : {16, 32, 64})
      for (int k = 0; k < 9; ++k, in = out) blocks.emplace_back(in, out);
  }
  void members(nn::Members& m) override {
    m("stem", stem)("norm", norm)("blocks", blocks)("fc", fc);
  }
  Variable forward(const Variable& x) const {
    Variable y = relu(norm(stem(x)));
    for (const Basic& block : blocks) y = block(y);
    return fc(mean(y, {2, 3}));
  }
};

struct LanguageModel : nn::Model<LanguageModel> {
  static constexpr int64_t kWords = 10'000, kWidth = 256;
  nn::Embedding embedding{{.num_embeddings = kWords, .embedding_dim = kWidth}};
  nn::LSTM lstm{{.input_size = kWidth, .hidden_size = kWidth, .num_layers = 2}};
  nn::Linear out{{.in_features = kWidth, .out_features = kWords}};

  void members(nn::Members& m) override { m("embedding", embedding)("lstm", lstm)("out", out); }
  Variable forward(const Variable& words) const {
    return out(flatten(lstm(embedding(words))[0], 0, 1));
  }
};

/// Returns a step of a classifier on random inputs of the given shape.
template <typename Model>
Step classify(Model model, const Shape& shape, int64_t classes, double lr) {
  const Variable x = randn(shape), y = randint(0, classes, {shape[0]});
  return training(
      std::move(model), [=](auto& net) { return cross_entropy(net(x), y); }, lr);
}

Step lstm(int64_t batch) {
  constexpr int64_t kSteps = 32;
  const Variable x = randint(0, LanguageModel::kWords, {kSteps, batch});
  const Variable y = randint(0, LanguageModel::kWords, {kSteps * batch});
  return training(
      LanguageModel(), [=](auto& net) { return cross_entropy(net(x), y); }, 1.0);
}

struct Family {
  std::string name, description;
  std::vector<int64_t> batches;
  std::function<Step(int64_t batch)> make;
};

std::vector<Network> networks() {
  const std::vector<Family> families = {
      {"fcn5",
       "FCN-5, 26752-2048-2048-2048-26752, sigmoid",
       {64},
       [](int64_t n) {
         return classify(dense({26752, 2048, 2048, 2048, 26752}), {n, 26752}, 26752, 0.05);
       }},
      {"fcn8",
       "FCN-8, six hidden layers of 2048",
       {64},
       [](int64_t n) {
         return classify(dense({26752, 2048, 2048, 2048, 2048, 2048, 2048, 26752}), {n, 26752},
                         26752, 0.05);
       }},
      {"alexnet",
       "AlexNet, 224 x 224",
       {16},
       [](int64_t n) {
         return classify(alexnet(), {n, 3, 224, 224}, 1000, 0.01);
       }},
      {"resnet50",
       "ResNet-50, 224 x 224",
       {16},
       [](int64_t n) {
         return classify(ResNet50(), {n, 3, 224, 224}, 1000, 0.01);
       }},
      {"fcn_r",
       "FCN-R, 784-2048-4096-1024-10, sigmoid",
       {342, 512, 1024, 4096},
       [](int64_t n) {
         return classify(dense({784, 2048, 4096, 1024, 10}), {n, 784}, 10, 0.05);
       }},
      {"alexnet_r",
       "AlexNet-R, 32 x 32",
       {64, 128, 256, 512, 1024, 2048},
       [](int64_t n) {
         return classify(alexnet_r(), {n, 3, 32, 32}, 10, 0.01);
       }},
      {"resnet56",
       "ResNet-56, 32 x 32",
       {11, 16, 32, 64, 128},
       [](int64_t n) {
         return classify(ResNet56(), {n, 3, 32, 32}, 10, 0.01);
       }},
      {"lstm",
       "LSTM, two layers of 256, 10,000 words, 32 steps",
       {32, 64, 128, 256, 512, 1024},
       lstm},
  };
  std::vector<Network> all;
  for (const Family& family : families)
    for (const int64_t batch : family.batches)
      all.push_back({family.name + "/" + std::to_string(batch),
                     family.description + ", batch " + std::to_string(batch),
                     [=] { return family.make(batch); }});
  return all;
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) {
  return tapegrad::bench::run_networks(tapegrad::bench::networks(), argc, argv);
}
