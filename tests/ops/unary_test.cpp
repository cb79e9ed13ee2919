#include "ops/unary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/autograd/derivatives.h"
#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Op = Variable (*)(Variable, Where);
using Exact = long double (*)(long double);

/// |got - expected| in units in the last place of expected; 0 if both are NaN or equal.
template <typename R>
double ulps(R got, long double expected) {
  if (std::isnan(expected) || std::isnan(got))
    return std::isnan(expected) && std::isnan(got) ? 0 : kInf;
  const R nearest = R(expected);
  if (got == nearest) return 0;
  if (std::isinf(nearest) || std::isinf(got)) return kInf;
  const R size = std::fabs(nearest);
  const R unit = std::max(size - std::nextafter(size, R(0)), std::numeric_limits<R>::denorm_min());
  return double(std::fabs((long double)got - expected) / unit);
}

struct Range {
  double low, high;
  bool logarithmic = false;  // spread over the exponents, with both signs unless low is positive
  bool negative = false;
};

template <typename R>
std::vector<R> spread(Range range) {
  RandomGenerator generator(17);
  std::vector<R> xs;
  for (double u : rand({30011}, {.dtype = f64}, generator).to_vector<double>()) {
    double x = range.low + (range.high - range.low) * u;
    if (range.logarithmic) {
      const double from = std::log2(range.low), to = std::log2(range.high);
      x = std::exp2(from + (to - from) * u);
      if (range.negative && xs.size() % 2 == 1) x = -x;
    }
    xs.push_back(R(x));
  }
  return xs;
}

template <typename R>
void check(const char* name, Op op, Exact exact, Range range, double allowed) {
  const std::vector<R> xs = spread<R>(range);
  const std::vector<R> ys =
      op(tensor(xs, {.dtype = kDTypeOf<R>}), Where::current()).template to_vector<R>();
  double worst = 0;
  R at = 0;
  for (size_t i = 0; i < xs.size(); ++i)
    if (const double error = ulps(ys[i], exact(xs[i])); error > worst) worst = error, at = xs[i];
  EXPECT_LE(worst, allowed) << name << " of " << kDTypeOf<R> << " at " << at;
}

struct Row {
  const char* name;
  Op op;
  Exact exact;
  double allowed;  // in ulp; the comment is the largest error on AVX2 and AVX-512
};

const Row kRows[] = {
    {"exp", exp, expl, 1.5},  // 0.96
    {"exp2", [](Variable x, Where w) { return exp2(x, w); }, exp2l, 1.5},
    {"expm1", expm1, expm1l, 2.5},                                    // 1.8
    {"log", log, logl, 1.5},                                          // 0.9
    {"log1p", log1p, log1pl, 1.5},                                    // 0.9
    {"log2", log2, log2l, 1.5},                                       // 0.9
    {"log10", log10, log10l, 1.5},                                    // 0.9
    {"sqrt", sqrt, sqrtl, 0.5},                                       // rounded correctly
    {"rsqrt", rsqrt, [](long double x) { return 1 / sqrtl(x); }, 2},  // two roundings
    {"reciprocal", reciprocal, [](long double x) { return 1 / x; }, 0.5},
    {"sin", sin, sinl, 2},     // 1.5
    {"cos", cos, cosl, 2},     // 1.6
    {"tan", tan, tanl, 4},     // 3.5
    {"tanh", tanh, tanhl, 3},  // 2.5
    {"erf", erf, erfl, 1.5},   // 1.1
};

template <typename R>
void check_all() {
  const double least = std::numeric_limits<R>::denorm_min(), most = std::numeric_limits<R>::max();
  for (const Row& row : kRows) {
    check<R>(row.name, row.op, row.exact, {0.01, 4.0}, row.allowed);
    check<R>(row.name, row.op, row.exact, {-2.0, 2.0}, row.allowed);
    check<R>(row.name, row.op, row.exact, {-110.0, 110.0}, row.allowed);
    check<R>(row.name, row.op, row.exact, {least, most, true, true}, row.allowed);
  }
  check<R>("exp", exp, expl, {-760.0, 715.0}, 1.5);
  check<R>("sin", sin, sinl, {0, 1.1e6}, 2);
  check<R>("cos", cos, cosl, {0, 1.1e6}, 2);
  check<R>("log2", log2, log2l, {0.99, 1.01}, 1.5);
  check<R>("log10", log10, log10l, {0.99, 1.01}, 1.5);
  for (int n = std::is_same_v<R, float> ? 10 : 22; n >= 0; --n) {  // the powers that R represents
    const Variable x = scalar(std::pow(10.0, n), {.dtype = kDTypeOf<R>});
    EXPECT_EQ(log10(x, Where::current()).item(), n);
  }
}

TEST(Unary, FunctionsAreWithinFourUlp) {
  check_all<float>();
  check_all<double>();
}

template <typename R>
void check_special_values() {
  const R tiny = std::numeric_limits<R>::denorm_min(), most = std::numeric_limits<R>::max();
  const R exp_low = std::is_same_v<R, float> ? R(-100) : R(-740);  // a subnormal result
  const std::vector<R> xs{0,     R(-0.0), 1,        -1,      tiny,    -tiny,  most,
                          -most, R(kInf), R(-kInf), R(kNan), exp_low, R(1e5), R(0.5)};
  for (const Row& row : kRows) {
    for (R x : xs) {
      const R y =
          row.op(scalar(x, {.dtype = kDTypeOf<R>}), Where::current()).template to_vector<R>()[0];
      const long double expected = row.exact(x);
      if (std::string_view(row.name) == "rsqrt" && x == 0) {
        EXPECT_EQ(y, R(expected));
        continue;
      }
      EXPECT_LE(ulps(y, expected), row.allowed) << row.name << "(" << x << ") = " << y;
      if (expected == 0) {
        EXPECT_EQ(std::signbit(y), std::signbit(expected)) << row.name << "(" << x << ")";
      }
    }
  }
}

TEST(Unary, SpecialValues) {
  check_special_values<float>();
  check_special_values<double>();
}

TEST(Unary, ExactOps) {
  for (DType dtype : {f16, bf16, f32, f64}) {
    const Variable x =
        tensor<double>({-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, kInf, -kInf}).to(dtype);
    const auto values = [](const Variable& y) { return y.to_vector<double>(); };
    using Values = std::vector<double>;
    EXPECT_EQ(values(round(x)), (Values{-2, -2, 0, 0, 0, 0, 2, 2, kInf, -kInf}));
    EXPECT_EQ(values(floor(x)), (Values{-3, -2, -1, 0, 0, 0, 1, 2, kInf, -kInf}));
    EXPECT_EQ(values(ceil(x)), (Values{-2, -1, 0, 0, 0, 1, 2, 3, kInf, -kInf}));
    EXPECT_EQ(values(trunc(x)), (Values{-2, -1, 0, 0, 0, 0, 1, 2, kInf, -kInf}));
    EXPECT_EQ(values(sign(x)), (Values{-1, -1, -1, 0, 0, 1, 1, 1, 1, -1}));
    EXPECT_EQ(values(step(x)), (Values{0, 0, 0, 0, 0, 1, 1, 1, 1, 0}));
    EXPECT_EQ(values(abs(x)), (Values{2.5, 1.5, 0.5, 0, 0, 0.5, 1.5, 2.5, kInf, kInf}));
    EXPECT_EQ(values(neg(x)), (Values{2.5, 1.5, 0.5, 0, 0, -0.5, -1.5, -2.5, -kInf, kInf}));
    EXPECT_EQ(values(isfinite(x)), (Values{1, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
    EXPECT_TRUE(std::signbit(values(neg(x))[4])) << "-(+0) is -0";
    EXPECT_FALSE(std::signbit(values(abs(x))[3]));
    const Variable nan = scalar(kNan, {.dtype = dtype});
    for (Op op : {Op(neg), Op(abs), Op(sign), Op(square), Op(floor), Op(round), Op(exp), Op(log),
                  Op(log1p), Op(tanh), Op(sin), Op(cos), Op(tan), Op(erf), Op(expm1), Op(sqrt)})
      EXPECT_TRUE(std::isnan(op(nan, Where::current()).item()));
    EXPECT_EQ(isnan(nan).item(), 1.0);
    EXPECT_EQ(isfinite(nan).item(), 0.0);
    EXPECT_EQ(isnan(x).to_vector<double>(), Values(10, 0.0));
  }
}

TEST(Unary, Integers) {
  const Variable x = tensor<int64_t>({-3, 0, 4, (1ll << 53) + 1});
  EXPECT_EQ(neg(x).to_vector<int64_t>(), (std::vector<int64_t>{3, 0, -4, -(1ll << 53) - 1}));
  EXPECT_EQ(abs(x).to_vector<int64_t>(), (std::vector<int64_t>{3, 0, 4, (1ll << 53) + 1}));
  EXPECT_EQ(sign(x).to_vector<int64_t>(), (std::vector<int64_t>{-1, 0, 1, 1}));
  EXPECT_EQ(floor(x).to_vector<int64_t>(), x.to_vector<int64_t>());
  EXPECT_EQ(floor(x).dtype(), i64);
  EXPECT_EQ(square(tensor<int64_t>({-3, 1ll << 31})).to_vector<int64_t>(),
            (std::vector<int64_t>{9, 1ll << 62}));
  EXPECT_EQ(exp(x).dtype(), default_dtype());
  EXPECT_EQ(sqrt(tensor<int64_t>({9})).item(), 3.0);
  EXPECT_EQ(reciprocal(tensor<int64_t>({4})).item(), 0.25);
  EXPECT_EQ(isnan(x).to_vector<bool>(), std::vector<bool>(4, false));
  EXPECT_EQ(neg(tensor<int64_t>({1}).to(u8)).to_vector<int64_t>()[0], 255) << "wraps";
}

/// d sum(op(x)) / dx.
template <typename F>
std::vector<double> gradient(F op, std::vector<double> xs) {
  const Variable x = tensor(xs, {.dtype = f64, .requires_grad = true});
  sum(op(x)).backward();
  return x.grad().defined() ? x.grad().to_vector<double>() : std::vector<double>(xs.size(), 0.0);
}

TEST(Unary, T33_Subgradients) {
  using Values = std::vector<double>;
  EXPECT_EQ(gradient([](auto& x) { return abs(x); }, {-2, 0, 3}), (Values{-1, 0, 1}));
  EXPECT_EQ(gradient([](auto& x) { return sqrt(x); }, {0, 4}), (Values{kInf, 0.25}));
  const ClampOptions unit{.min = -1, .max = 1};
  EXPECT_EQ(gradient([&](auto& x) { return clamp(x, unit); }, {-2, -1, 0, 1, 2}),
            (Values{0, 1, 1, 1, 0}));
  EXPECT_EQ(gradient([](auto& x) { return clamp(x, {.min = 1, .max = -1}); }, {-2, -1, 0, 1, 2}),
            (Values{0, 0, 0, 0, 0}));
  EXPECT_EQ(gradient([](auto& x) { return floor(x) + sign(x) + step(x); }, {-2, 0.5}),
            (Values{0, 0}));
}

TEST(Unary, TheGradientOfExpm1KeepsItsDigits) {
  const Variable x = tensor({-30.0, -1.0, 0.0, 2.0}, {.dtype = f64}).requires_grad_();
  sum(expm1(x)).backward();
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(x.grad()[i].item() / std::exp(x[i].item()), 1, 1e-15);
}

TEST(Unary, Clamp) {
  const Variable x = tensor<double>({-2, 0.5, 3, kNan, kInf}, {.dtype = f64});
  const std::vector<double> y = clamp(x, {.min = -1, .max = 2}).to_vector<double>();
  EXPECT_EQ(y[0], -1);
  EXPECT_EQ(y[1], 0.5);
  EXPECT_EQ(y[2], 2);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 2);
  EXPECT_EQ(clamp(x, {.min = 5, .max = 1}).to_vector<double>()[1], 1) << "max wins";
  EXPECT_EQ(clamp(x, {}).to_vector<double>()[4], kInf);
  const Variable k = tensor<int64_t>({-5, 0, (1ll << 60) + 1});
  EXPECT_EQ(clamp(k, {.min = -1}).to_vector<int64_t>(),
            (std::vector<int64_t>{-1, 0, (1ll << 60) + 1}));
  EXPECT_EQ(clamp(k, {.max = 0.5}).dtype(), default_dtype()) << "as PyTorch promotes";
  EXPECT_THROW(clamp(x, {.min = kNan}), ArgumentError);
  Variable target = k;
  EXPECT_THROW(clamp_(target, {.max = 0.5}), DTypeError);
  EXPECT_EQ(target.to_vector<int64_t>()[0], -5);
}

// The same rule gives gradients of every order: the n-th derivative of exp(2x) is 2^n exp(2x).
TEST(Unary, FifthDerivative) {
  const Variable x = tensor<double>({0.3}, {.dtype = f64, .requires_grad = true});
  Variable y = exp(x * 2);
  for (int i = 0; i < 5; ++i) y = grad(y, x, {.create_graph = true});
  EXPECT_NEAR(y.item(), 32 * std::exp(0.6), 1e-12);
  Variable s = sin(x);
  for (int i = 0; i < 5; ++i) s = grad(s, x, {.create_graph = true});
  EXPECT_NEAR(s.item(), std::cos(0.3), 1e-14);
}

TEST(Unary, TanhFusedAndComposedGradientsAgree) {
  const Variable x = tensor<double>({-3, -0.5, 0, 0.1, 2}, {.dtype = f64, .requires_grad = true});
  const auto fused = grad(sum(tanh(x)), x).to_vector<double>();
  const auto composed = grad(sum(tanh(x)), x, {.create_graph = true}).to_vector<double>();
  for (size_t i = 0; i < fused.size(); ++i) {
    EXPECT_NEAR(fused[i], composed[i], 1e-16);
    const double t = std::tanh(x.to_vector<double>()[i]);
    EXPECT_NEAR(fused[i], 1 - t * t, 1e-15);
  }
}

TEST(Unary, T20_InPlaceAsTheLastOpBeforeBackward) {
  const auto through = [](auto write) {
    return gradient(
        [&](const Variable& x) {
          Variable y = x * 2;
          write(y);
          return y;
        },
        {0.5, 1.25});
  };
  for (size_t i = 0; i < 2; ++i) {
    const double z = std::vector<double>{1.0, 2.5}[i], t = std::tanh(z);
    EXPECT_NEAR(through([](Variable& y) { tanh_(y); })[i], 2 * (1 - t * t), 1e-15);
    EXPECT_NEAR(through([](Variable& y) { exp_(y); })[i], 2 * std::exp(z), 1e-14);
    EXPECT_NEAR(through([](Variable& y) { sqrt_(y); })[i], 1 / std::sqrt(z), 1e-15);
    EXPECT_EQ(through([](Variable& y) { neg_(y); })[i], -2);
    EXPECT_EQ(through([](Variable& y) { clamp_(y, {.max = 2}); })[i], i == 0 ? 2 : 0);
  }
}

TEST(Unary, T20_InPlaceBeforeARetainedSecondUse) {
  const Variable x = tensor<double>({0.5, -1}, {.dtype = f64, .requires_grad = true});
  Variable y = x * 1;
  tanh_(y);
  const Variable loss = sum(y * y);
  loss.backward({.retain_graph = true});
  const auto once = x.grad().to_vector<double>();
  loss.backward();
  for (size_t i = 0; i < 2; ++i) {
    const double t = std::tanh(x.to_vector<double>()[i]);
    EXPECT_NEAR(once[i], 2 * t * (1 - t * t), 1e-15);
    EXPECT_NEAR(x.grad().to_vector<double>()[i], 2 * once[i], 1e-15);
  }
}

TEST(Unary, T12_ASavedResultThatWasOverwritten) {
  const Variable x = ones({3}, {.requires_grad = true});
  Variable y = exp(x);
  neg_(y);
  try {
    sum(y).backward();
    FAIL() << "exp needs its result";
  } catch (const AutogradError& error) {
    EXPECT_NE(std::string(error.what()).find("exp"), std::string::npos) << error.what();
  }
}

TEST(Unary, T16_InPlaceOnALeaf) {
  Variable x = ones({3}, {.requires_grad = true});
  EXPECT_THROW(tanh_(x), AutogradError);
  EXPECT_THROW(clamp_(x, {.max = 0}), AutogradError);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(3, 1.0f));
  Variable k = ones({2}, {.dtype = i64});
  EXPECT_THROW(exp_(k), DTypeError);
}

// A result does not depend on the position of its element in the tensor, nor on its neighbours.
TEST(Unary, SameBitsAtEveryPosition) {
  for (DType dtype : {f32, f64}) {
    RandomGenerator generator(5);
    Variable x = randn({1000}, {.dtype = dtype}, generator) * 3.0;
    Variable wild = x * 1;
    Variable every_third = slice(wild, 0, 0, kEnd, 3);
    fill_(every_third, 1e6);
    for (const Row& row : kRows) {
      const auto all = row.op(x, Where::current()).to_vector<double>();
      const auto beside = row.op(wild, Where::current()).to_vector<double>();
      const auto shifted = row.op(slice(x, 0, 1), Where::current()).to_vector<double>();
      for (size_t i = 1; i < 1000; ++i) {
        if (std::isnan(all[i])) continue;
        ASSERT_EQ(all[i], shifted[i - 1]) << row.name << i;
        if (i % 3 == 0) continue;
        ASSERT_EQ(all[i], beside[i]) << row.name << i;
      }
    }
  }
}

/// The kernels of gradients have the bits of the rules for recorded passes.
TEST(Unary, GradientsByKernelsEqualRecordedOnes) {
  using Function = Variable (*)(const Variable&);
  constexpr Function kFunctions[] = {
      [](const Variable& x) { return abs(x); },
      [](const Variable& x) { return square(x); },
      [](const Variable& x) { return pow(x, 2); },
      [](const Variable& x) { return expm1(x); },
      [](const Variable& x) { return log1p(x); },
      [](const Variable& x) { return sqrt(x); },
      [](const Variable& x) { return rsqrt(x); },
      [](const Variable& x) { return reciprocal(x); },
      [](const Variable& x) { return sin(x); },
      [](const Variable& x) { return cos(x); },
      [](const Variable& x) { return tan(x); },
      [](const Variable& x) { return tanh(x); },
      [](const Variable& x) { return erf(x); },
      [](const Variable& x) { return 3 / x; },
      [](const Variable& x) { return x / (x + 2); },
      [](const Variable& x) { return x * x; },
      [](const Variable& x) { return pow(x, 3); },
      [](const Variable& x) { return logsigmoid(x); },
      [](const Variable& x) { return asin(x / 3); },
      [](const Variable& x) { return acos(x / 3); },
      [](const Variable& x) { return atan(x); },
      [](const Variable& x) { return asinh(x); },
      [](const Variable& x) { return acosh(x); },
      [](const Variable& x) { return atanh(x / 3); },
      [](const Variable& x) { return erfc(x); },
      [](const Variable& x) { return logaddexp(x, x / 3); },
      [](const Variable& x) { return hypot(x, x - 1); },
      [](const Variable& x) { return atan2(x, x + 1); },
      [](const Variable& x) { return atan2(x * 0, x); },
  };
  for (DType dtype : {f32, f64}) {
    RandomGenerator generator(5);
    Variable x = randn({1000}, {.dtype = dtype}, generator) * 3;
    x[0] = 0, x[1] = kInf, x[2] = -kInf, x[3] = kNan, x[4] = -2;
    x.requires_grad_();
    const Variable dy = randn({1000}, {.dtype = dtype}, generator);
    int number = 0;
    for (Function function : kFunctions) {
      const Variable y = function(x);
      const auto found = grad({y}, {x}, {.grad_outputs = {dy}, .retain_graph = true})[0];
      const auto wanted = grad({y}, {x}, {.grad_outputs = {dy}, .create_graph = true})[0];
      const auto a = found.to_vector<double>(), b = wanted.detach().to_vector<double>();
      for (size_t i = 0; i < a.size(); ++i) {
        if (std::isnan(a[i]) && std::isnan(b[i])) continue;
        ASSERT_EQ(a[i], b[i]) << "function " << number << " at " << x[int64_t(i)].item();
      }
      ++number;
    }
  }
}

}  // namespace
}  // namespace tapegrad
