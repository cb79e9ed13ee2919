#include "ops/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "backends/formulas_random.h"
#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

const DType kFloats[] = {f16, bf16, f32, f64};

/// Word i of the draw that starts at the state.
uint32_t word(RandomState state, uint64_t i) {
  return philox(state.seed, state.offset + i / 4)[i % 4];
}

/// Returns the largest distance between the empirical and the given distribution, times sqrt(n);
/// above 1.95 with probability 0.001 (Kolmogorov-Smirnov).
template <typename Distribution>
double kolmogorov_smirnov(std::vector<double> values, Distribution cdf) {
  std::sort(values.begin(), values.end());
  const double n = double(values.size());
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double p = cdf(values[i]);
    distance = std::max({distance, p - double(i) / n, double(i + 1) / n - p});
  }
  return distance * std::sqrt(n);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// The vectors of Random123's kat_vectors file for philox4x32 with 10 rounds.
TEST(Random, T68_KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox(0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Elements depend only on seed, offset and index, in any block and on any thread.
TEST(Random, T67_EveryElementIsItsWord) {
  // The second state counts past 2^32.
  for (const RandomState state : {RandomState{7, 11}, RandomState{~0ull / 3, 0xffffffffu - 5000}}) {
    RandomGenerator generator;
    generator.set_state(state);
    const int64_t n = 300001;
    const std::vector<float> u = rand({n}, {}, generator).to_vector<float>();
    EXPECT_EQ(generator.state(), (RandomState{state.seed, state.offset + (n + 3) / 4}));
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(u[i], uniform_float(word(state, i))) << i;
    generator.set_state(state);
    const std::vector<double> v = rand({1001}, {.dtype = f64}, generator).to_vector<double>();
    for (int64_t i = 0; i < 1001; ++i)
      ASSERT_EQ(v[i], uniform_double(word(state, 2 * i), word(state, 2 * i + 1))) << i;
  }
}

// The vectorised kernels equal the same formula for one number at a time; fused multiply-adds make
// the bits equal.
TEST(Random, T68_NormalsAreTheScalarFormulaBitForBit) {
  const RandomState state{123, 5};
  RandomGenerator generator;
  generator.set_state(state);
  const std::vector<float> z = randn({100003}, {}, generator).to_vector<float>();
  for (uint64_t i = 0; i + 1 < z.size(); i += 2) {
    const auto pair = formulas::box_muller(formulas::positive_float(word(state, i)),
                                           uniform_float(word(state, i + 1)));
    ASSERT_EQ(z[i], pair.cos) << i;
    ASSERT_EQ(z[i + 1], pair.sin) << i;
  }
  generator.set_state(state);
  const std::vector<double> w = randn({50001}, {.dtype = f64}, generator).to_vector<double>();
  for (uint64_t i = 0; i + 1 < w.size(); i += 2) {
    const auto pair =
        formulas::box_muller(formulas::positive_double(word(state, 2 * i), word(state, 2 * i + 1)),
                             uniform_double(word(state, 2 * i + 2), word(state, 2 * i + 3)));
    ASSERT_EQ(w[i], pair.cos) << i;
    ASSERT_EQ(w[i + 1], pair.sin) << i;
  }
}

template <typename R>
void check_accuracy() {
  const double eps = std::numeric_limits<R>::epsilon();
  RandomGenerator generator(3);
  const std::vector<double> us = rand({20000}, {.dtype = f64}, generator).to_vector<double>();
  for (double value : us) {
    for (double shrink : {1.0, 0x1p-20}) {
      const R u = R(value * shrink + 0x1p-33);
      const long double expected = std::log((long double)u);
      ASSERT_NEAR(formulas::random_log(u), double(expected),
                  1.5 * eps * std::fabs(double(expected)))
          << u;
    }
    const R v = std::min(R(value), 1 - R(eps));
    const long double angle = 2 * std::numbers::pi_v<long double> * v;
    const auto turn = formulas::random_turn(v);
    const double c = double(std::cos(angle)), s = double(std::sin(angle));
    ASSERT_NEAR(turn.cos, c, 2 * eps * std::fabs(c) + 1e-18) << v;
    ASSERT_NEAR(turn.sin, s, 2 * eps * std::fabs(s) + 1e-18) << v;
  }
  EXPECT_EQ(formulas::random_log(R(1)), R(0));
  EXPECT_EQ(formulas::random_turn(R(0.25)).sin, R(1));
  EXPECT_EQ(formulas::random_turn(R(0.5)).cos, R(-1));
}

TEST(Random, LogAndTurnAreWithinTwoUlp) {
  check_accuracy<float>();
  check_accuracy<double>();
}

TEST(Random, T68_KolmogorovSmirnov) {
  for (DType dtype : {f32, f64}) {
    RandomGenerator generator(2024);
    EXPECT_LT(kolmogorov_smirnov(rand({1000000}, {.dtype = dtype}, generator).to_vector<double>(),
                                 [](double x) { return x; }),
              1.95);
    EXPECT_LT(kolmogorov_smirnov(randn({1000000}, {.dtype = dtype}, generator).to_vector<double>(),
                                 normal_cdf),
              1.95);
  }
}

TEST(Random, NormalMoments) {
  RandomGenerator generator(9);
  const std::vector<double> z = randn({1000000}, {}, generator).to_vector<double>();
  double sum = 0, squares = 0, products = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    sum += z[i];
    squares += z[i] * z[i];
    products += z[i] * z[i ^ 1];  // of the pairs of the Box-Muller transform
  }
  EXPECT_NEAR(sum / 1e6, 0.0, 5e-3);
  EXPECT_NEAR(squares / 1e6, 1.0, 7.1e-3);
  EXPECT_NEAR(products / 1e6, 0.0, 7.1e-3);
}

TEST(Random, T68_UniformIsNeverTheUpperBound) {
  for (DType dtype : kFloats) {
    RandomGenerator generator(1);
    const std::vector<double> u = rand({200000}, {.dtype = dtype}, generator).to_vector<double>();
    EXPECT_GE(*std::min_element(u.begin(), u.end()), 0.0) << dtype;
    EXPECT_LT(*std::max_element(u.begin(), u.end()), 1.0) << dtype;
    Variable x(Tensor::empty({100000}, dtype));
    for (auto [low, high] : {std::pair{1.0, 1.0078125}, {-3.0, -2.0}, {-1.0, 0.0}, {0.0, 3.1}}) {
      uniform_(x, low, high, generator);
      const std::vector<double> v = x.to_vector<double>();
      EXPECT_GE(*std::min_element(v.begin(), v.end()), low) << dtype;
      EXPECT_LT(*std::max_element(v.begin(), v.end()), high) << dtype;
    }
  }
  Variable x(Tensor::empty({10}, f32));
  uniform_(x, 2.5, 2.5);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(10, 2.5f));
}

TEST(Random, T68_StateIsSavedAndSet) {
  manual_seed(5);
  const RandomState state = default_generator().state();
  const auto first = randn({3}).to_vector<float>(), second = randn({3}).to_vector<float>();
  EXPECT_NE(first, second);
  default_generator().set_state(state);
  EXPECT_EQ(randn({3}).to_vector<float>(), first);
  manual_seed(5);
  EXPECT_EQ(randn({3}).to_vector<float>(), first);
  manual_seed(6);
  EXPECT_NE(randn({3}).to_vector<float>(), first);
}

TEST(Random, IntegersAreUniform) {
  RandomGenerator generator(4);
  const std::vector<int64_t> k = randint(-2, 5, {70000}, {}, generator).to_vector<int64_t>();
  std::array<int, 7> counts{};
  for (int64_t value : k) {
    ASSERT_TRUE(value >= -2 && value < 5);
    ++counts[size_t(value + 2)];
  }
  double chi_square = 0;
  for (int count : counts) chi_square += (count - 1e4) * (count - 1e4) / 1e4;
  EXPECT_LT(chi_square, 22.5);  // p = 0.001 with 6 degrees of freedom
}

TEST(Random, IntegersOfEveryRangeAndDType) {
  EXPECT_EQ(randint(3, 4, {5}).to_vector<int64_t>(), std::vector<int64_t>(5, 3));
  const int64_t least = std::numeric_limits<int64_t>::min(), most = -(least + 1);
  const auto wide = randint(least, most, {1000}).to_vector<int64_t>();
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](int64_t x) { return x < -(1ll << 62); }));
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](int64_t x) { return x > 1ll << 62; }));
  for (DType dtype : {f16, bf16, f32, f64, i8, i16, i32, i64, u8})
    EXPECT_EQ(randint(0, 100, {10}, {.dtype = dtype}).dtype(), dtype);
  EXPECT_THROW(randint(5, 5, {2}), ArgumentError);
  EXPECT_THROW(randint(5, 4, {2}), ArgumentError);
  EXPECT_THROW(randint(-1, 4, {2}, {.dtype = u8}), ArgumentError);
  EXPECT_THROW(randint(0, 258, {2}, {.dtype = bf16}), ArgumentError);
  EXPECT_THROW(randint(0, 4, {-2}), ArgumentError);
}

TEST(Random, Permutation) {
  RandomGenerator generator(8);
  const auto order = randperm(5000, {}, generator).to_vector<int64_t>();
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> expected(5000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(sorted, expected);
  EXPECT_NE(order, expected);
  EXPECT_NE(randperm(5000, {}, generator).to_vector<int64_t>(), order);
  generator.seed(8);
  EXPECT_EQ(randperm(5000, {}, generator).to_vector<int64_t>(), order);
  EXPECT_EQ(randperm(0).numel(), 0);
  EXPECT_EQ(randperm(7, {.dtype = i32}).dtype(), i32);
  EXPECT_THROW(randperm(-1), ArgumentError);
  EXPECT_THROW(randperm(300, {.dtype = u8}), ArgumentError);
  // Each order of three elements occurs.
  std::array<int, 27> counts{};
  for (int i = 0; i < 6000; ++i) {
    const auto p = randperm(3, {}, generator).to_vector<int64_t>();
    ++counts[size_t(9 * p[0] + 3 * p[1] + p[2])];
  }
  for (int code : {5, 7, 11, 15, 19, 21}) EXPECT_NEAR(counts[size_t(code)], 1000, 150) << code;
}

TEST(Random, Bernoulli) {
  for (DType dtype : kFloats) {
    const Variable p = full({100000}, 0.25, {.dtype = dtype});
    const auto draws = bernoulli(p).to_vector<double>();
    double sum = 0;
    for (double x : draws) {
      ASSERT_TRUE(x == 0.0 || x == 1.0);
      sum += x;
    }
    EXPECT_NEAR(sum / 1e5, 0.25, 5 * std::sqrt(0.1875 / 1e5)) << dtype;
    EXPECT_EQ(bernoulli(ones({50}, {.dtype = dtype})).to_vector<double>(),
              std::vector<double>(50, 1.0));
    EXPECT_EQ(bernoulli(zeros({50}, {.dtype = dtype})).to_vector<double>(),
              std::vector<double>(50, 0.0));
  }
  EXPECT_THROW(bernoulli(tensor<float>({0.5f, 1.5f})), ArgumentError);
  EXPECT_THROW(bernoulli(tensor<float>({0.5f, -0.5f})), ArgumentError);
  EXPECT_THROW(bernoulli(tensor<float>({NAN})), ArgumentError);
  EXPECT_THROW(bernoulli(ones({2}, {.dtype = i64})), DTypeError);
}

TEST(Random, T16_InPlaceOnALeaf) {
  Variable x = ones({4}, {.requires_grad = true});
  const RandomState before = default_generator().state();
  EXPECT_THROW(uniform_(x), AutogradError);
  EXPECT_THROW(normal_(x), AutogradError);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 1.0f));
  EXPECT_EQ(default_generator().state(), before);
  const NoGrad off;
  normal_(x);
  EXPECT_NE(x.to_vector<float>(), std::vector<float>(4, 1.0f));
}

TEST(Random, InPlaceBumpsTheVersionAndCutsTheHistory) {
  Variable w = ones({4}, {.requires_grad = true});
  Variable x = w * 2;
  const uint32_t version = x.value().storage().version();
  Variable y = x * x;
  uniform_(x);
  EXPECT_GT(x.value().storage().version(), version);
  EXPECT_THROW(sum(y).backward(), AutogradError);
  Variable z = w * 2;
  normal_(z);
  sum(z).backward();
  EXPECT_EQ(w.grad().defined() ? w.grad().to_vector<float>() : std::vector<float>(4),
            std::vector<float>(4));
}

TEST(Random, ArgumentsOfInPlaceDraws) {
  Variable x = ones({4}), k = ones({4}, {.dtype = i64});
  EXPECT_THROW(uniform_(x, 1.0, 0.0), ArgumentError);
  EXPECT_THROW(uniform_(x, 0.0, NAN), ArgumentError);
  EXPECT_THROW(uniform_(x, -3e38, 3e38), ArgumentError);
  EXPECT_THROW(normal_(x, 0.0, -1.0), ArgumentError);
  EXPECT_THROW(uniform_(k), DTypeError);
  EXPECT_THROW(normal_(k), DTypeError);
  EXPECT_THROW(rand({2}, {.dtype = i64}), DTypeError);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 1.0f));
  normal_(x, 3.0, 0.0);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 3.0f));
}

TEST(Random, AViewReceivesTheNumbersInItsOwnOrder) {
  Variable x = zeros({3, 4});
  Variable columns = transpose(x, 0, 1);
  manual_seed(2);
  normal_(columns);
  manual_seed(2);
  EXPECT_EQ(columns.to_vector<float>(), randn({4, 3}).to_vector<float>());
}

TEST(Random, IntegersLikeAnother) {
  const Variable x = zeros({40, 50}, {.dtype = f64}), y = randint_like(x, 3, 7);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.dtype(), f64);
  for (const int64_t value : {3, 4, 5, 6}) EXPECT_GT(sum(y == value).item(), 400) << value;
  EXPECT_EQ(amin(y).item(), 3);
  EXPECT_EQ(amax(y).item(), 6);
}

}  // namespace
}  // namespace tapegrad
