// Captured steps have the same results as the function: each case is recorded with some operands
// and repeated with others.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "core/autograd/derivatives.h"
#include "core/base/generator.h"
#include "tests/cases/op_case_run.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {
namespace {

/// Ops whose results have sizes that depend on the values, which differ between the calls.
constexpr std::string_view kOtherSizes[] = {"masked_scatter", "masked_select", "nonzero", "unique"};
/// Further ops whose host code reads values, or makes tensors of the caller's values. Some do so in
/// some cases only. A CUDA graph cannot contain these ops.
constexpr std::string_view kWaits[] = {
    "bincount", "cov",      "ctc_loss", "embedding_bag", "gaussian_nll_loss",
    "histc",    "quantile", "normal",   "tensor",        "uniform",
};
bool may_be_recorded(std::string_view op) {
  const auto is_one_of = [op](const auto& ops) {
    return std::ranges::find(ops, op) != std::end(ops);
  };
  if (is_one_of(kOtherSizes) || op == "at" || op == "linalg.matrix_exp") return false;
  if (default_device().type == DeviceType::kCpu) return true;
  return !op.starts_with("linalg.") && !is_one_of(kWaits);
}

/// On a GPU, kernels that run on the CPU end a recording, and so do ops that make a table of
/// positions on the host: interpolate and the three-dimensional convolutions.
bool copies_between_devices(std::string_view reason) {
  return default_device().type != DeviceType::kCpu && reason.find("copied") != reason.npos;
}

/// Returns the values of the case and its gradients for the seeds, which follow the operands.
Variables step_of(const Case& c, GraphedStep::Inputs given) {
  Variables in(given.begin(), given.begin() + std::ptrdiff_t(c.slots()));
  Variables xs, ys, seeds;
  for (size_t i = 0; i < in.size(); ++i) {
    if (c.slot(i) == nullptr) in[i] = Variable();
    if (!c.wants_gradient(i) || !is_float(in[i].dtype())) continue;
    in[i] = in[i].detach().requires_grad_();
    xs.push_back(in[i]);
  }
  Variables results = c.call(in);
  size_t next = c.slots();
  for (const Variable& y : results)
    if (y.requires_grad()) {
      ys.push_back(y);
      seeds.push_back(given[next++]);
    }
  if (ys.empty()) return results;
  for (Variable& gradient : grad(ys, xs, seeds, {.allow_unused = true}))
    results.push_back(std::move(gradient));
  return results;
}

/// Operands for the step: those of the case from another seed, then seeds of the gradients.
Variables inputs_of(const Case& c, DType dtype, uint64_t seed) {
  Variables inputs;
  for (size_t i = 0; i < c.slots(); ++i)
    inputs.push_back(
        c.slot(i) != nullptr
            ? Variable(move_to(default_device(), make_operand(*c.slot(i), dtype, seed + 31 * i)))
            : Variable(Tensor::full({}, 0, f32, default_device())));
  uint64_t number = 0;
  std::vector<Tensor> operands;
  for (size_t i = 0; i < c.slots(); ++i)
    operands.push_back(c.slot(i) != nullptr ? inputs[i].value() : Tensor());
  for (const Variable& y : c.call(leaves(c, operands)))
    if (y.requires_grad())
      inputs.push_back(Variable(make_operand({y.shape()}, f64, seed + 1000 + ++number)
                                    .to(y.dtype())
                                    .to(default_device())));
  return inputs;
}

}  // namespace

void test_recorded(const Case& c) {
  for (DType dtype : c.row().dtypes) {
    SCOPED_TRACE(name(dtype));
    GraphedStep step([&](GraphedStep::Inputs inputs) { return step_of(c, inputs); }, {},
                     {.warmup = 1});
    for (uint64_t seed : {17, 18, 19}) {
      Variables expected, got;
      const Variables inputs = inputs_of(c, dtype, seed);
      const auto attempt = [&](const auto& call) -> Variables {
        manual_seed(5);
        try {
          return call();
        } catch (const ArgumentError&) {  // values that the op does not take
          return {};
        }
      };
      expected = attempt([&] { return step_of(c, inputs); });
      got = attempt([&] { return step.run_all(inputs); });
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].defined(), expected[i].defined());
        if (!got[i].defined() || c.row().op.starts_with("empty")) continue;
        EXPECT_TRUE(same_bits(got[i].value(), expected[i].value())) << "result " << i;
      }
    }
    if (may_be_recorded(c.row().op) && !copies_between_devices(step.reason())) {
      EXPECT_TRUE(step.is_graphed()) << step.reason();
    }
  }
}

}  // namespace tapegrad::testing
