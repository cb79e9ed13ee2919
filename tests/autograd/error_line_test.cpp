// Errors name the line of the user's program: of ops, members, subscripts, constructors and
// optimizers, and never a line of the library's own sources.
#include <gtest/gtest.h>

#include "tapegrad.h"

namespace tapegrad {
namespace {

/// Compares the last line of an error with "at error_line_test.cpp:LINE". The statement must throw.
#define EXPECT_LINE(...)                                                        \
  do {                                                                          \
    std::string text = "no error";                                              \
    try {                                                                       \
      __VA_ARGS__;                                                              \
    } catch (const Error& error) {                                              \
      text = error.what();                                                      \
    }                                                                           \
    const std::string line = "error_line_test.cpp:" + std::to_string(__LINE__); \
    EXPECT_NE(text.find(line), text.npos)                                       \
        << #__VA_ARGS__ << " at line " << __LINE__ << ": " << text;             \
  } while (false)

const Variable x = ones({2, 3}), whole = ones({2, 3}, {.dtype = i64});

TEST(ErrorLine, OfReductionsAndOrders) {
  EXPECT_LINE(sum(x, 5));
  EXPECT_LINE(x.sum(5));
  EXPECT_LINE(mean(x, {0, 0}));
  EXPECT_LINE(x.mean(-4));
  EXPECT_LINE(amax(x, 2));
  EXPECT_LINE(max(x, 2));
  EXPECT_LINE(x.min(7));
  EXPECT_LINE(argmax(x, 3));
  EXPECT_LINE(any(x > 0, 2));
  EXPECT_LINE(prod(x, 2));
  EXPECT_LINE(x.var({4}));
  EXPECT_LINE(logsumexp(x, 2));
  EXPECT_LINE(cumsum(x, 2));
  EXPECT_LINE(cummax(x, 2));
  EXPECT_LINE(softmax(x, 4));
  EXPECT_LINE(topk(x, 9));
  EXPECT_LINE(x.sort(3));
  EXPECT_LINE(x.argsort(3));
  EXPECT_LINE(unique(x, 3));
  EXPECT_LINE(median(x, 3));
  EXPECT_LINE(quantile(x, 1.5));
  EXPECT_LINE(sum(x, {.dim = 5}));
}

TEST(ErrorLine, OfShapes) {
  EXPECT_LINE(x[5]);
  EXPECT_LINE(x[0][7]);
  EXPECT_LINE(x[tensor({4})]);
  EXPECT_LINE(x[ones({3, 3}) > 0]);
  EXPECT_LINE(x.view({7}));
  EXPECT_LINE(x.permute({0, 0}));
  EXPECT_LINE(x.squeeze(4));
  EXPECT_LINE(x.unsqueeze(4));
  EXPECT_LINE(flip(x, {3}));
  EXPECT_LINE(x.diagonal(0, 0, 0));
  EXPECT_LINE(cat({x, ones({1, 4})}));
  EXPECT_LINE(pad(x, {1, 2, 3}));
  EXPECT_LINE(tile(x, {-1}));
  EXPECT_LINE(x.expand({5, 5}));
  EXPECT_LINE(gather(x, 1, tensor({{0, 9}, {0, 0}})));
  EXPECT_LINE(x.scatter_add(4, tensor({{0}}), x));
  EXPECT_LINE(index_select(x, 0, tensor({9})));
  EXPECT_LINE(take(x, tensor({9})));
  Variable y = ones({2, 3});
  EXPECT_LINE(y[y > 0] = ones({4}));
  EXPECT_LINE(y.index_put_({tensor({9})}, 1.0));
}

TEST(ErrorLine, OfWholeNumbersAndInPlace) {
  EXPECT_LINE(relu(whole));
  EXPECT_LINE(gelu(whole));
  EXPECT_LINE(silu(whole));
  Variable y = ones({2}, {.dtype = i64}), z = ones({2});
  EXPECT_LINE(y += 1.5);
  EXPECT_LINE(y /= 2);
  EXPECT_LINE(exp_(y));
  EXPECT_LINE(y.uniform_());
  EXPECT_LINE(normal_(z, 0, -1));
  EXPECT_LINE(z.exponential_(-1));
}

TEST(ErrorLine, OfImages) {
  const Variable image = ones({1, 1, 2, 2});
  EXPECT_LINE(max_pool2d(image, 5));
  EXPECT_LINE(avg_pool2d(image, {.kernel_size = 5}));
  EXPECT_LINE(conv2d(image, ones({1, 1, 3, 3})));
  EXPECT_LINE(conv2d(image, ones({1, 2, 1, 1}), {.padding = 1}));
  EXPECT_LINE(conv_transpose2d(image, ones({2, 1, 1, 1})));
  EXPECT_LINE(interpolate(image, {.scale_factor = -1.0}));
  EXPECT_LINE(unfold(image, 3));
}

TEST(ErrorLine, OfCreation) {
  EXPECT_LINE(arange(0, 10, -1));
  EXPECT_LINE(linspace(0, 1, -5));
  EXPECT_LINE(logspace(0, 1, -5));
  EXPECT_LINE(eye(-1));
  EXPECT_LINE(randint(5, 2, {3}));
  EXPECT_LINE(randperm(-1));
  EXPECT_LINE(randn({2}, {.dtype = i64}));
  EXPECT_LINE(full({2}, 300, {.dtype = u8}));
  EXPECT_LINE(tensor({{1, 2}, {3}}));
  EXPECT_LINE(tensor({1.0, 2.0}, Shape{3}));
  EXPECT_LINE(hann_window(-1));
  EXPECT_LINE(addmm(x, ones({2, 2}), ones({2, 4})));
  EXPECT_LINE(linalg::vector_norm(x, 2, {5}));
}

TEST(ErrorLine, OfConstructors) {
  EXPECT_LINE(nn::Linear(-3, 2));
  EXPECT_LINE(nn::Linear({.in_features = 3}));
  EXPECT_LINE(nn::Linear(3, -1, {.bias = false}));
  EXPECT_LINE(nn::Conv2d(3, 8, 3, {.groups = 2}));
  EXPECT_LINE(nn::Conv2d(3, 8, 3, 1, 0, 1, 2));
  EXPECT_LINE(nn::Conv1d({.in_channels = 2, .out_channels = 2}));
  EXPECT_LINE(nn::Conv2d(3, 8, 3, 2, "same"));
  EXPECT_LINE(nn::ConvTranspose2d(3, 8, 0));
  EXPECT_LINE(nn::BatchNorm2d(-3, {.eps = 1e-3}));
  EXPECT_LINE(nn::Embedding(10, 4, 11));
  EXPECT_LINE(nn::EmbeddingBag(0, 4));
  EXPECT_LINE(nn::Dropout(1.5));
  EXPECT_LINE(nn::Dropout({.p = -1}));
  EXPECT_LINE(nn::LSTM(0, 4));
  EXPECT_LINE(nn::GRU(3, 4, {.num_layers = -1}));
  EXPECT_LINE(nn::MultiheadAttention(10, 3));
  EXPECT_LINE(nn::MultiheadAttention(10, 3, {.dropout = 0.5}));
  EXPECT_LINE(nn::TransformerEncoderLayer(10, 3, {.dropout = 0.0}));
}

TEST(ErrorLine, OfOptimizers) {
  nn::Linear net(2, 2);
  EXPECT_LINE(optim::SGD(net, -0.1));
  EXPECT_LINE(optim::SGD(net.parameters(), {.lr = 0.1, .momentum = -1}));
  EXPECT_LINE(optim::SGD(std::vector<Variable>(), 0.1));
  EXPECT_LINE(optim::Adam(net, {.lr = 1e-3, .betas = {1.5, 0.9}}));
  EXPECT_LINE(optim::AdamW({net.weight}, NAN));
  EXPECT_LINE(optim::RMSprop(net, {.alpha = 2}));
  EXPECT_LINE(optim::NAdam(net, {.momentum_decay = -1}));
  EXPECT_LINE(optim::Rprop(net, {.step_sizes = {2, 1}}));
}

struct Twice : nn::Model<Twice> {
  nn::MultiheadAttention attention{4, 2};
  void members(nn::Members& m) override { m("attention", attention); }
  Variable forward(const Variable& y) const { return attention(y, y, y); }
};

// The ops of a module of the library are called by the library's sources; the error names the line
// that calls the module.
TEST(ErrorLine, OfModulesOfTheLibrary) {
  const nn::TransformerEncoderLayer layer(4, 2);
  EXPECT_LINE(layer(ones({2, 3, 5})));
  EXPECT_LINE(layer(ones({2, 3, 4}, {.dtype = i64})));
  try {
    layer.forward(ones({2, 3, 4}, {.dtype = i64}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("attention.cpp"), std::string::npos) << error.what();
  }
  try {
    Twice()(ones({2, 3, 4}, {.dtype = i64}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(", in Twice.attention"), std::string::npos)
        << error.what();
    EXPECT_EQ(std::string(error.what()).find("nn/"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tapegrad
