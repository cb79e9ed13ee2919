// ctc_loss and multinomial: the kernels against those of the CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/ctc_loss.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using Values = std::vector<double>;
using Lengths = std::vector<int64_t>;

struct Ctc {
  Variable log_probs, targets;
  Lengths input_lengths = {}, target_lengths = {};
  int64_t blank = 0;

  /// Returns the losses and the gradient.
  std::array<Values, 2> on(Device device) const {
    const Variable x = log_probs.detach().to(device).requires_grad_();
    const Variable losses = ctc_loss(x, targets.to(device), input_lengths, target_lengths,
                                     {.blank = blank, .reduction = Reduction::kNone});
    sum(where(losses == INFINITY, losses * 0, losses)).backward();
    return {losses.to_vector<double>(), x.grad().to(f64).to_vector<double>()};
  }
};

void expect_near(const Values& a, const Values& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << i;
  }
}

Variable drawn_log_probs(int64_t steps, int64_t n, int64_t classes, DType dtype) {
  return log_softmax(randn({steps, n, classes}, {.dtype = f64, .device = cpu}), 2).to(dtype);
}
Variable drawn_labels(int64_t classes, const Shape& shape) {
  return randint(0, classes, shape, {.device = cpu});
}

TEST(CudaCtcLoss, ComputesWhatTheCpuComputes) {
  manual_seed(3);
  for (const DType dtype : {f64, f32, bf16, f16}) {
    // Few classes, so that labels repeat, directly and at a distance, and are blanks too.
    const Ctc ctc{.log_probs = drawn_log_probs(9, 5, 3, dtype),
                  .targets = drawn_labels(3, {5, 4}),
                  .input_lengths = {9, 7, 9, 1, 0},
                  .target_lengths = {4, 2, 3, 4, 0},
                  .blank = 1};
    const auto [losses, gradient] = ctc.on(gpu);
    const auto [expected, expected_gradient] = ctc.on(cpu);
    expect_near(losses, expected, dtype == f64 ? 1e-13 : dtype == f32 ? 1e-6 : 1e-2);
    EXPECT_TRUE(std::isinf(losses[3]));
    EXPECT_EQ(losses[4], 0);
    const double tolerance = dtype == f64 ? 1e-13 : dtype == f32 ? 1e-6 : 2e-2;
    expect_near(gradient, expected_gradient, tolerance);
  }
}

TEST(CudaCtcLoss, TakesManyExamplesAndLongTargets) {
  manual_seed(4);
  Ctc many{.log_probs = drawn_log_probs(4, 131, 5, f64), .targets = drawn_labels(5, {131, 2})};
  many.input_lengths.assign(131, 4);
  for (int64_t i = 0; i < 131; ++i) many.target_lengths.push_back(i % 3);
  expect_near(many.on(gpu)[0], many.on(cpu)[0], 1e-13);
  expect_near(many.on(gpu)[1], many.on(cpu)[1], 1e-13);
  const Ctc wide{.log_probs = drawn_log_probs(310, 1, 7, f64),
                 .targets = drawn_labels(6, {150}) + 1,  // 301 states for 256 threads
                 .input_lengths = {310},
                 .target_lengths = {150}};
  expect_near(wide.on(gpu)[0], wide.on(cpu)[0], 1e-13);
  expect_near(wide.on(gpu)[1], wide.on(cpu)[1], 1e-12);
}

TEST(CudaCtcLoss, RefusesTheSameLabels) {
  const auto message = [](Device device, const Values& labels) -> std::string {
    try {
      ctc_loss(zeros({4, 70, 3}, {.device = device}),
               tensor(labels, {.dtype = i64, .device = device}), Lengths(70, 4), Lengths(70, 1));
    } catch (const IndexError& error) {
      return error.message();
    }
    return "";
  };
  Values labels(70, 1);
  EXPECT_EQ(message(gpu, labels), "");
  labels[68] = 3;
  labels[66] = -1;
  EXPECT_EQ(message(gpu, labels), "ctc_loss: label -1 of example 66 is outside [0, 3)");
  EXPECT_EQ(message(gpu, labels), message(cpu, labels));
  // Labels behind the length of a target are not read.
  const Variable padded = tensor({2.0, -7.0}, {.dtype = i64, .device = gpu});
  EXPECT_FALSE(std::isnan(
      ctc_loss(zeros({4, 1, 3}, {.device = gpu}), reshape(padded, {1, 2}), {4}, {1}).item()));
}

TEST(CudaCtcLoss, IsPartOfAGraph) {
  const Variable labels = tensor({1.0, 2.0, 2.0, 1.0}, {.dtype = i64, .device = gpu});
  const Variable weight = ones({3}, {.device = gpu}).requires_grad_();
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    const auto loss_of = [&](const Variable& x) {
      const Variable loss = ctc_loss(log_softmax(x * weight, 2), labels, {6, 5}, {3, 1},
                                     {.reduction = reduction, .zero_infinity = true});
      loss.backward();
      return loss;
    };
    manual_seed(5);
    GraphedStep step(loss_of);
    for (int i = 0; i < 6; ++i) {
      const Variable x = randn({6, 2, 3}, {.device = gpu});
      const double captured = step(x).item();
      EXPECT_EQ(step.reason(), "");
      EXPECT_EQ(captured, loss_of(x).item());
    }
  }
}

TEST(CudaMultinomial, DrawsWhatTheCpuDraws) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const bool replacement : {true, false})
      for (const Shape& shape : {Shape{7, 13}, Shape{1, 1}, Shape{300}, Shape{2, 5000}}) {
        const auto draw = [&](Device device) {
          manual_seed(17);
          const Variable weights =
              rand(shape, {.device = cpu}) * (rand(shape, {.device = cpu}) > 0.2);
          const Variable positive = (weights + (shape.rank() == 2 && shape[1] == 1)).to(dtype);
          return multinomial(positive.to(device), shape[shape.rank() - 1] > 9 ? 4 : 1, replacement)
              .to_vector<int64_t>();
        };
        EXPECT_EQ(draw(gpu), draw(cpu)) << dtype << ' ' << shape << ' ' << replacement;
      }
}

TEST(CudaMultinomial, DrawsInParts) {  // of 32 rows, for which the sums have place
  const auto draw = [](Device device) {
    manual_seed(18);
    return multinomial(rand({40, 70000}, {.device = cpu}).to(device), 3).to_vector<int64_t>();
  };
  EXPECT_EQ(draw(gpu), draw(cpu));
}

TEST(CudaMultinomial, RefusesTheSameWeights) {
  const auto message = [](Device device, const Values& weights, int64_t samples) -> std::string {
    try {
      multinomial(reshape(tensor(weights, {.dtype = f64, .device = device}), {2, 3}), samples);
    } catch (const ArgumentError& error) {
      return error.message();
    }
    return "";
  };
  for (const Values& weights :
       {Values{1, 2, 3, 1, -0.5, 1}, Values{1, 2, 3, 1, NAN, -1}, Values{1, 0, 3, INFINITY, 1, 1},
        Values{1, 1, 1, 1e308, 1e308, 0}, Values{1, 1, 1, 0, 0, 1}, Values{0, 0, 0, -1, 0, 0}}) {
    EXPECT_NE(message(gpu, weights, 2), "");
    EXPECT_EQ(message(gpu, weights, 2), message(cpu, weights, 2));
  }
  EXPECT_EQ(message(gpu, {1, 2, 3, 1, -0.5, 1}, 2),
            "multinomial: a weight must be finite and not negative: [1, 1] is -0.5");
}

TEST(CudaMultinomial, IsPartOfAGraph) {
  GraphedStep step([](const Variable& weights) { return multinomial(weights, 4); });
  const Variable weights = ones({3, 50}, {.device = gpu});
  std::vector<std::vector<int64_t>> drawn;
  manual_seed(6);
  for (int i = 0; i < 6; ++i) drawn.push_back(step(weights).to_vector<int64_t>());
  EXPECT_EQ(step.reason(), "");
  manual_seed(6);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(multinomial(weights, 4).to_vector<int64_t>(), drawn[size_t(i)]) << i;
}

}  // namespace
}  // namespace tapegrad
