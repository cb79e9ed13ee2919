// Numbers as operands of elementwise kernels, which take no launch.
#include <gtest/gtest.h>

#include <functional>

#include "core/cuda.h"
#include "core/dispatch/internal/hold_number.h"
#include "core/tape/recording.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "train/graphed_step.h"
#include "work.h"

namespace tapegrad {
namespace {

/// Returns the number of kernels that f() launches.
int kernels_of(const std::function<void()>& f) {
  cuda::synchronize();
  Work work;
  f();
  cuda::synchronize();
  return work.kernels;
}

std::vector<double> values(const Variable& x) { return x.to(f64).to_vector<double>(); }

TEST(CudaNumbers, AreArgumentsOfElementwiseKernels) {
  for (const DType dtype : {f16, bf16, f32, f64, i64, i32, u8, boolean}) {
    SCOPED_TRACE(name(dtype));
    const Variable x = tensor({1, 0, 3, 1, 0, 1, 1, 3, 0, 1, 0}, {.dtype = dtype, .device = gpu});
    const Variable on_cpu = x.to(cpu);
    const std::function<Variable(const Variable&)> ops[] = {
        [](const Variable& v) { return v * 3; },
        [](const Variable& v) { return 7 + v; },
        [](const Variable& v) { return v > 1; },
        [](const Variable& v) { return maximum(v, 1); },
        [](const Variable& v) { return v / 2.5; },
        [](const Variable& v) { return 0.75 - v.to(f32); },
        [](const Variable& v) { return where(v == 1, v, 2); },
        [](const Variable& v) { return pow(v.to(f32), 2.5); },
        [](const Variable& v) { return atan2(v.to(f64), 0.5); },
    };
    for (const auto& op : ops) EXPECT_EQ(values(op(x)), values(op(on_cpu)));
  }
  const Variable x = randn({5, 7}, {.device = gpu}), half = x.to(bf16);
  EXPECT_EQ(kernels_of([&] { x * 2.0; }), 1);
  EXPECT_EQ(kernels_of([&] { 1.5 - half; }), 1);
  EXPECT_EQ(kernels_of([&] { x < 0.0; }), 1);
  EXPECT_EQ(kernels_of([&] { where(x < 0.0, x, 2.0); }), 2);
  EXPECT_EQ(kernels_of([&] { transpose(x, 0, 1) / 3.0; }), 1);
  Variable y = x.clone();
  EXPECT_EQ(kernels_of([&] { y += 1.0; }), 1);
  EXPECT_EQ(kernels_of([&] { y = (x * 2.0 + 1.0) / 3.0; }), 3);
  EXPECT_EQ(values(y), values((x.to(cpu) * 2.0 + 1.0) / 3.0));
  // The rule has the number, too: one kernel in each direction, and one for the gradient.
  const Variable w = x.detach().requires_grad_(), seed = ones({5, 7}, {.device = gpu});
  EXPECT_EQ(kernels_of([&] { (w * 2.0).backward(seed); }), 2);
  EXPECT_EQ(values(w.grad()), std::vector<double>(35, 2.0));
}

TEST(CudaNumbers, AreInMemoryForOtherKernels) {
  const Tensor two = detail::number_operand(2, f32, gpu);
  EXPECT_TRUE(two.storage().is_packed());
  EXPECT_EQ(values(sum(Variable(two))), std::vector{2.0});
  EXPECT_FALSE(two.storage().is_packed());
  const auto number = [](DType dtype) { return Variable(detail::number_operand(-3, dtype, gpu)); };
  EXPECT_EQ(number(i64).item<int64_t>(), -3);
  EXPECT_EQ(number(i32).item<int64_t>(), -3);
  EXPECT_EQ(number(bf16).item(), -3);
  EXPECT_EQ(number(f64).item(), -3);
  EXPECT_EQ(values(number(f32).expand({2, 1, 3})), std::vector<double>(6, -3.0));
  EXPECT_EQ(values(number(f32).view({1, 1}) * ones({2, 3}, {.device = gpu})),
            std::vector<double>(6, -3.0));
  // remainder looks for zeros among its divisors.
  const Variable x = tensor({7, 8, 9}, {.dtype = i64, .device = gpu});
  EXPECT_EQ(values(remainder(x, 4)), (std::vector{3.0, 0.0, 1.0}));
}

TEST(CudaNumbers, MayBeWrittenInPlace) {
  const Variable total(detail::number_operand(1, f32, gpu)), alias = total.view({1});
  Variable(total) += 2.0;
  EXPECT_EQ(total.item(), 3);
  EXPECT_EQ(values(alias), std::vector{3.0});
  Variable filled(detail::number_operand(1, f32, gpu));
  filled.fill_(4.0);
  EXPECT_EQ(filled.item(), 4);
  // A result never overwrites a number that has no memory.
  const auto chain = [] { return Variable(detail::number_operand(1, f32, gpu)) * 3.0 + 1.0; };
  EXPECT_EQ(kernels_of([&] { chain(); }), 2);
  EXPECT_EQ(chain().item(), 4);
}

TEST(CudaNumbers, AreRepeatedByAGraph) {
  const Variable counter = zeros({}, {.device = gpu});
  GraphedStep step([&](const Variable& x) {
    const NoGrad off;
    Variable(counter) += 1.0;
    return sum(x * 2.0 * 0.5) / 4.0 + 2.0 + counter;
  });
  for (int i = 1; i <= 8; ++i)
    EXPECT_EQ(step(full({4}, double(i), {.device = gpu})).item(), i + 2 + i) << i;
  EXPECT_TRUE(step.is_graphed()) << step.reason();
  EXPECT_EQ(counter.item(), 8);
}

TEST(CudaNumbers, OfAnEarlierGraphMayBeReadByARecording) {
  const Variable rate(detail::number_operand(0.5, f32, gpu));
  // With a further stream the host waits where a layout is converted.
  [[maybe_unused]] const auto another = cuda::Stream::create(gpu);
  GraphedStep step([&](const Variable& x) {
    const NoGrad off;
    return sum(x * rate);
  });
  for (int i = 1; i <= 8; ++i)
    EXPECT_EQ(step(full({4}, double(i), {.device = gpu})).item(), 2 * i) << i;
}

}  // namespace
}  // namespace tapegrad
