#include "ops/index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/tape/view.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Doubles = std::vector<double>;
Doubles values(const Variable& x) { return x.to_vector<double>(); }
Variable counted(const Shape& shape, DType dtype = f64) {
  return reshape(arange(numel(shape), {.dtype = dtype}), shape);
}
Variable leaf(const Shape& shape) {
  Variable x = counted(shape).detach();
  return x.requires_grad_();
}
/// Returns the first entries of x along the dimensions in which `shape` has size 1.
Variable slice_to(Variable x, const Shape& shape) {
  for (int dim = 0; dim < x.rank(); ++dim)
    if (shape[dim] == 1) x = narrow(x, dim, 0, 1);
  return x;
}
/// Returns the message, without its place, of the error of type E that f throws; empty if it throws
/// none.
template <typename E, typename F>
std::string message(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.message();
  }
  return "";
}

TEST(Index, SelectsRowsAndColumns) {
  const Variable x = counted({2, 3});
  EXPECT_EQ(values(index_select(x, 0, tensor({1, 0, 1}))), (Doubles{3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(index_select(x, -1, tensor({2, 0}))), (Doubles{2, 0, 5, 3}));
  EXPECT_EQ(index_select(x, 0, tensor(std::vector<int64_t>{})).shape(), (Shape{0, 3}));
  EXPECT_EQ(index_select(zeros({3, 0}), 0, tensor({2, 2})).shape(), (Shape{2, 0}));
}

/// An expanded index gives the same results as a contiguous copy of the index.
TEST(Index, RepeatedVectorEqualsWholeIndex) {
  const Variable x = counted({4, 5});
  for (const int dim : {0, 1}) {
    const Shape along = dim == 0 ? Shape{3, 1} : Shape{1, 3};
    const Shape whole = dim == 0 ? Shape{3, 5} : Shape{4, 3};
    const Variable repeated = expand(reshape(tensor({2, 0, 2}), along), whole);
    const Variable copied = clone(repeated);
    const Variable source = counted(whole) + 100.0;
    EXPECT_EQ(values(gather(x, dim, repeated)), values(gather(x, dim, copied)));
    EXPECT_EQ(values(scatter_add(x, dim, repeated, source)),
              values(scatter_add(x, dim, copied, source)));
    EXPECT_EQ(values(scatter(x, dim, repeated, source)), values(scatter(x, dim, copied, source)));
    EXPECT_EQ(values(scatter(x, dim, repeated, 7)), values(scatter(x, dim, copied, 7)));
    for (const Reduce reduce : {Reduce::kAmax, Reduce::kAmin, Reduce::kProd})
      EXPECT_EQ(values(scatter_reduce(x, dim, repeated, source - 105.0, reduce)),
                values(scatter_reduce(x, dim, copied, source - 105.0, reduce)));
    const auto gradients = [&](const Variable& index) {
      Variable a = leaf({4, 5}), b = leaf(whole);
      const Variable y = scatter(a, dim, index, b), z = scatter_add(a, dim, index, b);
      const Variable w = gather(a, dim, index);
      (sum(y * y) + sum(z * z) * 2 + sum(w * w * w)).backward();
      return std::pair(values(a.grad()), values(b.grad()));
    };
    EXPECT_EQ(gradients(repeated), gradients(copied));
    EXPECT_EQ(message<IndexError>([&] { gather(x, dim, repeated + 3); }),
              message<IndexError>([&] { gather(x, dim, copied + 3); }));
  }
  // A part of x: the index has fewer columns.
  const Variable narrow_index = expand(reshape(tensor({1, 3}), {2, 1}), {2, 3});
  EXPECT_EQ(values(scatter(x, 0, narrow_index, 7)), values(scatter(x, 0, clone(narrow_index), 7)));
  EXPECT_EQ(values(gather(x, 0, narrow_index)), values(gather(x, 0, clone(narrow_index))));
  const Variable seven = full({2, 3}, 7);
  EXPECT_EQ(values(scatter_reduce(x, 0, narrow_index, seven.to(f64), Reduce::kAmax)),
            values(scatter_reduce(x, 0, clone(narrow_index), seven.to(f64), Reduce::kAmax)));
}

/// An index that is expanded along some dimensions gives the same results as its contiguous copy,
/// for a whole x and for a part of x, with one thread and with several.
TEST(Index, RepeatedDimensionsEqualWholeIndex) {
  struct Row {
    Shape x, index, whole;
    int dim;
  };
  const Row rows[] = {
      {{3, 7, 5}, {3, 6, 1}, {3, 6, 5}, 1},        {{3, 7, 5}, {3, 6, 1}, {3, 6, 4}, 1},
      {{3, 4, 9}, {3, 1, 6}, {3, 4, 6}, 2},        {{4, 4, 9}, {3, 1, 6}, {3, 2, 6}, 2},
      {{6, 3, 5}, {4, 3, 1}, {4, 3, 5}, 0},        {{2, 3, 4, 5}, {2, 1, 6, 1}, {2, 3, 6, 5}, 2},
      {{3, 2, 4}, {1, 2, 4}, {3, 2, 4}, 1},        {{8, 50, 300}, {8, 40, 1}, {8, 40, 300}, 1},
      {{8, 20, 90}, {8, 1, 500}, {8, 20, 500}, 2},
  };
  for (const auto& [shape, part, whole, dim] : rows)
    for (const DType dtype : {f32, f64, bf16}) {
      const Variable x = remainder(counted(shape), 13).to(dtype);
      const Variable source = remainder(counted(whole), 11).to(dtype);
      const Variable numbers = remainder(counted(part) * 7, shape[dim]).to(i64);
      const Variable repeated = expand(numbers, whole), copied = clone(repeated);
      EXPECT_EQ(values(gather(x, dim, repeated)), values(gather(x, dim, copied)));
      const Variable turned =
          transpose(clone(transpose(x, 0, shape.rank() - 1)), 0, shape.rank() - 1);
      EXPECT_EQ(values(gather(turned, dim, repeated)), values(gather(x, dim, copied)));
      EXPECT_EQ(values(scatter_add(x, dim, repeated, source)),
                values(scatter_add(x, dim, copied, source)));
    }
}

TEST(IndexSelect, CopiesRowsOfEveryWidth) {
  for (const DType dtype : {f32, f64, u8})
    for (int64_t width = 1; width <= 9; ++width)
      for (const int64_t rows : {3, 6, 20'000}) {  // several threads process the largest number
        const int64_t columns = width + (rows == 6 ? 2 : 1);  // two: rows of pairs at odd places
        const Variable x = reshape(arange(2 * 7 * columns), {2, 7, columns}).to(dtype);
        const Variable part = narrow(x, 2, 1, width), all = fmod(arange(rows), tensor({7}));
        const Variable y = index_select(part, 1, all);
        for (const int64_t k : {int64_t(0), rows / 2, rows - 1})
          for (int64_t outer = 0; outer < 2; ++outer)
            EXPECT_EQ(values(select(select(y, 0, outer), 0, k)),
                      values(select(select(part, 0, outer), 0, k % 7)))
                << dtype << ' ' << width << ' ' << k;
        const Variable dense = clone(part);
        EXPECT_EQ(values(index_select(dense, 1, all)), values(y));
      }
}

// The kernel copies runs of consecutive entries as a whole; here they begin or end on the way.
TEST(IndexSelect, RunsOfAnyLength) {
  for (const int64_t consecutive : {0, 70, 900, 4000})
    for (const bool first : {false, true}) {
      std::vector<int64_t> places;
      for (int64_t i = 0; i < 4000; ++i)
        places.push_back((i < consecutive) == first ? i : i * 7919 % 4000);
      const Variable index = tensor(places);
      for (const Variable& x : {counted({4000}), counted({4000, 3})}) {
        const auto got = values(index_select(x, 0, index)), all = values(x);
        const size_t width = size_t(x.numel() / 4000);
        ASSERT_EQ(got.size(), all.size());
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got[i], all[size_t(places[i / width]) * width + i % width]) << i;
      }
    }
}

TEST(Index, EveryTypeOfElementAndIndex) {
  for (DType dtype : {f16, bf16, f32, f64, i8, i16, i32, i64, u8, boolean}) {
    const Variable x = tensor({1, 0, 1, 1, 0, 0}, {3, 2}, {.dtype = dtype});
    for (DType index_dtype : {i32, i64}) {
      const Variable rows = tensor({2, 0}, {.dtype = index_dtype});
      const Variable y = index_select(x, 0, rows);
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(values(y), (Doubles{0, 0, 1, 0}));
      const Variable cells = tensor({2, 0, 1, 1}, {2, 2}, {.dtype = index_dtype});
      EXPECT_EQ(values(gather(x, 0, cells)), (Doubles{0, 0, 1, 1}));
      EXPECT_EQ(values(masked_fill(x, tensor({true, false}), 1)), (Doubles{1, 0, 1, 1, 1, 0}));
    }
  }
  for (DType dtype : {f16, bf16, f32, f64, u8, i32, i64}) {
    const Variable x = tensor({1, 2, 3}, {.dtype = dtype});
    const Variable index = tensor({0, 2, 0}), source = tensor({10, 20, 30}, {.dtype = dtype});
    EXPECT_EQ(values(index_add(x, 0, index, source)), (Doubles{41, 2, 23}));
    EXPECT_EQ(values(scatter_add(x, 0, index, source)), (Doubles{41, 2, 23}));
    EXPECT_EQ(index_add(x, 0, index, source, 2.0).dtype(), dtype);
    EXPECT_EQ(values(index_add(x, 0, index, source, 2.0)), (Doubles{81, 2, 43}));
  }
}

TEST(Index, T05_EveryLayoutGivesTheSameBits) {
  const Variable x = counted({3, 4, 5}, f32);
  const Variable index = tensor({1, 0, 1, 2, 0, 2}, {2, 3});  // [2, 3]
  // The same values in other layouts.
  const std::vector<Variable> layouts = {
      x,
      permute(clone(permute(x, {2, 1, 0})), {2, 1, 0}),
      slice(cat({zeros({3, 4, 2}), x}, 2), 2, 2),
      select(stack({x, x}, 1), 1, 0),
      slice(repeat_interleave(x, 2, 1), 1, 0, kEnd, 2),
  };
  const Variable row = slice(repeat_interleave(tensor({2, 0, 2}), 2, 0), 0, 0, kEnd, 2);
  const Variable cells =
      expand(reshape(transpose(clone(transpose(index, 0, 1)), 0, 1), {2, 3, 1}), {2, 3, 5});
  for (const Variable& each : layouts) {
    for (int dim = 0; dim < 3; ++dim) {
      EXPECT_EQ(values(index_select(each, dim, row)),
                values(index_select(x, dim, tensor({2, 0, 2}))));
      const Variable source = index_select(x, dim, tensor({2, 0, 2}));
      EXPECT_EQ(values(index_add(each, dim, row, source)),
                values(index_add(x, dim, tensor({2, 0, 2}), source)));
      EXPECT_EQ(values(gather(each, dim, cells)), values(gather(x, dim, clone(cells))));
      const Variable added = gather(each, dim, cells);
      EXPECT_EQ(values(scatter_add(each, dim, cells, each)),
                values(scatter_add(x, dim, clone(cells), x)));
    }
    EXPECT_EQ(values(masked_fill(each, gt(each, 30), -1)), values(masked_fill(x, gt(x, 30), -1)));
  }
}

TEST(Index, GatherAndScatterAddMeetTheirFormula) {
  const Variable x = counted({3, 4});
  const Variable index = tensor({2, 0, 1, 1, 0, 2}, {2, 3});
  EXPECT_EQ(values(gather(x, 0, index)), (Doubles{8, 1, 6, 4, 1, 10}));
  const Variable along = tensor({3, 0, 1, 1}, {2, 2});
  EXPECT_EQ(values(gather(x, 1, along)), (Doubles{3, 0, 5, 5}));
  EXPECT_EQ(values(scatter_add(zeros({3, 4}, {.dtype = f64}), 1, along, counted({3, 2}))),
            (Doubles{1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0}));
}

TEST(Index, Gradcheck) {
  const Variable x = leaf({3, 4}), source = leaf({4, 4}), rows = tensor({2, 0, 2, 1});
  const GradcheckOptions twice{.order = 2};
  const auto pass = [&](auto f, const std::vector<Variable>& inputs) {
    const GradcheckResult result = gradcheck(f, inputs, twice);
    EXPECT_TRUE(result) << result.message;
  };
  pass([&](const auto& in) { return square(index_select(in[0], 0, rows)); }, {x});
  pass([&](const auto& in) { return square(index_add(in[0], 0, rows, in[1], 0.5)); }, {x, source});
  const Variable cells = tensor({2, 0, 1, 1, 2, 2}, {2, 3});
  pass([&](const auto& in) { return square(gather(in[0], 0, cells)); }, {x});
  pass([&](const auto& in) { return square(scatter_add(in[0], 0, cells, in[1])); }, {x, source});
  pass([&](const auto& in) { return square(masked_fill(in[0], gt(x.detach(), 4.5), 7)); }, {x});
  pass([&](const auto& in) { return square(embedding(cells, in[0])); }, {x});
}

/// The gradient of gather() of an expanded value goes to the value itself, in its own size.
TEST(Index, GradientOfGatherSkipsExpansion) {
  struct Case {
    Shape origin, expanded;
    int dim;
    Shape index;
  };
  for (const auto& [origin, expanded, dim, index] : {
           Case{{2, 1, 5, 3}, {2, 4, 5, 3}, 2, {2, 4, 6, 3}},
           Case{{2, 1, 5, 3}, {2, 4, 5, 3}, 2, {1, 3, 2, 2}},  // a smaller index
           Case{{5, 3}, {2, 4, 5, 3}, 2, {2, 4, 2, 3}},        // added dimensions
           Case{{5, 3}, {4, 5, 3}, 2, {4, 5, 7}},              // not beside the dimension
           Case{{5, 1}, {5, 4}, 0, {2, 4}},                    // behind the dimension
           Case{{3, 1, 2, 1}, {3, 4, 2, 5}, 0, {6, 4, 2, 5}},  // on both sides
           Case{{3, 1}, {3, 4}, 1, {3, 6}},                    // the dimension itself
           Case{{1, 3}, {1, 3}, 0, {2, 3}},                    // nothing is repeated
           Case{{2, 1, 5}, {2, 4, 5}, 2, {2, 4, 0}},           // nothing is gathered
       }) {
    const Variable where = remainder(7 * counted(index, i64) + 3, expanded[dim]);
    const Variable weight = remainder(5 * counted(index), 11);
    Variable x = leaf(origin), copied = leaf(origin), kept = leaf(origin);
    const Variable y = gather(expand(x, expanded), dim, where);
    EXPECT_EQ(values(y), values(gather(clone(expand(copied, expanded)), dim, where)));
    sum(y * weight).backward();
    sum(gather(clone(expand(copied, expanded)), dim, where) * weight).backward();
    EXPECT_EQ(values(x.grad()), values(copied.grad())) << origin << " to " << expanded;
    Variable whole = expand(kept, expanded);
    whole.retain_grad();
    sum(gather(whole, dim, where) * weight).backward();
    EXPECT_EQ(whole.grad().shape(), expanded);
    EXPECT_EQ(values(kept.grad()), values(copied.grad()));
    if (where.numel() == 0) continue;
    const GradcheckResult result = gradcheck(
        [&, dim = dim, expanded = expanded](const auto& in) {
          return square(gather(expand(in[0], expanded), dim, where)) * weight;
        },
        {leaf(origin)}, {.order = 2});
    EXPECT_TRUE(result) << result.message;
  }
}

TEST(Index, GradientOfGatherOfExpandedValueIsSmall) {
  const Variable points = zeros({1, 256, 16}, {.requires_grad = true});  // 16 KB
  const Variable near = zeros({256, 4, 16}, {.dtype = i64});
  reset_peak_memory();
  const int64_t before = memory_stats().in_use;
  const Variable y = gather(expand(points, {256, 256, 16}), 1, near);
  sum(y).backward();
  EXPECT_LT(memory_stats().peak - before, 256 * 256 * 16);  // a quarter of the expanded value
}

TEST(Index, EmbeddingPaddingReceivesNothing) {
  Variable weight = leaf({4, 2});
  const Variable ids = tensor({1, 3, 1, 0}, {2, 2});
  const Variable y = embedding(ids, weight, 1);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(values(y), (Doubles{2, 3, 6, 7, 2, 3, 0, 1}));
  sum(y).backward();
  EXPECT_EQ(values(weight.grad()), (Doubles{1, 1, 0, 0, 0, 0, 1, 1}));
  EXPECT_THROW(embedding(ids, weight, 4), IndexError);
  EXPECT_EQ(embedding(zeros({0, 3}, {.dtype = i64}), weight).shape(), (Shape{0, 3, 2}));
  Variable thin = zeros({4, 0}, {.requires_grad = true});
  sum(embedding(ids, thin)).backward();
  EXPECT_EQ(thin.grad().shape(), (Shape{4, 0}));
}

/// The gradient of a sum or mean of looked-up rows is not copied for each row.
TEST(Index, EmbeddingGradientOfSummedRows) {
  const int64_t threads = get_num_threads();
  for (const DType dtype : {f64, f32, f16})
    for (const int64_t width : {1, 3, 4, 5, 16, 40})
      for (const int64_t words : {7, 10'000}) {
        const Variable ids = remainder(7 * counted({30, 4, 6}, i64) + 3, words);
        const Variable factor = (remainder(5 * counted({30, 4, 6, width}), 11) / 7).to(dtype);
        for (const Dims& dims : {Dims{2}, Dims{1, 2}, Dims{0, 1, 2}, Dims{1}, Dims{2, 3}}) {
          const Shape kept = sum(factor, dims, true).shape();
          const Variable part = expand(slice_to(factor, kept), {30, 4, 6, width});
          Variable whole = (ones({words, width})).to(dtype).detach().requires_grad_();
          Variable shared = (ones({words, width})).to(dtype).detach().requires_grad_();
          for (const int64_t count : {1, 3})
            for (const int64_t padding : {-1, 3}) {
              set_num_threads(count);
              for (int pass = 0; pass < 2; ++pass) {  // the second adds to the gradient
                embedding(ids, whole, padding).backward(clone(part));
                embedding(ids, shared, padding).backward(part);
              }
              EXPECT_EQ(values(shared.grad()), values(whole.grad())) << dtype << ' ' << width;
            }
        }
      }
  set_num_threads(threads);
  const Variable ids = zeros({64, 256}, {.dtype = i64});
  const Variable table = zeros({4, 16}, {.requires_grad = true});
  const Variable sums = sum(embedding(ids, table), 1);  // of 1 MB of rows
  reset_peak_memory();
  const int64_t before = memory_stats().in_use;
  sum(sums).backward();
  EXPECT_LT(memory_stats().peak - before, 64 * 256 * 16);  // a quarter of the rows
  const GradcheckResult result = gradcheck(
      [&](const auto& in) {
        return square(sum(embedding(zeros({3, 2}, {.dtype = i64}), in[0]), 1));
      },
      {leaf({4, 2})}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(Index, MaskedFillTakesTheMaskFromValueAndGradient) {
  Variable x = leaf({2, 2});
  const Variable mask = tensor({true, false, false, true}, {2, 2});
  const Variable y = masked_fill(x, mask, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(values(y), (Doubles{-INFINITY, 1, 2, -INFINITY}));
  sum(masked_fill(x, mask, 5.0)).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{0, 1, 1, 0}));
  Variable z = mul(x, 1.0);
  masked_fill_(z, tensor({true, false}), 9);
  EXPECT_EQ(values(z), (Doubles{9, 1, 9, 3}));
  x.zero_grad();
  sum(z).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{0, 1, 0, 1}));
  EXPECT_THROW(masked_fill(x, tensor({1, 0}), 0), DTypeError);
  EXPECT_THROW(masked_fill(x, tensor({true, false, true}), 0), ShapeError);
  EXPECT_THROW(masked_fill(zeros({1, 2}), mask, 0), ShapeError);
  EXPECT_THROW(masked_fill(tensor({1, 2}), tensor({true, false}), 0.5), DTypeError);
  EXPECT_THROW(masked_fill_(x, mask, 0), AutogradError);  // x is a leaf
}

TEST(Index, OneHot) {
  const Variable y = one_hot(tensor({1, 0, 2}));
  EXPECT_EQ(y.dtype(), i64);
  EXPECT_EQ(y.shape(), (Shape{3, 3}));
  EXPECT_EQ(values(y), (Doubles{0, 1, 0, 1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(one_hot(tensor({1, 0}, {2, 1}), 4).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(values(one_hot(scalar(1), 3)), (Doubles{0, 1, 0}));
  EXPECT_EQ(one_hot(tensor(std::vector<int64_t>{}), 3).shape(), (Shape{0, 3}));
  EXPECT_THROW(one_hot(tensor(std::vector<int64_t>{})), ArgumentError);
  EXPECT_THROW(one_hot(tensor({0, 3}), 3), IndexError);
  EXPECT_THROW(one_hot(tensor({0, -1})), IndexError);
  EXPECT_THROW(one_hot(tensor({std::numeric_limits<int64_t>::max()})), ArgumentError);
  EXPECT_THROW(one_hot(tensor({0.0})), DTypeError);
}

TEST(Index, T41_DuplicatesAreExactForAnyNumberOfThreads) {
  constexpr int64_t kCount = 100000;
  // Whole numbers, whose sums are exact in float32 in any order.
  const Variable ids = fmod(arange(kCount), 7);
  const Variable whole =
      expand(reshape(fmod(arange(kCount, {.dtype = f32}), 5), {kCount, 1}), {kCount, 3});
  std::vector<double> expected(7 * 3, 0.0);
  for (int64_t i = 0; i < kCount; ++i)
    for (int64_t j = 0; j < 3; ++j) expected[size_t(i % 7 * 3 + j)] += double(i % 5);
  const Variable fractions = reshape(linspace(0.1, 0.9, kCount * 3), {kCount, 3});
  const Variable cells = expand(reshape(ids, {kCount, 1}), {kCount, 3});

  const int64_t before = get_num_threads();
  std::vector<std::vector<float>> seen;
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    Variable weight = zeros({7, 3}, {.requires_grad = true});
    embedding(ids, weight).backward(whole);
    EXPECT_EQ(values(weight.grad()), expected);
    EXPECT_EQ(values(index_add(zeros({7, 3}), 0, ids, whole)), expected);
    EXPECT_EQ(values(scatter_add(zeros({7, 3}), 0, cells, whole)), expected);
    std::vector<float> bits = index_add(zeros({7, 3}), 0, ids, fractions).to_vector<float>();
    for (float x : scatter_add(zeros({7, 3}), 0, cells, fractions).to_vector<float>())
      bits.push_back(x);
    Variable other = zeros({7, 3}, {.requires_grad = true});
    embedding(ids, other).backward(fractions);
    for (float x : other.grad().to_vector<float>()) bits.push_back(x);
    seen.push_back(bits);
  }
  set_num_threads(before);
  for (const std::vector<float>& bits : seen) EXPECT_EQ(bits, seen[0]);

  // One destination for all elements, in 16 bits, where 2048 + 1 is 2048.
  const Variable nowhere = zeros({kCount}, {.dtype = i64});
  const Variable ones_f16 = ones({32768}, {.dtype = f16});
  EXPECT_EQ(scatter_add(zeros({1}), 0, nowhere, ones({kCount})).item(), double(kCount));
  EXPECT_EQ(index_add(zeros({1}), 0, nowhere, ones({kCount})).item(), double(kCount));
  EXPECT_EQ(index_add(zeros({1}, {.dtype = f16}), 0, slice(nowhere, 0, 0, 32768), ones_f16).item(),
            32768);
  EXPECT_EQ(
      scatter_add(zeros({1}, {.dtype = f16}), 0, slice(nowhere, 0, 0, 32768), ones_f16).item(),
      32768);
}

TEST(Index, T42_OutOfRange) {
  const Variable x = counted({2, 3});
  EXPECT_EQ(index_select(x, 1, tensor(2)).shape(), (Shape{2, 1}));  // one index is a vector of it
  EXPECT_EQ(index_select(sum(x), 0, tensor(0)).shape(), Shape{});
  EXPECT_THROW(index_select(x, 1, tensor(3)), IndexError);
  EXPECT_EQ(message<IndexError>([&] {
              index_select(x, 1, tensor({0, 2, 3, 4}));
            }),
            "index_select: index 3 at position [2] is outside [0, 3)");
  EXPECT_EQ(message<IndexError>([&] {
              gather(x, 0, tensor({0, 1, 0, 2}, {2, 2}));
            }),
            "gather: index 2 at position [1, 1] is outside [0, 2)");
  EXPECT_EQ(message<IndexError>([&] {
              embedding(tensor({0, 1, 0, -1}, {2, 2}), x);
            }),
            "embedding: index -1 at position [1, 1] is outside [0, 2)");
  EXPECT_EQ(message<IndexError>([&] {
              index_add(x, 0, tensor({0, 2}), x);
            }),
            "index_add: index 2 at position [1] is outside [0, 2)");
  EXPECT_EQ(message<IndexError>([&] {
              scatter_add(x, 1, tensor({7}, {1, 1}), x);
            }),
            "scatter_add: index 7 at position [0, 0] is outside [0, 3)");
  EXPECT_EQ(message<IndexError>([&] {
              index_select(zeros({0, 3}), 0, tensor({0}));
            }),
            "index_select: index 0 at position [0] is outside [0, 0)");
  EXPECT_EQ(values(x), (Doubles{0, 1, 2, 3, 4, 5}));
  // The first of many, searched by several threads.
  std::vector<int64_t> many(200000, 1);
  many[150000] = 9;
  many[190000] = 8;
  EXPECT_EQ(message<IndexError>([&] { index_select(x, 0, tensor(many)); }),
            "index_select: index 9 at position [150000] is outside [0, 2)");
}

TEST(Index, ShapeAndTypeErrors) {
  const Variable x = counted({2, 3});
  EXPECT_THROW(index_select(x, 2, tensor({0})), IndexError);
  EXPECT_THROW(index_select(x, 0, tensor({0, 1}, {1, 2})), ShapeError);
  EXPECT_THROW(index_select(x, 0, tensor({0.0})), DTypeError);
  EXPECT_THROW(index_select(x, 0, tensor(std::vector<uint8_t>{0})), DTypeError);
  EXPECT_THROW(index_add(x, 0, tensor({0}), x), ShapeError);
  EXPECT_THROW(index_add(x, 0, tensor({0, 1}), counted({2, 3}, f32)), DTypeError);
  EXPECT_THROW(index_add(tensor({1}), 0, tensor({0}), tensor({1}), 0.5), ArgumentError);
  EXPECT_THROW(gather(x, 0, tensor({0})), ShapeError);
  EXPECT_THROW(gather(x, 0, zeros({1, 4}, {.dtype = i64})), ShapeError);
  EXPECT_THROW(scatter_add(x, 0, zeros({3, 3}, {.dtype = i64}), x), ShapeError);
  EXPECT_THROW(embedding(tensor({0}), counted({3})), ShapeError);
}

TEST(Index, IndicesMayBeChangedOnlyUntilTheyAreSaved) {
  Variable x = leaf({3}), index = tensor({0, 2});
  const Variable y = index_select(x, 0, index);
  fill_(index, 1);
  EXPECT_THROW(sum(y).backward(), AutogradError);
}

TEST(Index, T40_LargeStrides) {
  // 2^33 elements in four floats.
  const Variable x = expand(tensor({1.0, 2.0, 3.0, 4.0}, {1, 4}), {int64_t(1) << 31, 4});
  EXPECT_EQ(values(gather(x, 0, tensor({(int64_t(1) << 31) - 1, int64_t(0)}, {1, 2}))),
            (Doubles{1, 2}));
  const Variable view = transpose(x, 0, 1);
  EXPECT_EQ(values(index_select(x, 0, tensor({(int64_t(1) << 31) - 1}))), (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(values(gather(view, 1, tensor({(int64_t(1) << 31) - 1}, {1, 1}))), Doubles{1});
}

// Of many rows, few are named; of many columns, some or all.
TEST(IndexAdd, FewOfManyRows) {
  for (int64_t inner : {1, 3, 300}) {
    const Variable x = zeros({1000, inner}, {.dtype = f64});
    const Variable index = tensor({999, 3, 999, 0}, {.dtype = i64});
    const Variable source = counted({4, inner}) + 1;
    const Doubles got = values(index_add(x, 0, index, source));
    Doubles expected(size_t(1000 * inner));
    const int64_t rows[] = {999, 3, 999, 0};
    for (int64_t k = 0; k < 4; ++k)
      for (int64_t j = 0; j < inner; ++j)
        expected[size_t(rows[k] * inner + j)] += double(k * inner + j + 1);
    EXPECT_EQ(got, expected) << inner;
  }
}

// Many sources of narrow rows, for any number of threads; rows without a source keep -0.
TEST(IndexAdd, NarrowRows) {
  const int64_t threads = get_num_threads();
  for (const DType dtype : {f32, f64})
    for (const int64_t inner : {1, 2, 3, 4, 5}) {
      constexpr int64_t kRows = 501, kSources = 30'000;
      std::vector<int64_t> rows;
      for (int64_t k = 0; k < kSources; ++k) rows.push_back(k * k % (kRows - 1));
      const Variable source = counted({kSources, inner}) / 1024;
      Doubles expected(size_t(kRows * inner), -0.0);
      const Doubles from = values(source);
      for (int64_t k = 0; k < kSources; ++k)
        for (int64_t j = 0; j < inner; ++j)
          expected[size_t(rows[size_t(k)] * inner + j)] += 0.5 * from[size_t(k * inner + j)];
      for (const int count : {1, 3}) {
        set_num_threads(count);
        const Variable y = index_add(full({kRows, inner}, -0.0, {.dtype = dtype}), 0, tensor(rows),
                                     source.to(dtype), 0.5);
        const Doubles got = values(y.to(f64));
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], expected[i], 1e-6 * std::abs(expected[i])) << inner << ' ' << i;
        EXPECT_TRUE(std::signbit(got.back()));
      }
    }
  set_num_threads(threads);
}

// Elements that repeat, as rows too short for a loop of their own.
TEST(Index, RepeatedElements) {
  for (DType dtype : {u8, f16, f32, f64})
    for (int64_t times : {1, 2, 3, 4, 5, 16, 17})
      for (int64_t dim : {0, 1}) {
        const Variable whole = counted({7, 401});
        const Variable x = (whole - floor(whole / 113) * 113).to(dtype);
        const Doubles from = values(x.to(f64));
        const Doubles got = values(repeat_interleave(x, times, int(dim)).to(f64));
        ASSERT_EQ(got.size(), from.size() * size_t(times));
        const int64_t inner = dim == 0 ? 401 : 1;
        for (int64_t i = 0; i < int64_t(got.size()); ++i)
          ASSERT_EQ(got[size_t(i)], from[size_t(i / (inner * times) * inner + i % inner)])
              << dtype << ' ' << times << ' ' << dim << ' ' << i;
      }
  // Starts and ends within a row.
  const Variable x = counted({5000, 3}, f32), y = expand(unsqueeze(x, 2), {5000, 3, 3}) + 1;
  const Doubles got = values(y);
  for (int64_t i = 0; i < 45000; ++i) ASSERT_EQ(got[size_t(i)], double(i / 3 + 1)) << i;
}

}  // namespace
}  // namespace tapegrad
