// What a GPU does, in lines that scripts/gpu_check.sh reads: name, value, unit.
//
//   gpu bandwidth                  kernels beside a copy of 256 MiB, in GB/s
//   gpu gemm                       matrix products, in TFLOP/s
//   gpu attention                  as one op and by ops, in TFLOP/s
//   gpu steps [workload...]        milliseconds of a training step, eager and graphed
//
// Runs on the default device (TAPEGRAD_DEVICE=cuda); times are those of the device, by events.
#include <cmath>
#include <functional>
#include <iostream>
#include <optional>

#include "benchmarks/measure.h"
#include "benchmarks/workloads.h"
#include "core/autocast.h"
#include "core/cuda.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/attention_blocks.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "train/graphed_step.h"

namespace tapegrad::bench {
namespace {

using ::bench::print_line;

/// The median milliseconds of a call, over 20 after 5.
double device_ms(const std::function<void()>& call) {
  std::vector<double> times;
  for (int i = 0; i < 25; ++i) {
    cuda::Event begin, end;
    begin.record();
    call();
    end.record();
    const double ms = begin.elapsed_ms(end);
    if (i >= 5) times.push_back(ms);
  }
  return ::bench::median(std::move(times));
}

void bandwidth() {
  const NoGrad no_grad;
  constexpr int64_t kBytes = int64_t(256) << 20;
  for (const DType dtype : {f32, bf16}) {
    const int64_t n = kBytes / size_of(dtype), columns = 4096, rows = n / columns;
    const TensorOptions options{.dtype = dtype};
    const Variable x = rand({rows, columns}, options), y = rand({rows, columns}, options);
    const Variable scale = ones({columns}, options), shift = zeros({columns}, options);
    Variable to = zeros({rows, columns}, options);
    // The tensors that are read or written, of 256 MiB each.
    const auto line = [&](const char* name, double tensors, const std::function<void()>& call) {
      const double ms = device_ms(call);
      print_line(std::string(name) + '.' + std::string(tapegrad::name(dtype)),
                 tensors * double(kBytes) / ms / 1e6, "GB/s");
    };
    line("copy", 2, [&] { copy_(to, x); });
    line("add", 3, [&] { x + y; });
    line("relu", 2, [&] { relu(x); });
    line("gelu", 2, [&] { gelu(x); });
    line("sum", 1, [&] { sum(x); });
    line("sum_rows", 1, [&] { sum(x, {1}); });
    line("sum_columns", 1, [&] { sum(x, {0}); });
    line("softmax", 2, [&] { softmax(x, 1); });
    line("layer_norm", 2, [&] { layer_norm(x, {columns}, scale, shift); });

    // As a convolution leaves them: of sixteen bits with their channels last, where cuDNN is there.
    const Shape shape{n / (64 * 128 * 128), 64, 128, 128};
    const Variable images = conv2d(rand(shape, options), rand({64, 64, 1, 1}, options));
    const Variable mean = zeros({64}), var = ones({64}), weight = ones({64}), bias = zeros({64});
    const auto normalize = [&](const Variable& from) {
      return batch_norm(from, mean, var, weight, bias, {.training = true});
    };
    line("batch_norm", 2, [&] { normalize(images); });
    line("max_pool2d", 1.25, [&] { max_pool2d(images, {.kernel_size = 2}); });
    line("avg_pool2d", 1.25, [&] { avg_pool2d(images, {.kernel_size = 2}); });
    const Recording on(true);
    const Variable leaf = images.detach().requires_grad_(), normal = normalize(leaf);
    const Variable dy = images.detach();
    line("batch_norm_gradient", 3,
         [&] { grad(normal, std::vector{leaf}, dy, {.retain_graph = true}); });
  }
}

void gemm() {
  const NoGrad no_grad;
  const auto line = [](const std::string& kind, DType dtype) {
    for (const int64_t n : {1024, 4096, 8192}) {
      const Variable a = rand({n, n}, {.dtype = dtype}), b = rand({n, n}, {.dtype = dtype});
      const double ms = device_ms([&] { matmul(a, b); });
      print_line("matmul." + kind + '.' + std::to_string(n), 2e-9 * double(n) * n * n / ms,
                 "TFLOP/s");
    }
  };
  line("float32", f32);
  set_matmul_precision(MatmulPrecision::kHigh);
  line("tf32", f32);
  set_matmul_precision(MatmulPrecision::kHighest);
  line("float16", f16);
  line("bfloat16", bf16);
}

/// Sixteen heads, causal and not; forward alone, and with the gradient of all three operands.
void attention() {
  const auto line = [](DType dtype, int64_t length, int64_t features, bool causal, bool blocks) {
    const Variable x = randn({16, length, features}, {.dtype = dtype}).requires_grad_();
    const double scale = 1 / std::sqrt(double(features));
    const auto run = [&] {
      const AttentionOptions options{.is_causal = causal};
      return blocks ? scaled_dot_product_attention(x, x, x, options)
                    : detail::attention_by_ops(x, x, x, options, scale, default_generator());
    };
    // Two products forward and five for the gradient, however many are computed.
    const double product =
        16 * 2e-9 * double(length) * double(length) * double(features) / (causal ? 2 : 1);
    const std::string name = std::string(blocks ? "attention." : "attention_by_ops.") +
                             std::string(tapegrad::name(dtype)) + '.' + std::to_string(length) +
                             'x' + std::to_string(features) + (causal ? ".causal" : "");
    print_line(name, 2 * product / device_ms([&] {
                       const NoGrad no_grad;
                       run();
                     }),
               "TFLOP/s");
    const Variable dy = ones_like(x).detach();
    print_line(name + ".with_gradient", 7 * product / device_ms([&] { run().backward(dy); }),
               "TFLOP/s");
  };
  for (const DType dtype : {bf16, f32})
    for (const int64_t features : {64, 128})
      for (const bool causal : {false, true})
        for (const bool blocks : {true, false}) line(dtype, 2048, features, causal, blocks);
}

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

/// Milliseconds a step, over all of them: what is given to the device while it works costs nothing.
void time_steps(const std::string& name, bool graph) {
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

int main_of(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
  if (what == "bandwidth" || what == "gemm" || what == "attention") {
    if (!cuda::is_available()) {
      std::cerr << "gpu: " << cuda::why_unavailable() << '\n';
      return 77;
    }
    what == "gemm" ? gemm() : what == "attention" ? attention() : bandwidth();
    return 0;
  }
  if (names.empty()) names = {"peaks", "keras_cnn", "keras_cnn_1024", "lstm_lm", "gpt", "resnet50"};
  for (const std::string& name : names)
    if (what != "steps" || !make(name)) {
      std::cerr << "gpu bandwidth | gemm | attention | steps [workload...]\n";
      return 2;
    }
  for (const std::string& name : names)
    for (const bool graph : {false, true}) time_steps(name, graph);
  return 0;
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) {
  try {
    return tapegrad::bench::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "gpu: " << error.what() << '\n';
    return 1;
  }
}
