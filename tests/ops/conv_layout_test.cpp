// Results in the packed layout equal results in the plain layout for every reader.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <thread>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "nn/norm.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/norm.h"
#include "ops/norm_composed.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Values = std::vector<float>;

/// Returns f's results with each layout.
template <typename F>
auto both(F f) {
  set_conv_layout(ConvLayout::kPlain);
  auto plain = f();
  set_conv_layout(ConvLayout::kBlocked);
  return std::pair(std::move(plain), f());
}

Variable uniform(const Shape& shape, uint64_t seed) {
  manual_seed(seed);
  return (rand(shape, {.dtype = f32}) - 0.5).detach();
}

/// [4, 32, 24, 24]: large enough for the packed layout.
Variable convolved() { return conv2d(uniform({4, 16, 26, 26}, 1), uniform({32, 16, 3, 3}, 2)); }

bool is_packed(const Variable& x) { return x.value().storage().is_packed(); }

TEST(ConvLayout, StaysInBlocksUntilSomeoneReads) {
  const Variable y = convolved();
  if (!is_packed(y)) GTEST_SKIP() << "oneDNN does not choose blocks of channels on this CPU";
  const Variable z = max_pool2d(relu(y), {.kernel_size = 2});
  EXPECT_TRUE(is_packed(relu(y)));
  EXPECT_FALSE(is_packed(z));  // too few elements
  EXPECT_TRUE(is_packed(y));
  y.to_vector<float>();
  EXPECT_FALSE(is_packed(y));
  set_conv_layout(ConvLayout::kPlain);
  EXPECT_FALSE(is_packed(convolved()));
  set_conv_layout(ConvLayout::kBlocked);
}

TEST(ConvLayout, ReadersSeePlainValues) {
  const auto read = [] {
    const Variable y = convolved();
    std::ostringstream text;
    text << y;
    const Variable cut = narrow(select(convolved(), 0, 2), 0, 5, 20);
    return std::tuple(y.to_vector<float>(), text.str(), cut.to_vector<float>(),
                      transpose(convolved(), 1, 3).to_vector<float>(),
                      sum(convolved(), {0, 2, 3}).to_vector<float>(),
                      cat(std::vector{convolved(), convolved()}, 1).to_vector<float>(),
                      (convolved() + uniform({32, 1, 1}, 3)).to_vector<float>(),
                      (convolved() > 0.0).to_vector<float>(),
                      convolved().to(f64).to_vector<float>(),
                      select(flatten(convolved()), 0, 977).item());
  };
  const auto [plain, blocked] = both(read);
  EXPECT_EQ(plain, blocked);
}

/// Values and gradients of layers that keep the packed layout, and of some that do not.
TEST(ConvLayout, LayersAgreeToTheBit) {
  const auto train = [] {
    Variable x = uniform({4, 16, 26, 26}, 1), w1 = uniform({32, 16, 3, 3}, 2);
    Variable w2 = uniform({32, 32, 3, 3}, 3), b = uniform({32}, 4);
    for (Variable* v : {&x, &w1, &w2, &b}) v->requires_grad_();
    const Variable first = relu(conv2d(x, w1, b, {.padding = 1}));
    const Variable second = conv2d(first, w2, b, {.padding = 1});
    const Variable both = tanh(second + first) * 0.5;  // a residual
    const Variable pooled = max_pool2d(both, {.kernel_size = 3, .stride = 2, .padding = 1});
    const Variable third = sigmoid(conv2d(pooled, w2));
    Variable last = third * 2;
    last += third;
    mean(last * last).backward();
    return std::vector{last.to_vector<float>(), x.grad().to_vector<float>(),
                       w1.grad().to_vector<float>(), w2.grad().to_vector<float>(),
                       b.grad().to_vector<float>()};
  };
  const auto [plain, blocked] = both(train);
  EXPECT_EQ(plain, blocked);
}

TEST(ConvLayout, PoolingKeepsItsRules) {
  // Small whole numbers with many ties, and pixels that are NaN in all channels.
  const auto whole = [](const Shape& shape, uint64_t seed, bool nan) {
    Values values = round(uniform(shape, seed) * 3).to_vector<float>();
    for (size_t i = 100; nan && i < values.size(); i += 501) values[i] = NAN;
    return Variable(Tensor::from<float>(values, shape));
  };
  const auto pooled = [&](const MaxPool2dOptions& options) {
    Variable x = whole({4, 16, 24, 24}, 1, true).requires_grad_();
    const Variable y = conv2d(x, whole({32, 16, 1, 1}, 2, false));
    const auto [values, indices] = max_pool2d_with_indices(y, options);
    const Variable again = max_pool2d(y, options);
    sum(again * uniform(again.shape(), 7)).backward();
    Values out = values.to_vector<float>();
    for (float& v : out)
      if (std::isnan(v)) v = 12345;
    return std::tuple(out, indices.to_vector<int64_t>(), x.grad().to_vector<float>());
  };
  for (const MaxPool2dOptions& options :
       {MaxPool2dOptions{.kernel_size = 2}, MaxPool2dOptions{.kernel_size = 3, .stride = 1},
        MaxPool2dOptions{.kernel_size = 3, .stride = 1, .padding = 1, .dilation = 2},
        MaxPool2dOptions{.kernel_size = {1, 2}, .stride = Size2d{1, 2}}}) {
    const auto [plain, blocked] = both([&] { return pooled(options); });
    EXPECT_EQ(plain, blocked);
  }
}

// Operands that are constant in each channel of an image, on either side, with their gradients.
TEST(ConvLayout, ChannelsMeetImages) {
  const auto run = [] {
    Variable x = uniform({4, 16, 26, 26}, 1).requires_grad_();
    Variable scale = uniform({4, 32, 1, 1}, 3).requires_grad_();
    Variable shift = uniform({32, 1, 1}, 4).requires_grad_();
    Variable image = uniform({4, 1, 1, 1}, 5).requires_grad_();
    const Variable y = conv2d(x, uniform({32, 16, 3, 3}, 2));
    const Variable scaled = shift - y * scale.expand({4, 32, 24, 24}) / (image + 2.0);
    const Variable chosen = where(shift > 0.0, scaled, scaled * 0.5);
    const bool packed = is_packed(y) == is_packed(chosen);
    sum(chosen * chosen).backward();
    return std::pair(packed,
                     std::vector{chosen.to_vector<float>(), x.grad().to_vector<float>(),
                                 scale.grad().to_vector<float>(), shift.grad().to_vector<float>(),
                                 image.grad().to_vector<float>()});
  };
  const auto [plain, blocked] = both(run);
  EXPECT_TRUE(plain.first && blocked.first);
  for (size_t i = 0; i < plain.second.size(); ++i)
    for (size_t k = 0; k < plain.second[i].size(); ++k)
      ASSERT_FLOAT_EQ(plain.second[i][k], blocked.second[i][k]) << i << ' ' << k;
}

// Of packed operands, of operands with other channels, and of plain ones.
TEST(ConvLayout, ConcatenationKeepsBlocks) {
  const auto run = [] {
    Variable x = uniform({4, 16, 26, 26}, 1).requires_grad_();
    Variable plain = uniform({4, 16, 24, 24}, 3).requires_grad_();
    const Variable y = conv2d(x, uniform({32, 16, 3, 3}, 2));
    const Variable kept = cat({y, plain, y * 2.0}, 1);
    const Variable wider = pad(y, {0, 0, 0, 0, 16, 32}, 0.5);
    const Variable narrower = pad(y, {1, 0, 0, -3, -16, 0});
    std::vector packed{is_packed(y) == is_packed(kept), is_packed(y) == is_packed(wider)};
    const Variable mixed = cat({plain, y}, 1), odd = cat({y, narrow(plain, 1, 0, 5)}, 1);
    Variable loss = sum(conv2d(kept, uniform({16, 80, 3, 3}, 4)).square());
    for (const Variable& each : {mixed, odd, wider, narrower})
      loss = loss + sum(each * uniform(each.shape(), 5));
    loss.backward();
    return std::tuple(packed, kept.to_vector<float>(), mixed.to_vector<float>(),
                      odd.to_vector<float>(), wider.to_vector<float>(), narrower.to_vector<float>(),
                      x.grad().to_vector<float>(), plain.grad().to_vector<float>());
  };
  const auto [plain, blocked] = both(run);
  EXPECT_EQ(plain, blocked);
  EXPECT_EQ(std::get<0>(blocked), std::vector({true, true}));
}

TEST(ConvLayout, ResizedImagesStayInBlocks) {
  const auto run = [] {
    Variable x = uniform({4, 16, 26, 26}, 1).requires_grad_();
    const Variable y = conv2d(x, uniform({32, 16, 3, 3}, 2));
    std::vector<Values> values;
    Variable loss = sum(y);
    for (const char* mode : {"nearest", "bilinear", "bicubic"}) {
      const Variable z = interpolate(y, {.size = {48, 31}, .mode = mode});
      EXPECT_EQ(is_packed(y), is_packed(z)) << mode;
      loss = loss + sum(conv2d(z, uniform({16, 32, 3, 3}, 4)).square());
      values.push_back(z.to_vector<float>());
    }
    loss.backward();
    values.push_back(x.grad().to_vector<float>());
    return values;
  };
  const auto [plain, blocked] = both(run);
  EXPECT_EQ(plain, blocked);
}

TEST(ConvLayout, MeansOfWindowsStayInBlocks) {
  const auto run = [] {
    Variable x = uniform({4, 16, 26, 26}, 1).requires_grad_();
    const Variable y = conv2d(x, uniform({32, 16, 3, 3}, 2));
    std::vector<Values> values;
    Variable loss = sum(y);
    for (const Variable& z : {avg_pool2d(y, {.kernel_size = 3, .stride = 1, .padding = 1}),
                              avg_pool2d(y, {.kernel_size = {1, 2}, .count_include_pad = false}),
                              adaptive_avg_pool2d(y, {17, 19})}) {
      EXPECT_EQ(is_packed(y), is_packed(z));
      loss = loss + sum(conv2d(z, uniform({16, 32, 3, 3}, 4)).square());
      values.push_back(z.to_vector<float>());
    }
    (loss + sum(adaptive_avg_pool2d(y, 1).square())).backward();
    values.push_back(x.grad().to_vector<float>());
    return values;
  };
  const auto [plain, blocked] = both(run);
  EXPECT_EQ(plain, blocked);
}

TEST(ConvLayout, SumsOverPositionsReadBlocks) {
  const auto run = [] {
    const Variable y = convolved();
    const bool packed = is_packed(y);
    std::vector sums{mean(y, {2, 3}).to_vector<float>(),
                     sum(y, {0, 2, 3}, /*keepdim=*/true).to_vector<float>(),
                     adaptive_avg_pool2d(y, 1).to_vector<float>()};
    return std::pair(packed == is_packed(y), sums);
  };
  const auto [plain, blocked] = both(run);
  EXPECT_TRUE(plain.first && blocked.first);
  for (size_t i = 0; i < plain.second.size(); ++i)
    for (size_t k = 0; k < plain.second[i].size(); ++k)
      ASSERT_FLOAT_EQ(plain.second[i][k], blocked.second[i][k]) << i << ' ' << k;
}

void expect_close(const std::vector<Values>& plain, const std::vector<Values>& blocked) {
  for (size_t i = 0; i < plain.size(); ++i) {
    float largest = 0;
    for (const float v : plain[i]) largest = std::max(largest, std::fabs(v));
    for (size_t k = 0; k < plain[i].size(); ++k)
      ASSERT_NEAR(plain[i][k], blocked[i][k], 4e-6f * largest) << i << ' ' << k;
  }
}

TEST(ConvLayout, BatchNormAgreesToRounding) {
  const auto train = [](bool training) {
    nn::BatchNorm2d norm({.num_features = 32});
    Variable x = uniform({4, 16, 26, 26}, 1).requires_grad_();
    norm.train(training);
    const Variable y = norm(conv2d(x, uniform({32, 16, 3, 3}, 2)));
    sum(y * y * y).backward();
    return std::vector{y.to_vector<float>(), x.grad().to_vector<float>(),
                       norm.weight.grad().to_vector<float>(), norm.running_var.to_vector<float>()};
  };
  for (const bool training : {false, true}) {
    const auto [plain, blocked] = both([&] { return train(training); });
    expect_close(plain, blocked);
  }
}

// Groups of fewer channels than a block, of more, and of all.
TEST(ConvLayout, GroupNormAgreesToRounding) {
  for (const int64_t groups : {1, 2, 8, 32}) {
    const auto [plain, blocked] = both([&] {
      Variable x = uniform({4, 16, 26, 26}, 1).requires_grad_();
      Variable weight = uniform({32}, 3).requires_grad_(), bias = uniform({32}, 4).requires_grad_();
      const Variable in = conv2d(x, uniform({32, 16, 3, 3}, 2));
      const Variable y = groups == 32 ? instance_norm(in, {}, {}, weight, bias)
                                      : group_norm(in, groups, weight, bias);
      EXPECT_EQ(is_packed(in), is_packed(y));
      sum(y * y * y).backward();
      return std::vector{y.to_vector<float>(), x.grad().to_vector<float>(),
                         weight.grad().to_vector<float>(), bias.grad().to_vector<float>()};
    });
    expect_close(plain, blocked);
  }
}

// The result is in blocks with AVX-512, and plain with AVX2.
TEST(ConvLayout, VolumesAgree) {
  const auto [plain, blocked] = both([] {
    Variable x = uniform({2, 16, 10, 18, 18}, 1).requires_grad_();
    Variable w = uniform({32, 16, 3, 3, 3}, 2).requires_grad_(),
             b = uniform({32}, 3).requires_grad_();
    Variable v = uniform({32, 16, 2, 2, 2}, 4).requires_grad_();
    const Variable y = relu(conv3d(x, w, b));
    const Variable z = conv_transpose3d(max_pool3d(y, 2), v, {}, {.stride = 2});
    sum(z * z).backward();
    return std::vector{y.to_vector<float>(),        z.to_vector<float>(),
                       x.grad().to_vector<float>(), w.grad().to_vector<float>(),
                       b.grad().to_vector<float>(), v.grad().to_vector<float>()};
  });
  expect_close(plain, blocked);
}

// Convolutions of bfloat16 with batch norm, addition and pooling between them.
TEST(ConvLayout, Bfloat16Agrees) {
  const auto run = [] {
    Variable x = uniform({4, 16, 26, 26}, 1).to(bf16).detach().requires_grad_();
    const Variable w = uniform({32, 16, 3, 3}, 2).to(bf16);
    const Variable v = uniform({32, 32, 1, 1}, 3).to(bf16);
    const Variable y =
        relu(batch_norm(conv2d(x, w), {}, {}, ones({32}), zeros({32}), {.training = true}));
    const Variable z = max_pool2d(relu(conv2d(y, v) + y), {.kernel_size = 2});
    sum(z * uniform(z.shape(), 4)).backward();
    return std::pair(z.to(f32).to_vector<float>(), x.grad().to(f32).to_vector<float>());
  };
  const auto [plain, blocked] = both(run);
  const auto expect_near = [](const Values& a, const Values& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0.02 + 0.02 * std::abs(a[i]));
  };
  expect_near(plain.first, blocked.first);
  expect_near(plain.second, blocked.second);
}

/// Reshaping a packed tensor gives other channels over the same memory.
TEST(ConvLayout, ReshapedOnesAreOtherTensors) {
  const auto read = [] {
    const Shape shape{8, 16, 24, 24};
    const Variable zero = zeros({16}, {.dtype = f32}), one = ones({16}, {.dtype = f32});
    return std::tuple(
        batch_norm(reshape(convolved(), shape), zero, one, {}, {}, {}).to_vector<float>(),
        max_pool2d(reshape(convolved(), shape), {.kernel_size = 2}).to_vector<float>(),
        relu(reshape(convolved(), {4, 32, 12, 48})).to_vector<float>(),
        relu(flatten(convolved())).to_vector<float>(),
        (reshape(convolved(), shape) + reshape(convolved(), shape)).to_vector<float>(),
        conv2d(reshape(convolved(), shape), uniform({16, 16, 1, 1}, 4)).to_vector<float>());
  };
  const auto [plain, blocked] = both(read);
  EXPECT_EQ(plain, blocked);
}

TEST(ConvLayout, WritesInPlace) {
  const auto write = [] {
    Variable y = convolved(), z = convolved();
    const NoGrad off;
    relu_(y);
    y += z;
    y *= 2.0;
    Variable row = select(z, 1, 3);
    zero_(row);
    return std::pair(y.to_vector<float>(), z.to_vector<float>());
  };
  const auto [plain, blocked] = both(write);
  EXPECT_EQ(plain, blocked);
}

TEST(ConvLayout, ThreadsMayReadAtOnce) {
  const Values expected = convolved().to_vector<float>();
  const Variable w = uniform({16, 32, 1, 1}, 3), y = convolved();
  const Values next = conv2d(convolved(), w).to_vector<float>();
  std::vector<std::thread> threads;
  std::vector<Values> read(4);
  for (size_t i = 0; i < 4; ++i)
    threads.emplace_back(
        [&, i] { read[i] = i % 2 == 0 ? y.to_vector<float>() : conv2d(y, w).to_vector<float>(); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(read[i], i % 2 == 0 ? expected : next) << i;
}

TEST(ConvLayout, NoMemoryToPutThemInOrder) {
  const Variable y = convolved();
  if (!is_packed(y)) GTEST_SKIP() << "oneDNN does not choose blocks of channels on this CPU";
  const Values expected = convolved().to_vector<float>();
  empty_cache();
  set_memory_limit(memory_stats().in_use + 4096);
  EXPECT_THROW(sum(y), OutOfMemory);
  set_memory_limit(-1);
  EXPECT_EQ(y.to_vector<float>(), expected);
}

}  // namespace
}  // namespace tapegrad
