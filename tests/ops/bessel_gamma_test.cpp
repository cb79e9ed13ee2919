// Special functions without a vector form: Bessel functions, erfcx, incomplete gamma functions and
// the Hurwitz zeta function. The values were computed with mpmath to 60 digits.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/autograd/derivatives.h"
#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/gamma.h"
#include "ops/reduce.h"
#include "ops/special.h"

namespace tapegrad {
namespace {

template <typename T>
Variable make(const std::vector<T>& values) {
  return Variable(Tensor::from<T>(values, {int64_t(values.size())}));
}

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;
using Function = Variable (*)(Variable, Where);

/// Expects relative errors up to the limit in float64.
void expect_relative(const Variable& got, const Doubles& expected, double limit) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_LE(std::abs(values[i] - expected[i]), limit * std::abs(expected[i])) << i;
}

/// Expects each value within 1e-15 of the larger of 1 and its size in float64, because the
/// functions have roots, and rounded to float32.
void expect_close(const char* name, Function f,
                  const std::vector<std::pair<double, double>>& points) {
  for (const auto& [x, y] : points) {
    SCOPED_TRACE(std::string(name) + " of " + std::to_string(x));
    const double size = std::max(1.0, std::abs(y));
    EXPECT_LE(std::abs(f(make<double>({x}), {}).item() - y), 1e-15 * size);
    if (std::abs(y) > 3e38) continue;
    EXPECT_LE(std::abs(f(make<float>({float(x)}), {}).item() - y), 0x1p-23 * size);
  }
}

/// NaN equals NaN.
void expect_exactly(const Variable& got, const Doubles& expected) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i])))
        << i << ": " << values[i];
}

TEST(BesselGamma, Bessel) {
  expect_close("bessel_j0", bessel_j0,
               {{-7.5, 0.26633965788037839687},
                {0.0009765625, 0.99999976158143510929},
                {1, 0.76519768655796655145},
                {1.9375, 0.26004565867589034457},
                {2.0625, 0.18798762974254291646},
                {7.5, 0.26633965788037839687},
                {24.875, 0.079847211894565683488},
                {25.125, 0.11110599329381677587},
                {1000.5, 0.019486559987130137373}});
  expect_close("bessel_j1", bessel_j1,
               {{-7.5, -0.13524842757970550518},
                {0.0009765625, 0.0004882811917923413995},
                {1, 0.44005058574493351596},
                {1.9375, 0.57996904844665894037},
                {2.0625, 0.57191727236530162509},
                {7.5, 0.13524842757970550518},
                {24.875, -0.1370310425792130428},
                {25.125, -0.11177965867721437332},
                {1000.5, 0.016027715373203338006}});
  expect_close("bessel_y0", bessel_y0,
               {{0.0009765625, -4.4865150767109739412},
                {1, 0.088256964215676957983},
                {1.9375, 0.5025766836447507555},
                {2.0625, 0.51597215500302118773},
                {7.5, 0.11731328614820863084},
                {24.875, -0.13860743587950666757},
                {25.125, -0.1139673401855955311},
                {1000.5, 0.0160179749646043269}});
  expect_close("bessel_y1", bessel_y1,
               {{0.0009765625, -651.90099301063115047},
                {1, -0.78121282130028871655},
                {1.9375, -0.14266350852541655407},
                {2.0625, -0.072189561461146958587},
                {7.5, -0.2591285104861162518},
                {24.875, -0.082648261143510110395},
                {25.125, -0.11339505307446683991},
                {1000.5, -0.019478557437521775818}});
  expect_close("bessel_k0", bessel_k0,
               {{0.0009765625, 7.0474052399084523204},
                {1, 0.42102443824070833334},
                {1.9375, 0.1230056705255542985},
                {2.0625, 0.10550071349007923262},
                {7.5, 0.00024917761635611438901},
                {24.875, 3.9351646540304419405e-12},
                {25.125, 3.0495706173354640774e-12},
                {200.5, 7.4248732292890826923e-89}});
  expect_close("bessel_k1", bessel_k1,
               {{0.0009765625, 1023.9963147439890696},
                {1, 0.60190723019723457474},
                {1.9375, 0.15189469135994700046},
                {2.0625, 0.12888016682027843491},
                {7.5, 0.00026529739012528952599},
                {24.875, 4.0134985815667473789e-12},
                {25.125, 3.1096773813734152247e-12},
                {200.5, 7.4433661497398690221e-89}});
  expect_close("bessel_k0e", bessel_k0e,
               {{0.0009765625, 7.0542908331469061054},
                {1, 1.1444630798068950147},
                {1.9375, 0.85382858725621142628},
                {2.0625, 0.8298273904353701551},
                {7.5, 0.45052369910491568638},
                {24.875, 0.25005649879556471527},
                {25.125, 0.24882129861349926445},
                {1000.5, 0.039618420706405196025}});
  expect_close("bessel_k1e", bessel_k1e,
               {{0.0009765625, 1024.9967995835829393},
                {1, 1.6361534862632582465},
                {1.9375, 1.054358137974122329},
                {2.0625, 1.0137210353691467832},
                {7.5, 0.47966893379102061554},
                {24.875, 0.25503415777015726479},
                {25.125, 0.2537255441483823752},
                {1000.5, 0.039638215074686227286}});
  expect_close("erfcx", erfcx,
               {{-20, 1.0442939379528287901e+174},
                {-3, 16205.988853999586625},
                {0.25, 0.77034654773099674392},
                {3, 0.17900115118138995042},
                {9.875, 0.056844573501812038404},
                {10.125, 0.055454535502677203233},
                {1000000.0, 5.6418958354747419216e-7}});
  // Values below the unit of roundings of 1.
  expect_relative(bessel_k0(make<double>({100, 700})),
                  {4.6566282291759020189e-45, 4.669776431685376881e-306}, 1e-14);
  expect_relative(bessel_j1(make<double>({1e-9, -1e-300})), {5e-10, -5e-301}, 1e-15);
}

TEST(BesselGamma, BesselAtTheEnds) {
  const Variable x = make<double>({0, -1, kInf, -kInf, kNaN});
  expect_exactly(bessel_j0(x), {1, bessel_j0(make<double>({1})).item(), 0, 0, kNaN});
  expect_exactly(bessel_y0(x), {-kInf, kNaN, 0, kNaN, kNaN});
  expect_exactly(bessel_y1(x), {-kInf, kNaN, 0, kNaN, kNaN});
  expect_exactly(bessel_k0(x), {kInf, kNaN, 0, kNaN, kNaN});
  expect_exactly(bessel_k1e(x), {kInf, kNaN, 0, kNaN, kNaN});
  expect_exactly(erfcx(make<double>({0, kInf, -kInf, -27, kNaN})), {1, 0, kInf, kInf, kNaN});
  EXPECT_EQ(bessel_j0(tensor({1, 2})).dtype(), f32);
}

TEST(BesselGamma, Gradients) {
  const Variable x = make<double>({0.3, 1.7, 4, 26}).requires_grad_();
  for (const Function f : {Function(bessel_j0), Function(bessel_j1), Function(bessel_y0),
                           Function(bessel_y1), Function(bessel_k0), Function(bessel_k1),
                           Function(bessel_k0e), Function(bessel_k1e), Function(erfcx)})
    EXPECT_TRUE(
        gradcheck([f](const Variable& x) { return f(x, Where::current()); }, x, {.order = 2}));
  // J1'(0) = 1/2.
  const Variable zero = make<double>({0}).requires_grad_();
  expect_exactly(grad(sum(bessel_j1(zero)), zero), {0.5});
}

TEST(BesselGamma, IncompleteGamma) {
  const Variable a = make<double>({0.001, 0.5, 2, 9.5, 20, 50, 1000, 3});
  const Variable x = make<double>({0.5, 0.25, 3, 20, 0.125, 45, 1100, 300});
  expect_relative(igamma(a, x),
                  {0.99943993334352925011, 0.52049987781304653768, 0.80085172652854422808,
                   0.99672768288122024885, 3.1650526333837326156e-37, 0.24680203440017027271,
                   0.99894067674607002265, 1.0},
                  1e-12);
  expect_relative(igammac(a, x),
                  {0.00056006665647074988868, 0.47950012218695346232, 0.19914827347145577192,
                   0.0032723171187797511541, 1.0, 0.75319796559982972729, 0.0010593232539299773489,
                   2.332186182754866363e-126},
                  1e-12);
  // PyTorch's values, except NaN at (inf, inf).
  const Variable as = make<double>({0, 0, 2, kInf, kInf, -1, 1, kNaN});
  const Variable xs = make<double>({1, 0, 0, 1, kInf, 1, kInf, 1});
  expect_exactly(igamma(as, xs), {1, kNaN, 0, 0, kNaN, kNaN, 1, kNaN});
  expect_exactly(igammac(as, xs), {0, kNaN, 1, 1, kNaN, kNaN, 0, kNaN});
}

TEST(BesselGamma, GradientsOfIncompleteGamma) {
  const Variable a = make<double>({0.4, 2.5, 12}).requires_grad_();
  const Variable x = make<double>({0.7, 2, 11}).requires_grad_();
  for (const auto f : {igamma, igammac}) {
    EXPECT_TRUE(gradcheck([&](const Variable& x) { return f(a.detach(), x); }, x, {.order = 2}));
    EXPECT_TRUE(gradcheck([&](const Variable& a) { return f(a, x.detach()); }, a));
    EXPECT_TRUE(gradcheck([&](const Variable& x) { return f(2.0, x); }, x));
    EXPECT_TRUE(gradcheck([&](const Variable& a) { return f(a, 1.5); }, a));
  }
}

TEST(BesselGamma, Zeta) {
  const Variable s = make<double>({1.001, 1.5, 2, 3.25, 60, 2, 3});
  const Variable q = make<double>({1, 0.25, 1, 40, 1, -0.375, -2.625});
  expect_relative(zeta(s, q),
                  {1000.5772884760116268, 10.213055360466600739, 1.6449340668482264365,
                   0.00011360285194115906333, 1.0000000000000000009, 10.512294284151519595,
                   15.096728580763629228},
                  1e-14);
  expect_exactly(zeta(make<double>({1, 0.5, 2, 2, 2.5, kInf, kInf, kNaN}),
                      make<double>({1, 1, 0, -1, -0.5, 1, 0.5, 1})),
                 {kInf, kNaN, kInf, kInf, kNaN, 1, kInf, kNaN});
  const Variable points = make<double>({0.3, 1, 20}).requires_grad_();
  EXPECT_TRUE(gradcheck([](const Variable& q) { return zeta(2.5, q); }, points, {.order = 2}));
  EXPECT_THROW(zeta(points + 1, 2.0).sum().backward(), AutogradError);
}

TEST(BesselGamma, NamesOfTorchSpecial) {
  const Variable x = make<double>({0.5, 3}), y = make<double>({1.5, 2});
  EXPECT_TRUE(equal(special::gammainc(x, y), igamma(x, y)));
  EXPECT_TRUE(equal(special::gammaincc(x, y), igammac(x, y)));
  EXPECT_TRUE(equal(special::modified_bessel_i0(x), i0(x)));
  EXPECT_TRUE(equal(special::modified_bessel_i1(x), i1(x)));
  EXPECT_TRUE(equal(special::modified_bessel_k0(x), bessel_k0(x)));
  EXPECT_TRUE(equal(special::modified_bessel_k1(x), bessel_k1(x)));
  EXPECT_TRUE(equal(special::scaled_modified_bessel_k0(x), bessel_k0e(x)));
  EXPECT_TRUE(equal(special::scaled_modified_bessel_k1(x), bessel_k1e(x)));
  EXPECT_TRUE(equal(special::bessel_y1(x), bessel_y1(x)));
  EXPECT_TRUE(equal(special::zeta(y, x), zeta(y, x)));
}

}  // namespace
}  // namespace tapegrad
