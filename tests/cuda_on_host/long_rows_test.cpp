// Rows and reductions that are long enough for a block, or for several pieces; the case table has
// short ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/generator.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/view.h"
#include "tests/cases/operand.h"

namespace tapegrad::testing {
namespace {

/// Compares f on the device with f on the CPU: the value, and the gradient of the sum of its cubes.
template <typename F>
void expect_same(const Shape& shape, const F& f, double tolerance) {
  const Tensor x = make_operand({shape}, f32, 5);
  const auto run = [&](Device device) {
    Variable leaf(x.to(device));
    leaf.requires_grad_();
    const Variable y = f(leaf);
    std::vector<Array> results{to_array(y.value())};
    if (y.requires_grad()) {
      sum(y * y * y).backward();
      results.push_back(to_array(leaf.grad().value()));
    }
    return results;
  };
  const auto expected = run(cpu), got = run(gpu);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(mismatch(got[i], expected[i], tolerance), "") << (i == 0 ? "value" : "gradient");
}

TEST(CudaLongRows, ABlockTakesEach) {
  const Shape shape{3, 2700};
  expect_same(
      shape, [](const Variable& x) { return softmax(x, 1); }, 1e-5);
  expect_same(
      shape, [](const Variable& x) { return log_softmax(x, 1); }, 1e-5);
  expect_same(
      shape, [](const Variable& x) { return logsumexp(x, {1}); }, 1e-5);
  expect_same(
      shape, [](const Variable& x) { return layer_norm(x, {2700}); }, 1e-5);
  expect_same(
      shape, [](const Variable& x) { return argmax(x, 1); }, 0);
  const Tensor ids = make_operand({{3}, Fill::kIndices, 2700}, f32, 9);
  expect_same(
      shape,
      [&](const Variable& x) {
        return cross_entropy(x, Variable(ids.to(x.device())), {.label_smoothing = 0.1});
      },
      1e-5);
}

TEST(CudaLongRows, PartsAreMerged) {
  for (const Shape& shape : {Shape{50000}, Shape{2, 30011}}) {
    expect_same(
        shape, [](const Variable& x) { return sum(x); }, 1e-5);
    expect_same(
        shape, [](const Variable& x) { return mean(x); }, 1e-4);
    expect_same(
        shape, [](const Variable& x) { return var(x); }, 1e-5);
    expect_same(
        shape, [](const Variable& x) { return amax(x); }, 0);
    expect_same(
        shape, [](const Variable& x) { return norm(x); }, 1e-5);
  }
  expect_same(
      {9000, 5}, [](const Variable& x) { return sum(x, {0}); }, 1e-4);  // columns
  expect_same(
      {40, 50, 60},
      [](const Variable& x) {
        return var(x, {0, 2});
      },
      1e-5);
}

/// Rows for a thread, a warp, a block and several blocks; contiguous and side by side.
const Shape kScanned[] = {{1, 20011, 1}, {2, 4097, 3}, {3, 4096, 1}, {5, 700, 1}, {2, 130, 7},
                          {40, 70, 1},   {20, 9, 60},  {1, 9000, 2}, {4, 8, 1}};

TEST(CudaLongRows, Run) {
  for (const Shape& shape : kScanned) {
    expect_same(
        shape, [](const Variable& x) { return cumsum(x, 1) / 100; }, 1e-5);
    expect_same(
        shape, [](const Variable& x) { return logcumsumexp(x, 1); }, 1e-5);
    if (numel(shape) < 20'000)
      expect_same(
          shape, [](const Variable& x) { return cumprod(x, 1); }, 1e-5);
  }
}

/// Whole numbers, NaN and infinities, for which results are exact.
TEST(CudaLongRows, RunExactly) {
  manual_seed(3);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const Shape& shape : kScanned) {
    const Variable numbers = randint(-9, 10, shape), places = randint(0, 5000, shape);
    const auto expect_equal = [&](const Variable& x, const auto& f) {
      const Variable expected = f(x), got = f(x.to(gpu));
      EXPECT_EQ(mismatch(to_array(got.value()), to_array(expected.value()), 0), "") << shape;
    };
    for (const DType dtype : {i64, i32, u8, f64, bf16}) {
      const Variable x = numbers.to(dtype);
      expect_equal(x, [](const Variable& v) { return cumsum(v, 1); });
      expect_equal(x, [](const Variable& v) { return cummax(v, 1).indices; });
      expect_equal(x, [](const Variable& v) { return cummin(v, 1).indices; });
    }
    expect_equal(numbers, [](const Variable& v) { return cumprod(2 * v + 1, 1); });  // wraps around
    const Variable leading = reshape(arange(shape[1]), {1, shape[1], 1}) < 37;
    for (const double odd : {double(NAN), kInf, -kInf})
      for (const Variable& is_odd : {places == 0, leading}) {
        const Variable x = where(is_odd, full({}, odd), numbers.to(f32));
        expect_equal(x, [](const Variable& v) { return cumsum(v, 1); });
        expect_equal(x, [](const Variable& v) { return cummax(v, 1).indices; });
        const Variable log_sums = logcumsumexp(x.to(gpu), 1), expected = logcumsumexp(x, 1);
        EXPECT_EQ(mismatch(to_array(log_sums.value()), to_array(expected.value()), 1e-6), "");
      }
  }
}

TEST(CudaLongRows, AreSelected) {
  manual_seed(4);
  for (const int64_t n : {5, 300, 3000, 20011})
    for (const int64_t below : {1, 2, 50}) {
      const Variable x = randint(0, below, {n}) * randint(0, 2, {n});
      EXPECT_EQ(mismatch(to_array(nonzero(x.to(gpu)).value()), to_array(nonzero(x).value()), 0),
                "");
      EXPECT_EQ(masked_select(x.to(gpu), x.to(gpu) > 1).to_vector<int64_t>(),
                masked_select(x, x > 1).to_vector<int64_t>());
      EXPECT_EQ(unique(x.to(gpu)).values.to_vector<int64_t>(),
                unique(x).values.to_vector<int64_t>());
    }
}

TEST(CudaLongRows, RunOnAndOn) {
  const int64_t n = 1'100'000;  // more pieces than a block has threads
  const Variable y = cumsum(ones({n}, {.dtype = i32, .device = gpu}), 0);
  EXPECT_TRUE(all(y.to(cpu) == arange(1, n + 1)).value().number().to<bool>());
}

TEST(CudaLongRows, AreTheSameEachTime) {
  const Tensor x = make_operand({{100000}}, f32, 1).to(gpu);
  const double first = sum(Variable(x)).item();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sum(Variable(x)).item(), first);
}

}  // namespace
}  // namespace tapegrad::testing
