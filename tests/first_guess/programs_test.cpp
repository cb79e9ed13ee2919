// Spellings that whole programs of PyTorch, libtorch and JAX users rely on: GANs, functions of
// functions, ops of their own, groups of optimizers. Each is as its user typed it at first.
#include <cmath>

#include "tests/first_guess/guess.h"

using namespace tapegrad;

// No class of the library is called Generator.
struct Generator : nn::Model<Generator> {
  nn::Sequential main{nn::ConvTranspose2d(4, 8, 4, 1, 0, {.bias = false}), nn::BatchNorm2d(8),
                      nn::ReLU(true), nn::ConvTranspose2d(8, 1, {.kernel_size = 2, .stride = 2})};
  void members(nn::Members& m) override { m("main", main); }
  Variable forward(const Variable& z) const { return main(z); }
};
struct Discriminator : nn::Model<Discriminator> {
  nn::Conv2d conv = nn::utils::spectral_norm(nn::Conv2d(1, 4, 4, 2, 1, {.bias = false}));
  nn::Linear fc{64, 1};
  void members(nn::Members& m) override { m("conv", conv)("fc", fc); }
  Variable forward(const Variable& x) const { return fc(flatten(relu(conv(x)), 1)); }
};

struct Cube : autograd::Function<Cube> {
  static Variable forward(autograd::Context& ctx, const Variable& x) {
    ctx.save_for_backward({x});
    return x * x * x;
  }
  static std::vector<Variable> backward(autograd::Context& ctx, std::vector<Variable> grads) {
    const Variable x = ctx.saved_tensors()[0];
    return {grads[0] * 3 * x * x};
  }
};
class ScaledExp : public torch::autograd::Function<ScaledExp> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x, double by) {
    auto y = torch::exp(x * by);
    ctx->save_for_backward({y});
    ctx->saved_data["by"] = by;
    return y;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list grads) {
    auto saved = ctx->get_saved_variables();
    return {grads[0] * saved[0] * ctx->saved_data["by"].toDouble(), torch::Tensor()};
  }
};

namespace {

TEST(FirstGuessPrograms, Gan) {
  manual_seed(0);
  Generator g;
  Discriminator d;
  const Variable images = g(randn({2, 4, 1, 1}));
  GUESS("[2, 1, 8, 8]", images.sizes());
  GUESS("[2, 1]", d(images).sizes());
  d(images).mean().backward();
  EXPECT_TRUE(d.conv.parameters()[0].grad().defined());
  GUESS("conv.parametrizations.weight.original", d.named_parameters()[0].name);
  for (auto& p : d.parameters()) p.data().clamp_(-0.01, 0.01);
  EXPECT_LE(d.fc.weight.abs().max().item(), 0.011);
  EXPECT_EQ(torch::Generator(3).state().seed, 3u);
}

TEST(FirstGuessPrograms, OpsOfTheUser) {
  const Variable x = tensor({0.5, -1.5}, kDouble).requires_grad_();
  EXPECT_TRUE(gradcheck([](const Variable& v) { return Cube::apply(v); }, x, {.order = 2}));
  EXPECT_TRUE(
      gradcheck([](const Variable& v) { return ScaledExp::apply(v, 0.3); }, x, {.order = 2}));
  GUESS("autograd::Function", std::string(Cube::apply(x).grad_fn()->name()));
  EXPECT_FALSE(Cube::apply(x.detach()).requires_grad());
  Variable y = x.clone();
  const Variable cubed = Cube::apply(y);
  y.add_(1);
  EXPECT_THROW(cubed.sum().backward(), AutogradError);
}

TEST(FirstGuessPrograms, FunctionsOfFunctions) {
  auto f = [](const Variable& x) { return (x.pow(3) * sin(x)).sum(); };
  const Variable x = tensor({0.5, -1.5, 2.0}, kDouble), v = tensor({1.0, 2.0, -1.0}, kDouble);
  EXPECT_TRUE(allclose(func::grad(f)(x), vjp(f, x).product));
  const Variable h = func::hessian(f)(x);
  EXPECT_TRUE(allclose(func::jacrev(func::grad(f))(x), h));
  EXPECT_TRUE(allclose(func::jvp(func::grad(f), x, v).second, h.mv(v)));
  auto [value, gradient] = value_and_grad(f)(x);
  EXPECT_TRUE(allclose(value, f(x)));
  EXPECT_TRUE(allclose(gradient, func::grad(f)(x)));
  EXPECT_FALSE(value.requires_grad() || gradient.requires_grad());
  auto [y, pull] = func::vjp([](const Variable& x) { return x.sin(); }, x);
  EXPECT_TRUE(allclose(pull(v), v * x.cos()));
  const Variable a = randn({4, 3}), b = randn({4, 3});
  auto products = vmap([](const Variable& p, const Variable& q) { return dot(p, q); });
  EXPECT_TRUE(allclose(products(a, b), (a * b).sum(1), 1e-5, 1e-6));
  auto outer_product =
      vmap(vmap([](const Variable& p, const Variable& q) { return p * q; }, {.in_dims = {None, 0}}),
           {.in_dims = {0, None}});
  EXPECT_TRUE(allclose(outer_product(a[0], b[0]), outer(a[0], b[0])));
  EXPECT_THROW(products(a, b[0]), ShapeError);
}

TEST(FirstGuessPrograms, GradientsOfSamples) {
  nn::Linear layer(3, 2);
  const Variable x = randn({5, 3}), target = tensor({0, 1, 0, 1, 1});
  auto loss = [&](const VariableMap& p, const Variable& xi, const Variable& ti) {
    return cross_entropy(func::functional_call(layer, p, xi.unsqueeze(0)), ti.unsqueeze(0));
  };
  testing::internal::CaptureStderr();
  VariableMap per_sample =
      vmap(grad(loss), {.in_dims = {None, 0, 0}})(nn::parameter_map(layer), x, target);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // no parameter is left out
  const VariableMap expected = nn::per_sample_gradients(
      layer, [](const Variable& y, const Variable& t) { return cross_entropy(y, t); }, x, target);
  GUESS("[5, 2, 3]", per_sample["weight"].sizes());
  EXPECT_TRUE(allclose(per_sample["weight"], expected.at("weight"), 1e-5, 1e-6));
}

TEST(FirstGuessPrograms, GradientsWithOptionsInBraces) {
  const Variable x = tensor({1.0, 2.0}).requires_grad_();
  GUESS("[2, 4]", grad((x * x).sum(), x, {}));
  GUESS("[2, 4]", grad((x * x).sum(), std::vector<Variable>{x}, {})[0]);
  GUESS("[4, 8]", grad(x * x, x, 2.0 * ones({2})));
  GUESS("[4, 8]", grad(x * x, x, 2.0 * ones({2}), {}));
  std::vector<Variable> inputs{x};
  GUESS("[2, 4]", autograd::grad({(x * x).sum()}, inputs, {}, true, true)[0]);
}

TEST(FirstGuessPrograms, PartsOfResults) {
  const Variable x = tensor({{3.0, 1.0}, {2.0, 5.0}});
  GUESS("[3, 5]", std::get<0>(max(x, 1)));
  GUESS("[0, 1]", std::get<1>(x.max(1)));
  GUESS("[1, 2, 3, 5]", std::get<0>(unique(x)));
  GUESS("[3, 2, 1]", std::get<0>(tensor({1.0, 3.0, 2.0}).topk(3, 0, true, true)));
  auto result = x.sort();
  std::get<0>(result) = zeros({1});
  GUESS("[0]", result.values);
  GUESS("1", std::get<0>(linalg::slogdet(eye(2))).item());
}

TEST(FirstGuessPrograms, FormsOfOps) {
  const Variable x = zeros({3}), index = tensor({1, 1}), source = tensor({2.0, 3.0});
  GUESS("[0, 5, 0]", x.scatter(0, index, source, "add"));
  GUESS("[1, 6, 1]", ones({3}).scatter_(0, index, source, "multiply"));
  GUESS("[0, 3, 0]", zeros({3}).scatter_reduce_(0, index, source, "amax"));
  EXPECT_THROW(x.scatter(0, index, source, "max"), ArgumentError);
  GUESS("[[1, 2],[1, 3],[2, 3]]", combinations(tensor({1, 2, 3})));
  GUESS("[[1, 1],[1, 2],[2, 2]]", combinations(tensor({1, 2}), 2, true));
  GUESS("[0, 3]", combinations(tensor({1, 2}), 3).sizes());
  GUESS("[1, 2, 0]", nan_to_num(tensor({NAN, INFINITY, -INFINITY}), 1.0, 2.0, 0.0));
  GUESS("[1, 2]", tensor({NAN, INFINITY}).nan_to_num(1, 2, 3));
  GUESS("[5, 2]", tensordot(randn({3, 4, 5}), randn({4, 3, 2}), {{1, 0}, {0, 1}}).sizes());
  GUESS("[[0.6, 0.8]]", normalize(tensor({{3.0, 4.0}}), {.dim = -1}));
  GUESS("[1, 4, 4]", unfold(ones({1, 1, 4, 4}), 2, {.stride = 2}).sizes());
  const Variable q = randn({1, 2, 3, 4});
  const Variable causal = scaled_dot_product_attention(q, q, q, {.is_causal = true});
  EXPECT_TRUE(equal(scaled_dot_product_attention(q, q, q, {}, 0.0, true), causal));
  const Variable mask = ones({3, 3}, kBool).tril();
  EXPECT_TRUE(allclose(scaled_dot_product_attention(q, q, q, mask), causal));
  GUESS("[2, 3]", batch_norm(randn({2, 3}), {}, {}, {}, {}, true).sizes());
}

TEST(FirstGuessPrograms, GroupsOfOptimizers) {
  nn::Linear a(2, 2), b(2, 2);
  optim::SGD sgd({{.params = a.parameters(), .lr = 0.5}, {.params = b.parameters()}}, {.lr = 0.1});
  for (auto& group : sgd.param_groups()) group.lr *= 0.5;
  GUESS("0.25 0.05", [&] {
    std::ostringstream out;
    for (auto& group : sgd.param_groups()) out << group.lr << ' ';
    return out.str();
  }());
  sgd.param_groups()[0]["lr"] = 1.0;
  EXPECT_EQ(sgd.lr(0), 1.0);
  EXPECT_EQ(sgd.param_groups()[1].params.size(), 2u);
  EXPECT_THROW(sgd.param_groups()[0]["momentum"] = 0.9, ArgumentError);
  amp::GradScaler scaler;
  const amp::autocast scope("cpu", kBFloat16);
  GUESS("bfloat16", a(randn({1, 2})).dtype());
}

TEST(FirstGuessPrograms, HooksFunctionsAndOptions) {
  nn::Sequential net(
      nn::Linear(2, 3), [](const Variable& x) { return tanh(x); }, nn::Linear(3, 1));
  Variable seen;
  auto handle = net[0].register_forward_hook(
      [&](nn::Module&, const std::vector<Variable>& in, const Variable& out) {
        seen = out.detach();
        EXPECT_EQ(in.size(), 1u);
      });
  net(ones({1, 2}));
  GUESS("[1, 3]", seen.sizes());
  handle.remove();
  net[0].register_forward_hook([](nn::Module&, const std::vector<Variable>&, const Variable& out) {
    return zeros_like(out);
  });
  GUESS("[[0, 0, 0]]", net[0].call(ones({1, 2}), Where::current()));
  net[0].register_forward_hook([](const nn::Module&, const Variable& in, const Variable&) {
    return in.size(1) * ones({1, 3});
  });
  GUESS("[[2, 2, 2]]", net[0].call(ones({1, 2}), Where::current()));
  net[0].register_forward_hook([](auto& module, auto in, auto out) {
    EXPECT_EQ(module.kind(), "Linear");
    return out + in[0].sum();
  });
  GUESS("[[4, 4, 4]]", net[0].call(ones({1, 2}), Where::current()));
  optim::SGD joined({nn::Linear(1, 2).parameters(), nn::Linear(2, 1).parameters()}, 0.1);
  EXPECT_EQ(joined.parameters().size(), 4u);
  EXPECT_EQ(joined.group_count(), 1);
  nn::ParameterList list;
  list.append(nn::Parameter(ones({2})));
  EXPECT_EQ(list.size(), 1u);
  GUESS("[2, 3, 4]",
        std::get<0>(nn::RNN(5, 4, {.nonlinearity = "relu"})(randn({2, 3, 5}))).sizes());
  EXPECT_THROW(nn::LSTM({.input_size = 1, .hidden_size = 1, .nonlinearity = "relu"}),
               ArgumentError);
  Variable w = empty({400, 100});
  nn::init::kaiming_normal_(w, {.mode = "fan_out", .nonlinearity = "relu"});
  EXPECT_NEAR(w.std().item(), std::sqrt(2.0 / 400), 0.002);
  nn::init::kaiming_uniform_(w, {.a = std::sqrt(5.0)});
  EXPECT_NEAR(w.abs().max().item(), 0.1, 0.001);
  GUESS("0.5", nn::HuberLoss(1.0)(tensor({1.0}), tensor({0.0})).item());
  nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(8, 2, 16, 0.0), 1);
  const Variable x = randn({3, 2, 8}), padding = zeros({2, 3}, kBool);
  EXPECT_TRUE(equal(encoder(x, {.src_key_padding_mask = padding}),
                    encoder(x, {.key_padding_mask = padding})));
}

}  // namespace
