// Elementwise ops overwrite an operand that is no longer needed, and no other.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/elementwise_steps.h"

namespace tapegrad {
namespace {

const void* memory_of(const Variable& x) { return x.value().storage().data(); }

std::vector<uint32_t> bits_of(const Variable& x) {
  const std::vector<float> values = x.to_vector<float>();
  std::vector<uint32_t> bits(values.size());
  std::ranges::copy(std::as_bytes(std::span(values)),
                    std::as_writable_bytes(std::span(bits)).begin());
  return bits;
}

TEST(Overwriting, EveryElementwiseOpWritesOverAnOperandThatIsGivenAway) {
  manual_seed(1);
  const Operands operands({6, 4}, {4});
  const Variable start = randn({6, 4});
  for (const ElementwiseStep& step : elementwise_steps()) {
    SCOPED_TRACE(step.name);
    const NoGrad off;
    Variable kept = clamp(start, {.min = -2, .max = 2}), given = kept.clone();
    const Variable expected = step.call(kept, operands);
    EXPECT_NE(memory_of(expected), memory_of(kept));
    EXPECT_EQ(bits_of(kept), bits_of(given));
    const void* at = memory_of(given);
    const Variable got = step.call(std::move(given), operands);
    EXPECT_EQ(memory_of(got), at);
    EXPECT_EQ(bits_of(got), bits_of(expected));
  }
}

TEST(Overwriting, GradientsAreTheSameToTheBit) {
  manual_seed(2);
  const Operands operands({6, 4}, {4});
  const Variable start = clamp(randn({6, 4}), {.min = -2, .max = 2}).requires_grad_();
  const auto gradients = [&](const ElementwiseStep& step, bool give) {
    start.zero_grad(), operands.row.zero_grad();
    Variable x = start * 1.0, other = give ? Variable() : x;
    const Variable y = step.call(std::move(x), operands);
    sum(y * operands.full).backward();
    std::vector<std::vector<uint32_t>> seen{bits_of(y), bits_of(start.grad())};
    if (operands.row.grad().defined()) seen.push_back(bits_of(operands.row.grad()));
    return seen;
  };
  for (const ElementwiseStep& step : elementwise_steps()) {
    if (std::string_view(step.name) == "step") continue;  // has no gradient
    SCOPED_TRACE(step.name);
    EXPECT_EQ(gradients(step, true), gradients(step, false));
  }
}

TEST(Overwriting, AnOperandOfAnotherShapeOrDTypeIsNotWrittenOver) {
  const NoGrad off;
  const Variable full = ones({2, 3}), wide = ones({3}).to(f64);
  Variable row = arange(3).to(f32);
  const Variable y = std::move(row) + full;
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 3, 1, 2, 3}));
  Variable narrow = arange(3).to(f32);
  const Variable z = std::move(narrow) * wide;
  EXPECT_EQ(z.dtype(), f64);
  EXPECT_EQ(z.to_vector<double>(), (std::vector<double>{0, 1, 2}));
}

TEST(Overwriting, TheSecondOperandMayBeWrittenOver) {
  const NoGrad off;
  const Variable two = full({3}, 2.0);
  Variable x = arange(3).to(f32);
  const void* at = memory_of(x);
  const Variable y = two - std::move(x);
  EXPECT_EQ(memory_of(y), at);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 1, 0}));
}

TEST(Overwriting, AVariableCombinedWithItself) {
  const NoGrad off;
  Variable x = arange(4).to(f32);
  EXPECT_EQ((std::move(x) * std::move(x)).to_vector<float>(), (std::vector<float>{0, 1, 4, 9}));
  Variable z = arange(4).to(f32);
  EXPECT_EQ((z + std::move(z)).to_vector<float>(), (std::vector<float>{0, 2, 4, 6}));
}

TEST(Overwriting, ViewsAndTheirBasesKeepTheirValues) {
  const NoGrad off;
  const Variable base = arange(6).to(f32);
  Variable part = slice(base, 0, 0, 3);
  EXPECT_EQ((std::move(part) * 2.0).to_vector<float>(), (std::vector<float>{0, 2, 4}));
  EXPECT_EQ(base.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  Variable whole = arange(3).to(f32);
  const Variable view = reshape(whole, {3, 1});
  EXPECT_EQ(exp(std::move(whole)).numel(), 3);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{0, 1, 2}));
}

TEST(Overwriting, MemoryOfTheCallerKeepsItsValues) {
  std::vector<float> memory{1, 2, 3};
  Variable x(Tensor::wrap(memory.data(), {3}, f32));
  EXPECT_EQ((std::move(x) * 2.0).to_vector<float>(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 3}));
}

// A function may use an Operand several times: each use is of a copy.
Variable square_plus(const Operand& x) { return x * x + x; }
Variable square_plus_by_value(Operand x) { return x * x + x; }

TEST(Overwriting, AFunctionOfOperandsMayUseThemTwice) {
  const NoGrad off;
  const std::vector<float> expected{0, 2, 6};
  EXPECT_EQ(square_plus(arange(3).to(f32)).to_vector<float>(), expected);
  EXPECT_EQ(square_plus_by_value(arange(3).to(f32)).to_vector<float>(), expected);
}

TEST(Overwriting, AFailedOpLeavesItsOperand) {
  Variable x = arange(3).to(f32);
  EXPECT_THROW(std::move(x) + ones({4}), ShapeError);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 2}));
}

}  // namespace
}  // namespace tapegrad
