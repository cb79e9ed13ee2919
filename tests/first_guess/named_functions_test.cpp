// Functions with options by name, as PyTorch's keyword arguments. Each row compares the form with
// names with the form by position.
#include "tests/first_guess/guess.h"

namespace tapegrad {
namespace {

namespace F = torch::nn::functional;
using guesses::expect_close;

const Variable x = tensor({{-2.0, -0.4, 0.3, 1.5}, {0.6, -1.2, 25.0, 0.1}});
const Variable y = tensor({{0.5, 0.4, -0.3, 1.0}, {2.6, -1.0, 2.0, 0.7}});

TEST(NamedFunctions, Activations) {
  expect_close(leaky_relu(x, {.negative_slope = 0.2}), leaky_relu(x, 0.2));
  expect_close(F::leaky_relu(x, {.negative_slope = 0.2, .inplace = true}), leaky_relu(x, 0.2));
  expect_close(elu(x, {.alpha = 0.5}), elu(x, 0.5));
  expect_close(celu(x, {.alpha = 0.5}), celu(x, 0.5));
  expect_close(softplus(x, {.beta = 2.0}), softplus(x, 2.0));
  expect_close(softplus(x, {.beta = 2.0, .threshold = 1.0}), softplus(x, 2.0, 1.0));
  expect_close(F::softplus(x, {.threshold = 1.0}), softplus(x, 1.0, 1.0));
  expect_close(hardtanh(x, {.min_val = -0.2, .max_val = 0.5}), hardtanh(x, -0.2, 0.5));
  expect_close(F::threshold(x, {.threshold = 0.2, .value = 7}), threshold(x, 0.2, 7));
  expect_close(softshrink(x, {.lambd = 0.1}), softshrink(x, 0.1));
  expect_close(hardshrink(x, {.lambd = 1.3}), hardshrink(x, 1.3));
  expect_close(rrelu(x, {.lower = 0.2, .upper = 0.4}), leaky_relu(x, 0.3));
  expect_close(glu(x, {.dim = 0}), glu(x, 0));
  expect_close(softmin(x, {.dim = 0}), softmin(x, 0));
  expect_close(nn::ELU({.alpha = 0.5})(x), elu(x, 0.5));
}

TEST(NamedFunctions, DistancesAndNormalizations) {
  expect_close(pairwise_distance(x, y, {.p = 1.0, .keepdim = true}),
               pairwise_distance(x, y, 1.0, 1e-6, true));
  expect_close(nn::PairwiseDistance({.p = 1.0})(x, y), pairwise_distance(x, y, 1.0));
  expect_close(cosine_similarity(x, y, {.dim = 0}), cosine_similarity(x, y, 0));
  expect_close(cdist(x, y, {.p = 1.0}), cdist(x, y, 1.0));
  expect_close(pdist(x, {.p = 1.0}), pdist(x, 1.0));
  expect_close(distance(x, y, {.p = 1.0}), distance(x, y, 1.0));
  GUESS("[[0, 0, 1]]", one_hot(tensor({2}), {.num_classes = 3}));
  const Variable weight = tensor({1.0, 2.0, 3.0, 4.0}), bias = weight / 10;
  expect_close(layer_norm(x, {4}, {.eps = 0.5}), layer_norm(x, {4}, {}, {}, 0.5));
  expect_close(F::layer_norm(x, {4}, {.weight = weight, .bias = bias}),
               layer_norm(x, {4}, weight, bias));
  expect_close(group_norm(x, 2, {.weight = weight, .eps = 0.5}), group_norm(x, 2, weight, {}, 0.5));
  expect_close(batch_norm(x, weight, weight, {.bias = bias, .eps = 0.5}),
               batch_norm(x, weight, weight, {}, bias, false, 0.1, 0.5));
  expect_close(F::batch_norm(x, {}, {}, {.training = true}), batch_norm(x, {}, {}, {}, {}, true));
}

/// The chained options of libtorch reach the same functions.
TEST(NamedFunctions, ChainedOptions) {
  expect_close(F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(0.2)), leaky_relu(x, 0.2));
  expect_close(F::elu(x, F::ELUFuncOptions().alpha(0.5)), elu(x, 0.5));
  expect_close(F::hardtanh(x, F::HardtanhFuncOptions().min_val(-0.2)), hardtanh(x, -0.2));
  expect_close(F::softplus(x, F::SoftplusFuncOptions().beta(2.0)), softplus(x, 2.0));
  expect_close(F::pairwise_distance(x, y, F::PairwiseDistanceFuncOptions().p(1.0)),
               pairwise_distance(x, y, 1.0));
  expect_close(F::cosine_similarity(x, y, F::CosineSimilarityFuncOptions().dim(0)),
               cosine_similarity(x, y, 0));
  expect_close(F::batch_norm(x, {}, {}, F::BatchNormFuncOptions().training(true)),
               batch_norm(x, {}, {}, {}, {}, true));
}

}  // namespace
}  // namespace tapegrad
