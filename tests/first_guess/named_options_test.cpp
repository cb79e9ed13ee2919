// Optional arguments by their names, as `keepdim=True` in Python: sum(x, {.dim = 1, .keepdim =
// true}). Each expectation is one guess; see guess.h.
#include <gtest/gtest.h>

#include <cmath>

#include "tapegrad.h"
#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

TEST(FirstGuessNamed, Reductions) {
  const Variable x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  GUESS("[[6],[15]]", sum(x, {.dim = 1, .keepdim = true}));
  GUESS("[[21]]", sum(x, {.keepdim = true}));
  GUESS("21", sum(x, {.dim = {0, 1}}));
  GUESS("float64", sum(x, {.dtype = f64}).dtype());
  GUESS("[2, 5]", mean(x, {.dim = 1}));
  GUESS("[[3.5]]", mean(x, {.keepdim = true}));
  GUESS("[6, 120]", prod(x, {.dim = 1}));
  GUESS("[3, 6], [2, 2]", max(x, {.dim = 1}));
  GUESS("[[1],[4]], [[0],[0]]", min(x, {.dim = 1, .keepdim = true}));
  GUESS("[[3],[6]]", amax(x, {.dim = 1, .keepdim = true}));
  GUESS("[[1]]", amin(x, {.keepdim = true}));
  GUESS("[false, true]", any(x > 3, {.dim = 1}));
  GUESS("[[false],[true]]", all(x > 3, {.dim = 1, .keepdim = true}));
  GUESS("[[3],[12]]",
        norm(tensor({{-1.0, 2.0}, {4.0, -8.0}}), {.p = 1, .dim = 1, .keepdim = true}));
  EXPECT_TRUE(logsumexp(x, {.dim = 1}).equal(logsumexp(x, 1)));
  GUESS("[2, 1]", logsumexp(x, {.dim = 1, .keepdim = true}).shape());
  // Positional forms are not taken for options.
  GUESS("[6, 15]", sum(x, {1}));
  GUESS("[[6],[15]]", sum(x, {1}, true));
  GUESS("[5, 7, 9]", sum(x, 0));
}

TEST(FirstGuessNamed, Ops) {
  const Variable x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  EXPECT_TRUE(softmax(x, {.dim = 0}).equal(softmax(x, 0)));
  EXPECT_TRUE(log_softmax(x, {.dim = 1}).equal(log_softmax(x, 1)));
  GUESS("float64", softmax(x, {.dim = 1, .dtype = f64}).dtype());
  EXPECT_TRUE(gelu(x, {.approximate = "tanh"}).equal(gelu(x, Gelu::kTanh)));
  EXPECT_TRUE(gelu(x).equal(gelu(x, "none")));
  GUESS("[[21, 22],[23, 24]]", add(x, 10, {.alpha = 2}));
  GUESS("[[-1, 0],[1, 2]]", sub(x, 1, {.alpha = 2}));
  const Variable image = ones({1, 1, 4, 4}), taps = ones({1, 1, 3, 3});
  GUESS("[1, 1, 4, 4]", conv2d(image, taps, {.padding = 1}).shape());
  GUESS("[1, 1, 2, 2]", conv2d(image, taps, {.stride = 2, .padding = 1}).shape());
  GUESS("[1, 1, 9, 9]", conv_transpose2d(image, taps, {.stride = 2}).shape());
  GUESS("[1, 1, 6]", conv1d(ones({1, 1, 6}), ones({1, 1, 3}), {.padding = 1}).shape());
  GUESS("[1, 1, 2, 2]", conv2d(image, taps, {}).shape());
}

TEST(FirstGuessNamed, RoundToDecimals) {
  const Variable x = tensor({1.2345, -2.7182, 1250.0}, f64);
  GUESS("[1.23, -2.72, 1250]", round(x, 2));
  GUESS("[1.2, -2.7, 1250]", round(x, {.decimals = 1}));
  GUESS("[0, 0, 1200]", abs(round(x, -2)));  // 12.5 hundreds: half to even
  GUESS("[7]", round(tensor({7}), 1));
  EXPECT_THROW(round(tensor({7}), -1), ArgumentError);
}

TEST(FirstGuessNamed, Layers) {
  const Variable x = tensor({{-2.0, 0.5}, {3.0, -0.1}});
  EXPECT_TRUE(nn::ReLU({.inplace = true})(x).equal(relu(x)));
  EXPECT_TRUE(nn::ReLU6({.inplace = true})(x).equal(relu6(x)));
  EXPECT_TRUE(nn::SiLU({.inplace = true})(x).equal(silu(x)));
  EXPECT_TRUE(nn::Hardswish({.inplace = true})(x).equal(hardswish(x)));
  EXPECT_TRUE(nn::LeakyReLU({.negative_slope = 0.2})(x).equal(leaky_relu(x, 0.2)));
  EXPECT_TRUE(nn::ELU({.alpha = 0.5})(x).equal(elu(x, 0.5)));
  EXPECT_TRUE(nn::CELU({.alpha = 0.5})(x).equal(celu(x, 0.5)));
  EXPECT_TRUE(nn::GELU({.approximate = "tanh"})(x).equal(gelu(x, "tanh")));
  EXPECT_TRUE(nn::Softplus({.beta = 2})(x).equal(softplus(x, 2)));
  EXPECT_TRUE(nn::Hardtanh({.min_val = -0.5, .max_val = 2})(x).equal(hardtanh(x, -0.5, 2)));
  EXPECT_TRUE(nn::Softshrink({.lambd = 0.3})(x).equal(softshrink(x, 0.3)));
  EXPECT_TRUE(nn::Hardshrink({.lambd = 0.3})(x).equal(hardshrink(x, 0.3)));
  EXPECT_TRUE(nn::Softmax({.dim = 0})(x).equal(softmax(x, 0)));
  EXPECT_TRUE(nn::LogSoftmax({.dim = 0})(x).equal(log_softmax(x, 0)));
  EXPECT_TRUE(nn::Softmin({.dim = 0})(x).equal(softmin(x, 0)));
  EXPECT_TRUE(nn::GLU({.dim = 0})(x).equal(glu(x, 0)));
  GUESS("[2, 12]", nn::Flatten({.start_dim = 1})(ones({2, 3, 4})).shape());
  GUESS("[6, 4]", nn::Flatten({.start_dim = 0, .end_dim = 1})(ones({2, 3, 4})).shape());
  nn::Dropout all({.p = 1.0});
  GUESS("[[0, 0],[0, 0]]", abs(all(x)));
  nn::Dropout2d planes({.p = 1.0});
  GUESS("0", planes(ones({1, 2, 3, 3})).sum());
  GUESS("16", nn::MSELoss({.reduction = "sum"})(x, x + 2));
  GUESS("8", nn::L1Loss({.reduction = "sum"})(x, x + 2));
  GUESS("[[4, 4],[4, 4]]", nn::MSELoss({.reduction = "none"})(zeros({2, 2}), 2 * ones({2, 2})));
  EXPECT_TRUE(nn::CircularPad2d(1)(ones({1, 1, 2, 2})).equal(ones({1, 1, 4, 4})));
  GUESS("[[[3, 1, 2, 3, 1, 2]]]", nn::CircularPad1d({1, 2})(tensor({{{1.0, 2.0, 3.0}}})));
}

TEST(FirstGuessNamed, ModulesAndOptimizers) {
  nn::Linear net(2, 1);
  net(ones({1, 2})).sum().backward();
  net.zero_grad({.set_to_none = false});
  GUESS("[[0, 0]]", net.weight.grad());
  optim::SGD sgd(net, 0.1);
  sgd.zero_grad({.set_to_none = true});
  GUESS("false", net.weight.grad().defined());
  const nn::LoadReport report =
      net.load_state_dict({{"weight", ones({1, 2}).value()}}, {.strict = false});
  GUESS("bias", report.missing_keys[0]);
  GUESS("[[1, 1]]", net.weight);

  Variable y = net(ones({1, 2}));
  GUESS("false", y.is_leaf());
  y.detach_();
  GUESS("true", y.is_leaf());
  GUESS("false", y.requires_grad());
  const Variable base = net.weight * 2;
  EXPECT_THROW(base.view({2}).detach_(), AutogradError);
  EXPECT_THROW(Variable().detach_(), ArgumentError);
}

TEST(FirstGuessNamed, SchedulesTogether) {
  // torch.optim.lr_scheduler.ChainedScheduler([ConstantLR(0.1, 2), ExponentialLR(0.9)])
  nn::Linear net(1, 1);
  optim::SGD sgd(net, 1.0);
  optim::ConstantLR warmup(sgd, 0.1, 2);
  optim::ExponentialLR decay(sgd, 0.9);
  optim::ChainedScheduler schedule({warmup, decay});
  for (const double rate : {0.1, 0.09, 0.81, 0.729}) {
    EXPECT_NEAR(sgd.lr(), rate, 1e-12);
    schedule.step();
  }
  optim::SGD other(net, 1.0);
  optim::ExponentialLR foreign(other, 0.9);
  EXPECT_THROW(optim::ChainedScheduler({decay, foreign}), ArgumentError);
  EXPECT_THROW(optim::ChainedScheduler(std::vector<optim::Scheduler*>()), ArgumentError);
}

TEST(FirstGuessNamed, SamplersAndFolds) {
  const TensorDataset dataset(arange(5).to(f32), zeros({5}));
  const SequentialSampler in_order(dataset);
  GUESS("5", in_order.size());
  EXPECT_EQ(in_order.indices(3), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  std::vector<int64_t> order = RandomSampler(dataset).indices(0);
  EXPECT_NE(order, RandomSampler(dataset).indices(1));
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, in_order.indices(0));
  const RandomSampler drawn(dataset, {.replacement = true, .num_samples = 200});
  const std::vector<int64_t> indices = drawn.indices(0);
  GUESS("200", indices.size());
  for (int64_t i = 0; i < 5; ++i) EXPECT_GT(std::count(indices.begin(), indices.end(), i), 10);
  EXPECT_THROW(RandomSampler(5, {.num_samples = 6}), ArgumentError);
  EXPECT_THROW(RandomSampler(0, {.replacement = true, .num_samples = 1}), ArgumentError);
  EXPECT_THROW(RandomSampler(-1), ArgumentError);
  EXPECT_THROW(SequentialSampler(-1), ArgumentError);

  // sklearn.model_selection.KFold(2).split(range(5))
  const std::vector<Fold> folds = KFold(2).split(dataset);
  EXPECT_EQ(folds[0].test, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(folds[1].test, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(folds[1].train, (std::vector<int64_t>{0, 1, 2}));
  int64_t tested = 0;
  for (const auto& [train, test] : KFold({.n_splits = 3, .shuffle = true, .seed = 1}).split(7)) {
    tested += int64_t(test.size());
    EXPECT_EQ(train.size() + test.size(), 7);
  }
  EXPECT_EQ(tested, 7);
  EXPECT_THROW(KFold(1), ArgumentError);
  EXPECT_THROW(KFold(5).split(4), ArgumentError);
}

TEST(FirstGuessNamed, DtypesOfResults) {
  const Variable x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  GUESS("float64", softmax(x, 1, {.dtype = f64}).dtype());
  GUESS("float64", log_softmax(x, 1, {.dtype = f64}).dtype());
  GUESS("float64", x.softmax(-1, f64).dtype());
  EXPECT_TRUE(x.log_softmax(-1, torch::kDouble).equal(log_softmax(x.to(f64), -1)));
  EXPECT_TRUE(cumsum(x, 0, {.dtype = f64}).equal(cumsum(x.to(f64), 0)));
  EXPECT_TRUE(cumprod(x, 0, {.dtype = f64}).equal(cumprod(x.to(f64), 0)));
  EXPECT_TRUE(x.sum(torch::kDouble).equal(scalar(10.0, {.dtype = f64})));
  EXPECT_TRUE(x.mean(f64).equal(scalar(2.5, {.dtype = f64})));
}

TEST(FirstGuessNamed, MarginsOfLosses) {
  const Variable x = tensor({0.5, -0.25}), one = tensor({1.0, -1.0});
  GUESS("1.75", hinge_embedding_loss(x, one, {.reduction = "sum"}));
  GUESS("1.75", nn::HingeEmbeddingLoss({.reduction = "sum"})(x, one));
  GUESS("2.75", nn::HingeEmbeddingLoss({.margin = 2, .reduction = "sum"})(x, one));
  GUESS("0", margin_ranking_loss(x, x, one, {.reduction = "sum"}));
  GUESS("0.5", margin_ranking_loss(x, x, one, {.margin = 0.5}));
  GUESS("0.5", nn::MarginRankingLoss({.margin = 0.5})(x, x, one));
  GUESS("0.5", cosine_embedding_loss(x, x, tensor(-1.0), {.margin = 0.5}));
  const Variable batch = tensor({{1.0, 0.0}, {0.0, 1.0}});
  GUESS("0.5", nn::CosineEmbeddingLoss({.margin = 0.5})(batch, batch, tensor({1.0, -1.0})) * 2);
  GUESS("[0.125, 0.5]", nn::HuberLoss("none", 0.5)(tensor({0.5, 1.25}), zeros({2})));
}

TEST(FirstGuessNamed, StatesInOneFile) {
  nn::Linear net(2, 1);
  optim::Adam adam(net, 0.1);
  net(ones({1, 2})).sum().backward();
  adam.step();
  const testing::TempDir folder;
  const std::string path = folder / "run.safetensors";
  save(path, {{"model", net.state_dict()}, {"adam", adam.state_dict()}});
  nn::Linear other(2, 1);
  other.load_state_dict(part_of(load(path), "model"));
  EXPECT_TRUE(other.weight.equal(net.weight));
  optim::Adam resumed(other, 0.1);
  resumed.load_state_dict(part_of(load(path), "adam"));
  EXPECT_EQ(resumed.state_dict().size(), adam.state_dict().size());
  GUESS("true", part_of(load(path), "mod").empty());
  EXPECT_THROW(
      save(path, {{"a", {{"b.c", ones({1}).value()}}}, {"a.b", {{"c", ones({1}).value()}}}}),
      ArgumentError);
}

TEST(FirstGuessNamed, OpsWithSeveralOptions) {
  const Variable x = tensor({{1.0, 3.0, 6.0}, {2.0, 2.0, 9.0}});
  GUESS("[[1],[7]]", diff(x, {.n = 2}));
  GUESS("[[1, -1, 3]]", diff(x, {.dim = 0}));
  GUESS("[3, 9]", diagonal(x, {.offset = 1}));
  GUESS("[[1, 3],[2, 2]]", topk(x, 2, {.largest = false}).values);
  GUESS("[[1, 0, 1]]", x.topk(1, {.dim = 0}).indices);
  GUESS("[[6, 3, 1],[9, 2, 2]]", sort(x, 1, {.descending = true}).values);
  GUESS("[[6, 3, 1],[9, 2, 2]]", x.sort(1, {.descending = true})[0]);
  const Variable sorted = tensor({1.0, 2.0, 2.0, 3.0});
  GUESS("[1, 3]", searchsorted(sorted, tensor({1.0, 2.0}), {.side = "right"}));
  GUESS("[0, 1]", searchsorted(sorted, tensor({1.0, 2.0}), {.side = "left"}));
  GUESS("[1, 3]", torch::searchsorted(sorted, tensor({1.0, 2.0}), /*out_int32=*/false, true));
  EXPECT_THROW(searchsorted(sorted, sorted, true, true), ArgumentError);
  GUESS("[3.25, 3.75]", trapezoid(x, {.dx = 0.5}));
  GUESS("[6.5, 7.5]", trapezoid(x, {.x = tensor({0.0, 1.0, 2.0})}));
  GUESS("1", x.aminmax({.dim = 1}).min[0]);
  GUESS("[[9]]", x.aminmax({.keepdim = true}).max);
  GUESS("[[1.5, 2],[2.5, 6]]",
        quantile(tensor({{1.0, 2.0, 3.0}, {2.0, 2.0, 10.0}}), tensor({0.25, 0.75}), 1));
  const Variable image = ones({1, 1, 4, 4}), taps = ones({1, 1, 3, 3});
  GUESS("[1, 1, 4, 4]", conv2d(image, taps, {.padding = "same", .dilation = 1}).shape());
  GUESS("[1, 1, 2, 2]", conv2d(image, taps, {.padding = "valid"}).shape());
  GUESS("[1, 1, 4, 4]", conv2d(image, taps, {.padding = {1, 1}}).shape());
  GUESS("[1, 1, 2, 2]", conv2d(image, taps, {}).shape());
  GUESS("[1, 1, 8]", conv1d(ones({1, 1, 8}), ones({1, 1, 3}), {.padding = "same"}).shape());
  GUESS("[1, 1, 4, 4, 4]",
        conv3d(ones({1, 1, 4, 4, 4}), ones({1, 1, 3, 3, 3}), {.padding = "same"}).shape());
  GUESS("[[1, 3, 6]]", embedding(tensor({0}), x, {.padding_idx = 0}));
  EXPECT_TRUE(nn::CosineSimilarity({.dim = 1, .eps = 1e-6})(x, x).allclose(ones({2})));
  GUESS("0",
        nn::LayerNorm({.normalized_shape = {3}, .elementwise_affine = false}).parameters().size());
  GUESS("[1, 1, 2, 2]", nn::AvgPool2d({.kernel_size = 2, .stride = 2})(image).shape());
  GUESS("[1, 1, 2, 2]", nn::UpsamplingBilinear2d(2)(image).shape());
  GUESS("[1, 1, 8, 8]", nn::UpsamplingNearest2d({.scale_factor = 2})(image).shape());
  const Variable sequence = ones({3, 1, 4});
  nn::MultiheadAttention attention(4, 2);
  const auto [y, weights] =
      attention(sequence, sequence, sequence, {.average_attn_weights = false});
  GUESS("[1, 2, 3, 3]", weights.shape());
  nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(4, 2), 2);
  encoder.eval();
  EXPECT_TRUE(encoder(sequence, {.is_causal = true})
                  .allclose(encoder(
                      sequence, {.mask = nn::Transformer::generate_square_subsequent_mask(3)})));
}

TEST(FirstGuessNamed, Members) {
  const Variable x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  GUESS("[[1, 2],[9, 9]]", x.select_scatter(tensor({9.0, 9.0}), 0, 1));
  GUESS("[[9, 2],[9, 4]]", x.slice_scatter(tensor({{9.0}, {9.0}}), 1, 0, 1));
  GUESS("[[9, 2],[3, 9]]", x.diagonal_scatter(tensor({9.0, 9.0})));
  GUESS("[[2],[4]]", x.hsplit(2)[1]);
  GUESS("[[1, 2]]", x.vsplit(2)[0]);
  GUESS("[[1],[3]]", x.tensor_split({1, 2}, 1)[0]);
  GUESS("[[4, 3],[2, 1]]", x.flip(0, 1));
  EXPECT_TRUE(x.norm("fro").equal(x.norm()));
  EXPECT_TRUE(x.norm("nuc").allclose(linalg::matrix_norm(x, "nuc")));
  GUESS("4", x.norm(0));
  GUESS("[[0.1, 0.2],[0.3, 0.4]]", (x / 9.99).round({.decimals = 1}));
  GUESS("[[1, 2],[2, 2]]", x.clamp(std::nullopt, 2));
  EXPECT_TRUE((x / 4).logit(1e-3).equal(logit(x / 4, 1e-3)));
  GUESS("float16", x.half().dtype());
  GUESS("bfloat16", x.bfloat16().dtype());
  GUESS("int32", x.type(torch::kInt32).dtype());
  GUESS("[[2],[4]]", x.index({Slice(), std::vector<int64_t>{1}}));
  GUESS("float64", as_tensor(std::vector<float>{1, 2}, f64).dtype());
  GUESS("255", tensor(255.9).item<uint8_t>() + 0);
  EXPECT_THROW(tensor(1e20).item<int>(), ArgumentError);
  EXPECT_THROW(tensor(-1.5).item<size_t>(), ArgumentError);
  EXPECT_THROW(tensor(NAN).item<int64_t>(), ArgumentError);
  GUESS("-9223372036854775808", tensor(-9223372036854775808.0).item<int64_t>());
}

}  // namespace
}  // namespace tapegrad
