// First guesses at less frequent members, positional options of layers and losses, passes into
// chosen leaves, and streams. The numbers are PyTorch's.
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tests/first_guess/guess.h"

using namespace tapegrad;
using guesses::expect_close;
using guesses::message_of;

namespace {

Variable example() { return tensor({{0.5, -1.0, 2.0}, {1.5, 0.25, -0.75}}); }
Variable fractions() { return example().abs() / 4; }

TEST(FurtherMembers, InPlaceOfOneOperand) {
  expect_close(fractions().tan_(),
               tensor({{0.1256551, 0.2553419, 0.5463025}, {0.3936266, 0.06258151, 0.1897286}}));
  expect_close(fractions().asin_(),
               tensor({{0.1253278, 0.2526802, 0.5235988}, {0.3843968, 0.06254076, 0.1886164}}));
  expect_close(fractions().acos_(),
               tensor({{1.445469, 1.318116, 1.047198}, {1.1864, 1.508256, 1.38218}}));
  expect_close(fractions().atan_(),
               tensor({{0.124355, 0.2449787, 0.4636476}, {0.3587707, 0.06241881, 0.1853479}}));
  expect_close(fractions().sinh_(),
               tensor({{0.1253258, 0.2526123, 0.5210953}, {0.3838511, 0.0625407, 0.1886006}}));
  expect_close(fractions().cosh_(),
               tensor({{1.007823, 1.031413, 1.127626}, {1.07114, 1.001954, 1.01763}}));
  expect_close(fractions().exp2_(),
               tensor({{1.090508, 1.189207, 1.414214}, {1.29684, 1.044274, 1.138789}}));
  expect_close(fractions().erfc_(),
               tensor({{0.8596838, 0.7236736, 0.4795001}, {0.5958831, 0.929568, 0.7908823}}));
  expect_close(fractions().erfinv_(),
               tensor({{0.1112355, 0.2253121, 0.4769363}, {0.3456171, 0.05544595, 0.1677272}}));
  expect_close(fractions().lgamma_(),
               tensor({{2.019418, 1.288023, 0.5723649}, {0.863074, 2.739632, 1.592315}}));
  expect_close(fractions().digamma_(),
               tensor({{-8.388494, -4.227454, -1.963511}, {-2.753999, -16.47885, -5.638332}}));
  expect_close(fractions().logit_(),
               tensor({{-1.94591, -1.098612, 0.0}, {-0.5108256, -2.70805, -1.466337}}));
  expect_close(fractions().logit_(0.2),
               tensor({{-1.386294, -1.098612, 0.0}, {-0.5108256, -1.386294, -1.386294}}));
  expect_close(example().cumsum_(0), tensor({{0.5, -1.0, 2.0}, {2.0, -0.75, 1.25}}));
  expect_close(example().cumprod_(1), tensor({{0.5, -0.5, -1.0}, {1.5, 0.375, -0.28125}}));
  expect_close(example().renorm_(2, 0, 1.0),
               tensor({{0.2182179, -0.4364358, 0.8728715}, {0.8846517, 0.1474419, -0.4423258}}));
  GUESS("[[-0.5, 1, -2], [-1.5, -0.25, 0.75]]", example().negative_());
}

TEST(FurtherMembers, InPlaceOfTwoOperands) {
  expect_close(example().atan2_(fractions()),
               tensor({{1.325818, -1.325818, 1.325818}, {1.325818, 1.325818, -1.325818}}));
  expect_close(example().hypot_(fractions()),
               tensor({{0.5153882, 1.030776, 2.061553}, {1.546165, 0.2576941, 0.7730823}}));
  expect_close(example().copysign_(-1), -example().abs());
  expect_close(example().xlogy_(fractions()),
               tensor({{-1.039721, 1.386294, -1.386294}, {-1.471244, -0.6931472, 1.255482}}));
  GUESS("[[1, -4, 6], [4, 0, -3]]", example().div_(0.3, "floor"));
  GUESS("[[1, -3, 6], [5, 0, -2]]", example().div_(0.3, "trunc"));
  expect_close(example().add_(fractions(), {.alpha = 3}),
               tensor({{0.875, -0.25, 3.5}, {2.625, 0.4375, -0.1875}}));
  expect_close(example().sub_(fractions(), {.alpha = -3}),
               tensor({{0.875, -0.25, 3.5}, {2.625, 0.4375, -0.1875}}));
  expect_close(example().multiply_(2).subtract_(1).divide_(2).true_divide_(2),
               (example() - 0.5) / 2);
  GUESS("[0, 1, 0]", tensor({2, 3, 4}).bitwise_and_(1));
  GUESS("[3, 3, 5]", tensor({2, 3, 4}).bitwise_or_(1));
  GUESS("[3, 2, 5]", tensor({2, 3, 4}).bitwise_xor_(1));
  GUESS("[3.5, 7]",
        tensor({1.0, 2.0}).addmv_(ones({2, 2}), tensor({0.5, 2.0}), 1, 1) + tensor({0.0, 2.5}));
  GUESS("[[3, 2], [2, 3]]", eye(2).addr_(ones({2}), ones({2}), 1, 2));
  GUESS("[[[3, 3], [3, 3]]]", ones({1, 2, 2}).baddbmm_(ones({1, 2, 2}), ones({1, 2, 2})));
  GUESS("[[5, 5], [5, 5]]", ones({2, 2}).addbmm_(ones({2, 2, 2}), ones({2, 2, 2})));
  GUESS("[2, 2]", zeros({2}).fill_(tensor(2.0)));
  EXPECT_THROW(zeros({2}).fill_(tensor({2.0})), ShapeError);
  EXPECT_THROW(example().bitwise_and_(1), Error);
}

TEST(FurtherMembers, WritesInPlaceAreRecorded) {
  Variable w = tensor(3.0).requires_grad_();
  Variable x = zeros({2});
  x.fill_(w);
  x.sum().backward();
  GUESS("2", w.grad());
  w.zero_grad();
  Variable y = w * 2;
  y.sinh_().backward();
  expect_close(w.grad(), tensor(2 * std::cosh(6.0)));
}

TEST(FurtherMembers, Bounds) {
  GUESS("[[0.5, -1, 0.5], [0.5, 0.25, -0.75]]", example().clamp({}, 0.5));
  GUESS("[[0.5, -1, 0.5], [0.5, 0.25, -0.75]]", example().clip({}, 0.5));
  GUESS("[[0.5, -1, 0.5], [0.5, 0.25, -0.75]]", example().clamp_({}, 0.5));
  GUESS("[[0.5, -1, 0.5], [0.5, 0.25, -0.75]]", example().clip_(std::nullopt, 0.5));
}

TEST(FurtherMembers, FunctionsAsMembers) {
  const Variable x = example();
  expect_close(x.i0(), tensor({{1.063483, 1.266066, 2.279585}, {1.646723, 1.015686, 1.145647}}));
  expect_close((x + 3).polygamma(1),
               tensor({{0.3303577, 0.6449341, 0.221323}, {0.2487251, 0.3597983, 0.5573291}}));
  expect_close((x + 4).mvlgamma(2),
               tensor({{4.817861, 1.550195, 9.317671}, {7.708233, 4.173637, 1.983382}}));
  GUESS("[[1, 0, 1], [1, 1, 0]]", x.heaviside(0.0));
  expect_close(x.logaddexp2(fractions()),
               tensor({{1.32465, 0.7563462, 2.436752}, {2.044487, 1.159294, 0.7935981}}));
  expect_close(x.prelu(tensor({0.1})), tensor({{0.5, -0.1, 2.0}, {1.5, 0.25, -0.075}}));
  GUESS("[[0, -1, 2], [1.5, 0, -0.75]]", x.hardshrink(0.5));
  expect_close((x + 3).arccosh(),
               tensor({{1.924847, 1.316958, 2.292432}, {2.184644, 1.847246, 1.450575}}));
  expect_close(x.arcsinh().sinh(), x);
  expect_close(fractions().arctanh().tanh(), fractions());
  expect_close(x.leaky_relu(0.2), leaky_relu(x, 0.2));
  expect_close(x.elu(), elu(x));
  expect_close(x.gelu(), gelu(x));
  expect_close(x.silu(), silu(x));
  expect_close(x.softplus(), softplus(x));
  GUESS("[[3, 0, 6], [6, 1.5, 0]]", (x * 6).relu6());
  GUESS("[4, 6]", tensor({2, 3}).bitwise_left_shift(1));
  GUESS("[1, 1]", tensor({2, 3}).bitwise_right_shift(1));
  GUESS("[3, 2]", x.H().shape());
  GUESS("[2, 1, 3]", ones({2, 3, 1}).adjoint().shape());
  EXPECT_THROW(ones({2, 3, 1}).H(), ShapeError);
  GUESS("[[3, 4], [6, 8]]", tensor({1, 2}).ger(tensor({3, 4})));
  GUESS("[[1, 0], [0, 2]]", tensor({1, 2}).diagflat());
  GUESS("[1, 7]", tensor({1, 2}).put(tensor({1}), tensor({7})));
  GUESS("[2, 2]", x.split_with_sizes({1, 2}, 1)[1].shape());
  GUESS("[1, 2, 1]", ones({1, 2, 3}).dsplit(3)[2].shape());
  GUESS("true", x.positive().is_same(x));
}

TEST(FurtherMembers, QuestionsAboutATensor) {
  const Variable x = example();
  GUESS("3", x[1].storage_offset());
  GUESS("1", x.slice(1, 1).storage_offset());
  GUESS("3", x.to(f64)[1].storage_offset());
  GUESS("-0.75", static_cast<const float*>(x[1].data_ptr())[2]);
  GUESS("true", x.is_cpu() && x.is_signed() && !x.is_complex() && x.is_same_size(fractions()));
  GUESS("false", ones({2}, u8).is_signed());
  GUESS("4", x.itemsize());
  GUESS("24", x.nbytes());
  GUESS("-1", x.get_device());
  GUESS("false", x.retains_grad());
  Variable y = (x.clone().requires_grad_()) * 2;
  y.retain_grad();
  GUESS("true", y.retains_grad());
  GUESS("-1", x.tolist<float>()[1]);
  EXPECT_THROW(x.cuda(-7), Error);
}

TEST(FurtherMembers, RandomNumbersInPlace) {
  manual_seed(0);
  Variable x = zeros({20000}, f64);
  GUESS("1", x.geometric_(0.3).min());
  EXPECT_NEAR(x.mean().item(), 1 / 0.3, 0.05);
  x.log_normal_(0.5, 0.25);
  EXPECT_NEAR(x.log().mean().item(), 0.5, 0.01);
  EXPECT_NEAR(x.log().std().item(), 0.25, 0.01);
  x.cauchy_(1, 0.5);
  EXPECT_NEAR(x.median().item(), 1, 0.03);
  EXPECT_NEAR((x < 1.5).to(f64).mean().item(), 0.75, 0.02);  // the quartile is median + sigma
  EXPECT_THROW(x.geometric_(0), ArgumentError);
  EXPECT_THROW(x.cauchy_(0, 0), ArgumentError);
}

TEST(FurtherMembers, BackwardIntoChosenLeaves) {
  Variable x = tensor({1.0, 2.0}).requires_grad_(), w = tensor({3.0, 4.0}).requires_grad_();
  (x * w).sum().backward({.inputs = {x}});
  GUESS("[3, 4]", x.grad());
  GUESS("false", w.grad().defined());
  const Variable loss = (x * w).sum();
  loss.backward({.retain_graph = true, .inputs = {w, w}});
  loss.backward({.inputs = std::vector<Variable>{x, w}});
  GUESS("[6, 8]", x.grad());
  GUESS("[2, 4]", w.grad());
  (x * w).backward(tensor({1.0, 10.0}), {.inputs = {x}});
  GUESS("[9, 48]", x.grad());
  Variable unused = ones({2}).requires_grad_();
  x.sum().backward({.inputs = {unused}});
  GUESS("false", unused.grad().defined());
  const Variable middle = x * w;
  EXPECT_NE(message_of([&] {
              middle.sum().backward({.inputs = {middle}});
            }).find("grad(y, x) returns its gradient"),
            std::string::npos);
  EXPECT_THROW(middle.sum().backward({.inputs = {ones({2})}}), AutogradError);
  nn::Linear layer(2, 1);
  layer(ones({1, 2})).sum().backward({.inputs = layer.parameters()});
  GUESS("[[1, 1]]", layer.weight.grad());
}

TEST(FurtherMembers, BackwardOfSeveralResults) {
  Variable x = tensor({1.0, 2.0}).requires_grad_();
  backward({x.sum(), x.square().sum()});
  GUESS("[3, 5]", x.grad());
  autograd::backward({x * 2, x.sum()}, {tensor({1.0, 0.0}), tensor(5.0)});
  GUESS("[10, 10]", x.grad());
  EXPECT_THROW(backward({x.sum(), x.sum()}, {tensor(1.0)}), AutogradError);
}

TEST(FurtherMembers, DivisorOfAPool) {
  const Variable image = reshape(arange(16.0) - 5, {1, 1, 4, 4});
  const AvgPool2dOptions last{.stride = 2, .padding = 1, .ceil_mode = true, .divisor_override = 5};
  expect_close(avg_pool2d(image, 3, last).flatten(),
               tensor({-2.0, -1.2, 0.0, 4.2, 9.0, 3.6, 3.0, 5.4, 2.0}));
  expect_close(
      avg_pool2d(image, {3, 2}, {.stride = 3, .ceil_mode = true, .divisor_override = 2}).flatten(),
      tensor({-1.5, 3.0, 7.5, 5.0}));
  const nn::AvgPool2d pool(
      3, {.stride = 2, .padding = 1, .count_include_pad = false, .divisor_override = 7});
  expect_close(pool(image).flatten(), tensor({-1.428571, -0.8571429, 3.0, 6.428571}));
  Variable x = image.clone().requires_grad_();
  avg_pool2d(x, 3, last).square().sum().backward();
  expect_close(x.grad().flatten(), tensor({-0.8, -1.28, -0.48, -0.48, 0.88, 4.0, 3.12, 4.56, 1.68,
                                           5.28, 3.6, 5.04, 2.88, 8.64, 5.76, 8.0}));
  const Variable volume = avg_pool3d(reshape(arange(18.0), {1, 1, 2, 3, 3}), 2,
                                     {.stride = 1, .padding = 1, .divisor_override = 3});
  expect_close(volume.flatten().slice(0, 0, 9),
               tensor({0.0, 0.3333333, 1.0, 0.6666667, 1.0, 2.666667, 4.0, 2.333333, 3.0}));
  GUESS("408", volume.sum());
  GUESS("[1.5, 3.5]",
        avg_pool1d(tensor({{{1.0, 2.0, 3.0, 4.0}}}), 2, {.divisor_override = 2}).flatten());
  EXPECT_THROW(avg_pool2d(image, 2, {.divisor_override = 0}), ArgumentError);
}

TEST(FurtherMembers, PositionalOptionsOfLayers) {
  const Variable image = reshape(arange(16.0) - 5, {1, 1, 4, 4});
  GUESS("[5, 6, 9, 10]", nn::MaxPool2d{3, 1}(image).flatten());  // kernel_size and stride
  GUESS("[1, 1, 2, 3]", nn::AvgPool2d{{3, 2}, 1}(image).shape());
  GUESS("[1, 1, 2, 2]", nn::MaxPool2d{{1, 2}, {.stride = 2}}(image).shape());
  GUESS("[1, 1, 3, 3]", nn::AvgPool2d(3, 2, 1, true, false)(image).shape());
  GUESS("[1, 6, 2, 2]",
        nn::Conv2d(3, 6, 3, 2, 1, 1, 3, true, "circular")(ones({1, 3, 4, 4})).shape());
  GUESS("[-5, -3, 3, 5]", interpolate(image, {}, 0.5).flatten());
  GUESS("[-2.5, -0.5, 5.5, 7.5]", interpolate(image, {}, 0.5, "bilinear").flatten());
}

TEST(FurtherMembers, PositionalOptionsOfLosses) {
  const Variable x = example(), y = (x > 0).to(f32), weight = tensor({1.0, 2.0, 3.0});
  expect_close(nn::BCELoss(weight)(sigmoid(x), y), tensor(0.6658816));
  expect_close(nn::BCEWithLogitsLoss(weight)(x, y), tensor(0.6658816));
  expect_close(nn::MultiMarginLoss(2)(x, tensor({0, 2})), tensor(3.46875));
  expect_close(nn::MultiMarginLoss(1, 0.5)(x, tensor({0, 2})), tensor(1.0416666));
  expect_close(nn::PoissonNLLLoss(false, true)(x.abs(), x.abs() * 3), tensor(2.6901495));
  expect_close(nn::SmoothL1Loss("sum", 0.5)(x, 2 * x), tensor(4.5625));
}

TEST(FurtherMembers, FunctionsOfTheUtils) {
  const std::vector<Variable> both = {example(), fractions()};
  expect_close(nn::utils::get_total_norm(both), tensor(2.9381647));
  expect_close(nn::utils::get_total_norm(both, 1), tensor(7.5));
  expect_close(nn::utils::get_total_norm(both, INFINITY), tensor(2.0));
  EXPECT_THROW(nn::utils::get_total_norm({full({1}, NAN)}, 2.0, true), ArgumentError);
  EXPECT_THROW(nn::utils::get_total_norm(both, 0), ArgumentError);
  const Variable wide =
      nn::utils::get_total_norm({example(), tensor({1e-12}, {.dtype = f64})}, INFINITY);
  EXPECT_EQ(wide.dtype(), f64);
  EXPECT_EQ(nn::utils::get_total_norm({tensor({1 + 1e-12}, {.dtype = f64})}).item(), 1 + 1e-12);
  const Variable padded = nn::utils::rnn::pad_sequence({ones({3, 2}), ones({1, 2})});
  const auto sequences = nn::utils::rnn::unpad_sequence(padded, tensor({3, 1}));
  GUESS("[3, 2]", sequences[0].shape());
  GUESS("[1, 2]", sequences[1].shape());
  GUESS("[2, 1]", nn::unpad_sequence(ones({1, 3, 1}), {2}, true)[0].shape());
  EXPECT_THROW(nn::unpad_sequence(padded, {3, 4}), ArgumentError);
  EXPECT_THROW(nn::unpad_sequence(padded, {3}), ArgumentError);
  nn::Linear a(3, 2), b(3, 2);
  expect_close(functional_call(a, b.named_parameters(), example()), b(example()));
  expect_close(functional_call(a, b.state_dict(), example()), b(example()));
  GUESS("[[1, 2], [1, 3]]", linalg::vander(tensor({2, 3})));
  GUESS("[3, 3]", linalg::qr(ones({3, 2}), "complete").q.shape());
  EXPECT_THROW(linalg::qr(ones({3, 2}), "full"), ArgumentError);
}

TEST(FurtherMembers, DtypeAndDeviceInAnyOrder) {
  for (const Variable& x :
       {randn({2, 3}, f64, cpu), rand({2, 3}, kCPU, kFloat64), zeros({2, 3}, cpu, f64),
        ones({2, 3}, f64, cpu), empty({2, 3}, f64, cpu), full({2, 3}, 1, cpu, f64)}) {
    GUESS("float64", x.dtype());
    GUESS("[2, 3]", x.shape());
  }
  GUESS("true", randint_like(example(), 5).lt(5).all());
}

TEST(FurtherMembers, Lion) {
  // Two steps of p = (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g) by hand.
  Variable p = tensor({1.0, -2.0}).requires_grad_();
  optim::Lion lion({p}, {.lr = 0.1, .betas = {0.5, 0.25}, .weight_decay = 0.5});
  p.set_grad(tensor({3.0, -1.0}));
  lion.step();  // m = 0.75 g = [2.25, -0.75]
  expect_close(p.detach(), tensor({0.95 - 0.1, -1.9 + 0.1}));
  p.set_grad(tensor({-2.0, 2.0}));
  lion.step();  // 0.5 m + 0.5 g = [0.125, 0.625]
  expect_close(p.detach(), tensor({0.85 * 0.95 - 0.1, -1.8 * 0.95 - 0.1}));
  expect_close(Variable(lion.state_dict().at("state.0.exp_avg")), tensor({-0.9375, 1.3125}));
  EXPECT_THROW(optim::Lion({p}, {.betas = {0.9, 1.0}}), ArgumentError);
  optim::Lion by_rate(nn::Linear(2, 2), 1e-4);
  GUESS("0.0001", by_rate.lr());
}

struct Counting : IterableDataset {
  int64_t n = 0;
  std::optional<std::pair<Variable, int64_t>> next() {
    if (n == 5) return {};
    ++n;
    return std::pair{ones({2}) * double(n), n};
  }
};

TEST(FurtherMembers, Streams) {
  StreamLoader loader(Counting(), {.batch_size = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<Variable> numbers;
    for (auto& [x, n] : loader) {
      GUESS("[2]", x[0].shape());
      numbers.push_back(n);
    }
    GUESS("[1, 2], [3, 4], [5]", numbers);
  }
  int64_t batches = 0;
  for (auto& batch : StreamLoader(Counting(), {.batch_size = 2, .drop_last = true})) {
    GUESS("[2, 2]", std::get<0>(batch).shape());
    ++batches;
  }
  GUESS("2", batches);
  const auto count = [](const std::vector<std::pair<Variable, int64_t>>& items) {
    return items.size();
  };
  for (size_t size : StreamLoader(Counting(), {.batch_size = 5}, count)) GUESS("5", size);
  EXPECT_THROW(StreamLoader(Counting(), 0), ArgumentError);
}

}  // namespace
