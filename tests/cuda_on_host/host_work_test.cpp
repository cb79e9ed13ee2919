// Results that the device computes without the host: permutations of LU factors, and gradients of
// samples of a gamma distribution.
#include <gtest/gtest.h>

#include <cmath>

#include "core/cuda.h"
#include "core/dispatch/dispatch_log.h"
#include "nn/distributions/distributions.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/linalg.h"
#include "ops/linalg_lu.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "work.h"

namespace tapegrad {
namespace {

std::vector<double> values(const Variable& x) { return x.to(f64).to_vector<double>(); }

TEST(CudaLinalgOfTheDevice, PermutationsOfLuDoNotWait) {
  manual_seed(2);
  const Variable a = randn({3, 5, 5}, f64), b = randn({3, 5, 2}, f64);
  const auto results = [&](Device device) {
    const Variable x = a.detach().clone().to(device).requires_grad_(), rows = b.to(device);
    const auto [lu, pivots] = linalg::lu_factor(x);
    const Variable solved = linalg::lu_solve(lu, pivots, rows);
    const auto [p, l, u] = linalg::lu(x.detach());
    sum(solved * solved).backward();
    return std::vector<Variable>{p, matmul(p, matmul(l, u)), solved, x.grad()};
  };
  const auto expected = results(cpu), got = results(gpu);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(allclose(got[i].to(cpu), expected[i], 1e-9, 1e-9)) << i;
  EXPECT_TRUE(allclose(expected[1], a, 1e-12, 1e-12));

  const Variable x = a.to(gpu).requires_grad_();
  cuda::synchronize();
  Work work;
  const auto [p, l, u] = linalg::lu(x);
  sum(square(l) + square(u)).backward();
  EXPECT_EQ(work.waits, 0);
  EXPECT_EQ(work.copies, 0);
}

TEST(CudaDistributions, TheGradientOfASampleIsComputedByTheDevice) {
  const Variable shapes = tensor({0.1, 0.7, 1.0, 2.5, 30.0}, {.dtype = f64, .device = gpu});
  const auto draw = [&](const Variable& shape) {
    RandomGenerator generator(4);
    return distributions::Gamma(shape, full({}, 1, {.dtype = f64, .device = gpu}))
        .rsample({}, generator);
  };
  const Variable leaf = shapes.detach().requires_grad_();
  const Variable z = draw(leaf);
  {
    const Variable other = shapes.detach().requires_grad_();
    const DispatchLog log;
    sum(draw(other)).backward();
    EXPECT_EQ(log.calls("gamma_slope"), 1);
    EXPECT_EQ(log.calls("digamma"), 0);
  }
  sum(z).backward();
  // The probability of a sample is constant along dz/da: the regularised incomplete gamma function,
  // as a sum.
  const std::vector<double> a = values(shapes), x = values(z), slope = values(leaf.grad());
  const auto probability = [](double a, double z) {
    double term = std::exp(a * std::log(z) - z - std::lgamma(a + 1)), sum = 0;
    for (int n = 1; n < 400; ++n) sum += term, term *= z / (a + n);
    return sum;
  };
  for (size_t i = 0; i < a.size(); ++i) {
    const double h = 1e-5 * a[i];
    const double dz = slope[i] * h;
    EXPECT_NEAR(probability(a[i] + h, x[i] + dz), probability(a[i] - h, x[i] - dz), 1e-8) << a[i];
  }
}

}  // namespace
}  // namespace tapegrad
