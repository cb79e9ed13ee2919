// Rows and reductions long enough for a block, or for several parts: the case table has short ones.
#include <gtest/gtest.h>

#include "ops/binary.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "tests/operand.h"

namespace tapegrad::testing {
namespace {

/// f on the device gives what f gives on the CPU: value, and gradient of the sum of its cubes.
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

TEST(CudaLongRows, AreTheSameEachTime) {
  const Tensor x = make_operand({{100000}}, f32, 1).to(gpu);
  const double first = sum(Variable(x)).item();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sum(Variable(x)).item(), first);
}

}  // namespace
}  // namespace tapegrad::testing
