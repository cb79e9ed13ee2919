// First guesses about functions of complex numbers, and options of members and functions by
// name.
#include <cmath>
#include <string>
#include <vector>

#include "tests/first_guess/guess.h"

using namespace tapegrad;
using guesses::expect_close;
using guesses::message_of;

namespace {

TEST(MessagesAndMembers, FunctionsOfComplexNumbers) {
  const Variable re = tensor({{1.0, -2.0}, {0.5, 3.0}}), im = tensor({{0.0, 1.0}, {-1.0, 0.25}});
  const auto z = complex(re, im), w = complex(im, re);
  expect_close(z.exp().real(), exp(re) * cos(im));
  expect_close(z.exp().imag(), exp(re) * sin(im));
  expect_close(sum(z).real(), re.sum());
  expect_close(sum(z, -1).imag(), im.sum(-1));
  expect_close(sum(z, {0, 1}).imag(), im.sum());
  expect_close(mean(z, 0).real(), re.mean(0));
  expect_close(z.square().real(), re * re - im * im);
  expect_close(abs(z), hypot(re, im));
  expect_close(cat({z, w}, -1).abs(), cat({z.abs(), w.abs()}, -1));
  expect_close(stack({z, w}, -1).imag(), stack({im, re}, -1));
  expect_close(view_as_complex(z.view_as_real()).square().imag(), 2 * re * im);
  Variable x = re.clone().requires_grad_();
  complex(x, im).exp().abs().sum().backward();
  expect_close(x.grad(), exp(re));
  EXPECT_THROW(cat({z, w}, 2), IndexError);  // the numbers have two dimensions
}

TEST(MessagesAndMembers, OptionsByName) {
  const Variable x = tensor({{1.0, 2.0, 4.0}, {-1.0, 0.0, 3.0}});
  expect_close(x.var({.dim = {0}, .correction = 0}), tensor({1.0, 1.0, 0.25}));
  expect_close(var(x, {.dim = {1}, .keepdim = true}), x.var(1).unsqueeze(1));
  expect_close(x.std({.dim = {0}, .unbiased = false}), tensor({1.0, 1.0, 0.5}));
  expect_close(x.clamp({.min = 0}), relu(x));
  expect_close(x.clamp({.max = 2}), minimum(x, 2));
  expect_close(x.add(x, {.alpha = 0.5}), 1.5 * x);
  expect_close(x.sub(1, {.alpha = 2}), x - 2);
  const Variable to = tensor({{0, 0, 1}}), from = tensor({{10.0, 20.0, 30.0}});
  expect_close(x.scatter_reduce(0, to, from, "mean", {.include_self = false}),
               tensor({{10.0, 20.0, 4.0}, {-1.0, 0.0, 30.0}}));
  EXPECT_EQ(linalg::svd(ones({4, 2}), {.full_matrices = false}).u.shape(), (Shape{4, 2}));
  EXPECT_EQ(linalg::svd(ones({4, 2}), {.full_matrices = true}).u.shape(), (Shape{4, 4}));
  RandomGenerator generator(3), same(3);
  expect_close(randn({3}, {.generator = generator}), randn({3}, same));
  expect_close(rand({3}, {.generator = generator}), rand({3}, same));
  const Variable w = ones({3}, {.requires_grad = true});
  (w / 0).sum().backward();
  EXPECT_THROW(nn::utils::clip_grad_norm_({w}, 1.0, {.error_if_nonfinite = true}), ArgumentError);
  EXPECT_EQ(nn::utils::rnn::pack_sequence({ones({3, 2}), ones({1, 2})}).lengths.size(), 2u);
  expect_close(x[std::vector<int64_t>{1, 0, 1}], stack({x[1], x[0], x[1]}));
  optim::SGD optimizer({w}, {.lr = 0.1});
  optim::CyclicLR scheduler(optimizer, 0.01, 0.11, {.step_size_up = 5, .cycle_momentum = false});
  scheduler.step();
  EXPECT_NEAR(optimizer.lr(), 0.03, 1e-12);
}

TEST(MessagesAndMembers, ExtremesOfBools) {
  const Variable x = tensor({{true, false}, {false, false}});
  EXPECT_EQ(x.max().dtype(), boolean);
  EXPECT_EQ(x.max().item(), 1.0);
  EXPECT_EQ(x.min().item(), 0.0);
  EXPECT_EQ(amax(x, {1}).to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(amin(x, {1}, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(x.prod().dtype(), i64);
  EXPECT_EQ(prod(x, 1).to_vector<int64_t>(), (std::vector<int64_t>{0, 0}));
}

/// A language model whose output layer has the weight of the embedding.
struct Tied : nn::Model<Tied> {
  nn::Embedding embedding{5, 3};
  nn::Linear head{3, 5, false};
  Tied() { head.weight = embedding.weight; }
  void members(nn::Members& m) override { m("embedding", embedding)("head", head); }
  Variable forward(const Variable& x) const { return head(embedding(x)); }
};

TEST(MessagesAndMembers, TiedWeights) {
  Tied net;
  EXPECT_TRUE(net.get_parameter("head.weight").is_same(net.embedding.weight));
  TensorMap state = net.state_dict();
  state["head.weight"] = state["embedding.weight"];  // as PyTorch saves it
  net.load_state_dict(state);
  state["head.weight"] = Tensor::full({5, 3}, 2.0, f32);
  EXPECT_NE(message_of([&] {
              net.load_state_dict(state);
            }).find("head.weight and embedding.weight are one parameter, given two values"),
            std::string::npos);
}

TEST(MessagesAndMembers, MessagesShowWhatWasGiven) {
  const auto attention = [](const Variable& mask) {
    const Variable x = ones({4, 5, 6});
    nn::MultiheadAttention layer(6, 2, {.batch_first = true});
    layer(x, x, x, {.key_padding_mask = mask});
  };
  EXPECT_NE(message_of([&] {
              attention(zeros({5, 4}, {.dtype = boolean}));
            }).find("key_padding_mask is [batch, keys] = [4, 5], not [5, 4]"),
            std::string::npos);
  EXPECT_NE(message_of([] { one_hot(tensor({-1})); }).find("the class id -1 is negative"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              linalg::svd(full({2, 2}, NAN));
            }).find("are not finite"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              ones({6}).reshape({4, -1});
            }).find("[6] to [4, -1]"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              nn::LSTM(3, 4)(ones({2, 2, 5}));
            }).find("5 features"),
            std::string::npos);
  EXPECT_NE(message_of([] { nn::Conv2d(1, 2, 0); }).find("missing, or 0"), std::string::npos);
}

}  // namespace
