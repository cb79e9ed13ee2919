// vjp, jvp, jacobian, hessian and hvp, compared with closed forms and with values of
// torch.autograd.functional of PyTorch 1.13 in float64.
#include "core/autograd/derivatives.h"

#include <cmath>

#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

void expect_near(const Variable& x, const Shape& shape, const Values& wanted) {
  EXPECT_EQ(x.shape(), shape);
  const Values got = values(x);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 1e-12 * std::max(1.0, std::abs(wanted[i]))) << "element " << i;
}

// The function of the recorded values: two inputs, two outputs.
const Variable kX = make({0.5, -1.0, 2.0});
const Variable kY = make({1.0, 2.0, -0.5, 0.25, -1.5, 3.0}, {2, 3});
const Variable kAlongX = make({1.0, 0.5, -1.0});
const Variable kAlongY = make({0.1, 0.2, 0.3, -0.3, 0.0, 0.7}, {2, 3});

std::pair<Variable, Variable> two(const Variable& x, const Variable& y) {
  return {tanh(matmul(y, x)), sum(x * x) * select(y, 0, 0)};
}
Variable one(const Variable& x, const Variable& y) {
  return sum(exp(sin(x) * select(y, 0, 0))) + pow(dot(select(y, 0, 1), x), 3.0);
}

TEST(Functional, VjpAsTorch) {
  const auto [outputs, products] = vjp(two, {kX, kY}, {make({1.0, -2.0}), make({0.5, 1.0, -1.0})});
  ASSERT_EQ(outputs.size(), 2u);
  expect_near(outputs[0], {2}, {-0.98661429815143031, 0.99999952352618005});
  expect_near(outputs[1], {3}, {5.25, 10.5, -2.625});
  expect_near(products[0], {3}, {3.0265917502094539, -5.9468126877914402, 11.986698168973943});
  expect_near(products[1], {2, 3},
              {2.6382961133415801, 5.2234077733168398, -5.1968155466336787, -9.5294741288219493e-07,
               1.9058948257643899e-06, -3.8117896515287797e-06});
  EXPECT_FALSE(outputs[0].requires_grad() || products[0].requires_grad());
}

TEST(Functional, JvpAsTorch) {
  const auto [outputs, products] = jvp(two, {kX, kY}, {kAlongX, kAlongY});
  ASSERT_EQ(products.size(), 2u);
  expect_near(products[0], {2}, {0.078447068715323684, -2.1441316789849387e-06});
  expect_near(products[1], {3}, {-3.4750000000000001, -6.9500000000000002, 3.5750000000000002});
}

TEST(Functional, JacobianAsTorch) {
  const auto J = jacobian(two, std::vector{kX, kY});
  ASSERT_EQ(J.size(), 2u);
  expect_near(J[0][0], {2, 3},
              {0.02659222668316057, 0.05318445336632114, -0.013296113341580285,
               2.3823685322054873e-07, -1.4294211193232924e-06, 2.8588422386465849e-06});
  expect_near(J[0][1], {2, 2, 3},
              {0.013296113341580285, -0.02659222668316057, 0.05318445336632114, 0, 0, 0, 0, 0, 0,
               4.7647370644109746e-07, -9.5294741288219493e-07, 1.9058948257643899e-06});
  expect_near(J[1][0], {3, 3}, {1, -2, 4, 2, -4, 8, -0.5, 1, -2});
  expect_near(J[1][1], {3, 2, 3}, {5.25, 0, 0, 0, 0, 0, 0, 5.25, 0, 0, 0, 0, 0, 0, 5.25, 0, 0, 0});
}

TEST(Functional, HessianAsTorch) {
  const auto H = hessian(one, std::vector{kX, kY});
  expect_near(H[0][0], {3, 3},
              {3.3289393992657343, -17.15625, 34.3125, -17.15625, 103.46722592504875, -205.875,
               34.3125, -205.875, 412.06603008760499});
  expect_near(
      H[0][1], {3, 2, 3},
      {2.0969735969973646, 0, 0, 180.140625, -11.4375, 22.875, 0, -0.068569062702762987, 0,
       -34.3125, 243.046875, -137.25, 0, 0, -0.14403615257616481, 68.625, -137.25, 448.921875});
  expect_near(
      H[1][0], {2, 3, 3},
      {2.0969735969973651, 0, 0, 0, -0.068569062702763001, 0, 0, 0, -0.14403615257616481,
       180.140625, -34.3125, 68.625, -11.4375, 243.046875, -137.25, 22.875, -137.25, 448.921875});
  EXPECT_EQ(H[1][1].shape(), (Shape{2, 3, 2, 3}));
  const Values last = values(H[1][1]);
  EXPECT_NEAR(last[0], 0.37123951408001998, 1e-12);
  EXPECT_NEAR(last[21], 11.4375, 1e-9);
  EXPECT_NEAR(last[35], 183, 1e-9);
}

TEST(Functional, HvpAsTorch) {
  const auto [outputs, products] = hvp(one, {kX, kY}, {kAlongX, kAlongY});
  expect_near(outputs[0], {}, {445.75790927682743});
  expect_near(products[0], {3}, {-77.381675741034513, 154.65739914998383, -187.07642843337783});
  expect_near(products[1], {2, 3},
              {2.134097548405367, -0.0079687738477223491, 0.30146407042492618, 122.953125,
               190.1484375, -380.296875});
}

TEST(Functional, ClosedFormsOfOneVariable) {
  const Variable x = make({0.3, -0.7});
  const auto wave = [](const Variable& x) { return sin(x); };
  const auto [y, dx] = vjp(wave, x, make({2.0, 3.0}));
  expect_near(y, {2}, {std::sin(0.3), std::sin(-0.7)});
  expect_near(dx, {2}, {2 * std::cos(0.3), 3 * std::cos(-0.7)});
  expect_near(jvp(wave, x, make({2.0, 3.0})).product, {2}, {2 * std::cos(0.3), 3 * std::cos(0.7)});
  expect_near(jacobian(wave, x), {2, 2}, {std::cos(0.3), 0, 0, std::cos(0.7)});
  const auto cubes = [](const Variable& x) { return sum(x * x * x); };
  expect_near(hessian(cubes, x), {2, 2}, {6 * 0.3, 0, 0, 6 * -0.7});
  expect_near(hvp(cubes, x, make({1.0, 2.0})).product, {2}, {1.8, -8.4});
  expect_near(vjp(cubes, x).product, {2}, {3 * 0.09, 3 * 0.49});  // v is optional

  // d softmax_i / d x_j = s_i (delta_ij - s_j)
  const Variable s = softmax(x, 0);
  const double a = values(s)[0], b = values(s)[1];
  expect_near(jacobian([](const Variable& x) { return softmax(x, 0); }, x), {2, 2},
              {a * (1 - a), -a * b, -b * a, b * (1 - b)});
}

TEST(Functional, FunctionsInEveryForm) {
  const Variable a = make({2.0}), b = make({3.0});
  const auto value = [](const std::vector<std::vector<Variable>>& J) { return J[0][1].item(); };
  using List = std::vector<Variable>;
  EXPECT_EQ(value(jacobian([](const Variable& x, const Variable& y) { return x * y; }, List{a, b})),
            2);
  EXPECT_EQ(value(jacobian([](const List& in) { return in[0] * in[1]; }, List{a, b})), 2);
  EXPECT_EQ(value(jacobian([](const auto& in) { return List{in[0] * in[1]}; }, List{a, b})), 2);
  EXPECT_EQ(value(jacobian([](Variable x, Variable y) { return std::array{x * y}; }, List{a, b})),
            2);
  const auto three = [](const Variable& x, const Variable& y, const Variable& z) {
    return std::tuple(x * y, z * z, x + z);
  };
  EXPECT_EQ(jacobian(three, List{a, b, b}).size(), 3u);
  expect_error<ArgumentError>([&] { jacobian(three, List{a, b}); }, {"2 inputs", "of 3"});
}

TEST(Functional, TheSameVariableTwiceIsTwoInputs) {
  const Variable x = leaf({3});
  const auto J =
      jacobian([](const Variable& a, const Variable& b) { return a * a * b; }, std::vector{x, x});
  EXPECT_EQ(J[0][0].item(), 18);
  EXPECT_EQ(J[0][1].item(), 9);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(jacobian([&](const Variable& a) { return a * x; }, x).item(), 3)
      << "what the function holds itself is a constant";
}

TEST(Functional, IndependentOutputsAreZeroOrAnError) {
  const Variable x = make({1.0, 2.0}), c = make({5.0, 6.0, 7.0});
  const auto constant = [&](const Variable&) { return c; };
  expect_near(jacobian(constant, x), {3, 2}, {0, 0, 0, 0, 0, 0});
  expect_near(vjp(constant, x, make({1.0, 1.0, 1.0})).product, {2}, {0, 0});
  expect_near(jvp(constant, x, x).product, {3}, {0, 0, 0});
  const auto linear = [](const Variable& x) { return sum(x); };
  expect_near(hessian(linear, x), {2, 2}, {0, 0, 0, 0});
  expect_near(hvp(linear, x, x).product, {2}, {0, 0});
  expect_error<AutogradError>([&] { jacobian(constant, x, {.strict = true}); },
                              {"jacobian", "does not depend"});
  expect_error<AutogradError>([&] { hvp(linear, x, x, {.strict = true}); }, {"hvp"});
}

TEST(Functional, EmptyInputsAndOutputs) {
  const Variable none = Variable(Tensor::empty({0, 2}, f64)), x = make({1.0, 2.0});
  const auto square = [](const Variable& x) { return x * x; };
  EXPECT_EQ(jacobian(square, none).shape(), (Shape{0, 2, 0, 2}));
  EXPECT_EQ(jacobian([&](const Variable& x) { return slice(x, 0, 0, 0); }, x).shape(),
            (Shape{0, 2}));
  EXPECT_EQ(jvp(square, none, none).product.shape(), (Shape{0, 2}));
  expect_near(jacobian([](const Variable& x) { return sum(x * x); }, make({}, {0})), {0}, {});
}

TEST(Functional, ResultsCanBeDifferentiatedAgain) {
  const Variable x = leaf({0.5, 2.0});
  const auto cubes = [](const Variable& x) { return x * x * x; };
  const Variable J = jacobian(cubes, x, {.create_graph = true});
  EXPECT_EQ(values(grad(sum(J), x)), (Values{3, 12}));  // d 3x^2 = 6x
  const Variable H =
      hessian([&](const Variable& x) { return sum(cubes(x) * x); }, x, {.create_graph = true});
  EXPECT_EQ(values(grad(sum(H), x)), (Values{12, 48}));  // d 12x^2 = 24x
  const Variable p = vjp(cubes, x, make({1.0, 1.0}), {.create_graph = true}).product;
  EXPECT_EQ(values(grad(sum(p), x)), (Values{3, 12}));
  const Variable q = jvp(cubes, x, make({1.0, 1.0}), {.create_graph = true}).product;
  EXPECT_EQ(values(grad(sum(q), x)), (Values{3, 12}));
  EXPECT_FALSE(jacobian(cubes, x).requires_grad());
}

// Independent rows need one pass per element of a row, for any number of rows.
TEST(Functional, BatchedOverRows) {
  const Variable x = make({0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, {3, 2});
  const Variable w = make({1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 2.0, 0.25}, {2, 4});
  const auto rows = [&](const Variable& x) { return tanh(matmul(x, w)); };
  const Variable whole = jacobian(rows, x);
  const Variable each = jacobian(rows, x, {.batched = true});
  EXPECT_EQ(whole.shape(), (Shape{3, 4, 3, 2}));
  EXPECT_EQ(each.shape(), (Shape{3, 4, 2}));
  for (int b = 0; b < 3; ++b)
    EXPECT_EQ(values(select(each, 0, b)), values(select(select(whole, 0, b), 1, b)));

  const auto energy = [&](const Variable& x) { return sum(square(rows(x)), {1}); };
  const Variable H = hessian(energy, x, {.batched = true});
  EXPECT_EQ(H.shape(), (Shape{3, 2, 2}));
  for (int b = 0; b < 3; ++b) {
    const Variable alone =
        hessian([&](const Variable& row) { return sum(energy(row)); }, slice(x, 0, b, b + 1));
    const Values wanted = values(alone), got = values(select(H, 0, b));
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12);
  }
  expect_error<ShapeError>(
      [&] { jacobian([](const Variable& x) { return sum(x); }, x, {.batched = true}); },
      {"batched"});
}

TEST(Functional, Errors) {
  const Variable x = make({1.0, 2.0});
  const auto square = [](const Variable& x) { return x * x; };
  expect_error<ArgumentError>([&] { vjp(square, x); }, {"vjp", "v is wanted", "[2]"});
  expect_error<ShapeError>([&] { jvp(square, x, make({1.0})); }, {"jvp", "[1]", "[2]"});
  expect_error<DTypeError>([&] { jvp(square, x, make<float>({1, 1})); }, {"float32", "float64"});
  expect_error<ShapeError>([&] { hessian(square, x); }, {"hessian", "one element"});
  expect_error<DTypeError>([&] { jacobian(square, make<int64_t>({1})); }, {"int64"});
}

TEST(Functional, RecordsAlsoWithinNoGrad) {
  const NoGrad off;
  EXPECT_EQ(jacobian([](const Variable& x) { return x * x; }, make({3.0})).item(), 6);
}

// Nothing is recorded, so each derivative would be 0.
TEST(Functional, RefusesInferenceMode) {
  const InferenceMode inference;
  const Variable x = make({3.0});
  const auto square = [](const Variable& x) { return x * x; };
  expect_error<AutogradError>([&] { jacobian(square, x); }, {"jacobian", "InferenceMode"});
  expect_error<AutogradError>([&] { hessian(square, x); }, {"InferenceMode"});
  expect_error<AutogradError>([&] { vjp(square, x); }, {"vjp", "InferenceMode"});
  expect_error<AutogradError>([&] { jvp(square, x, x); }, {"jvp", "InferenceMode"});
  expect_error<AutogradError>([&] { hvp(square, x, x); }, {"hvp", "InferenceMode"});
}

}  // namespace
}  // namespace tapegrad::testing
