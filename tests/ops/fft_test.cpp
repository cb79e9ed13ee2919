// All lengths, long transforms, and errors. The reference is the definition in long double.
#include "ops/fft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "ops/windows.h"

namespace tapegrad {
namespace {

using Doubles = std::vector<double>;

/// Returns the largest error against the definition at the frequencies `at`, in units of max|y|.
double error_of(const Doubles& x, const Doubles& y, int64_t n, const std::vector<int64_t>& at) {
  long double worst = 0, scale = 0;
  std::vector<long double> cosines, sines;
  for (int64_t k = 0; k < n; ++k) {
    const long double angle =
        -2 * std::numbers::pi_v<long double> * (long double)k / (long double)n;
    cosines.push_back(std::cos(angle));
    sines.push_back(std::sin(angle));
  }
  for (int64_t k : at) {
    long double re = 0, im = 0;
    for (int64_t j = 0; j < n; ++j) {
      const auto turn = size_t(j * k % n);
      re += x[size_t(2 * j)] * cosines[turn] - x[size_t(2 * j + 1)] * sines[turn];
      im += x[size_t(2 * j)] * sines[turn] + x[size_t(2 * j + 1)] * cosines[turn];
    }
    worst = std::max({worst, std::abs(re - y[size_t(2 * k)]), std::abs(im - y[size_t(2 * k + 1)])});
    scale = std::max({scale, std::abs(re), std::abs(im)});
  }
  return double(worst / scale);
}

double epsilon(DType dtype) { return dtype == f32 ? 0x1p-23 : 0x1p-52; }

TEST(Fft, EveryLengthIsAccurate) {
  manual_seed(3);
  for (DType dtype : {f32, f64})
    for (int64_t n = 1; n <= 200; ++n) {
      const Variable x = randn({n, 2}, {.dtype = dtype}), y = fft::fft(x);
      std::vector<int64_t> all;
      for (int64_t k = 0; k < n; ++k) all.push_back(k);
      const double allowed = (1 + std::log2(double(n))) * epsilon(dtype);
      EXPECT_LT(error_of(x.to_vector<double>(), y.to_vector<double>(), n, all), allowed)
          << n << ' ' << dtype;
      const double size = amax(abs(x)).item();
      EXPECT_LT(amax(abs(fft::ifft(y) - x)).item(), allowed * size) << n << ' ' << dtype;
      const Variable real = randn({n}, {.dtype = dtype});
      const Variable same = fft::fft(stack({real, zeros_like(real)}, -1));
      const Variable spectrum = fft::rfft(real);
      EXPECT_LT(amax(abs(spectrum - narrow(same, 0, 0, n / 2 + 1))).item(),
                allowed * amax(abs(same)).item())
          << n << ' ' << dtype;
      EXPECT_LT(amax(abs(fft::irfft(spectrum, {.n = n}) - real)).item(), allowed * 4)
          << n << ' ' << dtype;
    }
}

TEST(Fft, LongLengths) {
  manual_seed(4);
  // Powers of primes, products of small and of large primes, and primes.
  for (int64_t n : {65536, 60060, 29791, 46189, 10007, 99991, 131071})
    for (DType dtype : {f32, f64}) {
      const Variable x = randn({n, 2}, {.dtype = dtype}), y = fft::fft(x);
      const double allowed = (1 + std::log2(double(n))) * epsilon(dtype);
      EXPECT_LT(error_of(x.to_vector<double>(), y.to_vector<double>(), n, {0, 1, 77, n / 2, n - 1}),
                allowed)
          << n << ' ' << dtype;
      EXPECT_LT(amax(abs(fft::ifft(y) - x)).item(), allowed * amax(abs(x)).item())
          << n << ' ' << dtype;
    }
}

// Few signals and long signals are transformed one by one, others in groups.
TEST(Fft, AValueDoesNotDependOnItsNeighbours) {
  manual_seed(5);
  for (DType dtype : {f32, f64})
    for (int64_t n : {12, 37, 64, 200, 256, 1000, 1024, 2048}) {
      const Variable x = randn({23, n, 2}, {.dtype = dtype}), real = select(x, 2, 0);
      const Variable y = fft::fft(x), z = fft::rfft(real), back = fft::irfft(z, {.n = n});
      const Variable across = fft::fft(transpose(x, 0, 1), {.dim = 0});
      const auto bits = [](const Variable& value) { return value.to_vector<double>(); };
      for (int64_t i : {0, 7, 22}) {
        const auto expected = bits(fft::fft(select(x, 0, i)));
        EXPECT_EQ(bits(select(y, 0, i)), expected) << n << ' ' << dtype;
        EXPECT_EQ(bits(select(across, 1, i)), expected) << n << ' ' << dtype;
        EXPECT_EQ(bits(select(z, 0, i)), bits(fft::rfft(select(real, 0, i)))) << n << ' ' << dtype;
        EXPECT_EQ(bits(select(back, 0, i)), bits(fft::irfft(select(z, 0, i), {.n = n})))
            << n << ' ' << dtype;
      }
    }
}

TEST(Fft, ExactValues) {
  const auto reals = [](const Variable& x) { return x.to_vector<double>(); };
  EXPECT_EQ(reals(fft::rfft(tensor({1, 2, 3, 4}))), (Doubles{10, 0, -2, 2, -2, 0}));
  EXPECT_EQ(fft::rfft(tensor({1, 2, 3, 4})).dtype(), f32);  // whole numbers as input
  EXPECT_EQ(reals(fft::irfft(tensor({10.0, 5.0, -2.0, 2.0, -2.0, 7.0}, {3, 2}))),
            (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(reals(fft::fftshift(tensor({0, 1, 2, -2, -1}))), (Doubles{-2, -1, 0, 1, 2}));
  EXPECT_EQ(reals(fft::ifftshift(tensor({-2, -1, 0, 1, 2}))), (Doubles{0, 1, 2, -2, -1}));
}

TEST(Fft, SpellingsOfSeveralDimensions) {
  const Variable x = randn({3, 6, 8}, {.dtype = f64}), z = fft::rfft2(x);
  EXPECT_TRUE(fft::rfft2(x, {6, 8}).equal(z));
  EXPECT_TRUE(fft::rfft2(x, {5, 4}, {0, 2}, "ortho")
                  .equal(fft::rfft2(x, {.s = {5, 4}, .dim = {0, 2}, .norm = fft::Norm::kOrtho})));
  EXPECT_TRUE(fft::irfft2(z, {6, 8}).allclose(x));
  EXPECT_TRUE(fft::rfftn(x, {.dim = {1, 2}}).equal(z));
  EXPECT_TRUE(fft::rfftn(x, {.s = {6, 8}}).equal(z));
  EXPECT_TRUE(fft::rfftn(x).equal(fft::rfft2(x, {.dim = {0, 1, 2}})));
  EXPECT_TRUE(fft::irfftn(fft::rfftn(x)).allclose(x));
  EXPECT_TRUE(fft::ifftn(fft::fftn(z)).allclose(z));
  EXPECT_EQ(fft::fftfreq(5, 0.5).to_vector<double>(),
            fft::ifftshift(tensor({-2, -1, 0, 1, 2}) * (1.0 / 2.5)).to_vector<double>());
  EXPECT_EQ(fft::fftfreq(4).to_vector<double>(), (Doubles{0, 0.25, -0.5, -0.25}));
  EXPECT_EQ(fft::rfftfreq(4).to_vector<double>(), (Doubles{0, 0.25, 0.5}));
  EXPECT_THROW(fft::fftfreq(0), ArgumentError);
  EXPECT_THROW(fft::fft2(z, {.norm = "none"}), ArgumentError);
}

TEST(Fft, RefusesWhatCannotBeMeant) {
  const Variable x = zeros({3, 2});
  EXPECT_THROW(fft::fft(zeros({4})), ShapeError);
  EXPECT_THROW(fft::fft(zeros({4, 3})), ShapeError);
  EXPECT_THROW(fft::rfft(zeros({})), ShapeError);
  EXPECT_THROW(fft::fft(x, {.n = 0}), ArgumentError);
  EXPECT_THROW(fft::fft(zeros({0, 2})), ArgumentError);
  EXPECT_THROW(fft::irfft(zeros({1, 2})), ArgumentError);
  EXPECT_THROW(fft::fft(x, {.dim = 1}), IndexError);
  EXPECT_THROW(fft::fft2(x), IndexError);
  EXPECT_THROW(fft::fft2(zeros({2, 2, 2}), {.dim = {0, 0}}), ArgumentError);
  EXPECT_THROW(fft::fft2(zeros({2, 2, 2}), {.s = {3}}), ArgumentError);
  for (DType dtype : {f16, bf16}) EXPECT_THROW(fft::fft(x.to(dtype)), DTypeError);
}

// Signals are transformed in groups of up to 16, side by side or one after the other.
TEST(Fft, SignalsOfAGroupDoNotMix) {
  manual_seed(4);
  for (DType dtype : {f32, f64})
    for (int64_t n : {1, 2, 6, 15, 16, 37, 64, 96})
      for (int64_t outer : {1, 3, 20})
        for (int64_t inner : {1, 5, 21}) {
          const Variable x = randn({outer, n, inner, 2}, {.dtype = dtype});
          const Variable real = select(x, 3, 0);
          const Variable y = fft::fft(x, {.dim = 1}), z = fft::rfft(real, {.dim = 1});
          const Variable back = fft::irfft(z, {.n = n, .dim = 1});
          const double allowed = 16 * (1 + std::log2(double(n))) * epsilon(dtype);
          const auto expect_same = [&](const Variable& a, const Variable& b) {
            EXPECT_LE(amax(abs(a - b)).item(), allowed * std::max(1.0, amax(abs(b)).item()))
                << dtype << ' ' << Shape{outer, n, inner};
          };
          expect_same(back, real);
          for (int64_t i : {int64_t(0), outer * inner / 2, outer * inner - 1}) {
            const auto one = [&](const Variable& all) {
              return select(select(all, 2, i % inner), 0, i / inner).contiguous();
            };
            expect_same(one(y), fft::fft(one(x), {.dim = 0}));
            expect_same(one(z), fft::rfft(one(real), {.dim = 0}));
          }
        }
}

}  // namespace
}  // namespace tapegrad
