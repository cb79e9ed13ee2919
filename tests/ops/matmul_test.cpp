#include "ops/matmul.h"
#include "ops/linear.h"

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"

// Function of OpenMP. <omp.h> is not included, because tests are compiled without OpenMP.
extern "C" void omp_set_dynamic(int on);
extern "C" void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned flags);

namespace tapegrad {
namespace {

/// Whole numbers in [-3, 3], whose float32 products are exact.
Variable integers(const Shape& shape, DType dtype = f32, int seed = 1) {
  std::vector<double> values;
  uint32_t state = uint32_t(seed) * 2654435761u;
  for (int64_t i = 0; i < numel(shape); ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(double(int(state >> 24) % 7 - 3));
  }
  return Variable(Tensor::from<double>(values, shape).to(dtype));
}

std::vector<double> naive(const Variable& a, const Variable& b) {
  const auto left = a.to_vector<double>(), right = b.to_vector<double>();
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const int64_t batch = a.rank() == 3 ? a.size(0) : 1;
  std::vector<double> y;
  for (int64_t t = 0; t < batch; ++t)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += left[size_t((t * m + i) * k + l)] * right[size_t((t * k + l) * n + j)];
        y.push_back(sum);
      }
  return y;
}

/// A matrix (or batch) of this shape in one of several memory layouts.
enum class Form { kDense, kTransposed, kWideRows, kEveryOther, kGarbage };
constexpr Form kForms[] = {Form::kDense, Form::kTransposed, Form::kWideRows, Form::kEveryOther,
                           Form::kGarbage};

Variable laid_out(const Shape& shape, Form form, DType dtype, int seed) {
  const int r = shape.rank();
  const int64_t rows = shape[r - 2], columns = shape[r - 1], batch = r == 3 ? shape[0] : 1;
  const Variable values = integers(shape, dtype, seed);
  StridedLayout layout{shape, contiguous_strides(shape), 3};
  auto& step = layout.strides;
  int64_t matrix = rows * columns;
  switch (form) {
    case Form::kDense:
      break;
    case Form::kTransposed:
      step[r - 2] = 1, step[r - 1] = rows;
      break;
    case Form::kWideRows:
      step[r - 2] = columns + 3, matrix = rows * (columns + 3);
      break;
    case Form::kEveryOther:
      step[r - 2] = 2 * columns, step[r - 1] = 2, matrix = 2 * rows * columns;
      break;
    case Form::kGarbage:  // the stride of a dimension of size 1 is irrelevant
      if (rows == 1) step[r - 2] = -7777;
      if (columns == 1) step[r - 1] = 99999;
      break;
  }
  if (r == 3) step[0] = matrix;
  Tensor storage = Tensor::full({batch * matrix + 3}, 55, dtype);
  const Tensor view = storage.with_layout(layout);
  Variable y(view);
  copy_(y, values);
  return y;
}

TEST(Matmul, T07_EveryLayoutOfBothOperandsIsExact) {
  for (DType dtype : {f32, f64, bf16, i64})
    for (Form left : kForms)
      for (Form right : kForms)
        for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{
                 {5, 7, 3}, {1, 4, 6}, {6, 4, 1}, {4, 1, 5}, {1, 1, 1}, {1, 9, 1}}) {
          const Variable a = laid_out({m, k}, left, dtype, 1),
                         b = laid_out({k, n}, right, dtype, 2);
          EXPECT_EQ(matmul(a, b).to_vector<double>(), naive(a, b))
              << dtype << ' ' << int(left) << int(right) << ' ' << m << ' ' << k << ' ' << n;
        }
}

TEST(Matmul, T07_TransposedOperandsAndGradientsAreExact) {
  // All 16 combinations of plain and transposed operands and gradients, single and batched.
  for (bool batched : {false, true})
    for (int bits = 0; bits < 16; ++bits) {
      const auto shape = [&](int64_t rows, int64_t columns) {
        return batched ? Shape{3, rows, columns} : Shape{rows, columns};
      };
      const auto operand = [&](int64_t rows, int64_t columns, bool transposed, bool sliced,
                               int seed) {
        Variable x = transposed ? transpose(integers(shape(columns, rows + 2), f32, seed), -2, -1)
                                : integers(shape(rows + 2, columns), f32, seed);
        x = narrow(x, -2, sliced ? 1 : 0, rows);
        return x;
      };
      Variable a = operand(5, 4, bits & 1, bits & 4, 1), b = operand(4, 6, bits & 2, bits & 8, 2);
      a.requires_grad_(), b.requires_grad_();
      const Variable y = matmul(a, b);
      EXPECT_EQ(y.to_vector<double>(), naive(a, b)) << bits;
      const Variable dy = integers(y.shape(), f32, 3);
      y.backward(dy);
      EXPECT_EQ(a.grad().to_vector<double>(), naive(dy, transpose(b, -2, -1))) << bits;
      EXPECT_EQ(b.grad().to_vector<double>(), naive(transpose(a, -2, -1), dy)) << bits;
    }
}

TEST(Matmul, LargeProductsAndBatchesAreExact) {
  for (DType dtype : {f32, f64}) {
    const Variable a = integers({150, 130}, dtype, 1), b = integers({130, 170}, dtype, 2);
    EXPECT_EQ(matmul(a, b).to_vector<double>(), naive(a, b));
    const Variable c = integers({48, 33, 20}, dtype, 3), d = integers({48, 20, 17}, dtype, 4);
    EXPECT_EQ(bmm(c, d).to_vector<double>(), naive(c, d));
  }
}

// Many rows by few columns of a transposed matrix, as in linear(): slabs of rows, the last of them
// smaller.
TEST(Matmul, ManyRowsByATransposedMatrix) {
  const Variable wide = integers({1030, 50}, f32, 1), x = narrow(wide, 1, 3, 40),
                 w = integers({45, 40}, f32, 2);
  EXPECT_EQ(matmul(x, t(w)).to_vector<double>(), naive(x, t(w)));
  EXPECT_EQ(linear(x, w).to_vector<double>(), naive(x, t(w)));
  const int64_t before = get_num_threads();
  set_num_threads(1);
  const Variable fractions = x / 7, one = matmul(fractions, t(w));
  set_num_threads(2);
  EXPECT_EQ(matmul(fractions, t(w)).to_vector<float>(), one.to_vector<float>());
  set_num_threads(before);
}

TEST(Matmul, T03_EmptySizes) {
  EXPECT_EQ(matmul(integers({0, 5}), integers({5, 3})).shape(), (Shape{0, 3}));
  for (DType dtype : {f16, bf16, f32, f64, i32, i64, u8}) {
    const Variable y = matmul(integers({2, 0}, dtype), integers({0, 3}, dtype));
    EXPECT_EQ(y.shape(), (Shape{2, 3}));
    EXPECT_EQ(y.to_vector<double>(), std::vector<double>(6, 0.0));
  }
  EXPECT_EQ(matmul(integers({4, 2, 0}), integers({4, 0, 3})).to_vector<float>(),
            std::vector<float>(24, 0.0f));
  EXPECT_EQ(dot(integers({0}), integers({0})).item(), 0.0);
}

TEST(Linear, T03_BatchOfNothingHasZeroWeightGradients) {
  Variable x = integers({0, 3}), w = integers({4, 3}), b = integers({4});
  x.requires_grad_(), w.requires_grad_(), b.requires_grad_();
  const Variable y = linear(x, w, b);
  EXPECT_EQ(y.shape(), (Shape{0, 4}));
  sum(y).backward();
  EXPECT_EQ(x.grad().shape(), (Shape{0, 3}));
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(12, 0.0f));
  EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(4, 0.0f));
  // No inner elements: the result is the bias.
  EXPECT_EQ(linear(integers({2, 0}), integers({4, 0}), b).to_vector<float>(), [&] {
    std::vector<float> twice = b.to_vector<float>();
    twice.insert(twice.end(), twice.begin(), twice.begin() + 4);
    return twice;
  }());
}

TEST(Linear, FusedAndRecordedBackwardAgreeExactly) {
  for (const Shape& shape : {Shape{6, 3}, Shape{2, 3, 3}, Shape{3}}) {
    Variable x = integers(shape, f64, 1), w = integers({4, 3}, f64, 2), b = integers({4}, f64, 3);
    x.requires_grad_(), w.requires_grad_(), b.requires_grad_();
    const Variable y = linear(x, w, b);
    const Variable dy = integers(y.shape(), f64, 4);
    const Variable xs[] = {x, w, b};
    const auto fused = grad(y, xs, dy, {.retain_graph = true});
    const auto recorded = grad(y, xs, dy, {.create_graph = true});
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(fused[i].shape(), xs[i].shape());
      EXPECT_EQ(fused[i].to_vector<double>(), recorded[i].to_vector<double>()) << i;
    }
  }
}

TEST(Linear, SixteenBitRoundsOnce) {
  // 256 + 1 + 1: bfloat16 cannot represent 257, so rounding the product first would lose both ones.
  const Variable x(Tensor::from<float>({{256.0f, 1.0f}}, {1, 2}).to(bf16));
  const Variable w(Tensor::from<float>({{1.0f, 1.0f}}, {1, 2}).to(bf16));
  const Variable b(Tensor::from<float>({{1.0f}}, {1}).to(bf16));
  EXPECT_EQ(linear(x, w, b).item(), 258.0);
}

TEST(Matmul, IntegersWrapAround) {
  const Variable big(Tensor::from<int32_t>({{1 << 30, 1 << 30}}, {1, 2}));
  const Variable four(Tensor::from<int32_t>({{4, 2}}, {2, 1}));
  EXPECT_EQ(matmul(big, four).to_vector<int32_t>()[0], int32_t(uint32_t(1) << 31));
  const Variable bytes(Tensor::from<uint8_t>({{200, 100}}, {1, 2}));
  const Variable ones(Tensor::from<uint8_t>({{1, 1}}, {2, 1}));
  EXPECT_EQ(matmul(bytes, ones).to_vector<uint8_t>()[0], uint8_t(300 - 256));
}

TEST(Matmul, T40_ExpandedOperandsAreReadInPlace) {
  // One row expanded to many rows costs a copy of one row, and strides of 0 are respected.
  const Variable row = integers({1, 3});
  const Variable y = matmul(expand(row, {1000, 3}), integers({3, 2}, f32, 2));
  const std::vector<double> once = naive(row, integers({3, 2}, f32, 2));
  const auto values = y.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], once[i % 2]);
}

TEST(Matmul, ThirdOrder) {
  // d^3/dt^3 of the sum of the entries of (A t)(A t)(A t): matmul is linear in each use of t.
  Variable a = integers({3, 3}, f64, 1), t = integers({3, 3}, f64, 2);
  t.requires_grad_();
  const Variable y = sum(matmul(matmul(matmul(a, t), t), t));
  const Variable first = grad(y, t, {.create_graph = true});
  const Variable second = grad(sum(first * first), t, {.create_graph = true});
  EXPECT_TRUE(gradcheck(
      [&](const auto& in) {
        const Variable y = sum(matmul(matmul(matmul(a, in[0]), in[0]), in[0]));
        return grad(y, in[0], {.create_graph = true});
      },
      {t}, {.order = 2, .rtol = 1e-5}));
  EXPECT_EQ(second.shape(), t.shape());
}

TEST(Matmul, T04_ErrorsNameTheOpAndTheShapes) {
  const auto message = [](auto f) {
    try {
      f();
    } catch (const ShapeError& error) {
      const std::string text = error.message();
      return text.substr(0, text.find("\n"));  // the drawing of the shapes follows
    }
    return std::string("no ShapeError");
  };
  EXPECT_EQ(message([] {
              matmul(integers({64, 784}), integers({512, 10}));
            }),
            "matmul: inner sizes differ: [64, 784] x [512, 10]");
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{}, {3}},
                                                                 {{3}, {}},
                                                                 {{3}, {4}},
                                                                 {{2, 3}, {2}},
                                                                 {{3}, {2, 3}},
                                                                 {{2, 3, 4}, {5, 2}},
                                                                 {{2, 3, 4}, {3, 4, 5}}})
    EXPECT_THROW(matmul(integers(a), integers(b)), ShapeError) << a << b;
  EXPECT_THROW(mm(integers({3}), integers({3, 2})), ShapeError);
  EXPECT_THROW(bmm(integers({1, 2, 3}), integers({2, 3, 2})), ShapeError);
  EXPECT_THROW(bmm(integers({2, 3}), integers({3, 2})), ShapeError);
  EXPECT_THROW(dot(integers({2}), integers({3})), ShapeError);
  EXPECT_THROW(dot(integers({2, 1}), integers({2})), ShapeError);
  EXPECT_THROW(outer(integers({2, 1}), integers({2})), ShapeError);
  EXPECT_THROW(linear(integers({2, 3}), integers({4, 2})), ShapeError);
  EXPECT_THROW(linear(integers({2, 3}), integers({4})), ShapeError);
  EXPECT_THROW(linear(integers({2, 3}), integers({4, 3}), integers({3})), ShapeError);
  EXPECT_THROW(linear(integers({}), integers({4, 3})), ShapeError);
  EXPECT_THROW(matmul(integers({2, 2}), integers({2, 2}, f64)), DTypeError);
  EXPECT_THROW(linear(integers({2, 2}), integers({2, 2}), integers({2}, f64)), DTypeError);
}

/// Returns the sum of the results of linear or linear_relu times `factor`, and its gradients.
std::vector<Variable> run_linear(bool relu, const std::vector<Variable>& in,
                                 const Variable& factor) {
  const Variable y = relu ? linear_relu(in[0], in[1], in[2]) : linear(in[0], in[1], in[2]);
  std::vector<Variable> results = grad(sum(y * factor), in);
  results.push_back(y);
  return results;
}

// Narrow layers have their own kernel on the CPU. It is exact on whole numbers, for any number of
// rows before or after its tiles, and for every layout of an operand.
TEST(Linear, NarrowLayersAreExact) {
  for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {2, 20}, {20, 5}, {5, 1}, {16, 16}, {17, 33}, {64, 64}, {3, 63}})
    for (const int64_t rows : {16, 63, 64, 65, 130, 4161, 5000}) {
      std::vector<Variable> inputs{integers({rows, in}, f32, 1), integers({out, in}, f32, 2),
                                   integers({out}, f32, 3)};
      std::vector<Variable> wide;
      for (Variable& x : inputs) wide.push_back(x.to(f64).requires_grad_()), x.requires_grad_();
      const Variable factor = integers({rows, out}, f32, 4);
      for (const bool relu : {false, true}) {
        const std::vector<Variable> got = run_linear(relu, inputs, factor);
        const std::vector<Variable> wanted = run_linear(relu, wide, factor.to(f64));
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got[i].to_vector<double>(), wanted[i].to_vector<double>())
              << rows << " rows, " << in << " to " << out << ", relu " << relu << ", result " << i;
      }
    }
}

TEST(Linear, NarrowLayersTakeEveryLayout) {
  const Variable x = transpose(integers({20, 40}), 0, 1);
  Variable w = transpose(integers({20, 7}, f32, 2), 0, 1);
  EXPECT_EQ(linear_relu(x, w).to_vector<float>(),
            linear_relu(clone(x), clone(w)).to_vector<float>());
  w.requires_grad_();
  const Variable one = integers({1, 7}, f32, 3);
  const auto all_alike = grad(linear(x, w), std::vector{w}, expand(one, {40, 7}));
  EXPECT_EQ(all_alike[0].to_vector<float>(), grad(sum(linear(x, w) * one), w).to_vector<float>());
}

TEST(Linear, ReluBehindChangesNoBitAndKeepsNaN) {
  manual_seed(5);
  for (const auto& [rows, in, out] :
       std::vector<std::array<int64_t, 3>>{{300, 20, 5}, {90, 100, 80}}) {
    Variable x = randn({rows, in}), w = randn({out, in}), b = randn({out});
    for (Variable* leaf : {&x, &w, &b}) leaf->requires_grad_();
    const Variable one = linear_relu(x, w, b), two = relu(linear(x, w, b));
    EXPECT_EQ(one.to_vector<float>(), two.to_vector<float>());
    const auto of_one = grad(sum(square(one)), std::vector{x, w, b});
    const auto of_two = grad(sum(square(two)), std::vector{x, w, b});
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(of_one[i].to_vector<float>(), of_two[i].to_vector<float>()) << rows << ' ' << i;
  }
  const Variable nan = full({16, 2}, std::nan(""));
  for (const float value : linear_relu(nan, ones({3, 2})).to_vector<float>())
    EXPECT_TRUE(std::isnan(value));
}

// On the CPU in float32, layers with a medium number of rows use another algorithm. It is exact on
// whole numbers for sizes on both sides of the limits, with any number of threads.
TEST(Linear, LayersOfSomeRowsAreExact) {
  struct Sizes {
    int64_t rows, in, out;
  };
  const int64_t before = get_num_threads();
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (const auto& [rows, in, out] : std::vector<Sizes>{{15, 100, 130},
                                                          {16, 100, 41},
                                                          {16, 1, 4096},
                                                          {17, 4097, 1},
                                                          {20, 256, 300},
                                                          {37, 1960, 100},
                                                          {100, 65, 10},
                                                          {128, 513, 33},
                                                          {512, 70, 66},
                                                          {513, 70, 66}}) {
      const Variable x = integers({rows, in}, f32, 1), w = integers({out, in}, f32, 2),
                     b = integers({out}, f32, 3);
      const Variable wanted = linear(x.to(f64), w.to(f64), b.to(f64));
      Variable wide = narrow(integers({rows, in + 5}, f32, 4), 1, 2, in);
      copy_(wide, x);
      for (const Variable& from : {x, wide, transpose(clone(transpose(x, 0, 1)), 0, 1)}) {
        EXPECT_EQ(linear(from, w, b).to_vector<double>(), wanted.to_vector<double>())
            << rows << " rows, " << in << " to " << out << ", " << threads << " threads";
        EXPECT_EQ((linear(from, w) + b).to_vector<double>(), wanted.to_vector<double>());
        EXPECT_EQ(linear_relu(from, w, b).to_vector<double>(), relu(wanted).to_vector<double>());
      }
    }
  }
  set_num_threads(before);
}

TEST(Linear, RowsThatAreNotFiniteStayByThemselves) {
  constexpr int64_t kRows = 40, kIn = 129, kOut = 77;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Variable x = integers({kRows, kIn}), b = integers({kOut}, f32, 3);
  Variable w = integers({kOut, kIn}, f32, 2), last = narrow(w, 1, kIn - 1, 1);
  fill_(last, -1);
  const std::vector<float> finite = linear_relu(x, w, b).to_vector<float>();
  x.value().data<float>()[7 * kIn + 3] = std::nanf("");
  x.value().data<float>()[31 * kIn - 1] = kInfinity;  // the last element of row 30
  const std::vector<float> sums = linear(x, w, b).to_vector<float>(),
                           got = linear_relu(x, w, b).to_vector<float>();
  for (size_t i = 0; i < got.size(); ++i) {
    if (i / kOut == 7)
      ASSERT_TRUE(std::isnan(sums[i]) && std::isnan(got[i])) << i;
    else if (i / kOut == 30)
      ASSERT_TRUE(sums[i] == -kInfinity && got[i] == 0) << i;
    else
      ASSERT_EQ(got[i], finite[i]) << i;
  }
}

/// Layers of several sizes give equal results one after the other, on several threads at once, and
/// inside of a parallel region.
TEST(Linear, ManyThreadsMayUseTheSameLayers) {
  std::vector<Variable> x, w, b;
  std::vector<std::vector<float>> wanted;
  for (int64_t i = 0; i < 12; ++i) {
    x.push_back(integers({16 + 9 * i, 120 + i}, f32, int(i)));
    w.push_back(integers({90 - 3 * i, 120 + i}, f32, 50 + int(i)));
    b.push_back(integers({90 - 3 * i}, f32, 100 + int(i)));
    wanted.push_back(
        linear(x.back().to(f64), w.back().to(f64), b.back().to(f64)).to_vector<float>());
  }
  std::atomic<int> differing = 0;
  const auto run_all = [&] {
    for (int k = 0; k < 5; ++k)
      for (size_t i = 0; i < x.size(); ++i) {
        full({x[i].size(0), w[i].size(0)}, 55);  // in memory that the result will reuse
        differing += linear(x[i], w[i], b[i]).to_vector<float>() != wanted[i];
      }
  };
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(run_all);
  threads.clear();
  EXPECT_EQ(differing, 0);
  GOMP_parallel([](void* run) { (*static_cast<decltype(run_all)*>(run))(); },
                const_cast<void*>(static_cast<const void*>(&run_all)), 3, 0);
  EXPECT_EQ(differing, 0);
}

// Batches of small products, as rows and as columns of their operands, with and without repeated
// matrices, and on several threads.
TEST(Matmul, ExactForBatchesOfTinyProducts) {
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{{16, 8, 1},
                                                                   {1, 8, 16},
                                                                   {3, 3, 3},
                                                                   {1, 21, 1},
                                                                   {2, 9, 35},
                                                                   {5, 1, 17},
                                                                   {16, 16, 16},
                                                                   {31, 40, 33},
                                                                   {9, 60, 8},
                                                                   {1, 20, 70},
                                                                   {30, 70, 50},
                                                                   {8, 5, 15}})
    for (const DType dtype : {f32, f64, f16})
      for (int layout = 0; layout < 16; ++layout) {
        const auto operand = [&](int64_t rows, int64_t columns, bool turned, bool repeated,
                                 int seed) {
          const Variable x = integers(turned ? Shape{6, repeated ? 1 : 50, columns, rows}
                                             : Shape{6, repeated ? 1 : 50, rows, columns},
                                      dtype, seed);
          return turned ? transpose(x, 2, 3) : x;
        };
        const Variable a = operand(m, k, layout & 1, layout & 2, 1),
                       b = operand(k, n, layout & 4, layout & 8, 2), y = matmul(a, b);
        for (const int64_t i : {0, 5})
          for (int64_t j = 0; j < y.size(1); j += 7) {
            const auto of = [&](const Variable& x) {
              return select(select(x, 0, i), 0, std::min(j, x.size(1) - 1));
            };
            ASSERT_EQ(of(y).to_vector<double>(), naive(of(a), of(b)))
                << m << " " << k << " " << n << " " << dtype << " layout " << layout;
          }
      }
}

// A long sum of few columns that are not neighbours: packed to whole registers it would exceed the
// first-level cache.
TEST(Matmul, ExactForLongSumsOfStridedColumns) {
  for (const DType dtype : {f32, f64}) {
    const Variable wide_a = integers({4, 1, 910}, dtype, 1),
                   wide_b = integers({4, 910, 18}, dtype, 2);
    const Variable a = slice(wide_a, 2, 0, 910, 2);
    const Variable b = slice(slice(wide_b, 1, 0, 910, 2), 2, 0, 18, 2);
    const Variable y = matmul(a, b), x = matmul(transpose(b, 1, 2), transpose(a, 1, 2));
    for (int64_t i = 0; i < 4; ++i) {
      ASSERT_EQ(select(y, 0, i).to_vector<double>(), naive(select(a, 0, i), select(b, 0, i)));
      ASSERT_EQ(select(x, 0, i).to_vector<double>(), select(y, 0, i).to_vector<double>());
    }
  }
}

// The kernel relies on the number of threads that it requested; with OMP_DYNAMIC there may be
// fewer.
TEST(Matmul, ExactWhenOpenMPGivesFewerThreads) {
  const int64_t before = get_num_threads();
  for (const int64_t rows : {64, 600})
    for (const DType dtype : {f32, f64}) {
      omp_set_dynamic(1), set_num_threads(std::min<int64_t>(before * 4, 1024));
      const Variable x = integers({rows, 300}, dtype), w = integers({200, 300}, dtype, 2);
      full({rows, 200}, 55, {.dtype = dtype});  // in memory that the result will reuse
      EXPECT_EQ(linear(x, w).to_vector<double>(), naive(x, transpose(w, 0, 1)));
    }
  omp_set_dynamic(0), set_num_threads(before);
}

TEST(Matmul, IntegersOfAnyNumberOfColumns) {
  for (const DType dtype : {i64, i32, u8})
    for (const int64_t n : {1, 2, 3, 4, 7, 15, 16, 17, 31, 64, 65, 150, 300}) {
      const Variable a = tapegrad::remainder(arange(5 * 9), 7).to(dtype), x = reshape(a, {5, 9});
      const Variable y = reshape(tapegrad::remainder(arange(9 * n), 11).to(dtype), {9, n});
      const Variable wanted = matmul(x.to(f64), y.to(f64)).to(i64).to(dtype).to(i64);
      EXPECT_EQ(matmul(x, y).to(i64).to_vector<int64_t>(), wanted.to_vector<int64_t>())
          << dtype << n;
      const Variable turned = y.t().contiguous().t();
      EXPECT_EQ(matmul(x, turned).to(i64).to_vector<int64_t>(), wanted.to_vector<int64_t>())
          << dtype << n;
    }
}

}  // namespace
}  // namespace tapegrad
