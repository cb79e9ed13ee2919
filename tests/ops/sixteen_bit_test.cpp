// T69: sixteen-bit floats, and numbers combined with them, are computed in float32: numbers that
// float16 cannot represent (1e-8, 70000) take effect in values, gradients and gradients of
// gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/tape/autocast.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/complex.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/loss.h"
#include "ops/margin_loss.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/statistics.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/clip.h"

namespace tapegrad {
namespace {

using Doubles = std::vector<double>;

constexpr int64_t kMany = 70'000;  // more than float16's largest, 65504

Variable number(double value, DType dtype) { return full({}, value, {.dtype = dtype}); }

/// Numbers in [low, high) that float16 and bfloat16 hold exactly.
Variable spread(double low, double high, int step) {
  Doubles numbers(kMany);
  for (int64_t i = 0; i < kMany; ++i)
    numbers[size_t(i)] = low + (high - low) * double(i * step % 64) / 64;
  return tensor(numbers, {.dtype = f64});
}

struct Derivatives {
  Doubles value, first, second;
};

/// Of y = f(x): the values, the gradient of 4096 times their sum, and that of the gradient's own
/// sum of squares times 64.
Derivatives derive(const std::function<Variable(const Variable&)>& f, const Variable& values,
                   DType dtype) {
  const Variable x = values.detach().to(dtype).requires_grad_();
  const Variable y = f(x);
  EXPECT_EQ(y.dtype(), dtype);
  const Variable seed = full(y.shape(), 4096, {.dtype = dtype});
  const Variable dx = grad(y, std::span(&x, 1), seed, {.create_graph = true}).front();
  EXPECT_EQ(dx.dtype(), dtype);
  Derivatives all{y.to_vector<double>(), dx.to_vector<double>(), {}};
  if (!dx.requires_grad()) return all;
  const Variable weights = spread(-1, 1, 5).to(dtype);
  const std::vector<Variable> second = grad(dx, std::span(&x, 1), weights, {.allow_unused = true});
  if (second.front().defined()) all.second = second.front().to_vector<double>();
  return all;
}

void expect_close(const Doubles& got, const Doubles& want, double epsilon, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    error = std::isfinite(got[i]) ? std::max(error, std::abs(got[i] - want[i])) : INFINITY;
  }
  EXPECT_LE(error, epsilon * largest) << what << "; the largest is " << largest;
}

struct Row {
  const char* name;
  std::function<Variable(const Variable& x, const Variable& other)> f;
  double low = -1, high = 1;
};

TEST(SixteenBit, T69_ReductionsAndLossesOfManyElements) {
  const auto classes = [](const Variable& x) { return reshape(x, {kMany / 2, 2}); };
  const auto ids = [] { return zeros({kMany / 2}, {.dtype = i64}); };
  const Row rows[] = {
      {"mean", [](const Variable& x, const Variable&) { return mean(x); }},
      {"mean of a dim",
       [](const Variable& x, const Variable&) {
         return mean(reshape(x, {1, kMany}), {1});
       }},
      {"nanmean", [](const Variable& x, const Variable&) { return nanmean(x); }},
      {"var", [](const Variable& x, const Variable&) { return var(x); }},
      {"std", [](const Variable& x, const Variable&) { return std(x); }},
      {"norm", [](const Variable& x, const Variable&) { return norm(x); }},
      {"norm 3", [](const Variable& x, const Variable&) { return norm(x, 3); }, 0.25, 1},
      {"cov", [](const Variable& x, const Variable&) { return cov(x); }},
      {"mse_loss", [](const Variable& x, const Variable& t) { return mse_loss(x, t); }},
      {"l1_loss", [](const Variable& x, const Variable& t) { return l1_loss(x, t); }},
      {"smooth_l1_loss", [](const Variable& x, const Variable& t) { return smooth_l1_loss(x, t); }},
      {"huber_loss", [](const Variable& x, const Variable& t) { return huber_loss(x, t, 0.5); }},
      {"binary_cross_entropy",
       [](const Variable& x, const Variable& t) { return binary_cross_entropy(x, t); }, 0.25, 0.75},
      {"binary_cross_entropy_with_logits",
       [](const Variable& x, const Variable& t) { return binary_cross_entropy_with_logits(x, t); }},
      {"kl_div", [](const Variable& x, const Variable& t) { return kl_div(x, t); }},
      {"cross_entropy",
       [&](const Variable& x, const Variable&) { return cross_entropy(classes(x), ids()); }},
      {"cross_entropy, smoothed",
       [&](const Variable& x, const Variable&) {
         return cross_entropy(classes(x), ids(), {.label_smoothing = 0.125});
       }},
      {"nll_loss", [&](const Variable& x, const Variable&) { return nll_loss(classes(x), ids()); }},
      {"nll_loss of many",
       [&](const Variable& x, const Variable&) {
         return nll_loss(reshape(x, {kMany, 1}), zeros({kMany}, {.dtype = i64}));
       }},
      {"multi_margin_loss",
       [&](const Variable& x, const Variable&) { return multi_margin_loss(classes(x), ids()); }},
      {"soft_margin_loss",
       [](const Variable& x, const Variable& t) { return soft_margin_loss(x, t); }},
      {"poisson_nll_loss",
       [](const Variable& x, const Variable& t) { return poisson_nll_loss(x, t); }},
      {"gaussian_nll_loss",
       [](const Variable& x, const Variable& t) {
         return gaussian_nll_loss(x, t, full({kMany}, 0.5, {.dtype = x.dtype()}));
       }},
      {"hinge_embedding_loss",
       [](const Variable& x, const Variable&) {
         return hinge_embedding_loss(x, ones({kMany}, {.dtype = x.dtype()}));
       }},
      {"margin_ranking_loss",
       [](const Variable& x, const Variable& t) {
         return margin_ranking_loss(x, t, ones({kMany}, {.dtype = x.dtype()}));
       }},
      {"batch_norm",
       [](const Variable& x, const Variable& t) {
         return t * reshape(batch_norm(reshape(x, {kMany, 1}), {}, {}, {}, {}, {.training = true}),
                            {kMany});
       }},
      {"layer_norm",
       [](const Variable& x, const Variable& t) { return t * layer_norm(x, {kMany}); }},
  };
  for (const Row& row : rows) {
    const Variable x = spread(row.low, row.high, 1), t = spread(0.25, 0.75, 3);
    const auto f = [&](const Variable& x) { return row.f(x, t.to(x.dtype())); };
    const Derivatives want = derive(f, x, f64);
    for (const DType dtype : {f16, bf16}) {
      SCOPED_TRACE(std::string(row.name) + " of " + std::string(name(dtype)));
      const double epsilon = dtype == f16 ? 0x1p-7 : 0x1p-5;
      const Derivatives got = derive(f, x, dtype);
      expect_close(got.value, want.value, epsilon, "value");
      expect_close(got.first, want.first, epsilon, "gradient");
      expect_close(got.second, want.second, epsilon, "gradient of the gradient");
    }
  }
}

/// Returns the only value of x.
double at(const Variable& x) { return x.to(f64).to_vector<double>().at(0); }

struct Case {
  const char* name;
  std::function<Variable(const Variable&)> f;
  double x;
  double value, derivative;  // before they are rounded to float16
};

TEST(SixteenBit, T69_NumbersThatFloat16CannotHold) {
  const Case cases[] = {
      {"x * 1e-8", [](const Variable& x) { return x * 1e-8; }, 60000, 6e-4, 1e-8},
      {"1e-8 * x", [](const Variable& x) { return 1e-8 * x; }, 60000, 6e-4, 1e-8},
      {"x / 70000", [](const Variable& x) { return x / 70000; }, 60000, 60000. / 70000, 1. / 70000},
      {"x * 1e6", [](const Variable& x) { return x * 1e6; }, 0x1p-10, 1e6 * 0x1p-10, 1e6},
      {"100000 / x", [](const Variable& x) { return 100000 / x; }, 1000, 100, -0.1},
      {"100000 - x", [](const Variable& x) { return 100000 - x; }, 50016, 49984, -1},
      {"x - 100000", [](const Variable& x) { return x - 100000; }, 50016, -49984, 1},
      {"x + 100000", [](const Variable& x) { return x + 100000; }, -50016, 49984, 1},
      {"100000 + x", [](const Variable& x) { return 100000 + x; }, -50016, 49984, 1},
      {"pow(1e6, x)", [](const Variable& x) { return pow(1e6, x); }, 0.5, 1000,
       1000 * std::log(1e6)},
      {"pow(x, 0.001)", [](const Variable& x) { return pow(x, 0.001); }, 2, std::pow(2, 0.001),
       0.001 * std::pow(2, -0.999)},
      {"atan2(x, 1e6)", [](const Variable& x) { return atan2(x, 1e6); }, 1000, 1e-3, 1e-6},
      {"fmod(x, 70000)", [](const Variable& x) { return fmod(x, 70000); }, 60000, 60000, 1},
      {"fmod(70000, x)", [](const Variable& x) { return fmod(70000, x); }, 48, 70000 % 48,
       -70000 / 48},
      {"remainder(x, 70000)", [](const Variable& x) { return remainder(x, 70000); }, -60000, 10000,
       1},
      {"xlogy(x, 1e6)", [](const Variable& x) { return xlogy(x, 1e6); }, 2, 2 * std::log(1e6),
       std::log(1e6)},
      {"hypot(x, 1e-8)", [](const Variable& x) { return hypot(x, 1e-8); }, 0, 1e-8, 0},
      {"lerp", [](const Variable& x) { return lerp(x, zeros(x.shape(), {.dtype = f16}), 1e-8); },
       60000, 60000, 1},
      {"lerp of the end",
       [](const Variable& x) { return lerp(zeros(x.shape(), {.dtype = f16}), x, 1e-8); }, 60000,
       6e-4, 1e-8},
      {"addcmul",
       [](const Variable& x) {
         return addcmul(zeros(x.shape(), {.dtype = f16}), x, ones(x.shape(), {.dtype = f16}), 1e-8);
       },
       60000, 6e-4, 1e-8},
  };
  for (const Case& row : cases)
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{40}}) {
      SCOPED_TRACE(row.name);
      const Variable x = full(shape, row.x, {.dtype = f16}).requires_grad_();
      const Variable y = row.f(x);
      ASSERT_EQ(y.dtype(), f16);
      ASSERT_EQ(y.shape(), shape);
      EXPECT_EQ(at(y), double(float(float16(float(row.value)))));
      const Variable dx =
          grad(y, std::span(&x, 1), ones(shape, {.dtype = f16}), {.create_graph = true}).front();
      EXPECT_EQ(dx.dtype(), f16);
      EXPECT_EQ(dx.shape(), shape);
      // Rules round more than once: one unit in the last place.
      const double want = float(float16(float(row.derivative)));
      if (std::isfinite(want)) {
        EXPECT_NEAR(at(dx), want, std::abs(want) * 0x1p-10 + 0x1p-24);
      } else {
        EXPECT_EQ(at(dx), want);
      }
    }
}

TEST(SixteenBit, T69_ANumberInPlaceAndAsAVariable) {
  for (const DType dtype : {f32, f64}) {
    Variable x = full({40}, 60000, {.dtype = f16});
    const Variable scale = number(1e-8, dtype);
    const double want = float(float16(6e-4f));
    EXPECT_EQ(at(x * scale), want);
    EXPECT_EQ(at(scale * x), want);
    x *= scale;
    EXPECT_EQ(at(x), want);
    EXPECT_EQ(x.dtype(), f16);
  }
  Variable x = full({40}, 60000, {.dtype = f16});
  EXPECT_EQ(at(mul_(x, 1e-8)), double(float(float16(6e-4f))));
  EXPECT_NEAR(at(div_(x, 1e-8)), 60000, 32);
}

TEST(SixteenBit, T69_AWideVariableGetsAGradientOfItsOwnType) {
  const Variable x = full({40}, 2, {.dtype = f16}).requires_grad_();
  const Variable scale = number(1e-3, f32).requires_grad_();
  const Variable y = sum(x * scale / scale - scale);
  const std::vector<Variable> xs{x, scale};
  const std::vector<Variable> dx = grad(y, xs, {}, {.create_graph = true});
  EXPECT_EQ(dx[0].dtype(), f16);
  EXPECT_EQ(dx[1].dtype(), f32);
  EXPECT_NEAR(at(dx[0]), 1, 1e-2);
  EXPECT_NEAR(at(dx[1]), -40, 1);
}

TEST(SixteenBit, T69_ClippedGradients) {
  for (const DType dtype : {f16, bf16}) {
    const Variable x = full({kMany}, 0.5, {.dtype = dtype}).requires_grad_();
    x.backward(full({kMany}, 1000, {.dtype = dtype}));
    const double norm = optim::clip_grad_norm_({x}, 1e-4);
    EXPECT_NEAR(norm, 1000 * std::sqrt(double(kMany)), norm * 0.01);
    const double want = 1000 * 1e-4 / norm;  // 3.8e-7, of which float16 has one digit
    EXPECT_NEAR(at(x.grad()), want, want * 0.2);
  }
}

TEST(SixteenBit, T69_LossesUnderAutocast) {
  const Autocast scope(f16);
  const Variable x = spread(-1, 1, 1).to(f16).requires_grad_();
  mean(x).backward();
  EXPECT_NEAR(at(x.grad()), 1.0 / kMany, 0.01 / kMany);
}

/// Expects results and gradients of f in `dtype` to be those in float64, for operands of 8 numbers.
void expect_as_in_float64(const char* name, DType dtype, double size,
                          const std::function<Variable(const std::vector<Variable>&)>& f) {
  const Doubles a{1, -0.75, 0.5, 0.25, -1, 0.875, 0.375, -0.625};
  const auto derivatives = [&](DType type, bool recorded) {
    std::vector<Variable> in;
    for (const double factor : {1.0, -0.75, 0.5}) {
      Variable x = (tensor(a, {.dtype = f64}) * (factor * size)).to(dtype).to(type);
      in.push_back((in.size() == 2 ? abs(x) : x).detach().requires_grad_());
    }
    const Variable y = f(in);
    std::vector<Variable> all{y.detach()};
    const Variable seed = full(y.shape(), 1, {.dtype = type});
    for (const Variable& dx :
         grad({&y, 1}, in, {&seed, 1}, {.create_graph = recorded, .allow_unused = true}))
      if (dx.defined()) all.push_back(dx.detach());
    return all;
  };
  for (const bool recorded : {false, true}) {
    const auto got = derivatives(dtype, recorded), want = derivatives(f64, recorded);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) {
      const Doubles found = got[k].to_vector<double>(), exact = want[k].to_vector<double>();
      double largest = 0;
      for (const double e : exact) largest = std::max(largest, std::abs(e));
      if (size_of(dtype) == 2 && (largest > 6e4 || largest < 1e-3)) continue;  // out of range
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], exact[i], 4e-3 * largest) << name << ' ' << size << ' ' << k;
    }
  }
}

// Squares of numbers between 300 and 1000, and reciprocal squares of small ones, are out of range.
TEST(SixteenBit, T69_SquaresOutOfRange) {
  using In = std::vector<Variable>;
  const auto rows = [](const Variable& x) { return reshape(x, {4, 2}); };
  for (const double size : {1.0 / 512, 1.0, 400.0}) {
    expect_as_in_float64("normalize", f16, size,
                         [&](const In& x) { return normalize(rows(x[0])); });
    expect_as_in_float64("cosine_similarity", f16, size, [&](const In& x) {
      return cosine_similarity(rows(x[0]), rows(x[1]) + size);
    });
    expect_as_in_float64("corrcoef", f16, size, [](const In& x) {
      return corrcoef(reshape(x[0], {2, 4}));
    });
    expect_as_in_float64("complex_mul", f16, size,
                         [&](const In& x) { return complex_mul(rows(x[0]), rows(x[1])); });
    expect_as_in_float64("complex_div", f16, size,
                         [&](const In& x) { return complex_div(rows(x[0]), rows(x[1])); });
    expect_as_in_float64("gaussian_nll_loss", f16, size,
                         [](const In& x) { return gaussian_nll_loss(x[0], x[1], x[2]); });
    expect_as_in_float64("acosh", f16, size, [](const In& x) { return acosh(x[2] + 2); });
    expect_as_in_float64("sinc", f16, size, [](const In& x) { return sinc(x[0]); });
  }
  for (const double size : {0x1p-70, 0x1p70})
    expect_as_in_float64("atan2", f32, size, [](const In& x) { return atan2(x[0], x[1]); });
  expect_as_in_float64("acosh", f32, 0x1p70, [](const In& x) { return acosh(x[2]); });
}

}  // namespace
}  // namespace tapegrad
