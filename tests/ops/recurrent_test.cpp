// Recurrent networks: errors, single steps, and the GRU as one op per layer and direction, with
// exact values of PyTorch 1.13 and subsets of gradients. tests/cases/recurrent.cpp has the other
// tests.
#include "ops/recurrent.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/implementations.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/internal/recurrent_sequence.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/expect_near.h"

namespace tapegrad {
namespace {

using testing::expect_near;
using Doubles = std::vector<double>;
using Variables = std::vector<Variable>;

Variable wave(const Shape& shape, double sign = 1) {
  Doubles numbers(numel(shape));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = sign * std::sin(double(i * i % 97) + 0.5);
  return tensor(numbers, shape, {.dtype = f64, .requires_grad = true});
}

TEST(Recurrent, StatesOfOneExampleLackTheBatch) {
  const std::vector<Variable> weights{wave({8, 3}), wave({8, 2})};
  const auto y = lstm(wave({4, 3}), wave({1, 2}), wave({1, 2}), weights);
  ASSERT_EQ(y.size(), 3u);
  EXPECT_EQ(y[0].shape(), (Shape{4, 2}));
  EXPECT_EQ(y[1].shape(), (Shape{1, 2}));
  EXPECT_EQ(y[2].shape(), (Shape{1, 2}));
  expect_near(narrow(y[0], 0, 3, 1), y[1].to_vector<double>(), 0);
}

TEST(Recurrent, DropoutBetweenLayersOnly) {
  const std::vector<Variable> weights{wave({2, 3}), wave({2, 2}), wave({2, 2}), wave({2, 2})};
  const Variable x = wave({3, 1, 3});
  const RecurrentOptions all{.num_layers = 2, .dropout = 1.0, .training = true};
  // The second layer receives zeros and therefore stays at its initial state 0.
  EXPECT_EQ(rnn_tanh(x, {}, weights, all)[0].to_vector<double>(), Doubles(6, 0));
  const std::vector<Variable> one{weights[0], weights[1]};
  EXPECT_NE(rnn_tanh(x, {}, one, {.dropout = 1.0, .training = true})[0].to_vector<double>(),
            Doubles(6, 0));
}

TEST(Recurrent, Refuses) {
  const std::vector<Variable> weights{wave({6, 3}), wave({6, 2})};
  const Variable x = wave({4, 1, 3});
  EXPECT_THROW(lstm(x, {}, {}, weights), ShapeError);  // six rows are three gates
  EXPECT_NO_THROW(gru(x, {}, weights));
  EXPECT_THROW(gru(x, {}, weights, {.num_layers = 2}), ArgumentError);
  for (int64_t layers : {int64_t(0), int64_t(1) << 62, std::numeric_limits<int64_t>::max()})
    EXPECT_THROW(gru(x, {}, {}, {.num_layers = layers}), ArgumentError) << layers;
  EXPECT_THROW(gru(wave({4, 1, 2}), {}, weights), ShapeError);
  EXPECT_THROW(gru(x, wave({1, 2, 2}), weights), ShapeError);
  EXPECT_THROW(gru(wave({0, 1, 3}), {}, weights), ShapeError);
  EXPECT_THROW(gru(wave({3}), {}, weights), ShapeError);
  EXPECT_THROW(gru(x.to(f32), {}, weights), DTypeError);
  EXPECT_THROW(gru(x, {}, weights, {.dropout = 2.0}), ArgumentError);
}

// Many rows and steps, for which the weight is transposed once, against one step after the other.
TEST(Recurrent, ManyStepsAreThoseOfSingleSteps) {
  for (const int64_t batch : {7, 8, 20}) {
    manual_seed(2);
    const Variable x = randn({6, batch, 5}), zero = zeros({1, batch, 40});
    const auto weights = [](int64_t gates) {
      return std::vector<Variable>{randn({gates * 40, 5}), randn({gates * 40, 40}),
                                   randn({gates * 40}), randn({gates * 40})};
    };
    const std::vector<Variable> of_lstm = weights(4), of_gru = weights(3);
    const auto lstm_all = lstm(x, zero, zero, of_lstm);
    const auto gru_all = gru(x, zero, of_gru);
    Variable h = zero, c = zero, g = zero;
    for (int64_t t = 0; t < 6; ++t) {
      const Variable now = narrow(x, 0, t, 1);
      const auto step = lstm(now, h, c, of_lstm);
      h = step[1], c = step[2];
      g = gru(now, g, of_gru)[1];
      EXPECT_LT(amax(abs(step[0] - narrow(lstm_all[0], 0, t, 1))).item(), 1e-5);
      EXPECT_LT(amax(abs(g - narrow(gru_all[0], 0, t, 1))).item(), 1e-5);
    }
    EXPECT_LT(amax(abs(c - lstm_all[2])).item(), 1e-5);
  }
}

/// A large weight, of a size that is no multiple of oneDNN's blocks, is packed once for all steps
/// in each direction. float64 has no packed factors.
TEST(Recurrent, LargeWeightsOfManySteps) {
  manual_seed(3);
  const int64_t hidden = 420;
  const Variable x = randn({6, 3, 5}), state = randn({1, 3, hidden});
  const auto run = [&](int64_t gates, DType dtype) {
    manual_seed(4);
    Variables all{x,
                  state,
                  randn({gates * hidden, 5}) * 0.3,
                  narrow(randn({gates * hidden, hidden + 3}) * 0.05, 1, 1, hidden),
                  randn({gates * hidden}),
                  randn({gates * hidden})};
    for (Variable& v : all) v = v.to(dtype).detach().requires_grad_();
    const Variables weights(all.begin() + 2, all.end());
    const auto y =
        gates == 4 ? lstm(all[0], all[1], all[1], weights) : gru(all[0], all[1], weights);
    Variables results{y[0]};
    for (const Variable& dx : grad(sum(square(y[0])), all)) results.push_back(dx);
    return results;
  };
  for (const int64_t gates : {3, 4}) {
    DispatchLog log;
    const Variables found = run(gates, f32);
    if (kernels::pack_factor.has(DeviceType::kCpu, f32) && !only_fallbacks()) {
      EXPECT_EQ(log.calls("pack_factor"), 2);
      EXPECT_EQ(log.calls("multiply_by_packed"), 12);
    }
    const Variables exact = run(gates, f64);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_LT(amax(abs(found[i].to(f64) - exact[i])).item<double>(),
                2e-6 * (1 + amax(abs(exact[i])).item<double>()))
          << gates << ' ' << i;
  }
}

/// Packed factors with and without room for the padding of oneDNN's layout, compared with sums in
/// float64.
TEST(Recurrent, ProductsByPackedFactors) {
  if (!kernels::pack_factor.has(DeviceType::kCpu, f32)) GTEST_SKIP() << "needs AVX-512";
  manual_seed(5);
  for (const auto& [rows, k, n] : {std::array<int64_t, 3>{1, 7, 1}, {3, 130, 70}, {20, 64, 128}})
    for (const bool has_bias : {false, true})
      for (const bool is_transposed : {false, true}) {
        const Variable a = randn({rows, k}), bias = randn({n});
        const Variable b = is_transposed ? randn({n, k}).t() : randn({k, n});
        const Tensor with_bias = has_bias ? bias.value() : Tensor();
        Variable exact = sum(a.to(f64).unsqueeze(2) * b.to(f64), 1);
        if (has_bias) exact = exact + bias.to(f64);
        for (const int64_t unit : {1, 64}) {
          Tensor packed =
              Tensor::empty({(k + unit - 1) / unit * unit, (n + unit - 1) / unit * unit}, f32);
          Tensor y = Tensor::empty({rows, n}, f32);
          kernels::pack_factor(b.value(), with_bias, rows, packed);
          kernels::multiply_by_packed(a.value(), packed, with_bias, y);
          EXPECT_LT(amax(abs(Variable(y).to(f64) - exact)).item<double>(), 1e-5 * double(k))
              << rows << ' ' << k << ' ' << n << ' ' << unit;
        }
      }
}

/// Weights of one bidirectional layer for two features and two hidden numbers.
Variables weights() {
  Variables list;
  for (const double sign : {1, -1})
    for (const Shape& shape : {Shape{6, 2}, Shape{6, 2}, Shape{6}, Shape{6}})
      list.push_back(wave(shape, sign));
  return list;
}

constexpr RecurrentOptions kBoth{.bidirectional = true};

TEST(Gru, ValuesAndGradientsInBothDirections) {
  const Variables w = weights();
  const Variable x = wave({3, 1, 2}), h0 = wave({2, 1, 2});
  const Variables y = gru(x, h0, w, kBoth);
  expect_near(
      y[0], {-0.5256654207008921, -0.46443244724929383, 0.04315774095312308, -0.33140047639282644,
             -0.8600985850528287, -0.23778271545588614, -0.007738137643780951, -0.5785085716141557,
             -0.944496913323949, 0.0027407980773161977, -0.3088769117674893, -0.3212262144469995});
  expect_near(
      y[1], {-0.944496913323949, 0.0027407980773161977, 0.04315774095312308, -0.33140047639282644});
  sum(y[0] * wave({3, 1, 4}).detach()).backward();
  expect_near(x.grad(), {-0.03870196557256987, -0.5547922825856957, 0.2040602974219246,
                         -0.35682140913799554, 0.20051822585817855, -0.6303192649058498});
  expect_near(h0.grad(), {-0.041424155552801774, -0.31166852831079256, -0.5167325973915091,
                          -0.469733495849315});
  expect_near(w[1].grad(), {0.0037615584680913148, -0.002724257883455362, -0.02737604352260306,
                            -0.0573269107483023, 0.023070089822348122, 0.0652550938470632,
                            0.05849697607516601, 0.14976536825117098, 0.08587218172468734,
                            0.1953288211354219, 0.24826175895493013, 0.5003845497874415});
  // The gradients of the two biases differ only for n, where r scales the state's bias.
  expect_near(w[2].grad(), {-0.006574005970644363, -0.057640191185467364, 0.04342680773048131,
                            0.13570769526604876, 0.2088257078661269, 0.6959418115510426});
  expect_near(w[3].grad(), {-0.006574005970644363, -0.05764019118546736, 0.04342680773048131,
                            0.13570769526604876, 0.2021958491394265, 0.493970199893651});
  expect_near(w[7].grad(), {-0.022293542676830706, 0.021462036712558457, 1.071234002824623,
                            -0.07911927346377118, -0.03440986507656392, -0.03189910032786911});
}

TEST(Gru, OneGradientAloneIsThatAmongAll) {
  const auto gradients = [](int wanted) {
    Variables in = weights();
    in.push_back(wave({3, 1, 2}));
    in.push_back(wave({2, 1, 2}));
    for (size_t i = 0; wanted >= 0 && i < in.size(); ++i)
      if (i != size_t(wanted)) in[i] = in[i].detach();
    const Variable last = gru(in[8], in[9], std::span(in).first(8), kBoth)[1];
    sum(last * last).backward();
    return in;
  };
  const Variables all = gradients(-1);
  for (int i = 0; i < 10; ++i) {
    SCOPED_TRACE(i);
    expect_near(gradients(i)[size_t(i)].grad(), all[size_t(i)].grad().to_vector<double>());
  }
}

TEST(Gru, EitherBiasMayBeMissing) {
  const Variable x = wave({3, 2, 2}), zero = zeros({6}, {.dtype = f64});
  for (const int missing : {2, 3}) {
    Variables without = weights(), with = without;
    without.resize(4), with.resize(4);
    without[size_t(missing)] = {}, with[size_t(missing)] = zero;
    expect_near(gru(x, {}, without)[0], gru(x, {}, with)[0].to_vector<double>());
    const auto f = [&](const Variables& in) {
      without[1] = in[1];
      return gru(in[0], {}, without)[0];
    };
    const GradcheckResult result = gradcheck(f, {x, without[1]}, {.order = 2});
    EXPECT_TRUE(result) << result.message;
  }
}

}  // namespace
}  // namespace tapegrad
