// Muon, compared with values that PyTorch 2.15 printed in float64, with its conversion to bfloat16
// replaced by one to float64.
#include "optim/muon.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "nn/linear.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::optim {
namespace {

using Doubles = std::vector<double>;

/// Three steps for a matrix of sines; the third is made by an optimizer that continues.
void expect_path(int64_t rows, int64_t columns, const MuonOptions& options,
                 const Doubles& expected) {
  const Variable w =
      sin(0.7 * arange(rows * columns, f64)).view({rows, columns}).detach().requires_grad_();
  const Variable target = arange(columns, f64), weights = linspace(0.5, 1.5, rows, f64);
  const auto take = [&](Optimizer& opt, int steps) {
    for (int i = 0; i < steps; ++i) {
      opt.zero_grad();
      sum(square(w - target) * unsqueeze(weights, 1)).backward();
      opt.step();
    }
  };
  Muon first({w}, options);
  take(first, 2);
  Muon second({w}, options);
  second.load_state_dict(first.state_dict());
  take(second, 1);
  const Doubles values = w.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-10) << i;
}

TEST(Muon, GivesPyTorchsValues) {
  expect_path(3, 2, {},
              {0.00017003880647367402, 0.644301804263859, 0.9813557987597341, 0.8622225217365548,
               0.3348192811226496, -0.34800039521251097});
  expect_path(2, 3,
              {.lr = 0.05,
               .weight_decay = 0.2,
               .momentum = 0.8,
               .nesterov = false,
               .adjust_lr_fn = "match_rms_adamw"},
              {0.03584351788526134, 0.6369460306557876, 0.9707913362843815, 0.8210602805632405,
               0.3328633614389586, -0.3093837032631785});
  expect_path(3, 2, {.lr = 0.1, .ns_coefficients = {2, -1.5, 0.5}, .ns_steps = 3},
              {0.01409735381255925, 0.6620569810914796, 0.5951498168517633, 0.7952024032116909,
               0.28116686305925404, 0.019043828796167006});
}

TEST(Muon, TrainsMatricesBesideAnotherOptimizer) {
  manual_seed(1);
  nn::Linear layer(8, 4);
  const Variable x = randn({32, 8}), y = matmul(x, randn({8, 4}));
  Muon muon({layer.weight}, 0.05);
  double first = 0, last = 0;
  for (int i = 0; i < 100; ++i) {
    muon.zero_grad();
    const Variable loss = mean(square(layer(x) - y));
    loss.backward();
    muon.step();
    (i == 0 ? first : last) = loss.item();
  }
  EXPECT_LT(last, 0.2 * first);
}

TEST(Muon, SixteenBitParametersKeepStateInFloat32) {
  const Variable w = ones({2, 3}, f16).requires_grad_();
  Muon muon({w}, 0.1);
  sum(w * w).backward();
  muon.step();
  EXPECT_EQ(muon.state()[0].dtype(), f32);
  EXPECT_EQ(w.dtype(), f16);
  EXPECT_LT(w.to_vector<float>()[0], 1);
}

TEST(Muon, Refuses) {
  const Variable w = ones({2, 3}).requires_grad_(), bias = ones({3}).requires_grad_();
  EXPECT_THROW(Muon({w, bias}), ArgumentError);
  EXPECT_THROW(Muon({w}, {.momentum = 1.5}), ArgumentError);
  EXPECT_THROW(Muon({w}, {.ns_steps = 0}), ArgumentError);
  EXPECT_THROW(Muon({w}, {.eps = -1}), ArgumentError);
  EXPECT_THROW(Muon({w}, {.adjust_lr_fn = "spectral"}), ArgumentError);
  Muon muon({w});
  EXPECT_THROW(muon.add_param_group({.params = {bias}}), ArgumentError);
}

}  // namespace
}  // namespace tapegrad::optim
