#include "ops/scatter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "ops/arithmetic.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/subscript.h"
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

TEST(Scatter, ReducesWithoutItself) {
  const Variable x = tensor<int64_t>({7, 7, 7}), index = tensor<int64_t>({0, 0, 1});
  const Variable source = tensor<int64_t>({2, 5, -1});
  const auto of = [&](Reduce how, bool self) {
    return ints(scatter_reduce(x, 0, index, source, how, self));
  };
  EXPECT_EQ(of(Reduce::kSum, false), (Ints{7, -1, 7}));
  EXPECT_EQ(of(Reduce::kProd, false), (Ints{10, -1, 7}));
  EXPECT_EQ(of(Reduce::kMean, false), (Ints{3, -1, 7}));
  EXPECT_EQ(of(Reduce::kMean, true), (Ints{4, 3, 7}));
  EXPECT_EQ(of(Reduce::kAmax, false), (Ints{5, -1, 7}));
  EXPECT_EQ(of(Reduce::kAmin, true), (Ints{2, -1, 7}));
}

TEST(Scatter, ProductOverZeros) {
  const Variable x = make({2, 0, 0}).requires_grad_();
  const Variable source = make({3, 5, 0, 4}).requires_grad_();
  const Variable index = tensor<int64_t>({0, 1, 2, 0});
  const Variable y = scatter_reduce(x, 0, index, source, Reduce::kProd);
  EXPECT_EQ(y.to_vector<double>(), (Doubles{24, 0, 0}));
  y.backward(make({1, 1, 1}), {.retain_graph = true});
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{12, 5, 0}));
  EXPECT_EQ(source.grad().to_vector<double>(), (Doubles{8, 0, 0, 6}));
}

// Values of PyTorch 1.13, except the last, which PyTorch rejects and which is computed by hand.
TEST(Scatter, SecondDerivativesOfAProductOverZeros) {
  const auto check = [](const Doubles& own, const Doubles& from, const Doubles& in_x,
                        const Doubles& in_source) {
    const Variable x = make(own).requires_grad_(), source = make(from).requires_grad_();
    const std::vector<Variable> leaves{x, source};
    const Variable y = sum(scatter_reduce(x, 0, tensor<int64_t>({0, 0, 1}), source, Reduce::kProd));
    const auto first = grad({&y, 1}, leaves, {}, {.create_graph = true});
    const Variable z = sum(first[0] * make({1, 2})) + sum(first[1] * make({1, 2, 3}));
    const auto second = grad({&z, 1}, leaves);
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(second[0].to_vector<double>()[i], in_x[i], 1e-13);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(second[1].to_vector<double>()[i], in_source[i], 1e-13);
  };
  check({2, 3}, {5, 7, 11}, {17, 3}, {11, 7, 2});
  check({2, 3}, {0, 7, 11}, {7, 3}, {11, 2, 2});
  check({0, 3}, {5, 7, 11}, {17, 3}, {7, 5, 2});
  check({2, 3}, {0, 0, 11}, {0, 3}, {4, 2, 2});
}

TEST(Scatter, EqualExtremesShare) {  // T30
  const Variable x = make({1, 5}).requires_grad_(), source = make({5, 5, 1}).requires_grad_();
  sum(scatter_reduce(x, 0, tensor<int64_t>({1, 1, 0}), source, Reduce::kAmax)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{0.5, 1.0 / 3}));
  EXPECT_EQ(source.grad().to_vector<double>(), (Doubles{1.0 / 3, 1.0 / 3, 0.5}));
}

/// The kernels of the gradients of extremes have the bits of the rule for recorded passes.
TEST(Scatter, GradientsOfExtremesByKernelsEqualRecordedOnes) {
  RandomGenerator generator(7);
  const auto check = [&](const Shape& shape, int dim, const Variable& index, const Shape& from,
                         DType dtype) {
    const TensorOptions options{.dtype = dtype};
    // Few values, so that many are equal.
    const Variable x = round(randn(shape, options, generator)).requires_grad_();
    const Variable source = round(randn(from, options, generator)).requires_grad_();
    const Variable dy = randn(shape, options, generator);
    for (const char* reduce : {"amax", "amin"})
      for (const bool include_self : {true, false}) {
        const Variable y = scatter_reduce(x, dim, index, source, reduce, include_self);
        const std::vector<Variable> in{x, source};
        const auto found = grad({y}, in, {.grad_outputs = {dy}, .retain_graph = true});
        const auto wanted = grad({y}, in, {.grad_outputs = {dy}, .create_graph = true});
        for (size_t i = 0; i < 2; ++i)
          EXPECT_EQ(found[i].to_vector<double>(), wanted[i].detach().to_vector<double>());
        const auto alone = grad({y}, {source}, {.grad_outputs = {dy}, .retain_graph = true});
        EXPECT_EQ(alone[0].to_vector<double>(), found[1].to_vector<double>());
      }
  };
  for (const DType dtype : {f32, f64}) {
    const Variable vector = randint(0, 7, {40}, {}, generator);
    check({7, 5}, 0, vector.unsqueeze(1).expand({40, 5}), {40, 5}, dtype);
    check({7, 5}, 0, vector.unsqueeze(1).expand({40, 3}), {42, 4}, dtype);
    check({3, 7, 5}, 1, vector.view({1, 40, 1}).expand({3, 40, 5}), {3, 40, 5}, dtype);
    check({7, 5}, 0, randint(0, 7, {40, 5}, {}, generator), {40, 5}, dtype);
    check({6, 7}, 1, randint(0, 7, {4, 20}, {}, generator), {5, 21}, dtype);
    check({7, 5}, 0, randint(0, 7, {0, 5}, {}, generator), {2, 5}, dtype);
  }
}

// Without the element of x, an infinite extreme is shared by the elements of source alone.
TEST(Scatter, ExtremesThatExcludeTheElementItself) {
  for (const double inf : {-1.0 / 0.0, 1.0 / 0.0}) {
    const Variable x = make({inf, 5, 3}).requires_grad_(),
                   source = make({inf, inf, inf}).requires_grad_();
    sum(scatter_reduce(x, 0, tensor<int64_t>({0, 0, 1}), source,
                       inf < 0 ? Reduce::kAmax : Reduce::kAmin, /*include_self=*/false))
        .backward();
    EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{0, 0, 1}));
    EXPECT_EQ(source.grad().to_vector<double>(), (Doubles{0.5, 0.5, 1}));
  }
}

TEST(Scatter, Picks) {
  const Variable x = count({2, 3});
  EXPECT_EQ(ints(take(x, tensor<int64_t>({0, -1, 4}))), (Ints{0, 5, 4}));
  EXPECT_THROW(take(x, tensor<int64_t>({6})), IndexError);
  EXPECT_EQ(where(x > 3).size(), 2u);
  EXPECT_EQ(ints(where(x > 3)[1]), (Ints{1, 2}));
  EXPECT_EQ(nonzero(scalar(3)).shape(), (Shape{1, 0}));
  EXPECT_EQ(nonzero(zeros({0, 3})).shape(), (Shape{0, 2}));
  EXPECT_EQ(ints(nonzero(make({0.0, -0.0, std::nan("")}))), (Ints{2}));
  EXPECT_THROW(masked_scatter(x, x > 0, tensor<int64_t>({1, 2})), ShapeError);
  const Variable rows =
      masked_scatter(tensor({1, 2}), tensor({1, 0, 0, 1}, {2, 2}) == 1, tensor({7, 8}));
  EXPECT_EQ(ints(rows), (Ints{7, 2, 1, 8}));
  EXPECT_EQ(ints(take_along_dim(x, tensor({-1, -3}, {2, 1}), 1)), (Ints{2, 3}));
  EXPECT_EQ(ints(take_along_dim(x, tensor({-1, 0}))), (Ints{5, 0}));
  EXPECT_THROW(take_along_dim(x, tensor({-4, 0}, {2, 1}), 1), IndexError);
  EXPECT_THROW(masked_select(x, x), DTypeError);
}

}  // namespace
}  // namespace tapegrad
