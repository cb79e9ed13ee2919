// Training steps in which one allocation fails: each allocation by operator new in turn, and each
// amount of tensor memory. The step must throw an error, nothing may leak, no gradient may be
// written in part, and the next step must succeed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <new>
#include <utility>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/node.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "optim/optimizers.h"

namespace {

/// Number of allocations of this thread until one fails; negative for none.
thread_local int64_t until_failure = -1;

void* allocate(size_t bytes, size_t alignment) {
  if (until_failure > 0 && --until_failure == 0) throw std::bad_alloc();
  void* block = nullptr;
  if (posix_memalign(&block, std::max(alignment, sizeof(void*)), bytes) != 0)
    throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t align) { return allocate(bytes, size_t(align)); }
void* operator new[](size_t bytes, std::align_val_t align) {
  return allocate(bytes, size_t(align));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { std::free(block); }

namespace tapegrad {
namespace {

class Training {
 public:
  Training()
      : model_({nn::Conv2d({.in_channels = 1, .out_channels = 4, .kernel_size = 3}), nn::ReLU(),
                nn::BatchNorm2d({.num_features = 4}), nn::MaxPool2d(2), nn::Flatten(),
                nn::Linear({.in_features = 36, .out_features = 3})}),
        optimizer_(model_, {.lr = 0.01}),
        loader_(TensorDataset(randn({16, 1, 8, 8}), randint(0, 3, {16})), {.batch_size = 16}) {}

  void step() {
    for (auto& [x, y] : loader_) {
      optimizer_.zero_grad();
      const Variable loss = cross_entropy(model_(x), y);
      phase_ = "backward";
      loss.backward();
      phase_ = "step";
      optimizer_.step();
      phase_ = "forward";
    }
  }

  /// Returns the phase in which step() threw.
  std::string phase() { return std::exchange(phase_, "forward"); }
  /// Expects all gradients, or none.
  void expect_whole_gradients() const {
    size_t present = 0;
    for (const Variable& p : model_.parameters()) present += p.grad().defined();
    EXPECT_TRUE(present == 0 || present == model_.parameters().size());
    for (const Variable& p : model_.parameters())
      for (double value : p.to_vector<double>()) EXPECT_TRUE(std::isfinite(value));
  }

 private:
  nn::Sequential model_;
  optim::Adam optimizer_;
  DataLoader loader_;
  std::string phase_ = "forward";
};

TEST(AllocationFault, T52_EveryAllocationOfATrainingStep) {
  manual_seed(1);
  Training training;
  for (int i = 0; i < 3; ++i) training.step();  // allocates everything that is allocated once
  const int64_t live = TapeNode::live(), held = memory_stats().in_use;
  std::map<std::string, int> failed;
  for (int64_t k = 1;; ++k) {
    SCOPED_TRACE("allocation " + std::to_string(k));
    until_failure = k;
    bool threw = false;
    try {
      training.step();
    } catch (const OutOfMemory&) {
      threw = true;
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    const bool reached = until_failure == 0;
    until_failure = -1;
    if (!reached) break;
    ++failed[threw ? training.phase() : "absorbed"];
    training.expect_whole_gradients();
    ASSERT_EQ(TapeNode::live(), live);
    if (k % 8 == 0) {
      ASSERT_NO_THROW(training.step());
    }
    ASSERT_EQ(memory_stats().in_use, held);
    ASSERT_LT(k, 100'000);
  }
  for (const char* phase : {"forward", "backward"}) EXPECT_GT(failed[phase], 0) << phase;
  training.step();
}

TEST(AllocationFault, T52_EveryAmountOfMemory) {
  manual_seed(1);
  Training training;
  for (int i = 0; i < 3; ++i) training.step();
  empty_cache();
  const int64_t live = TapeNode::live(), held = memory_stats().in_use;
  int failed = 0;
  for (int64_t room = 0;; room += 1024) {
    SCOPED_TRACE(std::to_string(room) + " bytes");
    set_memory_limit(held + room);
    bool threw = false;
    try {
      training.step();
    } catch (const OutOfMemory& error) {
      threw = true;
      EXPECT_NE(std::string(error.what()).find("bytes wanted"), std::string::npos);
    }
    set_memory_limit(-1);
    if (!threw) break;
    ++failed;
    training.expect_whole_gradients();
    ASSERT_EQ(TapeNode::live(), live);
    empty_cache();
    ASSERT_EQ(memory_stats().in_use, held);
  }
  EXPECT_GT(failed, 5);
  training.step();
}

}  // namespace
}  // namespace tapegrad
