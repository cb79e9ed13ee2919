// First guesses about truth values, options in PyTorch's order,
// chained options, lists of layers, hooks, and names of Keras and libtorch.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;

namespace {

using tapegrad::guesses::text;

std::string yes_or_no(bool condition) { return condition ? "yes" : "no"; }

TEST(OptionOrders, TruthValuesArePlainBools) {
  const Variable x = tensor({1.0, 2.0});
  GUESS("yes", yes_or_no(allclose(x, x + 1e-9)));
  GUESS("no", yes_or_no(torch::allclose(x, x + 1, /*rtol=*/1e-4, /*atol=*/1e-4)));
  GUESS("no", yes_or_no(!x.allclose(x) && allclose(x, x)));
  const Variable v = tensor({0.5, 1.0}, {.dtype = f64, .requires_grad = true});
  const bool ok = autograd::gradcheck([](const Variable& y) { return sin(y); }, v);
  GUESS("yes", yes_or_no(ok));
  GUESS("yes", yes_or_no(autograd::gradcheck([](const Variable& y) { return y * y; }, {v})));
}

TEST(OptionOrders, SortTakesStableFirst) {
  const Variable x = tensor({{3, 1}, {2, 5}});
  GUESS("[[2, 1], [3, 5]], [[1, 0], [0, 1]]", torch::sort(x, /*stable=*/true, /*dim=*/0));
  GUESS("[[3, 5], [2, 1]]", torch::sort(x, true, 0, /*descending=*/true).values);
  GUESS("[[1, 0], [0, 1]]", torch::argsort(x, /*stable=*/true, /*dim=*/0));
}

// C++ wants named options in their order of declaration, which is PyTorch's.
TEST(OptionOrders, OptionsHaveTheOrderOfPyTorch) {
  const Variable zero = zeros({1}), two = full({1}, 2.0);
  GUESS("1.5", smooth_l1_loss(two, zero, {.reduction = "sum", .beta = 1.0}).item());
  GUESS("0.875", huber_loss(two, zero, {.reduction = "mean", .delta = 0.5}).item());
  GUESS("1.5", nn::SmoothL1Loss({.reduction = "sum", .beta = 1.0})(two, zero).item());
  GUESS("0.875", nn::HuberLoss({.reduction = "sum", .delta = 0.5})(two, zero).item());
  const Variable scores = zeros({2, 4}), classes = tensor({0, 3});
  const double expected = 2 * std::log(4.0);
  EXPECT_FLOAT_EQ(
      float(expected),
      cross_entropy(
          scores, classes,
          {.weight = ones({4}), .ignore_index = -1, .reduction = "sum", .label_smoothing = 0.1})
          .item<float>());
  EXPECT_FLOAT_EQ(
      float(std::log(2.0)),
      binary_cross_entropy_with_logits(
          zero, ones({1}), {.weight = ones({1}), .reduction = "sum", .pos_weight = ones({1})})
          .item<float>());
  const Variable logs = log_softmax(scores, 1);
  GUESS("0", nn::KLDivLoss({.reduction = "batchmean", .log_target = true})(logs, logs).item());
  GUESS("0", kl_div(logs, exp(logs), {.reduction = "batchmean"}).item());
  GUESS("4", mse_loss(two, zero, {.reduction = "sum"}).item());
  GUESS("2", l1_loss(two, zero, {.reduction = "sum"}).item());
  EXPECT_FLOAT_EQ(
      float(2 * std::log(2.0)),
      binary_cross_entropy(full({1}, 0.5), ones({1}), BCEOptions{.weight = two}).item<float>());
  nn::CTCLoss({.blank = 0, .reduction = "sum", .zero_infinity = true});
  nn::MultiheadAttention(
      {.embed_dim = 8, .num_heads = 2, .kdim = 4, .vdim = 4, .batch_first = true});
  nn::EmbeddingBag bag(5, 2, {.mode = "sum", .sparse = false, .include_last_offset = false});
  GUESS("true", allclose(bag(tensor({{1, 2}})),
                         embedding_bag(tensor({{1, 2}}), bag.weight, {.mode = "sum"})));
  // Windows of 2 columns at distance 2, and the same with steps of 2: [1, 4, windows].
  const Variable image = arange(16).view(1, 1, 4, 4).to(f32);
  GUESS("[1, 4, 4]", unfold(image, {.kernel_size = 2, .dilation = 2}).shape());
  GUESS("[[0, 2, 8, 10]]",
        unfold(image, {.kernel_size = 2, .dilation = 1, .stride = 2}).index({Slice(), 0}));
  const Variable columns = nn::Unfold(2, {.stride = 2})(image);
  GUESS("true", equal(image, nn::Fold({4, 4}, 2, {.stride = 2})(columns)));
}

TEST(OptionOrders, ChainedOptions) {
  namespace F = torch::nn::functional;
  const Variable a = full({2, 2}, 3.0);
  GUESS("[[3, 3, 3, 3]]",
        F::pad(full({1, 2}, 3.0), F::PadFuncOptions({1, 1}).mode(torch::kConstant).value(3)));
  GUESS("[[0.5, 0.5], [0.5, 0.5]]", F::softmax(a, F::SoftmaxFuncOptions(1)));
  GUESS("10",
        F::smooth_l1_loss(a, a * 0, F::SmoothL1LossFuncOptions().reduction(torch::kSum)).item());
  GUESS("36", F::mse_loss(a, a * 0, F::MSELossFuncOptions().reduction(torch::kSum)).item());
  GUESS("[[0.5, 0.5], [0.5, 0.5]]", F::normalize(a, F::NormalizeFuncOptions().p(1).dim(-1)));
  GUESS("[[0, 0], [0, 0]]", F::layer_norm(a, F::LayerNormFuncOptions({2}).eps(2e-5)));
  GUESS(
      "2",
      F::gumbel_softmax(a, F::GumbelSoftmaxFuncOptions().tau(0.5).hard(true).dim(-1)).sum().item());
  GUESS(
      "[1, 1, 4, 4]",
      F::interpolate(
          a.view(1, 1, 2, 2),
          F::InterpolateFuncOptions().scale_factor(2.0).mode(torch::kBilinear).align_corners(false))
          .shape());
  const Variable p = full({2}, 0.5), t = ones({2});
  EXPECT_FLOAT_EQ(
      float(2 * std::log(2.0)),
      F::binary_cross_entropy(p, t, F::BinaryCrossEntropyFuncOptions().reduction(torch::kSum))
          .item<float>());
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 4, 3).stride(2).padding(1).bias(false));
  GUESS("[1, 4, 2, 2]", conv(zeros({1, 1, 4, 4})).shape());
  torch::nn::MaxPool2d pool(torch::nn::MaxPool2dOptions(2).stride(1));
  GUESS("[1, 1, 3, 3]", pool(zeros({1, 1, 4, 4})).shape());
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(3, 5).num_layers(2).batch_first(true));
  GUESS("[2, 7, 5]", lstm(zeros({2, 7, 3}))[0].shape());
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({4}).elementwise_affine(false));
  GUESS("0", norm.parameters().size());
  torch::nn::CrossEntropyLoss loss(torch::nn::CrossEntropyLossOptions().ignore_index(0));
  nn::Linear layer(torch::nn::LinearOptions(2, 1).bias(false));
  torch::optim::RMSprop rms(layer.parameters(), torch::optim::RMSpropOptions(1e-2).alpha(0.9));
  torch::optim::Adam adam(layer.parameters(), torch::optim::AdamOptions(1e-2).betas({0.5, 0.9}));
  torch::optim::SGD sgd(layer.parameters(), torch::optim::SGDOptions(1).weight_decay(0.1));
  GUESS("0.01, 0.01, 1", text(rms.lr()) + ", " + text(adam.lr()) + ", " + text(sgd.lr()));
}

TEST(OptionOrders, LibtorchTypes) {
  torch::IntArrayRef sizes = torch::IntArrayRef({2, 3});
  const Variable x = torch::arange(0, 12, 2, torch::kFloat32).view(sizes);
  GUESS("true", x.sizes() == sizes && x.sizes().vec() == std::vector<int64_t>{2, 3});
  GUESS("2 2 3", text(x.sizes().size()) + ' ' + text(x.sizes().front()) + ' ' + text(sizes.back()));
  torch::Scalar two = 2;
  GUESS("[[0, 4, 8], [12, 16, 20]]", x * two);
  GUESS("2 2", text(two.toInt()) + ' ' + text(two.toDouble()));
  torch::DeviceType type = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
  torch::Device device(type);
  GUESS("float32", x.to(device).scalar_type());
  const auto options = torch::TensorOptions(torch::kDouble).layout(torch::kStrided);
  GUESS("float64", torch::zeros({}, options).dtype());
  GUESS("float32", torch::zeros({3}, x.options()).dtype());
  GUESS("int64 true", text(torch::ones({1}, x.options().dtype(torch::kLong)).dtype()) + ' ' +
                          text(torch::ones({1}, x.options().requires_grad(true)).requires_grad()));
  GUESS("float64", x.to(torch::zeros({1}, torch::kDouble)).dtype());
  c10::optional<double> maybe = c10::nullopt;
  GUESS("false", maybe.has_value());
  const Variable w = torch::ones({2}, torch::requires_grad());
  const auto first = torch::autograd::grad({(w * w).sum()}, {w}, {}, c10::nullopt, true)[0];
  GUESS("[2, 2]", torch::autograd::grad({first.sum()}, {w}).front());
  std::vector<torch::Tensor> list = {x, x};
  torch::TensorList view(list);
  GUESS("[4, 3]", torch::cat(view).shape());
  GUESS("[5]", torch::randint(5, {5}, torch::kInt64).shape());
  GUESS("[1, 2, 3]", torch::tensor(std::span<const float>(std::array<float, 3>{1, 2, 3})));
}

TEST(OptionOrders, Accessors) {
  Variable x = arange(6).view(2, 3).to(f32).t();  // strides 1 and 3
  auto values = x.accessor<float, 2>();
  GUESS("5", values[2][1]);
  values[0][1] = 7;
  GUESS("7", x[0][1].item());
  GUESS("3 1", text(values.size(0)) + ' ' + text(values.stride(0)));
  EXPECT_THROW(values[3][0], IndexError);
  EXPECT_THROW(values[0][-1], IndexError);
  EXPECT_THROW((x.accessor<double, 2>()), DTypeError);
  EXPECT_THROW((x.accessor<float, 1>()), ShapeError);
}

TEST(OptionOrders, FormsOfOps) {
  const Variable x = tensor({1.0, 2.0, 3.0, 6.0});
  GUESS("true true", text(allclose(x.std(false), x.std(0, false))) + ' ' +
                         text(allclose(x.var(/*unbiased=*/false), tensor(3.5))));
  GUESS("true", allclose(stddev(x, {.correction = 0}), x.std(false)));
  auto [variance, average] = torch::var_mean(x, 0, /*unbiased=*/false);
  GUESS("3.5, 3", text(variance) + ", " + text(average));
  GUESS("3", torch::std_mean(x, 0, true).mean);
  GUESS("3", torch::trapz(ones({4}), arange(4).to(f32)).item());
  GUESS("[0, 0, 1]", torch::linalg::cross(tensor({1.0, 0.0, 0.0}), tensor({0.0, 1.0, 0.0})));
  GUESS("0", torch::special::erf(zeros({})).item());
  GUESS("[1, 1, 0, 0]", torch::bincount(tensor({0, 1}), {.minlength = 4}));
  GUESS("[2, 2]", torch::histogram(tensor({1.0, 1.5, 2.0, 3.0}), 2, {.range = {1, 3}}).hist);
  const Variable image = arange(4).view(1, 1, 2, 2).to(f32);
  const Variable grid = nn::functional::affine_grid(eye(2, 3).unsqueeze(0), {1, 1, 2, 2}, false);
  GUESS("true", allclose(image, nn::functional::grid_sample(image, grid, "bilinear", "border",
                                                            /*align_corners=*/false)));
  const Variable wave = sin(arange(64).to(f32)), window = hann_window(16);
  const Variable spectrum = stft(wave, 16, /*hop_length=*/4, /*win_length=*/16, window);
  GUESS("true", allclose(wave, istft(spectrum, 16, 4, 16, window), 1e-4, 1e-5));
  GUESS("true", equal(spectrum, stft(wave, 16, 4, 16, window, true, "reflect", false, true,
                                     /*return_complex=*/true)));
  GUESS("true", equal(spectrum, stft(wave, 16, {.window = window, .return_complex = true})));
  EXPECT_THROW(stft(wave, 16, 4, 16, window, true, "reflect", false, /*onesided=*/false),
               ArgumentError);
  const Variable covariance = tensor({{2.0, 0.5}, {0.5, 1.0}});
  using Gaussian = distributions::MultivariateNormal;
  const Variable expected = Gaussian(zeros({2}), covariance).log_prob(ones({2}));
  GUESS("true",
        allclose(expected,
                 Gaussian(zeros({2}), {.covariance_matrix = covariance}).log_prob(ones({2}))));
  GUESS("true",
        allclose(
            expected,
            Gaussian(zeros({2}), {.precision_matrix = inverse(covariance)}).log_prob(ones({2}))));
  GUESS(
      "true",
      allclose(
          expected,
          Gaussian(zeros({2}), {.scale_tril = linalg::cholesky(covariance)}).log_prob(ones({2}))));
  EXPECT_THROW(Gaussian(zeros({2}), Gaussian::Options()), ArgumentError);
}

TEST(OptionOrders, ListsOfLayers) {
  nn::ModuleList layers{nn::Linear(2, 4), nn::ReLU()};
  layers->push_back(nn::Linear(4, 1));
  GUESS("[3, 1]", layers[-1](ones({3, 4})).shape());
  EXPECT_THROW(layers[3], IndexError);
  EXPECT_THROW(layers[-4], IndexError);
  nn::ParameterList list{ones({1}), zeros({1})};
  GUESS("[0]", list[-1]);

  nn::Sequential net(
      {{"hidden", nn::Linear(2, 4)}, {"act", nn::Tanh()}, {"out", nn::Linear(4, 1)}});
  std::string names;
  for (auto& [name, parameter] : net.named_parameters()) names += name + ' ';
  GUESS("hidden.weight hidden.bias out.weight out.bias", names);
  net.push_back("last", nn::ReLU());
  EXPECT_THROW(net.push_back("act", nn::ReLU()), ArgumentError);
  net.extend({nn::Linear(1, 3), nn::ReLU()});
  GUESS("6", net.size());
  Variable x = ones({5, 2}), y = x;
  for (auto& layer : net) y = layer(y);
  GUESS("true", equal(y, net(x)));
  nn::Sequential part = net[Slice(0, 3)], end = net[Slice(-2, None)];
  GUESS("[5, 1] 2", text(part(x).shape()) + ' ' + text(end.size()));
  GUESS("true", part[0].parameters()[0].is_same(net[0].parameters()[0]));
  std::ostringstream out;
  for (auto& layer : part) out << layer << ' ';
  EXPECT_NE(out.str().find("Tanh"), std::string::npos) << out.str();
  nn::LSTM lstm{3, 4, 1, {.batch_first = true, .bidirectional = true}};
  GUESS("[2, 5, 8]", lstm(ones({2, 5, 3}))[0].shape());
  const Variable rows = eye(3);
  GUESS("true", nn::Embedding::from_pretrained(rows, {.freeze = false}).weight.requires_grad());
  nn::PackedSequence packed = nn::utils::rnn::pack_padded_sequence(
      ones({2, 3, 1}), std::vector<int64_t>{3, 1}, /*batch_first=*/true, /*enforce_sorted=*/false);
  GUESS("true", packed.batch_first);
}

/// Returns a distribution beside a Variable.
struct Policy : nn::Model<Policy> {
  nn::Linear pi{2, 3}, value{2, 1};
  void members(nn::Members& m) override { m("pi", pi)("value", value); }
  std::pair<distributions::Categorical, Variable> forward(const Variable& x) const {
    return {distributions::Categorical({.logits = pi(x)}), value(x)};
  }
};

TEST(OptionOrders, HooksWithVectors) {
  nn::Linear layer(2, 2);
  Variable seen;
  int calls = 0;
  auto before = layer.register_forward_pre_hook(
      [&](nn::Module&, const std::vector<Variable>& inputs) { seen = inputs[0]; });
  auto backward = layer.register_full_backward_hook(
      [&](nn::Module&, const std::vector<Variable>&, const std::vector<Variable>& grad_outputs) {
        calls += int(grad_outputs.size());
      });
  const Variable x = ones({1, 2}).requires_grad_();
  layer(x).sum().backward();
  GUESS("[[1, 1]]", seen);
  GUESS("1", calls);
  before.remove();
  auto doubled = layer.register_forward_pre_hook(
      [](nn::Module&, const std::vector<Variable>& inputs) { return 2 * inputs[0]; });
  auto none = layer.register_full_backward_hook(
      [](nn::Module&, const std::vector<Variable>& in, const std::vector<Variable>&) {
        return std::vector<Variable>(in.size(), zeros({1, 2}));
      });
  const Variable twice = layer(x);
  GUESS("true", allclose(twice, linear(2 * x, layer.weight, layer.bias)));
  x.zero_grad();
  twice.sum().backward();
  GUESS("[[0, 0]]", x.grad());
  auto wrong = layer.register_forward_pre_hook([](nn::Module&, const std::vector<Variable>&) {
    return std::vector<Variable>(2, ones({1}));
  });
  EXPECT_THROW(layer(x), ArgumentError);

  Policy policy;
  auto hook = policy.register_forward_hook(
      [](nn::Module&, std::span<const Variable>, std::span<Variable> outputs) {
        EXPECT_EQ(outputs.size(), 1u);
        outputs[0] = full({4, 1}, 9.0);
      });
  auto [distribution, value] = policy(ones({4, 2}));
  GUESS("[4] 9", text(distribution.sample().shape()) + ' ' + text(value[0].item()));
}

TEST(OptionOrders, WeightDecayOfAGroup) {
  nn::Linear a(1, 1), b(1, 1);
  optim::SGD opt({{.params = a.parameters()}, {.params = b.parameters(), .weight_decay = 0.5}},
                 {.lr = 0.1});
  GUESS("0 0.5", text(double(opt.param_groups()[0].weight_decay)) + ' ' +
                     text(double(opt.param_groups()[1].weight_decay)));
  for (auto& group : opt.param_groups()) group["weight_decay"] = 1.0;
  a.weight.data().fill_(2.0);
  a.weight.backward(zeros({1, 1}));
  opt.step();
  EXPECT_FLOAT_EQ(float(2 - 0.1 * 1.0 * 2), a.weight.item<float>());
  EXPECT_THROW(opt.set_weight_decay(0, -1), ArgumentError);
  EXPECT_THROW(opt.set_weight_decay(2, 1), IndexError);
}

TEST(OptionOrders, StatesAndArguments) {
  nn::Linear net(2, 1);
  std::map<std::string, Variable> copy;
  for (auto& [name, value] : net.state_dict()) copy[name] = value;
  copy["weight"] = ones({1, 2});
  net.load_state_dict(copy);
  GUESS("[[1, 1]]", net.weight);
  VariableMap weights = nn::parameter_map(net);
  GUESS("true", allclose(net(ones({3, 2})), func::functional_call(net, weights, {ones({3, 2})})));
  ConcatDataset both({TensorDataset(ones({3, 2})), TensorDataset(ones({2, 2}))});
  GUESS("5", both.size());
  optim::swa_utils::AveragedModel average(net, optim::swa_utils::get_ema_multi_avg_fn(0.99));
  average.update_parameters(net);
}

struct Squares : torch::data::datasets::Dataset<Squares> {
  torch::data::Example<> get(size_t i) override {
    return {torch::full({1}, double(i)), torch::tensor(double(i * i))};
  }
  torch::optional<size_t> size() const override { return 6; }
};

TEST(OptionOrders, DataSetsOfLibtorch) {
  auto set = Squares()
                 .map(torch::data::transforms::Normalize<>(1.0, 2.0))
                 .map(torch::data::transforms::Stack<>());
  GUESS("6", set.size().value());
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(set), torch::data::DataLoaderOptions().batch_size(4).workers(1));
  std::string batches;
  for (auto& batch : *loader)
    batches += text(batch.data.view({-1})) + text(batch.target.view({-1}));
  GUESS("[-0.5, 0, 0.5, 1][0, 1, 4, 9][1.5, 2][16, 25]", batches);
  manual_seed(3);
  std::vector<float> drawn;
  const auto shuffled = torch::data::make_data_loader(Squares(), 6);
  for (auto& [x, y] : *shuffled) drawn = y.to_vector<float>();
  EXPECT_FALSE(std::is_sorted(drawn.begin(), drawn.end()));  // libtorch's default is random
  const torch::data::transforms::Normalize<> by_channel({1.0, 2.0}, {1.0, 2.0});
  GUESS("[0, 1]", by_channel({full({2, 1, 1}, 1.0).index_put({1}, 4.0), {}}).data.view({-1}));
}

TEST(OptionOrders, KerasCallbacks) {
  manual_seed(0);
  const tapegrad::testing::TempDir dir;
  const Variable x = randn({40, 3}), y = x.sum(1, true);
  nn::Linear net(3, 1);
  optim::SGD sgd(net.parameters(), 0.1);
  std::string epochs;
  History history =
      fit(net, x, y, sgd,
          {.epochs = 3,
           .batch_size = 20,
           .loss = nn::MSELoss(),
           .verbose = 0,
           .validation_data = {x, y},
           .accuracy = false,
           .callbacks = {LearningRateScheduler(
                             [](int64_t epoch, double lr) { return epoch < 1 ? lr : lr * 0.5; }),
                         LambdaCallback({.on_epoch_end = [&](int64_t epoch, const auto& logs) {
                           epochs += text(epoch) + (logs.loss > 0 ? "+" : "-");
                         }})}});
  GUESS("0+1+2+", epochs);
  EXPECT_DOUBLE_EQ(sgd.lr(), 0.025);
  GUESS("3 3", text(history["loss"].size()) + ' ' + text(history["val_loss"].size()));
  EXPECT_LT(history["loss"].back(), history["loss"].front());
  EXPECT_THROW(history["nothing"], ArgumentError);
  GUESS("40",
        evaluate(net, x, y, {.batch_size = 8, .loss = nn::MSELoss(), .accuracy = false}).count);
  GUESS("[40, 1]", predict(net, x, {.batch_size = 7}).shape());

  SummaryWriter writer((dir / "runs").string());
  const Variable loss = scalar(0.5);
  writer.add_scalar("loss", loss, 1);
  writer.add_scalar("loss/double", 0.5, 1);
  writer.add_scalars("both", {{"a", 1.0}, {"b", 2.0}}, 1);
  writer.add_histogram("weight", net.weight, 1);
  writer.add_image("image", rand({3, 4, 4}));
  writer.add_text("note", "done");
  writer.flush(), writer.close();
}

TEST(OptionOrders, PrintOptions) {
  const Variable x = tensor({3.14159, 2.71828, 10.0});
  set_printoptions({.precision = 2});
  GUESS("[3.14, 2.72, 10.00]", to_string(x));
  set_printoptions({.precision = 1, .sci_mode = true});
  GUESS("[3.1e+00, 2.7e+00, 1.0e+01]", to_string(x));
  set_printoptions({.threshold = 5, .edgeitems = 1});
  GUESS("[0, ..., 8]", to_string(arange(9)));
  set_printoptions();
  GUESS("[3.14159, 2.71828, 10]", to_string(x));
  EXPECT_THROW(set_printoptions({.precision = -1}), ArgumentError);
}

}  // namespace
