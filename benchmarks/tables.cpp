// Writes docs/precision_and_parallelism.md and its plots: the effect of lower precision, vector
// instructions, threads and a GPU on this machine.
//
//   tables docs 0123abc       the folder, and the revision to print
//
// scripts/benchmark.sh --tables runs this program. It takes a minute on an idle machine.
#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <string>

#include "core/cuda.h"
#include "core/inspect/runtime_info.h"
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "train/graphed_step.h"
#include "train/plot.h"
#include "train/timer.h"

namespace tapegrad::bench {
namespace {

double seconds_of(const std::function<void()>& call, Device device = cpu) {
  return timeit(call, {.runs = 3, .min_seconds = 0.05, .device = device}).seconds;
}

/// Formats three digits: "0.0123", "1.23", "12.3", "123".
std::string number(double value) {
  const int digits = value > 0 ? std::max(0, 2 - int(std::floor(std::log10(value)))) : 0;
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

class Document {
 public:
  explicit Document(const std::string& path) : out_(path) {}

  void text(const std::string& lines) { out_ << lines << '\n'; }
  void row(const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) out_ << "| " << cell << ' ';
    out_ << "|\n";
  }
  void header(const std::vector<std::string>& cells) {
    row(cells);
    for (size_t i = 0; i < cells.size(); ++i) out_ << "|---";
    out_ << "|\n";
  }
  bool close() {
    out_.close();
    return bool(out_);
  }

 private:
  std::ofstream out_;
};

/// Returns the CPU, and a GPU if there is one.
std::vector<Device> devices() {
  return cuda::is_available() ? std::vector<Device>{cpu, gpu} : std::vector<Device>{cpu};
}

void precisions(Document& doc) {
  constexpr int64_t kCount = int64_t(1) << 22, kSide = 1024;
  doc.text(R"(
## Precision

For a tensor of 2^22 numbers: its size, and milliseconds for a copy (on a GPU: from the host), an addition and
a hyperbolic tangent; and for a product of two 1024 x 1024 matrices, milliseconds and GFLOP/s. Half the bits need
half the memory and half the memory bandwidth. On the CPU, float32 arithmetic is also faster than float64, since
twice as many numbers fit into a register. float16 and bfloat16 are widened to float32, computed and rounded,
which may cost more time than the bandwidth saves. GPUs have 16-bit units, and some processors have instructions for
bfloat16 products (AVX512-BF16, AMX).
)");
  doc.header({"device", "type", "MiB", "copy", "add", "tanh", "product", "GFLOP/s of product"});
  const NoGrad no_grad;
  for (const Device device : devices())
    for (const DType dtype : {f64, f32, f16, bf16}) {
      const TensorOptions there{.dtype = dtype, .device = device};
      const Variable host = rand({kCount}, {.dtype = dtype}), x = host.to(device);
      const Variable a = rand({kSide, kSide}, there), b = rand({kSide, kSide}, there);
      Variable y = zeros({kCount}, there);
      const double product = seconds_of([&] { matmul(a, b); }, device);
      doc.row({to_string(device), std::string(name(dtype)),
               number(double(kCount * size_of(dtype)) / (1 << 20)),
               number(1e3 * seconds_of([&] { copy_(y, host); }, device)),
               number(1e3 * seconds_of([&] { x + x; }, device)),
               number(1e3 * seconds_of([&] { tanh(x); }, device)), number(1e3 * product),
               number(2e-9 * kSide * kSide * kSide / product)});
    }
}

/// This file is compiled without vectorisation.
template <typename Function>
void scalar_loop(const Variable& x, Variable& y, Function f) {
  const float* from = x.value().data<float>();
  float* to = y.value().data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = f(from[i]);
}

void activations(Document& doc) {
  constexpr int64_t kCount = int64_t(1) << 22;
  doc.text(R"(
## Vectors, threads and a GPU

An activation of 2^22 random float32 numbers: a scalar loop, one thread with vector instructions, all threads, and a
GPU. The most expensive function gains most. A scalar ReLU may compile to a branch that cannot be predicted. A vector
ReLU is bounded by memory bandwidth, so more threads gain less.
)");
  doc.header({"", "ReLU, ms", "", "sigmoid, ms", ""});
  const NoGrad no_grad;
  const Variable x = randn({kCount}, {.dtype = f32, .device = cpu});
  Variable y = zeros({kCount}, {.dtype = f32, .device = cpu});
  std::optional<std::array<double, 2>> first;
  const auto line = [&](const std::string& name, double of_relu, double of_sigmoid) {
    if (!first) first = {of_relu, of_sigmoid};
    doc.row({name, number(1e3 * of_relu), number((*first)[0] / of_relu) + "x",
             number(1e3 * of_sigmoid), number((*first)[1] / of_sigmoid) + "x"});
  };
  line("scalar loop",
       seconds_of([&] { scalar_loop(x, y, [](float v) { return std::max(v, 0.0F); }); }),
       seconds_of([&] { scalar_loop(x, y, [](float v) { return 1 / (1 + std::exp(-v)); }); }));
  const int threads = omp_get_max_threads();
  for (const int count : {1, threads}) {
    omp_set_num_threads(count);
    line(count == 1 ? "vectors, 1 thread" : "vectors, " + std::to_string(count) + " threads",
         seconds_of([&] { relu(x); }), seconds_of([&] { sigmoid(x); }));
    if (threads == 1) break;
  }
  if (!cuda::is_available()) return;
  const Variable there = x | gpu;
  line("GPU", seconds_of([&] { relu(there); }, gpu), seconds_of([&] { sigmoid(there); }, gpu));
}

/// Seconds by size on one device.
using Curve = std::function<double(int64_t size)>;
struct Contender {
  std::string name;
  Curve seconds;
};

/// Writes a table and a plot of times by size, and the size from which another contender is faster
/// than the first.
void crossover(Document& doc, const std::string& folder, const std::string& plot,
               const std::string& of, const std::vector<int64_t>& sizes,
               const std::vector<Contender>& contenders, double calls = 1) {
  std::vector<std::string> titles{of};
  std::vector<PlotSeries> curves;
  for (const Contender& contender : contenders) {
    titles.push_back(contender.name + ", us");
    if (calls > 1) titles.push_back(number(calls) + " of them, s");
    curves.push_back({contender.name, {}, {}});
  }
  doc.header(titles);
  for (const int64_t size : sizes) {
    std::vector<std::string> cells{std::to_string(size)};
    for (size_t i = 0; i < contenders.size(); ++i) {
      const double seconds = contenders[i].seconds(size);
      cells.push_back(number(1e6 * seconds));
      if (calls > 1) cells.push_back(number(calls * seconds));
      curves[i].x.push_back(double(size));
      curves[i].y.push_back(1e6 * seconds);
    }
    doc.row(cells);
  }
  doc.text("");
  for (size_t i = 1; i < curves.size(); ++i) {
    size_t from = sizes.size();
    while (from > 0 && curves[i].y[from - 1] < curves[0].y[from - 1]) --from;
    doc.text(from == sizes.size()
                 ? curves[i].name + " does not overtake " + curves[0].name + "."
                 : curves[i].name + " is the faster from " + std::to_string(sizes[from]) + " on.");
  }
  if (curves.size() == 1) doc.text("No GPU on this machine: " + cuda::why_unavailable() + ".");
  save_line_chart(folder + "/images/" + plot + ".svg", curves,
                  {.x_label = of, .y_label = "microseconds", .log_x = true, .log_y = true});
  doc.text("\n![time against size](images/" + plot + ".svg)");
}

double product_seconds(Device device, int64_t n) {
  const NoGrad no_grad;
  const TensorOptions there{.dtype = f32, .device = device};
  const Variable a = rand({n, n}, there), b = rand({n, n}, there);
  return seconds_of([&] { matmul(a, b); }, device);
}

/// Seconds of a step of examples/peaks: all rows in one batch, Adam.
double step_seconds(Device device, bool graph, int64_t rows) {
  nn::Sequential model({nn::Linear({.in_features = 2, .out_features = 20}), nn::ReLU(),
                        nn::Linear({.in_features = 20, .out_features = 5}), nn::ReLU(),
                        nn::Linear({.in_features = 5, .out_features = 1})},
                       {.init = nn::init::keras});
  model.to(device);
  optim::Adam adam(model, 1e-3);
  const TensorOptions there{.dtype = f32, .device = device};
  const Variable x = rand({rows, 2}, there), y = rand({rows, 1}, there);
  GraphedStep step(
      [&] {
        adam.zero_grad();
        const Variable loss = mse_loss(model(x), y);
        loss.backward();
        adam.step();
        return loss;
      },
      {}, {.enabled = graph});
  for (int i = 0; i < 5; ++i) step();
  return seconds_of([&] { step(); }, device);
}

void sizes(Document& doc, const std::string& folder) {
  doc.text(R"(
## Problem size

A GPU has a higher overhead per op and a higher throughput, so it is faster from some size on.

### A product of two n x n matrices
)");
  std::vector<Contender> products, steps;
  for (const Device device : devices()) {
    const std::string name = device == cpu ? "CPU" : "GPU";
    products.push_back({name, [=](int64_t n) { return product_seconds(device, n); }});
    steps.push_back({name, [=](int64_t rows) { return step_seconds(device, false, rows); }});
    if (device != cpu)
      steps.push_back(
          {"GPU graph", [=](int64_t rows) { return step_seconds(device, true, rows); }});
  }
  crossover(doc, folder, "crossover_product", "n", {16, 32, 64, 128, 256, 512, 1024, 2048},
            products);
  doc.text(R"(
### A training step of `examples/peaks`

Forward, backward and Adam with all rows in one batch, for a network of 171 parameters. An epoch is one step.
)");
  crossover(doc, folder, "crossover_step", "rows", {100, 200, 400, 1000, 4000, 10'000, 40'000},
            steps, 2000);
}

/// Returns the lines of runtime_info() that affect times.
std::string machine() {
  std::string found, info = runtime_info();
  for (size_t begin = 0; begin < info.size();) {
    const size_t end = std::min(info.find('\n', begin), info.size());
    const std::string line = info.substr(begin, end - begin);
    for (const char* key : {"cpu:", "threads:", "cuda:"})
      if (line.starts_with(key)) found += "    " + line + '\n';
    begin = end + 1;
  }
  return found;
}

int write(const std::string& folder, const std::string& revision) {
  const std::string path = folder + "/precision_and_parallelism.md";
  Document doc(path);
  doc.text("# Precision and parallelism\n\nWritten by `scripts/benchmark.sh --tables` at commit " +
           revision + " on\n\n" + machine() +
           "\nTimes are the best of three runs of `timeit` (`train/timer.h`).");
  precisions(doc);
  activations(doc);
  sizes(doc, folder);
  if (doc.close()) return 0;
  std::cerr << "tables: cannot write " << path << '\n';
  return 1;
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "tables FOLDER REVISION\n";
    return 2;
  }
  try {
    return tapegrad::bench::write(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "tables: " << error.what() << '\n';
    return 1;
  }
}
