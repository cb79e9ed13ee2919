// Bags of embeddings: exact values and errors.
#include "ops/embedding_bag.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/expect_near.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using testing::expect_near;
using testing::leaf;
using testing::make;
using Doubles = std::vector<double>;

TEST(EmbeddingBag, Offsets) {
  const Variable weight = leaf({1, 2, 3, 4, 5, 6}, {3, 2});
  const Variable ids = tensor({0, 2, 1, 1});
  const Variable y = embedding_bag(ids, weight, tensor({0, 2, 2}), {.mode = BagMode::kSum});
  EXPECT_EQ(y.to_vector<double>(), (Doubles{6, 8, 0, 0, 6, 8}));
  y.backward(ones_like(y));
  EXPECT_EQ(weight.grad().to_vector<double>(), (Doubles{1, 1, 2, 2, 1, 1}));
  EXPECT_EQ(embedding_bag(ids, weight, tensor({0, 2, 4}),
                          {.mode = BagMode::kMax, .include_last_offset = true})
                .to_vector<double>(),
            (Doubles{5, 6, 3, 4}));
  weight.zero_grad();
  const Variable first = embedding_bag(ids, weight, tensor({0, 2}), {.include_last_offset = true});
  first.backward(ones_like(first));  // ids behind the last bag belong to none
  EXPECT_EQ(first.to_vector<double>(), (Doubles{3, 4}));
  EXPECT_EQ(weight.grad().to_vector<double>(), (Doubles{0.5, 0.5, 0, 0, 0.5, 0.5}));
  EXPECT_EQ(embedding_bag(ids, weight, tensor({0, 2}), {.padding_idx = 1}).to_vector<double>(),
            (Doubles{3, 4, 0, 0}));
  EXPECT_THROW(embedding_bag(ids, weight, tensor({1, 2})), ArgumentError);
  EXPECT_THROW(embedding_bag(ids, weight, tensor({0, 3, 2})), ArgumentError);
  EXPECT_THROW(embedding_bag(ids, weight, tensor({0, 5})), ArgumentError);
  EXPECT_THROW(embedding_bag(ids, weight), ShapeError);
  EXPECT_THROW(embedding_bag(tensor({0, 3}), weight, tensor({0})), IndexError);
  EXPECT_THROW(
      embedding_bag(ids, weight, tensor({0}), {.per_sample_weights = ones({4}, {.dtype = f64})}),
      ArgumentError);
}

TEST(EmbeddingBag, ThePaddingBelongsToNoBag) {
  const Variable weight = leaf({1, 2, 3, 4, 5, 6}, {3, 2}), ids = tensor({1, 0, 2, 1, 2, 0});
  const Variable factors = leaf({1, 2, 3, 4, 5, 6}, {6});
  const EmbeddingBagOptions sum{.mode = BagMode::kSum,
                                .per_sample_weights = factors,
                                .include_last_offset = true,
                                .padding_idx = 1};
  const Variable y = embedding_bag(ids, weight, tensor({0, 2, 2, 5}), sum);
  EXPECT_EQ(y.to_vector<double>(), (Doubles{2, 4, 0, 0, 40, 48}));
  y.backward(make({1, 1, 1, 1, 1, 2}, {3, 2}));
  EXPECT_EQ(weight.grad().to_vector<double>(), (Doubles{2, 2, 0, 0, 8, 16}));
  EXPECT_EQ(factors.grad().to_vector<double>(), (Doubles{0, 3, 17, 0, 17, 0}));
  for (const BagMode mode : {BagMode::kMean, BagMode::kMax})
    EXPECT_EQ(embedding_bag(ids, weight, tensor({0, 1, 4}), {.mode = mode, .padding_idx = 1})
                  .to_vector<double>(),
              mode == BagMode::kMean ? (Doubles{0, 0, 3, 4, 3, 4}) : (Doubles{0, 0, 5, 6, 5, 6}));
}

TEST(EmbeddingBag, NarrowRowsDoNotDependOnTheThreads) {
  const int64_t before = get_num_threads();
  for (const int64_t width : {1, 2, 4}) {
    const Variable weight = randn({9000, width}).requires_grad_(), factors = rand({40000});
    const Variable ids = randint(0, 9000, {40000}), offsets = arange(1000) * 40;
    const auto run = [&](int64_t threads) {
      set_num_threads(threads);
      weight.zero_grad();
      const Variable y = embedding_bag(ids, weight, offsets,
                                       {.mode = BagMode::kSum, .per_sample_weights = factors});
      sum(square(y)).backward();
      return std::pair(y.to_vector<float>(), weight.grad().to_vector<float>());
    };
    EXPECT_EQ(run(1), run(2));
    const Variable rows = embedding(ids, weight.detach()).to(f64) * factors.unsqueeze(1).to(f64);
    const Variable wanted = reshape(rows, {1000, 40, width}).sum(1);
    expect_near(
        embedding_bag(ids, weight, offsets, {.mode = BagMode::kSum, .per_sample_weights = factors}),
        wanted.to_vector<double>(), 1e-5);
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tapegrad
