#include "ops/subscript.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "ops/arithmetic.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::Ints;
using testing::ints;
using testing::make;
using Doubles = std::vector<double>;

Variable count(const Shape& shape) { return testing::counted<int64_t>(shape, 0); }

// Shapes and values are NumPy's.
TEST(Subscript, Views) {
  Variable x = count({3, 4});
  EXPECT_EQ(ints(at(x, {1})), (Ints{4, 5, 6, 7}));
  EXPECT_EQ(at(x, {1, -1}).item(), 7);
  EXPECT_EQ(ints(at(x, {Slice{}, Slice{1, 3}})), (Ints{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(ints(at(x, {Slice{.stop = -1, .step = 2}})), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(at(x, {newaxis, ellipsis, newaxis, 0}).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(at(x, {}).shape(), (Shape{3, 4}));
  EXPECT_TRUE(at(x, {ellipsis, 2}).value().shares_storage(x.value()));
  EXPECT_TRUE(at(x, {ellipsis}).value().shares_storage(x.value()));
  EXPECT_FALSE(at(x, {ellipsis}).is_same(x));  // a hook of the view is none of x
}

TEST(Subscript, IndexTensors) {
  const Variable x = count({2, 3, 4});
  const Variable i = tensor<int64_t>({0, -1}), j = tensor<int64_t>({2, 0}, {2, 1});
  EXPECT_EQ(at(x, {Slice{}, i}).shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(at(x, {Slice{}, Slice{}, j}).shape(), (Shape{2, 3, 2, 1}));
  // not neighbours, so their dimensions come first
  EXPECT_EQ(at(x, {i, Slice{}, j}).shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(ints(at(x, {i, j, 1})), (Ints{9, 21, 1, 13}));
  EXPECT_EQ(at(x, {i, newaxis}).shape(), (Shape{2, 1, 3, 4}));
  EXPECT_EQ(at(x, {scalar(1)}).shape(), (Shape{3, 4}));
  // An index tensor without dimensions selects as an integer does, so i and j are neighbours.
  EXPECT_EQ(at(x, {scalar(1), Slice{}, i}).shape(), (Shape{3, 2}));
  EXPECT_EQ(ints(at(x, {scalar(1), Slice{}, i})), ints(at(x, {1, Slice{}, i})));
  EXPECT_EQ(ints(at(x, {i, scalar(2), j})), ints(at(at(x, {Slice{}, 2}), {i, j})));
}

TEST(Subscript, Masks) {
  const Variable x = count({2, 3});
  const Variable even = remainder(x, 2) == 0;
  EXPECT_EQ(ints(at(x, {even})), (Ints{0, 2, 4}));
  EXPECT_EQ(ints(at(x, {Slice{}, tensor(std::vector<int64_t>{1, 0, 1}).to(boolean)})),
            (Ints{0, 2, 3, 5}));
  EXPECT_EQ(at(x, {x < 0}).shape(), (Shape{0}));
}

TEST(Subscript, Errors) {
  const Variable x = count({2, 3});
  EXPECT_THROW(at(x, {0, 0, 0}), IndexError);
  EXPECT_THROW(at(x, {ellipsis, ellipsis}), IndexError);
  EXPECT_THROW(at(x, {2}), IndexError);
  EXPECT_THROW(at(x, {tensor<int64_t>({0, 2})}), IndexError);
  EXPECT_THROW(at(x, {tensor<int64_t>({-3})}), IndexError);
  EXPECT_THROW(at(x, {make({0.0})}), DTypeError);
  EXPECT_THROW(at(x, {count({3}) > 0}), IndexError);
  EXPECT_THROW(at(x, {tensor<int64_t>({0, 1}), tensor<int64_t>({0, 1, 1})}), ShapeError);
  EXPECT_THROW(at(x, {Slice{.step = -1}}), ArgumentError);
}

TEST(Subscript, Assignment) {
  Variable x = count({2, 3});
  index_put_(x, {0, Slice{1}}, 9);
  EXPECT_EQ(ints(x), (Ints{0, 9, 9, 3, 4, 5}));
  index_put_(x, {x > 8}, 7);
  EXPECT_EQ(ints(x), (Ints{0, 7, 7, 3, 4, 5}));
  const Variable twice = tensor<int64_t>({1, 1});
  EXPECT_EQ(ints(index_put(x, {twice, 0}, tensor<int64_t>({10, 20}))), (Ints{0, 7, 7, 20, 4, 5}));
  EXPECT_EQ(ints(index_put(x, {twice, 0}, tensor<int64_t>({10, 20}), /*accumulate=*/true)),
            (Ints{0, 7, 7, 33, 4, 5}));
  index_put_(x, {}, 1);
  EXPECT_EQ(ints(x), (Ints{1, 1, 1, 1, 1, 1}));
  EXPECT_THROW(index_put_(x, {0}, tensor<int64_t>({1, 2})), ShapeError);
  EXPECT_THROW(index_put_(x, {twice}, tensor<int64_t>({1, 2})), ShapeError);
  EXPECT_THROW(index_put_(x, {0}, 0.5), DTypeError);
}

// Values are PyTorch's: an index tensor without dimensions gives a view, as an integer does.
TEST(Subscript, WritesThroughIndexTensorsWithoutDimensions) {
  Variable x = zeros({3, 4});
  const Variable i = scalar(2), j = scalar(-3);
  x[i][0] = 5;
  x[i][j] += 2;
  EXPECT_EQ(ints(x[2]), (Ints{5, 2, 0, 0}));
  x[i].fill_(1);
  x[i].slice(0, 0, 2).zero_();
  Variable row = x[i];
  row.add_(10);
  x.index({i, 3}).mul_(2);
  x.index({Slice(), j}).sub_(1);
  EXPECT_EQ(ints(x), (Ints{0, -1, 0, 0, 0, -1, 0, 0, 10, 9, 11, 22}));
  EXPECT_TRUE(at(x, {Slice{}, i}).value().shares_storage(x.value()));
  EXPECT_THROW(at(x, {scalar(3)}), IndexError);
  EXPECT_THROW(x[scalar(-4)] = 1, IndexError);

  Variable weight = ones({3, 2});
  weight.requires_grad_();
  sum(square(at(weight * 3.0, {scalar(1)}))).backward();
  EXPECT_EQ(ints(weight.grad()), (Ints{0, 0, 18, 18, 0, 0}));
}

// PyTorch ignores the leading sizes of 1 of values that it assigns to a part.
TEST(Subscript, AssignsValuesWithLeadingOnes) {
  Variable x = zeros({2, 4, 1, 3});
  const Variable three = ones({1, 1, 1, 1, 3});
  const auto total = [&] { return sum(x).item(); };
  x[0] = ones({1, 1, 1, 3});
  EXPECT_EQ(total(), 12);
  index_put_(x, {1, Slice{0, 1}}, three);
  EXPECT_EQ(total(), 15);
  x.index({1}) = three;
  EXPECT_EQ(total(), 24);
  x[tensor<int64_t>({0, 1})] = 2.0 * three;
  EXPECT_EQ(total(), 48);
  x[x > 0] = ones({1, 1});
  EXPECT_EQ(total(), 24);
  x[0][scalar(2)] = 3.0 * three;
  EXPECT_EQ(total(), 30);
  EXPECT_THROW(x[0] += three, ShapeError);
  EXPECT_THROW(x[0] = ones({2, 1, 1, 1, 3}), ShapeError);
}

// Only the value that was written last has a gradient.
// Subscripts of one index tensor move whole slices; a mask of all ones makes the same op general.
TEST(Subscript, SlicesAreElements) {
  const Variable x = randn({7, 5, 6}, {.dtype = f64}).detach();
  const Variable index = tensor<int64_t>({2, -1, 0, 2});
  const Variable square = reshape(index, {2, 2});
  for (bool accumulate : {false, true})
    for (int dim = 0; dim < 3; ++dim)
      for (const Variable& which : {index, square}) {
        Subscripts whole(size_t(dim), Slice{}), one_by_one;
        whole.push_back(which);
        for (int i = 0; i < 3; ++i) {  // every dimension has an index that broadcasts
          Shape shape = Dims::filled(which.rank() + 2, 1);
          int64_t at = i < dim ? i : i == dim ? dim : i + which.rank() - 1;
          if (i == dim)
            for (int j = 0; j < which.rank(); ++j) shape[int(at) + j] = which.shape()[j];
          else
            shape[int(at)] = x.size(i);
          one_by_one.push_back(reshape(i == dim ? which : arange(x.size(i)), shape));
        }
        const Variable values = randn(at(x, whole).shape(), {.dtype = f64}).detach();
        EXPECT_EQ(index_put(x, whole, values, accumulate).to_vector<double>(),
                  index_put(x, one_by_one, values, accumulate).to_vector<double>());
      }
  EXPECT_THROW(index_put(x, {index}, zeros({3, 5, 6}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(index_put(x, {tensor<int64_t>({7})}, zeros({1, 5, 6}, {.dtype = f64})), IndexError);
}

TEST(Subscript, GradientOfRepeatedIndices) {
  const Variable x = make({1, 2, 3}).requires_grad_();
  const Variable values = make({10, 20}).requires_grad_();
  const Variable y = index_put(x, {tensor<int64_t>({1, 1})}, values);
  y.backward(make({1, 2, 4}));
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{1, 0, 4}));
  EXPECT_EQ(values.grad().to_vector<double>(), (Doubles{0, 2}));
}

TEST(Subscript, AssignmentsWriteToTheVariable) {
  Variable x = count({2, 3});
  x[x > 3] = 9;
  EXPECT_EQ(ints(x), (Ints{0, 1, 2, 3, 9, 9}));
  x[tensor<int64_t>({1, -1})] = tensor<int64_t>({7, 8, 6});
  EXPECT_EQ(ints(x), (Ints{0, 1, 2, 7, 8, 6}));
  x[x > 6] -= 5;
  EXPECT_EQ(ints(x), (Ints{0, 1, 2, 2, 3, 6}));
  x[{tensor<int64_t>({0}), Slice{1}}] = x[{1, Slice{1}}];
  EXPECT_EQ(ints(x), (Ints{0, 3, 6, 2, 3, 6}));
  x[{Slice(), 0}] *= 4;
  EXPECT_EQ(ints(x), (Ints{0, 3, 6, 8, 3, 6}));
  x[tensor<int64_t>({0, 0})] += 1;  // as in NumPy, once
  EXPECT_EQ(ints(x), (Ints{1, 4, 7, 8, 3, 6}));
  x[x > 100] = 5;
  EXPECT_EQ(ints(x), (Ints{1, 4, 7, 8, 3, 6}));

  // A variable that was made of a part is a variable of its own.
  auto part = x[x > 6];
  part = part * 2;
  part += 1;
  EXPECT_EQ(ints(part), (Ints{15, 17}));
  EXPECT_EQ(ints(x), (Ints{1, 4, 7, 8, 3, 6}));

  Variable whole = tensor<int64_t>({1, 2, 3});
  EXPECT_THROW(whole[whole > 1] = 0.5, DTypeError);
  EXPECT_THROW(whole[whole > 1] = tensor<int64_t>({1, 2, 3}), ShapeError);
  EXPECT_EQ(ints(whole), (Ints{1, 2, 3}));
}

TEST(Subscript, AssignmentsToPartsAreDifferentiable) {
  const Variable w = make({1, 2, 3}).requires_grad_(), v = make({5, 6}).requires_grad_();
  Variable y = w * 2.0;
  y[w > 1.0] *= v;
  y[tensor<int64_t>({0})] = sum(v);
  sum(y).backward();
  EXPECT_EQ(w.grad().to_vector<double>(), (Doubles{0, 10, 12}));
  EXPECT_EQ(v.grad().to_vector<double>(), (Doubles{5, 7}));
  EXPECT_THROW(w[w > 1.0] = 0.0, AutogradError);  // T16: a leaf
}

TEST(Subscript, AnUnsignedIndexDoesNotWrap) {
  const Variable x = count({3});
  EXPECT_EQ(x[size_t(2)].item(), 2);
  EXPECT_THROW(x[size_t(-1)], IndexError);
  EXPECT_THROW(at(x, {UINT64_MAX}), IndexError);
}

TEST(Subscript, AWriteThatNothingSeesIsAnError) {
  Variable x = count({4});
  EXPECT_THROW(x.index({x > 1}) = 0, ArgumentError);
  EXPECT_THROW(x.clone() = 0, ArgumentError);
  EXPECT_THROW((x + x) += 1, ArgumentError);
  x.view({2, 2})[0] = 7;
  x.detach() *= 2;
  EXPECT_EQ(ints(x), (Ints{14, 14, 4, 6}));
}

}  // namespace
}  // namespace tapegrad
