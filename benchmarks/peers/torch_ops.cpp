// Version of benchmarks/ops.cpp for libtorch.
#include <torch/torch.h>

#include "benchmarks/measure.h"

namespace {

using bench::print_line;
using bench::time_of;
using torch::Tensor;

constexpr int kLinks = 1000;

Tensor chain(Tensor y, const Tensor& a, const Tensor& b) {
  for (int i = 0; i < kLinks; ++i) y = y * a + b;
  return y;
}

void overhead() {
  const auto report = [](const char* name, double time) {
    print_line(name, time / (2 * kLinks) * 1e9, "ns");
  };
  const Tensor one = torch::ones({1}), a = torch::full({1}, 0.999F), b = torch::full({1}, 0.001F);
  {
    const torch::NoGradGuard no_grad;
    report("op.forward", time_of([&] { chain(one, a, b); }));
  }
  Tensor x = torch::ones({1}, torch::requires_grad());
  report("op.recorded", time_of([&] { chain(x, a, b); }));
  report("op.backward", time_of([&] {
           chain(x, a, b).backward();
           x.mutable_grad().reset();
         }));
}

template <typename Call>
void bandwidth(const char* name, double bytes, Call call) {
  const torch::NoGradGuard no_grad;
  print_line(name, bytes / time_of(call) * 1e-9, "GB/s");
}

void large() {
  constexpr double kCount = 1e7;
  const Tensor x = torch::randn({int64_t(kCount)}), y = torch::randn({int64_t(kCount)});
  bandwidth("large.add", 12 * kCount, [&] { x + y; });
  bandwidth("large.relu", 8 * kCount, [&] { torch::relu(x); });
  bandwidth("large.exp", 8 * kCount, [&] { torch::exp(x); });
  bandwidth("large.tanh", 8 * kCount, [&] { torch::tanh(x); });
  bandwidth("large.gelu", 8 * kCount, [&] { torch::gelu(x); });
  bandwidth("large.sum", 4 * kCount, [&] { torch::sum(x); });
  constexpr int64_t kSide = 4096;
  constexpr double kSquare = double(kSide * kSide);
  const Tensor m = torch::randn({kSide, kSide});
  bandwidth("large.sum_axis0", 4 * kSquare, [&] { torch::sum(m, 0); });
  bandwidth("large.sum_axis1", 4 * kSquare, [&] { torch::sum(m, 1); });
  bandwidth("large.max_axis0", 4 * kSquare, [&] { torch::max(m, 0); });
  bandwidth("large.max_axis1", 4 * kSquare, [&] { torch::max(m, 1); });
  bandwidth("large.transpose_copy", 8 * kSquare, [&] { m.t().contiguous(); });
  constexpr int64_t kColumns = 1024;
  constexpr double kRows = double(kSide * kColumns);
  const Tensor s = torch::randn({kSide, kColumns});
  const Tensor weight = torch::ones({kColumns}), bias = torch::zeros({kColumns});
  bandwidth("large.softmax", 8 * kRows, [&] { torch::softmax(s, -1); });
  bandwidth("large.layer_norm", 8 * kRows, [&] { torch::layer_norm(s, {kColumns}, weight, bias); });
}

}  // namespace

int main() {
  overhead();
  large();
}
