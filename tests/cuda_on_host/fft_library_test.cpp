// Fourier transforms by cuFFT: the plans and calls that the stand-in records, and results that
// equal the CPU's, because the stand-in computes them from the recorded arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/dispatch/dispatch_log.h"
#include "library_calls.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/fft.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using Calls = std::vector<std::string>;
using F = std::function<Variable(const Variable&)>;

void expect_equal(const Variable& a, const Variable& b, double tolerance, const char* name) {
  ASSERT_EQ(a.shape(), b.shape()) << name;
  const auto x = a.to(f64).to_vector<double>(), y = b.to(f64).to_vector<double>();
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << name << ' ' << i;
}

/// Computes f on both devices. Expects the calls of cuFFT on the GPU, and equal results.
void expect_calls(const char* name, const Shape& shape, DType dtype, const F& f,
                  const Calls& calls) {
  manual_seed(1);
  const Variable x = randn(shape, {.dtype = dtype, .device = cpu});
  coh::take_library_calls();
  const Variable y = f(x.to(gpu));
  EXPECT_EQ(coh::take_library_calls(), calls) << name << shape << dtype;
  EXPECT_EQ(y.device(), gpu);
  expect_equal(y, f(x), dtype == f32 ? 1e-4 : 1e-11, name);
}

TEST(CudaFft, PlansOnce) {
  const F f = [](const Variable& x) { return fft::fft(x); };
  expect_calls("fft", {3, 7, 2}, f32, f, {"plan C2C, n 7, 3 signals, 1 7 to 1 7", "exec C2C"});
  expect_calls("fft", {3, 7, 2}, f32, f, {"exec C2C"});
  expect_calls("ifft", {3, 7, 2}, f32, [](const Variable& x) { return fft::ifft(x); },
               {"exec C2C inverse"});
  expect_calls("fft", {3, 7, 2}, f64, f, {"plan Z2Z, n 7, 3 signals, 1 7 to 1 7", "exec Z2Z"});
}

TEST(CudaFft, TransformsRealSignals) {
  for (const int64_t n : {8, 9}) {
    const std::string size = std::to_string(n), half = std::to_string(n / 2 + 1);
    expect_calls("rfft", {3, n}, f32, [](const Variable& x) { return fft::rfft(x); },
                 {"plan R2C, n " + size + ", 3 signals, 1 " + size + " to 1 " + half, "exec R2C"});
    // The imaginary parts at the ends are drawn, too, and must be ignored.
    expect_calls("irfft", {3, n / 2 + 1, 2}, f64,
                 [&](const Variable& x) { return fft::irfft(x, {.n = n}); },
                 {"plan Z2D, n " + size + ", 3 signals, 1 " + half + " to 1 " + size, "exec Z2D"});
  }
}

TEST(CudaFft, TransformsOtherDimensions) {
  const F along_first = [](const Variable& x) { return fft::rfft(x, {.dim = 0}); };
  expect_calls("rfft", {6, 5}, f64, along_first,
               {"plan D2Z, n 6, 5 signals, 5 1 to 5 1", "exec D2Z"});
  // Between two dimensions: the signals are copied, one after the other.
  const F between = [](const Variable& x) { return fft::rfft(x, {.dim = 1}); };
  expect_calls("rfft", {2, 6, 5}, f64, between,
               {"plan D2Z, n 6, 10 signals, 1 6 to 1 4", "exec D2Z"});
  const F back = [](const Variable& x) { return fft::irfft(x, {.dim = 1}); };
  expect_calls("irfft", {2, 4, 5, 2}, f64, back,
               {"plan Z2D, n 6, 10 signals, 1 4 to 1 6", "exec Z2D"});
  expect_calls("fft2", {2, 4, 6, 2}, f64, [](const Variable& x) { return fft::fft2(x); },
               {"plan Z2Z, n 4, 12 signals, 1 4 to 1 4", "exec Z2Z",
                "plan Z2Z, n 6, 8 signals, 1 6 to 1 6", "exec Z2Z"});
}

TEST(CudaFft, AlignsItsOperand) {
  manual_seed(2);
  const Variable all = randn({33}, {.device = cpu});
  const Variable part = narrow(all.to(gpu), 0, 1, 32);  // four bytes behind an aligned address
  expect_equal(fft::rfft(part), fft::rfft(narrow(all, 0, 1, 32)), 1e-5, "rfft");
}

TEST(CudaFft, HasGradients) {
  const F f = [](const Variable& x) {
    const Variable leaf = x.detach().requires_grad_();
    const Variable spectrum = fft::rfft(leaf, {.norm = fft::Norm::kOrtho});
    const Variable again = fft::irfft(spectrum * spectrum, {.n = 10});
    sum(again * again).backward();
    return leaf.grad();
  };
  manual_seed(3);
  const Variable x = randn({2, 10}, {.dtype = f64, .device = cpu});
  expect_equal(f(x.to(gpu)), f(x), 1e-10, "gradient");
}

TEST(CudaFft, IsPartOfAGraph) {
  const F power = [](const Variable& x) {
    const Variable y = fft::rfft(x);
    return sum(y * y);
  };
  GraphedStep step(power);
  manual_seed(4);
  for (int i = 0; i < 6; ++i) {
    const Variable x = randn({3, 12}, {.device = gpu});
    const double captured = step(x).item();
    EXPECT_EQ(step.reason(), "");
    EXPECT_EQ(captured, power(x).item());
  }
}

TEST(CudaFft, KeepsAPlanForEachSize) {
  const Variable x = ones({300, 2}, {.device = gpu});
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 2; n < 300; ++n)  // more than are kept
      ASSERT_NEAR(fft::fft(narrow(x, 0, 0, n)).to_vector<float>()[0], float(n), 1e-3);
}

TEST(CudaFft, GoesByTheCpuIfTheLibraryRefuses) {
  coh::libraries_refuse(true);
  const DispatchLog log;
  expect_calls("fft", {3, 11, 2}, f32, [](const Variable& x) { return fft::fft(x); }, {});
  coh::libraries_refuse(false);
  EXPECT_EQ(log.calls("fft:by_cpu"), 1);
}

}  // namespace
}  // namespace tapegrad
