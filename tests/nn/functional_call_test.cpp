#include "nn/functional_call.h"
#include "nn/function_transforms.h"

#include <gtest/gtest.h>

#include "nn/activation.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::nn {
namespace {

void expect_near(const Variable& a, const Variable& b) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-12) << i;
}

Sequential model() {
  manual_seed(5);
  Sequential net(Linear(3, 4), Tanh(), Linear(4, 2));
  net.to(f64);
  return net;
}

TEST(FunctionalCall, RunsWithOtherParameters) {
  Sequential net = model();
  const Variable x = randn({5, 3}, {.dtype = f64}), before = net(x);
  VariableMap weights = parameter_map(net);
  EXPECT_EQ(weights.size(), 4u);
  EXPECT_EQ(functional_call(net, {}, x).to_vector<double>(), before.to_vector<double>());

  // A step of gradient descent through which gradients flow, as in meta-learning.
  const Variable w = weights.at("2.weight");
  const Variable rate = full({}, 0.1, {.dtype = f64, .requires_grad = true});
  const Variable gradient = grad(mean(square(net(x))), w, {.create_graph = true});
  const Variable stepped = w - rate * gradient;
  const Variable y = functional_call(net, {{"2.weight", stepped}}, x);
  Sequential moved = net.clone();
  moved[2].as<Linear>().weight.rebind(stepped.value());
  expect_near(y, moved(x));
  EXPECT_TRUE(grad(sum(y), rate).defined());
  EXPECT_EQ(net(x).to_vector<double>(), before.to_vector<double>());

  EXPECT_THROW(functional_call(net, {{"3.weight", w}}, x), ArgumentError);
  EXPECT_THROW(functional_call(net, {{"0.weight", w}}, x), ArgumentError);
  EXPECT_THROW(functional_call(net, {{"0.weight", w.detach()}}, ones({2, 9})), ArgumentError);
  EXPECT_EQ(net(x).to_vector<double>(), before.to_vector<double>());
}

struct Tied : Model<Tied> {
  Embedding embedding{5, 3};
  Linear head{3, 5, false};
  Tied() { head.weight = embedding.weight; }
  void members(Members& m) override { m("embedding", embedding)("head", head); }
  Variable forward(const Variable& ids) const { return head(embedding(ids)); }
};

TEST(FunctionalCall, ReplacesTiedWeightsTogether) {
  Tied tied;
  const Variable ids = tensor({1, 4}, {.dtype = i64}), zero = zeros({5, 3});
  EXPECT_EQ(sum(functional_call(tied, {{"embedding.weight", zero}}, ids)).item(), 0);
  EXPECT_TRUE(tied.head.weight.is_same(tied.embedding.weight));
  EXPECT_FALSE(tied.head.weight.is_same(zero));
  // One value under both names, but not two values.
  const VariableMap both = {{"embedding.weight", zero}, {"head.weight", zero}};
  EXPECT_EQ(sum(functional_call(tied, both, ids)).item(), 0);
  const VariableMap two = {{"embedding.weight", zero}, {"head.weight", zero + 1}};
  const Variable before = tied.head.weight;
  EXPECT_THROW(functional_call(tied, two, ids), ArgumentError);
  EXPECT_TRUE(tied.embedding.weight.is_same(before));
}

TEST(ParametersToVector, ReadsBackAsManyNumbers) {
  const Linear from(2, 3), to(2, 3);
  const Variable vector = utils::parameters_to_vector(from.parameters());
  EXPECT_EQ(vector.shape(), Shape{9});
  utils::vector_to_parameters(vector, to.parameters());
  EXPECT_TRUE(to.weight.equal(from.weight));
  EXPECT_TRUE(to.bias.equal(from.bias));
  EXPECT_THROW(utils::vector_to_parameters(ones({8}), to.parameters()), ShapeError);
  EXPECT_THROW(utils::vector_to_parameters(ones({10}), to.parameters()), ShapeError);
  EXPECT_TRUE(to.weight.equal(from.weight)) << "an error changes nothing";
}

TEST(PerSampleGradients, AreThoseOfEachExample) {
  Sequential net = model();
  const Variable x = randn({4, 3}, {.dtype = f64}), target = randn({4, 2}, {.dtype = f64});
  const auto loss = [](const Variable& y, const Variable& t) { return mse_loss(y, t); };
  const VariableMap gradients = per_sample_gradients(net, loss, x, target);
  EXPECT_EQ(gradients.at("0.weight").shape(), (Shape{4, 4, 3}));
  mse_loss(net(x), target).backward();  // the mean of the losses of the examples
  for (const auto& [name, parameter] : net.named_parameters())
    expect_near(mean(gradients.at(name), {0}), parameter.grad());
}

TEST(Vmap, StacksResults) {
  const Variable x = randn({3, 2}), y = randn({3, 2});
  const auto dot = [](const Variable& a, const Variable& b) { return sum(a * b); };
  expect_near(vmap(dot, x, y), sum(x * y, {1}));
  EXPECT_THROW(vmap(dot, x, randn({2, 2})), ShapeError);
}

TEST(Grad, OfAConstantIsZero) {
  const Variable x = tensor({1.0, 2.0});
  const auto linear = [](const Variable& at) { return sum(at * 2.0); };
  expect_near(func::grad([](const Variable& at) { return sum(at.detach()); })(x), zeros({2}));
  expect_near(func::grad(func::grad(linear))(x[0]), zeros({}));
}

TEST(Vmap, TakesALambdaWithCaptures) {
  const Variable x = randn({3, 2}), a = randn({2});
  const auto f = [a](const Variable& row) { return sum(a * row * row); };
  expect_near(func::vmap(f)(x), sum(a * x * x, {1}));
  expect_near(func::vmap(func::grad(f))(x), 2.0 * a * x);
}

TEST(Vmap, TakesTheOptionsOfPyTorch) {
  const Variable x = randn({4, 3}), a = randn({4, 2});
  const auto f = [](const Variable& column, const Variable& b) { return matmul(column, b); };
  auto rows = func::vmap(f, {.in_dims = {1, None}, .out_dims = 1});
  expect_near(rows(x, a), matmul(a.t(), x));
}

}  // namespace
}  // namespace tapegrad::nn
