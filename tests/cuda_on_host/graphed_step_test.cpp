// GraphedStep with CUDA graphs: differences from a step on the CPU.
// tests/train/graphed_step_cases.cpp has the tests for both.
#include "train/graphed_step.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/cuda.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "ops/scatter.h"
#include "ops/unary.h"
#include "optim/optimizers.h"
#include "tests/train/graphed_step_cases.h"

namespace tapegrad::testing {

Device step_device() { return gpu; }

namespace {

using OnGpu = OnStepDevice;
using Values = std::vector<double>;

TEST(GraphedStep, SaysWhyItIsNotGraphed) {
  const OnGpu on_gpu;
  const auto contains = expect_contains;
  {
    Variable total = zeros({});
    contains(reason_of(
                 [&] {
                   add_(total, 1.0);  // once per call, also in the call that tried to record
                   const double now = total.item();
                   return total * now;
                 },
                 {1, 4, 9, 16}),
             "a value is copied to the CPU, which waits");
  }
  contains(reason_of([] { return sum(nonzero(ones({3}))); }, {3, 3, 3}), "waits for the device");
  {
    float host = 0;
    contains(reason_of(
                 [&] {
                   ++host;
                   return Variable(Tensor::full({}, host, f32, cpu)).to(gpu);
                 },
                 {1, 2, 3, 4}),
             "values are copied from the CPU");
  }
  {
    Variable h = ones({});
    contains(reason_of(
                 [&] {
                   h = h * 2.0;
                   return h + 0.0;
                 },
                 {2, 4, 8, 16}),
             "then replaces by another");
  }
  contains(reason_of(
               [] {
                 cuda::synchronize();
                 return ones({});
               },
               {1, 1, 1}),
           "it waits for the device");
  contains(reason_of([] { return ones({}, {.device = cpu}); }, {1, 1, 1}), "on the CPU");
  const auto draws = [] {
    manual_seed(8);
    const Variable first = rand({});
    return first - rand({});
  };
  const double difference = draws().item();
  contains(reason_of(
               [&] {
                 rand({});
                 return draws();
               },
               {difference, difference, difference}),
           "sets the seed");
  RandomGenerator other(8);
  manual_seed(8);
  contains(reason_of(
               [&] {
                 const Variable first = rand({}), second = rand({}, {}, other);
                 return (first - second) + (rand({}) - rand({}, {}, other));
               },
               {0, 0, 0}),
           "one seed");
}

// Tables that an op makes of its arguments are copied in each run.
TEST(GraphedStep, TablesOfOpsArePartOfAGraph) {
  const OnGpu on_gpu;
  const Variable kernel = rand({1, 1, 2, 2, 2}).requires_grad_();
  const auto f = [&](const Variable& x) {
    const Variable larger = interpolate(x, {.scale_factor = 2.0, .mode = SampleMode::kLinear});
    const Variable loss = sum(square(conv3d(larger, kernel)));
    loss.backward();
    return loss;
  };
  GraphedStep step(f);
  for (int i = 0; i < 6; ++i) {
    const Variable x = rand({1, 1, 2, 3, 2});
    const double captured = step(x).item();
    EXPECT_EQ(step.reason(), "");
    EXPECT_EQ(captured, f(x).item());
  }
}

TEST(GraphedStep, LargeTablesOfOpsEndTheRecording) {
  const OnGpu on_gpu;
  const auto f = [](const Variable& x) {
    return sum(interpolate(x, {.size = {40'000}, .mode = SampleMode::kLinear}));
  };
  GraphedStep step(f);
  for (int i = 0; i < 5; ++i) {
    const Variable x = rand({1, 1, 3});
    EXPECT_EQ(step(x).item(), f(x).item());
  }
  EXPECT_NE(step.reason().find("too many values are copied from the CPU"), std::string::npos)
      << step.reason();
}

TEST(GraphedStep, ALostRecordingLeavesTheStepAsItIs) {
  const OnGpu on_gpu;
  const Weight weight;
  optim::SGD sgd({weight.w}, optim::SGDOptions{.lr = 0.5, .momentum = 0.5});
  manual_seed(1);
  const std::string reason = reason_of(
      [&] {
        sgd.zero_grad();
        weight.backward();
        void* memory = nullptr;  // allocates like another library
        if (cudaMalloc(&memory, 64) == cudaSuccess) cudaFree(memory);
        sgd.step();
        return weight.w + sum(rand({2})) * 0.0;
      },
      {0, -1.5, -3.25, -5.125});
  EXPECT_NE(reason.find("does not allow"), std::string::npos) << reason;
}

TEST(GraphedStep, ValuesAreCheckedALittleLater) {
  const OnGpu on_gpu;
  const Variable logits = zeros({4, 3});
  Variable target = zeros({4}, {.dtype = i64});
  const Variable table = rand({5, 2});
  GraphedStep step(
      [&](const Variable& ids) {
        return cross_entropy(logits, ids) + sum(index_select(table, 0, ids)) * 0.0;
      },
      {}, {.warmup = 1});
  const double loss = step(target).item();
  EXPECT_EQ(step(target).item(), loss);
  EXPECT_TRUE(step.is_graphed());
  // the device has finished, so the next call sees the error
  step(full({4}, 3, {.dtype = i64})).item();
  try {
    step(target);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("does not take"), std::string::npos) << error.what();
  }
  EXPECT_EQ(step(target).item(), loss);
}

TEST(GraphedStep, ItsMemoryIsItsOwnAndIsGivenBack) {
  const OnGpu on_gpu;
  empty_cache(gpu);
  const int64_t before = memory_stats(gpu).in_use;
  {
    const Variable x = ones({1 << 18});
    GraphedStep step([&] { return sum((x + 1.0) * (x + 2.0)); }, {}, {.warmup = 1});
    const double expected = 6.0 * (1 << 18);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(step().item(), expected);
    EXPECT_TRUE(step.is_graphed());
    EXPECT_EQ(cuda::pool_stats(gpu).size(), 2u);
    EXPECT_GT(cuda::pool_stats(gpu)[1].in_use + cuda::pool_stats(gpu)[1].cached, 0);
    EXPECT_NE(cuda::memory_summary(gpu).find("(pools: 1)"), std::string::npos);
    std::vector<Variable> others;  // new memory has other addresses
    for (int i = 0; i < 8; ++i) others.push_back(full({1 << 18}, 7.0));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(step().item(), expected);
    for (const Variable& other : others) EXPECT_EQ(sum(other).item(), 7.0 * (1 << 18));
  }
  EXPECT_EQ(memory_stats(gpu).in_use, before);
  empty_cache(gpu);
  EXPECT_EQ(memory_stats(gpu).cached, 0);
}

}  // namespace
}  // namespace tapegrad::testing
