// First guesses about optimizers with their own step(), libtorch's functional options,
// pointers to models, names of torch.utils.data and keras.callbacks.
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;
namespace F = torch::nn::functional;

namespace {

/// PyTorch's way: a class with step() alone.
class PlainSGD : public optim::Optimizer {
 public:
  PlainSGD(std::vector<Variable> params, double lr) : Optimizer(params, lr) {}
  void step() override {
    NoGrad guard;
    for (auto& group : param_groups())
      for (auto& p : group.params())
        if (p.grad().defined()) p.sub_(group.lr * p.grad());
  }
};
/// libtorch's way: step(closure).
struct SignSGD : optim::Optimizer {
  explicit SignSGD(optim::Params params) : Optimizer(std::move(params), 0.5) {}
  Variable step(optim::LossClosure closure = nullptr) override {
    Variable loss;
    if (closure) loss = closure();
    NoGrad guard;
    for (auto& p : param_groups()[0].params) p.sub_(param_groups()[0].lr * p.grad().sign());
    return loss;
  }
};

TEST(CustomOptimizers, OptimizersWithTheirOwnStep) {
  Variable w = tensor({4.f, -2.f}).requires_grad_();
  PlainSGD sgd({w}, 0.25);
  optim::StepLR schedule(sgd, 1, 0.5);
  optim::Optimizer& base = sgd;
  w.square().sum().backward();
  base.step();
  GUESS("[2, -1]", w);
  schedule.step();
  GUESS("0.125", sgd.lr());
  SignSGD signs({w});
  const auto closure = [&] {
    signs.zero_grad();
    const Variable loss = w.square().sum();
    loss.backward();
    return loss;
  };
  GUESS("5", signs.step(closure));
  GUESS("[1.5, -0.5]", w);
  GUESS("Optimizer(1 parameters, lr=0.5)", signs);
  EXPECT_THROW(PlainSGD({ones({2})}, 0.1), ArgumentError);
  // The groups outlive the expression, also in a range-for.
  for (auto& p : signs.param_groups()[0].params()) GUESS("[1.5, -0.5]", p);
  sgd.add_param_group({.params = {ones({3}, {.requires_grad = true})}, .lr = 0.5});
  GUESS("2", sgd.param_groups().size());
  GUESS("0.5", sgd.param_groups()[1].lr());
  PlainSGD moved = std::move(sgd);
  moved.param_groups()[0].lr = 0.75;
  GUESS("0.75", moved.lr());
}

TEST(CustomOptimizers, FitOfAnOptimizerWithItsOwnStep) {
  nn::Linear fc(2, 1);
  const Variable x = randn({16, 2}), y = x.sum(1, {.keepdim = true});
  PlainSGD sgd(fc.parameters(), 0.1);
  const History history =
      fit(fc, x, y, sgd, nn::MSELoss(), {.epochs = 5, .verbose = 0, .accuracy = false});
  EXPECT_LT(history["loss"].back(), history["loss"].front());
  EXPECT_EQ(history.epochs[0]["loss"], history["loss"][0]);
  EXPECT_THROW(history["no_such_value"], ArgumentError);
  TensorDataset data(x, y);
  DataLoader loader(data, {.batch_size = 8});
  fit(fc, loader, sgd, nn::L1Loss(), {.verbose = 0, .accuracy = false});
}

TEST(CustomOptimizers, GradientsOfDefaultedArguments) {
  struct Affine : autograd::Function<Affine> {
    static Variable forward(autograd::AutogradContext* ctx, Variable x, Variable w,
                            Variable b = Variable()) {
      ctx->save_for_backward({x, w, b});
      return b.defined() ? x * w + b : x * w;
    }
    static autograd::tensor_list backward(autograd::AutogradContext* ctx,
                                          autograd::tensor_list dy) {
      auto saved = ctx->get_saved_variables();
      return {dy[0] * saved[1], dy[0] * saved[0], saved[2].defined() ? dy[0] : Variable()};
    }
  };
  Variable x = tensor({2.f}).requires_grad_(), w = tensor({3.f}).requires_grad_();
  Affine::apply(x, w).backward();
  GUESS("[3]", x.grad());
  GUESS("[2]", w.grad());
  Variable b = tensor({1.f}).requires_grad_();
  Affine::apply(x, w, b).backward();
  GUESS("[1]", b.grad());
  struct TooMany : autograd::Function<TooMany> {
    static Variable forward(autograd::Context&, const Variable& a) { return a * 2; }
    static std::vector<Variable> backward(autograd::Context&, std::vector<Variable> dy) {
      return {dy[0], dy[0]};
    }
  };
  EXPECT_THROW(TooMany::apply(x).backward(), AutogradError);
}

TEST(CustomOptimizers, FunctionalOptions) {
  const Variable x = tensor({{-1.f, 2.f}});
  GUESS("[[-0.2, 2]]", F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(0.2)));
  GUESS("[[-0.5, 0.5]]", F::hardtanh(x, F::HardtanhFuncOptions().min_val(-0.5).max_val(0.5)));
  GUESS("[[-1, 2]]", F::dropout(x, F::DropoutFuncOptions(0.5).training(false)));
  EXPECT_NEAR(0.5 * std::expm1(-1.0), F::elu(x, F::ELUFuncOptions().alpha(0.5))[0][0].item(), 1e-6);
  EXPECT_NEAR(std::log1p(std::exp(-2.0)) / 2,
              F::softplus(x, F::SoftplusFuncOptions().beta(2))[0][0].item(), 1e-6);
  const Variable image = arange(16).to(f32).reshape({1, 1, 4, 4});
  GUESS("[1, 1, 2, 2]",
        F::adaptive_avg_pool2d(image, F::AdaptiveAvgPool2dFuncOptions({2, 2})).shape());
  GUESS("[1, 1, 1, 1]", F::adaptive_max_pool2d(image, F::AdaptiveMaxPool2dFuncOptions(1)).shape());
  GUESS("true", equal(F::group_norm(image, F::GroupNormFuncOptions(1)), group_norm(image, 1)));
  GUESS("true",
        equal(F::batch_norm(image, zeros({1}), ones({1}), F::BatchNormFuncOptions().training(true)),
              batch_norm(image, zeros({1}), ones({1}), {}, {}, true)));
  const Variable columns = F::unfold(image, F::UnfoldFuncOptions({2, 2}).stride(2));
  GUESS("[1, 4, 4]", columns.shape());
  GUESS("true", equal(image, F::fold(columns, F::FoldFuncOptions({4, 4}, {2, 2}).stride(2))));
  GUESS("[2, 1]", F::embedding_bag(tensor({0, 1, 2}), tensor({{1.f}, {2.f}, {4.f}}),
                                   F::EmbeddingBagFuncOptions().offsets(tensor({0, 2})).mode("sum"))
                      .shape());
  GUESS("9", F::mse_loss(x, x + 3, F::MSELossFuncOptions(torch::kMean)));
  GUESS("18", F::mse_loss(x, x + 3, F::MSELossFuncOptions(torch::kSum)));
}

TEST(CustomOptimizers, UnfoldAndFoldByPosition) {
  // PyTorch: unfold(x, kernel_size, dilation, padding, stride).
  const Variable image = arange(36).to(f32).reshape({1, 1, 6, 6});
  GUESS("true", equal(unfold(image, 2, 3, 0, 1), unfold(image, {.kernel_size = 2, .dilation = 3})));
  GUESS("true", equal(unfold(image, 2, 1, 1, 3),
                      unfold(image, {.kernel_size = 2, .padding = 1, .stride = 3})));
  GUESS("[1, 4, 9]", unfold(image, 2, 3, 0, 1).shape());
  const Variable columns = ones({1, 4, 9});
  GUESS("true", equal(fold(columns, {6, 6}, 2, 3, 0, 1),
                      fold(columns, {6, 6}, {.kernel_size = 2, .dilation = 3})));
  GUESS("true", equal(fold(columns, {6, 6}, 2, 1, 0, 2),
                      fold(columns, {6, 6}, {.kernel_size = 2, .stride = 2})));
}

TEST(CustomOptimizers, MarginsByPosition) {
  const Variable a = tensor({{1.f, 2.f}, {3.f, 4.f}}), p = tensor({{1.f, 1.f}, {3.f, 3.f}}),
                 n = tensor({{0.f, 2.f}, {5.f, 4.f}});
  EXPECT_NEAR(0.5, triplet_margin_loss(a, p, n, 1.0).item(), 1e-5);
  EXPECT_NEAR(1.5, triplet_margin_loss(a, p, n, 2).item(), 1e-5);
  EXPECT_NEAR(0.5, nn::TripletMarginLoss(1.0)(a, p, n).item(), 1e-5);
}

TEST(CustomOptimizers, ModelsBehindPointers) {
  const tapegrad::testing::TempDir dir;
  const std::string path = (dir / "net.safetensors").string();
  auto net = std::make_shared<nn::Linear>(3, 2), copy = std::make_shared<nn::Linear>(3, 2);
  torch::save(net, path);
  torch::load(copy, path);
  GUESS("true", equal(net->weight, copy->weight));
}

TEST(CustomOptimizers, OptionsOfAdamAsATuple) {
  nn::Linear fc(2, 2);
  torch::optim::Adam adam(fc.parameters(),
                          torch::optim::AdamOptions(2e-4).betas(std::make_tuple(0.5, 0.999)));
  GUESS("0.0002", adam.lr());
}

TEST(CustomOptimizers, LayersOfContainers) {
  nn::Sequential net(nn::Linear(4, 3), nn::ReLU());
  GUESS("[3, 4]", net->at<nn::Linear>(0).weight.shape());
  std::string kinds;
  for (auto& layer : *net) kinds += layer->kind();
  GUESS("LinearReLU", kinds);
  nn::AnyModule any(nn::Linear(4, 3));
  GUESS("[2, 3]", any.forward(ones({2, 4})).shape());
  GUESS("[3, 4]", any.get<nn::Linear>().weight.shape());
  nn::ModuleDict heads;
  heads->insert("a", nn::Linear(4, 2));
  GUESS("[1, 2]", heads["a"](ones({1, 4})).shape());
  nn::ParameterDict scales;
  scales->insert("a", ones({2}));
  scales.insert({"b", ones({3})});
  GUESS("2", scales.size());
  GUESS("true", scales["a"].requires_grad() && scales["b"].requires_grad());
  nn::ParameterList weights{ones({1})};
  weights->append(zeros({2}));
  weights.push_back(tensor({1, 2}));
  GUESS("true", weights[0].requires_grad() && weights[1].requires_grad());
  GUESS("false", weights[2].requires_grad());  // of integers
  const Variable shared = ones({2}, {.requires_grad = true});
  weights->append(shared);
  shared.sum().backward();
  GUESS("[1, 1]", weights[-1].grad());
  nn::ModuleList list{nn::Linear(4, 4), nn::Tanh()};
  Variable x = ones({1, 4});
  for (auto& layer : *list) x = layer(x);
  GUESS("[1, 4]", x.shape());
}

TEST(CustomOptimizers, NamesOfTorchUtilsData) {
  struct Squares : data::Dataset {
    using Dataset::get;
    int64_t size() const override { return 6; }
    data::Example get(int64_t i) const override { return {tensor({float(i * i)}), tensor(i)}; }
  };
  float total = 0;
  for (auto& [x, y] : data::DataLoader(Squares(), {.batch_size = 4}))
    total += x.sum().item<float>();
  GUESS("55", total);
  data::TensorDataset both(arange(6), arange(6));
  auto [train, test] = data::random_split(both, {4, 2});
  GUESS("4", train.size());
  GUESS("2", utils::data::Subset(both, {1, 3}).size());
  data::WeightedRandomSampler last(tensor({0.0, 1.0}), 3, true);
  auto drawn = data::make_data_loader(data::TensorDataset(arange(2), arange(2)),
                                      data::DataLoaderOptions().batch_size(3));
  for (auto& batch : *drawn) GUESS("2", batch.target.numel());
  callbacks::EarlyStopping({.monitor = "loss", .patience = 2});
}

TEST(CustomOptimizers, GuardsOfTorch) {
  const Variable w = ones({2}, {.requires_grad = true});
  {
    torch::no_grad guard;
    GUESS("false", (w * 2).requires_grad());
    torch::enable_grad again;
    GUESS("true", (w * 2).requires_grad());
  }
  torch::inference_mode guard;
  GUESS("false", (w * 2).requires_grad());
}

TEST(CustomOptimizers, MemoryWithOptions) {
  std::vector<int32_t> values{1, 2, 3, 4};
  torch::Tensor x =
      torch::from_blob(values.data(), {2, 2}, torch::TensorOptions().dtype(torch::kInt));
  GUESS("[[1, 2], [3, 4]]", x);
  EXPECT_THROW(torch::from_blob(values.data(), {2, 2}, torch::dtype(torch::kFloat)), DTypeError);
  float weights[2] = {1, 2};
  GUESS("true", torch::from_blob(weights, {2}, torch::requires_grad()).requires_grad());
}

TEST(CustomOptimizers, LinesOfErrorsOfPositionalTransforms) {
  const auto file_of_error = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Variable x = ones({32}), y = ones({9, 5, 2});
  for (const std::string& what :
       {file_of_error([&] { stft(x, 16, 4, {}, {}, true, "reflect", false, false); }),
        file_of_error([&] { stft(x, 64, 4, {}, {}, false); }),
        file_of_error([&] { istft(y, 16, 4, {}, {}, true, false, false); }),
        file_of_error([&] { istft(y, 15, 4); })})
    EXPECT_NE(what.find("custom_optimizers_test.cpp"), std::string::npos) << what;
}

TEST(CustomOptimizers, AveragesOfModelsWithoutConst) {
  struct Net : nn::Model<Net> {
    nn::Linear fc{2, 2};
    void members(nn::Members& m) override { m("fc", fc); }
    Variable forward(Variable x) { return fc(x); }
  };
  Net net;
  optim::swa_utils::AveragedModel average(net);
  average.update_parameters(net);
  GUESS("true", equal(average(ones({1, 2})), net(ones({1, 2}))));
}

}  // namespace
