// Cost of single ops: the overhead on one element, and the bandwidth of large ops with a new
// result. peers/torch_ops.cpp measures the same ops of libtorch under the same names.
#include "benchmarks/measure.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/norm.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using ::bench::print_line;
using ::bench::time_of;

constexpr int kLinks = 1000;  // of a chain; a link has two ops

Variable chain(Variable y, const Variable& a, const Variable& b) {
  for (int i = 0; i < kLinks; ++i) y = y * a + b;
  return y;
}

void overhead() {
  const auto report = [](const char* name, double time) {
    print_line(name, time / (2 * kLinks) * 1e9, "ns");
  };
  const Variable one = ones({1}), a = full({1}, 0.999), b = full({1}, 0.001);
  {
    const NoGrad no_grad;
    report("op.forward", time_of([&] { chain(one, a, b); }));
  }
  const Variable x = ones({1}, {.requires_grad = true});
  report("op.recorded", time_of([&] { chain(x, a, b); }));
  report("op.backward", time_of([&] {
           chain(x, a, b).backward();
           x.zero_grad();
         }));
}

template <typename Call>
void bandwidth(const char* name, double bytes, Call call) {
  const NoGrad no_grad;
  print_line(name, bytes / time_of(call) * 1e-9, "GB/s");
}

void large() {
  constexpr double kCount = 1e7;
  const Variable x = randn({int64_t(kCount)}), y = randn({int64_t(kCount)});
  bandwidth("large.add", 12 * kCount, [&] { x + y; });
  bandwidth("large.relu", 8 * kCount, [&] { relu(x); });
  bandwidth("large.exp", 8 * kCount, [&] { exp(x); });
  bandwidth("large.tanh", 8 * kCount, [&] { tanh(x); });
  bandwidth("large.gelu", 8 * kCount, [&] { gelu(x); });
  bandwidth("large.sum", 4 * kCount, [&] { sum(x); });
  constexpr int64_t kSide = 4096;
  constexpr double kSquare = double(kSide * kSide);
  const Variable m = randn({kSide, kSide});
  bandwidth("large.sum_axis0", 4 * kSquare, [&] { sum(m, {0}); });
  bandwidth("large.sum_axis1", 4 * kSquare, [&] { sum(m, {1}); });
  bandwidth("large.max_axis0", 4 * kSquare, [&] { max(m, 0); });
  bandwidth("large.max_axis1", 4 * kSquare, [&] { max(m, 1); });
  bandwidth("large.transpose_copy", 8 * kSquare, [&] { transpose(m, 0, 1).value().contiguous(); });
  constexpr int64_t kColumns = 1024;
  constexpr double kRows = double(kSide * kColumns);
  const Variable s = randn({kSide, kColumns});
  const Variable weight = ones({kColumns}), bias = zeros({kColumns});
  bandwidth("large.softmax", 8 * kRows, [&] { softmax(s, -1); });
  bandwidth("large.layer_norm", 8 * kRows, [&] { layer_norm(s, {kColumns}, weight, bias); });
}

}  // namespace
}  // namespace tapegrad

int main() {
  tapegrad::overhead();
  tapegrad::large();
}
