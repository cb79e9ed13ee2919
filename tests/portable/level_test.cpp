// Tests a little of every kind of kernel against plain loops. The same program runs at each level,
// and on emulated processors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/inspect/runtime_info.h"
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/linalg.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"

namespace tapegrad {
namespace {

using Values = std::vector<double>;

/// Returns avx512, avx2 or none: the level that the environment requests, else the highest that the
/// processor supports.
std::string expected_level() {
  for (const char* name : {"TAPEGRAD_TEST_LEVEL", "TAPEGRAD_CPU"})
    if (const char* text = std::getenv(name)) return text;
  return __builtin_cpu_supports("avx512vl") ? "avx512" : "avx2";
}

template <typename E>
void expect_refused(const std::string& message) {
  try {
    ones({3});
    ADD_FAILURE() << "not refused: " << message;
  } catch (const E& error) {
    EXPECT_EQ(error.message(), message);
  }
  EXPECT_NE(runtime_info().find('\n' + message + '\n'), std::string::npos) << runtime_info();
}

// Must be the first test, since the level is chosen once.
TEST(Level, IsTheOneExpected) {
  const std::string level = expected_level();
  const char* forced = std::getenv("TAPEGRAD_CPU");
  const std::string restored = forced != nullptr ? forced : "";
  setenv("TAPEGRAD_CPU", "sse2", 1);
  expect_refused<ArgumentError>("TAPEGRAD_CPU: \"sse2\" is not avx512 or avx2");
  if (!__builtin_cpu_supports("avx512vl")) {
    setenv("TAPEGRAD_CPU", "avx512", 1);
    expect_refused<DeviceError>(
        "TAPEGRAD_CPU: avx512 needs a processor with AVX-512 (F, BW, CD, DQ, VL)");
  }
  setenv("TAPEGRAD_CPU", restored.c_str(), 1);
  if (level == "none") {
    const std::string message = "cpu: the kernels need a processor with AVX2, FMA and BMI2";
    expect_refused<DeviceError>(message);
    expect_refused<DeviceError>(message);  // every call throws
    return;
  }
  const std::string arch = level == "avx512" ? "avx512bw" : "fma3+avx2";
  EXPECT_NE(runtime_info().find("instructions compiled for: " + arch + '\n'), std::string::npos)
      << runtime_info();
}

/// Sizes that are not multiples of a vector's size.
constexpr int64_t kRows = 13, kInner = 37, kColumns = 29;

TEST(Level, Matmul) {
  for (DType dtype : {f32, f64}) {
    manual_seed(1);
    const Variable a = randn({kRows, kInner}, {.dtype = dtype});
    const Variable b = randn({kInner, kColumns}, {.dtype = dtype});
    const Values x = a.to_vector<double>(), y = b.to_vector<double>();
    const Values z = matmul(a, b).to_vector<double>();
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) {
        double expected = 0;
        for (int64_t k = 0; k < kInner; ++k) expected += x[i * kInner + k] * y[k * kColumns + j];
        ASSERT_NEAR(z[i * kColumns + j], expected, dtype == f32 ? 1e-5 : 1e-13) << i << ' ' << j;
      }
  }
}

TEST(Level, Convolution) {
  constexpr int64_t kIn = 3, kOut = 5, kSize = 9, kLeft = kSize - 2;
  manual_seed(2);
  const Variable x = randn({2, kIn, kSize, kSize}), w = randn({kOut, kIn, 3, 3});
  const Values image = x.to_vector<double>(), weight = w.to_vector<double>();
  const Values y = conv2d(x, w).to_vector<double>();
  for (int64_t at = 0; at < int64_t(y.size()); ++at) {
    const int64_t j = at % kLeft, i = at / kLeft % kLeft, o = at / (kLeft * kLeft) % kOut,
                  n = at / (kLeft * kLeft * kOut);
    double expected = 0;
    for (int64_t c = 0; c < kIn; ++c)
      for (int64_t u = 0; u < 3; ++u)
        for (int64_t v = 0; v < 3; ++v)
          expected += image[((n * kIn + c) * kSize + i + u) * kSize + j + v] *
                      weight[((o * kIn + c) * 3 + u) * 3 + v];
    ASSERT_NEAR(y[at], expected, 1e-5) << at;
  }
}

TEST(Level, LayerNorm) {
  manual_seed(3);
  const Variable x = randn({kRows, kInner});
  const Values in = x.to_vector<double>(), out = layer_norm(x, {kInner}).to_vector<double>();
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < kInner; ++k) sum += in[row * kInner + k];
    for (int64_t k = 0; k < kInner; ++k)
      squares += std::pow(in[row * kInner + k] - sum / kInner, 2);
    for (int64_t k = 0; k < kInner; ++k)
      ASSERT_NEAR(out[row * kInner + k],
                  (in[row * kInner + k] - sum / kInner) / std::sqrt(squares / kInner + 1e-5), 1e-5);
  }
}

TEST(Level, Elementwise) {
  struct Function {
    std::function<Variable(const Variable&)> op;
    double (*reference)(double);
  };
  const Function functions[] = {
      {[](const Variable& x) { return exp(x); }, [](double x) { return std::exp(x); }},
      {[](const Variable& x) { return log(x); }, [](double x) { return std::log(x); }},
      {[](const Variable& x) { return tanh(x); }, [](double x) { return std::tanh(x); }},
      {[](const Variable& x) { return erf(x); }, [](double x) { return std::erf(x); }},
      {[](const Variable& x) { return sqrt(x) * x; }, [](double x) { return std::sqrt(x) * x; }}};
  for (int64_t n = 1; n < 40; ++n) {
    const Variable x = rand({n}) + 0.5;
    const Values in = x.to_vector<double>();
    for (const Function& f : functions) {
      const Values out = f.op(x).to_vector<double>();
      for (int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(out[i], f.reference(in[i]), 1e-6) << n << ' ' << i;
    }
  }
}

TEST(Level, RandomNumbersAreTheFormula) {
  const RandomState state{123, 5};
  RandomGenerator generator;
  generator.set_state(state);
  const std::vector<float> u = rand({1001}, {}, generator).to_vector<float>();
  for (uint64_t i = 0; i < u.size(); ++i)
    ASSERT_EQ(u[i], uniform_float(philox(state.seed, state.offset + i / 4)[i % 4])) << i;
}

TEST(Level, Sort) {
  const Variable x = randn({1000});
  Values in = x.to_vector<double>();
  std::sort(in.begin(), in.end());
  EXPECT_EQ(sort(x).values.to_vector<double>(), in);
}

TEST(Level, Gradients) {
  manual_seed(4);
  const TensorOptions f64_leaf{.dtype = f64, .requires_grad = true};
  const Variable x = randn({2, 2, 5, 5}, f64_leaf), w = randn({3, 2, 3, 3}, f64_leaf);
  const auto network = [](const std::vector<Variable>& in) {
    return log_softmax(flatten(gelu(group_norm(conv2d(in[0], in[1]), 1)), 1), 1);
  };
  const GradcheckResult result = gradcheck(network, {x, w});
  EXPECT_TRUE(result) << result.message;
}

TEST(Level, Training) {
  manual_seed(5);
  nn::Sequential model(
      {nn::Conv2d({.out_channels = 16, .kernel_size = 3}), nn::BatchNorm2d(), nn::ReLU(),
       nn::MaxPool2d(2), nn::Flatten(), nn::Linear({.out_features = 4})},
      {.input_shape = Shape{1, 12, 12}});
  optim::Adam optimizer(model.parameters(), 0.01);
  const Variable x = randn({8, 1, 12, 12}), labels = randint(0, 4, {8});
  Values losses;
  for (int step = 0; step < 10; ++step) {
    Variable loss = cross_entropy(model(x), labels);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(loss.item());
  }
  EXPECT_LT(losses.back(), 0.2 * losses.front());
}

// Exceptions thrown by kernels are caught here by type, so the type information must be shared.
TEST(Level, ErrorsOfKernels) {
  const Variable scores = rand({2, 3});
  EXPECT_THROW(cross_entropy(scores, tensor(std::vector<int64_t>{0, 7})), IndexError);
  EXPECT_THROW(cross_entropy(scores, tensor(std::vector<int64_t>{0, 7})), std::exception);
  EXPECT_THROW(poisson(scores - 5.0), ArgumentError);
  try {
    poisson(scores - 5.0);
  } catch (const Error& error) {
    EXPECT_NE(dynamic_cast<const ArgumentError*>(&error), nullptr);
    EXPECT_TRUE(std::string_view(error.what()).starts_with("poisson: a rate must be finite"));
  }
}

}  // namespace
}  // namespace tapegrad
