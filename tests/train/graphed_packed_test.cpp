// Captured steps whose values have a packed layout, as those of convolutional networks, give the
// bits of separate kernels.
#include <random>

#include "ops/activation.h"
#include "ops/activation_composed.h"
#include "ops/arithmetic.h"
#include "ops/conv.h"
#include "ops/dropout.h"
#include "ops/join.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/train/expect_same_bits.h"

namespace tapegrad::testing {

Device step_device() { return cpu; }

namespace {

using Variables = std::vector<Variable>;

Variable leaf(const Variable& x) { return x.detach().requires_grad_(); }

/// Parameters of a 3 x 3 convolution and of the batch norm that follows.
struct Block {
  Variable weight, scale, shift, mean, var;

  explicit Block(int64_t channels, DType dtype)
      : weight((randn({channels, channels, 3, 3}) * 0.1).to(dtype)),
        scale((rand({channels}) + 0.5).to(dtype)),
        shift(randn({channels}).to(dtype)),
        mean(zeros({channels})),
        var(ones({channels})) {}
};

/// Returns a residual block with its gradient.
Variables residual_step(const Block& block, const Variable& input, bool training) {
  const Variable x = leaf(input), weight = leaf(block.weight), scale = leaf(block.scale),
                 shift = leaf(block.shift);
  const Variable first = conv2d(x, weight, {}, {.padding = 1});
  const Variable normal =
      relu(batch_norm(first, block.mean, block.var, scale, shift, {.training = training}));
  const Variable second = conv2d(normal, weight, {}, {.padding = 1});
  const Variable y =
      relu(batch_norm(second, block.mean, block.var, scale, shift, {.training = training}) + first);
  const Variable loss = mean(square(conv2d(y, weight, {}, {.padding = 1})));
  loss.backward();
  return {loss, y, x.grad(), weight.grad(), scale.grad(), shift.grad()};
}

TEST(CapturedPackedLayouts, ResidualBlocksHaveTheBitsOfSeparateKernels) {
  for (const DType dtype : {f32, f64, bf16})
    for (const int64_t channels : {16, 24, 7})
      for (const bool training : {true, false}) {
        if (dtype != f32 && channels == 24) continue;
        SCOPED_TRACE(std::to_string(channels) + " channels of " + std::string(name(dtype)));
        const Block block(channels, dtype);
        expect_same_bits(
            [&](GraphedStep::Inputs in) { return residual_step(block, in[0], training); },
            {randn({2, channels, 40, 40}).to(dtype)});
      }
}

/// A network of convolutions with elementwise ops between them, drawn with the seed.
class DrawnNetwork {
 public:
  DrawnNetwork(uint64_t seed, int64_t channels, DType dtype)
      : seed_(seed), block_(channels, dtype) {
    gate_ = (randn({channels, channels}) * 0.2).to(dtype);
  }

  Variables operator()(const Variable& input) const {
    std::mt19937_64 random(seed_);
    const Variable x = leaf(input), weight = leaf(block_.weight), scale = leaf(block_.scale),
                   shift = leaf(block_.shift), gate = leaf(gate_),
                   running_mean = block_.mean.clone(), running_var = block_.var.clone();
    Variable y = x, before = x;
    for (int i = 0; i < 6; ++i) {
      if (i % 3 == 0) before = y, y = conv2d(y, weight, {}, {.padding = 1});
      switch (random() % 12) {
        case 0:
          y = relu(batch_norm(y, running_mean, running_var, scale, shift, {.training = true}));
          break;
        case 1:
          y = batch_norm(y, running_mean, running_var, scale, shift, {.training = false}) + y;
          break;
        case 2:
          y = silu(y) * 0.5;
          break;
        case 3:
          y = hardswish(y + 0.25);
          break;
        case 4:
          y = clamp(y, 0.0, 6.0) - 0.1;
          break;
        case 5:
          y = relu(y + before);
          break;
        case 6:
          y = y * sigmoid(y) + tanh(y);
          break;
        case 7: {  // squeeze and excitation
          const Variable s = sigmoid(linear(mean(y, {2, 3}), gate));
          y = y * reshape(s, {y.size(0), y.size(1), 1, 1});
          break;
        }
        case 8:
          y = dropout(y, 0.2) * 1.5;
          break;
        case 9:
          y = gelu(y, Gelu::kTanh) + reshape(shift, {-1, 1, 1});
          break;
        case 10:
          y = where(y > 0.0, y, y * 0.1);
          break;
        default:
          y = y * reshape(scale, {1, -1, 1, 1}) + sum(y, {2, 3}, true) * 1e-3;
      }
    }
    const Variable loss = mean(square(conv2d(y, weight, {}, {.padding = 1})));
    loss.backward();
    Variables results{loss, y, x.grad(), weight.grad()};
    for (const Variable& each : {scale, shift, gate})
      if (each.grad().defined()) results.push_back(each.grad());
    return results;
  }

 private:
  uint64_t seed_;
  Block block_;
  Variable gate_;
};

TEST(CapturedPackedLayouts, DrawnNetworksHaveTheBitsOfSeparateKernels) {
  constexpr int64_t kChannels[] = {16, 32, 24, 9};
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const DType dtype = seed % 12 == 5 ? f64 : seed % 12 == 9 ? bf16 : f32;
    const int64_t channels = kChannels[seed % 4], size = seed % 3 == 0 ? 14 : 33;
    SCOPED_TRACE("seed " + std::to_string(seed));
    manual_seed(seed);
    const DrawnNetwork network(seed, channels, dtype);
    expect_same_bits([&](GraphedStep::Inputs in) { return network(in[0]); },
                     {randn({size == 14 ? 17 : 3, channels, size, size}).to(dtype)});
    if (HasFatalFailure()) return;
  }
}

/// Ops that move values choose kernels by layouts, which a recording does not know; the step before
/// a recording, with which it is compared, knows them.
TEST(CapturedPackedLayouts, BranchesThatAreJoinedAreRecorded) {
  const Block block(32, f32);
  const Variable image = randn({3, 64, 12, 12});
  expect_same_bits(
      [&](GraphedStep::Inputs in) -> Variables {
        const Variable x = leaf(in[0]), weight = leaf(block.weight);
        const Variable first = narrow(x, 1, 0, 32), second = narrow(x, 1, 32, 32);
        const Variable a = relu(conv2d(first, weight, {}, {.padding = 1}));
        const Variable b =
            relu(conv2d(avg_pool2d(second, {.kernel_size = 3, .stride = 1, .padding = 1}), weight,
                        {}, {.padding = 1}));
        const Variable all = cat({a, b, narrow(a, 1, 0, 16)}, 1);
        const Variable shuffled =
            reshape(transpose(reshape(all, {3, 2, 40, 12, 12}), 1, 2), {3, 80, 12, 12});
        const Variable loss = mean(square(conv2d(narrow(shuffled, 1, 8, 32), weight)));
        loss.backward();
        return {loss, x.grad(), weight.grad()};
      },
      {image});
}

/// The gradient of a value that is joined with another is a part of their gradient, or a tensor of
/// its own if the gradient has a packed layout. A sum of gradients copies the part.
TEST(CapturedPackedLayouts, SkippedValuesAreRecorded) {
  const Block block(64, f32);
  const Variable image = randn({8, 64, 32, 32}), wide = randn({64, 128, 3, 3}) * 0.05;
  const Variable point = randn({64, 128, 1, 1}) * 0.1, shift = randn({8, 64, 16, 16});
  expect_same_bits(
      [&](GraphedStep::Inputs in) -> Variables {
        const Variable x = leaf(in[0]), weight = leaf(block.weight);
        const Variable skipped = conv2d(x, weight, {}, {.padding = 1});
        const Variable down = conv2d(skipped, weight, {}, {.stride = 2, .padding = 1});
        const Variable up = interpolate(down + shift, {.scale_factor = 2.0, .mode = "nearest"});
        const Variable all = cat({up, skipped}, 1);
        const Variable y = conv2d(silu(group_norm(all, 8)), wide, {}, {.padding = 1});
        const Variable loss = mean(square(y + conv2d(all, point)));
        loss.backward();
        return {loss, x.grad(), weight.grad()};
      },
      {image});
}

}  // namespace
}  // namespace tapegrad::testing
