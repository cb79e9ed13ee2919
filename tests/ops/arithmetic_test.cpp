// Expected values of corner cases are PyTorch's unless stated otherwise.
#include "ops/arithmetic.h"
#include "ops/bitwise.h"
#include "ops/compare.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"

namespace tapegrad {
namespace {

/// Makes a tensor of type T, not of the default type.
template <typename T>
Variable make(const std::vector<T>& values) {
  return Variable(Tensor::from<T>(values, {int64_t(values.size())}));
}
Variable make(const std::vector<bool>& values) {
  return tensor(std::vector<int64_t>(values.begin(), values.end())).to(boolean);
}

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

void expect_exactly(const Variable& got, const Doubles& expected) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(values[i])) << i << ": " << values[i];
    else
      EXPECT_EQ(values[i], expected[i]) << i;
  }
}

TEST(Arithmetic, XlogyAtItsEdges) {
  expect_exactly(xlogy(make<double>({0, 0, 0, 1, 2}), make<double>({0, kInf, kNaN, 0, -1})),
                 {0, 0, kNaN, -kInf, kNaN});
  const Variable a = make<double>({0, 0, 1}).requires_grad_();
  const Variable b = make<double>({0, -1, 0}).requires_grad_();
  sum(xlogy(a, b)).backward();
  expect_exactly(a.grad(), {0, 0, -kInf});
  expect_exactly(b.grad(), {kNaN, 0, kInf});
  EXPECT_EQ(xlogy(tensor({0, 1}), 2).dtype(), f32);
}

TEST(Arithmetic, LogaddexpDoesNotOverflow) {
  expect_exactly(logaddexp(make<double>({kInf, -kInf, -kInf, kInf, kNaN, 1000, -1000}),
                           make<double>({kInf, -kInf, 3, -kInf, 1, 1000, -1000})),
                 {kInf, -kInf, 3, kInf, kNaN, 1000 + std::log(2.0), -1000 + std::log(2.0)});
  EXPECT_EQ(logaddexp(make<float>({0}), make<float>({-80})).item(), double(std::exp(-80.0f)));
  const Variable a = make<double>({-1000, 1000}).requires_grad_();
  sum(logaddexp(a, 0)).backward();
  expect_exactly(a.grad(), {0, 1});
  EXPECT_THROW(logaddexp(tensor({1}), tensor({2})), KernelError);
}

TEST(Arithmetic, HypotDoesNotOverflow) {
  expect_exactly(
      hypot(make<double>({3e300, 3e-300, kInf, 0}), make<double>({4e300, 4e-300, kNaN, 0})),
      {5e300, 5e-300, kInf, 0});
  EXPECT_EQ(hypot(make<float>({3e38f}), make<float>({1e38f})).item(),
            double(std::hypot(3e38f, 1e38f)));
  const Variable a = make<double>({0, 3e300}).requires_grad_();  // T33
  sum(hypot(a, make<double>({0, 4e300}))).backward();
  expect_exactly(a.grad(), {0, 0.6});
}

TEST(Arithmetic, RemainderHasTheSignOfTheDivisor) {
  expect_exactly(
      remainder(make<double>({5.5, -5.5, 5.5, -5.5, -5, 5}), make<double>({2, 2, -2, -2, kInf, 0})),
      {1.5, 0.5, -0.5, -1.5, kInf, kNaN});
  expect_exactly(floor_divide(make<double>({5.5, -5.5, 5.5, -5.5, -5, 5, -1, 0.5}),
                              make<double>({2, 2, -2, -2, kInf, 0, 0, -3})),
                 {2, -3, -3, 2, -1, kInf, -kInf, -1});
  EXPECT_EQ(remainder(tensor({7, -7, 7, -7}), tensor({3, 3, -3, -3})).to_vector<int64_t>(),
            (Ints{1, 2, -2, -1}));
  EXPECT_EQ(floor_divide(tensor({7, -7, 7, -7}), tensor({3, 3, -3, -3})).to_vector<int64_t>(),
            (Ints{2, -3, -3, 2}));
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(floor_divide(make<int64_t>({least}), -1).to_vector<int64_t>(), (Ints{least}));
  EXPECT_EQ(remainder(make<int64_t>({least}), -1).to_vector<int64_t>(), (Ints{0}));
  EXPECT_EQ(remainder(make<uint8_t>({uint8_t(250)}), 7).to_vector<int64_t>(), (Ints{5}));
  EXPECT_THROW(remainder(tensor({1, 2}), tensor({1, 0})), ArgumentError);
  EXPECT_THROW(floor_divide(tensor({1}), 0), ArgumentError);
}

TEST(Arithmetic, RemainderGradient) {
  const Variable a = make<double>({5.5, -5.5}).requires_grad_();
  const Variable b = make<double>({2, 2}).requires_grad_();
  sum(remainder(a, b)).backward();
  expect_exactly(a.grad(), {1, 1});
  expect_exactly(b.grad(), {-2, 3});
}

TEST(Arithmetic, LerpMeetsBothEnds) {
  const Variable start = make<double>({1e30, 2}), end = make<double>({1, 1e30});
  expect_exactly(lerp(start, end, 1.0), {1, 1e30});
  expect_exactly(lerp(start, end, 0), {1e30, 2});
  expect_exactly(lerp(make<double>({10, 20}), make<double>({20, 40}), make<double>({0.25, 2})),
                 {12.5, 60});
}

TEST(Arithmetic, AddcmulOfWholeNumbers) {
  const Variable y = addcmul(tensor({1, 2}), tensor({3, 4}), tensor({5, 6}));
  EXPECT_EQ(y.dtype(), i64);
  EXPECT_EQ(y.to_vector<int64_t>(), (Ints{16, 26}));
  EXPECT_EQ(addcmul(tensor({1, 2}), tensor({3, 4}), tensor({5, 6}), 2).to_vector<int64_t>(),
            (Ints{31, 50}));
  const Variable large = tensor({(int64_t(1) << 53) + 1});  // 2^53 + 1 is not a float
  const Variable exact = addcmul(large, tensor({1}), tensor({1}), 2);
  EXPECT_EQ(exact.dtype(), i64);
  EXPECT_EQ(exact.to_vector<int64_t>(), (Ints{(int64_t(1) << 53) + 3}));
  EXPECT_THROW(addcdiv(make<double>({1}), tensor({3}), tensor({5})), DTypeError);
}

TEST(Arithmetic, AddcmulComputesInTheDtypeOfTheResult) {
  const Variable twenty = make<uint8_t>({uint8_t(20)});
  expect_exactly(addcmul(make<double>({1}), twenty, twenty), {401});
  EXPECT_EQ(addcmul(tensor({1}), twenty, twenty, 2).to_vector<int64_t>(), (Ints{801}));
}

TEST(Arithmetic, Bits) {
  EXPECT_EQ(bitwise_and(make<uint8_t>({uint8_t(0xcc)}), 0xaa).to_vector<int64_t>(), (Ints{0x88}));
  EXPECT_EQ(bitwise_not(make<uint8_t>({uint8_t(0xcc)})).to_vector<int64_t>(), (Ints{0x33}));
  EXPECT_EQ(bitwise_not(make({true, false})).to_vector<int64_t>(), (Ints{0, 1}));
  EXPECT_EQ(bitwise_xor(make({true, false}), make({true, true})).dtype(), boolean);
  EXPECT_EQ(bitwise_or(make<int32_t>({1}), make<int64_t>({int64_t(1) << 40})).dtype(), i64);
  EXPECT_THROW(bitwise_and(make<double>({1}), make<double>({1})), KernelError);
  // As in NumPy: a shift by the width or more, or by a negative number, gives 0 or -1.
  EXPECT_EQ(bitwise_left_shift(make<int32_t>({1, 1, 1, -1}), make<int32_t>({31, 32, -1, 4}))
                .to_vector<int64_t>(),
            (Ints{-2147483648LL, 0, 0, -16}));
  EXPECT_EQ(bitwise_right_shift(make<int32_t>({-9, -9, 9, 9}), make<int32_t>({1, 40, -1, 3}))
                .to_vector<int64_t>(),
            (Ints{-5, -1, 0, 1}));
  EXPECT_EQ(gcd(make<int64_t>({12, -12, 0, 0, 7}), make<int64_t>({18, 18, 5, 0, -21}))
                .to_vector<int64_t>(),
            (Ints{6, 6, 5, 0, 7}));
}

TEST(Arithmetic, Close) {
  const Variable a = make<double>({kInf, kInf, -kInf, kNaN, 1});
  const Variable b = make<double>({kInf, 1, kInf, kNaN, 1.000001});
  expect_exactly(isclose(a, b), {1, 0, 0, 0, 1});
  expect_exactly(isclose(a, b, {.equal_nan = true}), {1, 0, 0, 1, 1});
  EXPECT_FALSE(allclose(a, b));
  EXPECT_TRUE(allclose(b, b, {.equal_nan = true}));
  // The tolerance is relative to b.
  EXPECT_EQ(isclose(make<double>({10}), make<double>({9}), {.rtol = 0.105}).item(), 0);
  EXPECT_EQ(isclose(make<double>({9}), make<double>({10}), {.rtol = 0.105}).item(), 1);
  EXPECT_EQ(isclose(make<uint8_t>({uint8_t(2)}), make<uint8_t>({uint8_t(3)}), {.atol = 1}).item(),
            1);
  EXPECT_THROW(isclose(a, b, {.rtol = -1}), ArgumentError);
}

// The values of ldexp() of <cmath>; 2^b alone would overflow, or be 0.
TEST(Ldexp, OnlyTheResultOverflows) {
  for (const DType dtype : {f32, f64}) {
    const double smallest = dtype == f64 ? 0x1p-1074 : 0x1p-149;
    const int least = dtype == f64 ? -1074 : -149;
    const auto of = [&](double a, double b) {
      return ldexp(full({1}, a, {.dtype = dtype}), full({1}, b, {.dtype = dtype})).item();
    };
    for (const double b : {0.0, 100.0, 200.0, 1000.0, 1500.0, 3000.0, 1e30, double(INFINITY)}) {
      EXPECT_EQ(of(0.0, b), 0) << b;
      EXPECT_EQ(of(0.0, -b), 0) << b;
    }
    EXPECT_EQ(of(smallest, -double(least)), 1);
    EXPECT_EQ(of(smallest, -2.0 * least), INFINITY);
    EXPECT_EQ(of(1.0, least), smallest);
    EXPECT_EQ(of(1.5, least + 1), 3 * smallest);
    EXPECT_EQ(of(0.5, dtype == f64 ? 1024 : 128), dtype == f64 ? 0x1p1023 : 0x1p127);
    EXPECT_EQ(of(INFINITY, -5000), INFINITY);
    EXPECT_EQ(of(3.0, -1e30), 0);
    EXPECT_TRUE(std::isnan(of(0.0, NAN)));
  }
  const Variable x = full({1}, 3.0, {.dtype = f64, .requires_grad = true});
  const Variable e = full({1}, 4.0, {.dtype = f64, .requires_grad = true});
  sum(ldexp(x, e)).backward();
  EXPECT_EQ(x.grad().item(), 16);
  EXPECT_NEAR(e.grad().item(), 48 * std::log(2.0), 1e-13);
}

// Exponents with functions of their own. Expected values are PyTorch's.
TEST(Arithmetic, PowersOfRootsAndReciprocals) {
  const Variable x = make<double>({4, 0.25, 0, kInf, kNaN, 1e200, -4});
  expect_exactly(pow(x, 0.5), {2, 0.5, 0, kInf, kNaN, 1e100, kNaN});
  expect_exactly(pow(x, -0.5), {0.5, 2, kInf, 0, kNaN, 1e-100, kNaN});
  expect_exactly(pow(x, -1), {0.25, 4, kInf, 0, kNaN, 1 / 1e200, -0.25});
  expect_exactly(pow(x, -2), {0.0625, 16, kInf, 0, kNaN, 0, 0.0625});
  EXPECT_GT(pow(make<float>({1e20f}), -2).item(), 0);  // 1e40 is no float
  for (const double exponent : {0.5, -0.5, -1.0, -2.0}) {
    const Variable leaf = make<double>({0.5, 2, 3}).requires_grad_();
    const auto checked =
        gradcheck([&](const auto& in) { return pow(in[0], exponent); }, {leaf}, {.order = 2});
    EXPECT_TRUE(checked) << exponent << checked.message;
    Variable in_place = make<double>({0.5, 2, 3});
    in_place.pow_(exponent);
    EXPECT_EQ(in_place.to_vector<double>(), pow(leaf, exponent).to_vector<double>());
  }
}

/// The slope is NaN where the value is.
TEST(Logit, GradientOutsideOfTheDomain) {
  Variable x = make<double>({-0.5, 0.25, 1.5, kInf}).requires_grad_();
  const Doubles slopes = {kNaN, 1 / (0.25 * 0.75), kNaN, kNaN};
  sum(logit(x)).backward();
  expect_exactly(x.grad(), slopes);
  const Variable recorded = grad(sum(logit(x)), x, {.create_graph = true});
  expect_exactly(recorded, slopes);
  x.zero_grad();
  sum(logit(x, 0.1)).backward();
  expect_exactly(x.grad(), {0, 1 / (0.25 * 0.75), 0, 0});
}

}  // namespace
}  // namespace tapegrad
