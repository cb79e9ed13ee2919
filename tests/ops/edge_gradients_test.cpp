// Gradients at NaN, at infinities and of rounded results. The numbers are those of PyTorch 2.15.
#include <functional>
#include <limits>

#include "ops/activation.h"
#include "ops/activation_composed.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/loss.h"
#include "ops/pool.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/statistics_composed.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using namespace testing;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Expects the gradients of the sum of f(x).
void expect_gradient(const std::function<Variable(const Variable&)>& f, const Values& x,
                     const Values& expected) {
  const Variable input = leaf<float>(std::vector<float>(x.begin(), x.end()));
  sum(f(input)).backward();
  expect_values(input.grad(), values(make<double>(expected).to(f32)));
}

/// Expects the values of f(a, b) and the gradients of their sum.
void expect_pair(const std::function<Variable(const Variable&, const Variable&)>& f,
                 const Values& a, const Values& b, const Values& y, const Values& da,
                 const Values& db) {
  const Variable x = leaf<double>(a), z = leaf<double>(b), result = f(x, z);
  expect_values(result, y);
  sum(result).backward();
  expect_values(x.grad(), da);
  expect_values(z.grad(), db);
}

TEST(EdgeGradients, SlopesOfActivations) {
  expect_gradient([](auto& x) { return leaky_relu(x, 0.1); }, {-1, kNan, 0, 1, kInf, -kInf},
                  {0.1, 0.1, 0.1, 1, 1, 0.1});
  expect_gradient([](auto& x) { return leaky_relu(x, -0.1); }, {-1, kNan, 0, 1},
                  {-0.1, -0.1, -0.1, 1});
  expect_gradient([](auto& x) { return rrelu(x, 0.25, 0.25, false); }, {-1, 0, 1}, {0.25, 0.25, 1});
}

// Derivatives of all orders are 0, as the first one is by convention. PyTorch's second one is NaN.
TEST(EdgeGradients, NormOfZeros) {
  for (const double p : {0.5, 1.0, 2.0, 3.0}) {
    const Variable x = leaf<double>({0, 0, 3, 4}), weight = leaf<double>({1, 2});
    const Variable y = norm(reshape(x, {2, 2}), p, {1});
    const Variable first = grad(sum(y * weight), x, {.create_graph = true});
    const Variable second =
        grad(sum(first * make<double>({5, 6, 7, 8})), x, {.create_graph = true});
    EXPECT_EQ(values(slice(first, 0, 0, 2)), (Values{0, 0})) << p;
    EXPECT_EQ(values(slice(second, 0, 0, 2)), (Values{0, 0})) << p;
  }
}

// A row of at most maxnorm, or of NaN, is not scaled, and its gradient is 1.
TEST(EdgeGradients, Renorm) {
  const auto f = [](const Variable& x) { return renorm(reshape(x, {4, 2}), 2, 0, 1.0); };
  expect_gradient(f, {kNan, 1, 0, 0, 0.3, 0.4, kInf, 1}, {1, 1, 1, 1, 1, 1, kNan, kNan});
  const Variable x = leaf<double>({3, 4, 0, 0, 0.6, 0.8, 1, 0});
  sum(f(x)).backward();
  // (|x|^2 - x sum(x)) / |x|^3 of (3, 4)
  EXPECT_NEAR(x.grad()[0].item(), 0.032, 1e-7);
  EXPECT_NEAR(x.grad()[1].item(), -0.024, 1e-7);
}

TEST(EdgeGradients, LpPoolOfZeros) {
  const auto f = [](const Variable& x) {
    return lp_pool2d(reshape(x, {1, 1, 2, 2}), {.norm_type = 2, .kernel_size = {1, 2}});
  };
  expect_gradient(f, {0, 0, 3, 4}, {0, 0, 0.6, 0.8});
}

TEST(EdgeGradients, LogitsAtInfinities) {
  const auto f = [](const Variable& x, const Variable& t) {
    return binary_cross_entropy_with_logits(x, t, {.reduction = Reduction::kNone});
  };
  expect_pair(f, {kInf, kInf, kInf, 1e30, -kInf}, {kInf, 0, 0.5, 1, kInf},
              {-kInf, kInf, kInf, 0, kInf}, {-kInf, 1, 0.5, 0, -kInf},
              {-kInf, -kInf, -kInf, -1e30, kInf});
}

TEST(EdgeGradients, RoundedQuotients) {
  for (const char* mode : {"floor", "trunc"})
    expect_pair([&](auto& a, auto& b) { return div(a, b, mode); }, {5, kNan, 1}, {2, 1, 0},
                {2, kNan, kInf}, {0, 0, 0}, {0, 0, 0});
  expect_pair([](auto& a, auto& b) { return div(a, b, "trunc"); }, {-5}, {2}, {-2}, {0}, {0});
  // The result broadcasts one operand and overwrites the other.
  const Variable a = leaf<double>({5, -5}, {2, 1}), b = leaf<double>({2, 3});
  const Variable y = div(a * 1, b, "trunc");
  EXPECT_EQ(values(y), (Values{2, 1, -2, -1}));
  sum(y).backward();
  EXPECT_EQ(values(a.grad()), (Values{0, 0}));
  EXPECT_EQ(values(b.grad()), (Values{0, 0}));
}

TEST(EdgeGradients, NextafterMovesWithItsFirstOperand) {
  expect_pair([](auto& a, auto& b) { return nextafter(a, b); }, {5}, {2},
              {std::nextafter(5.0, 2.0)}, {1}, {0});
}

TEST(EdgeGradients, OpsWithoutAGradientAreNamed) {
  const Variable x = leaf<double>({5, 0, 5});
  expect_error<AutogradError>("argmax, unique or", [&] { sum(unique(x).values).backward(); });
  expect_error<AutogradError>("unique or heaviside", [&] { sum(heaviside(x, 1)).backward(); });
}

TEST(EdgeGradients, Remainders) {
  expect_pair([](auto& a, auto& b) { return fmod(a, b); }, {5, kNan, 1, 0, kInf, -5, 5},
              {3, 1, kNan, 0, 2, 3, kInf}, {2, kNan, kNan, kNan, kNan, -2, 5},
              {1, 1, 1, 1, 1, 1, 1}, {-1, kNan, kNan, kNan, -kInf, 1, -0.0});
  expect_pair([](auto& a, auto& b) { return remainder(a, b); }, {5, kNan, 1, 0, kInf, -5, 5},
              {3, 1, kNan, 0, 2, 3, kInf}, {2, kNan, kNan, kNan, kNan, 1, 5}, {1, 1, 1, 1, 1, 1, 1},
              {-1, kNan, kNan, kNan, kNan, 2, -0.0});
}

}  // namespace
}  // namespace tapegrad
