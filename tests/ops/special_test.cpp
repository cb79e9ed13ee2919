// Values that are not marked as PyTorch's were computed with mpmath to 40 digits.
#include "ops/special.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/special_composed.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::make;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;
using Function = Variable (*)(Variable, Where);

struct Point {
  double x, y;
};

/// Expects each value within 4 units in the last place, in float64 and float32.
template <typename F>
void expect_values(const char* name, F f, const std::vector<Point>& points) {
  for (const auto& [x, y] : points) {
    SCOPED_TRACE(std::string(name) + " of " + std::to_string(x));
    const double got = f(make<double>({x})).item();
    EXPECT_LE(std::abs(got - y), 4 * 0x1p-52 * std::abs(y)) << got << " is not " << y;
    if (double(float(x)) != x || std::abs(y) > 3e38 || std::abs(y) < 1e-37) continue;
    const double rounded = f(make<float>({float(x)})).item();
    EXPECT_LE(std::abs(rounded - y), 0x1p-23 * std::abs(y)) << rounded << " is not " << y;
  }
}
void expect_values(const char* name, Function f, const std::vector<Point>& points) {
  expect_values(
      name, [f](const Variable& x) { return f(x, Where::current()); }, points);
}

/// NaN equals NaN, and the signs of zeros are compared.
void expect_exactly(const Variable& got, const Doubles& expected) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
      continue;
    }
    EXPECT_EQ(values[i], expected[i]) << i;
    EXPECT_EQ(std::signbit(values[i]), std::signbit(expected[i])) << i;
  }
}

TEST(Special, ValuesOverTheWholeRange) {
  expect_values(
      "asin", asin,
      {{0.9999999999999999, 1.5707963118937354}, {1e-10, 1e-10}, {-0.3, -0.3046926540153975}});
  expect_values("acosh", acosh,
                {{1.0000000000000002, 2.1073424255447014e-08},
                 {1e300, 691.4686750787737},
                 {1.5, 0.9624236501192069}});
  expect_values("asinh", asinh,
                {{1e-20, 1e-20}, {-1e300, -691.4686750787737}, {0.7, 0.6526665660823557}});
  expect_values(
      "atanh", atanh,
      {{0.9999999999999999, 18.714973875118524}, {1e-15, 1e-15}, {-0.5, -0.5493061443340549}});
  expect_values("sinh", sinh,
                {{710.4, 1.6663642832806496e308}, {1e-9, 1e-9}, {-0.5, -0.5210953054937474}});
  expect_values("cosh", cosh,
                {{710.4, 1.6663642832806496e308}, {1e-9, 1.0}, {-0.5, 1.1276259652063807}});
  expect_values("erfc", erfc,
                {{26.5, 2.2109076642637343e-307},
                 {5.0, 1.537459794428035e-12},
                 {-3.0, 1.9999779095030015},
                 {1e-20, 1.0}});
  expect_values("erfinv", erfinv,
                {{0.5, 0.4769362762044699},
                 {-0.3, -0.2724627147267543},
                 {0.9, 1.1630871536766743},
                 {0.9999999999999, 5.261483331372676},
                 {-0.99999, -3.123413274341571},
                 {0.7, 0.7328690779592167},
                 {0.05, 0.044340387910005497},
                 {1e-200, 8.862269254527581e-201}});
  expect_values("sinc", sinc,
                {{1.0000000001, -1.000000082640371e-10},
                 {0.5, 0.6366197723675814},
                 {-3.75, -0.06002108774380707},
                 {1e-5, 0.9999999998355066},
                 {1234567.25, -1.823141501925282e-07}});
}

TEST(Special, GammaFunctionsOverTheWholeRange) {
  expect_values("lgamma", lgamma,
                {{0.001, 6.907178885383853},
                 {3.7, 1.428072326665388},
                 {170.5, 704.0044277342047},
                 {-0.5, 1.2655121234846454},
                 {-3.3, -0.8243558050174264},
                 {1e10, 220258509288.81058}});
  expect_values("digamma", digamma,
                {{0.001, -1000.5755719318103},
                 {0.5, -1.9635100260214235},
                 {1.4616321449683622, -9.241265521729427e-17},  // close to its zero
                 {1.46, -0.0015805619870834522},
                 {1.7, 0.2085478748734939},
                 {2.5, 0.7031566406452432},
                 {7.3, 1.9178203356379862},
                 {100000.0, 11.512920464961896},
                 {-0.5, 0.03648997397857652},
                 {-3.3, 3.620353460592126},
                 {-1e-20, 1e20}});
  const auto order = [](int64_t n) { return [n](const Variable& x) { return polygamma(n, x); }; };
  expect_values("polygamma(1)", order(1),
                {{0.01, 10001.621213528313},
                 {0.75, 2.5418796476716063},
                 {3.0, 0.39493406684822646},
                 {25.0, 0.04081066325722558},
                 {1e6, 1.0000005000001667e-06},
                 {-0.25, 18.541879647671607},
                 {-0.75, 18.975106932284888},
                 {-7.6, 10.788265451054698}});
  expect_values("polygamma(2)", order(2),
                {{0.01, -2000002.340398677},
                 {0.75, -5.3026332163376395},
                 {3.0, -0.15411380631918858},
                 {25.0, -0.001665279318422468},
                 {1e6, -1.0000010000005e-12},
                 {-0.25, 122.69736678366236},
                 {-0.75, -124.58699919679619},
                 {-7.6, -22.291481096904285}});
  expect_values("polygamma(5)", order(5),
                {{0.01, 120000000000115.05},
                 {0.75, 678.7533428745797},
                 {3.0, 0.20616743813389676},
                 {25.0, 2.7131757700038325e-06},
                 {-0.25, 492198.7533428746},
                 {-0.75, 492226.7524508089},
                 {-7.6, 31893.173701512314}});
  // The defining sum in decimals of 60 digits.
  expect_values(
      "polygamma(30)", order(30),
      {{0.7, -1.681205625310475e+37}, {2.5, -1.2232990235199246e+20}, {9.9, -38.18758617538602}});
  expect_values("polygamma(60)", order(60),
                {{0.7, -2.3398844351829917e+91},
                 {2.5, -4.424195614523948e+57},
                 {9.9, -1.5404873732348295e+21}});
}

// Values of PyTorch, except polygamma(1, -1), where PyTorch does not reach the pole exactly.
TEST(Special, EdgeValues) {
  expect_exactly(digamma(make<double>({0.0, -0.0, -1, kInf, -kInf, kNaN})),
                 {-kInf, kInf, kNaN, kInf, kNaN, kNaN});
  expect_exactly(lgamma(make<double>({0, -1, kInf, -kInf, 1, 2})), {kInf, kInf, kInf, kInf, 0, 0});
  expect_exactly(polygamma(1, make<double>({0.0, -1, kInf, -0.0, kNaN})),
                 {kInf, kInf, 0, kInf, kNaN});
  expect_exactly(erfinv(make<double>({0.0, -0.0, 1, -1, 2, kNaN})),
                 {0.0, -0.0, kInf, -kInf, kNaN, kNaN});
  expect_exactly(erfc(make<double>({kInf, -kInf, 0, 30})), {0, 2, 1, 0});
  expect_exactly(sinc(make<double>({0.0, kInf, kNaN})), {1, kNaN, kNaN});
  expect_exactly(asin(make<double>({1.5, -1.5})), {kNaN, kNaN});
  expect_exactly(acosh(make<double>({0.5, 1, kInf})), {kNaN, 0, kInf});
  expect_exactly(atanh(make<double>({1, -1, 2, -0.0})), {kInf, -kInf, kNaN, -0.0});
  expect_exactly(sinh(make<double>({-kInf, -0.0})), {-kInf, -0.0});
  expect_exactly(cosh(make<double>({-kInf})), {kInf});
}

TEST(Special, NanToNum) {
  const Variable x = make<double>({kNaN, kInf, -kInf, 2}).requires_grad_();
  constexpr double kMost = std::numeric_limits<double>::max();
  expect_exactly(nan_to_num(x), {0, kMost, -kMost, 2});
  expect_exactly(nan_to_num(x, {.nan = -1, .posinf = 7, .neginf = -kInf}), {-1, 7, -kInf, 2});
  expect_exactly(nan_to_num(x.to(f16)), {0, 65504, -65504, 2});
  expect_exactly(nan_to_num(x.to(bf16)), {0, 0x1.fep127, -0x1.fep127, 2});
  nan_to_num(x).backward(ones_like(x));
  expect_exactly(x.grad(), {0, 0, 0, 1});
  EXPECT_EQ(nan_to_num(tensor({1, 2})).dtype(), i64);
}

TEST(Special, GradientsAwayFromTheTable) {
  const auto check = [](Function f, const Doubles& xs) {
    const Variable x = make(xs).requires_grad_();
    const auto call = [f](const std::vector<Variable>& in) { return f(in[0], Where::current()); };
    const GradcheckResult result = gradcheck(call, {x}, {.order = 2, .eps = 1e-5});
    EXPECT_TRUE(result) << result.message;
  };
  check(asin, {-0.9, -0.2, 0, 0.6});
  check(acos, {-0.9, -0.2, 0, 0.6});
  check(atanh, {-0.9, -0.2, 0, 0.6});
  check(erfinv, {-0.9, -0.2, 0, 0.6});
  check(digamma, {-2.4, -0.6, 1.46, 12});
  check(lgamma, {-2.4, -0.6, 1.46, 12});
  check(sinc, {-0.3, -0.2499, -0.1, 0, 0.001, 0.2501, 1, 3.3});
}

// sinc'(0) = 0 and sinc''(0) = -pi^2 / 3, by the series.
TEST(Special, T33_SincAtZero) {
  const Variable x = make<double>({0.0, 1e-9}).requires_grad_(), one = ones_like(x);
  const Variable slope = grad(sinc(x), std::vector{x}, one, {.create_graph = true})[0];
  const Doubles slopes = slope.to_vector<double>();
  EXPECT_EQ(slopes[0], 0);
  EXPECT_DOUBLE_EQ(slopes[1], -1e-9 * M_PI * M_PI / 3);
  const Variable bend = grad(slope, std::vector{x}, one)[0];
  EXPECT_DOUBLE_EQ(bend.to_vector<double>()[0], -M_PI * M_PI / 3);
}

/// Numbers of both signs: close together around 0, and of all magnitudes.
std::vector<float> floats_to_try() {
  std::vector<float> x;
  for (int i = -40000; i <= 40000; ++i) x.push_back(float(i) * 0.00073f + 1e-4f);
  for (int i = -1400; i < 1200; ++i)
    for (float sign : {-1.0f, 1.0f}) x.push_back(sign * std::exp2(float(i) * 0.1f));
  for (float near : {1.0f, 2.0f, 1.4616321f, 8.0f, -2.4570247f, -0.5f})
    for (int i = -20; i <= 20; ++i) x.push_back(near + float(i) * 0x1p-22f);
  return x;
}

/// Expects that the values of float32 are those of float64, rounded once.
void expect_rounded(const char* name, const Variable& x, const Variable& narrow,
                    const Variable& wide) {
  const Doubles got = narrow.to(f64).to_vector<double>(), exact = wide.to_vector<double>();
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(exact[i]) || std::abs(exact[i]) > double(std::numeric_limits<float>::max())) {
      EXPECT_EQ(std::isnan(got[i]), std::isnan(exact[i])) << name << ' ' << i;
      continue;
    }
    const double ulp =
        std::max(std::exp2(std::floor(std::log2(std::abs(exact[i]))) - 23), 0x1p-149);
    const double error = std::abs(got[i] - exact[i]) / ulp;
    if (error > worst) worst = error, where = i;
  }
  EXPECT_LE(worst, 0.51) << name << " of " << x.to_vector<float>()[where] << " is " << exact[where];
}

TEST(Special, VectorFormsInFloatRoundOnce) {
  const Variable x = make<float>(floats_to_try());
  expect_rounded("lgamma", x, lgamma(x), lgamma(x.to(f64)));
  expect_rounded("digamma", x, digamma(x), digamma(x.to(f64)));
  expect_rounded("trigamma", x, polygamma(1, x), polygamma(1, x.to(f64)));
  for (double exponent : {-2.5, -1.1, 0.3, 0.5, 1.0, 1.5, 2.0, 4.0, 7.0, 11.3}) {
    const Variable b = make<float>(std::vector<float>(size_t(x.numel()), float(exponent)));
    expect_rounded("pow", x, pow(x, b), pow(x.to(f64), b.to(f64)));
  }
}

TEST(Special, PowersOfDoubles) {
  std::vector<double> a, b;
  for (int i = 0; i < 20000; ++i) {
    a.push_back(std::exp2(double(i % 401 - 200) * 0.113) * (1 + double(i) * 1e-5));
    b.push_back(double(i % 1009 - 500) * 0.0371);
  }
  for (double special : {0.0, -0.0, 1.0, -1.0, -2.0, kInf, -kInf, kNaN, 5e-324, 1e308})
    for (double exponent : {0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, kInf, -kInf, kNaN, 1e300, -3.0}) {
      a.push_back(special);
      b.push_back(exponent);
    }
  const Doubles got = pow(make<double>(a), make<double>(b)).to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    const long double exact = std::pow((long double)a[i], (long double)b[i]);
    if (std::isnan(double(exact)) || std::isinf(double(exact)) || exact == 0) {
      expect_exactly(make<double>({got[i]}), {double(exact)});
      continue;
    }
    const double ulp = std::abs(std::nextafter(double(exact), kInf) - double(exact));
    ASSERT_LE(std::abs(double(got[i] - exact)), 1.1 * ulp) << a[i] << " ^ " << b[i];
  }
}

TEST(Special, IntegersBecomeFloats) {
  EXPECT_EQ(sinh(tensor({1, 2})).dtype(), f32);
  EXPECT_EQ(digamma(tensor({1, 2})).dtype(), f32);
  EXPECT_THROW(polygamma(-1, make<double>({1})), ArgumentError);
  EXPECT_THROW(polygamma(171, make<double>({1})), ArgumentError);
  EXPECT_EQ(polygamma(0, make<double>({2.5})).item(), digamma(make<double>({2.5})).item());
}

// The values were computed with mpmath to 20 digits.
TEST(Special, ModifiedBesselFunctions) {
  expect_values("i0", i0,
                {{-30, 781672297823.97748972},
                 {0.25, 1.0156861412236079234},
                 {19.875, 38562339.11765101197},
                 {20.125, 49202462.440683415209},
                 {700, 1.5295933476718737363e+302}});
  expect_values("i1", i1,
                {{-30, -768532038938.95699949},
                 {0.25, 0.12597910894546792591},
                 {19.875, 37579346.512828665143},
                 {20.125, 47964035.543239812039},
                 {90, 5.1106068152565981569e+37}});
  expect_values("i0e", i0e, {{-3, 0.24300035416182539847}, {700, 0.015081295651531357587}});
  expect_values("i1e", i1e, {{-3, -0.19682671329730085363}, {700, 0.015070519444716846949}});
  expect_exactly(i0(make<double>({kInf, -kInf, kNaN, 0})), {kInf, kInf, kNaN, 1});
  expect_exactly(i1(make<double>({kInf, -kInf, kNaN, 0})), {kInf, -kInf, kNaN, 0});
  expect_exactly(i0e(make<double>({kInf, -kInf, kNaN, 0})), {0, 0, kNaN, 1});
  // I1'(0) = 1/2, and the third derivative is 3/8.
  const Variable zero = make<double>({0}).requires_grad_();
  const auto slope = [&](const Variable& y) { return grad(sum(y), zero, {.create_graph = true}); };
  expect_exactly(slope(i1(zero)), {0.5});
  expect_exactly(slope(slope(slope(i1(zero)))), {0.375});
  for (const Function f : {Function(i0), Function(i1), Function(i0e), Function(i1e)})
    EXPECT_TRUE(gradcheck([f](const Variable& x) { return f(x, Where::current()); },
                          make<double>({-3, -0.4, 1e-3, 0.2, 0.7, 5}).requires_grad_(),
                          {.order = 2}));
}

TEST(Special, LogOfTheNormalDistributionFunction) {
  const auto f = [](const Variable& x) { return log_ndtr(x); };
  expect_values("log_ndtr", f,
                {{-200, -20006.217280898190402},
                 {-30, -454.32124395634319711},
                 {-10.5, -58.404187061073243416},
                 {-9.5, -48.306019298965230282},
                 {-0.25, -0.91306176481113505517},
                 {2, -0.023012909328963488465}});
  EXPECT_TRUE(
      gradcheck(f, make<double>({-12, -9, -3, -0.4, 0.5, 3}).requires_grad_(), {.order = 2}));
  EXPECT_EQ(log_ndtr(make<float>({-11}).to(f16)).item(), -63.8125);  // ndtr(-11) is 2e-28
}

TEST(Special, NormalQuantilesOfSmallProbabilities) {
  const std::vector<Point> points = {{1e-300, -37.047096299361199237},
                                     {1e-100, -21.273453560965324294},
                                     {1e-20, -9.2623400897984075796},
                                     {1e-10, -6.3613409024040561991},
                                     {1e-05, -4.2648907939228246102},
                                     {0.019, -2.0748547343933097946},
                                     {0.021, -2.0335201492530509384},
                                     {0.25, -0.6744897501960817432},
                                     {0.5, 0},
                                     {0.75, 0.6744897501960817432},
                                     {1 - 0x1p-53, 8.2095361516013868556}};
  for (const auto& [p, y] : points) {
    EXPECT_LE(std::abs(ndtri(make<double>({p})).item() - y), 8 * 0x1p-52 * std::abs(y)) << p;
    if (p > 1e-40 && p < 1 - 1e-10) {
      const double rounded = ndtr(ndtri(make<float>({float(p)})).to(f64)).item();
      EXPECT_NEAR(rounded / float(p), 1, 1e-5) << p;
    }
  }
  const Doubles ends = ndtri(make<double>({0, 1, -0.5, 1.5, kNaN, 5e-324})).to_vector<double>();
  expect_exactly(make<double>({ends[0], ends[1], ends[2], ends[3], ends[4]}),
                 {-kInf, kInf, kNaN, kNaN, kNaN});
  EXPECT_NEAR(ends[5], -38.467, 1e-2);
  EXPECT_EQ(ndtri(make<float>({0.25f})).dtype(), f32);
  const auto checked = gradcheck([](const auto& in) { return ndtri(in[0]); },
                                 {make<double>({0.3, 0.01, 0.9}).requires_grad_()}, {.order = 2});
  EXPECT_TRUE(checked) << checked.message;
}

// d/dx of x log1p(y) is log1p(y), also at x = 0.
TEST(Special, DerivativeOfXlog1pyAtZero) {
  const Variable x = make<double>({0, 0, 0, 0, 2}).requires_grad_();
  const Variable y = make<double>({1, -1, -2, kInf, 1});
  const Variable z = xlog1py(x, y);
  expect_exactly(z, {0, 0, 0, 0, 2 * std::log1p(1)});
  sum(z).backward();
  expect_exactly(x.grad(), {std::log1p(1), 0, 0, 0, std::log1p(1)});
  expect_exactly(xlog1py(make<double>({0}), make<double>({kNaN})), {kNaN});
}

// log2(2^a + 2^b) is a + 1 for a = b, and the larger operand where the other is negligible.
TEST(Special, LogAddExp2IsExactForWholeNumbers) {
  const Doubles a{3, 0, -7, 1000, 127, kInf, -kInf, kInf, kNaN};
  const Doubles b{3, 100, -7, 0, -5e8, kInf, -kInf, -kInf, 1};
  const Doubles sums{4, 100, -6, 1000, 127, kInf, -kInf, kInf, kNaN};
  expect_exactly(logaddexp2(make<double>(a), make<double>(b)), sums);
  expect_exactly(logaddexp2(make<double>(a).to(f32), make<double>(b).to(f32)).to(f64), sums);
}

}  // namespace
}  // namespace tapegrad
