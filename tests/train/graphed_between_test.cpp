// Captured steps compared with plain calls, if the program between two replays replaces or clears
// gradients, catches errors of a replay, or writes to an input.
#include <functional>
#include <optional>

#include <gtest/gtest.h>

#include "core/autograd/derivatives.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/weight_norm.h"
#include "ops/arithmetic.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {
namespace {

using Values = std::vector<double>;

/// A pass and an update that are captured one by one.
struct Parts {
  explicit Parts(bool captured)
      : pass(
            [this](const Variable& x) {
              optimizer.zero_grad();
              const Variable loss = mean(net(x));
              loss.backward();
              return loss;
            },
            {}, {.enabled = captured}),
        update([this] { optimizer.step(); }, {}, {.enabled = captured}) {}
  Values weight() const { return net.weight.to_vector<double>(); }

  nn::Linear net{2, 1, false};
  optim::SGD optimizer{net.parameters(), 0.1};
  GraphedStep pass, update;
};

/// Returns the weights after each of 14 steps; `between` runs between the pass and the update.
std::vector<Values> weights(bool captured, bool has_short_batches,
                            const std::function<void(Parts&, int)>& between) {
  manual_seed(3);
  Parts parts(captured);
  std::vector<Values> all;
  for (int i = 0; i < 14; ++i) {
    const bool is_short = has_short_batches && i % 7 == 6;
    parts.pass(full({is_short ? 3 : 8, 2}, is_short ? -5.0 : 1.0));
    between(parts, i);
    parts.update();
    all.push_back(parts.weight());
  }
  if (captured && !has_short_batches) {
    EXPECT_TRUE(parts.pass.is_graphed()) << parts.pass.reason();
  }
  return all;
}

void expect_same_weights(bool has_short_batches, const std::function<void(Parts&, int)>& between) {
  EXPECT_EQ(weights(true, has_short_batches, between), weights(false, has_short_batches, between));
}

TEST(GraphedBetween, AnUpdateFollowsTheGradientsOfAShortBatch) {
  expect_same_weights(true, [](Parts&, int) {});
}

TEST(GraphedBetween, AnUpdateFollowsClearedAndReplacedGradients) {
  const auto is_chosen = [](int i) { return i > 6 && i % 3 == 0; };
  expect_same_weights(false, [=](Parts& parts, int i) {
    if (is_chosen(i)) parts.optimizer.zero_grad();
  });
  expect_same_weights(false, [=](Parts& parts, int i) {
    if (is_chosen(i)) parts.optimizer.zero_grad(/*set_to_none=*/false);
  });
  expect_same_weights(false, [=](Parts& parts, int i) {
    if (is_chosen(i)) parts.net.weight.grad() = parts.net.weight.grad() * 0.5;
  });
  expect_same_weights(false, [=](Parts& parts, int i) {
    if (is_chosen(i)) parts.net.weight.grad().mul_(0.5);
  });
  expect_same_weights(false, [=](Parts& parts, int i) {
    if (is_chosen(i)) parts.net.weight.grad() = Variable();
  });
}

// An update without a change between its replays stays captured.
TEST(GraphedBetween, AnUpdateIsReplayed) {
  Parts parts(true);
  for (int i = 0; i < 10; ++i) {
    parts.pass(ones({8, 2}));
    parts.update();
    EXPECT_EQ(parts.update.is_graphed(), i >= 3) << i << ' ' << parts.update.reason();
  }
}

// The step of the generator adds to the gradients that the step of the critic has computed.
TEST(GraphedBetween, TwoStepsOfAnAdversarialPair) {
  const auto train = [](bool captured) {
    manual_seed(5);
    nn::Linear generator(2, 4), critic(4, 1);
    optim::SGD of_generator(generator, 0.1), of_critic(critic, 0.1);
    GraphedStep judge(
        [&](const Variable& x) {
          of_critic.zero_grad();
          const Variable drawn = generator(randn({8, 2})).detach();
          const Variable loss = mean(critic(x)) - mean(critic(drawn));
          loss.backward();
          of_critic.step();
          return loss;
        },
        {}, {.enabled = captured});
    GraphedStep make(
        [&] {
          of_generator.zero_grad();
          const Variable loss = -mean(critic(generator(randn({8, 2}))));
          loss.backward();
          of_generator.step();
          return loss;
        },
        {}, {.enabled = captured});
    const Variable x = randn({8, 4});
    Values all;
    for (int i = 0; i < 10; ++i) {
      all.push_back(judge(x).item());
      all.push_back(make().item());
      all.push_back(critic.weight.grad().sum().item());
    }
    if (captured) {
      EXPECT_TRUE(judge.is_graphed()) << judge.reason();
      EXPECT_TRUE(make.is_graphed()) << make.reason();
    }
    return all;
  };
  EXPECT_EQ(train(true), train(false));
}

// The example of an id that is not in the vocabulary: it is caught, and the training goes on.
TEST(GraphedBetween, AnErrorTakesBackWhatItsRunHasNotDone) {
  const auto train = [](bool captured) {
    manual_seed(4);
    nn::Embedding table(10, 4);
    nn::Linear head(4, 3);
    std::vector<Variable> parameters = table.parameters();
    for (const Variable& p : head.parameters()) parameters.push_back(p);
    optim::Adam optimizer(parameters, 0.1);
    GraphedStep step(
        [&](const Variable& ids, const Variable& target) {
          optimizer.zero_grad();
          const Variable early = dropout(table(ids), 0.5);
          const Variable loss = cross_entropy(dropout(head(early), 0.1), target);
          loss.backward();
          optimizer.step();
          return loss;
        },
        {}, {.enabled = captured});
    const Variable ids = randint(0, 10, {8}), targets = randint(0, 3, {8});
    const Variable outside = full({8}, 99).to(i64);
    Values losses;
    for (int i = 0; i < 14; ++i) {
      try {
        losses.push_back(step(i == 7 ? outside : ids, i == 9 ? outside : targets).item());
      } catch (const IndexError&) {
        losses.push_back(-1);
        EXPECT_FALSE(head.weight.grad().defined());  // cleared by the step, as its function does
      }
    }
    EXPECT_EQ(losses[7], -1);
    EXPECT_EQ(losses[9], -1);
    losses.push_back(randn({}).item());  // the generator is where it would be
    return losses;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(GraphedBetween, AnErrorOfADrawKeepsItsNumbers) {
  const auto run = [](bool captured) {
    manual_seed(4);
    GraphedStep step([](const Variable& p) { return bernoulli(p) + rand({3}); }, {},
                     {.enabled = captured});
    Values all;
    for (int i = 0; i < 9; ++i) {
      try {
        all.push_back(sum(step(full({3}, i == 6 ? 1.5 : 0.5))).item());
      } catch (const ArgumentError&) {
        all.push_back(-1);
      }
    }
    EXPECT_EQ(all[6], -1);
    return all;
  };
  EXPECT_EQ(run(true), run(false));
}

// item() ends the recording and runs the recorded calls, one of which finds a wrong target.
TEST(GraphedBetween, AnErrorOfARecordingThatEndsLeavesNoGradients) {
  nn::Linear net(4, 3);
  GraphedStep step(
      [&](const Variable& target) {
        net.zero_grad();
        const Variable loss = cross_entropy(net(ones({8, 4})), target);
        loss.backward();
        return loss.item() > 0 ? loss : loss * 2.0;
      },
      {}, {.warmup = 1});
  step(full({8}, 1).to(i64));
  EXPECT_TRUE(net.weight.grad().defined());
  EXPECT_THROW(step(full({8}, 99).to(i64)), IndexError);
  EXPECT_FALSE(net.weight.grad().defined());
}

TEST(GraphedBetween, ATensorThatIsReplacedBeforeEveryCall) {
  Variable x = ones({2});
  GraphedStep step([&] { return sum(x * 2.0); });
  for (int i = 0; i < 20; ++i) {
    x = full({2}, double(i));
    EXPECT_EQ(step().item(), 4.0 * i);
  }
  EXPECT_NE(step.reason().find("passes another tensor to mul"), std::string::npos) << step.reason();
}

TEST(GraphedBetween, AnInputThatTheStepWritesTo) {
  const auto values = [](bool captured) {
    GraphedStep step(
        [](const Variable& h) {
          const NoGrad off;
          Variable state = h;
          state.mul_(0.5).add_(1.0);
          return sum(state);
        },
        {}, {.enabled = captured});
    const Variable h = zeros({3});
    Values all;
    for (int i = 0; i < 8; ++i) all.push_back(step(h).item());
    if (captured) {
      EXPECT_NE(step.reason().find("writes to its input 0"), std::string::npos) << step.reason();
    }
    all.push_back(h.to_vector<double>()[1]);
    return all;
  };
  EXPECT_EQ(values(true), values(false));
}

TEST(GraphedBetween, GradientsThatAreSetToZero) {
  const auto run = [](bool captured) {
    manual_seed(3);
    nn::Linear net(2, 1);
    optim::Adam optimizer(net.parameters(), 0.1);
    GraphedStep step(
        [&](const Variable& x) {
          optimizer.zero_grad(/*set_to_none=*/false);
          const Variable loss = mean(square(net(x)));
          loss.backward();
          optimizer.step();
          return loss;
        },
        {}, {.enabled = captured});
    for (int i = 0; i < 10; ++i) step(full({4, 2}, 0.5 * i));
    EXPECT_EQ(step.is_graphed(), captured) << step.reason();
    return net.weight.to_vector<double>();
  };
  EXPECT_EQ(run(true), run(false));
}

// The first pass of the step adds to a gradient of the call before, the second one to the sum.
TEST(GraphedBetween, TwoPassesOfAStepAddToAGradient) {
  const auto run = [](bool captured, bool sets_to_zero, bool has_second_order) {
    Variable w = tensor({0.7, -0.3}).requires_grad_();
    GraphedStep step(
        [&](const Variable& x) {
          if (sets_to_zero) w.zero_grad(/*set_to_none=*/false);
          const Variable loss = sum(tanh(w * x));
          Variable other = sum(square(w));
          if (has_second_order)
            other = sum(square(grad(loss, w, GradOptions{.create_graph = true})));
          other.backward({.retain_graph = true});
          loss.backward();
          return loss;
        },
        {}, {.enabled = captured});
    Values all;
    for (int i = 0; i < 9; ++i) {
      if (i == 6) w.zero_grad();
      if (i == 7) sum(w * 3.0).backward();
      step(full({2}, 0.25 * i));
      for (const double value : w.grad().to_vector<double>()) all.push_back(value);
    }
    EXPECT_EQ(step.is_graphed(), captured) << step.reason();
    return all;
  };
  for (const bool sets_to_zero : {false, true})
    for (const bool has_second_order : {false, true})
      EXPECT_EQ(run(true, sets_to_zero, has_second_order),
                run(false, sets_to_zero, has_second_order));
}

TEST(GraphedBetween, ANormOfWeightsThatIsRemoved) {
  const auto run = [](bool captured, bool is_spectral) {
    manual_seed(3);
    nn::Linear net(3, 2);
    const Variable plain = net.weight;
    optim::SGD optimizer({plain}, 0.1);
    GraphedStep step(
        [&](const Variable& x) {
          net.zero_grad();
          plain.zero_grad();
          const Variable loss = mean(square(net(x)));
          loss.backward();
          optimizer.step();
          return loss;
        },
        {}, {.enabled = captured});
    Values all;
    std::vector<Variable> kept;  // as an optimizer keeps them
    for (int i = 0; i < 18; ++i) {
      if (i == 6 && is_spectral) nn::utils::spectral_norm(net);
      if (i == 6 && !is_spectral) nn::utils::weight_norm(net);
      if (i == 6) kept = net.parameters();
      if (i == 12 && is_spectral) nn::utils::remove_spectral_norm(net);
      if (i == 12 && !is_spectral) nn::utils::remove_weight_norm(net);
      all.push_back(step(full({4, 3}, 0.5 * i)).item());
      for (const Variable& p : net.parameters())
        all.push_back(p.grad().defined() ? p.grad().to_vector<double>()[0] : -1);
      if (i == 11 || i == 17) {
        EXPECT_EQ(step.is_graphed(), captured) << step.reason();
      }
    }
    return all;
  };
  for (const bool is_spectral : {false, true})
    EXPECT_EQ(run(true, is_spectral), run(false, is_spectral));
}

TEST(GraphedBetween, AnErrorKeepsWhatTheStepHasWrittenToItsInput) {
  GraphedStep step([](const Variable& x) {
    Variable(x).add_(1.0);
    x.reshape({7});
  });
  const Variable x = zeros({3});
  EXPECT_THROW(step(x), ShapeError);
  EXPECT_EQ(x.to_vector<double>(), Values({1, 1, 1}));
}

TEST(GraphedBetween, DefaultDtype) {
  GraphedStep step([](const Variable& x) { return sum(x * ones({1})); });
  const DType before = default_dtype();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(ones({3}, {.dtype = f32})).dtype(), f32);
  EXPECT_TRUE(step.is_graphed()) << step.reason();
  set_default_dtype(f64);
  const DType after = step(ones({3}, {.dtype = f32})).dtype();
  set_default_dtype(before);
  EXPECT_EQ(after, f64);
}

/// Plain gradient descent, whose step reads the rate of its group.
struct Descent : optim::Optimizer {
  Descent(std::vector<Variable> params, double rate) : Optimizer(std::move(params), rate) {}
  void step() override {
    const NoGrad no_grad;
    for (auto& group : param_groups())
      for (Variable& p : group.params) p -= group.lr * p.grad();
  }
};

TEST(GraphedBetween, RatesThatTheUsersStepReads) {
  const auto run = [](bool captured) {
    manual_seed(3);
    nn::Linear net(2, 1);
    Descent optimizer(net.parameters(), 0.1);
    const Variable x = ones({8, 2});
    GraphedStep step(
        [&] {
          optimizer.zero_grad();
          const Variable loss = mean(square(net(x)));
          loss.backward();
          optimizer.step();
          return loss;
        },
        {}, {.enabled = captured});
    for (int i = 0; i < 12; ++i) {
      if (i == 7) optimizer.param_groups()[0].lr = 0.01;
      step();
    }
    EXPECT_EQ(step.is_graphed(), captured) << step.reason();
    return net.weight.to_vector<double>();
  };
  EXPECT_EQ(run(true), run(false));
}

// The recordings of whole and of short batches read the same state of the optimizer. The program
// may keep handles to the tensors that are replaced.
TEST(GraphedBetween, AStateThatTwoRecordingsReadIsReplaced) {
  const auto weights = [](bool captured, bool keeps_handles) {
    manual_seed(4);
    nn::Linear net(3, 2);
    optim::Adam adam(net, 0.1);
    GraphedStep step(
        [&](const Variable& x) {
          adam.zero_grad();
          const Variable loss = sum(square(net(x)));
          loss.backward();
          adam.step();
          return loss;
        },
        {}, {.enabled = captured, .warmup = 1});
    Values all;
    TensorMap early;
    std::vector<Tensor> handles;
    for (int i = 0; i < 20; ++i) {
      if (i == 5)
        for (const auto& [name, value] : adam.state_dict()) early[name] = value.clone();
      if (i == 12 && keeps_handles) handles = adam.state();
      if (i == 12) adam.load_state_dict(early);
      step(randn({i % 4 == 3 ? 2 : 5, 3}));
      const Values now = net.weight.to_vector<double>();
      all.insert(all.end(), now.begin(), now.end());
    }
    EXPECT_EQ(step.is_graphed(), captured);
    return all;
  };
  for (const bool keeps_handles : {false, true})
    EXPECT_EQ(weights(true, keeps_handles), weights(false, keeps_handles));
}

TEST(GraphedBetween, ASchedulerThatBeginsToSetAMomentum) {
  const auto weight = [](bool captured) {
    manual_seed(5);
    nn::Linear net(2, 1);
    optim::SGD optimizer(net, 0.1);
    std::optional<optim::CyclicLR> schedule;
    GraphedStep step(
        [&](const Variable& x) {
          optimizer.zero_grad();
          const Variable loss = mean(square(net(x)));
          loss.backward();
          optimizer.step();
          return loss;
        },
        {}, {.enabled = captured});
    for (int i = 0; i < 14; ++i) {
      if (i == 7) schedule.emplace(optimizer, 0.01, 0.1, 2);
      step(randn({4, 2}));
      if (schedule) schedule->step();
    }
    EXPECT_EQ(step.is_graphed(), captured) << step.reason();
    return net.weight.to_vector<double>();
  };
  EXPECT_EQ(weight(true), weight(false));
}

}  // namespace
}  // namespace tapegrad::testing
