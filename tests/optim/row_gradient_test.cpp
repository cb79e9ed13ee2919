// Gradients that are kept as rows: the same numbers as dense gradients, and less memory traffic.
#include "core/autograd/sparse_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tapegrad.h"

namespace tapegrad {
namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Variable>&)>;

Variable ids(std::vector<int64_t> values) {
  const int64_t n = int64_t(values.size());
  return Variable(Tensor::from<int64_t>(values, {n}));
}

/// Tables with equal values whose gradients are kept dense and as rows.
struct Pair {
  explicit Pair(int64_t rows = 7, int64_t padding = -1, DType dtype = f32)
      : dense({.num_embeddings = rows, .embedding_dim = 3, .padding_idx = padding}),
        sparse(
            {.num_embeddings = rows, .embedding_dim = 3, .padding_idx = padding, .sparse = true}) {
    dense.to(dtype);
    sparse.to(dtype);
    const NoGrad off;
    copy_(sparse.weight, dense.weight);
  }
  nn::Embedding dense, sparse;
};

template <typename Loss>
void backward(const Pair& pair, Loss loss) {
  loss(pair.dense).backward();
  loss(pair.sparse).backward();
}

void expect_equal(const Variable& a, const Variable& b) {
  EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>());
}

TEST(RowGradient, HoldsEachIndexOnceInAscendingOrder) {
  const Pair pair;
  backward(pair, [](const nn::Embedding& e) { return sum(square(e(ids({5, 1, 5, 5, 0})))); });
  const RowGradientPtr rows = row_gradient(pair.sparse.weight);
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(Variable(rows->indices()).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 5}));
  EXPECT_EQ(rows->rows().shape(), (Shape{3, 3}));
  EXPECT_EQ(row_gradient(pair.dense.weight), nullptr);
  expect_equal(pair.sparse.weight.grad(), pair.dense.weight.grad());
  EXPECT_EQ(row_gradient(pair.sparse.weight), nullptr) << "grad() makes the gradient dense";
}

TEST(RowGradient, EqualsTheDenseGradientBitForBit) {
  for (const DType dtype : {f64, f32, f16, bf16})
    for (const int64_t padding : {-1, 5}) {
      manual_seed(1);
      const Pair pair(50, padding, dtype);
      const Variable many = randint(0, 50, {400}), few = randint(0, 50, {4, 2});
      for (const Variable& places : {many, few})
        backward(pair, [&](const nn::Embedding& e) { return sum(square(e(places))); });
      ASSERT_NE(row_gradient(pair.sparse.weight), nullptr);
      expect_equal(pair.sparse.weight.grad(), pair.dense.weight.grad());
    }
}

// The dense gradient adds the rows of each use to the sum of the other uses, and rounds the result.
// A row gradient rounds the rows of each use before they are added. The order of the uses depends
// on the compiler, which may evaluate either operand of + first.
TEST(RowGradient, OfTwoUsesInAPassDiffersByRounding) {
  const std::pair<DType, double> types[] = {
      {f64, 0x1p-52}, {f32, 0x1p-23}, {f16, 0x1p-10}, {bf16, 0x1p-7}};
  for (const auto& [dtype, eps] : types)
    for (const bool many_first : {true, false}) {
      manual_seed(1);
      const Pair pair(50, /*padding=*/5, dtype);
      const Variable many = randint(0, 50, {400}), few = randint(0, 50, {4, 2});
      backward(pair, [&](const nn::Embedding& e) {
        const Variable first = sum(square(e(many_first ? many : few)));
        return first + sum(square(e(many_first ? few : many)));
      });
      ASSERT_NE(row_gradient(pair.sparse.weight), nullptr);
      const auto rows = pair.sparse.weight.grad().to_vector<double>();
      const auto dense = pair.dense.weight.grad().to_vector<double>();
      const double largest =
          std::abs(*std::ranges::max_element(dense, {}, [](double x) { return std::abs(x); }));
      ASSERT_GT(largest, 1);
      for (size_t i = 0; i < dense.size(); ++i) EXPECT_NEAR(rows[i], dense[i], eps * largest);
    }
}

TEST(RowGradient, OfBags) {
  const Variable which = ids({5, 1, 5, 30, 0, 1, 2}), offsets = ids({0, 3, 3, 5});
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    manual_seed(1);
    nn::EmbeddingBagOptions options{
        .num_embeddings = 50, .embedding_dim = 3, .mode = mode, .padding_idx = 2};
    nn::EmbeddingBag dense(options);
    options.sparse = true;
    nn::EmbeddingBag sparse(options);
    {
      const NoGrad off;
      copy_(sparse.weight, dense.weight);
    }
    for (const nn::EmbeddingBag* bag : {&dense, &sparse})
      sum(square((*bag)(which, offsets))).backward();
    const RowGradientPtr rows = row_gradient(sparse.weight);
    ASSERT_NE(rows, nullptr);
    EXPECT_EQ(Variable(rows->indices()).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 5, 30}));
    expect_equal(sparse.weight.grad(), dense.weight.grad());
  }
}

TEST(RowGradient, BecomesDenseWhereAnotherOpUsesTheTable) {
  const Pair pair;
  for (const bool before : {true, false})
    backward(pair, [&](const nn::Embedding& e) {
      const Variable rows = e(ids({1, 1, 4}));
      const Variable scores = matmul(rows, transpose(e.weight, 0, 1));
      return before ? sum(square(scores)) : sum(e(ids({2}))) + sum(scores);
    });
  EXPECT_EQ(row_gradient(pair.sparse.weight), nullptr);
  expect_equal(pair.sparse.weight.grad(), pair.dense.weight.grad());
}

TEST(RowGradient, IsDenseForHooksCapturesAndHigherDerivatives) {
  const Pair pair;
  const auto loss = [](const nn::Embedding& e) { return sum(pow(e(ids({1, 1, 4})), 3)); };
  expect_equal(grad(loss(pair.sparse), pair.sparse.weight),
               grad(loss(pair.dense), pair.dense.weight));
  const auto second = [&](const nn::Embedding& e) {
    return grad(sum(grad(loss(e), e.weight, {.create_graph = true})), e.weight);
  };
  expect_equal(second(pair.sparse), second(pair.dense));
  int64_t seen = 0;
  const HookHandle hook = pair.sparse.weight.register_hook([&](const Variable& gradient) {
    seen = gradient.size(0);
    return Variable();
  });
  loss(pair.sparse).backward();
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(row_gradient(pair.sparse.weight), nullptr);
}

TEST(RowGradient, OfNoIndicesChangesNothing) {
  const Pair pair;
  backward(pair, [](const nn::Embedding& e) { return sum(e(ids({}))); });
  optim::SGD(pair.sparse, 0.1).step();
  expect_equal(pair.sparse.weight, pair.dense.weight);
}

TEST(RowGradient, IsClearedByZeroGrad) {
  const Pair pair;
  sum(pair.sparse(ids({1}))).backward();
  pair.sparse.weight.zero_grad();
  EXPECT_EQ(row_gradient(pair.sparse.weight), nullptr);
  EXPECT_FALSE(pair.sparse.weight.grad().defined());
}

class RowSteps : public testing::TestWithParam<std::pair<const char*, Make>> {};

TEST_P(RowSteps, EqualDenseStepsBitForBit) {
  for (const DType dtype : {f64, f32, bf16}) {
    manual_seed(2);
    Pair pair(40, -1, dtype);
    const auto dense = GetParam().second({pair.dense.weight});
    const auto sparse = GetParam().second({pair.sparse.weight});
    for (int step = 0; step < 5; ++step) {
      const Variable which = randint(0, 40, {30});
      dense->zero_grad();
      sparse->zero_grad();
      backward(pair, [&](const nn::Embedding& e) { return sum(square(e(which) - 1.0)); });
      const double norm = optim::clip_grad_norm_({pair.dense.weight}, 1e9);
      EXPECT_NEAR(optim::clip_grad_norm_({pair.sparse.weight}, 1e9), norm, norm * 1e-2);
      ASSERT_NE(row_gradient(pair.sparse.weight), nullptr);
      dense->step();
      sparse->step();
    }
    expect_equal(pair.sparse.weight, pair.dense.weight);
    const TensorMap left = dense->state_dict(), right = sparse->state_dict();
    ASSERT_EQ(left.size(), right.size());
    for (const auto& [name, value] : left) expect_equal(Variable(value), Variable(right.at(name)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RowSteps,
    testing::Values(
        std::pair<const char*, Make>{"SGD",
                                     [](auto& p) { return std::make_unique<optim::SGD>(p, 0.1); }},
        std::pair<const char*, Make>{"Ascent",
                                     [](auto& p) {
                                       return std::make_unique<optim::Adagrad>(
                                           p, optim::AdagradOptions{.lr = 0.1, .maximize = true});
                                     }},
        std::pair<const char*, Make>{"Momentum",
                                     [](auto& p) {
                                       return std::make_unique<optim::SGD>(
                                           p, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
                                     }},
        std::pair<const char*, Make>{"WeightDecay",
                                     [](auto& p) {
                                       return std::make_unique<optim::SGD>(
                                           p, optim::SGDOptions{.lr = 0.1, .weight_decay = 0.1});
                                     }},
        std::pair<const char*, Make>{"Adam",
                                     [](auto& p) { return std::make_unique<optim::Adam>(p, 0.1); }},
        std::pair<const char*, Make>{"Adagrad",
                                     [](auto& p) {
                                       return std::make_unique<optim::Adagrad>(
                                           p, optim::AdagradOptions{.lr = 0.1, .lr_decay = 0.1});
                                     }}),
    [](const auto& info) { return std::string(info.param.first); });

/// PyTorch 2.15: torch.optim.SparseAdam([w], lr=0.1) on w = [[1, 2], [3, 4], [5, 6]], loss
/// sum(embedding(ids, w, sparse=True) ** 2), ids [0, 2, 2], then [2], then [0, 1].
TEST(SparseAdam, EqualsPyTorch) {
  nn::Embedding table({.num_embeddings = 3, .embedding_dim = 2, .sparse = true});
  {
    const NoGrad off;
    copy_(table.weight, tensor({1., 2., 3., 4., 5., 6.}, {3, 2}));
  }
  optim::SparseAdam adam(table, 0.1);
  for (const std::vector<int64_t>& step :
       std::vector<std::vector<int64_t>>{{0, 2, 2}, {2}, {0, 1}}) {
    adam.zero_grad();
    sum(square(table(ids(step)))).backward();
    adam.step();
  }
  const std::vector<double> expected = {0.8145077, 1.8142966, 2.9361186,
                                        3.9361186, 4.8070788, 5.8070288};
  const std::vector<double> got = table.weight.to_vector<double>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
}

TEST(SparseAdam, LeavesOtherRowsAlone) {
  const Pair pair(1000);
  optim::SparseAdam adam(pair.sparse, 0.1);
  sum(square(pair.sparse(ids({3, 5})))).backward();
  adam.step();
  const auto before = pair.dense.weight.to_vector<float>(),
             after = pair.sparse.weight.to_vector<float>();
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i] != before[i], i / 3 == 3 || i / 3 == 5) << i;
}

// PyTorch 2.15: torch.optim.SparseAdam([w], lr=1.0), gradient 1e-7 of row 0, in float64. eps is as
// large as the square root of the second moment, to which it is added before the correction.
TEST(SparseAdam, TinyGradientsMeetEps) {
  nn::Embedding table({.num_embeddings = 2, .embedding_dim = 1, .sparse = true});
  table.to(f64);
  {
    const NoGrad off;
    table.weight.zero_();
  }
  optim::SparseAdam adam(table, 1.0);
  for (const double expected : {-0.24025307335204218, -0.5492166755544687}) {
    adam.zero_grad();
    (sum(table(ids({0}))) * 1e-7).backward();
    adam.step();
    EXPECT_NEAR(table.weight[0].item(), expected, 1e-12);
  }
}

TEST(SparseAdam, UpdatesDenseParametersAsAdam) {
  manual_seed(4);
  nn::Linear left({.in_features = 3, .out_features = 2});
  const nn::Linear right = left.clone();
  const Variable x = randn({4, 3});
  // With eps, which the two add in different places, the results would differ.
  optim::SparseAdam sparse(left, {.lr = 0.1, .eps = 0});
  optim::Adam adam(right, {.lr = 0.1, .eps = 0});
  for (int step = 0; step < 3; ++step) {
    sum(square(left(x))).backward();
    sum(square(right(x))).backward();
    sparse.step();
    adam.step();
  }
  expect_equal(left.weight, right.weight);
}

TEST(RowGradient, StaysRowsWhenScaledClippedAndReported) {
  const Pair pair;
  const auto loss = [](const nn::Embedding& e) { return sum(square(e(ids({1, 1, 4})))); };
  optim::SGD sgd(pair.sparse, 0.1), dense(pair.dense, 0.1);
  optim::GradScaler scaler({.init_scale = 8}), other({.init_scale = 8});
  scaler.scale(loss(pair.sparse)).backward();
  other.scale(loss(pair.dense)).backward();
  scaler.unscale_(sgd);
  other.unscale_(dense);
  optim::clip_grad_value_(pair.sparse, 0.5);
  optim::clip_grad_value_(pair.dense, 0.5);
  memory_report({.model = &pair.sparse});
  ASSERT_NE(row_gradient(pair.sparse.weight), nullptr);
  scaler.step(sgd);
  other.step(dense);
  expect_equal(pair.sparse.weight, pair.dense.weight);
}

TEST(RowGradient, AllocatesNothingOfTheSizeOfTheTable) {
  nn::Embedding table({.num_embeddings = 100'000, .embedding_dim = 16, .sparse = true});
  optim::Adagrad adagrad(table, 0.1);
  const Variable which = randint(0, 100'000, {64});
  const auto step = [&] {
    adagrad.zero_grad();
    sum(square(table(which))).backward();
    adagrad.step();
  };
  step();  // allocates the state
  EXPECT_LT(time_calls(step).peak_bytes, 200'000) << "the table has 6,400,000 bytes";
}

}  // namespace
}  // namespace tapegrad
