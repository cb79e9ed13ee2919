// First guesses about assignments to grad() and data(), complex results, parts with names,
// enumerate(), data sets in place of loaders. Numbers are PyTorch's.
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;
using guesses::text;

namespace {

// backup[name] = p.data; p.data = shadow[name]; ...; p.data = backup[name]
TEST(GradientAssignments, DataIsReplacedNotWritten) {
  nn::Linear layer(2, 1);
  nn::init::constant_(layer.weight, 1);
  const Variable shadow = full({1, 2}, 5.0);
  const Variable backup = layer.weight.data();
  layer.weight.data() = shadow;
  GUESS("[[5, 5]]", layer.weight);
  layer.weight.data() = backup;
  GUESS("[[1, 1]]", layer.weight);
  GUESS("[[5, 5]]", shadow);

  sum(layer(ones({1, 2}))).backward();  // the gradient is kept, as in PyTorch
  layer.weight.data() = layer.weight.data() - 0.5 * layer.weight.grad();
  GUESS("[[1, 1]]", layer.weight.grad());
  GUESS("[[0.5, 0.5]]", layer.weight);
  layer.weight.data() -= 0.25;  // in place
  GUESS("[[0.25, 0.25]]", layer.weight);
  layer.weight.set_data(ones({1, 2}));
  GUESS("[[1, 1]]", layer.weight.grad());
  EXPECT_TRUE(layer.weight.requires_grad());
  const std::vector<Variable> others = {layer.weight.data()};
  Variable named = layer.weight.data();
  named = zeros({1, 2});  // another value for the name alone
  GUESS("[[1, 1]]", layer.weight);
}

TEST(GradientAssignments, GradientsAreSet) {
  Variable w = tensor({1.0, 2.0}).requires_grad_();
  w.grad() = tensor({3.0, 4.0});  // where there is none yet
  GUESS("[3, 4]", w.grad());
  w.grad() = w.grad() * 2 + 1;
  GUESS("[7, 9]", w.grad());
  const Variable kept = w.grad();
  w.grad() = zeros_like(w);
  GUESS("[7, 9]", kept);  // replaced, not written
  w.grad().fill_(2);
  (w * 3).sum().backward();
  GUESS("[5, 5]", w.grad());
  w.grad() = Variable();  // p.grad = None
  EXPECT_FALSE(w.grad().defined());
  w.set_grad(ones({2}));
  optim::SGD({w}, 1.0).step();
  GUESS("[0, 1]", w);
  EXPECT_THROW(w.grad() = ones({3}), ShapeError);
  EXPECT_THROW(w.set_grad(ones({2}, f64)), DTypeError);
  EXPECT_THROW((w * 2).set_grad(ones({2})), AutogradError);
}

TEST(GradientAssignments, GradientOfOneVariable) {
  const Variable x = tensor({{1.0, 2.0}, {3.0, 4.0}}).requires_grad_();
  GUESS("[[2, 4], [6, 8]]", autograd::grad((x * x).sum(), x));
  const Variable dy = autograd::grad(x * x, x, ones_like(x), true, true);
  GUESS("[[2, 4], [6, 8]]", dy);
  GUESS("[[2, 2], [2, 2]]", autograd::grad(dy.sum(), x));
  const auto g = grad((x * x).sum(), x);
  GUESS("[6, 8]", g[1]);
}

// torch.nn.functional.unfold(x, kernel_size, dilation, padding, stride)
TEST(GradientAssignments, UnfoldOfFunctionalIsThatOfImages) {
  const Variable x = arange(16).to(f32).view({1, 1, 4, 4});
  GUESS("[1, 9, 16]", nn::functional::unfold(x, 3, 1, 1).shape());
  GUESS("750", nn::functional::unfold(x, 3, 1, 1).sum());
  GUESS("[1, 4, 4]", torch::nn::functional::unfold(x, 2, 1, 0, 2).shape());
  GUESS("[1, 1, 4, 2, 2]", x.unfold(3, 2, 2).shape());
}

TEST(GradientAssignments, ComplexResults) {
  const Variable x = tensor({1.0, 2.0, 3.0, 4.0});
  const auto spectrum = fft::rfft(x);
  GUESS("[10, 2.82843, 2]", spectrum.abs());
  GUESS("[10, 2.82843, 2]", abs(spectrum));
  GUESS("[10, -2, -2]", spectrum.real());
  GUESS("[0, 2, 0]", spectrum.imag());
  GUESS("[100, 8, 4]", (spectrum * spectrum.conj()).real());
  // A circular convolution.
  const auto kernel = fft::rfft(tensor({1.0, 1.0, 0.0, 0.0}));
  GUESS("[5, 3, 5, 7]", fft::irfft(spectrum * kernel, 4));
  // Sums, multiples and quotients are complex numbers as well.
  GUESS("[10, 2.82843, 2]", (spectrum / 2 + 0.5 * spectrum).abs());
  GUESS("[0, 0, 0]", (spectrum - spectrum).abs());
  GUESS("[-10, 2, 2]", (-spectrum).real());
  GUESS("[11, -1, -1]", (spectrum + 1).real());
  GUESS("[0, 2, 0]", (1.0 + spectrum).imag());
  GUESS("[8, -4, -4]", (spectrum - scalar(2.0)).real());
  GUESS("[1, 1, 1]", (spectrum / spectrum).real());
  GUESS("[-9, 3, 3]", (1u - spectrum).real());
  GUESS("-2", (1u - spectrum).imag()[1]);
  GUESS("[0.1, -0.25, -0.5]", (1 / spectrum).real());
  GUESS("-0.25", (1 / spectrum).imag()[1]);
  auto changed = spectrum;
  changed *= changed;
  changed += 1;
  changed /= 2.0;
  changed -= spectrum;
  GUESS("[40.5, 2.5, 4.5]", changed.real());
  GUESS("-6", changed.imag()[1]);
  // A filter: rfft(x) * (frequencies < 0.3)
  const Variable passes = fft::rfftfreq(4) < 0.3;
  GUESS("[10, 2.82843, 0]", (spectrum * passes).abs());
  GUESS("[1.5, 1.5, 3.5, 3.5]", fft::irfft(passes.to(f32) * spectrum, 4));
  GUESS("[[10, 0], [-4, 4], [-6, 0]]", spectrum * tensor({1.0, 2.0, 3.0}));
  EXPECT_TRUE(equal(spectrum * tensor({1.0, -1.0}), spectrum.conj()));  // of the pairs
  const Variable image = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  const auto plane = fft::fft2(complex(image, zeros_like(image)));
  GUESS("[[0, 9, 0], [3.4641, 21, 3.4641]]", round(fft::fftshift(plane).abs(), 4));
  GUESS("[[3.4641, 21, 3.4641], [0, 9, 0]]", round(fft::fftshift(plane, -1).abs(), 4));
  EXPECT_TRUE(equal(fft::ifftshift(fft::fftshift(plane)), plane));
  GUESS("[3, 3]", stft(ones({16}), 4, {.hop_length = 8, .window = ones({4})}).abs().shape());
}

TEST(GradientAssignments, PartsWithNames) {
  const Variable x = arange(12).to(f32).view({1, 12});
  auto [q, k, v] = x.chunk<3>(-1);
  GUESS("[[4, 5, 6, 7]]", k);
  auto [mean, log_std] = x.split<2>(6, 1);
  GUESS("[[6, 7, 8, 9, 10, 11]]", log_std);
  auto [row] = x.unbind<1>();
  GUESS("[12]", row.shape());
  auto [n, columns] = x.sizes<2>();
  EXPECT_EQ(n, 1);
  EXPECT_EQ(columns, 12);
  EXPECT_THROW(x.unbind<2>(), ShapeError);
  EXPECT_THROW(x.sizes<3>(), ShapeError);
  auto [ys, xs] = torch::meshgrid(arange(2), arange(3), "ij");
  GUESS("[[0, 0, 0], [1, 1, 1]]", ys);
  auto [a, b] = meshgrid(arange(2), arange(3), "xy");
  GUESS("[3, 2]", b.shape());
  GUESS("3", unique(tensor({2, 1, 2, 5})).numel());
}

TEST(GradientAssignments, NumbersByPosition) {
  const Variable a = ones({2, 2}), batch = ones({1, 2, 2});
  GUESS("[[4.5, 4.5], [4.5, 4.5]]", torch::addmm(a, a, a, 0.5, 2));
  GUESS("[[[4.5, 4.5], [4.5, 4.5]]]", torch::baddbmm(batch, batch, batch, 0.5, 2));
  GUESS("[5, 5]", addmv(ones({2}), a, ones({2}), 1, 2));
  GUESS("[-3, 4]", div(tensor({-5, 9}), 2, {.rounding_mode = "floor"}));
  const Variable m = tensor({{3.0, 0.0}, {4.0, 5.0}});
  GUESS("6.7082", linalg::norm(m, 2));  // the largest singular value
  GUESS("7", linalg::norm(m, 1));
  GUESS("6.7082", linalg::norm(m, 2, {0, 1}));
  GUESS("[5, 5]", linalg::norm(m, 2, 0));
  GUESS("5", linalg::norm(tensor({3.0, 4.0}), 2));
}

struct Rounded : autograd::Function<Rounded> {
  static variable_list forward(AutogradContext*, const Variable& x) { return {x.round(), x * 2}; }
  static variable_list backward(AutogradContext*, variable_list g) { return {g[0] + g[1]}; }
};

TEST(GradientAssignments, FunctionsOfTransforms) {
  const Variable x = tensor({1.0, 2.0}).requires_grad_();
  sum(Rounded::apply(x)[0]).backward();
  GUESS("[1, 1]", x.grad());
  auto [value, gradient] = func::value_and_grad([](const Variable& v) { return sum(v * v); })(x);
  GUESS("5", value);
  auto [sums, largest] = vmap([](const Variable& row) {
    return std::make_tuple(row.sum(), row.max());
  })(tensor({{1.0, 2.0}, {3.0, 4.0}}));
  GUESS("[3, 7]", sums);
  GUESS("[2, 4]", largest);
  GUESS("[[2, 6], [4, 8]]",
        vmap([](const Variable& v) { return v * 2; }, 0, 1)(tensor({{1.0, 2.0}, {3.0, 4.0}})));
}

TEST(GradientAssignments, Enumerate) {
  TensorDataset set(arange(6).to(f32), arange(6));
  DataLoader loader(set, 2);
  std::string seen;
  for (auto [i, batch] : enumerate(loader)) {
    auto& [x, y] = batch;
    seen += text(i) + ":" + text(y) + " ";
  }
  GUESS("0:[0, 1] 1:[2, 3] 2:[4, 5] ", seen);
  for (auto& [i, batch] : enumerate(loader, 1)) seen = text(i) + text(batch[1]);
  GUESS("3[4, 5]", seen);
  std::vector<int> numbers = {1, 2};
  for (auto [i, n] : enumerate(numbers)) n += 10 * int(i + 1);
  EXPECT_EQ(numbers, (std::vector<int>{11, 22}));
  nn::Sequential net(nn::Linear(2, 3), nn::ReLU());
  for (auto [i, layer] : enumerate(net)) seen = text(i) + text(layer);
  GUESS("1ReLU()", seen);
  EXPECT_EQ(len(loader), 3);
  EXPECT_EQ(len(set), 6);
  EXPECT_EQ(len(net), 2);
  EXPECT_EQ(len(zeros({4, 2})), 4);
  BatchSampler lists(SequentialSampler(set), 4, false);
  seen.clear();
  for (auto& indices : lists) seen += text(indices.size());
  EXPECT_EQ(seen, "42");
  EXPECT_EQ(lists.size(), 2);
}

TEST(GradientAssignments, DataSetsInPlaceOfLoaders) {
  manual_seed(0);
  TensorDataset set(randn({32, 4}), randint(0, 3, {32}));
  nn::Sequential net(nn::Linear(4, 3));
  optim::Adam adam(net, 1e-2);
  const History history =
      fit(net, set, adam, {.epochs = 2, .batch_size = 8, .verbose = 0, .validation_data = set});
  EXPECT_EQ(history.epochs.size(), 2u);
  EXPECT_EQ(evaluate(net, set, {.batch_size = 5}).count, 32);
  EXPECT_NEAR(evaluate(net, set).loss, history.epochs.back().val_loss, 1e-6);
  GUESS("[32, 3]", predict(net, set).shape());
}

// Numbers of torch.optim with maximize=True.
TEST(GradientAssignments, Maximize) {
  const auto climb = [](auto make) {
    Variable p = tensor({1.0, 2.0}).requires_grad_();
    auto optimizer = make(std::vector<Variable>{p});
    for (int i = 0; i < 5; ++i) {
      optimizer.zero_grad();
      (-(p - 3).pow(2)).sum().backward();
      optimizer.step();
    }
    return p;
  };
  const auto near = [](const Variable& p, double first, double second) {
    EXPECT_NEAR(p[0].item(), first, 1e-4);
    EXPECT_NEAR(p[1].item(), second, 1e-4);
  };
  near(climb([](auto p) { return optim::Adam(p, {.lr = 0.1, .maximize = true}); }), 1.49704,
       2.49204);
  near(climb([](auto p) {
         return optim::SGD(p, {.lr = 0.1, .weight_decay = 0.1, .maximize = true});
       }),
       2.28569, 2.59340);
}

TEST(GradientAssignments, Layers) {
  nn::Sequential net;
  EXPECT_TRUE(net.empty());
  net.add_module("fc", nn::Linear(2, 2));
  nn::init::xavier_uniform_(net[0].weight());
  nn::init::zeros_(net[0].bias());
  GUESS("[0, 0]", net[0].bias());
  net.eval();
  EXPECT_FALSE(net.training());
  nn::TransformerEncoderLayer layer(8, 2, 16, 0.0, {.activation = "gelu", .batch_first = true});
  GUESS("[16, 8]", layer.linear1.weight.shape());
  nn::ModuleDict heads{{"a", nn::Linear(2, 2)}, {"b", nn::ReLU()}};
  EXPECT_EQ(heads.keys(), (std::vector<std::string>{"a", "b"}));
  TensorMap state = net.state_dict();
  state["fc.bias"].copy_(ones({2}));
  GUESS("[1, 1]", net[0].bias());
  Variable x = ones({2});
  GUESS("[1, 1]", x.to("cpu", /*non_blocking=*/true).to(cpu, true));
  optim::SGD sgd(net, 0.5);
  optim::StepLR schedule(sgd, 1, 0.1);
  GUESS("[0.5]", schedule.get_last_lr());
  sgd.step();
  schedule.step();
  EXPECT_EQ(schedule.last_epoch(), 1);
  std::vector<RemovableHandle> handles;
  handles.push_back(x.requires_grad_().register_hook([](const Variable&) {}));
  EXPECT_EQ(torch::Generator().manual_seed(3).state().seed, 3u);
}

// jax.grad(loss, argnums=(0, 1)), torch.func.grad_and_value(loss, argnums=(0, 1))
TEST(GradientAssignments, GradientsInSeveralArguments) {
  const auto loss = [](const Variable& w, const Variable& b, const Variable& x) {
    return sum(square(w * x + b));
  };
  const Variable w = scalar(2.0), b = scalar(3.0), x = scalar(5.0);
  const auto [dw, db] = func::grad(loss, {0, 1})(w, b, x);
  GUESS("130", dw);
  GUESS("26", db);
  GUESS("52", func::grad(loss, 2)(w, b, x));
  const auto [value, gradients] = func::value_and_grad(loss, {1, 1})(w, b, x);
  GUESS("169", value);
  GUESS("26", gradients[0]);
  GUESS("26", gradients[1]);
  EXPECT_FALSE(value.requires_grad());
  const auto second = func::grad(
      [&](const Variable& w2, const Variable& b2) {
        return func::grad(loss, {0, 1})(w2, b2, x)[0];
      },
      {0, 1})(w, b);
  GUESS("50", second[0]);
  GUESS("10", second[1]);
  const auto scaled = [](const Variable& y, double factor) { return y * factor * y; };
  GUESS("12", func::grad(scaled, {0})(w, 3.0)[0]);
  EXPECT_THROW(func::grad(scaled, 1)(w, 3.0), ArgumentError);
  EXPECT_THROW(func::grad(scaled, 2)(w, 3.0), IndexError);
  EXPECT_THROW(func::grad(scaled, -1)(w, 3.0), IndexError);
}

// model.fit(x, y, callbacks=[keras.callbacks.TerminateOnNaN()])
TEST(GradientAssignments, ALossOfNanEndsTheTraining) {
  nn::Linear net(1, 1);
  optim::SGD sgd(net, 1e30);
  const History history = fit(net, ones({64, 1}), zeros({64, 1}), sgd, nn::MSELoss(),
                              {.epochs = 50,
                               .batch_size = 8,
                               .verbose = 0,
                               .accuracy = false,
                               .callbacks = {TerminateOnNaN()}});
  EXPECT_EQ(history.epochs.size(), 0u);  // none was finished
  EXPECT_NE(history.stop_reason.find("of epoch 1 is "), std::string::npos) << history.stop_reason;
}

// def forward(self, x): return self.gru(x)
struct Encoder : nn::Model<Encoder> {
  nn::GRU gru{3, 4};
  nn::LSTM lstm{3, 4};
  void members(nn::Members& m) override { m("gru", gru)("lstm", lstm); }
  std::tuple<Variable, Variable> forward(const Variable& x) { return gru(x); }
  std::pair<Variable, Variable> pair(const Variable& x) { return gru(x); }
  std::tuple<Variable, std::tuple<Variable, Variable>> states(const Variable& x) { return lstm(x); }
  std::tuple<Variable, Variable, Variable> three(const Variable& x) { return lstm(x); }
};
TEST(GradientAssignments, ResultsOfRecurrentLayersAreTuples) {
  Encoder encoder;
  const Variable x = randn({5, 2, 3});
  const auto [output, h] = encoder(x);
  EXPECT_EQ(output.shape(), (Shape{5, 2, 4}));
  EXPECT_TRUE(equal(encoder.pair(x).second, h));
  const auto [y, state] = encoder.states(x);
  const auto [z, hidden, cell] = encoder.three(x);
  EXPECT_TRUE(equal(y, z) && equal(std::get<0>(state), hidden) && equal(std::get<1>(state), cell));
}

// torch.save({name: p for name, p in model.named_parameters()}, path)
TEST(GradientAssignments, MapsOfVariablesAreSavedAndLoaded) {
  const tapegrad::testing::TempDir dir;
  const std::string path = (dir / "maps.safetensors").string();
  nn::Linear net(2, 3);
  std::unordered_map<std::string, Variable> average;
  for (const auto& [name, value] : net.state_dict()) average[name] = Variable(value) / 2;
  save(average, path);
  net.load_state_dict(load(path));
  EXPECT_TRUE(equal(net.weight, average["weight"]));
  save(path, {{"average", average}, {"epoch", 3}});
  EXPECT_TRUE(equal(Variable(part_of(load(path), "average").at("bias")), average["bias"]));
  average["weight"] = average["weight"] * 3;
  net.load_state_dict(average);
  EXPECT_TRUE(equal(net.weight, average["weight"]));
}

// torch.logspace(0, 2, 3, dtype=torch.float64); torch.log10(x)
TEST(GradientAssignments, PowersOfTenAreExact) {
  const Variable x = logspace(0, 2, 3, {.dtype = f64});
  GUESS("[1, 10, 100]", x);
  GUESS("[0, 1, 2]", floor(log10(x)));
}

// torch.gradient(y, spacing=2.0, dim=1, edge_order=2); torch.unravel_index(i, (2, 3, 4))
TEST(GradientAssignments, DifferencesAndCoordinates) {
  const Variable y = tensor({{1.0, 4.0, 9.0, 16.0}, {2.0, 3.0, 5.0, 9.0}}, {.dtype = f64});
  const std::vector<Variable> slopes = gradient(y);
  ASSERT_EQ(slopes.size(), 2u);
  GUESS("[[1, -1, -4, -7], [1, -1, -4, -7]]", slopes[0]);
  GUESS("[[3, 4, 6, 7], [1, 1.5, 3, 4]]", slopes[1]);
  GUESS("[[1, 2, 3, 4], [0.25, 0.75, 1.5, 2.5]]", gradient(y, 2.0, 1, 2)[0]);
  EXPECT_TRUE(gradcheck([](const Variable& x) { return sum(square(gradient(x)[1])); },
                        {y.clone().requires_grad_()}));
  EXPECT_THROW(gradient(y, 1.0, 0, 2), ArgumentError);
  const std::vector<Variable> places = unravel_index(tensor({0, 7, 23}), {2, 3, 4});
  GUESS("[0, 0, 1]", places[0]);
  GUESS("[0, 1, 2]", places[1]);
  GUESS("[0, 3, 3]", places[2]);
  EXPECT_THROW(unravel_index(tensor({24}), {2, 3, 4}), IndexError);
}

// torch.kaiser_window(5), torch.nn.init.dirac_(w, 2)
TEST(GradientAssignments, WindowsAndDiracWeights) {
  const Variable of_torch = tensor(
      {5.277344132010e-05, 0.1017196877096, 0.7929398341015, 0.7929398341015, 0.1017196877096},
      {.dtype = f64});
  EXPECT_TRUE(allclose(kaiser_window(5, true, 12.0, {.dtype = f64}), of_torch, 1e-11, 1e-14));
  EXPECT_THROW(kaiser_window(-1), ArgumentError);
  Variable w = empty({4, 1, 3});
  nn::init::dirac_(w, 2);
  GUESS("[[[0, 1, 0]], [[0, 0, 0]], [[0, 1, 0]], [[0, 0, 0]]]", w);
  nn::Conv2d same(3, 3, 3, 1, 1, {.bias = false});
  nn::init::dirac_(same.weight);
  const Variable x = randn({2, 3, 5, 5});
  EXPECT_TRUE(equal(same(x), x));
  EXPECT_THROW(nn::init::dirac_(same.weight, 2), ArgumentError);
}

// self.gamma = nn.Parameter(torch.ones(3)), without the nn.Parameter
TEST(GradientAssignments, AParameterThatIsAssignedIsTrained) {
  nn::Parameter gamma;
  gamma = ones({3});
  EXPECT_TRUE(gamma.requires_grad());
  gamma = zeros({3});
  EXPECT_TRUE(gamma.requires_grad());
  gamma.requires_grad_(false);
  gamma = ones({3});
  EXPECT_FALSE(gamma.requires_grad());  // stays frozen
  nn::Parameter ids;
  ids = tensor({1, 2});
  EXPECT_FALSE(ids.requires_grad());
}

// class Derived(Base), where Base is a model of the user
struct Narrow : nn::Model<Narrow> {
  nn::Linear a{2, 2};
  void members(nn::Members& m) override { m("a", a); }
  Variable forward(const Variable& x) const { return a(x); }
};
struct Sliced : Narrow {
  nn::Linear b{2, 3};
  void members(nn::Members& m) override {
    Narrow::members(m);
    m("b", b);
  }
  Variable forward(const Variable& x) const { return b(Narrow::forward(x)); }
};
struct Wide : nn::Model<Wide, Narrow> {
  nn::Linear b{2, 3};
  void members(nn::Members& m) override {
    Narrow::members(m);
    m("b", b);
  }
  Variable forward(const Variable& x) const { return b(Narrow::forward(x)); }
};
TEST(GradientAssignments, AModelThatDerivesFromAModelIsNotItsBase) {
  const Variable x = ones({4, 2});
  Sliced sliced;
  try {
    sliced(x);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("nn::Model<Sliced, Narrow>"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(sliced.clone(), ArgumentError);
  EXPECT_THROW(nn::Sequential(sliced, nn::ReLU()), ArgumentError);
  Wide wide;
  EXPECT_EQ(wide(x).shape(), (Shape{4, 3}));
  EXPECT_EQ(wide.clone().parameters().size(), 4u);
  EXPECT_EQ(nn::Sequential(wide, nn::ReLU())(x).shape(), (Shape{4, 3}));
}

// model.fit(x, y) of a regression, without a loss
TEST(GradientAssignments, TheLossOfOneOutputIsNamed) {
  nn::Linear net(2, 1);
  optim::SGD sgd(net, 0.1);
  const Variable x = ones({8, 2}), y = ones({8, 1});
  EXPECT_THROW(fit(net, x, y, sgd, {.verbose = 0, .accuracy = false}), ArgumentError);
  EXPECT_GT(fit(net, x, y, sgd, nn::MSELoss(), {.verbose = 0, .accuracy = false}).epochs[0].loss,
            0);
}

TEST(FirstGuessGradients, SeedsByNameInLists) {
  Variable x = tensor({1.0, 2.0}, {.requires_grad = true});
  const Variable y = x * x, seed = tensor({1.0, 10.0});
  GUESS("[2, 40]", grad({y}, {x}, {.grad_outputs = {seed}, .retain_graph = true}));
  GUESS("[2, 40]", grad({y}, {x}, {.grad_outputs = seed, .retain_graph = true}));
  GUESS("[2, 40]", torch::autograd::grad({y}, {x}, {seed}, /*retain_graph=*/true));
  GUESS("[4, 80]", grad({y, y}, {x}, {seed, seed}));
}

}  // namespace
