// The tape: gradients, errors, in-place writes, views, hooks, higher orders.
#include "core/tape/recording.h"

#include <cmath>

#include "core/base/allocator.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

constexpr BackwardOptions kRetain{.retain_graph = true};

TEST(Tape, GradientsAddUpUntilTheyAreCleared) {
  const Variable x = leaf({1, 2, 3});
  EXPECT_FALSE(x.grad().defined());
  sum(x * x).backward();
  sum(x).backward();
  EXPECT_EQ(values(x.grad()), (Values{3, 5, 7}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

/// The numbers are PyTorch 2.15's.
TEST(Tape, RequiringNoGradientKeepsGradientAndHooks) {
  Variable x = leaf({1, 2});
  int hooks = 0, accumulated = 0;
  x.register_hook([&](const Variable&) { ++hooks; });
  x.register_post_accumulate_grad_hook([&](const Variable&) { ++accumulated; });
  sum(x * 3.0).backward();
  const Variable before = sum(x * x);
  x.requires_grad_(false);
  EXPECT_FALSE(x.requires_grad());
  EXPECT_EQ(values(x.grad()), (Values{3, 3}));
  before.backward();  // a tape recorded before calls the hooks and accumulates nothing
  EXPECT_EQ(values(x.grad()), (Values{3, 3}));
  EXPECT_EQ(std::pair(hooks, accumulated), std::pair(2, 2));
  x.mul_(2.0);
  x.requires_grad_();
  EXPECT_EQ(values(x.grad()), (Values{3, 3}));
  sum(x * x).backward();
  EXPECT_EQ(values(x.grad()), (Values{7, 11}));
  EXPECT_EQ(std::pair(hooks, accumulated), std::pair(3, 3));

  x.requires_grad_(false);
  x.grad() = make({5, 5});
  EXPECT_EQ(values(x.grad()), (Values{5, 5}));
  x.zero_grad(/*set_to_none=*/false);
  EXPECT_EQ(values(x.grad()), (Values{0, 0}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

/// The numbers are PyTorch 2.15's.
TEST(Tape, AFrozenLeafThatBecomesAResultKeepsItsGradient) {
  const Variable v = leaf({3, 4});
  Variable w = leaf({1, 2});
  sum(w * w).backward();
  w.requires_grad_(false);
  w.mul_(v);
  EXPECT_FALSE(w.is_leaf());
  EXPECT_EQ(values(w.grad()), (Values{2, 4}));
  sum(w).backward();  // the gradient of a result is not accumulated
  EXPECT_EQ(values(w.grad()), (Values{2, 4}));
  EXPECT_EQ(values(v.grad()), (Values{1, 2}));
  w.detach_();
  EXPECT_EQ(values(w.grad()), (Values{2, 4}));
  w.requires_grad_();
  sum(w * 2).backward();
  EXPECT_EQ(values(w.grad()), (Values{4, 6}));

  w.requires_grad_(false);
  w.mul_(v);
  w.retain_grad();  // from here on, the gradient of the result is added
  sum(w * 3).backward();
  EXPECT_EQ(values(w.grad()), (Values{7, 9}));
  w.zero_grad();
  EXPECT_FALSE(w.grad().defined());
}

TEST(Tape, RecordingFollowsTheInputs) {
  const Variable x = leaf({1}), c = make({2});
  EXPECT_TRUE((x * c).requires_grad() && !(x * c).is_leaf());
  EXPECT_FALSE((c * c).requires_grad());
  EXPECT_TRUE((c * c).is_leaf());
  EXPECT_FALSE(x.detach().requires_grad());
  EXPECT_FALSE((x > c).requires_grad());
  EXPECT_FALSE(x.to(i64).requires_grad());
  EXPECT_TRUE(x.to(f32).to(f64).requires_grad());
}

TEST(Tape, T48_NoGradIsPerScopeAndSurvivesExceptions) {
  const Variable x = leaf({1});
  try {
    const NoGrad off;
    EXPECT_FALSE((x * x).requires_grad());
    {
      const Recording on(true);
      EXPECT_TRUE((x * x).requires_grad());
    }
    EXPECT_FALSE(is_recording());
    add(x, make({1, 2, 3})).backward();  // no history: an error
    FAIL();
  } catch (const Error&) {
  }
  EXPECT_TRUE(is_recording());
  Variable y = sum(exp(x));
  y.backward();
  EXPECT_THROW(y.backward({.create_graph = true}), AutogradError);
  EXPECT_TRUE(is_recording()) << "also after a failed backward";
}

TEST(Tape, T49_SecondBackwardWithoutRetain) {
  const Variable x = leaf({1, 2});
  const Variable y = sum(exp(x));
  y.backward(kRetain);
  y.backward();
  const Values before = values(x.grad());
  expect_error<AutogradError>([&] { y.backward(); }, {"sum", "freed", "retain_graph", "tape_test"});
  EXPECT_EQ(values(x.grad()), before) << "unchanged by the error";
}

TEST(Tape, T49_SeedsOfTheWrongKind) {
  const Variable x = leaf({1, 2});
  expect_error<AutogradError>([&] { exp(x).backward(); }, {"[2]", "seed"});
  expect_error<AutogradError>([&] { exp(x).backward(make({1, 1, 1})); }, {"seed", "[3]", "[2]"});
  expect_error<AutogradError>(
      [&] {
        exp(x).backward(make<float>({1, 1}));
      },
      {"seed", "float32", "float64"});
  expect_error<AutogradError>([&] { x.detach().backward(make({1, 1})); }, {"requires no gradient"});
  EXPECT_THROW(Variable().backward(), AutogradError);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Tape, T49_IntegersHaveNoGradient) {
  expect_error<AutogradError>([] { make<int64_t>({1}).requires_grad_(); }, {"int64"});
  expect_error<AutogradError>([] { Variable(Tensor::full({1}, true, boolean)).requires_grad_(); },
                              {"bool"});
}

TEST(Tape, T49_UnusedInputOfGrad) {
  const Variable x = leaf({1, 2}), z = leaf({3});
  expect_error<AutogradError>([&] { grad(sum(x), z); }, {"grad", "does not depend", "0"});
  expect_error<AutogradError>([&] { grad(sum(x), make({1})); }, {"requires no gradient"});
  const std::vector<Variable> ys{sum(x)}, xs{z, x};
  const auto gradients = grad(ys, xs, {}, {.allow_unused = true});
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_EQ(values(gradients[1]), (Values{1, 1}));
  EXPECT_FALSE(x.grad().defined()) << "grad() leaves leaves alone";
}

TEST(Tape, GradOfSeveralResults) {
  const Variable x = leaf({1, 2}), z = leaf({3, 4});
  const std::vector<Variable> ys{x * z, sum(x), x * z}, xs{x, z};
  const std::vector<Variable> all{make({1, 10}), Variable(Tensor::full({}, 5.0, f64)),
                                  make({2, 2})};
  const auto gradients = grad(ys, xs, all, {.retain_graph = true});
  EXPECT_EQ(values(gradients[0]), (Values{3 * 3 + 5, 12 * 4 + 5}));
  EXPECT_EQ(values(gradients[1]), (Values{3 * 1, 12 * 2}));
  EXPECT_EQ(values(all[0]), (Values{1, 10})) << "seeds are left alone";
  expect_error<AutogradError>([&] { grad(ys, xs, {all.data(), 1}); }, {"1 seeds", "3 results"});
  EXPECT_EQ(values(grad({ys.data() + 1, 1}, {&x, 1})[0]), (Values{1, 1}));
}

TEST(Tape, GradByAResultAndByTheRootItself) {
  const Variable x = leaf({3}), y = x * 2.0;
  EXPECT_EQ(grad(sum(y * y), y, {.retain_graph = true}).item(), 12);
  EXPECT_EQ(grad(y, y).item(), 1);
  EXPECT_EQ(grad(x, x).item(), 1);
}

TEST(Tape, T23_OrdersOneToThree) {
  const Variable x = leaf({3});
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Variable y = x * x * x;
    const Variable d1 = grad(y, x, {.create_graph = true});
    const Variable d2 = grad(d1, x, {.create_graph = true});
    EXPECT_EQ(d1.item(), 27);
    EXPECT_EQ(d2.item(), 18);
    EXPECT_EQ(grad(d2, x).item(), 6);
  }
}

TEST(Tape, T10_WritesToExpandedTensors) {
  const Variable w = leaf({5});
  Variable wide = expand(w * 1.0, {3});
  expect_error<AutogradError>([&] { wide += 1.0; }, {"add", "expanded", "[3]"});
  Variable constant = expand(make({1}), {4});
  EXPECT_THROW(constant += 1.0, AutogradError);
  Variable single = Variable(Tensor::full({1}, 2.0, f64).with_layout({{1, 1}, {0, 0}, 0}));
  single += 1.0;
  EXPECT_EQ(single.item(), 3);
}

TEST(Tape, T12_AValueSavedAndThenChanged) {
  const Variable x = leaf({1, 2, 3});
  Variable y = exp(x);
  y += 1.0;
  expect_error<AutogradError>([&] { sum(y).backward(); },
                              {"exp", "changed in place", "tape_test.cpp"});
  EXPECT_FALSE(x.grad().defined()) << "a failed backward leaves leaves alone";
  y = x + 1.0;
  y += 1.0;
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 1, 1}));
}

TEST(Tape, T13_ASavedValueChangedThroughAnotherName) {
  const Variable x = leaf({1, 2, 3});
  const auto change = [&](auto target_of) {
    const Variable y = exp(x);
    Variable target = target_of(y);
    target += 1.0;
    expect_error<AutogradError>([&] { sum(y).backward(); }, {"exp", "changed in place"});
  };
  change([](const Variable& y) { return slice(y, 0, 0, 1); });
  change([](const Variable& y) { return y.detach(); });
  change([](const Variable& y) { return slice(slice(y, 0, 0, 2), 0, 1, 2); });
  change([](const Variable& y) { return y; });
}

TEST(Tape, T15_WritesThroughViews) {
  const Variable x = leaf({1, 2, 3});
  Variable y = x * 1.0, older = slice(y, 0, 0, 2), tail = slice(y, 0, 1, 3);
  tail *= 2.0;
  EXPECT_EQ(values(y), (Values{1, 4, 6}));
  sum(y).backward(kRetain);
  EXPECT_EQ(values(x.grad()), (Values{1, 2, 2}));
  x.zero_grad();
  sum(older).backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 2, 0})) << "an older view follows its base";

  x.zero_grad();
  y = x * 1.0;
  Variable last = slice(slice(y, 0, 1, 3), 0, 1, 2);
  last *= 5.0;
  sum(y * y).backward();
  EXPECT_EQ(values(x.grad()), (Values{2, 4, 150})) << "a chain of two views";
}

TEST(Tape, T15_AValueWrittenIntoAConstantBuffer) {
  const Variable w = leaf({5}), before = leaf({1, 2, 3});
  Variable buffer = make({0, 0, 0}), slot = slice(buffer, 0, 1, 2);
  slot += w;
  EXPECT_TRUE(buffer.requires_grad());
  sum(buffer * buffer).backward();
  EXPECT_EQ(values(w.grad()), (Values{10}));

  Variable y = before * 1.0, middle = slice(y, 0, 1, 2);
  copy_(middle, w);
  w.zero_grad();
  sum(y * y).backward();
  EXPECT_EQ(values(before.grad()), (Values{2, 0, 6})) << "what was overwritten gets 0";
  EXPECT_EQ(values(w.grad()), (Values{10}));
}

TEST(Tape, T16_WritesToLeaves) {
  const Variable x = leaf({1, 2});
  Variable handle = x, view = slice(x, 0, 0, 1);
  expect_error<AutogradError>([&] { handle += 1.0; }, {"add", "leaf"});
  expect_error<AutogradError>([&] { view += 1.0; }, {"add", "leaf"});
  expect_error<AutogradError>([&] { zero_(handle); }, {"leaf"});
  EXPECT_EQ(values(x), (Values{1, 2}));
  {
    const NoGrad off;
    handle += 1.0;
  }
  EXPECT_EQ(values(x), (Values{2, 3}));
  EXPECT_TRUE(x.is_leaf() && x.requires_grad());
}

TEST(Tape, T17_GradientsDoNotAlias) {
  const Variable a = leaf({1, 2}), b = leaf({3, 4}), g = make({1, 1});
  (a + b).backward(g);
  Variable da = a.grad();
  da += 5.0;
  EXPECT_EQ(values(b.grad()), (Values{1, 1}));
  EXPECT_EQ(values(g), (Values{1, 1}));
  EXPECT_FALSE(a.grad().value().shares_storage(b.grad().value()));

  const Variable c = leaf({1, 1});
  c.backward(g);
  EXPECT_FALSE(c.grad().value().shares_storage(g.value())) << "the seed itself";
  const Variable d = leaf({1, 1});
  d.to(f64).backward(g);
  reshape(d, {1, 2}).backward(reshape(g, {1, 2}));
  EXPECT_EQ(values(d.grad()), (Values{2, 2}));
  EXPECT_EQ(values(g), (Values{1, 1}));
}

TEST(Tape, T20_InPlaceActivations) {
  const Variable x = leaf({-1, 2, 3});
  Variable y = x * 2.0;
  relu_(y);
  sum(y).backward(kRetain);
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 4, 4}));
  x.zero_grad();
  y = x * 1.0;
  tanh_(y);
  const Variable used = y * y;
  sum(used).backward();
  const double t = std::tanh(2.0);
  EXPECT_NEAR(values(x.grad())[1], 2 * t * (1 - t * t), 1e-14);
  y = x * 1.0;
  const Variable saved = y * y;
  relu_(y);
  EXPECT_THROW(sum(saved).backward(), AutogradError) << "mul saved what relu_ changed";
}

TEST(Tape, InPlaceProductSavesWhatItOverwrites) {
  const Variable x = leaf({1, 2}), w = leaf({3, 4});
  Variable y = x * 1.0;
  y *= w;
  sum(y).backward();
  EXPECT_EQ(values(w.grad()), (Values{1, 2}));
  EXPECT_EQ(values(x.grad()), (Values{3, 4}));
}

TEST(Tape, VersionsCountWrites) {
  Variable x = make({1, 2, 3});
  const auto version = [&] { return x.value().storage().version(); };
  EXPECT_EQ(version(), 0u);
  x += 1.0;
  Variable part = slice(x, 0, 0, 1), alias = x.detach();
  part *= 2.0;
  alias -= 1.0;
  EXPECT_EQ(version(), 3u);
  EXPECT_EQ(values(x), (Values{3, 2, 3}));
}

TEST(Tape, HooksSeeCompleteGradientsAndMayReplaceThem) {
  int calls = 0;
  double seen = 0;
  const Variable x = leaf({2}), y = x * 3.0;
  y.register_hook([&](const Variable& dy) { return ++calls, dy * 10.0; });
  x.register_hook([&](const Variable& dx) { return seen = dx.item(), Variable(); });
  sum(y + y + y).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, 90);
  EXPECT_EQ(x.grad().item(), 90);
  EXPECT_THROW(make({1}).register_hook([](const Variable& g) { return g; }), AutogradError);
}

TEST(Tape, AHookThatThrowsLeavesTheGraphUsable) {
  const Variable x = leaf({2}), y = x * x;
  bool angry = true;
  y.register_hook([&](const Variable&) -> Variable {
    if (angry) fail<ArgumentError>("hook");
    return {};
  });
  EXPECT_THROW(sum(y).backward(kRetain), ArgumentError);
  EXPECT_FALSE(x.grad().defined());
  angry = false;
  sum(y).backward();
  EXPECT_EQ(x.grad().item(), 4);
}

TEST(Tape, TwoPassesAtOnceThroughOneNodeAreAnError) {
  const Variable x = leaf({2}), inner = x * 1.0, outer = inner * 1.0;
  inner.register_hook([&](const Variable&) { return outer.backward(kRetain), Variable(); });
  expect_error<AutogradError>([&] { outer.backward(kRetain); },
                              {"two passes at once", "mul", "tape_test.cpp"});
}

TEST(Tape, RetainGradKeepsTheGradientOfAResult) {
  const Variable x = leaf({2}), y = x * 3.0;
  EXPECT_FALSE(y.grad().defined());
  y.retain_grad();
  sum(y * y).backward(kRetain);
  EXPECT_EQ(y.grad().item(), 12);
  sum(y).backward();
  EXPECT_EQ(y.grad().item(), 13);
  y.zero_grad();
  EXPECT_FALSE(y.grad().defined());
  EXPECT_THROW(make({1}).retain_grad(), AutogradError);
}

// As in PyTorch: the gradient is that of the value that the variable has.
TEST(Tape, RetainGradFollowsWrites) {
  const Variable x = leaf({2});
  Variable y = x * 3.0;
  y.retain_grad();
  const Variable before = y * 1.0;
  y *= 4.0;
  sum(y * y + before).backward();
  EXPECT_EQ(y.grad().item(), 48);
  EXPECT_EQ(x.grad().item(), 579);

  Variable z = x * 3.0;
  z.retain_grad();
  Variable view = z.view({1, 1}), other = z.view({1, 1, 1});
  other.retain_grad();
  view *= 2.0;
  sum(z * z).backward(kRetain);
  EXPECT_EQ(z.grad().item(), 24);
  EXPECT_FALSE(other.grad().defined());
  sum(other * 5.0).backward(kRetain);
  EXPECT_EQ(other.grad().item(), 5);
  other *= 2.0;
  sum(z).backward(kRetain);
  EXPECT_EQ(other.grad().item(), 5);
  EXPECT_EQ(z.grad().item(), 30);
}

TEST(Tape, CreateGraphIntoALeafIsACycleThatZeroGradBreaks) {
  const int64_t before = TapeNode::live();
  {
    Variable x = leaf({2});
    sum(x * x).backward({.create_graph = true});
    EXPECT_EQ(grad(x.grad(), x).item(), 2);
    x.zero_grad();
  }
  EXPECT_EQ(TapeNode::live(), before);
  {
    const Variable x = leaf({2});
    const Variable dx = grad(sum(x * x), x, {.create_graph = true});
    EXPECT_EQ(grad(dx, x).item(), 2);
  }
  EXPECT_EQ(TapeNode::live(), before) << "grad() makes no cycle";
}

TEST(Tape, ResidualInPlaceMakesNoCycle) {
  const int64_t before = TapeNode::live();
  {
    const Variable x = leaf({1}), w = leaf({2});
    Variable h = x * 1.0;
    const Variable residual = h * w;
    h += residual;
  }
  EXPECT_EQ(TapeNode::live(), before);
}

TEST(Tape, DetachRebindAndRequiresGrad) {
  Variable x = leaf({1, 2});
  sum(x).backward();
  x.rebind(Tensor::full({3}, 1.0, f32));
  EXPECT_TRUE(x.requires_grad() && !x.grad().defined());
  EXPECT_EQ(x.shape(), (Shape{3}));
  const Variable y = x * 2.0;
  EXPECT_THROW(y.rebind(Tensor::full({3}, 1.0, f32)), AutogradError);
  EXPECT_THROW(x.rebind(Tensor::full({3}, 1, i64)), AutogradError);
  x.requires_grad_(false);
  EXPECT_FALSE(x.requires_grad());
  Variable result = leaf({1}) * 2.0;
  EXPECT_THROW(result.requires_grad_(false), AutogradError);
}

TEST(Tape, ErrorsNameTheLineOfTheOp) {
  const Variable x = leaf({1});
  const auto line = [](const Variable& y) { return y.edge().node->where().line(); };
  const unsigned here = Where::current().line();
  EXPECT_EQ(line(exp(x)), here + 1);
  EXPECT_EQ(line(x + x), here + 2);
  EXPECT_EQ(line(2.0 * x), here + 3);
  EXPECT_EQ(line(grad(exp(x), x, {.create_graph = true})), here + 4) << "rules: the op's line";
}

TEST(Tape, FailedOpsLeaveOperandsAlone) {
  Variable x = make({1, 2});
  EXPECT_THROW(x += make({1, 2, 3}), ShapeError);
  EXPECT_EQ(values(x), (Values{1, 2}));
  EXPECT_EQ(x.value().storage().version(), 0u);
}

// Returns y = [a[0] + b[0] + ..., product]: a user-defined op with a list of inputs and two
// outputs.
struct SumAndLast {
  static constexpr std::string_view kName = "sum_and_last";
  size_t count = 0;

  std::vector<Tensor> forward(std::span<const Variable> xs) {
    count = xs.size();
    double total = 0;
    for (const Variable& x : xs) total += x.item();
    return {Tensor::full({1}, total, f64), xs.back().value().clone()};
  }
  std::vector<Variable> backward(std::span<const Variable> dy) const {
    std::vector<Variable> dx(count, dy[0]);
    if (dy[1].defined()) dx.back() = dx.back().defined() ? dx.back() + dy[1] : dy[1];
    return dx;
  }
};

TEST(Tape, AUsersOpWithAListAndSeveralOutputs) {
  const std::vector<Variable> xs{leaf({1}), leaf({2}), leaf({3})};
  const auto ys = apply(SumAndLast{}, Where::current(), std::span<const Variable>(xs));
  ASSERT_EQ(ys.size(), 2u);
  sum(ys[0] * ys[1]).backward();
  EXPECT_EQ(values(ys[0]), Values{6});
  EXPECT_EQ(xs[0].grad().item(), 3);
  EXPECT_EQ(xs[2].grad().item(), 3 + 6);
  const auto again = apply(SumAndLast{}, Where::current(), std::span<const Variable>(xs));
  again[1].backward();  // the other output receives no gradient
  EXPECT_EQ(xs[2].grad().item(), 3 + 6 + 1);
  EXPECT_EQ(xs[0].grad().item(), 3) << "an empty gradient is zero";
}

/// y = 2 x, with rules that differ, to tell which ran.
struct TwoRules {
  static constexpr std::string_view kName = "two_rules";
  inline static bool over_dy = false;  // whether nobody else could see dy

  Tensor forward(const Tensor& x) const { return (Variable(x) * 2.0).value(); }
  Variable backward(const Variable& dy) const { return dy * 2.0; }
  Tensor kernel_backward(const Tensor& dy) const {
    over_dy = dy.is_sole_owner();
    return (Variable(dy) * 3.0).value();
  }
};

TEST(Tape, ARuleByKernelsRunsWhereNothingIsRecorded) {
  const Variable x = leaf({1, 2});
  const auto y = [&] { return apply(TwoRules{}, Where::current(), x); };
  EXPECT_TRUE(y().grad_fn()->has_kernel_backward());
  EXPECT_FALSE(sum(x).grad_fn()->has_kernel_backward());
  EXPECT_EQ(values(grad(sum(y()), x)), (Values{3, 3}));
  EXPECT_EQ(values(grad(sum(y()), x, {.create_graph = true})), (Values{2, 2}));

  const std::vector<Variable> xs{x};
  grad(y() * y(), xs, make({1, 1}));
  EXPECT_TRUE(TwoRules::over_dy);
  const Variable seed = make({1, 1});
  grad(y(), xs, seed);
  EXPECT_FALSE(TwoRules::over_dy) << "the caller's seed";
}

TEST(Tape, MemoryIsFlatOverAThousandSteps) {
  const Variable w = make<float>(std::vector<float>(64 * 64, 0.01f), {64, 64}).requires_grad_();
  const Variable x = make<float>(std::vector<float>(32 * 64, 1.0f), {32, 64});
  const auto step = [&] {
    w.zero_grad();
    Variable h = matmul(x, w);
    relu_(h);
    mean(h * h).backward();
    const NoGrad off;
    Variable parameter = w;
    parameter -= 0.01 * w.grad();
  };
  for (int i = 0; i < 3; ++i) step();
  const int64_t live = TapeNode::live();
  const MemoryStats before = memory_stats();
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_EQ(TapeNode::live(), live);
  EXPECT_EQ(memory_stats().in_use, before.in_use);
  EXPECT_EQ(memory_stats().system_allocations, before.system_allocations);
}

}  // namespace
}  // namespace tapegrad::testing
