#include "ops/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/implementations.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

/// Whole numbers in [-3, 3]: sums of a few thousand products are exact in float32.
Variable integers(const Shape& shape, DType dtype = f32, int seed = 1) {
  std::vector<float> values;
  uint32_t state = uint32_t(seed) * 2654435761u;
  for (int64_t i = 0; i < numel(shape); ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(float(int(state >> 24) % 7 - 3));
  }
  return Variable(Tensor::from<float>(values, shape).to(dtype));
}

struct Results {
  std::vector<int64_t> y, dx, dw, db;
  bool operator==(const Results&) const = default;
};

/// Computes y, and the gradients for dy, by seven loops over whole numbers.
Results naive(const Variable& x, const Variable& w, const Variable& b, const Variable& dy,
              const Conv2dOptions& o) {
  const auto xs = x.to_vector<int64_t>(), ws = w.to_vector<int64_t>(), bs = b.to_vector<int64_t>(),
             dys = dy.to_vector<int64_t>();
  Results r{std::vector<int64_t>(dys.size()), std::vector<int64_t>(xs.size()),
            std::vector<int64_t>(ws.size()), std::vector<int64_t>(bs.size())};
  const int64_t in = x.size(1), height = x.size(2), width = x.size(3), out = w.size(0);
  const int64_t depth = w.size(1), kh = w.size(2), kw = w.size(3);
  size_t to = 0;
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t f = 0; f < out; ++f)
      for (int64_t i = 0; i < dy.size(2); ++i)
        for (int64_t j = 0; j < dy.size(3); ++j, ++to) {
          r.y[to] = bs[size_t(f)];
          r.db[size_t(f)] += dys[to];
          for (int64_t c = 0; c < depth; ++c)
            for (int64_t u = 0; u < kh; ++u)
              for (int64_t v = 0; v < kw; ++v) {
                const int64_t row = i * o.stride.height + u * o.dilation.height - o.padding.height;
                const int64_t column = j * o.stride.width + v * o.dilation.width - o.padding.width;
                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                const int64_t channel = f / (out / o.groups) * depth + c;
                const size_t at = size_t(((n * in + channel) * height + row) * width + column);
                const size_t k = size_t(((f * depth + c) * kh + u) * kw + v);
                r.y[to] += xs[at] * ws[k];
                r.dx[at] += ws[k] * dys[to];
                r.dw[k] += xs[at] * dys[to];
              }
        }
  return r;
}

/// Computes y and gradients by the library, and fills dy.
Results library(Variable x, Variable w, Variable b, const Conv2dOptions& o, Variable* dy) {
  x.requires_grad_(), w.requires_grad_(), b.requires_grad_();
  const Variable y = conv2d(x, w, b, o);
  *dy = integers(y.shape(), x.dtype(), 4);
  const Variable xs[] = {x, w, b};
  const auto gradients = grad(y, xs, *dy);
  return {y.to_vector<int64_t>(), gradients[0].to_vector<int64_t>(),
          gradients[1].to_vector<int64_t>(), gradients[2].to_vector<int64_t>()};
}

void sweep(DType dtype, const std::vector<int64_t>& all_channels) {
  int checked = 0;
  for (int64_t channels : all_channels)
    for (bool depthwise : {false, true})
      for (int64_t kernel : {1, 3, 5})
        for (int64_t stride : {1, 2, 3})
          for (int64_t padding : {0, 1, 2})
            for (int64_t dilation : {1, 2})
              for (int64_t size : {7, 12}) {
                if (size + 2 * padding < dilation * (kernel - 1) + 1) continue;
                if (kernel == 1 && dilation == 2) continue;  // equal to dilation 1
                if (channels == 1 && depthwise) continue;
                const int64_t groups = depthwise ? channels : 1;
                const Conv2dOptions o{
                    .stride = stride, .padding = padding, .dilation = dilation, .groups = groups};
                const int64_t out = depthwise ? channels : 8;
                const Variable x = integers({2, channels, size, size}, dtype, 1);
                const Variable w = integers({out, channels / groups, kernel, kernel}, dtype, 2);
                const Variable b = integers({out}, dtype, 3);
                Variable dy;
                const Results got = library(x, w, b, o, &dy);
                ASSERT_TRUE(got == naive(x, w, b, dy, o))
                    << dtype << " channels " << channels << " groups " << groups << " kernel "
                    << kernel << " stride " << stride << " padding " << padding << " dilation "
                    << dilation << " size " << size;
                ++checked;
              }
  EXPECT_GT(checked, 100);
}

TEST(Conv2d, T25_ExactSweepFloat32) { sweep(f32, {1, 3, 8, 16, 24, 25}); }
TEST(Conv2d, T25_ExactSweepFloat64) { sweep(f64, {1, 3, 8}); }

TEST(Conv2d, RectanglesGroupsAndOddStridesAreExact) {
  const Conv2dOptions o{.stride = {2, 1}, .padding = {0, 2}, .dilation = {1, 2}, .groups = 2};
  for (DType dtype : {f32, f64}) {
    const Variable x = integers({3, 6, 9, 11}, dtype, 1), w = integers({4, 3, 2, 3}, dtype, 2);
    const Variable b = integers({4}, dtype, 3);
    Variable dy;
    const Results got = library(x, w, b, o, &dy);
    EXPECT_EQ(dy.shape(), (Shape{3, 4, 4, 11}));
    EXPECT_TRUE(got == naive(x, w, b, dy, o));
  }
}

/// Kernels as large as the image: most of the rows that the gradient reads are outside of dy. Taps
/// of a kernel of two columns are neighbours across rows.
TEST(Conv2d, GroupsWithTallKernelsAreExact) {
  struct Case {
    Shape x, w;
    Size2d padding;
  };
  for (const Case& c :
       {Case{{2, 9, 22, 35}, {18, 1, 22, 1}, 0}, Case{{2, 6, 9, 2}, {6, 2, 3, 2}, {1, 0}},
        Case{{3, 8, 5, 4}, {8, 2, 6, 3}, {7, 1}}, Case{{1, 20, 3, 2}, {20, 1, 6, 2}, {3, 1}}}) {
    const Conv2dOptions o{.padding = c.padding, .groups = c.x[1] / c.w[1]};
    const Variable x = integers(c.x, f32, 1), w = integers(c.w, f32, 2);
    const Variable b = integers({c.w[0]}, f32, 3);
    Variable dy;
    const Results got = library(x, w, b, o, &dy);
    EXPECT_TRUE(got == naive(x, w, b, dy, o)) << c.x << ' ' << c.w;
  }
}

TEST(Conv2d, FewChannelsAreExact) {
  for (const int64_t out : {1, 3, 6, 10, 15})
    for (const int64_t width : {8, 16, 17, 40})
      for (const Conv2dOptions& o : {Conv2dOptions{}, Conv2dOptions{.padding = {2, 1}},
                                     Conv2dOptions{.padding = {3, 4}, .dilation = {2, 2}}}) {
        const Variable x = integers({5, 2, 9, width}, f32, 1), w = integers({out, 2, 3, 4}, f32, 2);
        const Variable b = integers({out}, f32, 3);
        Variable dy;
        const Results got = library(x, w, b, o, &dy);
        ASSERT_TRUE(got == naive(x, w, b, dy, o)) << out << ' ' << width;
      }
  for (const int64_t out : {1, 3, 12})  // of many input channels
    for (const int64_t width : {16, 33, 48}) {
      const Conv2dOptions o{.padding = {2, 1}};
      const Variable x = integers({2, 30, 9, width}, f32, 1);
      const Variable w = integers({out, 30, 3, 4}, f32, 2), b = integers({out}, f32, 3);
      Variable dy;
      const Results got = library(x, w, b, o, &dy);
      ASSERT_TRUE(got == naive(x, w, b, dy, o)) << out << ' ' << width;
    }
}

/// Channels that would leave a part of oneDNN's blocks empty: vectors along rows compute them.
/// Large planes have an own gradient of the weight, which is computed from bands of rows, or from
/// vectors of channels. Vectors cover two rows where rows would leave lanes empty. A stride divides
/// the gradient of the image into phases.
TEST(Conv2d, ChannelsBetweenBlocksAreExact) {
  struct Case {
    int64_t in, out, height, width;
    Size2d dilation{1}, stride{1};
    int64_t batch = 4;
    Size2d padding{2, 1};
    int64_t groups = 1;
  };
  for (const Case& c : {Case{17, 20, 9, 16},
                        Case{20, 20, 9, 64},
                        Case{5, 25, 33, 33},
                        Case{17, 33, 34, 32},
                        Case{18, 18, 36, 40, {3, 2}},
                        Case{20, 36, 35, 33, {1, 4}},
                        Case{20, 20, 30, 24},
                        Case{18, 20, 37, 20, {1, 2}},
                        Case{18, 18, 45, 59, {1}, {1}, 1},
                        Case{18, 36, 70, 104, {1}, {1}, 2},
                        Case{20, 44, 23, 25, {1}, {2, 2}},
                        Case{20, 20, 19, 70, {2, 1}, {1, 3}},
                        Case{12, 20, 31, 40, {3, 2}, {4, 2}},
                        Case{20, 20, 31, 60, {1}, {4, 5}},
                        Case{20, 40, 80, 71, {1}, {2, 2}, 2},
                        Case{36, 20, 15, 14, {1}, {1}, 9},
                        Case{48, 20, 29, 28, {2, 1}, {1, 2}, 5},
                        Case{18, 20, 17, 33, {1}, {1}, 2, {5, 6}},
                        Case{60, 24, 9, 14, {1}, {1}, 5, {2, 1}, 2},
                        Case{27, 54, 19, 21, {1}, {2, 3}, 3, {2, 1}, 3},
                        Case{4, 40, 7, 9, {2}, {1}, 2, {1}, 2}}) {
    const Conv2dOptions o{
        .stride = c.stride, .padding = c.padding, .dilation = c.dilation, .groups = c.groups};
    const Variable x = integers({c.batch, c.in, c.height, c.width}, f32, 1);
    const Variable w = integers({c.out, c.in / c.groups, 3, 4}, f32, 2);
    const Variable b = integers({c.out}, f32, 3);
    Variable dy;
    DispatchLog log;
    const Results got = library(x, w, b, o, &dy);
    if (!only_fallbacks()) {
      EXPECT_GE(log.calls("conv2d:small"), 1) << c.in << ' ' << c.out;
      EXPECT_GE(log.calls("conv2d_backward:small"), 1) << c.in << ' ' << c.out;
    }
    ASSERT_TRUE(got == naive(x, w, b, dy, o)) << c.in << ' ' << c.out << ' ' << c.width;
  }
}

TEST(Conv2d, StridedGradientsOfAnyNumberOfThreads) {
  const int64_t threads = get_num_threads();
  struct Case {
    int64_t in, out, groups = 1;
  };
  for (const auto& [in, out, groups] :
       {Case{20, 44}, Case{48, 20}, Case{12, 20}, Case{36, 60, 3}}) {
    std::vector<std::vector<float>> first;
    for (const int count : {1, 2, 5}) {
      set_num_threads(count);
      manual_seed(1);
      const Variable x = randn({5, in, 44, 45}).requires_grad_();
      const Variable w = randn({out, in / groups, 5, 5}).requires_grad_();
      const Variable b = randn({out}).requires_grad_();
      const Conv2dOptions options{.stride = 2, .padding = 2, .groups = groups};
      conv2d_relu(x, w, b, options).square().sum().backward();
      const std::vector fused{x.grad().to_vector<float>(), w.grad().to_vector<float>(),
                              b.grad().to_vector<float>()};
      x.zero_grad(), w.zero_grad(), b.zero_grad();
      relu(conv2d(x, w, b, options)).square().sum().backward();
      const std::vector apart{x.grad().to_vector<float>(), w.grad().to_vector<float>(),
                              b.grad().to_vector<float>()};
      EXPECT_EQ(fused, apart) << in << ' ' << out;
      if (first.empty() || only_fallbacks()) first = fused;
      EXPECT_EQ(fused, first) << in << ' ' << out << ' ' << count;
    }
  }
  set_num_threads(threads);
}

TEST(Conv2d, FewChannelsOfAnyNumberOfThreads) {
  const int64_t threads = get_num_threads();
  for (const int64_t out : {2, 5, 12, 20}) {
    std::vector<std::vector<float>> first;
    for (const int count : {1, 2, 5}) {
      set_num_threads(count);
      manual_seed(1);
      const Variable x = randn({2, 40, 51, 33}).requires_grad_(), w = randn({out, 40, 3, 3});
      const Variable y = conv2d_relu(x, w, randn({out}), {.padding = 1}), dy = randn(y.shape());
      const Variable dx = grad(y, x, dy, {});
      const std::vector<std::vector<float>> all{y.to_vector<float>(), dx.to_vector<float>()};
      if (first.empty() || only_fallbacks()) first = all;
      EXPECT_EQ(all, first) << out << ' ' << count;
    }
  }
  set_num_threads(threads);
}

// A window's sum contains only its own pixels: no zero times a neighbouring infinity.
TEST(Conv2d, FewChannelsKeepAnInfinityInItsWindows) {
  std::vector<float> pixels(18 * 18, 1);
  pixels[17] = INFINITY;  // at the end of the first row
  Variable x(Tensor::from<float>(pixels, {1, 1, 18, 18}));
  Variable w = ones({3, 1, 3, 3}, {.requires_grad = true});
  const Variable y = conv2d(x, w);
  sum(y).backward();
  const auto values = y.to_vector<float>(), gradient = w.grad().to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], i % 256 == 15 ? INFINITY : 9) << i;
  for (size_t i = 0; i < gradient.size(); ++i)
    EXPECT_EQ(gradient[i], i % 9 == 2 ? INFINITY : 256) << i;
}

// The elements between two rows that one vector covers belong to no window of the vector.
TEST(Conv2d, JoinedRowsKeepAnInfinityInItsWindows) {
  std::vector<float> pixels(20 * 27 * 22, 1);
  pixels[22] = INFINITY;  // of the first channel, at the beginning of the second row
  Variable x(Tensor::from<float>(pixels, {1, 20, 27, 22}));
  Variable w = ones({20, 20, 3, 3}, {.requires_grad = true});
  DispatchLog log;
  const Variable y = conv2d(x, w);
  sum(y).backward();
  EXPECT_GE(log.calls("conv2d:small"), only_fallbacks() ? 0 : 1);
  const auto values = y.to_vector<float>(), gradient = w.grad().to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = i % 500;  // in a plane of 25 x 20
    EXPECT_EQ(values[i], place == 0 || place == 20 ? INFINITY : 180) << i;
  }
  for (size_t i = 0; i < gradient.size(); ++i)
    EXPECT_EQ(gradient[i], i % 180 == 0 || i % 180 == 3 ? INFINITY : 500) << i;
}

TEST(Conv2d, T08_StridedImageAndWeightAreExact) {
  for (DType dtype : {f32, f64}) {
    const Variable x = integers({2, 3, 8, 7}, dtype, 1), w = integers({4, 3, 3, 2}, dtype, 2);
    const Variable b = integers({8}, dtype, 3);
    // The same values in other layouts: channels last, and every second element of a wider tensor.
    const Variable last = permute(clone(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
    const Variable transposed = permute(clone(permute(w, {3, 2, 1, 0})), {3, 2, 1, 0});
    const Variable spread = slice(b, 0, 0, kEnd, 2);
    ASSERT_FALSE(last.value().is_contiguous() || transposed.value().is_contiguous());
    Variable dy;
    const Results got =
        library(last.detach(), transposed.detach(), spread.detach(), {.padding = 1}, &dy);
    EXPECT_TRUE(got == naive(x, w, spread, dy, {.padding = 1}));
  }
}

TEST(Conv2d, StridedGradientIsExact) {
  Variable x = integers({2, 3, 6, 6}), w = integers({4, 3, 3, 3}, f32, 2);
  x.requires_grad_(), w.requires_grad_();
  const Variable dy = transpose(integers({2, 4, 4, 4}, f32, 5), 2, 3);
  conv2d(x, w).backward(dy);
  const Results want = naive(x, w, Variable(Tensor::full({4}, 0, f32)), dy, {});
  EXPECT_EQ(x.grad().to_vector<int64_t>(), want.dx);
  EXPECT_EQ(w.grad().to_vector<int64_t>(), want.dw);
}

TEST(Conv2d, T03_BatchOfNothingHasZeroWeightGradients) {
  for (DType dtype : {f32, f64, bf16}) {
    Variable x = integers({0, 3, 8, 8}, dtype), w = integers({4, 3, 3, 3}, dtype),
             b = integers({4}, dtype);
    x.requires_grad_(), w.requires_grad_(), b.requires_grad_();
    const Variable y = conv2d(x, w, b);
    EXPECT_EQ(y.shape(), (Shape{0, 4, 6, 6}));
    sum(y).backward();
    EXPECT_EQ(x.grad().shape(), x.shape());
    EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(108, 0.0f));
    EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(4, 0.0f));
  }
}

TEST(Conv2d, T27_OneByOneWithStride) {
  const Variable x = integers({2, 3, 7, 6}), w = integers({5, 3, 1, 1}, f32, 2);
  const Variable b = integers({5}, f32, 3);
  Variable dy;
  const Results got = library(x, w, b, {.stride = 2}, &dy);
  EXPECT_EQ(dy.shape(), (Shape{2, 5, 4, 3}));
  EXPECT_TRUE(got == naive(x, w, b, dy, {.stride = 2}));
}

TEST(Conv2d, T27_ErrorsNameTheOpAndTheSizes) {
  const Variable x = integers({2, 4, 5, 5}), w = integers({6, 4, 3, 3});
  try {
    conv2d(x, integers({6, 4, 8, 3}), {}, {.padding = 1});
    FAIL() << "a kernel of 8 in an image of 7";
  } catch (const ShapeError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("conv2d: ", 0), 0u) << text;
    EXPECT_NE(text.find("[2, 4, 5, 5]"), text.npos) << text;
    EXPECT_NE(text.find("(8, 3)"), text.npos) << text;
  }
  EXPECT_THROW(conv2d(x, w, {}, {.dilation = 3}), ShapeError);
  EXPECT_THROW(conv2d(x, integers({6, 3, 3, 3})), ShapeError);
  EXPECT_THROW(conv2d(x, w, {}, {.groups = 2}), ShapeError);
  EXPECT_THROW(conv2d(x, integers({3, 2, 3, 3}), {}, {.groups = 2}), ShapeError);
  EXPECT_THROW(conv2d(x, w, integers({5})), ShapeError);
  EXPECT_THROW(conv2d(integers({5, 5}), w), ShapeError);
  EXPECT_THROW(conv2d(x, integers({6, 36})), ShapeError);
  EXPECT_THROW(conv2d(x, w, {}, {.groups = 0}), ArgumentError);
  EXPECT_THROW(conv2d(x, w, {}, {.stride = 0}), ArgumentError);
  EXPECT_THROW(conv2d(x, w, {}, {.padding = -1}), ArgumentError);
  EXPECT_THROW(conv2d(x, w, {}, {.padding = int64_t(1) << 62}), ArgumentError);
  EXPECT_THROW(conv2d(x, integers({6, 4, 0, 3})), ArgumentError);
  EXPECT_THROW(conv2d(x, integers({6, 4, 3, 3}, f64)), DTypeError);
}

TEST(Conv2d, OnlyWantedGradientsAreComputed) {
  Variable x = integers({2, 3, 6, 6}), w = integers({4, 3, 3, 3}), b = integers({4});
  b.requires_grad_();
  sum(conv2d(x, w, b)).backward();
  EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(4, 32.0f));
  EXPECT_FALSE(x.grad().defined() || w.grad().defined());
}

TEST(Conv2d, FusedAndRecordedBackwardAgreeExactly) {
  for (DType dtype : {f32, f64, f16}) {
    Variable x = integers({2, 4, 6, 6}, dtype), w = integers({4, 2, 3, 3}, dtype, 2),
             b = integers({4}, dtype, 3);
    x.requires_grad_(), w.requires_grad_(), b.requires_grad_();
    const Variable y = conv2d(x, w, b, {.padding = 1, .groups = 2});
    const Variable dy = integers(y.shape(), dtype, 4), xs[] = {x, w, b};
    const auto fused = grad(y, xs, dy, {.retain_graph = true});
    const auto recorded = grad(y, xs, dy, {.create_graph = true});
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(fused[i].to_vector<float>(), recorded[i].to_vector<float>()) << dtype << ' ' << i;
  }
}

TEST(Conv2d, ThirdOrder) {
  Variable x = integers({1, 2, 4, 4}, f64), w = integers({2, 2, 3, 3}, f64, 2);
  x.requires_grad_(), w.requires_grad_();
  const auto result = gradcheck(
      [](const auto& in) {
        const Variable y = conv2d(in[0], in[1], {}, {.stride = 2, .padding = 1});
        const auto first =
            grad(sum(y * y * y), std::vector{in[0], in[1]}, {}, {.create_graph = true});
        return first;
      },
      {x, w}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(Conv2d, ThreadsShareThePrimitives) {
  const Variable x = integers({3, 5, 9, 9}), w = integers({6, 5, 3, 3}, f32, 2);
  const std::vector<float> want = conv2d(x, w).to_vector<float>();
  std::vector<std::vector<float>> got(8);
  std::vector<std::thread> threads;
  for (auto& result : got)
    threads.emplace_back([&] {
      const NoGrad off;
      for (int i = 0; i < 20; ++i) result = conv2d(x, w).to_vector<float>();
    });
  for (auto& thread : threads) thread.join();
  for (const auto& result : got) EXPECT_EQ(result, want);
}

/// Returns the largest difference, relative to the largest element.
double difference(const Variable& a, const Variable& b) {
  const auto as = a.to_vector<double>(), bs = b.to_vector<double>();
  double most = 0, largest = 0;
  for (size_t i = 0; i < bs.size(); ++i) {
    most = std::max(most, std::abs(as[i] - bs[i]));
    largest = std::max(largest, std::abs(bs[i]));
  }
  return most / largest;
}

/// y, dx and dw of a 3 x 3 convolution from 32 to 64 channels.
std::array<Variable, 3> wide_convolution(DType dtype) {
  manual_seed(3);
  const auto leaf = [&](const Shape& shape) {
    return rand(shape, {.dtype = f32}).value().to(dtype);
  };
  const Variable x = Variable(leaf({16, 32, 26, 26})).requires_grad_();
  const Variable w = (Variable(leaf({64, 32, 3, 3})) - 0.5).detach().requires_grad_();
  const Variable y = conv2d(x, w);
  y.backward((Variable(leaf(y.shape())) - 0.5).detach());
  return {y, x.grad(), w.grad()};
}

TEST(Conv2d, AlgorithmsAgreeToRounding) {
  ASSERT_EQ(conv_algorithm(), ConvAlgorithm::kAuto);
  const auto fast = wide_convolution(f32), exact = wide_convolution(f64);
  set_conv_algorithm(ConvAlgorithm::kDirect);
  const auto direct = wide_convolution(f32);
  set_conv_algorithm(ConvAlgorithm::kAuto);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LT(difference(direct[i], exact[i]), 5e-6) << i;
    EXPECT_LT(difference(fast[i], exact[i]), 5e-6) << i;
  }
}

TEST(Conv2d, DirectIsExactForManyChannels) {
  set_conv_algorithm(ConvAlgorithm::kDirect);
  const Variable x = integers({4, 32, 20, 20}), w = integers({32, 32, 3, 3}, f32, 2);
  const Variable y = conv2d(x, w);
  set_conv_algorithm(ConvAlgorithm::kAuto);
  EXPECT_EQ(y.to_vector<double>(),
            conv2d(Variable(x.value().to(f64)), Variable(w.value().to(f64))).to_vector<double>());
}

/// Sums of whole numbers are exact in float and rounded once, also by a processor's bfloat16
/// instructions.
TEST(Conv2d, BFloat16IsSummedInFloat) {
  set_conv_algorithm(ConvAlgorithm::kDirect);
  for (int64_t in : {1, 3, 16, 48})
    for (int64_t kernel : {1, 3})
      for (int64_t stride : {1, 2})
        for (int64_t groups : {int64_t(1), in}) {
          const Conv2dOptions options{.stride = stride, .padding = kernel / 2, .groups = groups};
          const auto run = [&](DType dtype) {
            const auto leaf = [&](const Shape& shape, int seed) {
              return integers(shape, f32, seed).to(dtype).detach().requires_grad_();
            };
            const std::vector<Variable> leaves{leaf({3, in, 17, 19}, 1),
                                               leaf({2 * in, in / groups, kernel, kernel}, 2),
                                               leaf({2 * in}, 3)};
            std::vector<Variable> results{conv2d(leaves[0], leaves[1], leaves[2], options)};
            const Variable dy = integers(results[0].shape(), f32, 4).to(dtype);
            for (const Variable& dx : grad(results[0], leaves, dy)) results.push_back(dx);
            return results;
          };
          const auto got = run(bf16), exact = run(f64);
          for (size_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(got[i].to_vector<double>(), exact[i].to(bf16).to_vector<double>())
                << i << ", in " << in << ", kernel " << kernel << ", stride " << stride
                << ", groups " << groups;
        }
  set_conv_algorithm(ConvAlgorithm::kAuto);
}

TEST(Unfold, IsConvolutionWithProducts) {
  const Variable x = integers({2, 3, 6, 5}), w = integers({4, 3, 3, 2}, f32, 2);
  const UnfoldOptions o{.kernel_size = {3, 2}, .padding = 1, .stride = 2};
  const Variable columns = unfold(x, o);
  EXPECT_EQ(columns.shape(), (Shape{2, 18, 9}));
  const Variable y = conv2d(x, w, {}, {.stride = 2, .padding = 1});
  const auto flat = columns.to_vector<double>(), weights = w.to_vector<double>();
  const auto expected = y.to_vector<double>();
  for (size_t n = 0; n < 2; ++n)
    for (size_t f = 0; f < 4; ++f)
      for (size_t i = 0; i < 9; ++i) {
        double total = 0;
        for (size_t k = 0; k < 18; ++k) total += weights[f * 18 + k] * flat[(n * 18 + k) * 9 + i];
        ASSERT_EQ(total, expected[(n * 4 + f) * 9 + i]);
      }
}

TEST(Conv2d, ReluBehindChangesNoBitAndKeepsNaN) {
  manual_seed(7);
  // Few channels with rows of every remainder, numbers of channels that fill vectors, and results
  // large enough for the packed layout.
  std::vector<std::array<int64_t, 5>> sizes{
      {3, 10, 9, 3, 1}, {30, 3, 33, 3, 1}, {4, 16, 9, 3, 1}, {32, 32, 24, 3, 1}};
  for (int64_t size = 6; size < 38; size += size < 20 ? 1 : 5)
    for (const int64_t kernel : {3, 5}) {
      sizes.push_back({1, 10, size, kernel, 1});
      sizes.push_back({3, 7, size, kernel, 2});
    }
  for (const auto& [in, out, size, kernel, stride] : sizes) {
    SCOPED_TRACE(testing::Message() << in << " to " << out << " channels, images of " << size
                                    << ", kernel of " << kernel << ", stride " << stride);
    const Conv2dOptions options{.stride = stride};
    Variable x = randn({8, in, size, size}), w = randn({out, in, kernel, kernel});
    Variable b = randn({out});
    for (Variable* leaf : {&x, &w, &b}) leaf->requires_grad_();
    const Variable one = conv2d_relu(x, w, b, options), two = relu(conv2d(x, w, b, options));
    EXPECT_EQ(one.to_vector<float>(), two.to_vector<float>());
    const auto of_one = grad(sum(square(one)), std::vector{x, w, b});
    const auto of_two = grad(sum(square(two)), std::vector{x, w, b});
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(of_one[i].to_vector<float>(), of_two[i].to_vector<float>()) << i;
    const Variable nan = full({1, in, 8, 8}, std::nan(""));
    for (const float value : conv2d_relu(nan, w, b).to_vector<float>())
      ASSERT_TRUE(std::isnan(value));
  }
}

TEST(Fold, CountsHowOftenAPixelIsSeen) {
  const UnfoldOptions o{.kernel_size = 3, .padding = 1};
  const Variable ones(Tensor::full({1, 9, 9}, 1, f32));
  EXPECT_EQ(fold(ones, 3, o).to_vector<float>(), (std::vector<float>{4, 6, 4, 6, 9, 6, 4, 6, 4}));
}

TEST(Fold, SixteenBitSumsInFloat) {
  // 400 windows read the pixel in the middle. Adding ones in bfloat16 would stop at 256.
  const Variable ones(Tensor::full({1, 400, 441}, 1, bf16));
  const Variable y = fold(ones, 20, {.kernel_size = 20, .padding = 10});
  EXPECT_EQ(y.to_vector<float>()[10 * 20 + 10], 400.0f);
}

TEST(Fold, ErrorsNameTheOp) {
  const Variable columns = integers({1, 12, 9});
  EXPECT_EQ(fold(columns, 4, {.kernel_size = 2}).shape(), (Shape{1, 3, 4, 4}));
  EXPECT_THROW(fold(columns, 4, {.kernel_size = {5, 1}}), ShapeError);  // does not fit
  EXPECT_THROW(fold(columns, 5, {.kernel_size = 2}), ShapeError);       // 16 patches instead of 9
  // 12 is not a multiple of 5
  EXPECT_THROW(fold(columns, {7, 3}, {.kernel_size = {5, 1}}), ShapeError);
  EXPECT_THROW(fold(integers({12, 9}), 4, {.kernel_size = 2}), ShapeError);
  EXPECT_THROW(fold(columns, 0, {.kernel_size = 2}), ArgumentError);
  constexpr int64_t kHuge = int64_t(1) << 62, kMost = (int64_t(1) << 31) - 1;
  EXPECT_THROW(fold(columns, {4, kHuge}, {.kernel_size = 2}), ArgumentError);
  EXPECT_THROW(fold(columns, kMost, {.kernel_size = 1, .padding = kMost}), ShapeError);
  EXPECT_THROW(unfold(integers({1, 3, 4, 4}), {.kernel_size = kMost, .padding = kMost}),
               ShapeError);
  EXPECT_THROW(unfold(integers({1, 3, 4, 4}), {.kernel_size = 5}), ShapeError);
  EXPECT_THROW(unfold(integers({3, 4, 4}), {.kernel_size = 2}), ShapeError);
  EXPECT_THROW(unfold(integers({1, 3, 4, 4}), {.kernel_size = 0}), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
