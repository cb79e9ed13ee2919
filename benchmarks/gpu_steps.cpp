// Training steps, eager and graphed, and the cost of loading batches.
#include <cmath>
#include <iostream>
#include <optional>

#include "benchmarks/gpu.h"
#include "benchmarks/measure.h"
#include "benchmarks/workloads.h"
#include "core/base/generator.h"
#include "core/tape/autocast.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "train/graphed_step.h"

namespace tapegrad::bench {
namespace {

using ::bench::print_line;

struct Bottleneck : nn::Model<Bottleneck> {
  nn::Conv2d conv1, conv2, conv3, shortcut;
  nn::BatchNorm2d norm1, norm2, norm3, shortcut_norm;
  bool direct;

  Bottleneck(int64_t in, int64_t width, int64_t stride)
      : conv1(conv(in, width, 1, 1)),
        conv2(conv(width, width, 3, stride)),
        conv3(conv(width, 4 * width, 1, 1)),
        shortcut(conv(in, 4 * width, 1, stride)),
        norm1({.num_features = width}),
        norm2({.num_features = width}),
        norm3({.num_features = 4 * width}),
        shortcut_norm({.num_features = 4 * width}),
        direct(in == 4 * width && stride == 1) {}
  void members(nn::Members& m) override {
    m("conv1", conv1)("norm1", norm1)("conv2", conv2)("norm2", norm2);
    m("conv3", conv3)("norm3", norm3);
    if (!direct) m("shortcut", shortcut)("shortcut_norm", shortcut_norm);
  }
  Variable forward(const Variable& x) const {
    const Variable y = relu(norm2(conv2(relu(norm1(conv1(x))))));
    return relu(norm3(conv3(y)) + (direct ? x : shortcut_norm(shortcut(x))));
  }
};

struct ResNet50 : nn::Model<ResNet50> {
  nn::Conv2d stem = conv(3, 64, 7, 2);
  nn::BatchNorm2d norm{{.num_features = 64}};
  std::vector<Bottleneck> blocks;
  nn::Linear fc{{.in_features = 2048, .out_features = 1000}};

  ResNet50() {
    int64_t in = 64, width = 64;
    for (const int count : {3, 4, 6, 3}) {
      for (int k = 0; k < count; ++k) {
        blocks.emplace_back(in, width, width > 64 && k == 0 ? 2 : 1);
        in = 4 * width;
      }
      width *= 2;
    }
  }
  void members(nn::Members& m) override {
    m("stem", stem)("norm", norm)("blocks", blocks)("fc", fc);
  }
  Variable forward(const Variable& x) const {
    Variable y = max_pool2d(relu(norm(stem(x))), {.kernel_size = 3, .stride = 2, .padding = 1});
    for (const Bottleneck& block : blocks) y = block(y);
    return fc(flatten(adaptive_avg_pool2d(y, 1), 1));
  }
};

Workload resnet50() {
  const auto net = std::make_shared<ResNet50>();
  const Variable x = randn({64, 3, 224, 224}), y = randint(0, 1000, {64});
  return {10, [=] { return cross_entropy((*net)(x), y); },
          std::make_unique<optim::SGD>(*net, optim::SGDOptions{.lr = 0.01, .momentum = 0.9})};
}

Workload keras_cnn_1024() {
  const auto net = std::make_shared<nn::Sequential>(
      nn::Sequential({nn::Conv2d({.out_channels = 32, .kernel_size = 3}), nn::ReLU(),
                      nn::Conv2d({.out_channels = 64, .kernel_size = 3}), nn::ReLU(),
                      nn::MaxPool2d({.kernel_size = 2}), nn::Dropout(0.25), nn::Flatten(),
                      nn::Linear({.out_features = 128}), nn::ReLU(), nn::Dropout(0.5),
                      nn::Linear({.out_features = 10})},
                     {.input_shape = {{1, 28, 28}}, .init = nn::init::keras}));
  const Variable x = randn({1024, 1, 28, 28}), y = randint(0, 10, {1024});
  return {50, [=] { return cross_entropy((*net)(x), y); },
          std::make_unique<optim::Adadelta>(*net, 1.0)};
}

std::optional<Workload> make(const std::string& name) {
  if (name == "resnet50") return resnet50();
  if (name == "keras_cnn_1024") return keras_cnn_1024();
  for (const WorkloadInfo& info : workloads())
    if (info.name == name) return info.make();
  return {};
}

}  // namespace

bool is_workload(const std::string& name) { return bool(make(name)); }

/// Average milliseconds per step over all steps, so that host work that overlaps the device costs
/// nothing.
void measure_steps(const std::string& name, bool graph) {
  manual_seed(1);
  Workload work = *make(name);
  const bool half = name == "gpt" || name.starts_with("resnet");
  GraphedStep step(
      [&] {
        work.optimizer->zero_grad();
        Variable loss;
        {
          const Autocast amp(bf16, half);
          loss = work.loss();
        }
        loss.backward();
        work.optimizer->step();
        return loss;
      },
      {}, {.enabled = graph});
  Variable loss;
  const auto run = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) loss = step();
    return loss.item();
  };
  run(10);
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    const double begin = ::bench::seconds();
    run(work.steps);
    times.push_back((::bench::seconds() - begin) * 1e3 / double(work.steps));
  }
  print_line(name + (graph ? ".graph" : ".eager"), ::bench::median(times), "ms");
  if (graph && !step.is_graphed())
    std::cerr << name << " is not graphed: " << step.reason() << '\n';
}

/// Loads 40,000 rows that are on the device: in one batch, in shuffled batches of 1000, and without
/// a loader, where every batch is the first one.
void measure_loading() {
  constexpr int64_t kRows = 40'000;
  const Variable x = rand({kRows, 2}), y = rand({kRows, 1});
  nn::Sequential net({nn::Linear({.in_features = 2, .out_features = 20}), nn::ReLU(),
                      nn::Linear({.in_features = 20, .out_features = 5}), nn::ReLU(),
                      nn::Linear({.in_features = 5, .out_features = 1})});
  optim::Adam adam(net, 0.001);
  Variable loss;
  const auto step = [&](const Variable& inputs, const Variable& targets) {
    adam.zero_grad();
    loss = mse_loss(net(inputs), targets);
    loss.backward();
    adam.step();
  };
  const auto line = [&](const std::string& name, const auto& epoch) {
    const double seconds = ::bench::time_of([&] {
      epoch();
      loss.item();  // waits for the device
    });
    print_line(name, seconds * 1e3, "ms");
  };
  for (const int64_t batch : {kRows, int64_t(1000)}) {
    DeviceLoader loader(TensorDataset(x, y), {.batch_size = batch, .shuffle = batch < kRows});
    const Variable first_x = narrow(x, 0, 0, batch), first_y = narrow(y, 0, 0, batch);
    const std::string name = "epoch." + std::to_string(batch);
    line(name + ".device_loader", [&] {
      for (const auto& [inputs, targets] : loader) step(inputs, targets);
    });
    line(name + ".without_loader", [&] {
      for (int64_t i = 0; i < kRows / batch; ++i) step(first_x, first_y);
    });
  }
}

}  // namespace tapegrad::bench
