#include "ops/view.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad {
namespace {

using Doubles = std::vector<double>;
Doubles values(const Variable& x) { return x.to_vector<double>(); }
/// 0, 1, 2, ... in the given shape.
Variable counted(const Shape& shape, DType dtype = f64) {
  return reshape(arange(numel(shape), {.dtype = dtype}), shape);
}
bool shares(const Variable& a, const Variable& b) { return a.value().shares_storage(b.value()); }

TEST(View, ReshapeCompletesOneSize) {
  const Variable x = counted({2, 6});
  EXPECT_EQ(reshape(x, {3, -1}).shape(), (Shape{3, 4}));
  EXPECT_EQ(reshape(x, {-1}).shape(), Shape{12});
  EXPECT_EQ(reshape(counted({1}), {}).rank(), 0);
  EXPECT_EQ(reshape(zeros({2, 0}), {0, 5}).shape(), (Shape{0, 5}));
  EXPECT_EQ(reshape(zeros({0}), {-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_TRUE(shares(x, reshape(x, {4, 3})));
}

TEST(View, T04_ReshapeErrors) {
  const Variable x = counted({2, 6});
  EXPECT_THROW(reshape(zeros({0}), {-1, 0}), ArgumentError);
  EXPECT_THROW(reshape(x, {-1, 0}), ArgumentError);
  EXPECT_THROW(reshape(x, {-1, -1}), ArgumentError);
  EXPECT_THROW(reshape(x, {-2, 6}), ArgumentError);
  EXPECT_THROW(reshape(x, {5, -1}), ArgumentError);
  EXPECT_THROW(reshape(x, {3, 5}), ShapeError);
  EXPECT_THROW(reshape(x, {int64_t(1) << 40, int64_t(1) << 40}), ShapeError);
  try {
    reshape(x, {3, 5});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.message(), "reshape: the number of elements differs: [2, 6] to [3, 5]");
  }
}

TEST(View, T09_ReshapeCopiesWhereViewCannot) {
  const Variable x = transpose(counted({2, 3}), 0, 1);
  EXPECT_THROW(view(x, {6}), ShapeError);
  EXPECT_EQ(values(reshape(x, {6})), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_FALSE(shares(x, reshape(x, {6})));
  // If the strides permit, the result is a view, also for tensors that are not contiguous.
  EXPECT_TRUE(shares(x, view(x, {3, 1, 2, 1})));
  EXPECT_EQ(values(view(x, {3, 1, 2, 1})), values(x));
  const Variable wide = slice(counted({4, 6}), 0, 0, kEnd, 2);  // rows 0 and 2
  EXPECT_EQ(values(view(wide, {2, 2, 3})), values(wide));
  EXPECT_THROW(view(wide, {12}), ShapeError);
  const Variable repeated = expand(counted({3, 1}), {3, 4});
  EXPECT_EQ(values(view(repeated, {3, 2, 2})), values(repeated));
  EXPECT_THROW(view(repeated, {12}), ShapeError);
  const Variable rows = expand(counted({1, 40, 1, 1}), {2, 40, 6, 40});  // 240 times each number
  const auto all = values(clone(rows));
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], double(i / 240 % 40));
  const Variable same = expand(counted({1, 1}), {3, 4});  // all strides 0
  EXPECT_EQ(view(same, {12}).shape(), Shape{12});
  const Variable columns = slice(counted({2, 3, 4}), 2, 0, kEnd, 2);
  EXPECT_EQ(values(view(columns, {6, 2})), values(columns));
  EXPECT_EQ(view(transpose(zeros({2, 0}), 0, 1), {5, 0}).shape(), (Shape{5, 0}));

  for (const bool copies : {false, true}) {
    Variable leaf = counted({2, 3}).requires_grad_();
    const Variable seen = copies ? reshape(transpose(leaf, 0, 1), {6}) : view(leaf, {6});
    sum(mul(seen, counted({6}))).backward();
    EXPECT_EQ(values(leaf.grad()), copies ? (Doubles{0, 2, 4, 1, 3, 5}) : values(counted({6})));
  }
}

TEST(View, SizeOneDimensionsMayHaveAnyStride) {
  const Tensor odd = counted({2, 3}).value().with_layout({{1, 2, 1, 3}, {77, 3, -5, 1}, 0});
  EXPECT_EQ(values(view(Variable(odd), {6})), (Doubles{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(view(Variable(odd), {2, 1, 3})), (Doubles{0, 1, 2, 3, 4, 5}));
}

TEST(View, PermuteAndTranspose) {
  const Variable x = counted({2, 3});
  EXPECT_EQ(values(transpose(x, 0, -1)), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(permute(x, {-1, 0})), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(t(x)), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_THROW(permute(x, {0, 0}), ArgumentError);
  EXPECT_THROW(permute(x, {0}), ShapeError);
  EXPECT_THROW(permute(x, {0, 2}), IndexError);
  EXPECT_THROW(permute(x, {0, (int64_t(1) << 32) + 1}), IndexError);
  EXPECT_THROW(transpose(x, 0, 2), IndexError);
  EXPECT_THROW(t(counted({2, 2, 2})), ShapeError);
}

TEST(View, SliceAsInPython) {
  const Variable x = counted({10});
  EXPECT_EQ(values(slice(x, 0, 2, 9, 3)), (Doubles{2, 5, 8}));
  EXPECT_EQ(values(slice(x, 0, -3)), (Doubles{7, 8, 9}));
  EXPECT_EQ(values(slice(x, 0, 0, -8)), (Doubles{0, 1}));
  EXPECT_EQ(slice(x, 0, 7, 3).shape(), Shape{0});
  EXPECT_EQ(slice(x, 0, 20).shape(), Shape{0});
  EXPECT_EQ(slice(x, 0, -100, 100).numel(), 10);
  EXPECT_EQ(values(slice(x, 0, 4, kEnd, kEnd)), Doubles{4});
  EXPECT_EQ(values(slice(x, 0, std::numeric_limits<int64_t>::min(), 2)), (Doubles{0, 1}));
  EXPECT_THROW(slice(x, 0, 0, 5, 0), ArgumentError);
  EXPECT_THROW(slice(x, 0, 0, 5, -1), ArgumentError);
  EXPECT_THROW(slice(x, 1, 0), IndexError);
}

TEST(View, NarrowAndSelect) {
  const Variable x = counted({2, 3});
  EXPECT_EQ(values(narrow(x, 1, 1, 2)), (Doubles{1, 2, 4, 5}));
  EXPECT_EQ(values(narrow(x, 1, -2, 1)), (Doubles{1, 4}));
  EXPECT_EQ(narrow(x, 1, 3, 0).shape(), (Shape{2, 0}));
  EXPECT_THROW(narrow(x, 1, 2, 2), IndexError);
  EXPECT_THROW(narrow(x, 1, 0, -1), IndexError);
  EXPECT_THROW(narrow(x, 1, 1, kEnd), IndexError);
  EXPECT_EQ(values(select(x, 0, -1)), (Doubles{3, 4, 5}));
  EXPECT_EQ(select(select(x, 0, 1), 0, 2).item(), 5);
  EXPECT_THROW(select(x, 1, 3), IndexError);
  EXPECT_THROW(select(x, 1, -4), IndexError);
  EXPECT_THROW(select(scalar(1.0), 0, 0), IndexError);
}

TEST(View, Expand) {
  const Variable x = counted({2, 1});
  EXPECT_EQ(values(expand(x, {-1, 3})), (Doubles{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(expand(x, {4, 2, 3}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(expand(scalar(1.0), {2, 2}).shape(), (Shape{2, 2}));
  EXPECT_EQ(expand(x, {2, 0}).numel(), 0);
  EXPECT_TRUE(shares(x, expand(x, {2, 3})));
  EXPECT_THROW(expand(x, {3, 3}), ShapeError);
  EXPECT_THROW(expand(x, {2}), ShapeError);
  EXPECT_THROW(expand(x, {-1, 2, 3}), ShapeError);  // -1 has no size to keep
  EXPECT_THROW(expand(x, {2, -2}), ShapeError);
}

TEST(View, SqueezeAndUnsqueeze) {
  const Variable x = counted({1, 3, 1});
  EXPECT_EQ(squeeze(x).shape(), Shape{3});
  EXPECT_EQ(squeeze(x, 0).shape(), (Shape{3, 1}));
  EXPECT_EQ(squeeze(x, 1).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), (Shape{1, 3, 1, 1}));
  EXPECT_EQ(unsqueeze(x, 0).shape(), (Shape{1, 1, 3, 1}));
  EXPECT_THROW(unsqueeze(x, 4), IndexError);
  EXPECT_THROW(squeeze(x, 3), IndexError);
  EXPECT_THROW(unsqueeze(zeros({1, 1, 1, 1, 1, 1, 1, 1}), 0), ShapeError);  // a ninth
  // Also views for a transposed tensor.
  const Variable y = transpose(counted({2, 3}), 0, 1);
  EXPECT_TRUE(shares(y, unsqueeze(y, 1)));
  EXPECT_EQ(values(squeeze(unsqueeze(y, 1))), values(y));
}

TEST(View, UnfoldSumsWhereWindowsOverlap) {
  Variable x = counted({5}).requires_grad_();
  const Variable y = x.unfold(0, 3, 1);
  EXPECT_EQ(values(y), (Doubles{0, 1, 2, 1, 2, 3, 2, 3, 4}));
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 2, 3, 2, 1}));
  EXPECT_EQ(x.unfold(0, 2, 3).shape(), (Shape{2, 2}));
  EXPECT_THROW(x.unfold(0, 6, 1), ShapeError);
  EXPECT_THROW(x.unfold(0, 2, 0), ArgumentError);
  EXPECT_THROW(x.unfold(1, 1, 1), IndexError);
}

TEST(View, FlattenKeepsTheRest) {
  EXPECT_EQ(flatten(scalar(1.0)).shape(), Shape{1});
  EXPECT_EQ(flatten(zeros({2, 3, 4}), 1).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(zeros({2, 3, 4}), 0, -2).shape(), (Shape{6, 4}));
  EXPECT_THROW(flatten(zeros({2, 3}), 1, 0), ArgumentError);
}

TEST(View, CatPromotesAndSkipsEmptyVectors) {
  const Variable x = counted({2, 3}, f32);
  EXPECT_EQ(cat({x, counted({2, 3}, f64)}).dtype(), f64);
  EXPECT_EQ(cat({x, counted({2, 3}, i64)}).dtype(), f32);
  EXPECT_EQ(values(cat({zeros({0}), x, zeros({0})}, 1)), values(x));
  EXPECT_EQ(cat({zeros({0}), zeros({0})}).shape(), Shape{0});
  EXPECT_EQ(cat({zeros({2, 0}), x}, 1).shape(), (Shape{2, 3}));
  EXPECT_FALSE(shares(x, cat({x})));
  EXPECT_THROW(cat({x, counted({3, 3}, f32)}, 1), ShapeError);
  EXPECT_THROW(cat({x, counted({3}, f32)}), ShapeError);
  EXPECT_THROW(cat(std::span<const Variable>()), ArgumentError);
  EXPECT_THROW(cat({x, x}, 2), IndexError);
  EXPECT_THROW(cat({scalar(1.0), scalar(2.0)}), IndexError);
  EXPECT_THROW(stack({x, counted({3, 2}, f32)}), ShapeError);
  EXPECT_EQ(values(stack({scalar(1.0), scalar(2.0)})), (Doubles{1, 2}));
  EXPECT_EQ(stack({x, x}, -1).shape(), (Shape{2, 3, 2}));

  // Each gradient has the dtype and shape of its input.
  Variable a = counted({2}, f32).requires_grad_(), b = counted({3}, f64).requires_grad_();
  Variable none = zeros({0}, {.requires_grad = true});
  sum(mul(cat({a, none, b}), counted({5}))).backward();
  EXPECT_EQ(a.grad().dtype(), f32);
  EXPECT_EQ(values(a.grad()), (Doubles{0, 1}));
  EXPECT_EQ(values(b.grad()), (Doubles{2, 3, 4}));
  EXPECT_EQ(none.grad().shape(), Shape{0});
}

TEST(View, SplitAndChunk) {
  Variable x = counted({7}).requires_grad_();
  const auto sizes = [](const std::vector<Variable>& pieces) {
    std::vector<int64_t> sizes;
    for (const Variable& piece : pieces) sizes.push_back(piece.size(0));
    return sizes;
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes(split(x, 3)), (Sizes{3, 3, 1}));
  EXPECT_EQ(sizes(split(x, std::vector<int64_t>{0, 5, 2})), (Sizes{0, 5, 2}));
  EXPECT_EQ(sizes(chunk(x, 3)), (Sizes{3, 3, 1}));
  // chunk returns at most as many pieces as requested
  EXPECT_EQ(sizes(chunk(x, 5)), (Sizes{2, 2, 2, 1}));
  EXPECT_EQ(sizes(chunk(x, 100)), Sizes(7, 1));
  EXPECT_EQ(sizes(split(zeros({0}), 3)), Sizes{0});
  EXPECT_THROW(split(x, 0), ArgumentError);
  EXPECT_THROW(split(x, std::vector<int64_t>{3, 3}), ShapeError);
  EXPECT_THROW(split(x, std::vector<int64_t>{9, -2}), ShapeError);
  EXPECT_THROW(chunk(x, 0), ArgumentError);
  // A piece that is not used has gradient 0.
  sum(split(x, 3)[1]).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{0, 0, 0, 1, 1, 1, 0}));
  EXPECT_TRUE(shares(x, split(x, 3)[2]));
}

TEST(View, FlipRollPadRepeatErrors) {
  const Variable x = counted({2, 3});
  EXPECT_THROW(flip(x, {0, -2}), ArgumentError);
  EXPECT_THROW(flip(x, {2}), IndexError);
  EXPECT_EQ(flip(sum(x), {0}).shape(), Shape{});  // as in PyTorch, 0 and -1 name the only element
  EXPECT_EQ(flip(sum(x), {-1}).item(), sum(x).item());
  EXPECT_THROW(flip(sum(x), {0, 0}), ArgumentError);
  EXPECT_THROW(flip(sum(x), {1}), IndexError);
  EXPECT_THROW(roll(x, {1, 1}, {0}), ArgumentError);
  EXPECT_THROW(roll(x, {1, 1}, {0, 3}), IndexError);
  EXPECT_THROW(pad(x, {1}), ArgumentError);
  EXPECT_THROW(pad(x, {1, 1, 1, 1, 1, 1}), ArgumentError);
  EXPECT_THROW(pad(x, {-2, -2}), ShapeError);
  EXPECT_EQ(pad(x, {-2, -1}).shape(), (Shape{2, 0}));
  EXPECT_EQ(values(pad(x, {-5, 7}, 9)), (Doubles{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}));
  EXPECT_THROW(repeat(x, {2}), ShapeError);
  EXPECT_THROW(repeat(x, {2, -1}), ArgumentError);
  EXPECT_THROW(repeat(x, {int64_t(1) << 62, 4}), ShapeError);
  EXPECT_EQ(repeat(x, {0, 2}).shape(), (Shape{0, 6}));
  EXPECT_EQ(roll(zeros({0}), {3}, {0}).shape(), Shape{0});
  EXPECT_THROW(repeat_interleave(x, -1, 0), ArgumentError);
  // These ops always copy: the result never shares x's storage and has memory for every element.
  for (const Variable& y : {flip(x, {}), roll(x, {0}, {0}), repeat(x, {1, 1}), repeat(x, {3, 1}),
                            repeat_interleave(x, 1, 0), tile(x, {}), pad(x, {0, 0})}) {
    EXPECT_FALSE(shares(x, y));
    EXPECT_TRUE(y.value().is_contiguous());
  }
  EXPECT_EQ(values(roll(counted({5}), {-7}, {0})), (Doubles{2, 3, 4, 0, 1}));
  EXPECT_EQ(values(roll(counted({2, 2}), {1, 1}, {0, 0})), values(counted({2, 2})));
}

TEST(Rearrange, FlippedRowsOfAnyLength) {
  for (const DType dtype : {u8, i16, f16, f32, f64})
    for (const int64_t n : {1, 2, 3, 5, 15, 16, 17, 31, 63, 64, 65, 100}) {
      const Variable x = fmod(counted({2, 3, n}), 97).to(dtype);
      const Doubles all = values(x);
      const Doubles last = values(flip(x, {2})), both = values(flip(x, {1, 2}));
      const Doubles whole = values(flip(x, {0, 1, 2}));
      for (int64_t i = 0; i < 6; ++i)
        for (int64_t j = 0; j < n; ++j) {
          const size_t at = size_t(i * n + j);
          ASSERT_EQ(last[at], all[size_t(i * n + n - 1 - j)]) << dtype << n;
          ASSERT_EQ(both[at], all[size_t((i / 3 * 3 + 2 - i % 3) * n + n - 1 - j)]) << dtype << n;
          ASSERT_EQ(whole[at], all[all.size() - 1 - at]) << dtype << n;
        }
    }
  EXPECT_EQ(values(flip(counted({40000}), {0})).front(), 39999);
}

TEST(View, CopyConvertsAndBroadcasts) {
  Variable y = zeros({2, 3}, {.dtype = i32});
  copy_(y, tensor({1.9, -1.9, 3.0}));
  EXPECT_EQ(values(y), (Doubles{1, -1, 3, 1, -1, 3}));
  EXPECT_THROW(copy_(y, zeros({4})), ShapeError);
  Variable row = zeros({3});
  EXPECT_THROW(copy_(row, zeros({2, 3})), ShapeError);
  fill_(y, 7);
  EXPECT_EQ(values(y), Doubles(6, 7));
  EXPECT_THROW(fill_(y, 0.5), DTypeError);
  zero_(y);
  EXPECT_EQ(values(y), Doubles(6, 0));
  // A source that overlaps the target is read before it is written.
  Variable x = counted({5});
  Variable tail = slice(x, 0, 1);
  copy_(tail, slice(x, 0, 0, 4));
  EXPECT_EQ(values(x), (Doubles{0, 0, 1, 2, 3}));
}

TEST(View, CopyIntoIntegersHasNoHistory) {
  Variable y = zeros({2}, {.dtype = i64});
  const Variable x = tensor({1.0, 2.0}, {.requires_grad = true});
  copy_(y, x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(values(y), (Doubles{1, 2}));
}

TEST(View, T10_WritesToWhatOverlapsItself) {
  Variable wide = expand(zeros({3, 1}), {3, 4});
  EXPECT_THROW(fill_(wide, 1), AutogradError);
  EXPECT_THROW(copy_(wide, ones({4})), AutogradError);
  Variable one = expand(zeros({3}), {1, 3});  // a dimension of size 1 with stride 0
  EXPECT_EQ(one.value().strides()[0], 0);
  fill_(one, 2);
  EXPECT_EQ(values(one), Doubles(3, 2));
  const Variable x = zeros({6});
  Variable windows = x.unfold(0, 3, 1);
  EXPECT_THROW(fill_(windows, 1), AutogradError);
  EXPECT_EQ(values(x), Doubles(6, 0));
  Variable apart = x.unfold(0, 2, 2);
  fill_(apart, 1);
  EXPECT_EQ(values(x), Doubles(6, 1));
  Variable gaps = x.unfold(0, 2, 3);
  fill_(gaps, 2);
  EXPECT_EQ(values(x), (Doubles{2, 2, 1, 2, 2, 1}));
  Variable none = expand(zeros({0, 1}), {0, 4});
  fill_(none, 1);
}

TEST(View, OverlapIsSeenInStrides) {
  EXPECT_FALSE(overlaps_itself({{2, 3}, {3, 1}, 0}));
  EXPECT_FALSE(overlaps_itself({{3, 2}, {1, 3}, 0}));
  EXPECT_FALSE(overlaps_itself({{2, 3}, {-3, -1}, 5}));
  EXPECT_FALSE(overlaps_itself({{2, 2, 2}, {10, 1, 4}, 0}));
  EXPECT_TRUE(overlaps_itself({{2, 3}, {2, 1}, 0}));
  EXPECT_TRUE(overlaps_itself({{2, 3}, {-2, 1}, 2}));
  EXPECT_TRUE(overlaps_itself({{4, 2}, {0, 1}, 0}));
  EXPECT_FALSE(overlaps_itself({{1, 2}, {0, 1}, 0}));
  EXPECT_FALSE(overlaps_itself({{4, 0}, {0, 1}, 0}));
}

TEST(View, T13_SavedValuesChangedThroughViews) {
  const auto message = [](const Variable& y) -> std::string {
    try {
      sum(y).backward();
    } catch (const AutogradError& error) {
      return error.what();
    }
    return "";
  };
  const auto write = [&](auto take) {
    const Variable x = ones({4}, {.requires_grad = true});
    const Variable z = mul(x, 1.0);
    const Variable y = mul(z, z);  // saves z
    Variable seen = take(z);
    fill_(seen, 3);
    return message(y);
  };
  const std::string named = "mul: a value saved for backward was changed in place";
  EXPECT_EQ(write([](const Variable& z) { return slice(z, 0, 1); }).find(named), 0u);
  EXPECT_EQ(write([](const Variable& z) { return z.detach(); }).find(named), 0u);
  EXPECT_EQ(write([](const Variable& z) { return select(slice(z, 0, 1), 0, 1); }).find(named), 0u);
  EXPECT_EQ(write([](const Variable& z) { return clone(z); }), "");  // separate storage
}

TEST(View, T15_WritesThroughViewsReachTheBase) {
  {
    const Variable x = ones({3}, {.dtype = f64, .requires_grad = true});
    const Variable y = mul(x, 1.0);
    Variable tail = slice(y, 0, 1);
    mul_(tail, 2.0);
    sum(y).backward();
    EXPECT_EQ(values(x.grad()), (Doubles{1, 2, 2}));
  }
  {  // a chain of two views
    const Variable x = ones({2, 3}, {.dtype = f64, .requires_grad = true});
    const Variable y = mul(x, 1.0);
    Variable inner = slice(transpose(y, 0, 1), 0, 1, 2);  // column 1
    mul_(inner, 5.0);
    EXPECT_EQ(values(y), (Doubles{1, 5, 1, 1, 5, 1}));
    sum(y).backward();
    EXPECT_EQ(values(x.grad()), (Doubles{1, 5, 1, 1, 5, 1}));
  }
  {  // a value that requires a gradient is written into a buffer that does not
    const Variable v = tensor({1.0, 2.0}, {.requires_grad = true});
    Variable buffer = zeros({4});
    Variable part = slice(buffer, 0, 1, 3);
    copy_(part, v);
    EXPECT_TRUE(buffer.requires_grad());
    sum(mul(buffer, tensor({1.0, 2.0, 3.0, 4.0}))).backward();
    EXPECT_EQ(values(v.grad()), (Doubles{2, 3}));
  }
  {  // overwritten elements receive gradient 0
    const Variable x = ones({4}, {.requires_grad = true}), v = ones({2}, {.requires_grad = true});
    const Variable y = mul(x, 3.0);
    Variable part = slice(y, 0, 0, 2);
    copy_(part, v);
    sum(y).backward();
    EXPECT_EQ(values(x.grad()), (Doubles{0, 0, 3, 3}));
    EXPECT_EQ(values(v.grad()), (Doubles{1, 1}));
  }
  {  // a broadcast value of another dtype
    const Variable v = tensor({2.0}, {.requires_grad = true});
    Variable buffer = zeros({2, 3}, {.dtype = f64});
    copy_(buffer, v);
    sum(mul(buffer, counted({2, 3}))).backward();
    EXPECT_EQ(v.grad().dtype(), f32);
    EXPECT_EQ(values(v.grad()), Doubles{15});
  }
}

TEST(View, T15_GradientsOfWritesThatComeFromTheMiddleOfATensor) {
  // The gradient of y is itself a slice that starts inside of its storage.
  const Variable x = ones({3}, {.dtype = f64, .requires_grad = true});
  const Variable v = ones({2}, {.dtype = f64, .requires_grad = true});
  const Variable y = mul(x, 1.0);
  Variable tail = slice(y, 0, 1);
  copy_(tail, v);
  sum(mul(cat({zeros({4}, {.dtype = f64}), y}), counted({7}))).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{4, 0, 0}));
  EXPECT_EQ(values(v.grad()), (Doubles{5, 6}));
}

TEST(View, T15_ViewsTakenBeforeAWriteSeeIt) {
  const Variable x = ones({4}, {.dtype = f64, .requires_grad = true});
  const Variable y = mul(x, 1.0);
  const Variable older = slice(y, 0, 2);
  const std::vector<Variable> halves = split(y, 2);
  Variable all = slice(y, 0, 0);
  mul_(all, 3.0);
  sum(older).backward({.retain_graph = true});
  EXPECT_EQ(values(x.grad()), (Doubles{0, 0, 3, 3}));
  x.zero_grad();
  sum(halves[0]).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{3, 3, 0, 0}));
}

TEST(View, T16_LeavesAreNotWritten) {
  Variable x = ones({3}, {.requires_grad = true});
  Variable part = slice(x, 0, 1);
  EXPECT_THROW(fill_(x, 2), AutogradError);
  EXPECT_THROW(zero_(part), AutogradError);
  EXPECT_THROW(copy_(part, zeros({2})), AutogradError);
  EXPECT_EQ(values(x), Doubles(3, 1));
  const NoGrad off;
  zero_(part);
  EXPECT_EQ(values(x), (Doubles{1, 0, 0}));
}

TEST(View, WritesCountVersions) {
  Variable x = zeros({3});
  const uint32_t before = x.value().storage().version();
  fill_(x, 1);
  zero_(x);
  Variable part = slice(x, 0, 1);
  copy_(part, ones({2}));
  EXPECT_EQ(x.value().storage().version(), before + 3);
}

TEST(View, Gradcheck) {
  Variable x = counted({2, 3, 4}).requires_grad_();
  const GradcheckOptions twice{.order = 2};
  const auto pass = [&](auto f) {
    const GradcheckResult result =
        gradcheck([&](const auto& in) { return square(f(in[0])); }, {x}, twice);
    EXPECT_TRUE(result) << result.message;
  };
  pass([](const Variable& x) { return slice(transpose(x, 0, 2), 0, 1, kEnd, 2); });
  pass([](const Variable& x) { return select(x, 1, 1).unfold(1, 3, 1); });
  pass([](const Variable& x) { return expand(reshape(x, {2, 1, 12}), {2, 3, 12}); });
  pass([](const Variable& x) { return pad(flip(x, {0, 2}), {1, -1, -1, 2}, 3); });
  pass([](const Variable& x) { return roll(repeat(x, {2, 1, 1, 2}), {1, 2}, {0, -1}); });
  pass([](const Variable& x) { return repeat_interleave(x, 2, 1); });
  pass([](const Variable& x) {
    const std::vector<Variable> pieces = split(x, 3, 2);
    return mul(pieces[0], pieces[1]);
  });
  pass([](const Variable& x) {
    Variable buffer = zeros({3, 4}, {.dtype = f64});
    Variable row = select(buffer, 0, 1);
    copy_(row, select(select(x, 0, 1), 0, 2));
    return mul(buffer, buffer);
  });
}

// PyTorch 2.15: zeros(0, 2).chunk(3) has three tensors of shape [0, 2].
TEST(View, ChunksOfADimensionOfSizeZero) {
  const std::vector<Variable> chunks = chunk(zeros({0, 2}), 3);
  ASSERT_EQ(chunks.size(), 3u);
  for (const Variable& each : chunks) EXPECT_EQ(each.shape(), (Shape{0, 2}));
  EXPECT_EQ(chunk(zeros({2, 0}), 2, 1).size(), 2u);
  EXPECT_THROW(chunk(zeros({0, 2}), INT64_MAX), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
