// T74: concurrent, nested and forked use of the library: no endless wait, no lost update, errors of
// the library's types.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <set>
#include <thread>

#include "core/autograd/checkpoint.h"
#include "core/base/internal/sanitizer.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "data/item_loader.h"
#include "data/loader.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

template <typename Make>
void infer_on_eight_threads(const Make& make, const Variable& x) {
  for (int round = 0; round < 20; ++round) {
    auto layer = make();
    std::atomic<int> ready{0};
    std::vector<Variable> results(8);
    std::vector<std::thread> threads;
    for (Variable& y : results)
      threads.emplace_back([&] {
        ++ready;
        while (ready < 8) std::this_thread::yield();
        y = layer(x);
      });
    for (std::thread& thread : threads) thread.join();
    const Values want = values(layer(x));
    for (const Variable& y : results) EXPECT_EQ(values(y), want);
  }
}

TEST(HostileThreads, T74_SizesAreInferredOnce) {
  const Variable rows = randn({4, 6}), images = randn({2, 3, 5, 5});
  infer_on_eight_threads([] { return nn::Linear({.out_features = 5}); }, rows);
  infer_on_eight_threads([] { return nn::Conv2d({.out_channels = 4, .kernel_size = 3}); }, images);
  infer_on_eight_threads([] { return nn::ConvTranspose2d({.out_channels = 4, .kernel_size = 3}); },
                         images);
  infer_on_eight_threads(
      [] {
        nn::BatchNorm2d layer;
        layer.eval();
        return layer;
      },
      images);
}

DataLoader counting_loader(int workers) {
  return DataLoader(TensorDataset(arange(10), Variable()),
                    {.batch_size = 2, .num_workers = workers});
}

TEST(HostileThreads, T74_ALoopInsideOfALoopOverOneLoader) {
  for (const int workers : {0, 2}) {
    DataLoader loader = counting_loader(workers);
    int outer = 0;
    std::multiset<double> inner;
    for (auto& [x, unused] : loader) {
      outer += int(x.numel());
      if (outer == 2 || outer == 4)
        for (auto& [y, also_unused] : loader)
          for (const double value : y.to_vector<double>()) inner.insert(value);
    }
    EXPECT_EQ(outer, 10);
    EXPECT_EQ(inner.size(), 20u);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::set<double> seen;
      for (auto& [x, unused] : loader)
        for (const double value : x.to_vector<double>()) seen.insert(value);
      EXPECT_EQ(seen.size(), 10u);
    }
  }
}

TEST(HostileThreads, T74_ALoopThatWasLeftDoesNotMoveTheNextOne) {
  DataLoader loader = counting_loader(0);
  auto left = loader.begin();
  auto next = loader.begin();
  ++left, ++left;
  EXPECT_EQ(loader.state(), (LoaderState{1, 1}));
  ++next;
  EXPECT_EQ(loader.state(), (LoaderState{1, 2}));
}

/// f(x) = x * d(sum x^3)/dx = 3 x^3, with the inner gradient taken inside.
Variable inner_gradient(const Variable& x) {
  const Variable y = sum(x * x * x);
  return x * grad(y, x, {.create_graph = true});
}

TEST(HostileThreads, T74_ACheckpointThatTakesAGradient) {
  const Variable x = leaf({1, 2, 3});
  const Variable y = checkpoint(inner_gradient, x);
  EXPECT_EQ(values(y), (Values{3, 24, 81}));
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Values{9, 36, 81}));
  // twice, and differentiated twice
  const Variable z = leaf({1, 2});
  const auto twice = [](const Variable& x) { return inner_gradient(x) + inner_gradient(x * 2); };
  const Variable dz = grad(sum(checkpoint(twice, z)), z, {.create_graph = true});
  EXPECT_EQ(values(dz), (Values{81, 324}));  // 27 x^3, so 81 x^2
  EXPECT_EQ(values(grad(sum(dz), z)), (Values{162, 324}));
}

TEST(HostileThreads, T74_ACheckpointThatRunsABackwardPass) {
  const Variable x = leaf({1, 2, 3}), w = leaf({2, 2, 2});
  const auto f = [&](const Variable& x) {
    sum(w * w * x.detach()).backward();
    return exp(x) * w;
  };
  const Variable y = checkpoint(f, x);
  EXPECT_EQ(values(w.grad()), (Values{4, 8, 12}));
  w.zero_grad();
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), values(exp(x) * 2));
  EXPECT_EQ(values(w.grad()), values(exp(x)));  // the function's own was added before
}

TEST(HostileThreads, T74_NestedCheckpointsThatTakeGradients) {
  const Variable x = leaf({1, 2});
  const auto outer = [](const Variable& x) { return exp(checkpoint(inner_gradient, x)); };
  const Variable y = checkpoint(outer, x);
  sum(y).backward();
  const Variable plain = leaf({1, 2});
  sum(exp(inner_gradient(plain))).backward();
  EXPECT_EQ(values(x.grad()), values(plain.grad()));
}

#if !defined(__SANITIZE_THREAD__)
TEST(HostileThreads, T74_AChildProcessComputes) {
  const Variable a = randn({200, 200}), b = randn({300'000});
  const double product = sum(matmul(a, a)).item(), total = sum(exp(b)).item();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // else a wait without end
    const bool same = sum(exp(b)).item() == total &&
                      std::abs(sum(matmul(a, a)).item() - product) <= 1e-3 * std::abs(product) + 1;
    _exit(same ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(sum(exp(b)).item(), total);
}

/// The child of a fork() has none of its parent's threads.
TEST(HostileThreads, T74_AChildProcessLeavesTheLoopsOfItsParent) {
  const TensorDataset data(ones({8192, 1}), zeros({8192}, i64));
  DataLoader loader(data, {.batch_size = 2, .num_workers = 3});
  ItemLoader items(std::vector<Variable>(64, ones({2})), {.batch_size = 2, .num_workers = 2});
  DeviceLoader device(data, {.batch_size = 2, .shuffle = true});
  auto loop = std::make_unique<Loader::Iterator>(loader.begin());
  auto of_items = std::make_unique<decltype(items)::Iterator>(items.begin());
  device.begin();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // else a wait without end
    bool refused = false;
    try {
      ++*loop;
    } catch (const ArgumentError&) {
      refused = true;
    }
    loop.reset();
    of_items.reset();
    int64_t count = 0;
    for (auto& [x, y] : loader) count += x.size(0);
    for (auto& [x, y] : device) count += x.size(0);
    DeviceLoader(std::move(device));
    _exit(refused && count == 2 * 8192 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  int64_t batches = 1;
  for (++*loop; *loop != loader.end(); ++*loop) ++batches;
  EXPECT_EQ(batches, loader.size());
}
#endif

/// An op that throws an exception of the standard library.
struct Throws {
  static constexpr std::string_view kName = "throws";
  static constexpr bool kDifferentiable = false;
  int what;
  Tensor forward(const Tensor& x) const {
    if (what == 0) throw std::bad_alloc();
    if (what == 1)
      std::vector<double>().reserve(std::vector<double>().max_size() + size_t(x.numel()));
    return x.clone();
  }
};

TEST(HostileThreads, T76_OpsThrowErrorsOfTheLibrary) {
  expect_error<OutOfMemory>([&] { apply(Throws{0}, Where::current(), make({1})); },
                            {"throws", "threads_test.cpp"});
  expect_error<ArgumentError>([&] { apply(Throws{1}, Where::current(), make({1})); }, {"throws"});
}

TEST(HostileThreads, T76_WorkersWithoutEnd) {
  const TensorDataset data(arange(100'000), Variable());
  for (const int workers : {-1, 1025, 1'000'000'000, INT32_MAX})
    EXPECT_THROW(DataLoader(data, {.num_workers = workers}), ArgumentError) << workers;
  for (const int factor : {-1, 0, 65537, INT32_MAX})
    EXPECT_THROW(DataLoader(data, {.num_workers = 1, .prefetch_factor = factor}), ArgumentError);
  for (const int64_t size : {int64_t(0), int64_t(-1), INT64_MIN})
    EXPECT_THROW(DataLoader(data, {.batch_size = size}), ArgumentError);
  DataLoader loader(data, {.batch_size = INT64_MAX, .num_workers = 2, .prefetch_factor = 65536});
  int64_t count = 0;
  for (auto& [x, unused] : loader) count += x.numel();
  EXPECT_EQ(count, 100'000);
}

}  // namespace
}  // namespace tapegrad::testing
