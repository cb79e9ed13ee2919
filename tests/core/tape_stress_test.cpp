// Limits of the tape: depth, width, threads.
#include <pthread.h>

#include <cmath>
#include <functional>
#include <thread>

#include "core/base/allocator.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

void run_with_stack(size_t bytes, std::function<void()> action) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread;
  const auto start = [](void* action) -> void* {
    (*static_cast<std::function<void()>*>(action))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, &action), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

void chain_of_a_million() {
  constexpr int kLength = 1000000;
  const int64_t live = TapeNode::live();
  {
    const Variable a = leaf<float>({1});
    Variable y = a;
    for (int i = 0; i < kLength; ++i) y = y + a;
    EXPECT_EQ(TapeNode::live(), live + kLength + 1);
    y.backward();
    EXPECT_EQ(a.grad().item(), kLength + 1);
  }
  EXPECT_EQ(TapeNode::live(), live);
}

TEST(Stress, T50_ChainOfAMillion) { chain_of_a_million(); }

TEST(Stress, T50_ChainOfAMillionOnASmallStack) { run_with_stack(256 * 1024, chain_of_a_million); }

TEST(Stress, T50_FanOut) {
  const Variable a = leaf({1});
  std::vector<Variable> fan;
  for (int i = 0; i < 100000; ++i) fan.push_back(a * 1.0);
  sum(cat(fan)).backward();
  EXPECT_EQ(a.grad().item(), 100000);
}

TEST(Stress, T50_ADiamondIsWalkedOnce) {
  const Variable a = leaf({1});
  Variable y = a;
  for (int i = 0; i < 60; ++i) y = (y + y) * 0.5;  // 2^60 paths
  y.backward();
  EXPECT_EQ(a.grad().item(), 1);
}

TEST(Stress, ThreadsAddToOneLeaf) {
  const Variable w = leaf({1, 2});
  std::vector<std::thread> crew;
  for (int i = 0; i < 8; ++i)
    crew.emplace_back([&] {
      for (int k = 0; k < 200; ++k) sum(w * 3.0 + w).backward();
    });
  for (std::thread& worker : crew) worker.join();
  EXPECT_EQ(values(w.grad()), (Values{6400, 6400}));
}

TEST(Stress, T48_ThreadsRunOneModelAsOneDoes) {
  const Variable w = leaf({0.1, -0.2, 0.3});
  const Variable x = make({1.5, 2.5, -3.5});
  const auto model = [&] { return values(exp(w * x) + tanh(x)); };
  const Values expected = model();
  std::vector<std::thread> crew;
  std::vector<int> wrong(8);
  for (int i = 0; i < 8; ++i)
    crew.emplace_back([&, i] {
      const NoGrad off;
      for (int k = 0; k < 200; ++k) wrong[size_t(i)] += model() != expected || is_recording();
    });
  for (std::thread& worker : crew) worker.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

TEST(Stress, T52_RunningOutOfMemoryAnywhereChangesNothing) {
  const int64_t n = 1 << 16;  // half a megabyte
  const Variable w = make(Values(size_t(n), 0.5)).requires_grad_();
  const auto step = [&] { sum(exp(w * w) * tanh(w)).backward(); };
  step();
  const Values before = values(w.grad());
  empty_cache();
  const int64_t held = memory_stats().in_use, live = TapeNode::live();
  int failed = 0;
  for (int64_t room = 0;; room += n * 4) {
    set_memory_limit(held + room);
    try {
      step();
      break;
    } catch (const OutOfMemory& error) {
      ++failed;
      EXPECT_NE(std::string(error.what()).find("bytes wanted"), std::string::npos);
    }
    set_memory_limit(-1);
    ASSERT_EQ(values(w.grad()), before);
    empty_cache();
    ASSERT_EQ(memory_stats().in_use, held);
    ASSERT_EQ(TapeNode::live(), live);
  }
  set_memory_limit(-1);
  EXPECT_GT(failed, 5) << "in forward and in backward";
  EXPECT_EQ(values(w.grad())[0], 2 * before[0]);
}

TEST(Stress, RecordingIsPerThread) {
  const NoGrad off;
  bool elsewhere = false;
  std::thread([&] { elsewhere = is_recording(); }).join();
  EXPECT_TRUE(elsewhere);
}

TEST(Stress, AGraphMadeByTwoThreadsAndRunByAThird) {
  const Variable w = leaf({1, 2});
  Variable made;
  std::thread([&] {
    for (int i = 0; i < 9; ++i) made = sum(exp(w));
  }).join();
  // this thread's node numbers are behind those of the other thread
  const Variable mixed = made * made;
  std::thread([&] { mixed.backward(); }).join();
  const double e1 = std::exp(1), e2 = std::exp(2);
  EXPECT_NEAR(values(w.grad())[0], 2 * (e1 + e2) * e1, 1e-12);
}

}  // namespace
}  // namespace tapegrad::testing
