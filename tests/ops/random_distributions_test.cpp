// Random numbers of given distributions (ops/random.h): statistics and errors. Seeds are fixed, so
// a test cannot fail by chance. The bounds are five standard deviations of the statistic.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Doubles = std::vector<double>;
constexpr int64_t kCount = 100000;

struct Moments {
  double mean = 0, var = 0;
};
Moments moments(const Variable& x) {
  Moments m;
  const Doubles values = x.to_vector<double>();
  for (const double v : values) m.mean += v / double(values.size());
  for (const double v : values) m.var += (v - m.mean) * (v - m.mean) / double(values.size());
  return m;
}

TEST(RandomDistributions, NormalHasItsMeansAndDeviations) {
  RandomGenerator generator(1);
  const Variable mean = tensor({-3.0, 5.0}, {2, 1}, {.dtype = f64});
  const Variable std = full({2, kCount}, 0.5, {.dtype = f64});
  const Variable x = normal(mean, std, generator);
  for (int64_t row : {0, 1}) {
    const Moments m = moments(select(x, 0, row));
    EXPECT_NEAR(m.mean, row == 0 ? -3 : 5, 5 * 0.5 / std::sqrt(double(kCount)));
    EXPECT_NEAR(m.var, 0.25, 5 * 0.25 * std::sqrt(2.0 / double(kCount)));
  }
  EXPECT_THROW(normal(mean, -std, generator), ArgumentError);
  EXPECT_THROW(normal(mean, std.to(f32), generator), DTypeError);
}

TEST(RandomDistributions, ExponentialIsPositiveWithItsRate) {
  for (const DType dtype : {f32, f64}) {
    RandomGenerator generator(2);
    Variable x = empty({kCount}, {.dtype = dtype});
    exponential_(x, 4.0, generator);
    const Moments m = moments(x);
    EXPECT_NEAR(m.mean, 0.25, 5 * 0.25 / std::sqrt(double(kCount)));
    EXPECT_NEAR(m.var, 0.0625, 5 * 0.0625 * std::sqrt(8.0 / double(kCount)));
    EXPECT_GT(min(x).item(), 0);
  }
  Variable x = empty({2});
  EXPECT_THROW(exponential_(x, 0.0), ArgumentError);
  Variable whole = zeros({2}, {.dtype = i64});
  EXPECT_THROW(exponential_(whole), DTypeError);
}

TEST(RandomDistributions, PoissonOnBothSidesOfTheSwitch) {
  for (const double rate : {0.0, 0.3, 3.0, 9.9, 10.0, 40.0, 1000.0}) {
    RandomGenerator generator(3);
    const Variable x = poisson(full({kCount}, rate, {.dtype = f64}), generator);
    const Moments m = moments(x);
    EXPECT_NEAR(m.mean, rate, 5 * std::sqrt(rate / double(kCount))) << rate;
    const double fourth = rate + 3 * rate * rate;  // fourth central moment
    EXPECT_NEAR(m.var, rate, 5 * std::sqrt((fourth - rate * rate) / double(kCount)) + 1e-12)
        << rate;
    EXPECT_EQ(sum(abs(x - round(x))).item(), 0);
    EXPECT_GE(min(x).item(), 0);
  }
  for (const double rate : {-1.0, double(INFINITY), std::nan("")})
    EXPECT_THROW(poisson(full({2}, rate)), ArgumentError);
}

// Frequencies of small counts, compared with the probability function.
TEST(RandomDistributions, PoissonProbabilities) {
  for (const double rate : {2.0, 12.0}) {
    RandomGenerator generator(4);
    std::map<int64_t, double> count;
    for (const double k :
         poisson(full({kCount}, rate, {.dtype = f64}), generator).to_vector<double>())
      ++count[int64_t(k)];
    for (int64_t k = 0; k < 30; ++k) {
      const double p = std::exp(double(k) * std::log(rate) - rate - std::lgamma(double(k) + 1));
      EXPECT_NEAR(count[k] / double(kCount), p, 5 * std::sqrt(p / double(kCount)) + 1e-5) << k;
    }
  }
}

TEST(RandomDistributions, MultinomialFollowsTheWeights) {
  RandomGenerator generator(5);
  const Variable weights = tensor({1.0, 0.0, 3.0, 6.0}, {.dtype = f64});
  Doubles count(4);
  for (const int64_t id : multinomial(weights, kCount, true, generator).to_vector<int64_t>())
    ++count[size_t(id)];
  for (size_t i = 0; i < 4; ++i) {
    const double p = weights.to_vector<double>()[i] / 10;
    EXPECT_NEAR(count[i] / double(kCount), p, 5 * std::sqrt(p * (1 - p) / double(kCount))) << i;
  }
}

TEST(RandomDistributions, MultinomialWithoutReplacement) {
  RandomGenerator generator(6);
  const Variable weights = expand(tensor({1.0, 0.0, 3.0, 6.0}, {.dtype = f64}), {20000, 4});
  const auto ids = multinomial(weights, 2, false, generator).to_vector<int64_t>();
  double first = 0;
  for (size_t row = 0; row < 20000; ++row) {
    EXPECT_NE(ids[2 * row], ids[2 * row + 1]);
    EXPECT_NE(ids[2 * row], 1);
    EXPECT_NE(ids[2 * row + 1], 1);
    first += ids[2 * row] == 3 && ids[2 * row + 1] == 2;
  }
  const double p = 0.6 * 3 / 4;  // first 3, then 2 of the remaining weights
  EXPECT_NEAR(first / 20000, p, 5 * std::sqrt(p * (1 - p) / 20000));
  EXPECT_THROW(multinomial(tensor({1.0, 0.0, 1.0}), 3), ArgumentError);
  EXPECT_THROW(multinomial(tensor({1.0, 1.0}), 3), ArgumentError);
  EXPECT_THROW(multinomial(tensor({0.0, 0.0}), 1, true), ArgumentError);
  EXPECT_THROW(multinomial(tensor({-1.0, 2.0}), 1, true), ArgumentError);
  EXPECT_THROW(multinomial(tensor({1.0, 2.0}), 0, true), ArgumentError);
  EXPECT_THROW(multinomial(ones({1, 1, 1}), 1), ShapeError);
}

TEST(RandomDistributions, GumbelSoftmaxSamplesTheClasses) {
  RandomGenerator generator(9);
  const Variable logits = log(tensor({1.0, 3.0, 6.0}, {.dtype = f64}));
  const Variable many = expand(logits, {20000, 3}) * 1;
  const Variable hard = gumbel_softmax(many, {.tau = 0.5, .hard = true}, generator);
  const Doubles shares = mean(hard, {0}).to_vector<double>();
  for (size_t i = 0; i < 3; ++i) {
    const double p = Doubles{0.1, 0.3, 0.6}[i];
    EXPECT_NEAR(shares[i], p, 5 * std::sqrt(p * (1 - p) / 20000));
  }
  for (const double value : hard.to_vector<double>()) EXPECT_TRUE(value == 0 || value == 1);

  // The gradient of hard samples equals that of soft samples with the same noise.
  Doubles gradients[2];
  for (const bool is_hard : {false, true}) {
    RandomGenerator same(10);
    const Variable x = tensor({0.1, 0.2, 0.3}, {.dtype = f64, .requires_grad = true});
    select(gumbel_softmax(x, {.hard = is_hard}, same), 0, 1).backward();
    gradients[is_hard] = x.grad().to_vector<double>();
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_NE(gradients[0], Doubles(3, 0));
  EXPECT_THROW(gumbel_softmax(logits, {.tau = 0.0}), ArgumentError);
}

TEST(Uniform, EachHasItsBounds) {
  RandomGenerator generator(11);
  const Variable low = tensor({0.0, -3.0, 2.0}), high = tensor({1.0, 5.0, 2.0});
  const Variable x = uniform(low, expand(high, {100000, 3}), generator);
  EXPECT_EQ(x.shape(), (Shape{100000, 3}));
  const auto mean = tapegrad::mean(x, {0}).to_vector<double>();
  EXPECT_NEAR(mean[0], 0.5, 0.01);
  EXPECT_NEAR(mean[1], 1, 0.05);
  EXPECT_EQ(mean[2], 2);
  EXPECT_TRUE(all(x >= low).item() && all(select(x, 1, 1) < 5.0).item());
  EXPECT_THROW(uniform(high, low, generator), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
