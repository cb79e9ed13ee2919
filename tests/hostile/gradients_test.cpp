// T70: a gradient that a hook or a rule makes has the shape, the dtype and the device of its value;
// anything else is an AutogradError that names who made it.
#include <functional>

#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

const Where kHere = Where::current();

/// Gradients of other types than that of a value of [3] float64.
std::vector<Variable> wrong_gradients() {
  return {ones({2}, {.dtype = f64}), ones({}, {.dtype = f64}),  ones({3, 1}, {.dtype = f64}),
          ones({3}, {.dtype = f32}), ones({3}, {.dtype = i64}), ones({0}, {.dtype = f64})};
}

TEST(HostileGradients, T70_OfAHookOnALeafAndOnAResult) {
  for (const Variable& wrong : wrong_gradients()) {
    const Variable x = leaf({1, 2, 3}), y = exp(x);
    HookHandle handle = y.register_hook([&](const Variable&) { return wrong; });
    expect_error<AutogradError>(
        [&] { sum(y * 2).backward({.retain_graph = true}); },
        {"hook 0 of exp, recorded at ", "gradients_test.cpp", "[3] float64"});
    EXPECT_FALSE(x.grad().defined());
    handle.remove();
    handle = x.register_hook([&](const Variable&) { return wrong; });
    expect_error<AutogradError>([&] { sum(exp(x)).backward(); }, {"hook 0 of a leaf"});
    EXPECT_FALSE(x.grad().defined());
    handle.remove();
    sum(exp(x)).backward();
    EXPECT_EQ(values(x.grad()), values(exp(x)));
  }
}

TEST(HostileGradients, T70_OfHooksOnNodes) {
  for (const Variable& wrong : wrong_gradients()) {
    const Variable x = leaf({1, 2, 3});
    const Variable a = exp(x);
    a.grad_fn()->register_prehook([&](std::span<Variable> gradients) { gradients[0] = wrong; });
    expect_error<AutogradError>([&] { sum(a).backward(); }, {"prehook 0 of exp"});
    const Variable b = exp(x) * 2;
    b.grad_fn()->register_hook(
        [&](std::span<Variable> gradients, std::span<const Variable>) { gradients[0] = wrong; });
    expect_error<AutogradError>([&] { sum(b).backward(); }, {"node hook 0 of mul", "input 0"});
    EXPECT_FALSE(x.grad().defined());
  }
}

/// An op of two inputs of [3], or of one, whose rule is given.
struct Custom {
  static constexpr std::string_view kName = "custom";
  std::function<std::vector<Variable>(const Variable& dy)> rule;

  Tensor forward(const Tensor& a) { return a.clone(); }
  Tensor forward(const Tensor& a, const Tensor&) { return a.clone(); }
  std::vector<Variable> backward(const Variable& dy) const { return rule(dy); }
};

TEST(HostileGradients, T70_OfARule) {
  for (const Variable& wrong : wrong_gradients()) {
    const Variable x = leaf({1, 2, 3}), through = exp(x);
    for (const Variable& input : {x, through}) {
      const Variable y =
          apply(Custom{[&](const Variable&) { return std::vector{wrong}; }}, kHere, input);
      expect_error<AutogradError>(
          [&] { sum(y).backward({.retain_graph = true}); },
          {"the rule of custom, recorded at ", "for input 0", "[3] float64"});
    }
    EXPECT_FALSE(x.grad().defined());
  }
}

TEST(HostileGradients, T70_TooFewOrTooManyOfARule) {
  const Variable x = leaf({1, 2, 3}), z = leaf({1, 2, 3});
  for (const size_t count : {0, 1, 3, 4}) {
    const Variable y = apply(
        Custom{[&](const Variable& dy) { return std::vector<Variable>(count, dy); }}, kHere, x, z);
    expect_error<AutogradError>([&] { sum(y).backward(); },
                                {"the rule of custom", "gradients for 2 inputs"});
  }
  EXPECT_FALSE(x.grad().defined() || z.grad().defined());
}

/// A rule that returns a single Variable has one for the first input only.
struct OneGradient {
  static constexpr std::string_view kName = "one_gradient";
  Tensor forward(const Tensor& a, const Tensor&) { return a.clone(); }
  Variable backward(const Variable& dy) const { return dy; }
};

TEST(HostileGradients, T70_OneGradientForTwoInputs) {
  const Variable x = leaf({1, 2, 3}), z = leaf({1, 2, 3});
  const Variable y = apply(OneGradient{}, kHere, x, z);
  expect_error<AutogradError>([&] { sum(y).backward(); }, {"1 gradients for 2 inputs"});
  sum(apply(OneGradient{}, kHere, x, z.detach())).backward();  // the second wants none
  EXPECT_EQ(values(x.grad()), (Values{1, 1, 1}));
}

TEST(HostileGradients, T70_OfARuleThatIsRecorded) {
  const Variable x = leaf({1, 2, 3});
  const Variable y =
      apply(Custom{[](const Variable& dy) { return std::vector{sum(dy)}; }}, kHere, x);
  expect_error<AutogradError>(
      [&] {
        grad(y, {&x, 1}, ones({3}, {.dtype = f64}), {.create_graph = true});
      },
      {"custom"});
}

TEST(HostileGradients, T70_OfASeed) {
  const Variable x = leaf({1, 2, 3});
  for (const Variable& wrong : wrong_gradients())
    expect_error<AutogradError>([&] { exp(x).backward(wrong); }, {"seed", "[3] float64"});
}

}  // namespace
}  // namespace tapegrad::testing
