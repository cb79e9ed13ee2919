// linalg and fft on a device against definitions and the CPU, at sizes on both sides of the limits
// between the functions of the libraries.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/fft.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

Variable turned(const Variable& x) { return transpose(x, -1, -2); }
Variable drawn(const Shape& shape, DType dtype) {
  return randn(shape, {.dtype = dtype, .device = gpu});
}

/// Expects a difference below some hundred rounding errors of the largest element.
void expect_close(const Variable& a, const Variable& b, const char* what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const double eps = a.dtype() == f32 ? 1e-7 : 2e-16;
  const double size = double(a.size(-1)), largest = 1 + max(abs(b)).item();
  EXPECT_LE(max(abs(a - b)).item(), 40 * size * eps * largest) << what << a.shape() << a.dtype();
}
void expect_orthonormal(const Variable& columns, const char* what) {
  const int64_t n = columns.size(-1);
  const Variable one = eye(n, n, {.dtype = columns.dtype(), .device = columns.device()});
  expect_close(matmul(turned(columns), columns),
               expand(one, matmul(turned(columns), columns).shape()), what);
}

class CudaFactors : public ::testing::TestWithParam<Shape> {};

TEST_P(CudaFactors, MultiplyToTheMatrix) {
  manual_seed(11);
  for (const DType dtype : {f32, f64}) {
    const Variable x = drawn(GetParam(), dtype);
    const auto [q, r] = linalg::qr(x);
    expect_close(matmul(q, r), x, "qr");
    expect_orthonormal(q, "q");
    for (const bool full : {false, true}) {
      const auto [u, s, vh] = linalg::svd(x, full);
      const int64_t k = s.size(-1);
      expect_close(matmul(narrow(u, -1, 0, k) * unsqueeze(s, -2), narrow(vh, -2, 0, k)), x, "svd");
      expect_orthonormal(u, "u");
      expect_orthonormal(turned(vh), "v");
      expect_close(linalg::svdvals(x), s, "svdvals");
    }
    const Variable square = matmul(x, turned(x));
    const Variable positive =
        square + eye(x.size(-2), {}, {.dtype = dtype, .device = gpu}) * double(x.size(-1));
    const auto [values, vectors] = linalg::eigh(square);
    expect_close(vectors * unsqueeze(values, -2), matmul(square, vectors), "eigh");
    expect_orthonormal(vectors, "vectors");
    const Variable l = linalg::cholesky(positive);
    expect_close(matmul(l, turned(l)), positive, "cholesky");
    expect_close(triu(l, 1), l * 0, "the other triangle");
    const Variable y = linalg::solve(positive, x);
    expect_close(matmul(positive, y), x, "solve");
    expect_close(linalg::solve_triangular(l, matmul(l, x), {.upper = false}), x, "triangle");
    const auto slogdet = linalg::slogdet(positive);
    expect_close(unsqueeze(slogdet.logabsdet, 0),
                 unsqueeze(sum(log(diagonal(l, 0, -2, -1)), {-1}) * 2, 0), "slogdet");
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaFactors,
                         ::testing::Values(Shape{1, 1}, Shape{5, 3}, Shape{3, 5}, Shape{3, 5, 5},
                                           Shape{2, 2, 7, 4}, Shape{3, 4, 7}, Shape{2, 33, 33},
                                           Shape{2, 40, 33}, Shape{140, 9}, Shape{2, 9, 140},
                                           Shape{131, 131}));

TEST(CudaFourier, TransformsWhatTheCpuTransforms) {
  manual_seed(12);
  for (const DType dtype : {f32, f64})
    for (const int64_t n : {1, 2, 3, 8, 13, 100, 1009})
      for (const int dim : {0, 1, 2}) {
        Shape shape{2, 3, 2};
        shape[dim] = n;
        const Variable real = randn(shape, {.dtype = dtype, .device = cpu});
        shape.push_back(2);
        const Variable pairs = randn(shape, {.dtype = dtype, .device = cpu});
        const auto expect_same = [&](const char* name, const Variable& x, const auto& f) {
          expect_close(f(x.to(gpu)).to(cpu), f(x), name);
        };
        const fft::Options options{.dim = dim, .norm = fft::Norm::kOrtho};
        expect_same("fft", pairs, [&](const Variable& x) { return fft::fft(x, options); });
        expect_same("ifft", pairs, [&](const Variable& x) { return fft::ifft(x, options); });
        expect_same("rfft", real, [&](const Variable& x) { return fft::rfft(x, options); });
        expect_same("irfft", pairs, [&](const Variable& x) {
          return fft::irfft(x, {.n = 2 * n - 1, .dim = dim, .norm = fft::Norm::kForward});
        });
      }
}

/// Returns the error that the call throws on a device.
std::string message(Device device, const Variable& x, const std::function<void(Variable)>& f) {
  try {
    f(x.to(device));
  } catch (const LinAlgError& error) {
    return error.message();
  }
  return "";
}

TEST(CudaLinalgErrors, AreThoseOfTheCpu) {
  const auto eye_with = [](double value, int64_t at, int64_t batch) {
    Variable x = expand(eye(3, 3, {.dtype = f64, .device = cpu}), {batch, 3, 3}).clone();
    x.writable().data<double>()[9 * (batch - 1) + 4 * at] = value;
    return batch == 1 ? squeeze(x, 0) : x;
  };
  const auto cholesky = [](const Variable& x) { linalg::cholesky(x); };
  const auto inv = [](const Variable& x) { linalg::inv(x); };
  const auto svd = [](const Variable& x) { linalg::svd(x); };
  const auto eigh = [](const Variable& x) { linalg::eigh(x); };
  const double nan = std::nan("");
  for (const int64_t batch : {1, 3}) {
    const auto expect_same = [&](double value, int64_t at, const std::function<void(Variable)>& f) {
      const Variable x = eye_with(value, at, batch);
      EXPECT_NE(message(gpu, x, f), "") << value << ' ' << batch;
      EXPECT_EQ(message(gpu, x, f), message(cpu, x, f));
      EXPECT_EQ(message(gpu, eye_with(1, at, batch), f), "");
    };
    for (const int64_t at : {0, 2}) {
      expect_same(-1, at, cholesky);
      expect_same(0, at, cholesky);
      expect_same(nan, at, cholesky);
      expect_same(0, at, inv);
      expect_same(nan, at, svd);
      expect_same(INFINITY, at, eigh);
    }
  }
  EXPECT_EQ(message(gpu, eye_with(-1, 2, 3), cholesky),
            "linalg.cholesky: the matrix is not positive definite: matrix 2 of 3 in the batch, at "
            "3");
  // The upper triangle is not read, even if it is not finite.
  Variable x = eye(3, 3, {.dtype = f64, .device = cpu});
  x.writable().data<double>()[1] = nan;
  EXPECT_EQ(message(gpu, x, eigh), "");
  EXPECT_EQ(message(gpu, x, cholesky), "");
}

}  // namespace
}  // namespace tapegrad
