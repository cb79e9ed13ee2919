// T79: a captured step does what its function would do, also when settings change between calls.
#include <memory>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/image.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "train/classification_metrics.h"
#include "train/graphed_step.h"
#include "train/weight_average.h"

namespace tapegrad::testing {
namespace {

nn::Sequential network() {
  manual_seed(1);
  return nn::Sequential{nn::Linear(3, 4), nn::Tanh(), nn::Dropout(0.5), nn::Linear(4, 2)};
}

/// A network and its optimizer.
struct Trainer {
  nn::Sequential net = network();
  optim::SGD sgd{net, optim::SGDOptions{.lr = 0.1, .momentum = 0.9}};

  Variable step(const Variable& x) {
    sgd.zero_grad();
    const Variable loss = mean(square(net(x)));
    if (loss.requires_grad()) loss.backward();
    sgd.step();
    return loss;
  }
};

/// Makes steps by a GraphedStep and by its function, and calls change(run, i) before step i of
/// both. All values must have equal bits.
void compare(const std::function<void(Trainer&, int)>& change) {
  Trainer captured, plain;
  GraphedStep step([&](const Variable& x) { return captured.step(x); });
  int replays = 0;
  for (int i = 0; i < 16; ++i) {
    change(captured, i);
    change(plain, i);
    RandomGenerator numbers{uint64_t(i)};
    const Variable x = randn({5, 3}, {}, numbers);
    const RandomState state = default_generator().state();
    const Variable got = step(x);
    replays += step.is_graphed();
    default_generator().set_state(state);
    EXPECT_EQ(got.item(), plain.step(x).item()) << "step " << i << ' ' << step.reason();
    const auto a = captured.net.parameters(), b = plain.net.parameters();
    for (size_t k = 0; k < a.size(); ++k)
      ASSERT_EQ(a[k].to_vector<float>(), b[k].to_vector<float>()) << "step " << i;
  }
  EXPECT_GT(replays, 4);
}

TEST(HostileCaptured, T79_LayersThatAreFrozenAndThawed) {
  compare([](Trainer& run, int i) {
    if (i == 6) run.net[0].requires_grad_(false);
    if (i == 11) run.net[0].requires_grad_(true);
  });
}

TEST(HostileCaptured, T79_ModesOfModules) {
  compare([](Trainer& run, int i) {
    if (i == 6) run.net.eval();
    if (i == 11) run.net.train();
  });
}

TEST(HostileCaptured, T79_HooksOfLeaves) {
  HookHandle handles[2];
  int next = 0;
  compare([&](Trainer& run, int i) {
    HookHandle& handle = handles[next ^= 1];
    if (i == 6)
      handle = run.net.parameters()[0].register_hook([](const Variable& g) { return g * 2.0; });
    if (i == 11) handle.remove();
  });
}

TEST(HostileCaptured, T79_ASecondHookOfALeaf) {
  HookHandle handles[2];
  int next = 0;
  const auto twice = [](const Variable& g) { return g * 2.0; };
  compare([&](Trainer& run, int i) {
    HookHandle& handle = handles[next ^= 1];
    if (i == 0) run.net.parameters()[0].register_hook(twice);
    if (i == 6) handle = run.net.parameters()[0].register_hook(twice);
    if (i == 11) handle.remove();
  });
}

TEST(HostileCaptured, T79_HooksOfModules) {
  HookHandle handles[2][3];
  int next = 0;
  compare([&](Trainer& run, int i) {
    auto& [after, before, backward] = handles[next ^= 1];
    if (i == 6)
      after = run.net[3].register_forward_hook(
          [](nn::Module&, std::span<const Variable>, std::span<Variable> y) { y[0] = y[0] * 2.0; });
    if (i == 9)
      before = run.net[1].register_forward_pre_hook(
          [](nn::Module&, std::span<Variable> x) { x[0] = x[0] * 0.5; });
    if (i == 12) {
      backward = run.net.register_full_backward_hook(
          [](nn::Module&, std::span<Variable>, std::span<const Variable>) {});
      after.remove();
    }
    if (i == 14) before.remove();
  });
}

TEST(HostileCaptured, T79_AnotherWeightIsAssigned) {
  compare([](Trainer& run, int i) {
    auto& last = dynamic_cast<nn::Linear&>(run.net[3]);
    // The optimizer keeps the weight that it has.
    if (i == 6) last.weight = full({2, 4}, 0.25).requires_grad_();
    if (i == 11) {
      manual_seed(7);
      last = nn::Linear(4, 2);
    }
  });

  nn::Linear net(3, 2);
  const Variable kept = net.weight;
  GraphedStep predict([&](const Variable& x) {
    const NoGrad no_grad;
    return net(x);
  });
  const Variable x = ones({4, 3});
  for (int i = 0; i < 6; ++i) predict(x);
  EXPECT_TRUE(predict.is_graphed());
  net.weight = zeros({2, 3});
  net.bias = full({2}, 3.0);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sum(predict(x)).item(), 24) << i;
  EXPECT_TRUE(predict.is_graphed());
}

TEST(HostileCaptured, T79_LayersThatAreReplaced) {
  compare([](Trainer& run, int i) {
    if (i == 6) dynamic_cast<nn::Dropout&>(run.net[2]) = nn::Dropout(0.9);
    if (i == 11) dynamic_cast<nn::Dropout&>(run.net[2]) = nn::Dropout(0.1);
  });
  nn::LeakyReLU act(0.5);
  GraphedStep step([&](const Variable& x) { return act(x); });
  for (int i = 0; i < 12; ++i) {
    if (i == 6) act = nn::LeakyReLU(0.25);
    EXPECT_EQ(step(full({2}, -4.0)).to_vector<float>()[0], i < 6 ? -2 : -1) << i;
  }
}

TEST(HostileCaptured, T79_LayersThatMove) {
  std::vector<nn::Linear> layers;
  layers.emplace_back(3, 3);
  GraphedStep predict([&](const Variable& x) {
    const NoGrad no_grad;
    Variable y = x;
    for (const nn::Linear& layer : layers) y = layer(y);
    return y;
  });
  const Variable x = ones({4, 3});
  for (int i = 0; i < 6; ++i) predict(x);
  for (int i = 0; i < 3; ++i) layers.emplace_back(3, 3);
  layers[3].weight = zeros({3, 3});
  layers[3].bias = ones({3});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sum(predict(x)).item(), 12) << i;
}

TEST(HostileCaptured, T79_ModesOfTheThread) {
  nn::Linear net(3, 2);
  GraphedStep step([&](const Variable& x) {
    const Variable loss = mean(square(net(x)));
    if (loss.requires_grad()) loss.backward();
    return net(x);
  });
  const Variable x = randn({4, 3});
  for (int i = 0; i < 6; ++i) step(x);
  net.zero_grad();
  {
    const NoGrad no_grad;
    for (int i = 0; i < 6; ++i) step(x);
  }
  EXPECT_FALSE(net.weight.grad().defined());
  for (int i = 0; i < 6; ++i) {
    const Autocast amp(bf16);
    EXPECT_EQ(step(x).dtype(), bf16);
  }
  EXPECT_EQ(step(x).dtype(), f32);
  EXPECT_TRUE(step.is_graphed());
}

TEST(HostileCaptured, T79_AStepInAStep) {
  GraphedStep inner([](const Variable& x) { return sum(x * 2.0); });
  GraphedStep outer([&](const Variable& x) { return inner(x) + 1.0; }, {}, {.warmup = 4});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(outer(full({2}, double(i))).item(), 4 * i + 1);

  int depth = 0;
  std::unique_ptr<GraphedStep> own;
  own = std::make_unique<GraphedStep>(
      [&](const Variable& x) { return ++depth % 2 == 1 ? (*own)(x)*2.0 : x + 1.0; });
  for (int i = 0; i < 8; ++i) EXPECT_EQ((*own)(full({}, double(i))).item(), 2 * (i + 1));
}

TEST(HostileCaptured, T79_AStepThatWasMovedFrom) {
  GraphedStep step([](const Variable& x) { return x * 2.0; });
  const GraphedStep other = std::move(step);
  EXPECT_THROW(step(ones({2})), ArgumentError);
  EXPECT_THROW(step.reason(), ArgumentError);
}

// The caller's tensor is written, as without a recording, and the step is not recorded.
TEST(HostileCaptured, T79_AnInputThatTheStepOverwrites) {
  GraphedStep step([](const Variable& x) {
    Variable y = x;
    y *= 2.0;
    return sum(y);
  });
  const Variable x = ones({2});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(step(x).item(), double(4 << i)) << "call " << i;
  EXPECT_FALSE(step.is_graphed());
}

// Writes through data_ptr(), and writes to memory of the caller, do not count as writes.
TEST(HostileCaptured, T79_InputsThatAreWrittenThroughPointers) {
  GraphedStep step([](const Variable& x) { return sum(x * 2.0); });
  std::vector<float> memory(3);
  const Variable own = ones({3}), wrapped = from_blob(memory.data(), {3});
  for (const Variable& x : {own, wrapped})
    for (int i = 0; i < 8; ++i) {
      x.data_ptr<float>()[1] = float(i);
      x.data_ptr<float>()[0] = x.data_ptr<float>()[2] = 1;
      EXPECT_EQ(step(x).item(), 4 + 2 * i) << step.reason();
    }
  EXPECT_TRUE(step.is_graphed());
}

TEST(HostileCaptured, T79_ParametersThatAreAddedToTheOptimizer) {
  const auto weights = [](bool enabled) {
    const nn::Sequential net = network();
    const std::vector<Variable> all = net.parameters();
    optim::SGD sgd({all[0], all[1]}, {.lr = 0.1});
    GraphedStep step(
        [&](const Variable& x) {
          net.zero_grad();
          mean(square(net(x))).backward();
          sgd.step();
        },
        {}, {.enabled = enabled});
    for (int i = 0; i < 12; ++i) {
      if (i == 7) sgd.add_param_group({.params = {all[2], all[3]}, .lr = 0.5});
      RandomGenerator numbers{uint64_t(i)};
      step(randn({5, 3}, {}, numbers));
    }
    EXPECT_EQ(step.is_graphed(), enabled) << step.reason();
    return all[2].to_vector<float>();
  };
  EXPECT_EQ(weights(true), weights(false));
}

TEST(HostileCaptured, T79_AnotherMomentumOfStatistics) {
  const auto means = [](bool enabled) {
    nn::BatchNorm1d norm(3);
    GraphedStep step([&](const Variable& x) { return sum(norm(x)); }, {}, {.enabled = enabled});
    for (int i = 0; i < 12; ++i) {
      if (i == 7) norm.set_momentum(0.5);
      RandomGenerator numbers{uint64_t(i)};
      step(randn({5, 3}, {}, numbers));
    }
    EXPECT_EQ(step.is_graphed(), enabled) << step.reason();
    return norm.running_mean.to_vector<float>();
  };
  EXPECT_EQ(means(true), means(false));
}

TEST(HostileCaptured, T79_AveragesAndMetricsOfTheStep) {
  const auto averages = [](bool enabled) {
    Trainer trainer;
    Swa average(trainer.net, {.start = 2});
    RocAuc auc;
    GraphedStep step(
        [&](const Variable& x) {
          trainer.step(x);
          average.update();
          auc.add(mean(x, 1), gt(x.select(1, 0), 0.0));
        },
        {}, {.enabled = enabled});
    for (int i = 0; i < 8; ++i) {
      RandomGenerator numbers{uint64_t(i)};
      step(randn({5, 3}, {}, numbers));
    }
    EXPECT_FALSE(step.is_graphed());
    EXPECT_EQ(average.updates(), 8);
    return std::pair(average.state_dict().begin()->second.item(), auc.value());
  };
  EXPECT_EQ(averages(true), averages(false));
}

TEST(HostileCaptured, T79_DropoutOfAttentionWeights) {
  const auto losses = [](bool enabled) {
    manual_seed(3);
    GraphedStep step(
        [](const Variable& x) {
          const AttentionOptions options{.dropout_p = 0.5};
          return sum(square(scaled_dot_product_attention(x, x, x, options)));
        },
        {}, {.enabled = enabled});
    std::vector<double> values;
    for (int i = 0; i < 8; ++i) {
      RandomGenerator numbers{uint64_t(i)};
      values.push_back(step(randn({2, 3, 4}, {}, numbers)).item());
    }
    EXPECT_EQ(step.is_graphed(), enabled) << step.reason();
    return values;
  };
  EXPECT_EQ(losses(true), losses(false));
}

}  // namespace
}  // namespace tapegrad::testing
