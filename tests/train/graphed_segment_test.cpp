// Segments of captured steps on the CPU: elementwise kernels that run together give the bits of
// separate ones.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/autograd/derivatives.h"
#include "core/base/allocator.h"
#include "core/dispatch/dispatch_log.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/conv.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/settings.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/train/expect_same_bits.h"

namespace tapegrad::testing {

Device step_device() { return cpu; }

namespace {

using Variables = std::vector<Variable>;

Variable gelu_by_hand(const Variable& x) {
  return 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

TEST(Segment, AChainWithItsGradientIsOne) {
  for (const DType dtype : {f32, f64, bf16})
    expect_same_bits(
        [](GraphedStep::Inputs in) -> Variables {
          const Variable x = in[0].detach().requires_grad_();
          const Variable y = gelu_by_hand(x);
          const Variable loss = sum(y);
          loss.backward();
          return {loss, y, x.grad()};
        },
        {randn({37, 1003}).to(dtype)}, "in 1 segments");
}

TEST(Segment, ValuesBetweenItsCallsNeedNoMemory) {
  const Variable x = randn({1 << 20});
  GraphedStep step([&] { return sum(gelu_by_hand(x)); }, {}, {.warmup = 1});
  step(), step();
  reset_peak_memory();
  const int64_t before = memory_stats().peak;
  step();
  EXPECT_TRUE(step.is_graphed());
  EXPECT_LE(memory_stats().peak - before, (5 << 20)) << step.explain();  // one of 8 values of 4 MiB
  expect_contains(step.explain(), "tanh at ");
  expect_contains(step.explain(), "graphed_segment_test.cpp:");
}

/// One thread runs calls one by one if their segment would keep few values out of memory.
TEST(Segment, OfOneThreadKeepsValuesOutOfMemory) {
  const int64_t threads = get_num_threads();
  set_num_threads(1);
  const Variables inputs{randn({300, 200}), randn({300, 200})};
  GraphedStep apart(
      [](GraphedStep::Inputs in) -> Variables {
        return {in[0] * in[1], in[0] + in[1], in[0] - in[1], exp(in[0])};
      },
      inputs, {.warmup = 1});
  GraphedStep chain(
      [](GraphedStep::Inputs in) -> Variables { return {sum(exp(in[0] * in[1]) - in[1])}; }, inputs,
      {.warmup = 1});
  for (int i = 0; i < 3; ++i) apart.run_all(inputs), chain.run_all(inputs);
  expect_contains(apart.explain(), "in 0 segments");
  expect_contains(chain.explain(), "in 1 segments");
  set_num_threads(threads);
}

TEST(Segment, OperandsMayBeRowsAndNumbers) {
  const Variable weight = randn({130}), bias = randn({1, 130}), number = randn({1, 1}),
                 mask = randn({130}) > 0.0;
  expect_same_bits(
      [&](GraphedStep::Inputs in) -> Variables {
        const Variable& x = in[0];
        const Variable y = relu(x * weight + bias) * number - x;
        return {y, masked_fill(y * y, mask, 3.0), where(y < 0.0, x, y + 1.0), y.to(f64) * 2.0};
      },
      {randn({77, 130})});
  const Variable columns = randn({77, 1});
  expect_same_bits(
      [&](GraphedStep::Inputs in) -> Variables { return {in[0] * 2.0 * columns + 1.0}; },
      {randn({77, 130})});
}

TEST(Segment, WritesInPlaceKeepTheirOrder) {
  Variable outside = zeros({64, 100});
  expect_same_bits(
      [&](GraphedStep::Inputs in) -> Variables {
        Variable x = in[0] * 2.0;
        const Variable before = x + 1.0;
        add_(x, before);
        mul_(x, 0.5);
        Variable half = narrow(x, 0, 0, 32);
        add_(half, 3.0);
        copy_(outside, x);
        const Variable after = outside * 2.0;
        mul_(outside, 0.0);
        return {x, before, after, outside + 1.0, sum(x, {0}) + x};
      },
      {randn({64, 100})});
}

TEST(Segment, DropoutDrawsTheSameNumbers) {
  expect_same_bits(
      [](GraphedStep::Inputs in) -> Variables {
        const Variable x = in[0].detach().requires_grad_();
        const Variable y = dropout(x * 2.0 + 1.0, 0.3) * 3.0;
        const Variable z = dropout(y, 0.5) + randn({61, 103});
        sum(z * z).backward();
        return {y, z, x.grad()};
      },
      {randn({61, 103})});
}

/// Layers of some widths, with the activations and losses of the seed.
Variables narrow_step(uint64_t seed, GraphedStep::Inputs in) {
  Variables leaves;
  for (size_t i = 1; i < in.size(); ++i) leaves.push_back(in[i].detach().requires_grad_());
  const Variable x = seed % 3 == 0 ? in[0].detach().requires_grad_() : in[0];
  Variable y = x;
  for (size_t i = 0; i + 1 < leaves.size(); i += 2) {
    const bool is_last = i + 2 == leaves.size();
    y = linear(y, leaves[i], (seed + i) % 4 == 3 ? Variable() : leaves[i + 1]);
    if (is_last) break;
    switch ((seed + i) % 5) {
      case 0:
        y = relu(std::move(y));
        break;
      case 1:
        y = tanh(y);
        break;
      case 2:
        y = relu(y);
        break;
      case 3:
        y = gelu(std::move(y), Gelu::kTanh);
        break;
      default:
        y = y * sigmoid(y) + 0.1;
    }
  }
  const Variable loss = seed % 2 == 0 ? mean(square(y - 0.5)) : sum(tanh(y) * y);
  loss.backward();
  Variables results{loss, y};
  for (const Variable& leaf : leaves)
    if (leaf.grad().defined()) results.push_back(leaf.grad());
  if (x.requires_grad()) results.push_back(x.grad());
  return results;
}

TEST(Segment, NarrowLayersRunByBlocksOfRows) {
  uint64_t seed = 0;
  for (const int64_t rows : {5, 128, 1000, 4097, 40'000, 65'536})
    for (const std::vector<int64_t>& widths :
         {std::vector<int64_t>{2, 20, 5, 1}, {3, 64, 64, 33}, {1, 17, 1}, {70, 30, 3}}) {
      if (rows > 5000 && widths[0] > 2) continue;  // slow
      SCOPED_TRACE(std::to_string(rows) + " rows, seed " + std::to_string(++seed));
      manual_seed(seed);
      Variables inputs{randn({rows, widths[0]})};
      for (size_t i = 1; i < widths.size(); ++i) {
        inputs.push_back(randn({widths[i], widths[i - 1]}));
        inputs.push_back(randn({widths[i]}));
      }
      expect_same_bits([&](GraphedStep::Inputs in) { return narrow_step(seed, in); }, inputs);
    }
}

/// Layers with rectified results, of which some have elements that are not finite.
Variables lanes_step(bool has_result, bool has_input_gradient, GraphedStep::Inputs in) {
  Variables leaves;
  for (size_t i = 2; i < in.size(); ++i) leaves.push_back(in[i].detach().requires_grad_());
  const Variable x = has_input_gradient ? in[0].detach().requires_grad_() : in[0];
  Variable y = x;
  for (size_t i = 0; i + 1 < leaves.size(); i += 2) {
    y = linear(y, leaves[i], i == 2 ? Variable() : leaves[i + 1]);
    if (i + 2 < leaves.size()) y = i == 2 ? tanh(y * 0.5 + 0.25) : relu(std::move(y));
  }
  const Variable loss = mean(square(y - in[1]));
  loss.backward();
  Variables results{loss};
  if (has_result) results.push_back(y);
  for (const Variable& leaf : leaves)
    if (leaf.grad().defined()) results.push_back(leaf.grad());
  if (has_input_gradient) results.push_back(x.grad());
  return results;
}

TEST(Segment, RowsInLanesHaveTheBitsOfRowsInOrder) {
  uint64_t seed = 0;
  for (const std::vector<int64_t>& widths : {std::vector<int64_t>{2, 20, 5, 1},
                                             {3, 9, 2},
                                             {5, 1},
                                             {1, 18, 18, 3},
                                             {19, 7, 35, 1},
                                             {1, 1, 1}})
    for (const int64_t rows : {1023, 1024, 2048, 2700, 5000, 17'000, 40'000}) {
      if (rows > 5000 && widths[0] != 2) continue;  // slow
      SCOPED_TRACE(std::to_string(rows) + " rows, seed " + std::to_string(++seed));
      manual_seed(seed);
      Variables inputs{randn({rows, widths[0]}), randn({rows, widths.back()})};
      if (seed % 3 == 0) {
        Variable row = inputs[0][rows / 2];
        fill_(row, std::numeric_limits<double>::infinity());
      }
      for (size_t i = 1; i < widths.size(); ++i) {
        inputs.push_back(randn({widths[i], widths[i - 1]}));
        inputs.push_back(randn({widths[i]}));
      }
      expect_same_bits(
          [&](GraphedStep::Inputs in) { return lanes_step(seed % 2 == 0, seed % 5 < 2, in); },
          inputs, rows >= 5000 && widths[0] == 2 ? "vectors along the rows" : "");
      if (HasFailure()) return;
    }
}

TEST(Segment, ForwardAndBackwardOfNarrowLayersAreOne) {
  const Variable x = randn({10'000, 2});
  Variable w1 = randn({20, 2}).requires_grad_(), b1 = randn({20}).requires_grad_();
  Variable w2 = randn({1, 20}).requires_grad_(), b2 = randn({1}).requires_grad_();
  GraphedStep step(
      [&] {
        for (const Variable& leaf : {w1, b1, w2, b2}) leaf.zero_grad();
        const Variable loss = mean(square(linear(tanh(linear(x, w1, b1)), w2, b2)));
        loss.backward();
        return loss;
      },
      {}, {.warmup = 1});
  step(), step();
  expect_contains(step.explain(), "in 1 segments");
  expect_contains(step.explain(), "linear (backward) at ");
}

/// Two blocks of a transformer without attention, with dropout.
Variables block_step(GraphedStep::Inputs in) {
  const Variable& x = in[0];
  const Variable up = in[1].detach().requires_grad_(), down = in[2].detach().requires_grad_(),
                 scale = in[3].detach().requires_grad_();
  Variable y = x;
  for (int i = 0; i < 4; ++i) {
    const Variable hidden = gelu(linear(layer_norm(y, {x.size(1)}, scale), up));
    y = y + dropout(linear(hidden, down) * sigmoid(y), 0.3);
  }
  const Variable loss = mean(square(y));
  loss.backward();
  return {loss, up.grad(), down.grad(), scale.grad()};
}

TEST(Segment, ValuesComputedTwiceHaveTheSameBits) {
  const Variables inputs{randn({512, 80}), randn({320, 80}), randn({80, 320}), randn({80})};
  int64_t peaks[2];
  for (const bool saves_memory : {false, true}) {
    GraphedStep step(block_step, inputs, {.warmup = 1, .save_memory = saves_memory});
    for (int i = 0; i < 4; ++i) {
      manual_seed(uint64_t(i));
      const Variables expected = block_step(inputs);
      manual_seed(uint64_t(i));
      reset_peak_memory();
      const int64_t before = memory_stats().peak;
      const Variables got = step.run_all(inputs);
      peaks[saves_memory] = memory_stats().peak - before;
      for (size_t k = 0; k < got.size(); ++k)
        EXPECT_TRUE(same_bits(got[k].value(), expected[k].value()))
            << "call " << i << ", result " << k;
    }
    EXPECT_TRUE(step.is_graphed()) << step.reason();
  }
  EXPECT_LT(double(peaks[true]), 0.8 * double(peaks[false]));
}

/// One layer of a graph attention network (GATv2). The product with the weights separates the
/// segments of the forward and the backward pass.
Variables attention_of_sums(GraphedStep::Inputs in) {
  const Variable u = in[0].detach().requires_grad_(), v = in[1].detach().requires_grad_();
  const Variable scores = sum(leaky_relu(u.unsqueeze(2) + v.unsqueeze(1), 0.2) * in[2], 3);
  const Variable loss = sum(square(matmul(softmax(scores, 2), v)));
  loss.backward();
  return {loss, u.grad(), v.grad()};
}

TEST(Segment, SumsOfSmallOperandsAreAddedAgainInTheBackwardPass) {
  const Variables inputs{randn({8, 60, 24}), randn({8, 60, 24}), randn({24})};
  GraphedStep step(attention_of_sums, inputs, {.warmup = 1});
  for (int i = 0; i < 4; ++i) {
    const Variables expected = attention_of_sums(inputs), got = step.run_all(inputs);
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_TRUE(same_bits(got[k].value(), expected[k].value())) << i << ", result " << k;
  }
  EXPECT_TRUE(step.is_graphed()) << step.reason();
  EXPECT_EQ(step.explain().find("MB by add at"), std::string::npos) << step.explain();
}

/// While a step is recorded, no storage has a packed layout yet.
TEST(Segment, PaddingOfPackedImagesIsOneKernel) {
  const Variable x = randn({4, 16, 64, 64});
  const Variable weight = randn({16, 16, 3, 3}).requires_grad_();
  GraphedStep step(
      [&] {
        weight.zero_grad();
        const Variable padded = pad(relu(conv2d(x, weight)), {2, 1, 1, 0});
        const Variable loss = sum(square(conv2d(padded, weight)));
        loss.backward();
        return loss;
      },
      {}, {.warmup = 1});
  const DispatchLog function;
  const Variable expected = step();
  const int64_t packed = function.calls("pad:packed");
  if (packed == 0) GTEST_SKIP() << "convolutions give no packed results";
  const Tensor gradient = weight.grad().value().clone();
  step();
  const DispatchLog replay;
  EXPECT_TRUE(same_bits(step().value(), expected.value()));
  EXPECT_TRUE(step.is_graphed()) << step.reason();
  EXPECT_TRUE(same_bits(weight.grad().value(), gradient));
  EXPECT_EQ(replay.calls("pad:packed"), packed) << replay.explain();
}

TEST(Segment, ALeafOfTheStepDoesNotEndTheReplays) {
  int runs = 0;
  Variable w = randn({50}).requires_grad_();
  GraphedStep step(
      [&](const Variable& in) {
        ++runs;
        w.zero_grad();
        const Variable x = in.detach().requires_grad_();
        const Variable slope = grad(sum(tanh(x * w)), x, {.create_graph = true});
        const Variable loss = sum(square(slope));
        loss.backward();  // also into x
        return loss;
      },
      {}, {.warmup = 1});
  for (int i = 0; i < 10; ++i) step(randn({200, 50}));
  EXPECT_EQ(runs, 2);
}

/// Returns a step of random ops on matrices, rows and numbers.
Variables draw_step(uint64_t seed, GraphedStep::Inputs in) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  Variables leaves, values;
  for (size_t i = 0; i < 4; ++i) leaves.push_back(in[i].detach().requires_grad_());
  values = leaves;
  for (int i = 0; i < 24; ++i) {
    const Variable a = values[below(values.size())], b = values[below(values.size())];
    Variable y;
    switch (below(13)) {
      case 0:
        y = a + b;
        break;
      case 1:
        y = a * b;
        break;
      case 2:
        y = a - b;
        break;
      case 3:
        y = tanh(a);
        break;
      case 4:
        y = sigmoid(a) * 2.0;
        break;
      case 5:
        y = relu(a - 0.1);
        break;
      case 6:
        y = maximum(a, b);
        break;
      case 7:
        y = 1.0 / (1.0 + a * a);
        break;
      case 8:
        y = dropout(a, 0.2);
        break;
      case 9:
        y = a + mean(b, {0}, true);
        break;
      case 10:
        y = where(a < b, a, b * 0.5);
        break;
      case 11:
        y = a.rank() == 2 && a.size(0) > 1 ? matmul(a, in[4]) * 0.05 : exp(-abs(a));
        break;
      default:
        y = (a.to(f64) * 1.5).to(f32);
        break;
    }
    if (below(4) == 0) y = gelu(std::move(y));
    if (below(6) == 0 && a.shape() == y.shape()) {
      Variable target = y.detach() * 1.0;
      add_(target, a.detach());
      values.push_back(target);
    }
    values.push_back(y);
  }
  Variable loss = zeros({});
  for (size_t i = 0; i < 3; ++i) loss = loss + mean(square(values[values.size() - 1 - i]));
  loss.backward();
  Variables results{loss, values.back()};
  for (const Variable& x : leaves)
    if (x.grad().defined()) results.push_back(x.grad());
  return results;
}

TEST(Segment, DrawnStepsHaveTheBitsOfEagerOnes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    manual_seed(seed);
    const int64_t columns = seed % 3 == 0 ? 96 : 70;
    expect_same_bits([&](GraphedStep::Inputs in) { return draw_step(seed, in); },
                     {randn({60, columns}), randn({60, columns}), randn({columns}), randn({1}),
                      randn({columns, columns})});
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Segment, ManyThreadsShareTheBlocks) {
  const Variable x = randn({1 << 19});
  expect_same_bits(
      [&](GraphedStep::Inputs in) -> Variables {
        return {gelu_by_hand(in[0]) + x, sum(gelu_by_hand(in[0] * x))};
      },
      {randn({1 << 19})});
}

}  // namespace
}  // namespace tapegrad::testing
