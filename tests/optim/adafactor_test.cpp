// Adafactor, compared with values that PyTorch 2.15 printed in float64.
#include "optim/adafactor.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "nn/linear.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::optim {
namespace {

using Doubles = std::vector<double>;

/// Three steps for a parameter of sines; the third is made by an optimizer that continues.
void expect_path(const Shape& shape, const AdafactorOptions& options, const Doubles& expected) {
  const int64_t n = int64_t(expected.size());
  const Variable w = sin(0.7 * arange(n, f64)).view(shape).detach().requires_grad_();
  const Variable target = arange(n, f64).view(shape);
  const Variable weights = linspace(0.5, 1.5, n, f64).view(shape);
  const auto take = [&](Optimizer& opt, int steps) {
    for (int i = 0; i < steps; ++i) {
      opt.zero_grad();
      sum(square(w - target) * weights).backward();
      opt.step();
    }
  };
  Adafactor first({w}, options);
  take(first, 2);
  Adafactor second({w}, options);
  second.load_state_dict(first.state_dict());
  take(second, 1);
  const Doubles values = w.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-13) << i;
}

TEST(Adafactor, GivesPyTorchsValues) {
  expect_path({3, 2}, {},
              {0.0, 0.6659397585315037, 0.9991057331417482, 0.8836121615696478, 0.35426897151420955,
               -0.3319456792548993});
  expect_path({2, 2, 2},
              {.lr = 0.3, .beta2_decay = -0.5, .eps = {1e-2, 0.05}, .d = 1.5, .weight_decay = 0.1},
              {0.0, 0.9841785041256456, 1.5129797292286349, 1.4274742312174684, 0.8694350989589769,
               0.3729256690854375, -0.12362025647791976, -0.2539519188264623});
  expect_path({5}, {.lr = 0.05, .weight_decay = 0.2},
              {0.0, 0.7241067580154432, 1.0578395854656812, 0.939775557018319, 0.4274009947570059});
  expect_path({2, 3}, {.lr = 0.1, .maximize = true},
              {0.0, 0.545349975397362, 0.7749963312454907, 0.6827709968532699, 0.15563725435883152,
               -0.5288025074110371});
  expect_path({4}, {.lr = 2.0, .eps = {1e-8, 1.0}, .d = 2.0},
              {0.0, 1.4024741102342388, 1.990835600120176, 2.9127996205251625});
}

TEST(Adafactor, StateOfAMatrixIsARowAndAColumn) {
  nn::Linear layer(8, 4);
  Adafactor opt(layer, 0.01);
  sum(square(layer(ones({2, 8})))).backward();
  opt.step();
  const TensorMap state = opt.state_dict();
  EXPECT_EQ(state.at("state.0.row_var").shape(), Shape({4, 1}));
  EXPECT_EQ(state.at("state.0.col_var").shape(), Shape({1, 8}));
  EXPECT_FALSE(state.contains("state.0.variance"));
  EXPECT_EQ(state.at("state.1.variance").shape(), Shape({4}));
  EXPECT_FALSE(state.contains("state.1.row_var"));
}

TEST(Adafactor, SixteenBitParametersKeepStateInFloat32) {
  const Variable w = ones({2, 3}, bf16).requires_grad_(), none = zeros({0, 3}).requires_grad_();
  Adafactor opt({w, none}, 0.1);
  (sum(w * w) + sum(none)).backward();
  opt.step();
  EXPECT_EQ(opt.state()[0].dtype(), f32);
  EXPECT_EQ(w.dtype(), bf16);
  EXPECT_LT(w.to_vector<float>()[0], 1);
}

TEST(Adafactor, StateOfAParameterWithAnotherShapeStartsAnew) {
  Variable w = ones({2, 3}).requires_grad_();
  Adafactor opt({w}, 0.1);
  sum(w * w).backward();
  opt.step();
  w.set_data(ones({4, 5}));
  w.zero_grad();
  sum(w * w).backward();
  opt.step();
  EXPECT_EQ(opt.state_dict().at("state.0.row_var").shape(), Shape({4, 1}));
  EXPECT_EQ(opt.state_dict().at("state.0.step").number().to<int64_t>(), 1);
}

TEST(Adafactor, Refuses) {
  const Variable w = ones({2, 3}).requires_grad_();
  EXPECT_THROW(Adafactor({w}, {.beta2_decay = 0.5}), ArgumentError);
  EXPECT_THROW(Adafactor({w}, {.eps = {-1, 1e-3}}), ArgumentError);
  EXPECT_THROW(Adafactor({w}, {.eps = {1e-3, -1}}), ArgumentError);
  EXPECT_THROW(Adafactor({w}, {.d = 0.5}), ArgumentError);
  Adafactor opt({w});
  sum(w * w).backward();
  opt.step();
  TensorMap state = opt.state_dict();
  state["state.0.row_var"] = ones({2, 3}, f32).value();
  EXPECT_THROW(opt.load_state_dict(state), ArgumentError);
}

}  // namespace
}  // namespace tapegrad::optim
