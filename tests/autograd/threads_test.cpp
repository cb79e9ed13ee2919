// Guarantees to threads. Also run under ThreadSanitizer (docs/robustness.md).
#include <atomic>
#include <barrier>
#include <cmath>
#include <functional>
#include <thread>

#include "core/autograd/anomaly.h"
#include "core/autograd/checkpoint.h"
#include "core/autograd/derivatives.h"
#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

constexpr int kThreads = 8;

/// Runs action(i) on eight threads that start together.
void on_threads(const std::function<void(int)>& action) {
  std::barrier start(kThreads);
  std::vector<std::thread> crew;
  for (int i = 0; i < kThreads; ++i)
    crew.emplace_back([&, i] {
      start.arrive_and_wait();
      action(i);
    });
  for (std::thread& worker : crew) worker.join();
}

nn::Sequential some_model() {
  return nn::Sequential({nn::Linear({.in_features = 6, .out_features = 16}),
                         nn::BatchNorm1d({.num_features = 16}), nn::ReLU(),
                         nn::Linear({.in_features = 16, .out_features = 3})});
}

// T47: concurrent backward passes into shared leaves lose no update. Small integers make the sums
// exact.
TEST(Threads, T47_BackwardIntoSharedLeaves) {
  const Variable w = leaf({1, 2, 3}), u = leaf({4, 5, 6});
  constexpr int kRounds = 100;
  on_threads([&](int) {
    for (int k = 0; k < kRounds; ++k) sum(w * u + w).backward();
  });
  const double n = kThreads * kRounds;
  EXPECT_EQ(values(w.grad()), (Values{n * 5, n * 6, n * 7}));
  EXPECT_EQ(values(u.grad()), (Values{n * 1, n * 2, n * 3}));
}

// T47: all threads train one module at once, each with its own graph.
TEST(Threads, T47_OneModulesGraphsOnManyThreads) {
  nn::Linear layer({.in_features = 4, .out_features = 2});
  const Variable x = ones({3, 4});
  on_threads([&](int) {
    for (int k = 0; k < 20; ++k) sum(layer(x)).backward();
  });
  for (const float d : layer.weight.grad().to_vector<float>()) EXPECT_EQ(d, 3 * 20 * kThreads);
}

// T47: two passes through one node at once: each either runs or throws, and no sum is wrong.
TEST(Threads, T47_TwoPassesThroughOneGraph) {
  const Variable x = leaf({2}), inner = exp(x), y = inner * inner;
  std::atomic<int> done{0}, refused{0};
  on_threads([&](int) {
    for (int k = 0; k < 50; ++k) try {
        y.backward({.retain_graph = true});
        ++done;
      } catch (const AutogradError&) {
        ++refused;
      }
  });
  EXPECT_EQ(done + refused, 50 * kThreads);
  EXPECT_GT(done, 0);
  EXPECT_NEAR(x.grad().item() / done, 2 * std::exp(4.0), 1e-9 * std::exp(4.0));
}

// T48: inference on one module is bit-identical to a single thread.
TEST(Threads, T48_InferenceOnOneModule) {
  nn::Sequential model = some_model();
  model.eval();
  const Variable x = randn({5, 6});
  const auto serial = model(x).to_vector<float>();
  nn::Sequential fresh = model.clone();  // the threads' first calls name its parts
  std::atomic<int> wrong{0};
  on_threads([&](int i) {
    for (int k = 0; k < 30; ++k) {
      if (i % 2 == 0) {
        const NoGrad off;
        wrong += fresh(x).to_vector<float>() != serial;
      } else {
        const InferenceMode mode;
        wrong += fresh(x).to_vector<float>() != serial;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

// T48: a layer that is part of two models, which name it alternately.
TEST(Threads, T48_APartOfTwoModels) {
  nn::Linear shared({.in_features = 4, .out_features = 4});
  nn::Sequential a({shared, nn::ReLU()}), b({nn::ReLU(), shared});
  const Variable x = ones({1, 4}), wrong = ones({1, 3});
  std::atomic<int> unnamed{0};
  on_threads([&](int i) {
    nn::Sequential& mine = i % 2 == 0 ? a : b;
    for (int k = 0; k < 30; ++k) {
      mine(x);
      try {
        mine(wrong);
      } catch (const ShapeError& error) {
        unnamed += std::string(error.what()).find(", in Sequential.") == std::string::npos;
      }
    }
  });
  EXPECT_EQ(unnamed, 0);
}

// T48: modes are per thread, also when an exception is thrown.
TEST(Threads, T48_ModesAreThreadLocal) {
  const Variable w = leaf({1, 2});
  std::atomic<int> wrong{0};
  on_threads([&](int i) {
    for (int k = 0; k < 50; ++k) {
      try {
        if (i % 3 == 0) {
          const NoGrad off;
          wrong += is_recording() || (w * w).requires_grad();
          add(w, make({1, 2, 3}));
        } else if (i % 3 == 1) {
          const InferenceMode mode;
          wrong += !is_inference_mode() || (w * w).requires_grad();
          add(w, make({1, 2, 3}));
        } else {
          const AnomalyMode anomaly;
          log(w - w);
        }
        ++wrong;
      } catch (const Error&) {
      }
      wrong += !is_recording() || is_inference_mode() || !(w * w).requires_grad();
      log(w.detach() - w.detach());  // anomaly mode is off on this thread
    }
  });
  EXPECT_EQ(wrong, 0);
}

// T49: errors of the engine on all threads at once leave the shared leaf unchanged.
TEST(Threads, T49_Errors) {
  const Variable x = leaf({1, 2}), z = leaf({3});
  std::atomic<int> caught{0};
  on_threads([&](int) {
    const auto expect = [&](auto action) {
      try {
        action();
      } catch (const AutogradError&) {
        ++caught;
      }
    };
    const Variable y = sum(exp(x));
    grad(y, x);
    expect([&] { grad(y, x); });                           // freed
    expect([&] { exp(x).backward(); });                    // no seed
    expect([&] { exp(x).backward(make({1, 1, 1})); });     // a seed of another shape
    expect([&] { grad(sum(x), z); });                      // unused
    expect([&] { make<int64_t>({1}).requires_grad_(); });  // an integer
  });
  EXPECT_EQ(caught, 5 * kThreads);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Threads, CheckpointsDrawTheirOwnNumbersAgain) {
  std::atomic<int> wrong{0};
  on_threads([&](int) {
    for (int k = 0; k < 20; ++k) {
      const Variable x = make(Values(64, 1.0)).requires_grad_();
      const Variable y = checkpoint([](const Variable& x) { return dropout(exp(x), 0.5); }, x);
      const Values gradient = values(grad(sum(y), x)), value = values(y);
      for (size_t i = 0; i < value.size(); ++i)
        wrong += std::abs(gradient[i] - value[i]) > 1e-12;  // d exp = exp, with the same mask
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, TwoLossesOfOneCheckpoint) {
  for (int round = 0; round < 10; ++round) {
    const Variable a = leaf({2}), b = leaf({3});
    const auto ys = checkpoint(
        [](const Variable& a, const Variable& b) {
          return std::vector<Variable>{exp(a), exp(b)};
        },
        a, b);
    std::thread other([&] { ys[1].backward(); });
    ys[0].backward();
    other.join();
    EXPECT_NEAR(a.grad().item(), std::exp(2.0), 1e-12);
    EXPECT_NEAR(b.grad().item(), std::exp(3.0), 1e-12);
  }
}

TEST(Threads, HessiansSideBySide) {
  const Variable x = make({0.5, 1.5});
  const auto cubes = [](const Variable& x) { return sum(x * x * x); };
  const Values serial = values(hessian(cubes, x));
  std::atomic<int> wrong{0};
  on_threads([&](int) {
    for (int k = 0; k < 10; ++k) wrong += values(hessian(cubes, x)) != serial;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tapegrad::testing
