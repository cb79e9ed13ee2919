// linear_cross_entropy() against the two ops: several parts of rows, gradients, memory.
#include "ops/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include "core/autograd/derivatives.h"
#include "core/autograd/gradcheck.h"
#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/tape/autocast.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

/// 1400 rows are three parts.
struct Problem {
  Variable x, weight, bias, target, factors;

  explicit Problem(DType dtype) {
    manual_seed(3);
    const TensorOptions options{.dtype = dtype, .requires_grad = true};
    x = randn({7, 200, 12}, options);
    weight = randn({90, 12}, options);
    bias = randn({90}, options);
    target = randint(0, 90, {7, 200});
    target.index_put_({0, Slice(10, 30)}, -100);
    factors = rand({90}, {.dtype = dtype}) + 0.5;
  }
  std::vector<Variable> leaves() const { return {x, weight, bias}; }
  Variable two_ops(const CrossEntropyOptions& options) const {
    return cross_entropy(flatten(linear(x, weight, bias), 0, 1), flatten(target), options);
  }
  Variable one_op(LinearCrossEntropyOptions options) const {
    options.linear_bias = bias;
    return linear_cross_entropy(x, weight, target, options);
  }
};

double distance(const Variable& a, const Variable& b) {
  return max(abs(a.to(f64) - b.to(f64))).item();
}

TEST(LinearCrossEntropy, IsTheTwoOps) {
  for (const DType dtype : {f64, f32})
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone})
      for (const double smoothing : {0.0, 0.1}) {
        const Problem p(dtype);
        const Variable wanted =
            p.two_ops({.weight = p.factors, .reduction = reduction, .label_smoothing = smoothing});
        const Variable got =
            p.one_op({.weight = p.factors, .reduction = reduction, .label_smoothing = smoothing});
        const double tolerance = dtype == f64 ? 1e-11 : 2e-3;  // of sums of 1400 losses
        EXPECT_EQ(got.dtype(), dtype);
        EXPECT_LT(distance(flatten(got), flatten(wanted)), tolerance);
        const auto dwanted = grad(sum(wanted * 3), p.leaves()),
                   dgot = grad(sum(got * 3), p.leaves());
        for (size_t i = 0; i < 3; ++i) EXPECT_LT(distance(dgot[i], dwanted[i]), tolerance) << i;
      }
}

TEST(LinearCrossEntropy, ComputesTheGradientsThatAreWanted) {
  const Problem p(f64);
  const std::vector<Variable> all = grad(p.one_op({}), p.leaves());
  for (size_t wanted = 0; wanted < 3; ++wanted) {
    for (size_t i = 0; i < 3; ++i) p.leaves()[i].requires_grad_(i == wanted);
    EXPECT_EQ(distance(grad(p.one_op({}), {p.leaves()[wanted]})[0], all[wanted]), 0);
  }
  for (Variable x : p.leaves()) x.requires_grad_(false);
  EXPECT_FALSE(p.one_op({}).requires_grad());
}

TEST(LinearCrossEntropy, HasGradientsOfSecondOrder) {
  const Variable ids = tensor({2, 0, 3}), weights = tensor({0.5, 1.0, 2.0, 1.5}, f64);
  const auto result = gradcheck(
      [&](const std::vector<Variable>& in) {
        return linear_cross_entropy(
            in[0], in[1], ids, {.linear_bias = in[2], .weight = weights, .label_smoothing = 0.1});
      },
      {randn({3, 2}, {.dtype = f64, .requires_grad = true}),
       randn({4, 2}, {.dtype = f64, .requires_grad = true}),
       randn({4}, {.dtype = f64, .requires_grad = true})},
      {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(LinearCrossEntropy, CanBeDifferentiatedTwiceAndReplayed) {
  const Problem p(f64);
  const Variable loss = p.one_op({});
  const auto once = grad(loss, p.leaves(), {.retain_graph = true}), again = grad(loss, p.leaves());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(distance(once[i], again[i]), 0);
  GraphedStep step(
      [&] {
        for (const Variable& x : p.leaves()) x.zero_grad();
        const Variable loss = p.one_op({});
        loss.backward();
        return loss;
      },
      {}, {.warmup = 1});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(step().item(), loss.item());
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(distance(p.leaves()[k].grad(), once[k]), 0);
  }
  EXPECT_TRUE(step.is_graphed()) << step.reason();
}

TEST(LinearCrossEntropy, TheLogitsAreNotStored) {
  const Variable x = randn({4096, 64}, {.requires_grad = true}),
                 weight = randn({2000, 64}, {.requires_grad = true}),
                 target = randint(0, 2000, {4096});
  const auto peak_of = [](auto run) {
    reset_peak_memory();
    const int64_t before = memory_stats().in_use;
    run();
    return memory_stats().peak - before;
  };
  const int64_t logits = 4096 * 2000 * sizeof(float);
  EXPECT_GT(peak_of([&] { cross_entropy(linear(x, weight), target).backward(); }), 2 * logits);
  x.zero_grad(), weight.zero_grad();
  EXPECT_LT(peak_of([&] { linear_cross_entropy(x, weight, target).backward(); }), logits / 2);
}

TEST(LinearCrossEntropy, OtherArgumentsTakeTheTwoOps) {
  const Variable x = randn({6, 3}), weight = randn({4, 3}), shares = softmax(randn({6, 4}), -1);
  EXPECT_LT(
      distance(linear_cross_entropy(x, weight, shares), cross_entropy(linear(x, weight), shares)),
      1e-6);
  const Variable ids = tensor({0, 1, 2, 3, 0, 1});
  EXPECT_EQ(linear_cross_entropy(x.to(bf16), weight.to(bf16), ids).dtype(), bf16);
  const Autocast autocast(bf16);
  EXPECT_EQ(linear_cross_entropy(x, weight, ids).dtype(), f32);
}

TEST(LinearCrossEntropy, Refuses) {
  const Variable x = randn({6, 3}), weight = randn({4, 3}), ids = tensor({0, 1, 2, 3, 0, 1});
  EXPECT_THROW(linear_cross_entropy(x, randn({4, 5}), ids), ShapeError);
  EXPECT_THROW(linear_cross_entropy(x, weight, tensor({0, 1})), ShapeError);
  EXPECT_THROW(linear_cross_entropy(x, weight, ids + 1), IndexError);
  EXPECT_THROW(linear_cross_entropy(x, weight.to(f64), ids), DTypeError);
  EXPECT_THROW(linear_cross_entropy(x, weight, ids, {.linear_bias = randn({3})}), ShapeError);
  EXPECT_THROW(linear_cross_entropy(x, weight, ids, {.label_smoothing = 2}), ArgumentError);
  EXPECT_THROW(linear_cross_entropy({}, weight, ids), ArgumentError);
  EXPECT_THROW(linear_cross_entropy(x, {}, ids), ArgumentError);
  EXPECT_THROW(linear_cross_entropy(x, weight, {}), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
