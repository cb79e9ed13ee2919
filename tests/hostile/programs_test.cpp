// T78: programs that misuse the library in ways that no single call shows: functions of the user
// that throw, objects that were moved from or are destroyed in another order, views of views that
// are written. misuse_test.cpp has more.

#include <cmath>
#include <optional>

#include "core/autograd/checkpoint.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "data/item_loader.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/functional_call.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/grad_scaler.h"
#include "optim/lbfgs.h"
#include "optim/optimizers.h"
#include "tests/hostile/programs.h"
#include "train/fit.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {
namespace {

// ---- Functions of the user that throw

TEST(HostilePrograms, T78_AHookThatThrowsEndsThePassAndNothingElse) {
  const Variable x = leaf(), y = leaf();
  Variable z = x * y;
  HookHandle handle = z.register_hook([](const Variable&) -> Variable { throw Thrown(); });
  EXPECT_THROW(sum(z).backward(), Thrown);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(y.grad().defined());
  handle.remove();
  sum(x * y).backward();
  EXPECT_EQ(values(x.grad()), (Values{1, 1, 1}));
  expect_sound();
}

TEST(HostilePrograms, T78_APostAccumulateHookThatThrows) {
  const Variable x = leaf();
  HookHandle handle = x.register_post_accumulate_grad_hook([](const Variable&) { throw Thrown(); });
  EXPECT_THROW(sum(x * 2).backward(), Thrown);
  handle.remove();
  x.zero_grad();
  sum(x * 2).backward();
  EXPECT_EQ(values(x.grad()), (Values{2, 2, 2}));
  expect_sound();
}

TEST(HostilePrograms, T78_AHookThatRemovesItself) {
  const Variable x = leaf();
  HookHandle handle;
  int calls = 0;
  handle = x.register_hook([&](const Variable&) {
    ++calls;
    handle.remove();
    return Variable();
  });
  sum(x * 2).backward();
  sum(x * 2).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (Values{4, 4, 4}));
}

TEST(HostilePrograms, T78_AHookThatAddsHooks) {
  const Variable x = leaf();
  int inner = 0;
  const HookHandle handle = x.register_hook([&](const Variable&) {
    x.register_hook([&](const Variable&) {
      ++inner;
      return Variable();
    });
    return Variable();
  });
  sum(x * 2).backward();
  sum(x * 2).backward();
  EXPECT_GE(inner, 1);
}

TEST(HostilePrograms, T78_AHookThatStartsAnotherPass) {
  const Variable x = leaf(), y = leaf();
  const Variable other = sum(y * 3);
  const HookHandle handle = x.register_hook([&](const Variable&) {
    other.backward();
    return Variable();
  });
  sum(x * 2).backward();
  EXPECT_EQ(values(y.grad()), (Values{3, 3, 3}));
  EXPECT_EQ(values(x.grad()), (Values{2, 2, 2}));
}

TEST(HostilePrograms, T78_AHookThatStartsItsOwnPass) {
  const Variable x = leaf();
  const Variable y = sum(x * x);
  const HookHandle handle = x.register_hook([&](const Variable& gradient) {
    y.backward({.retain_graph = true});
    return gradient;
  });
  EXPECT_THROW(y.backward({.retain_graph = true}), AutogradError);  // the stack does not overflow
  EXPECT_FALSE(x.grad().defined());
}

TEST(HostilePrograms, T78_AHookThatDropsTheGraph) {
  auto x = std::make_unique<Variable>(leaf());
  Variable loss = sum(exp(*x));
  const HookHandle handle = loss.register_hook([&](const Variable&) {
    x.reset();
    return Variable();
  });
  loss.backward();
  expect_sound();
}

TEST(HostilePrograms, T78_ACheckpointThatThrowsAtRecomputation) {
  const Variable x = leaf();
  int calls = 0;
  const Variable y = checkpoint(
      [&](const Variable& v) {
        if (++calls == 2) throw Thrown();
        return exp(v);
      },
      x);
  EXPECT_ANY_THROW(sum(y).backward());
  EXPECT_FALSE(x.grad().defined());
  expect_sound();
}

TEST(HostilePrograms, T78_ACheckpointOfAnotherShapeAtRecomputation) {
  const Variable x = leaf();
  int calls = 0;
  const Variable y = checkpoint(
      [&](const Variable& v) { return ++calls == 1 ? exp(v) * v : exp(narrow(v, 0, 0, 2)); }, x);
  EXPECT_THROW(sum(y).backward(), Error);
  expect_sound();
}

TEST(HostilePrograms, T78_AForwardThatThrowsLeavesNoModuleRunning) {
  struct Net : nn::Model<Net> {
    nn::Linear fc{3, 3};
    bool fails = true;
    void members(nn::Members& m) override { m("fc", fc); }
    Variable forward(const Variable& x) const {
      const Variable y = fc(x);
      if (fails) throw Thrown();
      return y;
    }
  } net;
  EXPECT_THROW(net(ones({2, 3})), Thrown);
  net.fails = false;
  EXPECT_EQ(net(ones({2, 3})).shape(), (Shape{2, 3}));
  EXPECT_THROW(
      {
        try {
          matmul(ones({2, 3}), ones({2, 3}));
        } catch (const Error& error) {
          EXPECT_EQ(std::string(error.what()).find("Net"), std::string::npos);
          throw;
        }
      },
      ShapeError);
}

TEST(HostilePrograms, T78_ScopesEndWithExceptions) {
  try {
    const NoGrad no_grad;
    const Autocast autocast(bf16);
    const InferenceMode inference;
    throw Thrown();
  } catch (const Thrown&) {
  }
  expect_sound();
}

TEST(HostilePrograms, T78_ALossFunctionThatThrowsInFit) {
  nn::Linear net(3, 2);
  optim::SGD opt(net, 0.1);
  DataLoader loader(TensorDataset(ones({8, 3}), zeros({8}, i64)), 2);
  net.eval();
  int calls = 0;
  FitOptions options;
  options.progress.out = nullptr;
  options.loss = [&](const Variable& y, const Variable& t) {
    if (++calls == 3) throw Thrown();
    return cross_entropy(y, t);
  };
  EXPECT_THROW(fit(net, loader, opt, options), Thrown);
  EXPECT_FALSE(net.is_training());
  options.loss = {};
  EXPECT_EQ(fit(net, loader, opt, options).epochs.size(), 1u);
  expect_sound();
}

TEST(HostilePrograms, T78_AClosureThatThrowsInLbfgs) {
  const Variable x = leaf();
  optim::LBFGS opt({x}, {.line_search_fn = "strong_wolfe"});
  int calls = 0;
  const auto closure = [&] {
    if (++calls == 4) throw Thrown();
    opt.zero_grad();
    Variable loss = sum(exp(x) - 2 * x);
    loss.backward();
    return loss;
  };
  EXPECT_THROW(opt.step(closure), Thrown);
  EXPECT_TRUE(is_recording());
  for (int i = 0; i < 3; ++i) opt.step(closure);
  EXPECT_NEAR(values(x)[0], std::log(2.0), 1e-3);
}

TEST(HostilePrograms, T78_AGraphedStepWhoseFunctionThrows) {
  int calls = 0;
  GraphedStep step([&](const Variable& x) {
    if (++calls == 5) throw Thrown();
    return exp(x) * 2;
  });
  const Variable x = ones({3});
  int thrown = 0;
  for (int i = 0; i < 10; ++i) {
    try {
      EXPECT_NEAR(step(x).to_vector<double>()[0], 2 * std::exp(1.0), 1e-5);
    } catch (const Thrown&) {
      ++thrown;
    }
  }
  EXPECT_LE(thrown, 1);
  expect_sound();
}

TEST(HostilePrograms, T78_AForwardHookThatThrows) {
  nn::Linear net(3, 2);
  HookHandle handle = net.register_forward_hook(
      [](nn::Module&, std::span<const Variable>, std::span<Variable>) { throw Thrown(); });
  EXPECT_THROW(net(ones({1, 3})), Thrown);
  handle.remove();
  EXPECT_EQ(net(ones({1, 3})).shape(), (Shape{1, 2}));
  expect_sound();
}

TEST(HostilePrograms, T78_AFunctionalCallThatThrowsRestoresTheWeights) {
  struct Net : nn::Model<Net> {
    nn::Linear fc{3, 3};
    void members(nn::Members& m) override { m("fc", fc); }
    Variable forward(const Variable&) const { throw Thrown(); }
  } net;
  const Values before = values(net.fc.weight);
  VariableMap other = nn::parameter_map(net);
  other["fc.weight"] = zeros({3, 3});
  EXPECT_THROW(nn::functional_call(net, other, ones({1, 3})), Thrown);
  EXPECT_EQ(values(net.fc.weight), before);
}

// ---- Handles: moved, assigned to themselves, destroyed early

TEST(HostilePrograms, T78_MovedFromVariables) {
  Variable x = leaf(), y = std::move(x);
  EXPECT_FALSE(x.defined());  // NOLINT: the moved-from state is what is tested
  EXPECT_THROW(x.shape(), ArgumentError);
  EXPECT_THROW(x + 1, ArgumentError);
  x = y;
  EXPECT_EQ(values(x + 1), (Values{2, 2, 2}));
}

TEST(HostilePrograms, T78_MovedFromObjects) {
  DataLoader loader(TensorDataset(ones({6, 2}), zeros({6}, i64)), {.batch_size = 2});
  DataLoader other = std::move(loader);
  EXPECT_EQ(other.size(), 3);
  EXPECT_THROW(loader.size(), ArgumentError);  // NOLINT: the moved-from state is what is tested
  EXPECT_THROW(loader.begin(), ArgumentError);
  EXPECT_THROW(loader.dataset(), ArgumentError);
  ItemLoader items(std::vector<Variable>{ones({2}), ones({2})}, {.batch_size = 1});
  ItemLoader taken = std::move(items);
  EXPECT_EQ(taken.size(), 2);
  EXPECT_THROW(items.size(), ArgumentError);
  EXPECT_THROW(items.begin(), ArgumentError);

  nn::Lambda layer([](const Variable& x) { return 2 * x; });
  nn::Lambda same = std::move(layer);
  EXPECT_EQ(values(same(leaf())), (Values{2, 2, 2}));
  EXPECT_THROW(layer(leaf()), ArgumentError);

  optim::Adam adam({leaf()}, 0.1);
  optim::Adam moved = std::move(adam);
  optim::GradScaler scaler;
  EXPECT_THROW(scaler.step(adam), ArgumentError);
  EXPECT_THROW(scaler.unscale_(adam), ArgumentError);
  expect_sound();
}

TEST(HostilePrograms, T78_SelfAssignment) {
  Variable x = leaf();
  Variable& same = x;
  x = same;
  x = std::move(same);
  EXPECT_EQ(x.numel(), 3);
  nn::Sequential net(nn::Linear(3, 3));
  nn::Sequential& other = net;
  net = other;
  EXPECT_EQ(net(ones({1, 3})).shape(), (Shape{1, 3}));
}

TEST(HostilePrograms, T78_ASequentialInsideOfItself) {
  nn::Sequential net(nn::Linear(3, 3));
  net.push_back(net);  // a handle to the layers so far
  EXPECT_EQ(net.size(), 2);
  EXPECT_EQ(net(ones({1, 3})).shape(), (Shape{1, 3}));
  EXPECT_EQ(net.parameters().size(), 2u);
}

TEST(HostilePrograms, T78_AModelThatOutlivesItsOptimizerAndTheOtherWayRound) {
  std::optional<optim::Adam> opt;
  std::optional<nn::Linear> net(std::in_place, 3, 2);
  opt.emplace(*net, 0.1);
  sum((*net)(ones({1, 3}))).backward();
  net.reset();
  opt->step();
  EXPECT_EQ(opt->parameters().size(), 2u);
  EXPECT_EQ(opt->state_dict().size(), 9u);
}

TEST(HostilePrograms, T78_AHookHandleThatOutlivesItsVariable) {
  HookHandle handle;
  {
    const Variable x = leaf();
    handle = x.register_hook([](const Variable&) { return Variable(); });
  }
  handle.remove();
  handle.remove();
}

TEST(HostilePrograms, T78_ALossThatOutlivesItsInputs) {
  Variable loss;
  {
    const Variable x = leaf({4, 4});
    loss = sum(matmul(x, exp(x)));
  }
  loss.backward();
  EXPECT_THROW(loss.backward(), AutogradError);
}

TEST(HostilePrograms, T78_ALoaderThatIsDestroyedInItsLoop) {
  auto loader = std::make_unique<DataLoader>(TensorDataset(arange(10)),
                                             DataLoaderOptions{.batch_size = 2, .num_workers = 2});
  {
    auto at = loader->begin();
    EXPECT_EQ(at->data.size(0), 2);
  }
  loader.reset();
}

// ---- Views and writes

TEST(HostilePrograms, T78_AWriteToItsOwnView) {
  Variable x = arange(6.0);
  copy_(x, flip(x, 0));
  EXPECT_EQ(values(x), (Values{5, 4, 3, 2, 1, 0}));
  Variable head = narrow(x, 0, 0, 4), tail = narrow(x, 0, 2, 4);
  copy_(head, tail);  // overlapping
  EXPECT_EQ(values(x), (Values{3, 2, 1, 0, 1, 0}));
  Variable square = reshape(arange(4.0), {2, 2});
  copy_(square, t(square));
  EXPECT_EQ(values(square), (Values{0, 2, 1, 3}));
  x += x;
  x *= x;
  EXPECT_EQ(values(x), (Values{36, 16, 4, 0, 4, 0}));
}

TEST(HostilePrograms, T78_AViewOfAViewIsWrittenWhileRecording) {
  const Variable w = leaf({4});
  Variable x = w * 1.0;
  Variable inner = narrow(narrow(x, 0, 1, 3), 0, 1, 1);
  fill_(inner, 5);
  EXPECT_EQ(values(x), (Values{1, 1, 5, 1}));
  sum(x * x).backward();
  EXPECT_EQ(values(w.grad()), (Values{2, 2, 0, 2}));
}

TEST(HostilePrograms, T78_TheSavedOperandIsWrittenThroughAViewOfAView) {
  const Variable w = leaf({4});
  Variable x = w * 1.0;
  const Variable y = exp(x) * x;  // saves x
  Variable inner = select(reshape(x, {2, 2}), 0, 1);
  fill_(inner, 5);
  EXPECT_THROW(sum(y).backward(), AutogradError);
  expect_sound();
}

TEST(HostilePrograms, T78_AnExpandedTensorIsNotWritten) {
  Variable x = expand(ones({1, 3}), {4, 3});
  EXPECT_THROW(x += 1, Error);
  EXPECT_EQ(values(narrow(x, 0, 0, 1)), (Values{1, 1, 1}));
}

TEST(HostilePrograms, T78_ADetachedAliasIsWritten) {
  const Variable w = leaf();
  Variable x = exp(w);
  const Variable y = x * x;
  Variable alias = x.detach();
  alias.fill_(0);
  EXPECT_THROW(sum(y).backward(), AutogradError);
}

TEST(HostilePrograms, T78_AGradientThatIsWrittenAndKept) {
  const Variable x = leaf();
  sum(x * 2).backward();
  Variable kept = x.grad();
  kept.fill_(7);
  sum(x * 2).backward();
  EXPECT_EQ(values(x.grad()), (Values{9, 9, 9}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(HostilePrograms, T78_IndexPutOfItself) {
  Variable x = arange(4.0);
  index_put_(x, {Slice{0, 2}}, narrow(x, 0, 2, 2));
  EXPECT_EQ(values(x), (Values{2, 3, 2, 3}));
  index_put_(x, {tensor({0, 0, 0})}, tensor({1.0, 2.0, 3.0}), /*accumulate=*/true);
  EXPECT_EQ(values(x)[0], 8);
}

TEST(HostilePrograms, T78_AnOutputIsTheInputOfItsOwnWrite) {
  Variable h = zeros({3});
  for (int i = 0; i < 3; ++i) h = h + narrow(h, 0, 0, 3) + 1;
  EXPECT_EQ(values(h), (Values{7, 7, 7}));
}

}  // namespace
}  // namespace tapegrad::testing
