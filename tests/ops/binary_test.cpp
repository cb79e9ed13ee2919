#include "ops/binary.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/arithmetic.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/error_message.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_error;
using testing::leaf;
using testing::make;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Variable ints(const std::vector<int64_t>& values) { return make<int64_t>(values); }
/// 0.3, -1.1, 1.7 ...: distinct, and not close to whole numbers.
std::vector<double> spread(int64_t count, double start) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::fmod(start + double(i) * 0.737, 2) - 1);
  return values;
}
using Doubles = std::vector<double>;

// ---- Values and types ---------------------------------------------------------------------------

TEST(Binary, PromotesAsPyTorch) {
  const auto of = [](DType dtype, const Shape& shape) {
    return Variable(Tensor::full(shape, 3, dtype));
  };
  EXPECT_EQ((of(f32, {2}) + of(f64, {})).dtype(), f32);
  EXPECT_EQ((of(f64, {}) * of(f32, {2})).dtype(), f32);
  EXPECT_EQ((of(f32, {1}) * of(f64, {2})).dtype(), f64);
  EXPECT_EQ((of(i64, {2}) + of(f64, {})).dtype(), f64);
  EXPECT_EQ((of(i32, {2}) + of(i64, {})).dtype(), i32);
  EXPECT_EQ((of(boolean, {2}) * of(u8, {})).dtype(), u8);
  EXPECT_EQ((of(f16, {2}) + of(bf16, {2})).dtype(), f32);
  EXPECT_EQ((of(f16, {2}) + of(i64, {2})).dtype(), f16);
  EXPECT_EQ((of(u8, {2}) + 2).dtype(), u8);
  EXPECT_EQ((2 - of(boolean, {2})).dtype(), i64);
  EXPECT_EQ((of(i32, {2}) * 0.5).dtype(), f32);
  EXPECT_EQ((of(f16, {2}) * 0.5).dtype(), f16);
  EXPECT_EQ((of(i64, {2}) / of(i64, {2})).dtype(), f32);
  EXPECT_EQ((of(i64, {2}) / 2).to_vector<double>(), (Doubles{1.5, 1.5}));
  EXPECT_EQ((of(f32, {2}) > of(f64, {2})).dtype(), boolean);
  EXPECT_EQ(where(of(boolean, {2}), 1, 0).dtype(), i64);
  EXPECT_EQ(where(of(boolean, {2}), 1, 0.5).dtype(), f32);
}

TEST(Binary, GradientsReturnInTheOperandsType) {
  Variable a = Variable(Tensor::full({2}, 2, f32)).requires_grad_();
  Variable b = leaf({3, 5});
  const Variable y = a * b;
  EXPECT_EQ(y.dtype(), f64);
  y.backward(ones_like(y));
  EXPECT_EQ(a.grad().dtype(), f32);
  EXPECT_EQ(a.grad().to_vector<double>(), (Doubles{3, 5}));
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{2, 2}));
}

TEST(Binary, NumbersOnEitherSide) {
  const Variable x = make({1, -2, 4});
  EXPECT_EQ((2 - x).to_vector<double>(), (Doubles{1, 4, -2}));
  EXPECT_EQ((x - 2).to_vector<double>(), (Doubles{-1, -4, 2}));
  EXPECT_EQ((8 / x).to_vector<double>(), (Doubles{8, -4, 2}));
  EXPECT_EQ(pow(2, x).to_vector<double>(), (Doubles{2, 0.25, 16}));
  EXPECT_EQ(pow(x, 2).to_vector<double>(), (Doubles{1, 4, 16}));
  EXPECT_EQ(maximum(0, x).to_vector<double>(), (Doubles{1, 0, 4}));
  EXPECT_EQ((x < 1.5).to_vector<double>(), (Doubles{1, 1, 0}));
  EXPECT_EQ((1 < x).to_vector<double>(), (Doubles{0, 0, 1}));
  expect_error<ArgumentError>("add: one operand must be a variable", [] { add(1, 2); });
}

TEST(Binary, ANumberMustFitTheIntegerType) {
  const Variable x = Variable(Tensor::full({2}, 7, u8));
  EXPECT_EQ((x < 300).to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
  expect_error<ArgumentError>("mul: -1 is not a value of uint8", [&] { x * -1; });
  expect_error<ArgumentError>("pow: 300 is not", [&] { pow(x, 300); });
  EXPECT_EQ((x + 255).to_vector<int64_t>(), (std::vector<int64_t>{6, 6}));  // wraps around
}

TEST(Binary, IntegersAreExactAndDefinedEverywhere) {
  const int64_t big = int64_t(1) << 60;
  EXPECT_EQ((ints({big + 1}) + 2).to_vector<int64_t>()[0], big + 3);
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(fmod(ints({7, -7, 7, least, 5}), ints({3, 3, -3, -1, 0})).to_vector<int64_t>(),
            (std::vector<int64_t>{1, -1, 1, 0, 0}));
  EXPECT_EQ(
      pow(ints({3, -2, 0, 1, -1, 2, 0}), ints({4, 3, 0, -5, -3, -1, -1})).to_vector<int64_t>(),
      (std::vector<int64_t>{81, -8, 1, 1, -1, 0, 0}));
  EXPECT_EQ((ints({least}) - 1).to_vector<int64_t>()[0], std::numeric_limits<int64_t>::max());
  expect_error<ArgumentError>("negative power -1", [] { pow(ints({2}), -1); });
  expect_error<KernelError>("sub", [] {
    const Variable x = Variable(Tensor::full({2}, 1, boolean));
    x - x;
  });
}

TEST(Binary, SpecialValues) {
  EXPECT_EQ(pow(make({0, 0, 2, -8}), make({0, 2, 0.5, 3})).to_vector<double>(),
            (Doubles{1, 0, std::sqrt(2.0), -512}));
  EXPECT_TRUE(std::isnan(pow(make({-8}), 1.0 / 3).item()));
  EXPECT_EQ(atan2(make({0.0, -0.0, 1, -1}), make({-1, -1, 0, 0})).to_vector<double>(),
            (Doubles{M_PI, -M_PI, M_PI / 2, -M_PI / 2}));
  EXPECT_EQ(fmod(make({5.5, -5.5, 1e300}), make({2, 2, 3})).to_vector<double>(),
            (Doubles{1.5, -1.5, std::fmod(1e300, 3)}));
  EXPECT_TRUE(std::isnan(fmod(make({1}), 0).item()));
  for (const auto& [a, b] : {std::pair{kNaN, 1.0}, {1.0, kNaN}, {kNaN, kNaN}}) {  // T28
    EXPECT_TRUE(std::isnan(maximum(make({a}), make({b})).item()));
    EXPECT_TRUE(std::isnan(minimum(make({a}), make({b})).item()));
    EXPECT_EQ((make({a}) == make({b})).item(), 0);
    EXPECT_EQ((make({a}) != make({b})).item(), 1);
    EXPECT_EQ((make({a}) <= make({b})).item(), 0);
  }
  EXPECT_EQ(logical_not(make({0, kNaN, 2})).to_vector<double>(), (Doubles{1, 0, 0}));
  EXPECT_EQ(logical_and(make({0, kNaN, 0.5}), 1).to_vector<double>(), (Doubles{0, 1, 1}));
  EXPECT_EQ(logical_xor(make({0, 3, 0.5}), ints({1, 1, 0})).to_vector<double>(),
            (Doubles{1, 0, 1}));
}

// A value gives the same bits in the middle of a long row, in the remainder, and with a stride.
TEST(Binary, T05_ValuesDoNotDependOnPosition) {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    for (Variable (*op)(Operand, Operand) : {add, div, pow, atan2, fmod, maximum}) {
      const Variable a = Variable(Tensor::full({}, 0.7312345, dtype));
      const Variable b = Variable(Tensor::full({}, 0.3498712, dtype));
      const double alone = op(a, b).item();
      for (const int64_t count : {3, 16, 37, 5000, 100000}) {
        const Variable row = Variable(Tensor::full({count}, a.item(), dtype));
        const Variable many = op(row, b);
        for (const double value : many.to_vector<double>()) ASSERT_EQ(value, alone);
        const Variable strided = op(slice(row, 0, 1, kEnd, 2), b);
        for (const double value : strided.to_vector<double>()) ASSERT_EQ(value, alone);
      }
    }
  }
}

TEST(Binary, ErrorsNameOpAndFacts) {
  expect_error<ShapeError>("add: shapes do not broadcast: [2, 3] and [4]", [] {
    make(Doubles(6), {2, 3}) + make(Doubles(4));
  });
  expect_error<DTypeError>("where: the condition must be bool, not int64",
                           [] { where(ints({1}), 1.0, 0.0); });
  EXPECT_THROW(Variable() + 1, ArgumentError);
}

// ---- Gradients ----------------------------------------------------------------------------------

// Compares with the op on operands that were expanded before.
TEST(Binary, T01_BroadcastGradients) {
  using Op = Variable (*)(const Variable&, const Variable&);
  const Op ops[] = {
      [](const Variable& a, const Variable& b) { return a + b; },
      [](const Variable& a, const Variable& b) { return a - b; },
      [](const Variable& a, const Variable& b) { return a * b; },
      [](const Variable& a, const Variable& b) { return a / b; },
      [](const Variable& a, const Variable& b) { return maximum(a, b); },
      [](const Variable& a, const Variable& b) { return minimum(a, b); },
      [](const Variable& a, const Variable& b) { return pow(a * a + 0.5, b); },
      [](const Variable& a, const Variable& b) { return atan2(a, b); },
      [](const Variable& a, const Variable& b) { return fmod(a, b); },
      [](const Variable& a, const Variable& b) { return where(a > b, a, b * 2); },
  };
  const Doubles av = spread(15, 0.3), bv = spread(4, 0.81), seed = spread(60, 0.11);
  Doubles repeated_a, repeated_b;
  for (int i = 0; i < 60; ++i) {
    repeated_a.push_back(av[i / 20 * 5 + i % 5]);
    repeated_b.push_back(bv[i / 5 % 4]);
  }
  for (const Op op : ops) {
    const Variable a = leaf(av, {3, 1, 5}), b = leaf(bv, {4, 1});
    op(a, b).backward(make(seed, {3, 4, 5}));
    const Variable full_a = leaf(repeated_a, {3, 4, 5}), full_b = leaf(repeated_b, {3, 4, 5});
    op(full_a, full_b).backward(make(seed, {3, 4, 5}));
    Doubles want_a(15), want_b(4);
    const Doubles da = full_a.grad().to_vector<double>(), db = full_b.grad().to_vector<double>();
    for (int i = 0; i < 60; ++i) {
      want_a[i / 20 * 5 + i % 5] += da[i];
      want_b[i / 5 % 4] += db[i];
    }
    ASSERT_EQ(a.grad().shape(), a.shape());
    ASSERT_EQ(b.grad().shape(), b.shape());
    for (int i = 0; i < 15; ++i)
      EXPECT_NEAR(a.grad().to_vector<double>()[i], want_a[i], 1e-13 * (1 + std::abs(want_a[i])));
    for (int i = 0; i < 4; ++i)
      EXPECT_NEAR(b.grad().to_vector<double>()[i], want_b[i], 1e-13 * (1 + std::abs(want_b[i])));
  }
}

TEST(Binary, T03_EmptyOperands) {
  const Variable a = leaf({}, {4, 0}), b = leaf({1, 2, 3, 4}, {4, 1});
  const Variable y = a + b;
  EXPECT_EQ(y.shape(), (Shape{4, 0}));
  y.backward(ones_like(y));
  EXPECT_EQ(b.grad().shape(), (Shape{4, 1}));
  EXPECT_EQ(b.grad().to_vector<double>(), Doubles(4));
  EXPECT_EQ(a.grad().shape(), (Shape{4, 0}));
}

TEST(Binary, T17_GradientsDoNotAlias) {
  const Variable a = leaf({1, 2}), b = leaf({3, 4}), seed = make({1, 1});
  (a + b).backward(seed);
  Variable gradient = a.grad();
  gradient += 5;
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{1, 1}));
  EXPECT_EQ(seed.to_vector<double>(), (Doubles{1, 1}));
}

TEST(Binary, T23_SecondDerivatives) {
  const Variable x = leaf({3});
  const Variable y = x * x * x;
  const Variable first = grad(y, x, {.create_graph = true});
  const Variable second = grad(first, x, {.create_graph = true});
  EXPECT_EQ(first.item(), 27);
  EXPECT_EQ(second.item(), 18);
  EXPECT_EQ(grad(second, x).item(), 6);
  const Variable power = pow(x, 3);
  const Variable slope = grad(power, x, {.create_graph = true});
  EXPECT_EQ(slope.item(), 27);
  EXPECT_EQ(grad(slope, x).item(), 18);
}

TEST(Binary, T30_TiesShareTheGradientOfMaximum) {
  const Variable a = leaf({1, 2, 3}), b = leaf({1, 5, 0});
  maximum(a, b).backward(make({4, 4, 4}));
  EXPECT_EQ(a.grad().to_vector<double>(), (Doubles{2, 0, 4}));
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{2, 4, 0}));
  minimum(a, b).backward(make({4, 4, 4}));
  EXPECT_EQ(a.grad().to_vector<double>(), (Doubles{4, 4, 4}));
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{4, 4, 4}));
}

TEST(Binary, T33_ZeroToTheZero) {
  for (const bool tensor : {false, true}) {
    const Variable x = leaf({0, 2});
    const Variable y = tensor ? pow(x, make({0, 0})) : x * 0 + pow(x, 0);
    EXPECT_EQ(y.to_vector<double>(), (Doubles{1, 1}));
    y.backward(make({1, 1}));
    EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{0, 0}));
  }
  // Derivative with respect to the exponent: 0 at base 0, log(base) elsewhere.
  const Variable b = leaf({0, 2, 3});
  pow(make({0, 0, 2}), b).backward(make({1, 1, 1}));
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{0, 0, 8 * std::log(2.0)}));
  // Second derivative of x^2 at 0.
  const Variable x = leaf({0});
  const Variable slope = grad(pow(x, make({2})), x, {.create_graph = true});
  EXPECT_EQ(slope.item(), 0);
  EXPECT_EQ(grad(slope, x).item(), 2);
}

// As in PyTorch: x^0 is 1 for every x, so its derivative is 0.
TEST(Binary, NumbersReceiveTheGradientOfFmaxBesideNan) {
  const Variable a = leaf({1, NAN, 2, NAN, 3, 4}), b = leaf({2, 5, NAN, NAN, 3, -4});
  const Variable larger = tapegrad::fmax(a, b), smaller = tapegrad::fmin(a, b);
  const Doubles most = larger.to_vector<double>(), least = smaller.to_vector<double>();
  EXPECT_EQ((Doubles{most[0], most[1], most[2], most[4], most[5]}), (Doubles{2, 5, 2, 3, 4}));
  EXPECT_EQ((Doubles{least[0], least[1], least[2], least[4], least[5]}), (Doubles{1, 5, 2, 3, -4}));
  EXPECT_TRUE(std::isnan(most[3]) && std::isnan(least[3]));
  larger.backward(make({10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(a.grad().to_vector<double>(), (Doubles{0, 0, 30, 40, 25, 60}));
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{10, 20, 0, 40, 25, 0}));
  a.zero_grad(), b.zero_grad();
  smaller.backward(make({10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(a.grad().to_vector<double>(), (Doubles{10, 0, 30, 40, 25, 0}));
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{0, 20, 0, 40, 25, 60}));
}

TEST(Binary, T33_NanAndInfinityToTheZero) {
  const Variable x = leaf({NAN, INFINITY, -INFINITY, 0, -0.0, 2});
  const Variable y = pow(x, zeros_like(x));
  EXPECT_EQ(y.to_vector<double>(), Doubles(6, 1.0));
  y.backward(ones_like(x));
  EXPECT_EQ(x.grad().to_vector<double>(), Doubles(6, 0.0));
  // In the exponent: y log(x), and 0 for 0^0.
  const Variable b = leaf({0, 0, 0, 0});
  pow(make({NAN, INFINITY, 0, 2}), b).backward(make({1, 1, 1, 1}));
  const auto slopes = b.grad().to_vector<double>();
  EXPECT_TRUE(std::isnan(slopes[0]));
  EXPECT_EQ(Doubles(slopes.begin() + 1, slopes.end()), (Doubles{INFINITY, 0, std::log(2.0)}));
  // The mixed second derivative of x^b at b = 0 is 1 / x.
  const Variable base = leaf({4}), power = leaf({0});
  const Variable slope = grad(pow(base, power), base, {.create_graph = true});
  EXPECT_EQ(grad(slope, power).item(), 0.25);
}

// The operand that where() does not select has gradient 0, and 0 times an infinite derivative is
// NaN, as in PyTorch. A finite value in place of the operand avoids the NaN.
TEST(Binary, T34_WhereAndItsSafeForm) {
  const Variable x = leaf({-1, 4});
  where(x > 0, pow(x, 0.5), 0).backward(make({1, 1}));
  EXPECT_TRUE(std::isnan(x.grad().to_vector<double>()[0]));
  EXPECT_EQ(x.grad().to_vector<double>()[1], 0.25);
  const Variable safe = leaf({-1, 4});
  where(safe > 0, pow(where(safe > 0, safe, 1), 0.5), 0).backward(make({1, 1}));
  EXPECT_EQ(safe.grad().to_vector<double>(), (Doubles{0, 0.25}));
}

TEST(Binary, RemaindersOfUnsignedIntegers) {  // 255 is not -1
  const Variable a = make<uint8_t>({1, 7, 254, 255, 3}, {5}),
                 b = make<uint8_t>({255, 255, 255, 255, 0}, {5});
  EXPECT_EQ(fmod(a, b).to_vector<int>(), (std::vector<int>{1, 7, 254, 0, 0}));
  const Variable low = make<int32_t>({INT32_MIN, -7}, {2});
  EXPECT_EQ(fmod(low, -1).to_vector<int>(), (std::vector<int>{0, 0}));
}

// Beside the origin the gradient is exact, also where a square of x is 0.
TEST(Binary, T33_TheAngleOfTheOriginHasNoGradient) {
  const Variable y = leaf({0, 0, 3}), x = leaf({0, 1e-200, 4});
  atan2(y, x).sum().backward();
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{0, 1e200, 0.16}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, -0.12}));
}

TEST(Binary, FmodGradientCountsWholeQuotients) {
  const Variable a = leaf({7.5, -7.5, 0.5}), b = leaf({2, 2, 0.1});
  fmod(a, b).backward(make({1, 1, 1}));
  EXPECT_EQ(a.grad().to_vector<double>(), (Doubles{1, 1, 1}));
  // 0.5 / 0.1 rounds to 5, but fmod(0.5, 0.1) is just below 0.1, so the quotient is 4.
  EXPECT_EQ(b.grad().to_vector<double>(), (Doubles{-3, 3, -4}));
}

TEST(Binary, NothingIsSavedThatNoGradientNeeds) {
  const Variable x = leaf({1, 2});
  Variable w = make({3, 4});
  const Variable y = w * x;
  w += 1;  // saved for x's gradient
  EXPECT_THROW(y.backward(make({1, 1})), AutogradError);
  Variable v = make({3, 4});
  const Variable z = (v + x) * 2;
  v += 1;  // an addition saves nothing
  z.backward(make({1, 1}));
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{2, 2}));
}

// ---- In place -----------------------------------------------------------------------------------

TEST(BinaryInPlace, WritesThroughAndKeepsTheHandle) {
  Variable x = make({1, 2, 4});
  const Variable same = x;
  x += 1;
  x *= make({2, 3, 4});
  x -= make({1}, {1});
  x /= 2;
  EXPECT_EQ(same.to_vector<double>(), (Doubles{1.5, 4, 9.5}));
}

TEST(BinaryInPlace, AResultThatDoesNotFitChangesNothing) {
  Variable x = make({1, 2});
  expect_error<ShapeError>("add: [3, 1] does not fit in place into [2]", [&] {
    x += make(Doubles(3), {3, 1});
  });
  expect_error<ShapeError>("mul: shapes do not broadcast", [&] { x *= make(Doubles(3)); });
  Variable n = ints({1, 2});
  expect_error<DTypeError>("add: the result is float32", [&] { n += 0.5; });
  expect_error<DTypeError>("div: the quotient is a float", [&] { n /= 2; });
  Variable narrow = Variable(Tensor::full({2}, 1, f32));
  expect_error<ShapeError>("sub: [3, 2] does not fit in place into [2]", [&] {
    narrow -= make(Doubles(6), {3, 2});
  });
  EXPECT_EQ(narrow.value().storage().version(), 0u);
  EXPECT_EQ(x.to_vector<double>(), (Doubles{1, 2}));
  EXPECT_EQ(n.to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(x.value().storage().version(), 0u);
}

// The results of PyTorch 2.15.
TEST(BinaryInPlace, AWiderFloatIsRoundedOnce) {
  Variable x = Variable(Tensor::full({2}, 1, bf16));
  x -= make({0.01, 0.001}).to(f32);
  EXPECT_EQ(x.dtype(), bf16);
  EXPECT_EQ(x.to_vector<double>(), (Doubles{0.98828125, 1}));
  Variable y = Variable(Tensor::full({2}, 3, f16));
  y /= make({7, 9});
  EXPECT_EQ(y.dtype(), f16);
  EXPECT_EQ(y.to_vector<double>(), (Doubles{0.428466796875, 0.33325195312500}));

  Variable a = make({1, 2}).to(f32), w = make({3, 5});
  a.requires_grad_();
  w.requires_grad_();
  Variable z = a * 1;
  z *= w;
  sum(z).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (Doubles{3, 5}));
  EXPECT_EQ(w.grad().to_vector<double>(), (Doubles{1, 2}));
  EXPECT_EQ(w.grad().dtype(), f64);
}

TEST(BinaryInPlace, AnOperandThatOverlapsTheTargetIsReadFirst) {
  Variable x = make({1, 2, 3, 4}, {2, 2});
  x += transpose(x, 0, 1);
  EXPECT_EQ(x.to_vector<double>(), (Doubles{2, 5, 5, 8}));
  Variable row = make({1, 2, 3, 4});
  Variable tail = slice(row, 0, 1);
  tail += slice(row, 0, 0, 3);
  EXPECT_EQ(row.to_vector<double>(), (Doubles{1, 3, 5, 7}));
}

TEST(BinaryInPlace, T10_ExpandedTargets) {
  const Tensor one = Tensor::full({1}, 1, f64);
  Variable repeated(one.with_layout({{3}, {0}, 0}));
  expect_error<AutogradError>("expanded tensor of shape [3]", [&] { repeated += 1; });
  Variable single(one.with_layout({{1, 1}, {0, 0}, 0}));
  single += 1;
  EXPECT_EQ(single.item(), 2);
}

TEST(BinaryInPlace, T12_SavedValuesAreGuarded) {
  const Variable x = leaf({1, 2});
  Variable y = x * 1;
  const Variable z = y * y;
  y += 1;
  expect_error<AutogradError>("mul: a value saved for backward was changed in place", [&] {
    z.backward(make({1, 1}));
  });
  Variable sum = x + 1;
  sum += 1;
  sum.backward(make({1, 1}));
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{1, 1}));
}

TEST(BinaryInPlace, TheRuleReadsWhatTheOpOverwrote) {
  const auto f = [](std::span<const Variable> in) {
    const Variable &x = in[0], &w = in[1];
    Variable y = x * 1;
    y *= w;  // the gradient of w needs y before the write
    y /= w + 2;
    y *= y;                            // both factors are the target
    slice(y, 0, 1) *= slice(x, 0, 1);  // through a view
    Variable constant = make({3, 5});
    constant *= w;
    return sum(y * constant);
  };
  const std::vector<Variable> inputs = {leaf({1, 2}), leaf({3, 4})};
  const GradcheckResult result = gradcheck(f, inputs, {.order = 2});
  EXPECT_TRUE(result) << result.message;
  // Another op's saved value is still guarded.
  Variable y = inputs[0] * 1;
  const Variable z = y * y;
  y *= inputs[1];
  EXPECT_THROW(sum(z).backward(), AutogradError);
}

TEST(BinaryInPlace, T13_WritesThroughViewsAndDetached) {
  const auto run = [](void (*write)(Variable&)) {
    const Variable x = leaf({1, 2, 3, 4});
    Variable y = x * 1;
    const Variable z = y * y;
    write(y);
    EXPECT_THROW(z.backward(make({1, 1, 1, 1})), AutogradError);
  };
  run([](Variable& y) {
    Variable part = slice(y, 0, 1);
    part *= 2;
  });
  run([](Variable& y) {
    Variable other = y.detach();
    other += 1;
  });
  run([](Variable& y) {
    Variable inner = slice(slice(y, 0, 1), 0, 1);
    inner -= 1;
  });
}

TEST(BinaryInPlace, T15_WritesThroughAView) {
  const Variable x = leaf({1, 2, 3});
  Variable y = x * 1;
  Variable tail = slice(y, 0, 1);
  tail *= 2;
  EXPECT_EQ(y.to_vector<double>(), (Doubles{1, 4, 6}));
  y.backward(make({1, 1, 1}));
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{1, 2, 2}));
}

TEST(BinaryInPlace, T16_LeavesAreNotWrittenWhileRecording) {
  Variable x = leaf({1, 2});
  expect_error<AutogradError>("add: writing in place to a leaf", [&] { x += 1; });
  Variable part = slice(x, 0, 1);
  EXPECT_THROW(part *= 2, AutogradError);
  EXPECT_EQ(x.to_vector<double>(), (Doubles{1, 2}));
  NoGrad no_grad;
  x += 1;
  EXPECT_EQ(x.to_vector<double>(), (Doubles{2, 3}));
}

/// Rows of every length, in which an operand is constant, a part of longer rows or every second
/// element of them.
TEST(Binary, ShortRows) {
  for (int64_t n = 1; n <= 90; ++n) {
    const int64_t rows = 3000 / n + 2;
    const Variable all = make(spread(rows * 2 * (n + 1), 0.1), {rows, 2 * (n + 1)});
    for (DType dtype : {f32, f64, bf16, u8}) {
      const Variable wide = dtype == u8 ? (all * 100 + 100).to(u8) : all.to(dtype);
      const Variable part = slice(wide, 1, 1, n + 1), apart = slice(wide, 1, 1, 2 * n, 2);
      const Variable x = part.contiguous(), column = slice(wide, 1, 0, 1);
      const auto of = [](const Variable& y) { return y.to_vector<double>(); };
      const auto a = of(x), b = of(apart.contiguous()), c = of(column.contiguous());
      const auto constant = of(where(x > column, x, column)), within = of(where(part > x, 0, part)),
                 other = of(where(x > apart, x, apart));
      for (size_t i = 0; i < a.size(); ++i) {
        const double single = c[i / size_t(n)];
        ASSERT_EQ(constant[i], std::max(a[i], single)) << n << ' ' << name(dtype);
        ASSERT_EQ(within[i], a[i]) << n << ' ' << name(dtype);
        ASSERT_EQ(other[i], std::max(a[i], b[i])) << n << ' ' << name(dtype);
      }
    }
  }
}

TEST(Where, ChecksTheConditionOfEveryPath) {
  // The int64 operand is converted to a temporary, which the result may overwrite.
  const Variable x = ones({3}), whole = ones({3}, {.dtype = i64});
  EXPECT_THROW(where(x, x, whole), DTypeError);
  EXPECT_THROW(where(x, whole, x), DTypeError);
  EXPECT_THROW(where(whole, x, x + 1), DTypeError);
}

}  // namespace
}  // namespace tapegrad
