// A Variable as a condition: `if (loss < 0.5)`.
#include <algorithm>
#include <cmath>

#include "core/base/internal/step_observer.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

TEST(Condition, OfOneElementIsItsValue) {
  for (DType dtype : {f16, bf16, f32, f64, u8, i64, boolean}) {
    EXPECT_FALSE(bool(full({}, 0.0, {.dtype = dtype}))) << name(dtype);
    EXPECT_TRUE(bool(full({1, 1}, 1.0, {.dtype = dtype}))) << name(dtype);
  }
  EXPECT_TRUE(bool(full({}, 0.25)));  // not cut to an integer
  EXPECT_TRUE(bool(full({}, double(NAN))));
  EXPECT_FALSE(bool(full({}, -0.0)));
}

TEST(Condition, Compares) {
  const Variable three = full({}, 3.0), one = full({}, 1.0);
  EXPECT_EQ(std::max(three, one).item(), 3.0);
  EXPECT_EQ(std::max(one, three).item(), 3.0);
  EXPECT_FALSE(bool(three == one));
  EXPECT_TRUE(bool(three != one));
  int steps = 0;
  for (Variable loss = one; loss > 1e-3; loss = loss * 0.5) ++steps;
  EXPECT_EQ(steps, 10);
}

TEST(Condition, OfSeveralElementsIsAnError) {
  const Variable x = full({3}, 1.0);
  expect_error<ShapeError>([&] { return bool(x == x); }, {"[3]", "all(", "any("});
  expect_error<ShapeError>([] { return bool(zeros({0})); }, {"[0]", "all(", "any("});
}

TEST(Condition, OfNoVariableIsAnError) {
  EXPECT_FALSE(Variable().defined());
  EXPECT_TRUE(zeros({2}).defined());
  expect_error<ArgumentError>([] { return bool(Variable()); }, {"empty", "defined()"});
}

struct Recording : StepObserver {
  void on_draw(RandomGenerator&, RandomState, uint64_t) override {}
  void before_gradient(const Leaf&, const Variable&) override {}
  void on_gradient(Leaf&, bool) override {}
  void on_clear(Leaf&) override {}
  int64_t number() const override { return 1; }
};

TEST(Condition, OfAValueThatACapturedStepComputesIsAnError) {
  const Variable loss = full({}, 1.0);
  Recording recording;
  const detail::Set<&detail::Context::step_observer> set(&recording);
  expect_error<AutogradError>([&] { return bool(loss); }, {"captured", "where("});
  EXPECT_TRUE(loss.defined());
}

}  // namespace
}  // namespace tapegrad::testing
