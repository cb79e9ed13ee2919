// Spellings of PyTorch, libtorch and NumPy for options, checkpoints, samplers and contexts. Each
// expectation is one guess; see guess.h.
#include <cmath>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;

namespace {

TEST(FirstGuessSpellings, ReductionsWithNamedOptions) {
  const Variable x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  GUESS("[[6],[15]]", x.sum(1, {.keepdim = true}));
  GUESS("[6, 15]", x.sum(1, {.keepdim = false}));
  GUESS("[[21]]", x.sum({0, 1}, {.keepdim = true}));
  GUESS("[[6],[15]]", x.sum({.dim = 1, .keepdim = true}));
  GUESS("21", x.sum({.dim = {0, 1}}));
  GUESS("float64", x.sum({.dtype = f64}).dtype());
  GUESS("[[3.5]]", x.mean({0, 1}, /*keepdim=*/true));
  GUESS("[[3.5]]", x.mean({0, 1}, {.keepdim = true}));
  GUESS("[2.5, 3.5, 4.5]", x.mean({.dim = 0}));
  GUESS("[[3],[6]]", x.amax(1, {.keepdim = true}));
  GUESS("[1, 4]", x.amin({.dim = 1}));
  GUESS("[[false],[true]]", (x > 3).any(1, {.keepdim = true}));
  GUESS("[false, true]", (x > 3).all({.dim = 1}));
  GUESS("[[3],[6]], [[2],[2]]", x.max(1, {.keepdim = true}));
  GUESS("[1, 2, 3], [0, 0, 0]", x.min({.dim = 0}));
  GUESS("[[2],[2]]", x.argmax(1, {.keepdim = true}));
  GUESS("[0, 0]", x.argmin({.dim = 1}));
  GUESS("[[6],[120]]", x.prod(1, {.keepdim = true}));
  GUESS("[4, 10, 18]", x.prod({.dim = 0}));
  GUESS("[[1],[1]]", x.std(1, {.keepdim = true}));
  GUESS("[2.25, 2.25, 2.25]", x.var(0, {.unbiased = false}));
  GUESS("[2.25, 2.25, 2.25]", x.var(0, {.correction = 0}));
  GUESS("[4.5, 4.5, 4.5]", x.var(0, {.unbiased = true}));
  GUESS("[[6],[15]]", x.norm(1, 1, {.keepdim = true}));
  GUESS("[6, 15]", x.norm({.p = 1, .dim = 1}));
  GUESS("[2, 1]", x.logsumexp(1, {.keepdim = true}).shape());
  EXPECT_TRUE(x.logsumexp({.dim = 1}).equal(logsumexp(x, 1)));
  // The functions of these names.
  GUESS("[[6],[15]]", sum(x, 1, {.keepdim = true}));
  GUESS("[[2],[5]]", mean(x, {1}, {.keepdim = true}));
  GUESS("[[4, 5, 6]], [[1, 1, 1]]", max(x, 0, {.keepdim = true}));
  GUESS("[[0],[0]]", argmin(x, 1, {.keepdim = true}));
  GUESS("[2, 2]", argmax(x, {.dim = 1}));
  GUESS("5", argmax(x, {}));
  GUESS("[[true],[true]]", all(x > 0, 1, {.keepdim = true}));
  GUESS("[[6],[15]]", norm(x, 1, 1, {.keepdim = true}));
  GUESS("[[6],[120]]", prod(x, 1, {.keepdim = true}));
  // The parts of Python's tuple.
  GUESS("[3, 6]", x.max(1)[0]);
  GUESS("[2, 2]", x.max(1)[1]);
  EXPECT_THROW(x.max(1)[2], IndexError);
  std::ostringstream out;
  out << x.max(1);
  GUESS("values: [3, 6] indices: [2, 2]", out.str());
}

TEST(FirstGuessSpellings, LoadersAndSamplers) {
  const TensorDataset data(arange(7).to(f32), arange(7));
  DataLoader loader(data, {.batch_size = 2,
                           .shuffle = false,
                           .sampler = SequentialSampler(data),
                           .num_workers = 0,
                           .pin_memory = false,
                           .drop_last = true});
  GUESS("3", loader.size());
  SequentialSampler in_order(data);
  std::vector<int64_t> indices;
  for (const int64_t i : in_order) indices.push_back(i);
  EXPECT_EQ(indices, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  RandomSampler random(data);
  const std::vector<int64_t> first(random.begin(), random.end());
  const std::vector<int64_t> second(random.begin(), random.end());
  EXPECT_EQ(first, random.indices(0));
  EXPECT_EQ(second, random.indices(1));
  int64_t total = 0;
  for (const int64_t i : RandomSampler(data)) total += i;
  EXPECT_EQ(total, 21);
  for (const int64_t i : SequentialSampler(0)) ADD_FAILURE() << i;
}

struct Counting : torch::data::Dataset<Counting> {
  torch::data::Example<> get(size_t i) override { return {torch::ones({2}), tensor(int64_t(i))}; }
  torch::optional<size_t> size() const override { return 5; }
};

TEST(FirstGuessSpellings, LibtorchsDataset) {
  auto loader =
      torch::data::make_data_loader(Counting().map(torch::data::transforms::Stack<>()), 5);
  for (auto& batch : *loader) GUESS("10", batch.target.sum());
}

TEST(FirstGuessSpellings, CheckpointOfNumbersAndStates) {
  const tapegrad::testing::TempDir folder;
  const std::string path = folder / "run.safetensors";
  nn::Linear net(2, 1), other(2, 1);
  optim::Adam adam(net, 0.1);
  net(ones({1, 2})).sum().backward();
  adam.step();
  const int epoch = 3;
  save(path, {{"epoch", epoch},
              {"best", 0.25},
              {"done", true},
              {"model", net.state_dict()},
              {"net", net},
              {"adam", adam.state_dict()},
              {"x", arange(3)},
              {"nested", {{"steps", 7}, {"deep", {{"net", net}}}}}});
  TensorMap checkpoint = load(path);
  GUESS("3", checkpoint["epoch"].item<int>());
  GUESS("0.25", checkpoint["best"].item());
  GUESS("true", checkpoint["done"].item<bool>());
  GUESS("int64", checkpoint["epoch"].dtype());
  GUESS("float64", checkpoint["best"].dtype());
  GUESS("7", part_of(checkpoint, "nested")["steps"].item<int64_t>());
  GUESS("[0, 1, 2]", Variable(checkpoint["x"]));
  for (const char* part : {"model", "net", "nested.deep.net"}) {
    other = nn::Linear(2, 1);
    other.load_state_dict(part_of(checkpoint, part));
    EXPECT_TRUE(other.weight.equal(net.weight)) << part;
  }
  optim::Adam resumed(net, 0.5);
  resumed.load_state_dict(part_of(checkpoint, "adam"));
  GUESS("0.1", resumed.lr());
  save({{"epoch", 4}, {"model", net.state_dict()}}, path);  // torch.save({...}, path)
  GUESS("4", load(path)["epoch"].item<int>());
  EXPECT_THROW(save(path, {{"a", 1}, {"a", 2}}), ArgumentError);
  EXPECT_THROW(save(path, {{"a", {{"b", 1}}}, {"a.b", 2}}), ArgumentError);
  GUESS("4", load(path)["epoch"].item<int>());

  savez(folder / "arrays", {{"x", ones({2})}});  // numpy.savez("arrays", x=x)
  GUESS("[1, 1]", read_npz(folder / "arrays.npz").at("x"));
}

TEST(FirstGuessSpellings, NormOfGradients) {
  nn::Linear net(1, 1, {.bias = false});
  const auto clip = [&] {
    net.zero_grad();
    (net(ones({1, 1})) * 4).sum().backward();
    return nn::utils::clip_grad_norm_(net.parameters(), 1.0);
  };
  const Variable as_tensor = clip();
  const double as_number = clip();
  GUESS("4", as_tensor);
  GUESS("4", as_number);
  GUESS("4", clip());
  GUESS("4", clip().item());
  GUESS("4", clip().item<float>());
  GUESS("true", clip() > 1.0);
  GUESS("true", std::isfinite(clip()));
  GUESS("true", torch::isfinite(clip()).item<bool>());
  GUESS("4", nn::clip_grad_norm_(net, 5.0) + 3);
}

TEST(FirstGuessSpellings, RecordingOnAndOff) {
  const Variable x = ones({2}).requires_grad_();
  const NoGrad no_grad;
  GUESS("false", (x * 2).requires_grad());
  {
    const EnableGrad guard;
    GUESS("true", (x * 2).requires_grad());
    const SetGradEnabled off(false);
    GUESS("false", (x * 2).requires_grad());
  }
  GUESS("true", enable_grad([&] { return x * 2; }).requires_grad());
  GUESS("false", (x * 2).requires_grad());
  const torch::autocast cast(torch::kCPU, torch::kBFloat16);
  GUESS("bfloat16", mm(ones({2, 2}), ones({2, 2})).dtype());
}

/// Scales by a factor that an object holds; the second result has no gradient.
struct Scaled : autograd::Function<Scaled> {
  struct Factor {
    double value;
  };
  static std::vector<Variable> forward(autograd::Context& ctx, const Variable& x, Factor* factor) {
    ctx.saved_data["factor"] = factor;
    ctx.saved_data["shape"] = x.shape();
    ctx.saved_data["dims"] = std::vector<int64_t>{0, 1};
    ctx.saved_data["name"] = "scaled";
    ctx.saved_data["x"] = x;
    ctx.saved_data["count"] = 3;
    Variable indices = x.argmax(-1);
    ctx.mark_non_differentiable(indices);
    ctx.set_materialize_grads(false);
    return {x * factor->value, indices, x * 1};
  }
  static std::vector<Variable> backward(autograd::Context& ctx, std::vector<Variable> grads) {
    EXPECT_FALSE(grads[2].defined());
    GUESS("[2, 3]", ctx.saved_data["shape"].to<Shape>());
    EXPECT_EQ(ctx.saved_data["dims"].toIntVector(), (std::vector<int64_t>{0, 1}));
    EXPECT_EQ(ctx.saved_data["shape"].to<std::vector<int64_t>>(), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(ctx.saved_data["name"].toStringRef(), "scaled");
    EXPECT_EQ(ctx.saved_data["x"].toTensor().shape(), Shape({2, 3}));
    EXPECT_EQ(ctx.saved_data["count"].toInt(), 3);
    EXPECT_THROW(ctx.saved_data["x"].toDouble(), ArgumentError);
    EXPECT_THROW(ctx.saved_data["count"].toTensor(), ArgumentError);
    EXPECT_THROW(ctx.saved_data["none"].toInt(), ArgumentError);
    return {grads[0] * ctx.saved_data["factor"].to<Factor*>()->value, Variable()};
  }
};

TEST(FirstGuessSpellings, SavedData) {
  Scaled::Factor factor{3};
  const Variable x = ones({2, 3}).requires_grad_();
  const std::vector<Variable> results = Scaled::apply(x, &factor);
  GUESS("true", results[0].requires_grad());
  GUESS("false", results[1].requires_grad());
  results[0].sum().backward();
  GUESS("[[3, 3, 3],[3, 3, 3]]", x.grad());
}

TEST(FirstGuessSpellings, HooksThatReturnNothing) {
  const Variable x = ones({2}).requires_grad_();
  Variable y = x * 2;
  std::vector<Variable> seen;
  y.register_hook([&](const Variable& gradient) { seen.push_back(gradient); });
  y.register_hook([](Variable gradient) { return gradient * 10; });
  (y * y).sum().backward();
  GUESS("[4, 4]", seen);
  GUESS("[80, 80]", x.grad());
}

TEST(FirstGuessSpellings, LibtorchsOptions) {
  namespace F = torch::nn::functional;
  const Variable a = tensor({{1.0, 0.0}, {3.0, 4.0}}), b = tensor({{1.0, 1.0}, {3.0, 4.0}});
  GUESS("[1, 1]", F::cosine_similarity(a, a, F::CosineSimilarityFuncOptions().dim(1).eps(1e-6)));
  EXPECT_TRUE(F::cosine_similarity(a, b, F::CosineSimilarityFuncOptions().dim(0))
                  .equal(cosine_similarity(a, b, 0)));
  EXPECT_TRUE(F::pairwise_distance(a, b, F::PairwiseDistanceFuncOptions().p(1).keepdim(true))
                  .equal(pairwise_distance(a, b, 1, 1e-6, true)));
  EXPECT_TRUE(F::kl_div(a, b, F::KLDivFuncOptions().reduction(torch::kBatchMean).log_target(true))
                  .equal(kl_div(a, b, "batchmean", true)));
  nn::LSTM lstm(nn::LSTMOptions(2, 3).num_layers(2).batch_first(true));
  GUESS("[1, 5, 3]", lstm(ones({1, 5, 2}))[0].shape());
  nn::ConvTranspose2d up(nn::ConvTranspose2dOptions(1, 2, 4).stride(2).padding(1));
  GUESS("[1, 2, 8, 8]", up(ones({1, 1, 4, 4})).shape());
  nn::Sequential none, one(nn::Linear(1, 1));
  GUESS("true", none.is_empty());
  GUESS("false", one->is_empty());
  const Variable x = ones({2}).requires_grad_();
  torch::utils::checkpoint::checkpoint([](const Variable& v) { return v * v; }, x).sum().backward();
  GUESS("[2, 2]", x.grad());
}

struct Scale : nn::Model<Scale> {
  nn::Parameter scale = torch::full({2}, 3.0);
  nn::Buffer offset = torch::ones({2});
  void members(nn::Members& m) override { m("scale", scale)("offset", offset); }
  Variable forward(const Variable& x) const { return x * scale + offset; }
};

TEST(FirstGuessSpellings, ParametersByAssignment) {
  Scale net;
  net(ones({2})).sum().backward();
  GUESS("[1, 1]", net.scale.grad());
  GUESS("1", net.parameters().size());
  GUESS("2", net.state_dict().size());
}

TEST(FirstGuessSpellings, MetricsOfTorchmetrics) {
  F1 f1(2);
  f1.update(tensor({{0.9, 0.1}, {0.2, 0.8}}), tensor({0, 1}));
  f1.update(tensor({{0.9, 0.1}, {0.2, 0.8}}), tensor({1, 0}));
  GUESS("0.5", f1.compute());
  f1.reset();
  f1.update(tensor({{0.9, 0.1}, {0.2, 0.8}}), tensor({0, 1}));
  GUESS("1", f1.compute());
}

}  // namespace
