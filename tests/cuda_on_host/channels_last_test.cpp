// 16-bit images that stay in the channels-last layout between layers equal contiguous ones for
// every reader.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <thread>

#include "backends/cuda/layout/packed.h"
#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "cudnn_calls.h"
#include "nn/norm.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Values = std::vector<float>;

/// Returns f's results with contiguous images and with channels-last images.
template <typename F>
auto both(F f) {
  set_conv_layout(ConvLayout::kPlain);
  auto plain = f();
  set_conv_layout(ConvLayout::kBlocked);
  return std::pair(std::move(plain), f());
}

Variable uniform(const Shape& shape, uint64_t seed, DType dtype = bf16) {
  manual_seed(seed);
  return (rand(shape, {.dtype = f32}) - 0.5).to(dtype).to(gpu).detach();
}
/// Small whole numbers, whose sums are exact.
Variable whole(const Shape& shape, uint64_t seed, DType dtype = bf16) {
  manual_seed(seed);
  return randint(-2, 3, shape).to(dtype).to(gpu).detach();
}
Values values_of(const Variable& x) { return x.to(f32).to(cpu).to_vector<float>(); }

/// [4, 32, 9, 10]: large enough for the channels-last layout.
Variable convolved(DType dtype = bf16) {
  return conv2d(uniform({4, 16, 11, 12}, 1, dtype), uniform({32, 16, 3, 3}, 2, dtype));
}
bool is_packed(const Variable& x) { return x.value().storage().is_packed(); }

/// Expects equality up to `tolerance` times the largest element.
void expect_near(const std::vector<Values>& a, const std::vector<Values>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    float largest = 0;
    for (const float v : a[i]) largest = std::max(largest, std::fabs(v));
    for (size_t k = 0; k < a[i].size(); ++k)
      ASSERT_NEAR(a[i][k], b[i][k], tolerance * largest) << i << ' ' << k;
  }
}

TEST(CudaChannelsLast, StayUntilSomeoneReads) {
  for (const DType dtype : {bf16, f16}) {
    const Variable y = convolved(dtype);
    EXPECT_TRUE(is_packed(y));
    EXPECT_TRUE(coh::cudnn_used_channels_last());
    for (const Variable& z :
         {relu(y), y + y, y * 2.0, y + uniform({32, 1, 1}, 3, dtype), y.to(f32),
          batch_norm(y, {}, {}, {}, {}, {.training = true}), y + uniform(y.shape(), 3, dtype),
          max_pool2d(y, {.kernel_size = 3, .stride = 1, .padding = 1}), y.detach(),
          avg_pool2d(y, {.kernel_size = 3, .stride = 1, .padding = 1}), relu(y.to(f32)).to(dtype),
          conv2d(y, uniform({40, 32, 1, 1}, 4, dtype), uniform({40}, 5, dtype))})
      EXPECT_TRUE(is_packed(z));
    EXPECT_FALSE(is_packed(adaptive_avg_pool2d(y, 1)));
    EXPECT_FALSE(is_packed(max_pool2d(y, {.kernel_size = 2})));  // too few elements
    EXPECT_FALSE(is_packed(y > 0.0));                            // one-byte elements
  }
  const Variable y = convolved();
  EXPECT_FALSE(is_packed(adaptive_avg_pool2d(y, 1)));
  EXPECT_TRUE(is_packed(y));
  y.to(cpu);
  EXPECT_FALSE(is_packed(y));
}

TEST(CudaChannelsLast, OnlyWhereItPays) {
  const auto stays = [](const Shape& x, const Shape& weight, DType dtype,
                        const Conv2dOptions& options = {}) {
    return is_packed(conv2d(uniform(x, 1, dtype), uniform(weight, 2, dtype), {}, options));
  };
  EXPECT_TRUE(stays({2, 8, 18, 18}, {16, 8, 3, 3}, bf16));
  EXPECT_FALSE(stays({2, 8, 18, 18}, {16, 8, 3, 3}, f32));
  EXPECT_FALSE(stays({2, 3, 18, 18}, {16, 3, 3, 3}, bf16));  // a first layer
  EXPECT_FALSE(stays({2, 8, 18, 18}, {20, 8, 3, 3}, bf16));  // channels not a multiple of eight
  EXPECT_FALSE(stays({2, 16, 18, 18}, {16, 8, 3, 3}, bf16, {.groups = 2}));
  EXPECT_FALSE(stays({2, 8, 18, 18}, {16, 8, 2, 3}, bf16));  // not supported by cuDNN
  EXPECT_FALSE(stays({2, 8, 6, 6}, {16, 8, 3, 3}, bf16));    // too small
  set_conv_layout(ConvLayout::kPlain);
  EXPECT_FALSE(stays({2, 8, 18, 18}, {16, 8, 3, 3}, bf16));
  EXPECT_FALSE(coh::cudnn_used_channels_last());
  set_conv_layout(ConvLayout::kBlocked);
}

TEST(CudaChannelsLast, ReadersSeeThemInOrder) {
  const auto read = [] {
    const Variable y = convolved();
    std::ostringstream text;
    text << y;
    const Variable cut = narrow(select(convolved(), 0, 2), 0, 5, 20);
    return std::tuple(values_of(y), text.str(), values_of(cut),
                      values_of(transpose(convolved(), 1, 3)), values_of(flatten(convolved(), 1)),
                      values_of(cat(std::vector{convolved(), convolved()}, 1)),
                      values_of(convolved() > 0.0), values_of(convolved().to(f64)),
                      values_of(amax(convolved(), {1})),
                      select(flatten(convolved()), 0, 977).item());
  };
  const auto [plain, last] = both(read);
  EXPECT_EQ(plain, last);
}

/// Images of odd sizes, transposed and back.
TEST(CudaChannelsLast, OrderIsTurnedRound) {
  namespace cuda = backends::cuda;
  for (const Shape& shape : {Shape{3, 5, 7, 9}, Shape{1, 33, 65}, Shape{2, 64, 1, 32},
                             Shape{1, 1, 5, 3}, Shape{300, 3, 2, 2}})
    for (const DType dtype : {bf16, f32, i32}) {
      const Variable x = randint(-100, 100, shape).to(dtype).to(gpu);
      const Tensor pixels = cuda::pixels_or_copy(x.value());
      Variable expected = transpose(x.to(cpu), 1, 2);
      if (shape.rank() == 4) expected = transpose(expected, 2, 3);
      EXPECT_EQ(pixels.shape(), expected.shape());
      EXPECT_EQ(values_of(Variable(pixels)), values_of(expected)) << shape << ' ' << dtype;
    }
}

/// A channels-last operand combined with operands of other layouts.
TEST(CudaChannelsLast, OperandsMeet) {
  const auto meet = [] {
    const Variable y = convolved(), other = uniform(y.shape(), 3);
    const Variable turned = transpose(uniform({10, 32, 9, 4}, 4), 0, 3);  // has arbitrary strides
    const auto each = [&](const Variable& x) {
      return std::vector{values_of(convolved() + x), values_of(x - convolved()),
                         values_of(where(x > 0.0, x, convolved())),
                         values_of(lerp(convolved(), x, 0.25))};
    };
    return std::vector{each(other),
                       each(turned),
                       each(uniform({32, 1, 1}, 5)),
                       each(uniform({4, 32, 1, 1}, 6)),
                       each(uniform({4, 1, 9, 10}, 7)),
                       each(uniform({10}, 8)),
                       each(uniform({1}, 9)),
                       each(convolved() * 0.5),
                       each(uniform(y.shape(), 3, f32))};
  };
  const auto [plain, last] = both(meet);
  EXPECT_EQ(plain, last);
}

/// One row broadcast to all others: multiples of a pack and not, aligned and not, on both sides.
TEST(CudaChannelsLast, OneRowForAll) {
  for (const DType dtype : {bf16, f32, f64, i32})
    for (const int64_t columns : {8, 12, 16, 17, 24}) {
      const Variable x = whole({3, 5, columns}, 1, dtype), row = whole({columns + 1}, 2, dtype);
      for (const int64_t first : {0, 1}) {
        const Variable one = narrow(row, 0, first, columns);
        EXPECT_EQ(values_of(x - one), values_of(x.to(cpu) - one.to(cpu))) << dtype << columns;
        EXPECT_EQ(values_of(where(one > x, one, x * one)),
                  values_of(where(one.to(cpu) > x.to(cpu), one.to(cpu), x.to(cpu) * one.to(cpu))));
      }
    }
}

TEST(CudaChannelsLast, OnAnotherDevice) {
  const Device second{DeviceType::kCuda, 1};
  const Values expected = values_of(relu(convolved()));
  const Variable y =
      conv2d(uniform({4, 16, 11, 12}, 1).to(second), uniform({32, 16, 3, 3}, 2).to(second));
  EXPECT_TRUE(is_packed(y));
  EXPECT_EQ(values_of(relu(convolved())), expected);  // the first result is of this thread
  EXPECT_EQ(values_of(relu(y)), expected);
  EXPECT_EQ(values_of(convolved().to(second)), values_of(y));
}

/// Values and gradients of layers that all keep the layout. Gradients of biases are float sums.
TEST(CudaChannelsLast, LayersAgree) {
  const auto train = [](std::vector<Values>& exact) -> std::vector<Values> {
    Variable x = uniform({4, 16, 11, 12}, 1), w1 = uniform({32, 16, 3, 3}, 2);
    Variable w2 = uniform({32, 32, 3, 3}, 3), b = uniform({32}, 4), w3 = uniform({8, 32, 1, 1}, 5);
    for (Variable* v : {&x, &w1, &w2, &w3, &b}) v->requires_grad_();
    const Variable first = conv2d_relu(x, w1, b, {.padding = 1});
    const Variable second = conv2d(first, w2, b, {.padding = 1});
    const Variable both = tanh(second + first) * 0.5;  // a residual
    const Variable pooled = max_pool2d(both, {.kernel_size = 3, .stride = 1, .padding = 1});
    // Averages of four, since cuDNN pools contiguous images and does not round every quotient like
    // ours.
    const Variable smooth = avg_pool2d(pooled, {.kernel_size = 2, .stride = 1, .padding = 1});
    const Variable third = sigmoid(conv2d(smooth, w2, {}, {.padding = 1}));
    Variable last = third * 2;
    last += third;
    const Variable means = adaptive_avg_pool2d(conv2d(last, w3), 1);
    mean(last * last).backward({.retain_graph = true});
    sum(means).backward();
    exact = {values_of(last),      values_of(means),     values_of(x.grad()),
             values_of(w1.grad()), values_of(w2.grad()), values_of(w3.grad())};
    return {values_of(b.grad())};
  };
  std::vector<Values> plain, last;
  set_conv_layout(ConvLayout::kPlain);
  const auto plain_sums = train(plain);
  set_conv_layout(ConvLayout::kBlocked);
  const auto last_sums = train(last);
  EXPECT_EQ(plain, last);
  expect_near(plain_sums, last_sums, 8e-3f);
}

/// Exact for every order of summation.
TEST(CudaChannelsLast, WholeNumbersAgreeToTheBit) {
  const auto train = [] {
    std::vector<Values> results;
    struct Geometry {
      Shape x, weight;
      Conv2dOptions options{};
    };
    for (const Geometry& g :
         {Geometry{{4, 16, 9, 10}, {32, 16, 3, 3}, {.padding = 1}},
          Geometry{{4, 16, 20, 18}, {32, 16, 3, 3}, {.stride = 2, .padding = 1}},
          Geometry{{4, 8, 9, 10}, {40, 8, 1, 1}},
          Geometry{{4, 8, 19, 20}, {40, 8, 1, 1}, {.stride = {1, 2}}},
          Geometry{{2, 8, 16, 17}, {24, 8, 5, 3}, {.padding = {2, 0}, .dilation = {1, 2}}}}) {
      Variable x = whole(g.x, 1, f16).requires_grad_();
      Variable w = whole(g.weight, 2, f16).requires_grad_();
      Variable b = whole({g.weight[0]}, 3, f16).requires_grad_();
      const Variable y = conv2d_relu(x, w, b, g.options);
      sum(y * whole(y.shape(), 4, f16)).backward();
      for (const Variable& v : std::vector<Variable>{y, x.grad(), w.grad(), b.grad()})
        results.push_back(values_of(v));
    }
    return results;
  };
  const auto [plain, last] = both(train);
  EXPECT_EQ(plain, last);
}

TEST(CudaChannelsLast, GradientsStayToo) {
  const auto is_packed_gradient = [](const auto& layer) {
    const Variable x = relu(convolved().requires_grad_());
    const Variable y = layer(x);
    bool packed = false;
    x.register_hook([&](const Variable& g) {
      packed = is_packed(g);
      return g;
    });
    sum(y * y.detach()).backward();
    return packed;
  };
  EXPECT_TRUE(is_packed_gradient([](const Variable& x) { return relu(x); }));
  EXPECT_TRUE(is_packed_gradient([](const Variable& x) { return x + x; }));
  EXPECT_TRUE(is_packed_gradient([](const Variable& x) {
    return conv2d(x, uniform({16, 32, 3, 3}, 4), {}, {.padding = 1});
  }));
  EXPECT_TRUE(is_packed_gradient(
      [](const Variable& x) { return batch_norm(x, {}, {}, {}, {}, {.training = true}); }));
  EXPECT_TRUE(is_packed_gradient([](const Variable& x) {
    return max_pool2d(x, {.kernel_size = 3, .stride = 1, .padding = 1});
  }));
  EXPECT_TRUE(is_packed_gradient([](const Variable& x) {
    return avg_pool2d(x, {.kernel_size = 3, .stride = 1, .padding = 1});
  }));
  EXPECT_TRUE(is_packed_gradient([](const Variable& x) { return x.to(f32); }));
  EXPECT_TRUE(is_packed_gradient([](const Variable& x) { return adaptive_avg_pool2d(x, 1); }));

  // After a first layer, whose images are contiguous, the gradient is contiguous too.
  const Variable x = uniform({4, 32, 9, 10}, 1).requires_grad_();
  const Variable y = max_pool2d(x, {.kernel_size = 3, .stride = 1, .padding = 1});
  y.backward(convolved());
  EXPECT_FALSE(is_packed(x.grad()));
}

TEST(CudaChannelsLast, PoolingKeepsItsRules) {
  const auto pooled = [&](const MaxPool2dOptions& options) {
    // Many equal elements, and pixels that are NaN in all channels.
    Values numbers = values_of(whole({4, 16, 14, 13}, 1));
    for (size_t i = 100; i < numbers.size(); i += 501) numbers[i] = NAN;
    Variable x = Variable(Tensor::from<float>(numbers, {4, 16, 14, 13})).to(bf16).to(gpu).detach();
    x.requires_grad_();
    const Variable y = conv2d(x, whole({32, 16, 1, 1}, 2));
    const auto [values, indices] = max_pool2d_with_indices(y, options);
    const Variable again = max_pool2d(y, options);
    sum(again * uniform(again.shape(), 7)).backward();
    Values out = values_of(values), gradient = values_of(x.grad());
    for (Values* all : {&out, &gradient})
      for (float& v : *all)
        if (std::isnan(v)) v = 12345;
    return std::tuple(out, indices.to(cpu).to_vector<int64_t>(), gradient);
  };
  for (const MaxPool2dOptions& options :
       {MaxPool2dOptions{.kernel_size = 2}, MaxPool2dOptions{.kernel_size = 3, .stride = 1},
        MaxPool2dOptions{.kernel_size = 3, .stride = 1, .padding = 1, .dilation = 2},
        MaxPool2dOptions{.kernel_size = {1, 2}, .stride = Size2d{1, 2}}}) {
    const auto [plain, last] = both([&] { return pooled(options); });
    EXPECT_EQ(plain, last);
  }
  const auto averages = [] {
    Variable x = whole({4, 16, 14, 13}, 1).requires_grad_();
    const Variable y = conv2d(x, whole({32, 16, 1, 1}, 2));
    const Variable a = adaptive_avg_pool2d(y, {11, 12}), b = adaptive_avg_pool2d(y, 1);
    const Variable c = adaptive_max_pool2d(y, {11, 12});
    sum(a * whole(a.shape(), 3) + c * whole(a.shape(), 4)).backward({.retain_graph = true});
    sum(b * whole(b.shape(), 5)).backward();
    return std::vector{values_of(a), values_of(b), values_of(c), values_of(x.grad())};
  };
  const auto [plain, last] = both(averages);
  EXPECT_EQ(plain, last);
}

TEST(CudaChannelsLast, BatchNormAgreesToRounding) {
  const auto train = [](bool training, int64_t channels) {
    nn::BatchNorm2d norm({.num_features = channels});
    norm.to(gpu);
    const bool many = channels > 1000;  // more strips than blocks
    Variable x = uniform(many ? Shape{2, 8, 4, 4} : Shape{4, 16, 19, 18}, 1).requires_grad_();
    norm.train(training);
    const Variable y = norm(conv2d(x, uniform({channels, x.size(1), 3, 3}, 2)));
    EXPECT_EQ(is_packed(y), conv_layout() == ConvLayout::kBlocked);
    sum(y.to(f32) * y.to(f32) * y.to(f32)).backward();
    return std::vector{values_of(y), values_of(x.grad()), values_of(norm.weight.grad()),
                       values_of(norm.bias.grad()), values_of(norm.running_var)};
  };
  for (const int64_t channels : {8, 40, 4200})
    for (const bool training : {false, true}) {
      const auto [plain, last] = both([&] { return train(training, channels); });
      expect_near(plain, last, 8e-3f);
      // float32 results have a smaller rounding error.
      expect_near({plain[4]}, {last[4]}, 1e-6f);
      expect_near({plain[2], plain[3]}, {last[2], last[3]}, training ? 2e-3f : 1e-5f);
    }
}

/// One of the two gradients is contiguous.
TEST(CudaChannelsLast, BatchNormTakesOneOfEach) {
  const auto train = [](bool image_is_last) {
    Variable x = image_is_last ? convolved() : uniform({4, 32, 9, 10}, 1);
    Variable leaf = x.requires_grad_();
    const Variable y = batch_norm(leaf, {}, {}, {}, {}, {.training = true});
    y.backward(image_is_last ? uniform(y.shape(), 2) : convolved());
    return std::vector{values_of(y), values_of(leaf.grad())};
  };
  for (const bool image_is_last : {false, true}) {
    const auto [plain, last] = both([&] { return train(image_is_last); });
    expect_near(plain, last, 8e-3f);
  }
}

/// Reshaping gives other channels over the same memory.
TEST(CudaChannelsLast, ReshapedOnesAreOtherTensors) {
  const auto read = [] {
    const Shape shape{8, 16, 9, 10};
    const Variable zero = zeros({16}, {.dtype = f32, .device = gpu});
    const Variable one = ones({16}, {.dtype = f32, .device = gpu});
    return std::tuple(values_of(batch_norm(reshape(convolved(), shape), zero, one, {}, {}, {})),
                      values_of(group_norm(convolved(), 4)),
                      values_of(max_pool2d(reshape(convolved(), shape), {.kernel_size = 2})),
                      values_of(relu(reshape(convolved(), {4, 32, 6, 15}))),
                      values_of(relu(reshape(convolved(), {4, 32, 90}))),
                      values_of(relu(flatten(convolved()))),
                      values_of(reshape(convolved(), shape) + reshape(convolved(), shape)),
                      values_of(reshape(convolved(), {4, 32, 6, 15}) + uniform({6, 1}, 3)),
                      values_of(conv2d(reshape(convolved(), shape), uniform({16, 16, 1, 1}, 4))));
  };
  const auto [plain, last] = both(read);
  EXPECT_EQ(plain, last);
}

TEST(CudaChannelsLast, WritesInPlace) {
  const auto write = [] {
    Variable y = convolved(), z = convolved(), in_order = uniform(y.shape(), 3);
    const NoGrad off;
    const Variable view = select(in_order, 0, 1);
    relu_(y);
    y += z;
    y *= 2.0;
    y += uniform(y.shape(), 5);
    in_order += z;
    EXPECT_FALSE(is_packed(in_order));  // other aliases see where the values are
    Variable row = select(z, 1, 3);
    zero_(row);
    Variable copied = uniform(y.shape(), 6), filled = convolved(), over = convolved();
    copy_(copied, y);
    zero_(filled);
    copy_(over, uniform(y.shape(), 7));
    return std::vector{values_of(y),      values_of(z),      values_of(in_order), values_of(view),
                       values_of(copied), values_of(filled), values_of(over)};
  };
  const auto [plain, last] = both(write);
  EXPECT_EQ(plain, last);
}

TEST(CudaChannelsLast, ThreadsMayReadAtOnce) {
  const Values expected = values_of(convolved());
  const Variable w = uniform({16, 32, 1, 1}, 3), y = convolved();
  const Values next = values_of(conv2d(convolved(), w));
  std::vector<std::thread> threads;
  std::vector<Values> read(4);
  for (size_t i = 0; i < 4; ++i)
    threads.emplace_back(
        [&, i] { read[i] = i % 2 == 0 ? values_of(y * 1.0) : values_of(conv2d(y, w)); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(read[i], i % 2 == 0 ? expected : next) << i;
}

TEST(CudaChannelsLast, NoMemoryToPutThemInOrder) {
  const Variable y = convolved();
  const Values expected = values_of(convolved());
  std::vector<Variable> taken;
  empty_cache(gpu);
  const MemoryStats before = memory_stats(gpu);
  set_memory_limit(before.in_use + before.cached, gpu);
  try {  // until less than an image is left
    while (true) taken.push_back(zeros({512}, {.dtype = f32, .device = gpu}));
  } catch (const OutOfMemory&) {
  }
  EXPECT_THROW(y.value().storage().data(), OutOfMemory);
  EXPECT_TRUE(is_packed(y));
  set_memory_limit(-1, gpu);
  EXPECT_EQ(values_of(y), expected);
}

}  // namespace
}  // namespace tapegrad
