// Idioms of PyTorch programs: subscripts, options by position, modules within modules, samplers.
// Each is as its user typed it at first.
#include <algorithm>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;
using guesses::message_of;

namespace {

TEST(FirstGuessModules, Subscripts) {
  const Variable x = arange(24).view(2, 3, 4), row = arange(3);
  GUESS("[1, 3]", row[None].sizes());
  GUESS("[3, 1]", row[{Slice(), None}].sizes());
  GUESS("[[11],[23]]", x[{Slice(), -1, Slice(3, None)}]);
  GUESS("[[8, 11],[20, 23]]", x[{Slice(), 2, Slice(None, None, 3)}]);
  GUESS("[2, 3]", x.index({"...", 0}).sizes());
  GUESS("[2, 3]", x.index({Ellipsis, 0}).sizes());
  GUESS("[2, 3, 4, 1]", x[{Ellipsis, None}].sizes());
  GUESS("[2, 3, 4]", x.index({Slice(None), Ellipsis}).sizes());
  EXPECT_THROW(x.index({"..", 0}), ArgumentError);
  Variable y = zeros({2, 2});
  y[{Slice(), 0}] = ones({2});
  y[{1, Slice(1)}] += 5;
  GUESS("[[1, 0],[1, 5]]", y);
  y.fill_diagonal_(7), y.put_(tensor({1}), tensor({9.0}));
  GUESS("[[7, 9],[1, 7]]", y);
  GUESS("[[2, 3],[6, 7],[10, 11]]", x[0].slice(1, 2));
}

TEST(FirstGuessModules, CreationAndRandomNumbers) {
  GUESS("float64", eye(2, f64).dtype());
  GUESS("float64", eye(2, {.dtype = f64}).dtype());
  GUESS("[[1, 0, 0],[0, 1, 0]]", eye(2, 3));
  GUESS("int32", ones_like(zeros({2}), i32).dtype());
  GUESS("float64", linspace(0, 1, 3, f64).dtype());
  GUESS("int32", randint(0, 5, {2}, i32).dtype());
  GUESS("[2, 2]", randn({2, 2}, zeros({1}).device()).sizes());
  GUESS("[5, 1]", empty(std::vector<int64_t>{5, 1}).sizes());
  GUESS("[1, 2]", tensor(std::array<int64_t, 2>{1, 2}));
  GUESS("[3]", tensor(std::vector<size_t>{3}));
  RandomGenerator a(42), b;
  b.manual_seed(42);
  EXPECT_TRUE(rand({3}, a).equal(rand({3}, b)));
  EXPECT_TRUE(randint(0, 9, {3}, a).equal(randint(0, 9, {3}, b)));
  EXPECT_TRUE(randperm(5, a).equal(randperm(5, b)));
  const RandomState state = get_rng_state();
  const Variable first = randn({3});
  set_rng_state(state);
  EXPECT_TRUE(first.equal(randn({3})));
  GUESS("true", zeros({100}).bernoulli_(0.5).sum().item() > 10);
  GUESS("true", zeros({100}).random_(3, 5).min().item() == 3);
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  GUESS("[[1, 3, 5],[2, 4, 6]]", from_blob(values.data(), {2, 3}, {1, 2}));
  GUESS("[1, 2]", from_blob(static_cast<void*>(values.data()), {2}, kFloat32));
  EXPECT_THROW(from_blob(values.data(), {2}, kFloat64), DTypeError);
  EXPECT_THROW(from_blob(values.data(), {2}, {-1}), ArgumentError);
}

TEST(FirstGuessModules, Members) {
  Variable p = tensor({1.0, 2.0});
  const Variable g = tensor({10.0, 20.0});
  p.add_(g, -0.1);
  GUESS("[0, 0]", p);
  p.sub_(g, 0.5);
  GUESS("[-5, -10]", p);
  GUESS("[0, 0]", p.add(g, 0.5));
  GUESS("[0, 0]", p.clamp(0));
  Variable values, indices;
  std::tie(values, indices) = tensor({{3, 1}, {2, 5}}).max(1);
  GUESS("[0, 1]", indices);
  const Variable distinct = unique(tensor({2, 1, 2}));
  GUESS("[1, 2]", distinct);
  GUESS("[1, 2]", unique(tensor({2, 1, 2}), true, true, true).values);
  GUESS("1", searchsorted(tensor({1.0, 2.0}), tensor(1.0), {.right = true}));
  GUESS("65504", finfo(f16).max);
  GUESS("-128", iinfo(i8).min);
  GUESS("float32", promote_types(i32, f32));
  GUESS("float32", result_type(tensor({1}), 0.5));
  const int64_t threads = get_num_threads();
  set_num_threads(1);
  GUESS("1", get_num_threads());
  set_num_threads(threads);
}

TEST(FirstGuessModules, Gradients) {
  const Variable x = tensor({1.0, 2.0}, {.requires_grad = true});
  const Variable y = x * x;
  GUESS("[2, 4]", autograd::grad({y}, {x}, {ones_like(y)}, /*retain_graph=*/true,
                                 /*create_graph=*/true)[0]);
  GUESS("[6, 12]", grad(y, x, {.grad_outputs = 3.0 * ones_like(y), .retain_graph = true}));
  GUESS("[4, 8]", grad(y, x, 2.0 * ones_like(y)));
  GUESS("[[2, 0],[0, 2]]", autograd::functional::hessian(
                               [](const Variable& v) { return v.pow(2).sum(); }, x.detach()));
  EXPECT_THROW(grad(x * x, x, ones({2}), {.grad_outputs = ones({2})}), AutogradError);
  sum(x * x).backward();
  x.zero_grad(/*set_to_none=*/false);
  GUESS("[0, 0]", x.grad());
}

struct Block : nn::Model<Block> {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  nn::ReLU act{true};
  nn::Buffer scale{ones({1})};
  explicit Block(int channels) : conv(3, channels, 4, {.padding = "same"}), norm(channels) {}
  void members(nn::Members& m) override {
    m("conv", conv)("norm", norm)("act", act)("scale", scale);
  }
  Variable forward(const Variable& x) const { return act(norm(conv(x))) * scale; }
};

TEST(FirstGuessModules, Modules) {
  Block block(4);
  GUESS("[2, 4, 5, 5]", block(randn({2, 3, 5, 5})).sizes());
  const Variable x = randn({1, 3, 5, 5});
  const Variable same = conv2d(x, block.conv.weight, block.conv.bias, 1, "same");
  EXPECT_TRUE(allclose(block.conv(x), same, 1e-5, 1e-6));
  GUESS("[3, 3, 4, 4]", nn::Conv2d(3, 3, 4, 1, "valid").weight.sizes());
  int convs = 0;
  for (nn::Module* m : block.modules()) convs += m->is<nn::Conv2d>();
  GUESS("1", convs);
  std::string names;
  for (auto& [name, child] : block.named_children()) names += name + ' ';
  GUESS("conv norm act", names);
  GUESS("BatchNorm2d", block.get_submodule("norm").kind());
  GUESS("[4]", block.get_parameter("norm.bias").sizes());
  EXPECT_NE(message_of([&] {
              block.get_parameter("norm.scale");
            }).find("there are: conv.weight, conv.bias, norm.weight, norm.bias"),
            std::string::npos);
  EXPECT_NE(message_of([&] { block.get_submodule("bn"); }).find("there are: conv, norm, act"),
            std::string::npos);
  const auto buffers = block.named_buffers();
  EXPECT_TRUE(std::ranges::any_of(buffers, [](const auto& b) { return b.name == "scale"; }));
  GUESS("false", block.eval().requires_grad_(false).conv.weight.requires_grad());
  GUESS("float64", block.to(cpu, f64).conv.weight.dtype());
  nn::ModuleList layers;
  for (int i = 0; i < 2; ++i) layers.append(nn::Linear(4, 4));
  GUESS("4", layers[1].as<nn::Linear>().in_features());
  nn::ModuleDict heads;
  heads.insert("a", nn::Linear(4, 2));
  const nn::ModuleDict& fixed = heads;
  GUESS("[2]", fixed["a"](ones({4})).sizes());
  auto table = nn::Embedding::from_pretrained(randn({5, 2}));
  GUESS("false", table.weight.requires_grad());
  nn::GRU gru(3, 4, 2, true, true, 0.1, true);
  GUESS("[2, 5, 8]", gru(randn({2, 5, 3}))[0].sizes());
  nn::LSTMCell cell(3, 4);
  Variable h = zeros({2, 4}), c = zeros({2, 4});
  std::tie(h, c) = cell(randn({2, 3}), {h, c});
  GUESS("[2, 4]", c.sizes());
}

TEST(FirstGuessModules, LossesAndOptimizers) {
  const Variable x = log_softmax(randn({4, 3}), 1), t = softmax(randn({4, 3}), 1);
  EXPECT_TRUE(allclose(nn::KLDivLoss("batchmean")(x, t), kl_div(x, t, "batchmean")));
  EXPECT_TRUE(huber_loss(x, t, {.delta = 0.5}).equal(huber_loss(x, t, 0.5)));
  const Variable weight = tensor({1.0, 2.0, 3.0}), ids = tensor({0, 1, 2, 1});
  EXPECT_TRUE(nn::CrossEntropyLoss(weight, {.label_smoothing = 0.1})(x, ids).equal(
      cross_entropy(x, ids, {.weight = weight, .label_smoothing = 0.1})));
  EXPECT_TRUE(nn::NLLLoss(weight)(x, ids).equal(nll_loss(x, ids, {.weight = weight})));
  GUESS("[4, 3]", gumbel_softmax(x, 0.5, true).sizes());
  const Variable frames = log_softmax(randn({6, 1, 3}), 2);
  EXPECT_TRUE(nn::CTCLoss(0, "sum", true)(frames, tensor({{1, 2}}), tensor({6}), tensor({2}))
                  .equal(ctc_loss(frames, tensor({{1, 2}}), {6}, {2},
                                  {.reduction = "sum", .zero_infinity = true})));
  GUESS("true", (mse_loss(x, t, torch::kSum) > mse_loss(x, t)).item() != 0);
  nn::Linear fc(3, 2);
  optim::Rprop rprop(fc.parameters(), 0.1);
  optim::ASGD asgd(fc.parameters(), 0.1);
  optim::LBFGS lbfgs(fc.parameters(), 0.5, 10);
  fc(ones({1, 3})).sum().backward();
  rprop.step(), asgd.step();
  rprop.zero_grad(/*set_to_none=*/true);
  GUESS("false", fc.weight.grad().defined());
}

struct Item {
  Variable image, label;
};

TEST(FirstGuessModules, DataAndFiles) {
  TensorDataset dataset(arange(6).to(f32), zeros({6}));
  WeightedRandomSampler sampler({0.0, 0.0, 1.0, 0.0, 0.0, 0.0}, 4);
  for (auto& [x, y] : DataLoader(dataset, {.batch_size = 2, .sampler = sampler}))
    GUESS("[2, 2]", x);
  struct Backwards : Sampler {
    int64_t size() const override { return 3; }
    std::vector<int64_t> indices(uint64_t) const override { return {5, 3, 1}; }
  };
  DataLoader loader(dataset, {.batch_size = 3, .sampler = std::make_shared<Backwards>()});
  GUESS("1", loader.size());
  for (auto& [x, y] : loader) GUESS("[5, 3, 1]", x);
  EXPECT_THROW(DataLoader(dataset, {.shuffle = true, .sampler = sampler}), ArgumentError);
  const std::vector<Item> items = {{ones({2}), zeros({1})}, {zeros({2}), ones({1})}};
  ItemSubset fold(items, {1});
  for (auto& [x, y] : ItemLoader(fold, {.batch_size = 1})) GUESS("[[0, 0]]", x);
  const auto [padded, lengths] = nn::utils::rnn::pad_packed_sequence(
      nn::utils::rnn::pack_padded_sequence(ones({2, 3, 1}), tensor({3, 2}), true, false), true);
  GUESS("[2, 3, 1]", padded.sizes());
  const tapegrad::testing::TempDir folder;
  const std::string path = folder / "x.safetensors";
  save({ones({2}), zeros({1})}, path);
  std::vector<Variable> read;
  load(read, path);
  GUESS("[1, 1], [0]", read);
  save(ones({3}), path);
  Variable one;
  load(one, path);
  GUESS("[1, 1, 1]", one);
}

TEST(FirstGuessModules, BuffersThatAreNotSaved) {
  struct Net : nn::Model<Net> {
    nn::Linear fc{2, 1};
    Variable mean = zeros({2}), mask = ones({2});
    Variable forward(Variable x) { return fc((x - mean) * mask); }
    void members(nn::Members& m) override {
      m("fc", fc).buffer("mean", mean).buffer("mask", mask, {.persistent = false});
    }
  } net;
  GUESS("3", net.state_dict().size());  // weight, bias and mean
  EXPECT_FALSE(net.state_dict().contains("mask"));
  net.to(f64);
  GUESS("float64", net.mask.dtype());
  TensorMap state = net.state_dict();
  net.load_state_dict(state);
  state["mask"] = zeros({2}, f64).value();
  EXPECT_THROW(net.load_state_dict(state), Error);
  GUESS("[1, 1]", net.mask);
}

TEST(FirstGuessModules, LayersByNumber) {
  nn::Sequential net(nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 1));
  const Variable x = ones({4, 2});
  EXPECT_TRUE(net[2](net[1](net[0](x))).equal(net(x)));
}

TEST(FirstGuessData, BatchSamplers) {
  const TensorDataset dataset(arange(7), arange(7));
  std::vector<std::string> batches;
  for (auto& [x, y] :
       DataLoader(dataset, {.batch_sampler = BatchSampler(SequentialSampler(dataset), 3, false)}))
    batches.push_back(guesses::text(x));
  ASSERT_EQ(batches.size(), 3U);
  GUESS("[0, 1, 2]", batches[0]);
  GUESS("[6]", batches[2]);
  GUESS(
      "2",
      DataLoader(dataset, {.batch_sampler = BatchSampler(RandomSampler(dataset), 3, true)}).size());
  EXPECT_THROW(DataLoader(dataset, {.batch_size = 2,
                                    .batch_sampler = BatchSampler(RandomSampler(dataset), 3)}),
               ArgumentError);
  const auto [x, y] = next(iter(DataLoader(dataset, 4)));
  GUESS("[0, 1, 2, 3]", x);
}

TEST(FirstGuessData, TemporaryLoaders) {
  manual_seed(1);
  nn::Linear net(1, 1);
  optim::SGD sgd(net, 0.1);
  const Variable x = linspace(-1, 1, 8).view(8, 1);
  const TensorDataset dataset(x, x * 2);
  const FitOptions quiet{.epochs = 20, .loss = mse_loss, .verbose = 0};
  fit(net, DataLoader(dataset, {.batch_size = 4}), sgd, quiet);
  EXPECT_LT(evaluate(net, DataLoader(dataset, {.batch_size = 4}), {.loss = mse_loss}).loss, 0.1);
  // Functions are losses by their names, although they have overloads.
  const Variable y = net(x), t = x * 2;
  for (const auto& [by_name, expected] : std::vector<std::pair<LossFn, Variable>>{
           {l1_loss, l1_loss(y, t)},
           {huber_loss, huber_loss(y, t)},
           {smooth_l1_loss, smooth_l1_loss(y, t)},
           {cross_entropy, cross_entropy(y, t)},
           {binary_cross_entropy_with_logits, binary_cross_entropy_with_logits(y, t)},
           {nn::MSELoss(), mse_loss(y, t)}})
    EXPECT_TRUE(by_name(y, t).equal(expected));
  const LossFn entropy = binary_cross_entropy;
  const Variable p = sigmoid(y), share = sigmoid(t);
  EXPECT_TRUE(entropy(p, share).equal(binary_cross_entropy(p, share)));
}

TEST(FirstGuessModules, PartsByNumber) {
  nn::Sequential net(nn::Linear(2, 3), nn::Linear(3, 1));
  net.insert(1, nn::ReLU());
  net.insert(3, nn::Sigmoid());
  GUESS("ReLU", net[1].kind());
  EXPECT_TRUE(net.state_dict().contains("2.weight"));
  EXPECT_THROW(net.insert(5, nn::ReLU()), IndexError);
  nn::Sequential named({{"first", nn::Linear(2, 3)}});
  EXPECT_THROW(named.insert(0, nn::ReLU()), ArgumentError);
  optim::Adagrad adagrad(net.parameters(), 0.1, 0.01);
  EXPECT_THROW(adagrad.param_groups()[3].lr = 1.0, IndexError);
  nn::Linear online(2, 1), target(2, 1);
  NoGrad no_grad;
  for (auto [p, q] : zip(online.parameters(), target.parameters())) q.copy_(p);
  EXPECT_TRUE(target.weight.equal(online.weight));
  optim::MultiStepLR schedule(adagrad, {1, 3});
}

}  // namespace
