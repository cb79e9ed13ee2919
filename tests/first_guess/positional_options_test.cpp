// First guesses about options by name where arguments have positions and the reverse,
// layers within layers, generators, sums of conditions. Numbers are PyTorch's.
#include <vector>

#include "tests/first_guess/guess.h"

using namespace tapegrad;
using guesses::text;

namespace {

TEST(PositionalOptions, LayersWithinLayers) {
  nn::Sequential net(nn::Sequential(nn::Linear(2, 4), nn::ReLU()), nn::Linear(4, 2));
  GUESS("[4, 2]", net[0][0].weight().sizes());
  EXPECT_EQ(net[0][-1].kind(), "ReLU");
  EXPECT_THROW(net[0][2], IndexError);
  net[0][0].weight().requires_grad_(false);
  EXPECT_FALSE(net.parameters()[0].requires_grad());
}

// PyTorch refuses such an assignment; a plain tensor would never be trained.
TEST(PositionalOptions, AssignedWeightsAreTrained) {
  nn::Linear fc(2, 2);
  fc.weight = ones({2, 2});
  fc.bias = zeros({2});
  optim::SGD optimizer(fc, 0.5);
  fc(ones({1, 2})).sum().backward();
  optimizer.step();
  GUESS("[[0.5, 0.5], [0.5, 0.5]]", fc.weight);
  GUESS("[-0.5, -0.5]", fc.bias);
  nn::LayerNorm norm(2);
  norm.weight = full({2}, 3.0);
  EXPECT_TRUE(norm.weight.requires_grad());

  const nn::Embedding frozen = nn::Embedding::from_pretrained(ones({4, 2}));
  nn::Linear head(2, 4);
  head.weight = frozen.weight;  // another handle, frozen as well
  EXPECT_FALSE(head.weight.requires_grad());
  nn::Embedding table(4, 2);
  head.weight = table.weight;
  head(ones({1, 2})).sum().backward();
  GUESS("[[1, 1], [1, 1], [1, 1], [1, 1]]", table.weight.grad());
  nn::Linear still(2, 2);
  still.weight.requires_grad_(false);
  still.weight = ones({2, 2});
  EXPECT_FALSE(still.weight.requires_grad());
}

TEST(PositionalOptions, OptimizersAndSchedules) {
  nn::Linear net(2, 1);
  optim::SGD sgd(net.parameters(), 0.1, {.momentum = 0.9});
  optim::Adam adam(net, 1e-3, {.weight_decay = 0.1});
  optim::AdamW adamw(net, 1e-3, {.betas = {0.9, 0.95}});
  EXPECT_EQ(adamw.lr(), 1e-3);
  EXPECT_EQ(adam.weight_decay(), 0.1);
  std::vector<optim::StepLR> schedules;
  schedules.push_back(optim::StepLR(sgd, 1));
  schedules.push_back(optim::StepLR(adam, 1, 0.5));
  for (optim::LRScheduler& each : schedules) each.step();
  GUESS("[0.01]", schedules[0].get_last_lr());
  GUESS("[0.0005]", schedules[1].get_last_lr());
  optim::OneCycleLR one(adamw, {.max_lr = 1e-2,
                                .epochs = 2,
                                .steps_per_epoch = 5,
                                .pct_start = 0.5,
                                .anneal_strategy = "linear"});
  GUESS("[0.0004]", one.get_last_lr());
  optim::SGD other(net, 1.0);
  optim::CosineAnnealingWarmRestarts restarts(other, {.T_0 = 2, .T_mult = 2});
  restarts.step();
  GUESS("[0.5]", restarts.get_last_lr());
  optim::SGD last(net, 1.0);
  optim::ConstantLR constant(last, {.factor = 0.25, .total_iters = 2});
  GUESS("[0.25]", constant.get_last_lr());
}

TEST(PositionalOptions, InitialValuesByName) {
  Variable w = empty({200, 50});
  nn::init::trunc_normal_(w, {.std = 0.02});
  EXPECT_LT(w.abs().max().item(), 2.0);
  EXPECT_NEAR(w.std().item(), 0.02, 2e-3);
  nn::init::normal_(w, {.mean = 3, .std = 0.5});
  EXPECT_NEAR(w.mean().item(), 3, 0.05);
  nn::init::uniform_(w, {.a = 1, .b = 2});
  EXPECT_GE(w.min().item(), 1);
  nn::init::xavier_uniform_(w, {.gain = 2});
  EXPECT_NEAR(w.abs().max().item(), 2 * std::sqrt(6.0 / 250), 1e-2);
  nn::init::xavier_normal_(w, {.gain = 0.0});
  GUESS("0", w.abs().max());
  nn::init::orthogonal_(w, {.gain = 2});
  EXPECT_NEAR(matmul(w.t(), w).trace().item(), 4 * 50, 1e-2);
}

TEST(PositionalOptions, LossesByPosition) {
  const Variable logp = log_softmax(tensor({{1., 2.}, {3., 1.}}), 1);
  const Variable y = tensor({1, 0});
  GUESS("0.44019", torch::nll_loss(logp, y, /*weight=*/{}, torch::Reduction::Sum));
  GUESS("0.266678", nll_loss(logp, y, tensor({1., 3.})));
  GUESS("0.266678", cross_entropy(logp, y, tensor({1., 3.})));
  GUESS("0.220095", nll_loss(logp, y, {}));
  GUESS("inf", ctc_loss(log_softmax(zeros({1, 1, 3}), 2), tensor({{1, 2}}), {1}, {2}, 0, "mean"));
  GUESS("0", ctc_loss(log_softmax(zeros({1, 1, 3}), 2), tensor({{1, 2}}), {1}, {2}, 0, "mean",
                      /*zero_infinity=*/true));
}

TEST(PositionalOptions, MasksByPosition) {
  manual_seed(3);
  nn::TransformerDecoderLayer layer(8, 2, {.dropout = 0});
  nn::TransformerDecoder decoder(layer, 2);
  nn::Transformer both({.d_model = 8,
                        .nhead = 2,
                        .num_encoder_layers = 1,
                        .num_decoder_layers = 1,
                        .dim_feedforward = 16,
                        .dropout = 0});
  const Variable memory = randn({5, 1, 8}), target = randn({4, 1, 8});
  const Variable mask = nn::causal_mask(4);
  EXPECT_TRUE(equal(layer(target, memory, mask), layer(target, memory, {.tgt_mask = mask})));
  EXPECT_TRUE(equal(decoder(target, memory, mask), decoder(target, memory, {.tgt_mask = mask})));
  EXPECT_TRUE(equal(layer(target, memory, mask, zeros({4, 5})), layer(target, memory, mask)));
  EXPECT_TRUE(
      equal(both(memory, target, zeros({5, 5}), mask), both(memory, target, {.tgt_mask = mask})));
}

TEST(PositionalOptions, MembersByName) {
  const Variable x = tensor({{3., 1., 2.}, {1., 2., 3.}});
  GUESS("[[0, 2, 1], [2, 1, 0]]", x.argsort({.descending = true}));
  GUESS("[[1, 1, 2], [3, 2, 3]], [[1, 0, 0], [0, 1, 1]]", x.sort({.dim = 0}));
  GUESS("[[0.880797, 0.268941, 0.268941], [0.119203, 0.731059, 0.731059]]", x.softmax({.dim = 0}));
  GUESS("[-0.126928, -1.31326, -1.31326]", x.log_softmax({.dim = 0})[0]);
  GUESS("[2, 3]", x.flatten({.start_dim = 1}).sizes());
  GUESS("[6]", flatten(x, {.end_dim = 1}).sizes());
  const std::vector<int64_t> sizes = x.sizes();
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 3}));
}

TEST(PositionalOptions, FilledByAVariable) {
  Variable x = tensor({1., 5., 3.});
  x.masked_fill_(x > 2, x.min());
  GUESS("[1, 1, 1]", x);
  const Variable w = tensor({1., 2.}).requires_grad_(), v = scalar(3.).requires_grad_();
  Variable y = w * 1;
  y.masked_fill_(w > 1.5, v);
  y.sum().backward();
  GUESS("[1, 0]", w.grad());
  GUESS("1", v.grad());
}

// F.unfold(x, kernel_size, dilation, padding), not x.unfold(dim, size, step).
TEST(PositionalOptions, UnfoldByPosition) {
  const Variable image = randn({2, 3, 5, 5});
  GUESS("[2, 27, 25]", unfold(image, 3, 1, 1).sizes());
  EXPECT_TRUE(equal(unfold(image, 3, 1, 1), nn::functional::unfold(image, 3, 1, 1)));
  GUESS("[2, 3, 5, 3, 3]", image.unfold(3, 3, 1).sizes());
}

// As in PyTorch: the sum of conditions is "or", the product is "and".
TEST(PositionalOptions, SumsOfConditions) {
  Variable a = tensor({1., 1., 0., 0.}) > 0, b = tensor({1., 0., 1., 0.}) > 0;
  GUESS("[true, false, false, false]", a * b);
  GUESS("[true, true, true, false]", a + b);
  a *= b;
  GUESS("[true, false, false, false]", a);
  GUESS("1", (a * b).sum());
  GUESS("nan", tensor({1.}).std());  // without a sign
}

TEST(PositionalOptions, MediansOfEqualElements) {
  const Variable x = tensor({1., 2., 2., 5.}).requires_grad_();
  x.median().backward();
  GUESS("[0, 0.5, 0.5, 0]", x.grad());
  const Variable z = tensor({1., NAN, 2., NAN}).requires_grad_();
  z.median().backward();
  GUESS("[0, 0.5, 0, 0.5]", z.grad());
  const Variable w = tensor({1., NAN, 2., 2.}).requires_grad_();
  w.nanmedian().backward();
  GUESS("[0, 0, 0.5, 0.5]", w.grad());
}

TEST(PositionalOptions, DataSets) {
  const TensorDataset set(randn({20, 2}), zeros({20}, i64));
  auto parts = random_split(set, {15, 5}, torch::Generator().manual_seed(42));
  auto again = random_split(set, {15, 5}, torch::Generator().manual_seed(42));
  EXPECT_TRUE(equal(parts[1].get(0).data, again[1].get(0).data));
  RandomGenerator generator(1);
  auto [first, rest] = random_split(set, {0.5, 0.5}, generator);
  auto [second, more] = random_split(set, {0.5, 0.5}, generator);
  EXPECT_FALSE(equal(first.get(0).data, second.get(0).data));
  int64_t batches = 0;
  for (auto [i, batch] : enumerate(DataLoader(set, 8))) batches += i;
  EXPECT_EQ(batches, 3);

  nn::Linear net(2, 1);
  const Variable x = randn({8, 2}), y = randn({8, 1});
  EXPECT_NEAR(evaluate(net, x, y, nn::MSELoss()).loss, mse_loss(net(x), y).item(), 1e-6);
}

// The line of a loss that fit() calls is that of fit(), not of the standard library.
TEST(PositionalOptions, LineOfALossWithinFit) {
  nn::Linear net(2, 1);
  optim::SGD optimizer(net, 0.1);
  try {
    fit(net, randn({8, 2}), rand({8, 3}), optimizer, nn::BCELoss(), {.epochs = 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("invoke.h"), std::string::npos) << error.what();
  }
}

TEST(PositionalOptions, SavedTensorsTakenApart) {
  struct Product : torch::autograd::Function<Product> {
    static Variable forward(torch::autograd::AutogradContext& ctx, Variable a, Variable b) {
      ctx.save_for_backward({a, b});
      return a * b;
    }
    static std::vector<Variable> backward(torch::autograd::AutogradContext& ctx,
                                          std::vector<Variable> dy) {
      const auto [a, b] = ctx.saved_tensors<2>();
      return {dy[0] * b, dy[0] * a};
    }
  };
  const Variable a = tensor({2.}).requires_grad_(), b = tensor({3.}).requires_grad_();
  Product::apply(a, b).backward();
  GUESS("[3]", a.grad());
  const auto f = [](const Variable& p, const Variable& q) { return p * q; };
  EXPECT_TRUE(gradcheck(f, {a.to(f64).detach().requires_grad_(), b.to(f64)}, 1e-6, 1e-4).ok);
  GUESS("[2.]", Tensor::full({1}, 2.0, f32));
}

TEST(FirstGuessPositions, NormsPoolsAndLists) {
  GUESS("[2, 4]", nn::LayerNorm({4}, 1e-6, false)(ones({2, 4})).sizes());
  GUESS("0", nn::LayerNorm(4, 1e-6, false).parameters().size());
  GUESS("1", nn::LayerNorm(4, 1e-6, true, false).parameters().size());
  GUESS("[[1, 0],[0, 2]]", block_diag(tensor({{1.0}}), tensor({{2.0}})));
  GUESS("[[1, 3],[2, 3]]", cartesian_prod(tensor({1, 2}), tensor({3})));
  GUESS("[2, 2]", broadcast_tensors(ones({2, 1}), ones({2}))[0].sizes());
}

}  // namespace
