// Optimizer steps on a GPU that update many parameters in one launch.
#include "optim/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "core/autograd/sparse_gradient.h"
#include "core/base/error.h"
#include "core/dispatch/dispatch_log.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/adam_variants.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "train/graphed_step.h"

namespace tapegrad {
namespace {

using Params = std::vector<Variable>;
using Values = std::vector<std::vector<double>>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(const Params&)>;

const std::pair<const char*, Make> kOptimizers[] = {
    {"SGD", [](const Params& p) { return std::make_unique<optim::SGD>(p, 0.1); }},
    {"SGD with momentum",
     [](const Params& p) {
       return std::make_unique<optim::SGD>(
           p,
           optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
     }},
    {"Adam",
     [](const Params& p) {
       return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 0.01, .amsgrad = true});
     }},
    {"AdamW", [](const Params& p) { return std::make_unique<optim::AdamW>(p, 0.01); }},
    {"Adagrad",
     [](const Params& p) {
       return std::make_unique<optim::Adagrad>(p, optim::AdagradOptions{.lr_decay = 0.1});
     }},
    {"RMSprop",
     [](const Params& p) {
       return std::make_unique<optim::RMSprop>(
           p, optim::RMSpropOptions{.lr = 0.01, .momentum = 0.5, .centered = true});
     }},
    {"Adadelta", [](const Params& p) { return std::make_unique<optim::Adadelta>(p, 1.0); }},
    {"NAdam",
     [](const Params& p) {
       return std::make_unique<optim::NAdam>(
           p, optim::NAdamOptions{.lr = 0.01, .weight_decay = 0.1, .decoupled_weight_decay = true});
     }},
    {"RAdam",
     [](const Params& p) {
       return std::make_unique<optim::RAdam>(
           p, optim::RAdamOptions{.lr = 0.01, .betas = {0.8, 0.9}, .weight_decay = 0.1});
     }},
    {"Adamax", [](const Params& p) { return std::make_unique<optim::Adamax>(p, 0.01); }},
    {"Rprop", [](const Params& p) { return std::make_unique<optim::Rprop>(p, 0.01); }},
    {"ASGD",
     [](const Params& p) {
       return std::make_unique<optim::ASGD>(
           p, optim::ASGDOptions{.lr = 0.1, .lambd = 0.01, .t0 = 1, .weight_decay = 0.1});
     }},
};

/// More parameters than one launch takes; some with several pieces, with one element and with none.
Params make_params() {
  manual_seed(4);
  Params params;
  const auto add = [&](int64_t size, DType dtype) {
    params.push_back(randn({size}, {.dtype = dtype, .device = gpu}).requires_grad_());
  };
  for (const int64_t size : {5000, 0, 2048, 1, 2049, 4096}) add(size, f32);
  for (const int64_t size : {300, 5}) add(size, bf16);
  add(40, f64);
  for (int64_t i = 0; i < 110; ++i) add(i % 7 + 1, f32);
  return params;
}

Params copies_on_cpu(const Params& params) {
  Params copies;
  for (const Variable& p : params) copies.push_back(p.detach().to(cpu).requires_grad_());
  return copies;
}

/// Gives gradients to the parameters for which `wants` returns true.
template <typename Wants>
void give_gradients(const Params& params, const Wants& wants) {
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].zero_grad();
    if (!wants(i)) continue;
    const Variable& p = params[i];
    sum(p * randn(p.shape(), {.device = gpu}).to(p.dtype())).backward();
  }
}

Values values_of(const Params& params) {
  Values values;
  for (const Variable& p : params) values.push_back(p.to(f64).to_vector<double>());
  return values;
}

TEST(CudaOptimizers, ManyParametersTogetherAreTheBitsOfEachAlone) {
  for (const auto& [name, make] : kOptimizers) {
    SCOPED_TRACE(name);
    const auto train = [&, &make = make](bool together) {
      const Params params = make_params();
      std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
      if (together)
        optimizers.push_back(make(params));
      else
        for (const Variable& p : params) optimizers.push_back(make({p}));
      for (int step = 0; step < 3; ++step) {  // in the second step some have no gradient
        give_gradients(params, [&](size_t i) { return step != 1 || i % 3 != 0; });
        for (const auto& optimizer : optimizers) optimizer->step();
      }
      return values_of(params);
    };
    EXPECT_EQ(train(true), train(false));
  }
}

TEST(CudaOptimizers, AreOneCallForNeighboursOfOneType) {
  const Params params = make_params();
  optim::AdamW adam(params, 0.01);
  give_gradients(params, [](size_t) { return true; });
  const DispatchLog log;
  adam.step();
  EXPECT_EQ(log.calls("adam_step"), 4);  // float32, bfloat16, float64, float32
}

TEST(CudaOptimizers, AScalerDividesNeighboursOfOneTypeTogether) {
  const Params params = make_params();
  optim::SGD sgd(params, 0.1);
  optim::GradScaler scaler({.init_scale = 8});
  const auto backward = [&](double last) {
    for (const Variable& p : params) {
      p.zero_grad();
      scaler.scale(sum(p * (p.is_same(params.back()) ? last : 2.0))).backward();
    }
  };
  backward(2);
  {
    const DispatchLog log;
    scaler.unscale_(sgd);
    EXPECT_EQ(log.calls("unscale"), 4);
  }
  for (const Variable& p : params)
    for (const double value : p.grad().to(f64).to_vector<double>()) EXPECT_EQ(value, 2);
  EXPECT_TRUE(scaler.step(sgd));
  scaler.update();
  backward(INFINITY);
  EXPECT_FALSE(scaler.step(sgd));
}

TEST(CudaOptimizers, ClippingTakesNeighboursOfOneTypeTogether) {
  for (const double p : {2.0, 1.0, 3.0, double(INFINITY)})
    for (const double max_norm : {0.5, 1e9}) {
      const Params params = make_params(), on_cpu = copies_on_cpu(params);
      const auto clip = [&](const Params& some) {
        manual_seed(6);
        for (const Variable& param : some) {
          param.zero_grad();
          sum(param * randn(param.shape(), {.dtype = param.dtype(), .device = param.device()}))
              .backward();
        }
        return optim::clip_grad_norm_(some, max_norm, p);
      };
      const double expected = clip(on_cpu);
      const DispatchLog log;
      EXPECT_NEAR(clip(params), expected, 1e-5 * expected) << p;
      EXPECT_EQ(log.calls("add_powers"), 4);  // float32, bfloat16, float64, float32
      EXPECT_EQ(log.calls("scale_gradients"), max_norm < 1 ? 4 : 0);
      for (size_t i = 0; i < params.size(); ++i) {
        const auto got = params[i].grad().to(f64).to_vector<double>();
        const auto want = on_cpu[i].grad().to(f64).to_vector<double>();
        const double tolerance = params[i].dtype() == bf16 ? 1e-2 : 1e-5;
        for (size_t k = 0; k < want.size(); ++k)
          ASSERT_NEAR(got[k], want[k], tolerance * std::abs(want[k])) << p << ' ' << i << ' ' << k;
      }
    }
}

TEST(CudaOptimizers, StepsAreThoseOfTheCpu) {
  for (const auto& [name, make] : kOptimizers) {
    SCOPED_TRACE(name);
    const Params params = make_params(), on_cpu = copies_on_cpu(params);
    const auto optimizer = make(params), optimizer_on_cpu = make(on_cpu);
    for (int step = 0; step < 9; ++step) {
      give_gradients(params, [](size_t) { return true; });
      for (size_t i = 0; i < params.size(); ++i) {
        on_cpu[i].zero_grad();
        sum(on_cpu[i] * params[i].grad().detach().to(cpu)).backward();
      }
      optimizer->step();
      optimizer_on_cpu->step();
    }
    EXPECT_EQ(values_of(params), values_of(on_cpu));
  }
}

TEST(CudaOptimizers, ClippingValuesTakesNeighboursOfOneTypeTogether) {
  const Params params = make_params();
  give_gradients(params, [](size_t i) { return i % 3 != 1; });
  const Variable weights = where(params[0].detach() > 1.0, NAN, params[0].detach());
  params[0].zero_grad();
  sum(params[0] * weights).backward();
  Params expected;
  for (const Variable& p : params)
    expected.push_back(p.grad().defined() ? clamp(p.grad().detach().to(cpu), -0.25, 0.25)
                                          : Variable());
  const DispatchLog log;
  optim::clip_grad_value_(params, 0.25);
  EXPECT_EQ(log.calls("clamp_gradients"), 4);  // float32, bfloat16, float64, float32
  EXPECT_EQ(log.calls("clamp"), 0);
  for (size_t i = 0; i < params.size(); ++i)
    if (expected[i].defined()) {
      const CloseOptions exactly{.rtol = 0, .atol = 0, .equal_nan = true};
      EXPECT_TRUE(allclose(params[i].grad().to(cpu), expected[i], exactly)) << i;
    }
}

TEST(CudaOptimizers, ClippingSeesNan) {
  for (const double p : {2.0, double(INFINITY)}) {
    const Variable x = zeros({5000}, {.device = gpu}).requires_grad_();
    Variable factors = ones({5000}, {.device = gpu});
    select(factors, 0, 4000).fill_(NAN);
    sum(x * factors).backward();
    EXPECT_TRUE(std::isnan(optim::clip_grad_norm_({x}, 1.0, p)));
    EXPECT_THROW(optim::clip_grad_norm_({x}, 1.0, p, /*error_if_nonfinite=*/true), ArgumentError);
  }
}

TEST(CudaOptimizers, AGraphCountsTheStepsOfEachParameter) {
  for (const auto& [name, make] : kOptimizers) {
    SCOPED_TRACE(name);
    const auto train = [&, &make = make](bool graph) {
      const Params params = make_params();
      const auto optimizer = make(params);
      manual_seed(8);
      GraphedStep step(
          [&](const Variable& x) {
            optimizer->zero_grad();
            Variable loss = zeros({}, {.device = gpu});
            for (size_t i = 0; i < 8; ++i) loss = loss + sum(square(params[i].to(f32)) * x);
            loss.backward();
            optimizer->step();
            return loss;
          },
          {}, {.enabled = graph});
      const Variable x = full({}, 0.5, {.device = gpu});
      for (int i = 0; i < 8; ++i) {
        if (i % 3 == 2) {  // a step of some parameters outside of the graph
          give_gradients(params, [](size_t p) { return p % 2 == 0; });
          optimizer->step();
          optimizer->zero_grad();
        }
        step(x);
      }
      EXPECT_EQ(step.is_graphed(), graph) << step.reason();
      return values_of(params);
    };
    EXPECT_EQ(train(true), train(false));
  }
}

TEST(CudaOptimizers, StepsByRowsAreThoseOfTheCpu) {
  using optim::Optimizer;
  const std::function<std::unique_ptr<Optimizer>(const Params&)> makers[] = {
      [](const Params& p) { return std::make_unique<optim::SGD>(p, 0.1); },
      [](const Params& p) { return std::make_unique<optim::Adagrad>(p, 0.1); },
      [](const Params& p) { return std::make_unique<optim::SparseAdam>(p, 0.1); }};
  for (const auto& make : makers) {
    const auto train = [&](Device device) {
      manual_seed(3);
      const Variable table = randn({20, 4}, {.device = device}).requires_grad_();
      const auto optimizer = make({table});
      for (int step = 0; step < 3; ++step) {
        optimizer->zero_grad();
        const Variable ids = randint(0, 20, {12}, {.device = device});
        sum(square(embedding(ids, table, /*padding_idx=*/{}, /*sparse=*/true))).backward();
        EXPECT_NE(row_gradient(table), nullptr);
        optimizer->step();
      }
      return table.to_vector<double>();
    };
    const std::vector<double> expected = train(cpu), got = train(gpu);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
  }
}

TEST(CudaOptimizers, AStepByRowsIsNotRecorded) {
  const auto train = [&](bool graphed) {
    manual_seed(3);
    const Variable table = randn({20, 4}, {.device = gpu}).requires_grad_();
    optim::SparseAdam optimizer({table}, 0.1);
    const auto call = [&](const Variable& ids) {
      optimizer.zero_grad();
      const Variable loss = sum(square(embedding(ids, table, {}, /*sparse=*/true)));
      loss.backward();
      optimizer.step();
      return loss;
    };
    GraphedStep step(call, {}, {.enabled = graphed});
    for (int i = 0; i < 8; ++i) step(randint(0, 20, {12}, {.device = gpu}));
    EXPECT_EQ(step.reason().find("rows") != std::string::npos, graphed) << step.reason();
    return table.to_vector<double>();
  };
  EXPECT_EQ(train(true), train(false));
}

}  // namespace
}  // namespace tapegrad
