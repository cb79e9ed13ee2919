// First guesses of users of libtorch: programs with `using namespace tapegrad` and names of
// torch::.
#include <cmath>

#include "tests/first_guess/guess.h"

using namespace tapegrad;

namespace {

TEST(FirstGuessLibtorch, Tensors) {
  torch::manual_seed(1);
  torch::Tensor x = torch::ones({2, 3}) + 1;
  GUESS("[[2, 2, 2],[2, 2, 2]]", x);
  GUESS("float64", torch::randn({2, 3}, torch::kFloat64).dtype());
  GUESS("float64", torch::randn({2, 3}, torch::TensorOptions().dtype(torch::kFloat64)).dtype());
  GUESS("float64", torch::zeros({2, 3}, torch::dtype(torch::kFloat64)).dtype());
  GUESS("true", torch::tensor({1.0, 2.0}, torch::requires_grad()).requires_grad());
  GUESS("true",
        torch::tensor({1.0}, torch::dtype(torch::kFloat64).requires_grad(true)).requires_grad());
  GUESS("cpu", torch::zeros({1}, torch::device(torch::kCPU)).device());
  const torch::Device device = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
  x = x.to(device).to(torch::kCPU, torch::kFloat64);
  GUESS("float64", x.dtype());
  GUESS("[4, 4, 4]", torch::stack({x, x}).sum(0)[0]);
  GUESS("[1, 2, 3]", x.index({torch::indexing::None}).shape());
  GUESS("[2, 2]", x.index({torch::indexing::Ellipsis, torch::indexing::Slice(0, 2)}).sizes());
  GUESS("[2]", torch::where(x > 0, x, torch::zeros_like(x)).argmax(1).eq(0).sizes());
  auto [values, indices] = torch::max(x, 1);
  GUESS("[2, 2]", values);
  auto [top, at] = torch::topk(x, 2);
  GUESS("[2, 2]", at.sizes());
  {
    torch::NoGradGuard no_grad;
    GUESS("false", torch::ones({1}).requires_grad_().mul(2).requires_grad());
  }
  torch::Tensor w = torch::ones({3}, torch::requires_grad());
  GUESS("[1, 1, 1]", torch::autograd::grad({w.sum()}, {w})[0]);
  GUESS("[1, 1, 1]", torch::nn::functional::relu(w));
  GUESS("[2, 2]", torch::einsum("ij,kj->ik", {x, x}).sizes());
}

struct Net : nn::Model<Net> {
  torch::nn::Linear fc1{4, 8}, fc2{torch::nn::LinearOptions(8, 3).bias(false)};
  void members(nn::Members& m) override { m("fc1", fc1)("fc2", fc2); }
  torch::Tensor forward(torch::Tensor x) const {
    return torch::log_softmax(fc2->forward(torch::relu(fc1->forward(x))), /*dim=*/1);
  }
};

TEST(FirstGuessLibtorch, Training) {
  auto net = std::make_shared<Net>();
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1e-3).betas({0.8, 0.9}));
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(1e-3).weight_decay(0.1));
  GUESS("0.001", adam.lr());
  GUESS("0.001", adamw.lr());
  auto loader = torch::data::make_data_loader(
      TensorDataset(torch::randn({32, 4}), torch::randint(0, 3, {32})), /*batch_size=*/8);
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 20; ++epoch)
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      torch::Tensor prediction = net->forward(batch.data);
      torch::Tensor loss = torch::nll_loss(prediction, batch.target);
      loss.backward();
      optimizer.step();
      last = loss.item<float>();
      if (first == 0) first = last;
    }
  EXPECT_LT(last, first);
  net->eval();
  net->to(torch::kCPU);
  for (const auto& pair : net->named_parameters()) GUESS("true", pair.value().defined());
  GUESS("fc1.weight", net->named_parameters()[0].key());
  GUESS("true", torch::nn::utils::clip_grad_norm_(net->parameters(), 0.5) >= 0);
}

TEST(FirstGuessLibtorch, Options) {
  GUESS("[1, 8, 3, 3]", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).stride(2).bias(false))(
                            ones({1, 3, 8, 8}))
                            .shape());
  GUESS("false", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).bias(false)).bias.defined());
  GUESS("[2, 8, 7]",
        torch::nn::Conv1d(torch::nn::Conv1dOptions(4, 8, 3).padding(0))(ones({2, 4, 9})).shape());
  GUESS("[8]", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(8).eps(1e-3).momentum(0.2))
                   .weight.shape());
  GUESS("[10, 4]",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).padding_idx(0)).weight.shape());
  GUESS("[2, 5, 6]", torch::nn::LSTM(torch::nn::LSTMOptions(4, 6).num_layers(2).batch_first(true))(
                         ones({2, 5, 4}))[0]
                         .shape());
  GUESS(
      "[5, 2, 12]",
      torch::nn::GRU(torch::nn::GRUOptions(4, 6).bidirectional(true))(ones({5, 2, 4}))[0].shape());
}

TEST(FirstGuess, PositionsInBraces) {
  GUESS("[10, 784]", nn::Linear({784, 10}).weight.shape());
  GUESS("[32, 1, 3, 3]", nn::Conv2d({1, 32, 3}).weight.shape());
  GUESS("[100, 8]", nn::Embedding({100, 8}).weight.shape());
  GUESS("[1, 2, 20]", nn::GRU({10, 20})(ones({1, 2, 10}))[0].shape());
  GUESS("[7, 2, 64]",
        nn::MultiheadAttention({64, 8})(ones({7, 2, 64}), ones({7, 2, 64}), ones({7, 2, 64}))
            .shape());
  nn::Sequential net;
  net.add(nn::Linear(4, 2));
  net.append(nn::ReLU());
  net->push_back(nn::Linear(2, 1));
  GUESS("[3, 1]", net(ones({3, 4})).shape());
  const auto shaped = nn::Sequential({nn::Flatten(), nn::Linear({.out_features = 10})},
                                     {.input_shape = {1, 28, 28}});
  GUESS("[10]", shaped[-1].out_shape());
  nn::Chain chain(nn::Linear(4, 2), nn::ReLU());
  print(chain);
  nn::ParameterList list{chain[0].parameters()[0]};
  GUESS("[2, 4]", list[0].shape());
}

TEST(FirstGuess, MoreMembers) {
  Variable x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}), v = tensor({3.0, 1.0, 2.0});
  GUESS("[6, 120]", x.prod(1));
  GUESS("[3, 6]", x.amax(1));
  GUESS("[1, 2, 3]", x.amin(0));
  GUESS("[6, 15]", x.norm(1, 1));
  GUESS("2", v.median());
  GUESS("[true, true]", (x > 0).all(1));
  GUESS("[false, true]", (x > 3).any(1));
  GUESS("[1, 2, 3], [1, 2, 0]", v.sort());
  GUESS("[1, 2, 0]", v.argsort());
  GUESS("[3, 2], [0, 2]", v.topk(2));
  GUESS("[3, 3, 6]", v.cumprod(0));
  GUESS("[2, 1, 3]", v.flip(0));
  GUESS("[2, 3, 1]", v.roll(1, 0));
  GUESS("[1, 5]", x.diagonal());
  GUESS("[0, 0, 6]", x.triu(1)[1] + x.tril(-1)[0]);
  GUESS("2", x.unbind().size());
  GUESS("[2, 3]", v.expand_as(x).shape());
  GUESS("[6]", x.view_as(ones({6})).shape());
  GUESS("[3]", v.masked_select(v > 2));
  GUESS("[[0],[1],[2]]", v.nonzero());
  GUESS("[3, 0, 2]", v.where(v > 1, 0.0));
  GUESS("[0, 0, 0]", (v.sin() - sin(v)) + (v.log1p() - log1p(v)) + (v.rsqrt() - rsqrt(v)));
  GUESS("[true, false, true]", v.ge(2));
  GUESS("[true, true, false]", v.ne(2));
  GUESS("[false, false, true]", v.gt(1).logical_and(v.lt(3)));
  GUESS("[3, 2, 2]", v.maximum(2));
  GUESS("[1, 1, 0]", v.remainder(2));
  GUESS("[3, 3]", v.outer(v).shape());
  GUESS("[11, 29]", x.mv(v));
  GUESS("[1, 2, 2]", x.unsqueeze(0).bmm(x.t().unsqueeze(0)).shape());
  GUESS("6", tensor({{2.0, 0.0}, {1.0, 3.0}}).det());
  GUESS("5", tensor({{2.0, 0.0}, {1.0, 3.0}}).trace());
  GUESS("[3, 2]", x.mT().shape());
  GUESS("[1, 2, 3]", x[Slice(0, 1)][0]);
  GUESS("24", x.nbytes());
  GUESS("3", x.stride(0));
  GUESS("false", x.is_cuda());
  GUESS("int64", x.type_as(tensor({1})).dtype());
  GUESS("float64", x.astype(f64).dtype());
  GUESS("[7, 7]", x.new_full({2}, 7));
  GUESS("[0]", x.new_zeros({1}));
  Variable w = v.clone();
  w.clamp_(1.5, 2.5).neg_().abs_().square_().sqrt_();
  GUESS("[2.5, 1.5, 2]", w);
  w.masked_fill_(w > 2, 0).pow_(2);
  GUESS("[0, 2.25, 4]", w);
  w.index_put_({0}, 9.0);
  w.scatter_(0, tensor({1}), tensor({7.0}));
  w.scatter_add_(0, tensor({2}), tensor({1.0}));
  w.index_add_(0, tensor({0}), tensor({1.0}));
  GUESS("[10, 7, 5]", w);
  w.uniform_(2, 2.5);
  GUESS("true", (w >= 2).all());
  w.normal_(0, 1);
}

TEST(FirstGuess, FunctionsOfNumPyAndKeras) {
  Variable x = tensor({{1.0, 2.0, 2.0}, {4.0, 5.0, 4.0}}), v = tensor({3.0, 1.0, 2.0});
  GUESS("[2, 4], [2, 2]", mode(x, 1));
  GUESS("[1, 2], [1, 2]", mode(tensor({{1.0, 1.0, 3.0}, {2.0, 3.0, 2.0}}), 1));
  GUESS("[3, 1, 2]", unique_consecutive(tensor({3.0, 3.0, 1.0, 2.0, 2.0})).values);
  GUESS("[0, 0, 1, 2, 2]", unique_consecutive(tensor({3.0, 3.0, 1.0, 2.0, 2.0})).inverse);
  GUESS("[2, 1, 2]", unique_consecutive(tensor({3.0, 3.0, 1.0, 2.0, 2.0})).counts);
  GUESS("[1, 2, 2]", renorm(x, 2, 0, 4.0)[0]);
  GUESS("1", norm(renorm(x, 2, 0, 1.0)[1]));
  GUESS("18", reduce_sum(x));
  GUESS("[5, 7, 6]", reduce_sum(x, 0));
  GUESS("3", reduce_mean(x));
  GUESS("[2, 5]", reduce_max(x, 1));
  GUESS("2", percentile(v, 50));
  GUESS("[0, 2, 1]", digitize(tensor({0.5, 2.5, 1.5}), tensor({1.0, 2.0})));
  GUESS("[[0, 1],[1, 0]]", to_categorical(tensor({1, 0}), 2));
  GUESS("[2, 1, 3]", histogram(tensor({0.0, 0.1, 1.5, 2.5, 2.9, 3.0}), 3).hist);
  GUESS("[0, 1, 2, 3]", histogram(tensor({0.0, 0.1, 1.5, 2.5, 2.9, 3.0}), 3).bin_edges);
  GUESS("[0, 0.5, 1, 0.5]", hann_window(4));
  GUESS("[0, 1, 0]", bartlett_window(3, false));
  GUESS("[0, 0.25, -0.5, -0.25]", fft::fftfreq(4));
  GUESS("[0, 0.25, 0.5]", fft::rfftfreq(4));
  GUESS("[5, 5, 6]", pdist(tensor({{0.0, 0.0}, {3.0, 4.0}, {-3.0, 4.0}})));
  GUESS("0.5", ndtr(tensor(0.0)));
  GUESS("2", linalg::cond(tensor({{2.0, 0.0}, {0.0, 1.0}})));
  GUESS("1", linalg::matrix_rank(ones({3, 3})));
  GUESS("5", linalg::norm(tensor({3.0, 4.0})));
  GUESS("[2, 4]", bilinear(ones({2, 3}), ones({2, 5}), ones({4, 3, 5})).shape());
  GUESS("[3]", normal(0, 1, {3}).shape());
  EXPECT_LT(max(abs(cholesky_inverse(linalg::cholesky(tensor({{4.0, 1.0}, {1.0, 3.0}}))) -
                    inverse(tensor({{4.0, 1.0}, {1.0, 3.0}}))))
                .item(),
            1e-6);
}

TEST(FirstGuess, InitialisersAndSchedules) {
  Variable w = empty({20, 30});
  nn::init::kaiming_normal_(w, 0, "fan_out", "relu");
  EXPECT_NEAR(w.std().item(), std::sqrt(2.0 / 20), 0.05);
  nn::init::trunc_normal_(w, 0, 1, -0.5, 0.5);
  EXPECT_LE(max(abs(w)).item(), 0.5);
  EXPECT_NEAR(w.std().item(), 0.29, 0.03);
  nn::init::eye_(w);
  GUESS("20", w.sum());
  GUESS("1.41421", nn::init::calculate_gain("relu"));
  GUESS("1", nn::init::calculate_gain("conv2d"));

  Net net;
  const auto rates = [&](auto make, int steps) {
    optim::SGD opt(net, 1.0);
    auto schedule = make(opt);
    std::vector<double> all{opt.lr()};
    for (int i = 0; i < steps; ++i) {
      schedule->step();
      all.push_back(opt.lr());
    }
    return tensor(all, f64);
  };
  using optim::Optimizer;
  GUESS("[0.5, 0.5, 1]",
        rates([](Optimizer& o) { return std::make_unique<optim::ConstantLR>(o, 0.5, 2); }, 2));
  GUESS("[1, 0.25, 0, 0]",
        rates([](Optimizer& o) { return std::make_unique<optim::PolynomialLR>(o, 2, 2.0); }, 3));
  GUESS("[1, 0.5, 0.25]", rates(
                              [](Optimizer& o) {
                                return std::make_unique<optim::MultiplicativeLR>(
                                    o, [](int64_t) { return 0.5; });
                              },
                              2));
  GUESS("[1, 2, 3, 2, 1, 2]",
        rates([](Optimizer& o) { return std::make_unique<optim::CyclicLR>(o, 1.0, 3.0, 2); }, 5));
  optim::SGD opt(net, 1.0);
  optim::LinearLR warmup(opt, 0.5, 1.0, 2);
  optim::StepLR decay(opt, 2, 0.1);
  optim::SequentialLR schedule(opt, {warmup, decay}, {2});
  std::vector<double> all{opt.lr()};
  for (int i = 0; i < 4; ++i) {
    schedule.step();
    all.push_back(opt.lr());
  }
  GUESS("[0.5, 0.75, 1, 1, 0.1]", tensor(all, f64));
  optim::ReduceLROnPlateau plateau(opt, "min", 0.5, 3);
  std::ostringstream out;
  out << optim::SGD(net, 0.1);
  EXPECT_EQ(out.str(), "SGD(3 parameters, lr=0.1)");
  const Variable vector = nn::utils::parameters_to_vector(net.parameters());
  nn::utils::vector_to_parameters(vector * 0.0, net.parameters());
  GUESS("0", net.fc1.weight.sum());
}

TEST(FirstGuess, AModelIsNotWarnedOfItsInputs) {
  struct Inputs {
    Variable x, context;
  };
  struct Mixed : nn::Model<Mixed> {
    nn::Linear fc{3, 1};
    void members(nn::Members& m) override { m("fc", fc); }
    Variable forward(const Inputs& in) const { return fc(in.x * in.context); }
  };
  struct Forgetful : nn::Model<Forgetful> {
    nn::Linear fc{3, 1};
    Variable scale = ones({3}).requires_grad_();
    void members(nn::Members& m) override { m("fc", fc); }
    Variable forward(const Variable& x) const { return fc(x * scale); }
  };
  testing::internal::CaptureStderr();
  const Variable context = ones({3}).requires_grad_();
  Mixed()(Inputs{ones({2, 3}), context});
  nn::Sequential(nn::Lambda([&](const Variable& x) { return x * context; }),
                 nn::Linear(3, 1))(ones({2, 3}));
  nn::BCEWithLogitsLoss({.weight = context})(zeros({2, 3}), ones({2, 3}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  Forgetful()(ones({2, 3}));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("leaves out a parameter [3]"),
            std::string::npos);
}

}  // namespace
