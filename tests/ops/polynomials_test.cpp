// Orthogonal polynomials, the Airy function and the spherical Bessel function. The values are those
// of PyTorch 2.15, of the Airy function those of mpmath with 30 digits.
#include "ops/polynomials.h"

#include "core/autograd/gradcheck.h"
#include "ops/aliases.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using namespace testing;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Compares with an error of 1e-12 of the values, or of 1.
void expect_near(const Variable& got, const Values& expected, double tolerance = 1e-12) {
  const Values y = values(got);
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(y[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
}

const Variable x = make<double>({-2.5, -1.0, -0.3, 0.0, 0.4, 0.9, 1.0, 1.7});

TEST(Polynomials, Values) {
  expect_near(special::chebyshev_polynomial_t(x, 4),
              {263.5, 1.0, 0.34480000000000005, 1.0, -0.07520000000000006, -0.23119999999999974,
               1.0, 44.69679999999999});
  expect_near(special::chebyshev_polynomial_t(x, 9),
              {-665335.0, -1.0, -0.3888276479999983, 5.51091059616309e-16, -0.5329295360000014,
               -0.6076892160000001, 1.0, 12282.511058431994});
  expect_near(
      special::chebyshev_polynomial_u(x, 4),
      {551.0, 5.0, 0.04960000000000005, 1.0, -0.5104000000000002, 1.777600000000001, 5.0, 99.9536});
  expect_near(special::chebyshev_polynomial_u(x, 9),
              {-1391275.0, -10.0, -0.0990888959999999, 6.123233995736766e-16, -0.9022238720000004,
               -2.247455232, 10.0, 27470.671691263997});
  expect_near(special::chebyshev_polynomial_v(x, 4), {666.0, 9.0, -0.9344, 1.0, 0.5775999999999999,
                                                      -0.4543999999999998, 1.0, 67.44959999999999});
  expect_near(special::chebyshev_polynomial_v(x, 9),
              {-1681651.0, -19.0, 0.8667069439999989, -0.9999999999999984, 0.021011967999998684,
               -0.42549299200000085, 1.0, 18536.459554303994});
  expect_near(special::chebyshev_polynomial_w(x, 4),
              {436.0, 1.0, 1.0336, 1.0, -1.5984, 4.009600000000001, 9.0, 132.45759999999999});
  expect_near(special::chebyshev_polynomial_w(x, 9),
              {-1100899.0, -1.0, -1.0648847360000007, 1.0000000000000016, -1.8254597120000002,
               -4.069417471999999, 19.0, 36404.88382822399});
  expect_near(special::shifted_chebyshev_polynomial_t(x, 4),
              {10081.0, 577.0, 32.94880000000001, 1.0, 0.6928000000000002, -0.8431999999999998, 1.0,
               220.34079999999997});
  expect_near(special::shifted_chebyshev_polynomial_t(x, 9),
              {-2421980406.0, -3880899.0, -6183.032098816005, -1.0, -0.970998272,
               0.8815431679999994, 1.0, 444883.23195494374});
  expect_near(special::shifted_chebyshev_polynomial_u(x, 4),
              {20305.0, 1189.0, 75.13760000000003, 5.0, 0.5456000000000002, -0.12639999999999946,
               5.0, 462.7215999999999});
  expect_near(special::shifted_chebyshev_polynomial_u(x, 9),
              {-4878316860.0, -7997214.0, -14103.652114432009, -10.0, -0.9221949439999999,
               0.25207193599999794, 10.0, 934271.7800570878});
  expect_near(special::shifted_chebyshev_polynomial_v(x, 4),
              {22009.0, 1393.0, 101.50560000000002, 9.0, -0.19039999999999963, -1.0224, 1.0,
               361.7295999999999});
  expect_near(special::shifted_chebyshev_polynomial_v(x, 9),
              {-5287706269.0, -9369319.0, -19054.03962419201, -19.0, -0.6781783039999996,
               1.038910976, 1.0, 730359.8850145276});
  expect_near(
      special::shifted_chebyshev_polynomial_w(x, 4),
      {18601.0, 985.0, 48.76960000000001, 1.0, 1.2816, 0.7696000000000017, 9.0, 563.7135999999999});
  expect_near(special::shifted_chebyshev_polynomial_w(x, 9),
              {-4468927451.0, -6625109.0, -9153.264604672004, -1.0, -1.166211584,
               -0.5347671040000038, 19.0, 1138183.6750996476});
  expect_near(special::hermite_polynomial_h(x, 4),
              {337.0, -20.0, 7.8096, 12.0, 4.7296, -16.3824, -20.0, 6.9135999999999935});
  expect_near(special::hermite_polynomial_h(x, 9),
              {131275.0, 10720.0, -7010.287658496, 0.0, 7415.526883327999, -7209.916780032002,
               -10720.0, 24756.162609663996});
  expect_near(special::hermite_polynomial_he(x, 4),
              {4.5625, -2.0, 2.4681, 3.0, 2.0656, -1.2039000000000002, -2.0, -5.9879});
  expect_near(special::hermite_polynomial_he(x, 9),
              {-1431.103515625, -28.0, -250.390686483, 0.0, 301.171999744, 138.33395208899998, 28.0,
               -575.451886303});
  expect_near(special::laguerre_polynomial_l(x, 4),
              {41.794270833333336, 8.708333333333334, 2.4883374999999996, 1.0, -0.16160000000000008,
               -0.6286624999999998, -0.625, -0.057329166666666674});
  expect_near(special::laguerre_polynomial_l(x, 9),
              {695.5610246876983, 48.424035493827155, 5.743163126842191, 1.0, -0.4918856906271603,
               0.15719056237522366, 0.3097442680776013, 0.41622125527202714});
  expect_near(special::legendre_polynomial_p(x, 4),
              {147.8359375, 1.0, 0.07293749999999997, 0.375, -0.11300000000000004,
               0.20793750000000008, 1.0, 26.077937499999997});
  expect_near(special::legendre_polynomial_p(x, 9),
              {-252698.1746673584, -1.0, -0.0637003817578125, 0.0, -0.18876356, -0.3695104859765628,
               1.0, 4835.087256086208});
}

TEST(Polynomials, Degrees) {
  EXPECT_TRUE(equal(special::hermite_polynomial_h(x, 0), ones_like(x)));
  EXPECT_TRUE(equal(special::hermite_polynomial_h(x, 1), 2 * x));
  EXPECT_TRUE(equal(special::hermite_polynomial_h(x, -1), zeros_like(x)));
  EXPECT_TRUE(equal(special::legendre_polynomial_p(x, 3.7), special::legendre_polynomial_p(x, 3)));
  expect_near(
      special::legendre_polynomial_p(x, tensor({-1, 0, 1, 2, 3, 4, 5, 6})),
      {0.0, 1.0, -0.3, -0.5, -0.43999999999999995, 0.20793750000000008, 1.0, 202.70730868749993});
  // The degrees broadcast, and a number is as good as a tensor.
  EXPECT_EQ(special::laguerre_polynomial_l(x, tensor({{2}, {3}})).shape(), Shape({2, 8}));
  EXPECT_EQ(special::laguerre_polynomial_l(0.5, tensor({2, 3})).shape(), Shape({2}));
  EXPECT_EQ(special::chebyshev_polynomial_t(tensor({1, 2}), 3).dtype(), f32);
  EXPECT_EQ(special::chebyshev_polynomial_t(make<double>({}), 3).shape(), Shape({0}));
  EXPECT_NE(message_of<ArgumentError>([] {
              special::hermite_polynomial_h(x, 513);
            }).find("the degree 513 is above 512"),
            std::string::npos);
}

TEST(Polynomials, Gradients) {
  const Variable point = leaf<double>({-0.7, 0.2, 1.3});
  const Variable degrees = tensor({3, 0, 4});
  for (const auto f : {special::chebyshev_polynomial_u, special::shifted_chebyshev_polynomial_w,
                       special::hermite_polynomial_he, special::laguerre_polynomial_l,
                       special::legendre_polynomial_p})
    EXPECT_TRUE(gradcheck([&](const Variable& v) { return f(v, degrees); }, point, {.order = 2}));
}

TEST(SphericalBessel, ValuesAndGradients) {
  expect_near(special::spherical_bessel_j0(x),
              {0.23938885764158263, 0.8414709848078965, 0.9850673555377986, 1.0, 0.9735458557716262,
               0.870363232919426, 0.8414709848078965, 0.5833322414426286});
  const Variable point = leaf<double>({-0.7, 0.0, 1.3});
  EXPECT_TRUE(gradcheck([](const Variable& v) { return special::spherical_bessel_j0(v); }, point,
                        {.order = 2}));
}

TEST(Airy, Values) {
  const Variable at = make<double>({-30, -10, -5.5, -3.5, -1, 0, 0.5, 1.5, 3, 8, 60});
  const Values expected = {-0.08796818845684216,   0.04024123848644319,    0.017781541276574976,
                           -0.37553382314043193,   0.5355608832923521,     0.3550280538878172,
                           0.23169360648083348,    0.07174949700810541,    0.006591139357460719,
                           4.6922076160992316e-08, 2.7831487094969354e-136};
  expect_near(special::airy_ai(at), expected, 1e-13);
  // Relative, where the function is small.
  expect_near(special::airy_ai(at).slice(0, 6) / make<double>(expected).slice(0, 6),
              {1, 1, 1, 1, 1}, 1e-13);
  expect_values(special::airy_ai(make<double>({kInf, std::nan("")})), {0, std::nan("")});
  EXPECT_EQ(airy_ai(tensor({1, 2})).dtype(), f32);
}

TEST(Airy, Gradients) {
  const Variable at = leaf<double>({-30, -10, -5.5, -3.5, -1, 0, 0.5, 1.5, 3, 8, 60});
  expect_near(grad(sum(airy_ai(at)), at),
              {1.228620602637485, 0.99626504413279, 0.8641972177713984, -0.34344343345404815,
               -0.01016056711664521, -0.2588194037928068, -0.2249105326646839, -0.09738201284230132,
               -0.011912976705951319, -1.3414392979067865e-07, -2.1569758112094737e-135},
              1e-13);
  const Variable point = leaf<double>({-4.5, -0.7, 1.2, 2.3});
  EXPECT_TRUE(gradcheck([](const Variable& v) { return airy_ai(v); }, point, {.order = 2}));
}

TEST(Frexp, Parts) {
  const Variable a = leaf<double>({-2.5, -1.0, -0.3, 0.0, 0.4, 0.9, 1.0, 1.7});
  const auto [mantissa, exponent] = frexp(a);
  expect_values(mantissa, {-0.625, -0.5, -0.6, 0.0, 0.8, 0.9, 0.5, 0.85});
  EXPECT_EQ(exponent.dtype(), i32);
  expect_values(exponent.to(f64), {2, 1, -1, 0, -1, 0, 1, 1});
  sum(mantissa).backward();
  expect_values(a.grad(), {0.25, 0.5, 2.0, 1.0, 2.0, 1.0, 0.5, 0.5});
  // Neighbours of powers of 2, and the ends of the range.
  std::vector<double> numbers = {5e-324, 2.2250738585072014e-308, 1.7976931348623157e308};
  for (int e = -60; e < 60; ++e) {
    const double power = std::ldexp(1.0, e);
    for (const double number : {power, std::nextafter(power, 0.0), std::nextafter(power, kInf)})
      numbers.push_back(number);
  }
  const auto parts = frexp(make<double>(numbers));
  for (size_t i = 0; i < numbers.size(); ++i) {
    int e = 0;
    EXPECT_EQ(values(parts.mantissa)[i], std::frexp(numbers[i], &e)) << numbers[i];
    EXPECT_EQ(parts.exponent[int64_t(i)].item(), e) << numbers[i];
  }
  expect_values(frexp(make<double>({-kInf, std::nan("")})).mantissa, {-kInf, std::nan("")});
}

}  // namespace
}  // namespace tapegrad
