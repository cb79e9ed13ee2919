// T79: a step that changes or reads something on the host is not captured, or is captured
// correctly: each call has the result of its function.
#include <atomic>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/make_variable.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {
namespace {

/// A network, its optimizer and a schedule.
struct Program {
  nn::Sequential net = [] {
    manual_seed(1);
    return nn::Sequential{nn::Linear(3, 4), nn::Tanh(), nn::Dropout(0.5), nn::Linear(4, 2)};
  }();
  optim::SGD sgd{net, optim::SGDOptions{.lr = 0.1, .momentum = 0.9}};
  optim::ExponentialLR schedule{sgd, 0.9};
  std::vector<HookHandle> handles;
  int calls = 0;

  Variable step(const Variable& x) {
    sgd.zero_grad();
    const Variable loss = mean(square(net(x)));
    loss.backward();
    sgd.step();
    return loss;
  }
};

/// Calls `fn` 10 times with and without a recording, and compares all results and weights.
void compare(const std::function<Variable(Program&, const Variable&)>& fn) {
  std::vector<std::vector<float>> values[2];
  std::string reason;
  for (const bool captured : {false, true}) {
    Program run;
    GraphedStep step([&](const Variable& x) { return fn(run, x); }, {}, {.enabled = captured});
    manual_seed(7);
    for (int i = 0; i < 10; ++i) {
      RandomGenerator numbers{uint64_t(i)};
      values[captured].push_back(step(randn({5, 3}, {}, numbers)).to_vector<float>());
    }
    for (const Variable& p : run.net.parameters()) values[captured].push_back(p.to_vector<float>());
    reason = step.reason();
  }
  EXPECT_EQ(values[0], values[1]) << reason;
}

TEST(HostileCaptured, T79_ARateThatTheStepSets) {
  compare([](Program& run, const Variable& x) {
    run.sgd.set_lr(run.sgd.lr() * 0.5);
    return run.step(x);
  });
  compare([](Program& run, const Variable& x) {
    run.sgd.set_weight_decay(0, run.sgd.weight_decay(0) + 0.1);
    return run.step(x);
  });
}

TEST(HostileCaptured, T79_AScheduleInTheStep) {
  compare([](Program& run, const Variable& x) {
    const Variable loss = run.step(x);
    run.schedule.step();
    return loss;
  });
}

TEST(HostileCaptured, T79_ASeedThatTheStepSets) {
  compare([](Program& run, const Variable& x) {
    manual_seed(3);  // before the first draw of the step
    return run.step(x);
  });
  compare([](Program& run, const Variable& x) {
    const RandomState state = default_generator().state();
    const Variable loss = run.step(x);
    default_generator().set_state(state);  // behind the last draw
    return loss;
  });
}

TEST(HostileCaptured, T79_HooksThatTheStepRegisters) {
  compare([](Program& run, const Variable& x) {
    run.net.parameters()[0].register_hook([](const Variable& g) { return g * 0.5; });
    return run.step(x);
  });
  compare([](Program& run, const Variable& x) {
    run.net.parameters()[0].register_post_accumulate_grad_hook(
        [](const Variable& gradient) { Variable(gradient).mul_(0.5); });
    return run.step(x);
  });
  compare([](Program& run, const Variable& x) {
    run.net[0].register_forward_hook(
        [](nn::Module&, std::span<const Variable>, std::span<Variable> results) {
          results[0] = results[0] * 0.5;
        });
    return run.step(x);
  });
}

TEST(HostileCaptured, T79_AConditionOfTheStep) {
  GraphedStep step([](const Variable& x) { return sum(x) > 0.5 ? x * 2.0 : x; });
  const auto run = [&] {
    for (int i = 0; i < 5; ++i) step(full({2}, 1.0));
  };
  expect_error<AutogradError>(run, {"captured", "where("});
}

TEST(HostileCaptured, T79_ValuesReadThroughPointers) {
  compare(
      [](Program& run, const Variable& x) { return run.step(x) * double(x.data_ptr<float>()[0]); });
  compare([](Program& run, const Variable& x) {
    const auto values = x.accessor<float, 2>();
    return run.step(x) * double(values[0][0]);
  });
}

TEST(HostileCaptured, T79_NumbersOfTheHostThatChange) {
  const std::function<Variable(const Variable&, int)> uses[] = {
      [](const Variable& y, int call) { return y * double(call); },
      [](const Variable& y, int call) { return clamp(y, {.max = 0.1 * call}); },
      [](const Variable& y, int call) { return leaky_relu(y, 0.1 * call); },
      [](const Variable& y, int call) { return pow(abs(y), 1.0 + call); },
      [](const Variable& y, int call) { return dropout(y, 0.05 * call); },
      [](const Variable& y, int call) { return y + full({2}, call); },
      [](const Variable& y, int call) {
        return y * tensor({double(call), 1.0});
      },
      [](const Variable& y, int call) {
        return y * tensor(std::vector<float>{1, float(call)});
      },
      [](const Variable& y, int call) {
        return y + tensor({{call, 1}, {2, 3}}).sum();
      },
      [](const Variable& y, int call) { return narrow(y, 0, call % 4, 2); },
      [](const Variable& y, int call) { return narrow(y, 0, 0, 1 + call % 4); },
      [](const Variable& y, int call) { return y[call % 5] * 2.0; },
      [](const Variable& y, int call) { return call % 2 == 0 ? y * 2.0 : y + 2.0; },
      [](const Variable& y, int call) {
        Variable z = y;
        for (int i = 0; i < call; ++i) z = tanh(z);
        return z;
      },
      [](const Variable& y, int call) {
        return cross_entropy(y, zeros({5}, {.dtype = i64}), {.label_smoothing = 0.05 * call});
      },
  };
  for (const auto& use : uses)
    compare([&](Program& run, const Variable& x) {
      run.sgd.zero_grad();
      const Variable loss = mean(square(use(run.net(x), ++run.calls)));
      loss.backward();
      run.sgd.step();
      return loss;
    });
}

TEST(HostileCaptured, T79_BatchesThatTheStepTakesItself) {
  std::vector<Variable> batches;
  for (int i = 0; i < 20; ++i) batches.push_back(full({5, 3}, 0.1 * i));
  compare([&](Program& run, const Variable&) { return run.step(batches[size_t(run.calls++)]); });
  const Variable all = stack(batches, 0);
  compare([&](Program& run, const Variable&) { return run.step(select(all, 0, run.calls++)); });
  std::vector<float> memory(15);
  compare([&](Program& run, const Variable&) {
    memory[3] = float(++run.calls);
    return run.step(from_blob(memory.data(), {5, 3}));
  });
}

/// Adam by hand: the correction of the bias is a number of the host.
TEST(HostileCaptured, T79_AnOptimizerWrittenInTheStep) {
  compare([](Program& run, const Variable& x) {
    run.net.zero_grad();
    const Variable loss = mean(square(run.net(x)));
    loss.backward();
    const NoGrad no_grad;
    const double correction = 1 - std::pow(0.9, ++run.calls);
    for (Variable& p : run.net.parameters()) add_(p, p.grad() * (-0.1 / correction));
    return loss;
  });
}

TEST(HostileCaptured, T79_NumbersOfTheHostThatStay) {
  Variable total = zeros({2});
  GraphedStep step([&](const Variable& x) {
    Variable weights = tensor({1.0, 2.0});  // a new tensor in each call, which the step overwrites
    weights += x;
    weights[1] = 5.0;
    return weights * tensor({{0.5}, {2.0}}) + tensor(std::vector<bool>{true, false});
  });
  for (int call = 0; call < 8; ++call)
    EXPECT_EQ(step(full({2}, double(call))).to_vector<float>(),
              (std::vector<float>{1.5f + 0.5f * float(call), 2.5f, 3.0f + 2.0f * float(call), 10}));
  EXPECT_TRUE(step.is_graphed()) << step.reason();
}

TEST(HostileCaptured, T79_TheNormOfClippedGradients) {
  const auto step = [](Program& run, const Variable& x, const auto& use) {
    run.sgd.zero_grad();
    const Variable loss = mean(square(run.net(x)));
    loss.backward();
    const Variable result = use(loss, optim::clip_grad_norm_(run.net, 0.1));
    run.sgd.step();
    return result;
  };
  using Norm = optim::GradientNorm;
  compare([&](Program& run, const Variable& x) {
    return step(run, x, [](const Variable& loss, const Norm& norm) { return loss * norm.item(); });
  });
  compare([&](Program& run, const Variable& x) {
    return step(run, x,
                [](const Variable& loss, const Norm& norm) { return loss * Variable(norm); });
  });
}

TEST(HostileCaptured, T79_OneStepCalledByManyThreads) {
  GraphedStep step([](const Variable& x) { return x * 2.0; });
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k)
        if (step(full({2}, i)).to_vector<float>()[1] != float(2 * i)) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tapegrad::testing
