// grad() runs only the rules on paths to the requested inputs.
#include "core/dispatch/dispatch_log.h"
#include "ops/binary.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

/// Counts the calls of a kernel that the action dispatches.
template <typename Action>
int64_t calls_of(std::string_view kernel, Action action) {
  const DispatchLog log;
  action();
  return log.calls(kernel);
}

TEST(Prune, RulesOffTheWayAreNotRun) {
  const Variable x = leaf({1, 2}), w = leaf({3, 4});
  const Variable left = exp(exp(exp(x)));  // three rules with one multiplication each
  const Variable right = tanh(tanh(w));
  const Variable y = sum(left + right);
  EXPECT_EQ(calls_of("mul", [&] { grad(y, x, {.retain_graph = true}); }), 3);
  EXPECT_EQ(calls_of("mul", [&] { grad(y, w, {.retain_graph = true}); }), 0);
  EXPECT_EQ(calls_of("tanh_backward", [&] { grad(y, w, {.retain_graph = true}); }), 2);
  EXPECT_EQ(calls_of("tanh_backward", [&] { grad(y, x, {.retain_graph = true}); }), 0);
  const DispatchLog log;
  y.backward();
  EXPECT_EQ(log.calls("mul"), 3);
  EXPECT_EQ(log.calls("tanh_backward"), 2) << "backward() runs all";
}

TEST(Prune, ARuleMakesOnlyTheGradientsThatAreAsked) {
  const Variable a = make({1, 2, 3, 4}, {2, 2}).requires_grad_();
  const Variable b = make({5, 6, 7, 8}, {2, 2}).requires_grad_();
  const Variable y = sum(matmul(a, b));
  EXPECT_EQ(calls_of("matmul", [&] { grad(y, a, {.retain_graph = true}); }), 1);
  const std::vector<Variable> both{a, b};
  EXPECT_EQ(calls_of("matmul", [&] { grad(y, both, {}, {.retain_graph = true}); }), 2);
  EXPECT_EQ(values(grad(y, b, {.retain_graph = true})), (Values{4, 4, 6, 6}));
}

TEST(Prune, BeyondAnInnerResultNothingRuns) {
  const Variable x = leaf({2}), middle = exp(exp(x)), y = middle * middle;
  Variable gradient;
  const DispatchLog log;
  gradient = grad(y, middle, {.retain_graph = true});
  EXPECT_EQ(log.calls("square_backward"), 1);
  EXPECT_EQ(log.calls("mul"), 0) << "the rules of exp";
  EXPECT_EQ(gradient.item(), 2 * middle.item());
  // an inner variable, and an input reached through it
  const std::vector<Variable> both{middle, x};
  const auto gradients = grad(y, both, {}, {.retain_graph = true});
  EXPECT_EQ(gradients[0].item(), 2 * middle.item());
  EXPECT_NEAR(gradients[1].item(), 2 * middle.item() * middle.item() * exp(x).item(),
              1e-6 * gradients[1].item());
}

TEST(Prune, WhatWasNotRunIsNotFreed) {
  const Variable x = leaf({2}), w = leaf({3});
  const Variable left = exp(x), right = exp(w);
  grad(left + right, x);
  EXPECT_NO_THROW(grad(right, w));
  EXPECT_THROW(grad(left, x), AutogradError);
}

TEST(Prune, HooksElsewhereAreNotCalled) {
  const Variable x = leaf({2}), w = leaf({3});
  const Variable left = exp(x), right = exp(w);
  int on_the_way = 0, elsewhere = 0;
  left.register_hook([&](const Variable&) { return ++on_the_way, Variable(); });
  right.register_hook([&](const Variable&) { return ++elsewhere, Variable(); });
  grad(left * right, x);
  EXPECT_EQ(on_the_way, 1);
  EXPECT_EQ(elsewhere, 0);
}

TEST(Prune, UnusedInputsAndDiamonds) {
  const Variable x = leaf({2}), z = leaf({5});
  Variable y = x;
  for (int i = 0; i < 60; ++i) y = (y + y) * 0.5;
  EXPECT_EQ(grad(y, x, {.retain_graph = true}).item(), 1);
  expect_error<AutogradError>([&] { grad(y, z, {.retain_graph = true}); }, {"does not depend"});
  const auto none = grad({&y, 1}, {&z, 1}, {}, {.allow_unused = true});
  EXPECT_FALSE(none[0].defined());
}

TEST(Prune, HigherOrdersAgreeWithBackward) {
  const Variable x = leaf({0.5, -1}), w = leaf({2, 3});
  const Variable y = sum(exp(x * w) * tanh(x));
  const Variable dx = grad(y, x, {.create_graph = true});
  const Variable dxw = grad(sum(dx), w, {.retain_graph = true});
  sum(dx).backward();
  EXPECT_EQ(values(dxw), values(w.grad()));
}

// A million rules: neither the walk nor the pass is recursive.
TEST(Prune, T50_LongChains) {
  const Variable x = leaf<float>({1});
  Variable y = x;
  for (int i = 0; i < 100000; ++i) y = y + x;
  EXPECT_EQ(grad(y, x).item(), 100001);
}

}  // namespace
}  // namespace tapegrad::testing
