// Errors name the line of the user's program: of ops, members, subscripts, constructors and
// optimizers, and never a line of the library's own sources.
#include <gtest/gtest.h>

#include "tapegrad.h"

namespace tapegrad {
namespace {

/// Compares the last line of an error with "at error_line_test.cpp:LINE". The statement must throw.
#define EXPECT_LINE(...)                                                        \
  do {                                                                          \
    std::string text = "no error";                                              \
    try {                                                                       \
      __VA_ARGS__;                                                              \
    } catch (const Error& error) {                                              \
      text = error.what();                                                      \
    }                                                                           \
    const std::string line = "error_line_test.cpp:" + std::to_string(__LINE__); \
    EXPECT_NE(text.find(line), text.npos)                                       \
        << #__VA_ARGS__ << " at line " << __LINE__ << ": " << text;             \
  } while (false)

const Variable x = ones({2, 3}), whole = ones({2, 3}, {.dtype = i64});

TEST(ErrorLine, OfEmptyVariables) {
  Variable e, y = ones({2, 3});
  EXPECT_LINE(e + 1);
  EXPECT_LINE(1 - e);
  EXPECT_LINE(e * x);
  EXPECT_LINE(x / e);
  EXPECT_LINE(static_cast<void>(e > 0));
  EXPECT_LINE(static_cast<void>(x == e));
  EXPECT_LINE(e += 1);
  EXPECT_LINE(y *= e);
  EXPECT_LINE(y.sub_(e));
  EXPECT_LINE(relu(e));
  EXPECT_LINE(tanh(e));
  EXPECT_LINE(exp(e));
  EXPECT_LINE(pow(e, 2));
  EXPECT_LINE(gelu(e));
  EXPECT_LINE(matmul(e, x));
  EXPECT_LINE(matmul(x, e));
  EXPECT_LINE(where(x > 0, e, x));
  EXPECT_LINE(where(e, 1, 0));
  EXPECT_LINE(e.to(f64));
  EXPECT_LINE(e.to(cpu));
  EXPECT_LINE(e.detach());
  EXPECT_LINE(e.requires_grad_());
  EXPECT_LINE(e.to_vector<float>());
  EXPECT_LINE(e.data_ptr<float>());
  EXPECT_LINE((e.accessor<float, 2>()));
  EXPECT_LINE(e.contiguous());
}

TEST(ErrorLine, OfGradients) {
  const Variable w = ones({3}, {.requires_grad = true}),
                 unused = ones({3}, {.requires_grad = true});
  const Variable y = sum(x * w);
  EXPECT_LINE(grad(x, w));
  EXPECT_LINE(grad(y, unused));
  EXPECT_LINE(grad(y, {unused}));
  EXPECT_LINE(grad(y, {w}, {.grad_outputs = ones({4})}));
  EXPECT_LINE(einsum("ij,jk", x, ones({4, 2})));
  EXPECT_LINE(x.data_ptr<double>());
}

TEST(ErrorLine, OfReductionsAndOrders) {
  EXPECT_LINE(sum(x, 5));
  EXPECT_LINE(x.sum(5));
  EXPECT_LINE(mean(x, {0, 0}));
  EXPECT_LINE(x.mean(-4));
  EXPECT_LINE(amax(x, 2));
  EXPECT_LINE(max(x, 2));
  EXPECT_LINE(x.min(7));
  EXPECT_LINE(argmax(x, 3));
  EXPECT_LINE(any(x > 0, 2));
  EXPECT_LINE(prod(x, 2));
  EXPECT_LINE(x.var({4}));
  EXPECT_LINE(logsumexp(x, 2));
  EXPECT_LINE(cumsum(x, 2));
  EXPECT_LINE(cummax(x, 2));
  EXPECT_LINE(softmax(x, 4));
  EXPECT_LINE(topk(x, 9));
  EXPECT_LINE(x.sort(3));
  EXPECT_LINE(x.argsort(3));
  EXPECT_LINE(unique(x, 3));
  EXPECT_LINE(median(x, 3));
  EXPECT_LINE(quantile(x, 1.5));
  EXPECT_LINE(sum(x, {.dim = 5}));
  EXPECT_LINE(max(x, {.keepdim = true}));
  EXPECT_LINE(min(x, {.keepdim = true}));
}

TEST(ErrorLine, OfShapes) {
  EXPECT_LINE(x[5]);
  EXPECT_LINE(x[0][7]);
  EXPECT_LINE(x[tensor({4})]);
  EXPECT_LINE(x[ones({3, 3}) > 0]);
  EXPECT_LINE(x.view({7}));
  EXPECT_LINE(x.permute({0, 0}));
  EXPECT_LINE(x.squeeze(4));
  EXPECT_LINE(x.unsqueeze(4));
  EXPECT_LINE(flip(x, {3}));
  EXPECT_LINE(x.diagonal(0, 0, 0));
  EXPECT_LINE(cat({x, ones({1, 4})}));
  EXPECT_LINE(pad(x, {1, 2, 3}));
  EXPECT_LINE(tile(x, {-1}));
  EXPECT_LINE(x.expand({5, 5}));
  EXPECT_LINE(gather(x, 1, tensor({{0, 9}, {0, 0}})));
  EXPECT_LINE(x.scatter_add(4, tensor({{0}}), x));
  EXPECT_LINE(index_select(x, 0, tensor({9})));
  EXPECT_LINE(take(x, tensor({9})));
  Variable y = ones({2, 3});
  EXPECT_LINE(y[y > 0] = ones({4}));
  EXPECT_LINE(y.index_put_({tensor({9})}, 1.0));
}

TEST(ErrorLine, OfWholeNumbersAndInPlace) {
  EXPECT_LINE(softplus(whole));
  EXPECT_LINE(gelu(whole));
  EXPECT_LINE(silu(whole));
  Variable y = ones({2}, {.dtype = i64}), z = ones({2});
  EXPECT_LINE(y += 1.5);
  EXPECT_LINE(y /= 2);
  EXPECT_LINE(exp_(y));
  EXPECT_LINE(y.uniform_());
  EXPECT_LINE(normal_(z, 0, -1));
  EXPECT_LINE(z.exponential_(-1));
}

TEST(ErrorLine, OfImages) {
  const Variable image = ones({1, 1, 2, 2});
  EXPECT_LINE(max_pool2d(image, 5));
  EXPECT_LINE(avg_pool2d(image, {.kernel_size = 5}));
  EXPECT_LINE(conv2d(image, ones({1, 1, 3, 3})));
  EXPECT_LINE(conv2d(image, ones({1, 2, 1, 1}), {.padding = 1}));
  EXPECT_LINE(conv_transpose2d(image, ones({2, 1, 1, 1})));
  EXPECT_LINE(interpolate(image, {.scale_factor = -1.0}));
  EXPECT_LINE(unfold(image, 3));
}

TEST(ErrorLine, OfCreation) {
  EXPECT_LINE(arange(0, 10, -1));
  EXPECT_LINE(linspace(0, 1, -5));
  EXPECT_LINE(logspace(0, 1, -5));
  EXPECT_LINE(eye(-1));
  EXPECT_LINE(randint(5, 2, {3}));
  EXPECT_LINE(randperm(-1));
  EXPECT_LINE(randn({2}, {.dtype = i64}));
  EXPECT_LINE(full({2}, 300, {.dtype = u8}));
  EXPECT_LINE(tensor({{1, 2}, {3}}));
  EXPECT_LINE(tensor({1.0, 2.0}, Shape{3}));
  EXPECT_LINE(hann_window(-1));
  EXPECT_LINE(addmm(x, ones({2, 2}), ones({2, 4})));
  EXPECT_LINE(linalg::vector_norm(x, 2, {5}));
}

TEST(ErrorLine, OfDevicesAndDTypes) {
  nn::Linear net(3, 2);
  EXPECT_LINE(x.to("cuda:x"));
  EXPECT_LINE(x.to("float33"));
  EXPECT_LINE(net.to("cudaa"));
  EXPECT_LINE(zeros({2}, {.device = "cudax"}));
  EXPECT_LINE(Device("gpus"));
  EXPECT_LINE(parse_device("cpu:1"));
  EXPECT_LINE(parse_dtype("float33"));
  EXPECT_LINE(set_default_device("tpu"));
  if (!is_available(gpu)) EXPECT_LINE(net.cuda());
}

TEST(ErrorLine, OfMemoryOfTheCaller) {
  double memory[4] = {};
  void* bytes = memory;
  EXPECT_LINE(from_blob(memory, {2, 2}, f32));
  EXPECT_LINE(from_blob(memory, {2, 2}, {.dtype = f32}));
  EXPECT_LINE(from_blob(memory, {2, 2}, {.device = "cuda"}));
  EXPECT_LINE(from_blob(memory, {2}, {-1}));
  EXPECT_LINE(from_blob(memory, {-2}));
  EXPECT_LINE(from_blob(bytes, {2, 2}));
  EXPECT_LINE(from_blob(static_cast<double*>(nullptr), {2}));
}

TEST(ErrorLine, OfConstructors) {
  EXPECT_LINE(nn::Linear(-3, 2));
  EXPECT_LINE(nn::Linear({.in_features = 3}));
  EXPECT_LINE(nn::Linear(3, -1, {.bias = false}));
  EXPECT_LINE(nn::Conv2d(3, 8, 3, {.groups = 2}));
  EXPECT_LINE(nn::Conv2d(3, 8, 3, 1, 0, 1, 2));
  EXPECT_LINE(nn::Conv1d({.in_channels = 2, .out_channels = 2}));
  EXPECT_LINE(nn::Conv2d(3, 8, 3, 2, "same"));
  EXPECT_LINE(nn::ConvTranspose2d(3, 8, 0));
  EXPECT_LINE(nn::BatchNorm2d(-3, {.eps = 1e-3}));
  EXPECT_LINE(nn::Embedding(10, 4, 11));
  EXPECT_LINE(nn::EmbeddingBag(0, 4));
  EXPECT_LINE(nn::Dropout(1.5));
  EXPECT_LINE(nn::Dropout({.p = -1}));
  EXPECT_LINE(nn::LSTM(0, 4));
  EXPECT_LINE(nn::GRU(3, 4, {.num_layers = -1}));
  EXPECT_LINE(nn::MultiheadAttention(10, 3));
  EXPECT_LINE(nn::MultiheadAttention(10, 3, {.dropout = 0.5}));
  EXPECT_LINE(nn::TransformerEncoderLayer(10, 3, {.dropout = 0.0}));
  EXPECT_LINE(nn::TransformerEncoderLayer(10, 3));
  EXPECT_LINE(nn::TransformerDecoderLayer(10, 3));
  EXPECT_LINE(nn::TransformerDecoderLayer(10, 3, {.dropout = 0.0}));
  EXPECT_LINE(nn::Transformer(10, 3));
  EXPECT_LINE(nn::Transformer({.d_model = 10, .nhead = 3}));
}

TEST(ErrorLine, OfOptimizers) {
  nn::Linear net(2, 2);
  EXPECT_LINE(optim::SGD(net, -0.1));
  EXPECT_LINE(optim::SGD(net.parameters(), {.lr = 0.1, .momentum = -1}));
  EXPECT_LINE(optim::SGD(std::vector<Variable>(), 0.1));
  EXPECT_LINE(optim::Adam(net, {.lr = 1e-3, .betas = {1.5, 0.9}}));
  EXPECT_LINE(optim::AdamW({net.weight}, NAN));
  EXPECT_LINE(optim::RMSprop(net, {.alpha = 2}));
  EXPECT_LINE(optim::NAdam(net, {.momentum_decay = -1}));
  EXPECT_LINE(optim::Rprop(net, {.step_sizes = {2, 1}}));
  optim::SGD sgd(net, 0.1);
  EXPECT_LINE(sgd.add_param_group({.params = {net.weight}}));
  const int made_at = __LINE__ + 1;
  optim::Adam adam(net, 0.1);
  try {  // the line of the optimizer
    adam.load_state_dict({{"step", ones({}).value()}});
    FAIL();
  } catch (const ArgumentError& error) {
    const std::string line = "error_line_test.cpp:" + std::to_string(made_at);
    EXPECT_NE(std::string(error.what()).find(line), std::string::npos) << error.what();
  }
}

TEST(ErrorLine, OfNormLayers) {
  EXPECT_LINE(nn::GroupNorm(3, 8));
  EXPECT_LINE(nn::GroupNorm({.num_groups = 3, .num_channels = 8}));
  EXPECT_LINE(nn::GroupNorm(3, 8, {.affine = false}));
  EXPECT_LINE(nn::LayerNorm(4, -1.0));
  EXPECT_LINE(nn::LayerNorm({2, 4}, -1.0));
  EXPECT_LINE(nn::LayerNorm(4, {.eps = -1.0}));
  EXPECT_LINE(nn::LayerNorm({.eps = 1e-3}));
  EXPECT_LINE(nn::RMSNorm({.eps = 1e-3}));
  EXPECT_LINE(nn::RMSNorm(4, {.eps = -1.0}));
  EXPECT_LINE(nn::BatchNorm1d(-3));
  EXPECT_LINE(nn::BatchNorm2d(3, -1.0));
  EXPECT_LINE(nn::InstanceNorm2d(3, -1.0));
  EXPECT_LINE(nn::InstanceNorm2d({.momentum = 2}));
}

TEST(ErrorLine, OfSchedulers) {
  nn::Linear net(2, 2);
  optim::SGD sgd(net, 0.1);
  EXPECT_LINE(optim::StepLR(sgd, 0));
  EXPECT_LINE(optim::StepLR(sgd, {.step_size = 2, .gamma = -1}));
  EXPECT_LINE(optim::MultiStepLR(sgd, {.milestones = {3, 1}}));
  EXPECT_LINE(optim::ExponentialLR(sgd, -1));
  EXPECT_LINE(optim::CosineAnnealingLR(sgd, 0));
  EXPECT_LINE(optim::LinearLR(sgd, 2.0));
  EXPECT_LINE(optim::OneCycleLR(sgd, {.max_lr = 1.0}));
  EXPECT_LINE(optim::LambdaLR(sgd, nullptr));
  EXPECT_LINE(optim::CosineAnnealingWarmRestarts(sgd, 0));
  EXPECT_LINE(optim::ConstantLR(sgd, 2.0));
  EXPECT_LINE(optim::PolynomialLR(sgd, 0));
  EXPECT_LINE(optim::MultiplicativeLR(sgd, nullptr));
  EXPECT_LINE(optim::CyclicLR(sgd, 1.0, 0.1));
  EXPECT_LINE(optim::SWALR(sgd, -1.0));
  EXPECT_LINE(optim::ReduceLROnPlateau(sgd, {.factor = 2}));
  EXPECT_LINE(optim::ReduceLROnPlateau(sgd, "min", 2.0));
  optim::ExponentialLR decay(sgd, 0.9);
  EXPECT_LINE(optim::WarmupLR(sgd, decay, {}));
  EXPECT_LINE(optim::SequentialLR(sgd, {decay, decay}, {}));
  EXPECT_LINE(optim::ChainedScheduler({}));
  EXPECT_LINE(optim::lr_scheduler::StepLR(sgd, -1));
}

TEST(ErrorLine, OfDataSetsSamplersAndLoaders) {
  EXPECT_LINE(TensorDataset(x, ones({3})));
  EXPECT_LINE(TensorDataset(Variable(ones({}))));
  EXPECT_LINE(TensorDataset(Variable{}));
  const TensorDataset data(x, ones({2}));
  EXPECT_LINE(DataLoader(data, 0));
  EXPECT_LINE(DataLoader(data, {.batch_size = -1}));
  EXPECT_LINE(DataLoader(data, {.num_workers = -1}));
  EXPECT_LINE(DeviceLoader(data, {.batch_size = 0}));
  EXPECT_LINE(Subset(data, {7}));
  EXPECT_LINE(random_split(data, {0.3, 0.3}));
  EXPECT_LINE(WeightedRandomSampler({-1.0, 1.0}, 3));
  EXPECT_LINE(WeightedRandomSampler(x, 3));
  EXPECT_LINE(RandomSampler(-1));
  EXPECT_LINE(RandomSampler(data, {.num_samples = 5}));
  EXPECT_LINE(SequentialSampler(-1));
  EXPECT_LINE(DistributedSampler(3, Shard{4, 2}));
  const std::vector<int> items{1, 2};
  EXPECT_LINE(ItemLoader(items, {.batch_size = 0}));
  EXPECT_LINE(ItemLoader(items, {.num_workers = -1}));
}

TEST(ErrorLine, OfNamesOfOptions) {
  EXPECT_LINE(mse_loss(x, x, "avg"));
  EXPECT_LINE(mse_loss(x, x, {.reduction = "avg"}));
  EXPECT_LINE(kl_div(x, x, "batchmeen"));
  EXPECT_LINE(nn::KLDivLoss("batchmeen"));
  EXPECT_LINE(nn::L1Loss("total"));
  EXPECT_LINE(gelu(x, "tan"));
  EXPECT_LINE(pad(x, {1, 1}, "mirror"));
  EXPECT_LINE(nn::Conv2d(3, 8, 3, {.padding_mode = "mirror"}));
  EXPECT_LINE(nn::Upsample({.scale_factor = 2, .mode = "cubic"}));
  EXPECT_LINE(F1(2, "weighted"));
  EXPECT_LINE(set_float32_matmul_precision("low"));
  EXPECT_LINE(EarlyStopping({.mode = "least"}));
  EXPECT_LINE(EarlyStopping({.patience = -1}));
  nn::Linear net(2, 2);
  optim::SGD sgd(net, 0.1);
  EXPECT_LINE(optim::ReduceLROnPlateau(sgd, "least"));
  EXPECT_LINE(optim::SWALR(sgd, 0.1, 5, "sin"));
}

TEST(ErrorLine, OfInitialValues) {
  Variable vector = ones({3}), matrix = ones({2, 3});
  EXPECT_LINE(nn::init::xavier_uniform_(vector));
  EXPECT_LINE(nn::init::xavier_normal_(vector, {.gain = 2}));
  EXPECT_LINE(nn::init::kaiming_uniform_(vector));
  EXPECT_LINE(nn::init::kaiming_normal_(matrix, {.nonlinearity = "swish"}));
  EXPECT_LINE(nn::init::kaiming_normal_(matrix, 0, "fan_both"));
  EXPECT_LINE(nn::init::normal_(matrix, 0, -1));
  EXPECT_LINE(nn::init::normal_(matrix, {.std = -1}));
  EXPECT_LINE(nn::init::uniform_(matrix, 1, 0));
  EXPECT_LINE(nn::init::trunc_normal_(matrix, 0, -1));
  EXPECT_LINE(nn::init::eye_(vector));
  EXPECT_LINE(nn::init::dirac_(matrix));
  EXPECT_LINE(nn::init::orthogonal_(vector));
  EXPECT_LINE(nn::init::constant_(Variable(), 1));
  EXPECT_LINE(nn::init::calculate_gain("swish"));
  EXPECT_LINE(torch::normal(0.0, -1.0, {3}));
  EXPECT_LINE(normal(x, -x));
}

TEST(ErrorLine, OfFilesAndStates) {
  nn::Linear net(2, 2), other(3, 2);
  Variable read;
  EXPECT_LINE(load("/nonexistent/file.safetensors", net));
  EXPECT_LINE(load(net, "/nonexistent/file.safetensors"));
  EXPECT_LINE(load("/nonexistent/file.safetensors"));
  EXPECT_LINE(load(read, "/nonexistent/file.safetensors"));
  EXPECT_LINE(save("/nonexistent/file.safetensors", net));
  EXPECT_LINE(save(net, "/nonexistent/file.safetensors"));
  EXPECT_LINE(save(x, "/nonexistent/file.safetensors"));
  EXPECT_LINE(save("/nonexistent/file.safetensors", {{"x", x}, {"n", 3}}));
  EXPECT_LINE(net.load_state_dict(other.state_dict()));
  EXPECT_LINE(net.load_state_dict(other.state_dict(), {.strict = false}));
  EXPECT_LINE(net.to(i64));
}

// The ops of a layer run in the library's loop; the error names the line that calls fit().
TEST(ErrorLine, OfArraysAndTables) {
  const std::string absent = "/absent/file";
  EXPECT_LINE(load_npy(absent));
  EXPECT_LINE(load_npz(absent));
  EXPECT_LINE(loadtxt(absent));
  EXPECT_LINE(load_mnist(absent));
  EXPECT_LINE(load_mnist_npz(absent));
  EXPECT_LINE(save_npy(absent, x));
  EXPECT_LINE(savez(absent, {{"x", x}}));
}

TEST(ErrorLine, OfTraining) {
  nn::Linear net(3, 2), other(3, 2);
  optim::SGD sgd(net, 0.1), wrong(other, 0.1);
  const Variable data = ones({4, 3}), narrow = ones({4, 2}), labels = zeros({4}, {.dtype = i64});
  DataLoader batches(TensorDataset(data, labels), {.batch_size = 2});
  EXPECT_LINE(fit(net, narrow, labels, sgd));
  EXPECT_LINE(fit(net, narrow, labels, sgd, {.verbose = 0}));
  EXPECT_LINE(fit(net, data, labels, sgd, {.epochs = -1}));
  EXPECT_LINE(fit(net, data, labels, sgd, {.batch_size = 0}));
  EXPECT_LINE(fit(net, data, labels, sgd, {.validation_split = 2}));
  EXPECT_LINE(fit(net, data, labels, wrong, {.verbose = 0}));
  EXPECT_LINE(fit(net, batches, wrong, {.verbose = 0}));
  EXPECT_LINE(fit(net, data, labels, sgd, {.loss = "mse", .verbose = 0}));
  EXPECT_LINE(fit(net, data, labels, sgd, "msee"));
  EXPECT_LINE(fit(net, data, labels + 2, sgd, {.verbose = 0}));
  EXPECT_LINE(fit(net, data, narrow * -1, sgd, {.verbose = 0}));
  EXPECT_LINE(evaluate(net, narrow, labels));
  EXPECT_LINE(evaluate(net, data, labels, nn::MSELoss()));
  EXPECT_LINE(predict(net, narrow));
  EXPECT_LINE(predict(net, narrow, {.batch_size = 2}));
  DataLoader none(TensorDataset(data, labels), {.batch_size = 8, .drop_last = true});
  EXPECT_LINE(evaluate(net, none));
  EXPECT_LINE(predict(net, none));
}

TEST(ErrorLine, OfScalersAndRates) {
  nn::Linear net(3, 2);
  optim::SGD sgd(net, 0.1);
  GradScaler scaler;
  net(ones({1, 3})).sum().backward();
  EXPECT_LINE(scaler.step(sgd));
  EXPECT_LINE(scaler.unscale_(sgd));
  EXPECT_LINE(scaler.update());
  EXPECT_LINE(GradScaler({.init_scale = -1}));
  EXPECT_LINE(optim::clip_grad_norm_(net, -1));
  EXPECT_LINE(nn::utils::clip_grad_norm_(net.parameters(), 1.0, -1.0));
  EXPECT_LINE(nn::utils::clip_grad_norm_(net.parameters(), {.max_norm = -1}));
  EXPECT_LINE(nn::utils::clip_grad_value_(net, -1));
  EXPECT_LINE(sgd.set_lr(-1));
  EXPECT_LINE(sgd.set_lr(0, NAN));
  optim::OneCycleLR schedule(sgd, 0.1, 1);
  schedule.step();
  EXPECT_LINE(schedule.step());
}

TEST(ErrorLine, OfDerivativesOfFunctions) {
  const auto twice = [](const Variable& y) { return y * 2; };
  const auto both = [](const std::vector<Variable>& ys) { return ys; };
  const Variable row = ones({3});
  const std::vector<Variable> rows = {row, row};
  EXPECT_LINE(vjp(twice, row));
  EXPECT_LINE(jvp(twice, row, x));
  EXPECT_LINE(hvp(twice, row));
  EXPECT_LINE(hessian(twice, row));
  EXPECT_LINE(jacobian(twice, whole));
  EXPECT_LINE(gradient(twice, row));
  EXPECT_LINE(vjp(both, rows));
  EXPECT_LINE(jvp(both, rows, {row}));
  EXPECT_LINE(hessian(both, rows));
  EXPECT_LINE(jacobian(both, std::vector<Variable>{whole}));
}

TEST(ErrorLine, OfFunctionsOfFunctions) {
  const auto twice = [](const Variable& y) { return y * 2; };
  const auto add = [](const Variable& a, const Variable& b) { return a + b; };
  EXPECT_LINE(func::grad(twice)(x));
  EXPECT_LINE(func::hessian(twice)(ones({3})));
  EXPECT_LINE(func::jvp(twice, ones({3}), ones({2})));
  EXPECT_LINE(func::vmap(add)(ones({3}), ones({4})));
  EXPECT_LINE(func::vmap(add, 0)(ones({3}), ones({4})));
}

TEST(ErrorLine, OfDistributions) {
  using namespace distributions;
  EXPECT_LINE(Normal(0.0, -1.0));
  EXPECT_LINE(Normal(zeros({2}), zeros({2})));
  EXPECT_LINE(Uniform(1.0, 0.0));
  EXPECT_LINE(Bernoulli(2.0));
  EXPECT_LINE(Bernoulli({.probs = ones({1}) * 2.0}));
  EXPECT_LINE(Categorical(-ones({3})));
  EXPECT_LINE(Categorical({.probs = ones({3}), .logits = ones({3})}));
  EXPECT_LINE(Multinomial(-1, ones({3})));
  EXPECT_LINE(Dirichlet(-ones({3})));
  EXPECT_LINE(Beta(-1.0, 1.0));
  EXPECT_LINE(MultivariateNormal(zeros({3}), -eye(3)));
  EXPECT_LINE(MultivariateNormal(zeros({2}), eye(3)));
  EXPECT_LINE(MultivariateNormal(zeros({3}), MultivariateNormal::Options{}));
  EXPECT_LINE(MultivariateNormal(zeros({3}), {.scale_tril = -eye(3)}));
  EXPECT_LINE(Exponential(-1.0));
  EXPECT_LINE(Laplace(0.0, -1.0));
  EXPECT_LINE(LogNormal(0.0, -1.0));
  EXPECT_LINE(Gamma(-1.0, 1.0));
  EXPECT_LINE(Cauchy(0.0, 0.0));
  EXPECT_LINE(HalfNormal(0.0));
  EXPECT_LINE(HalfCauchy(0.0));
  EXPECT_LINE(Gumbel(0.0, 0.0));
  EXPECT_LINE(Weibull(1.0, 0.0));
  EXPECT_LINE(Pareto(1.0, 0.0));
  EXPECT_LINE(StudentT(0.0));
  EXPECT_LINE(Chi2(0.0));
  EXPECT_LINE(VonMises(0.0, 0.0));
  EXPECT_LINE(Poisson(-1.0));
  EXPECT_LINE(Geometric(0.0));
  EXPECT_LINE(Binomial(-1, 0.5));
  EXPECT_LINE(OneHotCategorical(-ones({3})));
  EXPECT_LINE(RelaxedOneHotCategorical(0.0, ones({3})));
  EXPECT_LINE(Independent(Normal(0.0, 1.0), 3));
  EXPECT_LINE(Normal(zeros({2}), ones({2})).log_prob(zeros({3})));
  EXPECT_LINE(Categorical(ones({3})).log_prob(7));
  EXPECT_LINE(Poisson(1.0).cdf(2));
  EXPECT_LINE(Poisson(1.0).icdf(0.5));
}

struct Twice : nn::Model<Twice> {
  nn::MultiheadAttention attention{4, 2};
  void members(nn::Members& m) override { m("attention", attention); }
  Variable forward(const Variable& y) const { return attention(y, y, y); }
};

// The ops of a module of the library are called by the library's sources; the error names the line
// that calls the module.
TEST(ErrorLine, OfModulesOfTheLibrary) {
  const nn::TransformerEncoderLayer layer(4, 2);
  EXPECT_LINE(layer(ones({2, 3, 5})));
  EXPECT_LINE(layer(ones({2, 3, 4}, {.dtype = i64})));
  const nn::MultiheadAttention attention(4, 2);
  const Variable x = ones({3, 2, 4}), mask = zeros({2, 2});
  EXPECT_LINE(attention(x, x, x, {.attn_mask = mask}));
  try {
    layer.forward(ones({2, 3, 4}, {.dtype = i64}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("attention.cpp"), std::string::npos) << error.what();
  }
  try {
    Twice()(ones({2, 3, 4}, {.dtype = i64}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(", in Twice.attention"), std::string::npos)
        << error.what();
    EXPECT_EQ(std::string(error.what()).find("nn/"), std::string::npos) << error.what();
  }
}

TEST(ErrorLine, OfBracketsAndNames) {
  const nn::Sequential net(nn::Linear(2, 2), nn::ReLU());
  EXPECT_LINE(net[9]);
  EXPECT_LINE(net["fc"]);
  EXPECT_LINE(static_cast<const nn::Module&>(net)[2]);
  EXPECT_LINE(net.get_submodule("body"));
  EXPECT_LINE(net.get_parameter("0.scale"));
  EXPECT_LINE(net.named_parameters()[2]);
  EXPECT_LINE(net.named_parameters()["scale"]);
  optim::SGD sgd(net, 0.1);
  EXPECT_LINE(sgd.param_groups()[4]);
  EXPECT_EQ(&sgd.param_groups()[-1], &sgd.param_groups()[0]);
}

TEST(ErrorLine, OfSettingsAndAssignments) {
  EXPECT_LINE(set_default_dtype(i64));
  EXPECT_LINE(set_default_device(DeviceType::kPrivate1));
  EXPECT_LINE(SummaryWriter("/dev/null/runs"));
  EXPECT_LINE(Accuracy().update(ones({2, 3}), ones({4})));
  const TensorDataset rows(zeros({4, 2}));
  EXPECT_LINE(split_dataset(rows, 2.0));
  EXPECT_LINE(split_dataset(Subset(rows, {0, 1}), 2.0));
  EXPECT_LINE(split_dataset(std::vector<int>(4), 2.0));
  EXPECT_LINE(nn::pack_padded_sequence(zeros({5, 2, 3}), {6, 1}));
  EXPECT_LINE(nn::pack_padded_sequence(zeros({5, 2, 3}), {6, 1}, false, false));
  EXPECT_LINE(nn::pack_padded_sequence(zeros({5, 2, 3}), tensor({6, 1})));
  EXPECT_LINE(nn::pack_padded_sequence(zeros({2, 5, 3}), {6, 1}, {.batch_first = true}));
  EXPECT_LINE(save_report("/dev/null/report.html", {}));
  Variable y = zeros({2, 3});
  EXPECT_LINE(y[0] = ones({4}));
  EXPECT_LINE(y.slice(1, 0, 2) = ones({3, 2}));
}

}  // namespace
}  // namespace tapegrad
