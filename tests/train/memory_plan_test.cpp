// Places of a captured step's values in one block of memory.
#include "core/autograd/internal/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace tapegrad {
namespace {

using Values = std::vector<PlannedValue>;

/// Checks that values needed at the same time do not overlap, and that the block holds all.
void check(const Values& values, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % (values[i].bytes < 8192 ? 64 : 512), 0u);
    EXPECT_LE(plan.offsets[i] + values[i].bytes, plan.bytes);
    for (size_t k = 0; k < i; ++k) {
      if (values[i].last < values[k].first || values[k].last < values[i].first) continue;
      const bool is_apart = plan.offsets[i] + values[i].bytes <= plan.offsets[k] ||
                            plan.offsets[k] + values[k].bytes <= plan.offsets[i];
      ASSERT_TRUE(is_apart) << i << " and " << k;
    }
  }
}

TEST(MemoryPlan, ValuesShareMemoryWhenTheirLifetimesAllow) {
  const Values values{{8192, 0, 1}, {8192, 1, 2}, {16384, 2, 3}, {8192, 3, 4}, {100, 0, 4}};
  const MemoryPlan plan = plan_memory(values);
  check(values, plan);
  EXPECT_EQ(plan.least, 16384u + 8192 + 128);
  EXPECT_EQ(plan.bytes, plan.least);
  EXPECT_EQ(plan_memory({}).bytes, 0u);
}

/// The values of a forward pass and of the backward pass that needs them in the opposite order.
TEST(MemoryPlan, ATrainingStepNeedsLittleMoreThanItsLargestSum) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Values values;
    constexpr size_t kLayers = 60;
    for (size_t i = 0; i < kLayers; ++i) {
      const size_t bytes = 64 * (1 + random() % (seed % 2 ? 60'000 : 200));
      values.push_back({bytes, i, 2 * kLayers - i});                       // saved
      values.push_back({bytes, i, i + 1});                                 // temporary
      values.push_back({bytes, 2 * kLayers - i, 2 * kLayers - i + 1});     // gradient
      values.push_back({1 + random() % 3000, i, i + 1 + random() % 100});  // small
    }
    const MemoryPlan plan = plan_memory(values);
    check(values, plan);
    EXPECT_LE(double(plan.bytes), 1.1 * double(plan.least)) << seed;
  }
}

TEST(MemoryPlan, ManyValuesArePlannedFast) {
  std::mt19937 random(1);
  Values values;
  for (size_t i = 0; i < 20'000; ++i) values.push_back({random() % 4000, i, i + random() % 50});
  EXPECT_LT(plan_memory(values).bytes, size_t(1) << 20);
}

}  // namespace
}  // namespace tapegrad
