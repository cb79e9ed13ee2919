#include "ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Values = std::vector<double>;

struct Row {
  const char* name;
  Variable (*op)(const Variable&);
  double (*derivative)(double);
  double at_minus_inf, at_inf;  // limits
};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double phi(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double Phi(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

const Row kRows[] = {
    {"sigmoid", [](const Variable& x) { return sigmoid(x); },
     [](double x) { return sigmoid_of(x) * sigmoid_of(-x); }, 0, 1},
    {"relu", [](const Variable& x) { return relu(x); }, [](double x) { return x > 0 ? 1.0 : 0.0; },
     0, kInf},
    {"relu6", [](const Variable& x) { return relu6(x); },
     [](double x) { return x > 0 && x < 6 ? 1.0 : 0.0; }, 0, 6},
    {"leaky_relu", [](const Variable& x) { return leaky_relu(x, 0.1); },
     [](double x) { return x > 0 ? 1.0 : 0.1; }, -kInf, kInf},
    {"elu", [](const Variable& x) { return elu(x, 1.5); },
     [](double x) { return x > 0 ? 1.0 : 1.5 * std::exp(x); }, -1.5, kInf},
    {"selu", [](const Variable& x) { return selu(x); },
     [](double x) {
       return 1.0507009873554804934 * (x > 0 ? 1.0 : 1.6732632423543772848 * std::exp(x));
     },
     -1.0507009873554804934 * 1.6732632423543772848, kInf},
    {"gelu", [](const Variable& x) { return gelu(x); },
     [](double x) { return Phi(x) + x * phi(x); }, 0, kInf},
    {"gelu tanh", [](const Variable& x) { return gelu(x, Gelu::kTanh); },
     [](double x) {
       const double k = std::sqrt(2 / std::numbers::pi);
       const double t = std::tanh(k * (x + 0.044715 * x * x * x));
       return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
     },
     0, kInf},
    {"silu", [](const Variable& x) { return silu(x); },
     [](double x) { return sigmoid_of(x) * (1 + x * sigmoid_of(-x)); }, 0, kInf},
    {"mish", [](const Variable& x) { return mish(x); },
     [](double x) {
       const double t = std::tanh(std::log1p(std::exp(x)));
       return t + x * sigmoid_of(x) * (1 - t * t);
     },
     0, kInf},
    {"softplus", [](const Variable& x) { return softplus(x, 2.0, 10.0); },
     [](double x) { return 2 * x > 10 ? 1.0 : sigmoid_of(2 * x); }, 0, kInf},
    {"hardsigmoid", [](const Variable& x) { return hardsigmoid(x); },
     [](double x) { return x > -3 && x < 3 ? 1.0 / 6 : 0.0; }, 0, 1},
    {"hardswish", [](const Variable& x) { return hardswish(x); },
     [](double x) { return x <= -3  ? 0.0
                           : x >= 3 ? 1.0
                                    : x / 3 + 0.5; }, 0, kInf},
};

const Values kPoints{-20, -6.5, -3, -2.25, -1, -0.125, 0, 0.0625, 0.5, 1, 2.5, 3, 4.75, 6, 9, 30};

// A rule is composed of ops while recording, otherwise one kernel; both must equal the derivative.
TEST(Activation, FusedAndComposedGradientsAgree) {
  for (const Row& row : kRows) {
    const Variable x = tensor(kPoints, {.dtype = f64, .requires_grad = true});
    const Variable seed = x.detach() * 0.5 + 2;
    const auto fused = grad(sum(row.op(x) * seed), x).to_vector<double>();
    const auto composed =
        grad(sum(row.op(x) * seed), x, {.create_graph = true}).to_vector<double>();
    const Values dy = seed.to_vector<double>();
    for (size_t i = 0; i < kPoints.size(); ++i) {
      const double size = 1e-14 * std::max(1.0, std::fabs(dy[i]));
      EXPECT_NEAR(fused[i], composed[i], size) << row.name << " at " << kPoints[i];
      EXPECT_NEAR(fused[i], dy[i] * row.derivative(kPoints[i]), 4 * size)
          << row.name << " at " << kPoints[i];
    }
  }
}

TEST(Activation, SecondDerivatives) {
  const double h = 1e-5;
  for (const Row& row : kRows) {
    for (double at : {-1.3, -0.4, 0.7, 2.1}) {
      const Variable x = tensor<double>({at}, {.dtype = f64, .requires_grad = true});
      const Variable first = grad(row.op(x), x, {.create_graph = true});
      double second = 0;
      if (first.requires_grad()) {
        sum(first).backward();
        second = x.grad().defined() ? x.grad().item() : 0.0;
      }
      EXPECT_NEAR(second, (row.derivative(at + h) - row.derivative(at - h)) / (2 * h), 1e-8)
          << row.name << " at " << at;
    }
  }
}

TEST(Activation, LimitsAndNan) {
  for (DType dtype : {f16, bf16, f32, f64}) {
    const double eps = dtype == f64 ? 1e-15 : dtype == f32 ? 1e-6 : 1e-2;
    for (const Row& row : kRows) {
      const Variable x = tensor<double>({-kInf, kInf, kNan, -60000, 60000}).to(dtype);
      const Values y = row.op(x).to_vector<double>();
      const auto near = [&](double got, double limit) {
        return std::isinf(limit) ? got == limit : std::fabs(got - limit) <= eps;
      };
      EXPECT_TRUE(near(y[0], row.at_minus_inf)) << row.name << " " << y[0];
      EXPECT_TRUE(near(y[1], row.at_inf)) << row.name << " " << y[1];
      EXPECT_TRUE(std::isnan(y[2])) << row.name;
      EXPECT_TRUE(std::isfinite(y[3])) << row.name;
      EXPECT_TRUE(std::isfinite(y[4])) << row.name;
    }
  }
}

TEST(Activation, GradientsAtTheLimitsAreFinite) {
  for (const DType dtype : {f16, f32, f64})
    for (const Row& row : kRows) {
      const Variable x =
          tensor<double>({-kInf, kInf, -6e4, 6e4, -300, 300}).to(dtype).requires_grad_();
      for (const bool record : {false, true}) {
        const Variable slopes = grad(sum(row.op(x)), x, {.create_graph = record});
        for (double slope : slopes.to_vector<double>())
          EXPECT_TRUE(std::isfinite(slope)) << row.name << " " << slope << ' ' << record;
      }
    }
}

TEST(Activation, SoftplusDoesNotOverflow) {
  const Variable x = tensor<double>({-800, -40, 0, 19, 800}, {.dtype = f64});
  const Values y = softplus(x).to_vector<double>();
  EXPECT_EQ(y[0], 0);
  EXPECT_NEAR(y[1] / std::exp(-40.0), 1, 1e-14);
  EXPECT_NEAR(y[2], std::numbers::ln2, 1e-16);
  EXPECT_NEAR(y[3], std::log1p(std::exp(19.0)), 1e-14);
  EXPECT_EQ(y[4], 800);
  EXPECT_THROW(softplus(x, 0.0), ArgumentError);
  EXPECT_THROW(softplus(x, -1.0), ArgumentError);
}

TEST(Activation, T33_Subgradients) {
  const auto gradient = [](const auto& op, const Values& xs) {
    const Variable x = tensor(xs, {.dtype = f64, .requires_grad = true});
    sum(op(x)).backward();
    return x.grad().to_vector<double>();
  };
  EXPECT_EQ(gradient([](const Variable& x) { return relu(x); }, {-1, 0, 1}), (Values{0, 0, 1}));
  EXPECT_EQ(gradient([](const Variable& x) { return relu6(x); }, {0, 3, 6, 7}),
            (Values{0, 1, 0, 0}));
  EXPECT_EQ(gradient([](const Variable& x) { return leaky_relu(x, 0.5); }, {-1, 0, 1}),
            (Values{0.5, 0.5, 1}));
}

// Where relu is 0, its gradient is 0, even if the incoming gradient is infinite or NaN.
TEST(Activation, ReluStopsInfinityAndNan) {
  for (bool create_graph : {false, true}) {
    const Variable x = tensor<double>({-1, -1, 2}, {.dtype = f64, .requires_grad = true});
    const Variable seed = tensor<double>({kInf, kNan, 3}, {.dtype = f64});
    relu(x).backward(seed, {.create_graph = create_graph});
    EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 0, 3}));
    x.zero_grad();
  }
}

TEST(Activation, T20_InPlaceAsTheLastOpBeforeBackward) {
  const Variable x = tensor<double>({-1, 0.5}, {.dtype = f64, .requires_grad = true});
  Variable y = x * 2;
  relu_(y);
  EXPECT_EQ(y.to_vector<double>(), (Values{0, 1}));
  const Variable loss = sum(y);
  loss.backward({.retain_graph = true});
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 2}));
  loss.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 4}));
  x.zero_grad();
  Variable z = x * 2;
  sigmoid_(z);
  sum(z * z).backward();
  for (size_t i = 0; i < 2; ++i) {
    const double s = sigmoid_of(2 * x.to_vector<double>()[i]);
    EXPECT_NEAR(x.grad().to_vector<double>()[i], 2 * s * s * (1 - s) * 2, 1e-15);
  }
}

/// PyTorch 2.15 accepts integers in these activations only.
TEST(Activation, Integers) {
  using Ints = std::vector<int64_t>;
  Variable k = tensor({-3, 0, 5});
  EXPECT_EQ(relu(k).to_vector<int64_t>(), (Ints{0, 0, 5}));
  EXPECT_EQ(relu6(k * 2).to_vector<int64_t>(), (Ints{0, 0, 6}));
  EXPECT_EQ(hardtanh(k, -1.5, 2.7).to_vector<int64_t>(), (Ints{-1, 0, 2}));
  EXPECT_EQ(sigmoid(k).to_vector<float>(), sigmoid(k.to(f32)).to_vector<float>());
  relu_(k);
  EXPECT_EQ(k.to_vector<int64_t>(), (Ints{0, 0, 5}));
}

TEST(Activation, Errors) {
  const Variable k = ones({2}, {.dtype = i64});
  const std::set<std::string> accepting = {"relu", "relu6", "hardtanh", "sigmoid"};
  for (const Row& row : kRows) {
    if (accepting.contains(row.name)) continue;
    EXPECT_THROW(row.op(k), DTypeError) << row.name;
  }
  Variable leaf = ones({2}, {.requires_grad = true});
  EXPECT_THROW(relu_(leaf), AutogradError);
  EXPECT_THROW(sigmoid_(leaf), AutogradError);
}

// gelu in float32: an absolute tolerance of 4 eps of the largest value nearby, and a relative
// tolerance for the tail, which grows with the rounding error of x^2.
TEST(Activation, FloatAccuracy) {
  Values xs;
  for (int i = -4000; i <= 4000; ++i) xs.push_back(double(float(i * 0.005)));
  const Variable x = tensor(xs, {.dtype = f32});
  const auto gelu_y = gelu(x).to_vector<double>(), silu_y = silu(x).to_vector<double>();
  const auto mish_y = mish(x).to_vector<double>(), softplus_y = softplus(x).to_vector<double>();
  const auto wide_y = softplus(tensor(xs, {.dtype = f64})).to_vector<double>(),
             sigmoid_y = logsigmoid(x).to_vector<double>();
  const double eps = 0x1p-23;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double v = xs[i];
    ASSERT_NEAR(gelu_y[i], v * Phi(v), 4 * eps * std::max(0.1, std::fabs(v))) << v;
    // gelu takes a subnormal Phi(v) as 0.
    const double of_tail = (6 + v * v / 2) * eps * Phi(v);
    ASSERT_NEAR(gelu_y[i], Phi(v) < 0x1p-126 ? 0 : v * Phi(v), of_tail * std::fabs(v)) << v;
    ASSERT_NEAR(silu_y[i], v * sigmoid_of(v), 4 * eps * std::fabs(v * sigmoid_of(v))) << v;
    const double m = v * std::tanh(std::log1p(std::exp(v))), s = std::log1p(std::exp(v));
    ASSERT_NEAR(mish_y[i], m, 4 * eps * std::fabs(m)) << v;
    ASSERT_NEAR(softplus_y[i], s, 4 * eps * s) << v;
    ASSERT_NEAR(wide_y[i], s, 0x1p-50 * s) << v;
    ASSERT_NEAR(sigmoid_y[i], std::min(v, 0.0) - std::log1p(std::exp(-std::fabs(v))),
                4 * eps * std::fabs(s - v))
        << v;
  }
  EXPECT_TRUE(std::signbit(gelu(tensor({-0.0})).item()));
}

TEST(Activation, GradientsOfSaturatedGatesAreNotSubnormal) {
  Values xs;
  for (int i = -4400; i <= 4400; ++i) xs.push_back(0.025 * i);
  const int64_t n = int64_t(xs.size());
  const auto expect_normal = [](const Variable& x, const char* what) {
    for (const float value : x.to_vector<float>())
      ASSERT_TRUE(value == 0 || std::isnormal(value)) << what << ' ' << value;
  };
  const Variable small = full({1, n}, 1e-6, {.dtype = f32});
  for (auto f :
       {+[](const Variable& x) { return sigmoid(x); }, +[](const Variable& x) { return silu(x); },
        +[](const Variable& x) { return gelu(x); }}) {
    const Variable x = tensor(xs, {1, n}, {.dtype = f32, .requires_grad = true});
    f(x).backward(small);
    expect_normal(x.grad(), "of an activation");
  }
  const Variable a = full({1, n}, 0.5, {.dtype = f32, .requires_grad = true});
  const Variable gate = tensor(xs, {1, n}, {.dtype = f32, .requires_grad = true});
  const Variable y = glu(cat({a, gate}, 0), 0);
  expect_normal(y, "glu");
  y.backward(small);
  expect_normal(a.grad(), "of the value");
  expect_normal(gate.grad(), "of the gate");
  gate.zero_grad();
  logsumexp(cat({zeros({1, n}), gate}, 0), {0}, true).backward(full({1, n}, 1e-3));
  expect_normal(gate.grad(), "of a share of a sum of exponentials");
}

// An element's result does not depend on neighbours that take another code path.
TEST(Activation, GeluOfEachElementAlone) {
  Values xs;
  for (int i = -100; i <= 100; ++i)
    for (double x : {0.05 * i, 0.15 * i, 20.0}) xs.push_back(x);
  const Variable x = tensor(xs, {.dtype = f32, .requires_grad = true}), y = gelu(x);
  sum(y).backward();
  for (size_t i = 0; i < xs.size(); ++i) {
    const Variable alone = tensor({xs[i]}, {.dtype = f32, .requires_grad = true}), z = gelu(alone);
    z.backward();
    EXPECT_EQ(y.to_vector<float>()[i], z.to_vector<float>()[0]) << xs[i];
    EXPECT_EQ(x.grad().to_vector<float>()[i], alone.grad().to_vector<float>()[0]) << xs[i];
  }
}

// Values and gradients equal PyTorch 1.13's, except for NaN, which softshrink returns here.
TEST(Activation, ComposedOnesAtTheirCorners) {
  const double nan = std::nan(""), inf = INFINITY;
  struct Row {
    const char* name;
    Variable (*f)(const Variable&);
    std::vector<double> values, gradients;
  };
  const Row rows[] = {{"celu",
                       [](const Variable& x) { return celu(x, 2.0); },
                       {nan, -1.2642411176571153, -0.44239843385719024, 0, 0.5, 2, inf, -2},
                       {nan, 0.36787944117144233, 0.7788007830714049, 1, 1, 1, 1, 0}},
                      {"threshold",
                       [](const Variable& x) { return threshold(x, 0.5, -1.0); },
                       {nan, -1, -1, -1, -1, 2, inf, -1},
                       {1, 0, 0, 0, 0, 1, 1, 0}},
                      {"softshrink",
                       [](const Variable& x) { return softshrink(x); },
                       {nan, -1.5, 0, 0, 0, 1.5, inf, -inf},
                       {0, 1, 0, 0, 0, 1, 1, 1}},
                      {"hardshrink",
                       [](const Variable& x) { return hardshrink(x); },
                       {nan, -2, 0, 0, 0, 2, inf, -inf},
                       {1, 1, 0, 0, 0, 1, 1, 1}},
                      {"hardtanh",
                       [](const Variable& x) { return hardtanh(x, -0.5, 2.0); },
                       {nan, -0.5, -0.5, 0, 0.5, 2, 2, -0.5},
                       {1, 0, 0, 1, 1, 0, 0, 0}},
                      {"hardsigmoid",
                       [](const Variable& x) { return hardsigmoid(x); },
                       {nan, 1.0 / 6, 2.5 / 6, 0.5, 3.5 / 6, 5.0 / 6, 1, 0},
                       {0, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 0, 0}},
                      {"logsigmoid",
                       [](const Variable& x) { return logsigmoid(x); },
                       {nan, -2.1269280110429727, -0.9740769841801067, -0.6931471805599453,
                        -0.4740769841801067, -0.1269280110429725, 0, -inf},
                       {nan, 0.8807970779778824, 0.6224593312018545, 0.5, 0.37754066879814546,
                        0.11920292202211755, 0, 1}},
                      {"tanhshrink",
                       [](const Variable& x) { return tanhshrink(x); },
                       {nan, -1.035972419924183, -0.03788284273999026, 0, 0.03788284273999026,
                        1.035972419924183, inf, -inf},
                       {nan, 0.9293491751468356, 0.2135522670340726, 0, 0.2135522670340726,
                        0.9293491751468356, 1, 1}}};
  const auto expect_close = [](double got, double expected, size_t i) {
    if (expected == expected && std::abs(expected) != INFINITY)
      EXPECT_NEAR(got, expected, 4e-16) << i;
    else
      EXPECT_TRUE(got == expected || (got != got && expected != expected)) << i << ": " << got;
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const Variable x =
        tensor({nan, -2.0, -0.5, 0.0, 0.5, 2.0, inf, -inf}, {.dtype = f64, .requires_grad = true});
    const Variable y = row.f(x);
    y.backward(ones_like(y));
    const auto values = y.to_vector<double>(), gradients = x.grad().to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      expect_close(values[i], row.values[i], i);
      // the gradient at NaN is not specified, except for hardsigmoid
      if (i > 0 || row.name == std::string_view("hardsigmoid"))
        expect_close(gradients[i], row.gradients[i], i);
    }
  }
}

TEST(Activation, ComposedOnesRefuseWhatCannotBeMeant) {
  const Variable x = tensor({1.0, 2.0, 3.0}), ids = tensor({1, 2, 3});
  EXPECT_THROW(celu(x, 0.0), ArgumentError);
  EXPECT_THROW(softshrink(x, -0.5), ArgumentError);
  EXPECT_THROW(hardtanh(x, 1.0, -1.0), ArgumentError);
  EXPECT_THROW(glu(x), ShapeError);
  EXPECT_THROW(glu(x, 1), IndexError);
  EXPECT_THROW(prelu(x, tensor({1.0, 2.0})), ShapeError);
  for (auto f : {+[](const Variable& x) { return celu(x); },
                 +[](const Variable& x) { return hardshrink(x); },
                 +[](const Variable& x) { return logsigmoid(x); },
                 +[](const Variable& x) { return prelu(x, ones({1})); }})
    EXPECT_THROW(f(ids), DTypeError);
}

// The nodes of a composed op have the line of the caller.
TEST(Activation, ComposedOnesKeepTheCallersLine) {
  const Variable x = tensor({1.0, 2.0}, {.requires_grad = true});
  const Variable y = tanhshrink(x);
  const int line = __LINE__ - 1;
  for (const TapeNode* node = y.edge().node.get(); !node->is_leaf();
       node = node->edges().back().node.get()) {
    EXPECT_EQ(int(node->where().line()), line) << node->name();
    EXPECT_EQ(std::string(node->where().file_name()), __FILE__);
  }
}

}  // namespace
}  // namespace tapegrad
