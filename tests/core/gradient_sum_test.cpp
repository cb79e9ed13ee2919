// Gradients of parts of a value, and at indices, which rules add to the sum of its gradients.
#include <functional>

#include "core/base/allocator.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

/// Expects the gradients of a recorded pass, whose rules return gradients of the whole, from passes
/// whose rules add to a sum. loss(begins, ends) may use the whole before and after its parts.
void expect_gradients_of_the_whole(const Variable& leaf,
                                   const std::function<Variable(bool, bool)>& loss) {
  for (const bool begins : {false, true})
    for (const bool ends : {false, true}) {
      const Variable wanted = grad(loss(begins, ends), leaf, {.create_graph = true});
      leaf.zero_grad();
      loss(begins, ends).backward();
      EXPECT_EQ(leaf.grad().to_vector<float>(), wanted.to_vector<float>());
      EXPECT_EQ(grad(loss(begins, ends), leaf).to_vector<float>(), wanted.to_vector<float>());
    }
}

TEST(GradientSum, GradientsOfPartsAreThoseOfTheWhole) {
  const Variable leaf = randn({6, 5}, {.dtype = f32}).requires_grad_();
  for (const bool is_leaf : {true, false}) {
    const auto loss = [&](bool begins_with_all, bool ends_with_all) {
      const Variable x = is_leaf ? leaf : leaf * 2.0;
      Variable sums = begins_with_all ? sum(exp(x)) : sum(exp(select(x, 0, 3)));
      for (int t = 0; t < 5; ++t)
        sums = sums + sum(exp(select(x, 1, t)) * select(x, 1, 4 - t)) + sum(exp(select(x, 0, 3)));
      sums = sums + sum(exp(slice(x, 0, 1, 6, 2))) + sum(exp(diagonal(x))) + sum(slice(x, 1, 2, 2));
      sums = sums + sum(exp(select(reshape(x, {2, 3, 5}), 1, 1)));
      return ends_with_all ? sums + sum(exp(x)) : sums;
    };
    expect_gradients_of_the_whole(leaf, loss);
  }
}

TEST(GradientSum, GradientsAtIndicesAreThoseOfTheWhole) {
  const Variable leaf = (randn({6, 5}, {.dtype = f32}) * 4).round().requires_grad_();
  const Variable ids = tensor({3, 0, 3, 5}), twice = tensor({1, 1, 4});
  const Variable places = tensor({0, 5, 5, 2, 1, 0, 5, 3, 3, 4}, {2, 5});
  const auto weighted = [](const Variable& part) {  // whole numbers, whose sums are exact
    return sum(part * reshape(arange(1, part.numel() + 1).to(f32), part.shape()));
  };
  for (const bool is_leaf : {true, false}) {
    const auto loss = [&](bool begins_with_all, bool ends_with_all) {
      const Variable x = is_leaf ? leaf : leaf * 2.0;
      Variable sums = begins_with_all ? weighted(x) : weighted(index_select(x, 0, ids));
      sums = sums + weighted(index_select(x, 0, ids)) + weighted(index_select(x, 1, twice)) +
             weighted(gather(x, 0, places)) + weighted(embedding(ids, x)) +
             weighted(embedding(ids, x, /*padding_idx=*/3)) + weighted(select(x, 0, 3)) +
             weighted(gather(x, 1, reshape(twice, {1, 3}))) + weighted(embedding(twice, x));
      return ends_with_all ? sums + weighted(x) : sums;
    };
    expect_gradients_of_the_whole(leaf, loss);
  }
}

TEST(GradientSum, AGradientAtAnIndexChangesNoOtherGradient) {
  const Variable x = leaf({1, 2}), g = make({1, 1});
  const Variable y = x * 1.0, z = y * 1.0;
  Variable seen;
  z.register_hook([&](const Variable& dz) { return seen = dz, Variable(); });
  (z + index_select(y, 0, tensor({0, 0}))).backward(g);
  EXPECT_EQ(values(seen), (Values{1, 1}));
  EXPECT_EQ(values(g), (Values{1, 1}));
  EXPECT_EQ(values(x.grad()), (Values{3, 1}));
}

TEST(GradientSum, GradientsAtIndicesNeedOneGradientOfTheWhole) {
  const Variable table = zeros({4096, 64}, {.dtype = f32}).requires_grad_(), ids = tensor({7, 9});
  const auto look_up = [&](int way) {
    return way == 0   ? embedding(ids, table)
           : way == 1 ? index_select(table, 0, ids)
                      : gather(table, 0, expand(reshape(ids, {2, 1}), {2, 64}));
  };
  for (const int way : {0, 1, 2}) {
    table.zero_grad();
    Variable h = look_up(way);
    for (int k = 1; k < 8; ++k) h = h + look_up(way);
    const Variable loss = sum(h);
    reset_peak_memory();
    const int64_t before = memory_stats().in_use;
    loss.backward();
    EXPECT_LT(memory_stats().peak - before, int64_t(4096 * 64 * sizeof(float)) * 3 / 2) << way;
  }
}

TEST(GradientSum, AGradientOfAPartChangesNoOtherGradient) {
  const Variable x = leaf({1, 2}), g = make({1, 1});
  const Variable y = x * 1.0, z = y * 1.0;
  Variable seen;
  z.register_hook([&](const Variable& dz) { return seen = dz, Variable(); });
  (z + select(y, 0, 1)).backward(g);
  EXPECT_EQ(values(seen), (Values{1, 1}));
  EXPECT_EQ(values(g), (Values{1, 1}));
  EXPECT_EQ(values(x.grad()), (Values{1, 3}));
}

TEST(GradientSum, GradientsOfPartsNeedOneGradientOfTheWhole) {
  const Variable x = zeros({256, 1024}, {.dtype = f32}).requires_grad_();
  const auto step = [&] {
    x.zero_grad();
    Variable h = select(x, 0, 0);
    for (int t = 1; t < 256; ++t) h = h + select(x, 0, t);
    const Variable loss = sum(h);
    reset_peak_memory();
    const int64_t before = memory_stats().in_use;
    loss.backward();
    return memory_stats().peak - before;
  };
  EXPECT_LT(step(), int64_t(256 * 1024 * sizeof(float)) * 3 / 2);
}

}  // namespace
}  // namespace tapegrad::testing
