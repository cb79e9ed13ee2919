// Errors contain the drawn sizes, the user's line and the part of the model.
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

std::string line_after(Where here, unsigned lines) {
  return "error_place_test.cpp:" + std::to_string(here.line() + lines);
}

TEST(ErrorPlace, BroadcastDrawsBothShapes) {
  const Variable a = zeros({3, 1, 5}), b = zeros({4, 2});
  const Where here = Where::current();
  const std::string text = message_of<ShapeError>([&] { a + b; });
  EXPECT_TRUE(
      text.starts_with("add: shapes do not broadcast: [3, 1, 5] and [4, 2]\n"
                       "    [3, 1, 5]\n"
                       "           ^\n"
                       "       [4, 2]\n"
                       "           ^\n"
                       "  at "))
      << text;
  EXPECT_NE(text.find(line_after(here, 1)), text.npos) << text;
}

TEST(ErrorPlace, ProductsMarkTheInnerSizes) {
  const std::string text = message_of<ShapeError>([] {
    matmul(zeros({64, 784}), zeros({512, 10}));
  });
  EXPECT_TRUE(
      text.starts_with("matmul: inner sizes differ: [64, 784] x [512, 10]\n"
                       "    input [64, 784]\n"
                       "               ^^^\n"
                       "    other [512, 10]\n"
                       "           ^^^\n"))
      << text;
  expect_error<ShapeError>(
      [] {
        cat({zeros({2, 3}), zeros({2, 4})}, 0);
      },
      {"    [2, 3]\n        ^\n    [2, 4]\n        ^"});
  expect_error<ShapeError>([] { expand(zeros({3, 2}), {4, 2}); }, {"    [3, 2]\n     ^\n"});
  expect_error<ShapeError>(
      [] {
        mse_loss(zeros({2, 3}), zeros({2, 5}));
      },
      {"    input  [2, 3]\n               ^\n    target [2, 5]\n"});
  expect_error<ShapeError>(
      [] {
        bmm(zeros({2, 3, 4}), zeros({5, 4, 3}));
      },
      {"    input [2, 3, 4]\n           ^\n"});
}

TEST(ErrorPlace, ChecksBeforeTheOpHaveTheLineToo) {
  const Variable a = zeros({2, 3}), b = zeros({2, 5});
  const auto place = [](Where here) { return line_after(here, 1); };
  Where here = Where::current();
  expect_error<ShapeError>([&] { mse_loss(a, b); }, {place(here)});
  here = Where::current();
  expect_error<ShapeError>([&] { stack({a, b}); }, {place(here)});
  here = Where::current();
  expect_error<ShapeError>([&] { bmm(a, b); }, {place(here)});
}

TEST(ErrorPlace, TheFirstLineKeepsTheGrammar) {
  try {
    zeros({2}) + zeros({3});
    FAIL();
  } catch (const Error& error) {
    const std::string message = error.message(), what = error.what();
    EXPECT_EQ(message.substr(0, message.find('\n')), "add: shapes do not broadcast: [2] and [3]");
    EXPECT_TRUE(what.starts_with(message));
    EXPECT_EQ(message.find("error_place_test"), message.npos);
    EXPECT_NE(dynamic_cast<const ShapeError*>(&error), nullptr) << "the type is kept";
  }
}

struct Block : nn::Model<Block> {
  nn::Linear fc1{{.in_features = 3, .out_features = 4}};
  nn::Linear fc2{{.in_features = 5, .out_features = 1}};  // wrong; 4 would be right
  void members(nn::Members& m) override { m("fc1", fc1)("fc2", fc2); }
  Variable forward(const Variable& x) const { return fc2(fc1(x)); }
};
struct Net : nn::Model<Net> {
  nn::Linear first{{.in_features = 3, .out_features = 3}};
  Block block;
  std::vector<Block> more = std::vector<Block>(2);
  void members(nn::Members& m) override { m("first", first)("block", block)("more", more); }
  Variable forward(const Variable& x) const { return block(first(x)); }
};

TEST(ErrorPlace, TheLayersPath) {
  Net net;
  expect_error<ShapeError>(
      [&] {
        net(zeros({2, 3}));
      },
      {"linear: inner sizes differ", "    weight [1, 5]\n", ", in Net.block.fc2"});
  expect_error<ShapeError>([&] { net(zeros({2, 7})); }, {", in Net.first"});
  Block& inner = net.more[1];
  expect_error<ShapeError>([&] { inner(zeros({2, 3})); }, {", in Block.fc2"});
  expect_error<ShapeError>([&] { net(zeros({2, 3})); }, {", in Net.block.fc2"});
  expect_error<ShapeError>(
      [&] {
        linear(zeros({2, 3}), zeros({2, 2}), {});
      },
      {"error_place_test.cpp"});
  const std::string outside = message_of<ShapeError>([] { zeros({2}) + zeros({3}); });
  EXPECT_EQ(outside.find(", in "), outside.npos) << outside;
}

TEST(ErrorPlace, APartSharedByTwoModelsIsNamedByEach) {
  nn::Linear shared({.in_features = 3, .out_features = 2});
  nn::Sequential a({shared, nn::ReLU()}), b({nn::ReLU(), shared});
  const Variable wrong = zeros({1, 5});
  for (int round = 0; round < 2; ++round) {
    expect_error<ShapeError>([&] { a(wrong); }, {", in Sequential.0"});
    expect_error<ShapeError>([&] { b(wrong); }, {", in Sequential.1"});
  }
  a.push_back(nn::Linear({.in_features = 9, .out_features = 1}));
  expect_error<ShapeError>([&] { a(zeros({1, 3})); }, {", in Sequential.2"});
}

TEST(ErrorPlace, APartThatWasNotDeclaredIsCalledByItsKind) {
  struct Loose : nn::Model<Loose> {
    void members(nn::Members&) override {}
    Variable forward(const Variable& x) const {
      nn::Linear layer({.in_features = 3, .out_features = 2});
      return layer(x);
    }
  } net;
  expect_error<ShapeError>([&] { net(zeros({1, 5})); }, {", in Loose.Linear"});
}

TEST(ErrorPlace, ChecksBeforeTheOpHaveTheModulesLine) {
  nn::Conv2d conv({.in_channels = 3, .out_channels = 2, .kernel_size = 3});
  const Where here = Where::current();
  const auto run = [&] { conv(zeros({1, 4, 8, 8})); };
  expect_error<ShapeError>(run, {"channels do not fit", "    input  [1, 4, 8, 8]\n",
                                 line_after(here, 1), ", in Conv2d"});
}

TEST(ErrorPlace, ModulesOfSeveralInputs) {
  nn::MultiheadAttention attention({.embed_dim = 4, .num_heads = 2});
  expect_error<Error>(
      [&] {
        attention(zeros({2, 1, 5}), zeros({2, 1, 5}), zeros({2, 1, 5}));
      },
      {"in MultiheadAttention"});
}

TEST(ErrorPlace, VersionAndFreedGraphsNameTheLine) {
  const Variable x = leaf({1, 2});
  const Where here = Where::current();
  Variable y = exp(x);
  const Variable total = sum(y);
  y += 1.0;
  expect_error<AutogradError>(
      [&] { total.backward({.retain_graph = true}); },
      {"exp: a value saved for backward was changed in place (1 write since); clone() it first",
       "in the backward of exp, recorded at", line_after(here, 1)});
}

TEST(ErrorPlace, MessagesNameTheRemedy) {
  Variable x = leaf({1, 2});
  expect_error<AutogradError>("NoGrad allows this", [&] { x += 1.0; });
  expect_error<AutogradError>("by mean()", [&] { exp(x).backward(); });
  const NoGrad off;
  expect_error<AutogradError>("without recording (NoGrad)", [&] { sum(x).backward(); });
  expect_error<DTypeError>("float64, float32; x.to(dtype) converts", [&] {
    linear(zeros({2, 3}, {.dtype = f64}), zeros({4, 3}));
  });
}

TEST(ErrorPlace, ErrorsOfHooksAndRulesKeepTheirPlace) {
  const Variable x = leaf({1, 2}), y = exp(x);
  y.register_hook([](const Variable& dy) { return dy + zeros({5}, {.dtype = f64}); });
  expect_error<ShapeError>([&] { sum(y).backward(); }, {"add", "in the backward of exp"});
}

}  // namespace
}  // namespace tapegrad::testing
