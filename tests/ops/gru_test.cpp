// The GRU as one op per layer and direction: exact values of PyTorch 1.13, and subsets of
// gradients. tests/cases/recurrent.cpp has the other tests.
#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/gradcheck.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/recurrent.h"
#include "ops/reduce.h"
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
