#include "train/memory_report.h"

#include <sstream>

#include <gtest/gtest.h>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "nn/linear.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"

namespace tapegrad::testing {
namespace {

/// The tensors have the sizes of the allocator's blocks, except the biases, which are too small.
struct Net : nn::Model<Net> {
  nn::Linear fc1{{.in_features = 64, .out_features = 128}};
  nn::Linear fc2{{.in_features = 128, .out_features = 32}};
  void members(nn::Members& m) override { m("fc1", fc1)("fc2", fc2); }
  Variable forward(const Variable& x) const { return fc2(relu(fc1(x))); }
};
constexpr int64_t kBiases = 4 * (128 + 32);
constexpr int64_t kWeights = 4 * (128 * 64 + 32 * 128) + kBiases;

void expect_sum(const MemoryReport& report) {
  EXPECT_EQ(report.weights + report.gradients + report.optimizer + report.data +
                report.saved_bytes() + report.other,
            report.in_use);
  EXPECT_EQ(report.in_use - report.outside, memory_stats().in_use);
}

TEST(MemoryReport, OfAnMlpAsCountedByHand) {
  ASSERT_EQ(memory_stats().in_use, 0);
  Net net;
  optim::Adam adam(net, 1e-3);
  const Variable x = randn({32, 64}), y = randn({32, 32});
  MemoryReportOptions options{.model = &net, .optimizer = &adam, .data = {x, y}};
  {
    const Variable loss = mse_loss(net(x), y);
    options.tape = loss;
    const MemoryReport report = memory_report(options);
    EXPECT_EQ(report.weights, kWeights);
    EXPECT_EQ(report.gradients, 0);
    EXPECT_EQ(report.optimizer, 0) << "made by the first step";
    EXPECT_EQ(report.data, 4 * (32 * 64 + 32 * 32));
    ASSERT_EQ(report.saved.size(), 2u);
    EXPECT_EQ(report.saved[0].name, "Net.fc1") << "its node absorbed the ReLU";
    EXPECT_EQ(report.saved[0].bytes, 4 * 32 * 128)
        << "the result of fc1 and its ReLU, which fc2 keeps too";
    EXPECT_EQ(report.saved[1].name, "");
    EXPECT_EQ(report.saved[1].bytes, 4 * 32 * 32) << "the predictions, beside the targets";
    EXPECT_EQ(report.outside, kBiases);
    EXPECT_EQ(report.other, 0);
    expect_sum(report);
    loss.backward();
    options.tape = {};
  }
  const MemoryReport trained = memory_report(options);
  EXPECT_EQ(trained.gradients, kWeights);
  EXPECT_EQ(trained.saved_bytes(), 0);
  EXPECT_EQ(trained.other, 0);
  expect_sum(trained);
  adam.step();
  const MemoryReport stepped = memory_report(options);
  EXPECT_EQ(stepped.optimizer, 2 * kWeights) << "both averages";
  EXPECT_EQ(stepped.other, 0);
  expect_sum(stepped);
  net.zero_grad();
  EXPECT_EQ(memory_report(options).gradients, 0);
}

TEST(MemoryReport, WhatIsNotNamedIsOther) {
  const MemoryReport before = memory_report();
  const Variable x = zeros({1024}), y = zeros({1100});
  const MemoryReport after = memory_report();
  EXPECT_EQ(after.other - before.other, 4096 + 4608) << "4400 bytes are in a block of 4608";
  EXPECT_EQ(after.outside, 0);
  const MemoryReport known = memory_report({.data = {x, y, x}});
  EXPECT_EQ(known.data, 4096 + 4400) << "each once";
  EXPECT_EQ(known.other - before.other, 4608 - 4400);
  expect_sum(known);
}

TEST(MemoryReport, KnowsWhichMaximaARuleKeeps) {
  const Variable x = randn({1, 4, 32, 32}, {.requires_grad = true});
  const Variable y = max_pool2d(x, {.kernel_size = 2});
  const MemoryReport report = memory_report({.tape = y, .data = {x}});
  EXPECT_EQ(report.saved_bytes(), 4 * 4 * 16 * 16) << "an int32 for each pixel of the result";
  sum(y).backward();
  EXPECT_EQ(memory_report({.tape = y}).saved_bytes(), 0) << "freed";
}

TEST(MemoryReport, WorkspaceIsWhatThePeakHadMore) {
  reset_peak_memory();
  EXPECT_EQ(memory_report().workspace, 0);
  { const Variable gone = zeros({1024}); }
  const MemoryReport report = memory_report();
  EXPECT_EQ(report.workspace, 4096);
  EXPECT_GE(report.cached, 4096);
}

TEST(MemoryReport, PrintsATable) {
  Net net;
  std::ostringstream out;
  out << memory_report({.model = &net, .tape = mse_loss(net(ones({32, 64})), zeros({32, 32}))});
  for (const char* word : {"weights", "0.047", "  Net", "(outside of modules)", "in use", "100.0%"})
    EXPECT_NE(out.str().find(word), std::string::npos) << word << " in\n" << out.str();
  EXPECT_THROW(memory_report({.tape = ones({2})}), AutogradError);
}

}  // namespace
}  // namespace tapegrad::testing
