// LSTMs with a projected state. The expected numbers are those of torch.nn.LSTM (PyTorch 2.15, in
// float64) with the same weights and inputs.
#include <cmath>

#include <gtest/gtest.h>

#include "nn/recurrent.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/error_message.h"

namespace tapegrad::nn {
namespace {

using testing::expect_error;

/// sin(0.7 (i + shift)) for the element i.
Variable wave(const Shape& shape, double shift) {
  const Variable x = arange(ones(shape).numel(), {.dtype = f64});
  return reshape(sin(0.7 * (x + shift)), shape);
}

LSTM with_waves(RecurrentOptions options) {
  options.dtype = f64;
  LSTM lstm(3, 5, options);
  const NoGrad no_grad;
  for (size_t i = 0; i < lstm.weights.size(); ++i)
    lstm.weights[i].copy_(wave(lstm.weights[i].shape(), double(i)));
  return lstm;
}

void expect_near(const Variable& x, const std::vector<double>& expected) {
  const std::vector<double> values = x.to_vector<double>();
  ASSERT_GE(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << i;
}

TEST(ProjectedLstm, HasTheStatesAndGradientsOfPyTorch) {
  struct Case {
    RecurrentOptions options;
    std::vector<double> y;
    double sum, h, c;
    std::vector<double> dx, dw;  // the gradients of the weights: sums of magnitudes
  };
  const std::vector<Case> cases = {
      {{.proj_size = 2},
       {1.1704523220303753, -0.7429973692073905, -0.6248942866467306, 0.5872230366759233},
       1.657515193417802,
       0.5437412772871247,
       -1.7524175258630605,
       {0.11751463313108838, 0.08721127210576271, 0.01589108709538029, -0.1100839789687657},
       {12.182127487197786, 13.566471077869565, 10.49712077276486, 10.497120772764859,
        24.44083275454422}},
      {{.num_layers = 2, .bidirectional = true, .proj_size = 2},
       {1.3301638597134902, -1.2048083375386884, 0.5481177437627143, -0.5749671353862593},
       0.7994774029482419,
       1.137730960362055,
       4.170596591081974,
       {0.028979338107562258, -0.07932697466001207, -0.15032457172681235, 0.21262719015065168},
       {11.019741951730925, 11.953542742266704, 8.851741017754712,  8.851741017754712,
        9.079173212386506,  8.464825812109959,  2.137473725012781,  5.533064135546397,
        5.533064135546397,  4.424908857064028,  30.431290159007883, 23.438642221085534,
        15.486048021443978, 15.486048021443978, 19.453346480802626, 11.326198994298501,
        8.651376599791169,  8.767372193882743,  8.767372193882743,  15.101884568668726}},
      {{.bias = false, .bidirectional = true, .proj_size = 2},
       {1.06019913945539, -1.0674136303077728, -0.009802172398206452, -0.012521586816582018},
       0.540107445277167,
       -0.011346714152043025,
       -1.5005544865849356,
       {0.7635097298095143, 0.42604258320192223, -0.1117990473845297, -0.6243643025835596},
       {10.451988552746593, 1.6721408045664856, 15.417189261846945, 9.013787976596523,
        1.7646778901594034, 11.092377211285136}}};
  for (const Case& wanted : cases) {
    const LSTM lstm = with_waves(wanted.options);
    const int64_t cells =
        wanted.options.num_layers * (wanted.options.bidirectional ? int64_t(2) : int64_t(1));
    const Variable x = wave({4, 2, 3}, 1).requires_grad_();
    const auto [y, h, c] = lstm(x, wave({cells, 2, 2}, 2), wave({cells, 2, 5}, 3));
    expect_near(y, wanted.y);
    expect_near(sum(y), {wanted.sum});
    expect_near(sum(h), {wanted.h});
    expect_near(sum(c), {wanted.c});
    (sum(y) + sum(c * c) + sum(h)).backward();
    expect_near(x.grad(), wanted.dx);
    ASSERT_EQ(lstm.weights.size(), wanted.dw.size());
    for (size_t i = 0; i < wanted.dw.size(); ++i)
      expect_near(sum(abs(lstm.weights[i].grad())), {wanted.dw[i]});
  }
}

TEST(ProjectedLstm, RunsPackedSequences) {
  const LSTM lstm = with_waves({.num_layers = 2, .bidirectional = true, .proj_size = 2});
  const auto [packed, h, c] =
      lstm(pack_padded_sequence(wave({4, 3, 3}, 1), std::vector<int64_t>{2, 4, 3}));
  expect_near(sum(pad_packed_sequence(packed).first), {0.7732255506088972});
  EXPECT_EQ(h.shape(), (Shape{4, 3, 2}));
  expect_near(h,
              {1.1282405274375056, -0.9591414657389921, 0.8537833062886279, -0.6589911843483259,
               0.9444197254733973, -0.8305194996362381, 0.05394808198036306, 0.0354221124912488});
  EXPECT_EQ(c.shape(), (Shape{4, 3, 5}));
  expect_near(sum(c), {4.0151932254921086});
}

TEST(ProjectedLstm, NamesItsWeights) {
  LSTM lstm(3, 5, {.bidirectional = true, .proj_size = 2});
  const auto named = lstm.named_parameters();
  ASSERT_EQ(named.size(), 10u);
  EXPECT_EQ(named["weight_hr_l0"].shape(), (Shape{2, 5}));
  EXPECT_EQ(named["weight_hh_l0"].shape(), (Shape{20, 2}));
  EXPECT_EQ(named["weight_hr_l0_reverse"].shape(), (Shape{2, 5}));
  EXPECT_EQ(lstm.options(), "input_size=3, hidden_size=5, bidirectional=true, proj_size=2");
}

TEST(ProjectedLstm, RefusesSizes) {
  expect_error<ArgumentError>("proj_size is 5; 0, or at least 1 and less than hidden_size 5",
                              [] { LSTM(3, 5, {.proj_size = 5}); });
  expect_error<ArgumentError>("projected_lstm_test.cpp", [] { LSTM(3, 5, {.proj_size = -1}); });
  expect_error<ArgumentError>("GRU: the option .proj_size is one of LSTM",
                              [] { GRU(3, 5, {.proj_size = 2}); });
  const LSTM lstm(3, 5, {.proj_size = 2});
  expect_error<ShapeError>("h0 is [1, 2, 5], not [1, 2, 2]", [&] {
    lstm(ones({4, 2, 3}), zeros({1, 2, 5}), zeros({1, 2, 5}));
  });
}

}  // namespace
}  // namespace tapegrad::nn
