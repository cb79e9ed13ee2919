// Epilogues of captured steps on the CPU: an activation that only one layer feeds is computed by
// the kernel of that layer, however the program spells it, with the bits of a step that calls both.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/autograd/derivatives.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/conv.h"
#include "ops/dropout.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/train/expect_same_bits.h"

namespace tapegrad::testing {

Device step_device() { return cpu; }

namespace {

using Variables = std::vector<Variable>;

constexpr const char* kAbsorbed = "computed by the kernel of the layer before";

enum class Layer { kLinear, kImages };

Variable apply(Layer layer, const Variable& x, const Variable& weight, const Variable& bias,
               int64_t groups = 1) {
  if (layer == Layer::kLinear) return linear(x, weight, bias);
  return conv2d(x, weight, bias, {.padding = 1, .groups = groups});
}

/// Returns the loss, y and the gradients of a function of a layer's operands. The loss is a
/// product, so that the last activation of the function joins no segment.
template <typename Function>
Variables differentiate(GraphedStep::Inputs in, const Function& function) {
  Variables leaves;
  for (const Variable& x : in) leaves.push_back(x.detach().requires_grad_());
  const Variable y = function(leaves);
  const Variable row = y.reshape({1, -1});
  const Variable loss = matmul(row, cos(arange(row.numel())).view({-1, 1})).sum();
  loss.backward();
  Variables results{loss, y};
  for (const Variable& leaf : leaves)
    if (leaf.grad().defined()) results.push_back(leaf.grad());
  return results;
}

struct Sizes {
  Layer layer;
  Shape x, weight;
  int64_t groups = 1;
};
// Narrow, wide and higher-dimensional linear layers; few channels, many channels, depthwise.
const std::vector<Sizes> kSizes = {
    {Layer::kLinear, {5000, 3}, {20, 3}},
    {Layer::kLinear, {64, 256}, {300, 256}},
    {Layer::kLinear, {8, 33, 40}, {70, 40}},
    {Layer::kImages, {4, 1, 28, 28}, {10, 1, 3, 3}},
    {Layer::kImages, {2, 64, 14, 14}, {64, 64, 3, 3}},
    {Layer::kImages, {2, 32, 20, 20}, {32, 1, 3, 3}, 32},
};

Variables inputs_of(const Sizes& sizes) {
  manual_seed(7);
  Variable x = randn(sizes.x);
  Variable first = x.view({-1})[3];
  fill_(first, std::numeric_limits<double>::quiet_NaN());
  return {x, randn(sizes.weight), randn({sizes.weight[0]})};
}

TEST(Epilogue, OfEachLayerAndSpelling) {
  for (const Sizes& sizes : kSizes) {
    const auto layer = [&](const Variables& l) {
      return apply(sizes.layer, l[0], l[1], l[2], sizes.groups);
    };
    SCOPED_TRACE(std::to_string(sizes.x.rank()) + " dimensions, groups " +
                 std::to_string(sizes.groups));
    const auto overwriting = [&](const Variables& l) { return relu(layer(l)); };
    const auto named = [&](const Variables& l) {
      const Variable z = layer(l);
      return relu(z);
    };
    const auto in_place = [&](const Variables& l) {
      Variable z = layer(l);
      relu_(z);
      return z;
    };
    expect_same_bits([&](GraphedStep::Inputs in) { return differentiate(in, overwriting); },
                     inputs_of(sizes), kAbsorbed);
    expect_same_bits([&](GraphedStep::Inputs in) { return differentiate(in, named); },
                     inputs_of(sizes), kAbsorbed);
    expect_same_bits([&](GraphedStep::Inputs in) { return differentiate(in, in_place); },
                     inputs_of(sizes), kAbsorbed);
    expect_same_bits(
        [&](GraphedStep::Inputs in) -> Variables {
          const NoGrad no_grad;
          return {relu(layer({in.begin(), in.end()}))};
        },
        inputs_of(sizes), kAbsorbed);
    if (HasFailure()) return;
  }
}

/// The operand of the activation has another use: both values are needed.
TEST(Epilogue, OfAnOperandThatIsUsedAgainStaysACall) {
  for (const Sizes& sizes : kSizes) {
    const auto layer = [&](const Variables& l) {
      return apply(sizes.layer, l[0], l[1], l[2], sizes.groups);
    };
    const auto twice = [&](const Variables& l) {
      const Variable z = layer(l);
      const Variable y = relu(z);
      return y * 2.0 + tanh(z);
    };
    const auto before = [&](const Variables& l) {
      Variable z = layer(l);
      const Variable other = tanh(z);
      return relu(std::move(z)) - other;
    };
    expect_same_bits([&](GraphedStep::Inputs in) { return differentiate(in, twice); },
                     inputs_of(sizes));
    expect_same_bits([&](GraphedStep::Inputs in) { return differentiate(in, before); },
                     inputs_of(sizes));
    if (HasFailure()) return;
  }
}

TEST(Epilogue, OfAResultOfTheStepStaysACall) {
  const Variables in = inputs_of(kSizes[1]);
  Variable z;
  expect_same_bits(
      [&](GraphedStep::Inputs in) -> Variables {
        const NoGrad no_grad;
        const Variable z = linear(in[0], in[1], in[2]);
        return {z, relu(z)};
      },
      in);
  GraphedStep step(
      [&] {
        const NoGrad no_grad;
        z = linear(in[0], in[1], in[2]);
        return relu(z);
      },
      {}, {.warmup = 1});
  step(), step(), step();
  EXPECT_TRUE(step.is_graphed()) << step.reason();
  EXPECT_EQ(step.explain().find(kAbsorbed), std::string::npos) << step.explain();
}

/// Chains of layers with activations in all places, some of whose values are used again.
Variables drawn_step(uint64_t seed, GraphedStep::Inputs in) {
  return differentiate(in, [&](const Variables& leaves) {
    std::mt19937_64 random(seed);
    const auto below = [&](size_t n) { return size_t(random() % n); };
    Variable x = leaves[0], kept = leaves[0];
    for (int i = 0; i < 8; ++i) {
      Variable z = linear(x, leaves[1 + below(2)], below(2) == 0 ? Variable() : leaves[3]);
      switch (below(6)) {
        case 0:
          x = relu(std::move(z));
          break;
        case 1:
          x = relu(z);
          if (below(2) == 0) kept = kept + z;
          break;
        case 2:
          x = relu(z + kept);
          break;
        case 3:
          x = relu(z.view({-1, 2 * z.size(1)})).view(z.shape());
          break;
        case 4:
          x = below(2) == 0 ? relu(relu(std::move(z))) : dropout(relu(std::move(z)), 0.25);
          break;
        default:
          kept = relu(z);
          x = layer_norm(z, {z.size(1)});
          break;
      }
    }
    return x + kept + leaves[3];
  });
}

TEST(Epilogue, DrawnStepsHaveTheBitsOfEagerOnes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    manual_seed(seed);
    const int64_t width = seed % 2 == 0 ? 16 : 96, rows = seed % 3 == 0 ? 4096 : 60;
    expect_same_bits([&](GraphedStep::Inputs in) { return drawn_step(seed, in); },
                     {randn({rows, width}), randn({width, width}) * 0.3,
                      randn({width, width}) * 0.3, randn({width})});
    if (HasFailure()) return;
  }
}

/// Chains of convolutions, whose values may have packed layouts.
Variables drawn_images(uint64_t seed, GraphedStep::Inputs in) {
  return differentiate(in, [&](const Variables& leaves) {
    std::mt19937_64 random(seed);
    const auto below = [&](size_t n) { return size_t(random() % n); };
    const int64_t channels = leaves[0].size(1);
    Variable x = leaves[0], kept = leaves[0];
    for (int i = 0; i < 6; ++i) {
      const bool is_depthwise = below(3) == 0;
      Variable z = apply(Layer::kImages, x, leaves[is_depthwise ? 3 : 1 + below(2)],
                         below(2) == 0 ? Variable() : leaves[4], is_depthwise ? channels : 1);
      switch (below(6)) {
        case 0:
          x = relu(std::move(z));
          break;
        case 1:
          x = relu(z);
          if (below(2) == 0) kept = kept * 0.5 + z;
          break;
        case 2:
          x = relu(std::move(z) + kept);
          break;
        case 3:
          x = relu(max_pool2d(std::move(z), {.kernel_size = 3, .stride = 1, .padding = 1}));
          break;
        case 4:
          x = max_pool2d(relu(std::move(z)), {.kernel_size = 3, .stride = 1, .padding = 1});
          kept = below(2) == 0 ? x : kept;
          break;
        default:
          kept = relu(z);
          x = batch_norm(z, {}, {}, leaves[4], leaves[5], true);
          break;
      }
    }
    return x + kept;
  });
}

TEST(Epilogue, DrawnConvolutionsHaveTheBitsOfEagerOnes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    manual_seed(seed);
    const int64_t channels = seed % 2 == 0 ? 16 : 6, size = seed % 3 == 0 ? 9 : 24;
    expect_same_bits([&](GraphedStep::Inputs in) { return drawn_images(seed, in); },
                     {randn({2, channels, size, size}), randn({channels, channels, 3, 3}) * 0.1,
                      randn({channels, channels, 3, 3}) * 0.1, randn({channels, 1, 3, 3}) * 0.3,
                      randn({channels}), randn({channels})});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tapegrad::testing
