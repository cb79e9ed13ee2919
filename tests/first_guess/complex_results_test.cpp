// First guesses about complex numbers that stay complex, gradients that are zero instead of
// missing, parts of results by number, options behind positions. Numbers are PyTorch's.
#include <vector>

#include "tests/first_guess/guess.h"

using namespace tapegrad;
using guesses::expect_close;
using guesses::message_of;
using guesses::text;

namespace {

TEST(ComplexResults, ComplexNumbersStayComplex) {
  const Variable x = tensor({{1.0, 2.0, 3.0, 4.0}, {4.0, 3.0, 2.0, 1.0}});
  auto z = fft::rfft(x);
  expect_close(z[0].abs(), tensor({10.0, 2.8284271, 2.0}));
  expect_close(z.sum().abs(), tensor(20.0));
  expect_close(z.mean(0).abs(), tensor({10.0, 0.0, 0.0}));
  expect_close(z.mean(-1).imag(), tensor({2 / 3.0, -2 / 3.0}));
  expect_close(z.index({"...", Slice(1, None)}).abs(),
               tensor({{2.8284271, 2.0}, {2.8284271, 2.0}}));
  expect_close(z.slice(-1, 1).abs(), z.narrow(-1, 1, 2).abs());
  expect_close(z.square().abs(), tensor({{100.0, 8.0, 4.0}, {100.0, 8.0, 4.0}}));
  expect_close(z.transpose(0, 1).contiguous().abs(), z.abs().t());
  expect_close(z.permute({1, 0}).flatten().abs(), z.abs().t().flatten());
  expect_close(z.reshape({-1}).unsqueeze(0).abs(), z.abs().reshape({1, 6}));
  expect_close(stft(ones({16}), 4, {.hop_length = 2})[1].abs(),
               stft(ones({16}), 4, {.hop_length = 2}).abs()[1]);
  auto y = z.clone();
  y.mul_(z);
  expect_close(y.abs(), tensor({{100.0, 8.0, 4.0}, {100.0, 8.0, 4.0}}));
  y = z.clone().detach();
  y.add_(1);
  expect_close(y.imag(), tensor({{0.0, 2.0, 0.0}, {0.0, -2.0, 0.0}}));
  y = z.clone();
  y[0] = 0.0;
  expect_close(y.abs(), tensor({{0.0, 0.0, 0.0}, {10.0, 2.8284271, 2.0}}));
  y[0] = z[1];
  expect_close(y.abs()[0], z.abs()[1]);
  EXPECT_THROW(z.select(2, 0), IndexError);  // its numbers have two dimensions
}

// An optimizer skips a parameter without a gradient, and decays one whose gradient is 0.
TEST(ComplexResults, ZeroGradientsAreDefined) {
  Variable w = tensor({1.0, 2.0}).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    w.round().sum().backward();
    optimizer.step();
  }
  expect_close(w, tensor({0.73138, 1.46276}));
  const auto zero_of = [](auto f) {
    Variable x = tensor({0.5, -1.5}).requires_grad_();
    f(x).sum().backward();
    GUESS("[0, 0]", x.grad());
    GUESS("[0, 0]", autograd::grad({f(x).sum()}, {x})[0]);
  };
  zero_of([](const Variable& x) { return floor(x); });
  zero_of([](const Variable& x) { return ceil(x) + trunc(x) + sign(x); });
  zero_of([](const Variable& x) { return x.pow(0); });
}

TEST(ComplexResults, PartsOfResultsByNumber) {
  const Variable m = tensor({{2.0, 1.0}, {1.0, 3.0}});
  expect_close(linalg::slogdet(m)[1], tensor(1.609438));
  expect_close(linalg::svd(m)[1], linalg::svd(m).s);
  expect_close(linalg::eigh(m)[0], linalg::eigh(m).eigenvalues);
  expect_close(linalg::qr(m)[1], linalg::qr(m).r);
  expect_close(var_mean(m, 0)[1], tensor({1.5, 2.0}));
  EXPECT_THROW(linalg::svd(m)[3], IndexError);
  const auto& largest = max(m, 1)[0];  // a value, not a reference into a destroyed object
  const auto& sizes = (m * 2).sizes();
  const auto& output = nn::LSTM(2, 3)(zeros({4, 1, 2}))[0];
  GUESS("[2, 3]", largest);
  EXPECT_EQ(sizes, (Shape{2, 2}));
  EXPECT_EQ(output.shape(), (Shape{4, 1, 3}));
}

TEST(ComplexResults, OptionsBehindPositions) {
  const auto rate_after_three = [](auto make) {
    optim::SGD optimizer({ones({1}).requires_grad_()}, 0.1);
    auto scheduler = make(optimizer);
    for (int i = 0; i < 3; ++i) optimizer.step(), scheduler.step();
    return double(optimizer.param_groups()[0].lr);
  };
  using optim::SGD;
  EXPECT_NEAR(rate_after_three([](SGD& o) { return optim::StepLR(o, 2, {.gamma = 0.5}); }), 0.05,
              1e-12);
  EXPECT_NEAR(
      rate_after_three([](SGD& o) { return optim::CosineAnnealingLR(o, 4, {.eta_min = 0.02}); }),
      0.0317157287525381, 1e-12);
  EXPECT_NEAR(rate_after_three([](SGD& o) { return optim::PolynomialLR(o, 4, {.power = 2}); }),
              0.00625, 1e-12);
  EXPECT_NEAR(rate_after_three([](SGD& o) {
                return optim::MultiStepLR(o, {1, 2}, {.gamma = 0.5});
              }),
              0.025, 1e-12);
  EXPECT_NEAR(rate_after_three([](SGD& o) { return optim::ExponentialLR(o, {.gamma = 0.5}); }),
              0.0125, 1e-12);

  const Variable x = tensor({{1.0, 2.0, 3.0, 4.0}, {5.0, 6.0, 7.0, 8.0}});
  GUESS("[[1.75, 5.75], [2.5, 6.5]]", quantile(x, {0.25, 0.5}, 1));
  GUESS("[1, 2, 3]", bucketize(tensor({1.0, 2.0, 3.0}), tensor({1.0, 2.0, 3.0}), {.right = true}));
  GUESS("[4, 12]", tensor({1, 3}) << 2);
  GUESS("[-4, 4]", tensor({-8, 9}) >> 1);
  GUESS("[1.23, 2.35]", tensor({1.2345, 2.3456}).round(2));
  expect_close(addcmul(x, x, x, {.value = 0.5}), x + 0.5 * x * x);
  EXPECT_EQ(dropout(x, {.p = 0.0}).shape(), x.shape());
  expect_close(tapegrad::std(x, 0, false), tensor({2.0, 2.0, 2.0, 2.0}));
  expect_close(linalg::norm(x, "fro"), x.norm());
  GUESS("float32", scalar_tensor(2).dtype());
  expect_close(linalg::cholesky(eye(2) * 4, {.upper = true}), eye(2) * 2);
  GUESS("[0, 0, 5]", index_fill(zeros({3}), 0, tensor({-1}), 5.0));
  EXPECT_EQ(split_with_sizes(x, {1, 3}, 1)[1].shape(), (Shape{2, 3}));
  EXPECT_EQ(fft::rfft(x, {}, 0).shape(), (Shape{2, 4, 2}));

  const Variable image = arange(4).to(f32).reshape({1, 1, 2, 2});
  GUESS("[0, 0, 1, 1]", interpolate(image, {3, 4})[0][0][1]);
  EXPECT_EQ(nn::Upsample({9, 7})(image).shape(), (Shape{1, 1, 9, 7}));
  EXPECT_EQ(nn::Upsample(9)(image).shape(), (Shape{1, 1, 9, 9}));
  EXPECT_EQ(nn::RNN(3, 4, {.num_layers = 2, .nonlinearity = "relu", .batch_first = true})(
                zeros({1, 5, 3}))[0]
                .shape(),
            (Shape{1, 5, 4}));
  int64_t total = 0;
  for (auto [i, row] : enumerate(x)) total += i * row.numel();
  EXPECT_EQ(total, 4);
}

TEST(ComplexResults, EmbeddingWithANorm) {
  nn::Embedding table(3, 2, {.max_norm = 1.0});
  table.weight.set_data(tensor({{3.0, 4.0}, {0.3, 0.4}, {6.0, 8.0}}));
  const Variable y = table(tensor({0, 1, 0}));
  expect_close(y, tensor({{0.6, 0.8}, {0.3, 0.4}, {0.6, 0.8}}));
  expect_close(table.weight, tensor({{0.6, 0.8}, {0.3, 0.4}, {6.0, 8.0}}));
  y.sum().backward();
  GUESS("[[2, 2], [1, 1], [0, 0]]", table.weight.grad());
  nn::Embedding taxicab(2, 2, {.max_norm = 1.0, .norm_type = 1.0});
  taxicab.weight.set_data(tensor({{3.0, -1.0}, {0.3, 0.4}}));
  expect_close(taxicab(tensor({0, 1})), tensor({{0.75, -0.25}, {0.3, 0.4}}));
}

TEST(ComplexResults, ErrorsSayWhatWasTyped) {
  const Variable x = randn({3, 2});
  EXPECT_NE(message_of([&] { x.index({tensor({-5})}); }).find("index -5"), std::string::npos);
  EXPECT_NE(message_of([&] {
              cross_entropy(x, tensor({0.0, 1.0, 1.0}));
            }).find("target.to(i64)"),
            std::string::npos);
  // The order of torch.batch_norm: statistics and parameters are exchanged.
  const Variable w = ones({2}).requires_grad_();
  EXPECT_NE(message_of([&] {
              batch_norm(x, w, w, zeros({2}), ones({2}), true);
            }).find("batch_norm(x, running_mean, running_var, weight, bias)"),
            std::string::npos);
  struct NoSave : autograd::Function<NoSave> {
    static Variable forward(autograd::Context&, const Variable& x) { return x * 2; }
    static std::vector<Variable> backward(autograd::Context& ctx, std::vector<Variable> grads) {
      return {grads[0] * ctx.saved_tensors()[0]};
    }
  };
  Variable leaf = ones({2}).requires_grad_();
  EXPECT_NE(message_of([&] { NoSave::apply(leaf).sum().backward(); }).find("saved_tensors()[0]"),
            std::string::npos);
}

}  // namespace
