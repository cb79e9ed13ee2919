#include "tests/cases/op_case_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/autograd/derivatives.h"
#include "core/base/generator.h"
#include "core/tape/autocast.h"
#include "core/tape/view.h"

namespace tapegrad::testing {

bool Case::is_updated(size_t i) const {
  if (info_.traits.inplace && i == 0) return true;
  return i < info_.inputs.size() && info_.inputs[i].name.starts_with("running_");
}

bool Case::is_differentiable() const {
  if (traits().max_order == 0) return false;
  for (size_t i = 0; i < slots(); ++i)
    if (wants_gradient(i)) return true;
  return false;
}

std::vector<Tensor> Case::operands(DType dtype) const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < slots(); ++i)
    tensors.push_back(slot(i) ? make_operand(*slot(i), dtype, 17 + 31 * i) : Tensor());
  return tensors;
}

Arguments Case::arguments(const Variables& in) const {
  const auto list = in.begin() + std::ptrdiff_t(row_.inputs.size());
  return {{in.begin(), list}, {list, in.end()}, row_.attributes};
}

Variables Case::call(const Variables& in) const {
  Arguments arguments = this->arguments(in);
  for (size_t i = 0; i < arguments.inputs.size(); ++i)
    if (is_updated(i) && arguments.inputs[i].defined())
      arguments.inputs[i] = clone(arguments.inputs[i]);
  manual_seed(5);
  if (row_.before) {
    const detail::AutocastOff only_the_op;
    arguments.inputs = row_.before(std::move(arguments.inputs));
  }
  Variables results = info_.call(std::move(arguments));
  const detail::AutocastOff only_the_op;
  return row_.after ? row_.after(std::move(results)) : results;
}

Variables constants(const std::vector<Tensor>& tensors) {
  Variables variables;
  for (const Tensor& x : tensors)
    variables.push_back(x ? Variable(move_to(default_device(), x)) : Variable());
  return variables;
}

Variables leaves(const Case& c, const std::vector<Tensor>& tensors) {
  Variables variables = constants(tensors);
  for (size_t i = 0; i < variables.size(); ++i)
    if (c.wants_gradient(i) && is_float(variables[i].dtype())) variables[i].requires_grad_();
  return variables;
}

Results run(const Case& c, const std::vector<Tensor>& tensors, bool create_graph) {
  Results results;
  const Variables in = leaves(c, tensors);
  Variables xs, ys, seeds;
  for (const Variable& x : in)
    if (x.defined() && x.requires_grad()) xs.push_back(x);
  for (const Variable& y : c.call(in)) {
    results.values.push_back(y.value());
    if (!y.requires_grad()) continue;
    ys.push_back(y);
    const Tensor seed = make_operand({y.shape()}, f64, 99 + ys.size());
    seeds.push_back(Variable(seed.to(y.dtype()).to(y.device())));
  }
  if (ys.empty()) return results;
  const Variables gradients =
      grad(ys, xs, seeds, {.create_graph = create_graph, .allow_unused = true});
  for (size_t i = 0; i < xs.size(); ++i) {
    if (gradients[i].defined()) {
      EXPECT_EQ(gradients[i].shape(), xs[i].shape()) << "of the gradient";
      EXPECT_EQ(gradients[i].dtype(), xs[i].dtype()) << "of the gradient";
    }
    results.gradients.push_back(gradients[i].defined()
                                    ? gradients[i].value()
                                    : Tensor::full(xs[i].shape(), 0.0, xs[i].dtype()));
  }
  return results;
}

void expect_same(const Case& c, const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                 std::string_view what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    if (same_bits(got[k], expected[k])) continue;
    const double allowed = c.row().same_bits ? 0 : c.row().tolerance * epsilon(got[k].dtype());
    // The scale has a lower bound, since a sum that cancels leaves only rounding errors.
    const double scale = std::max(largest_magnitude(to_array(expected[k])), 1e-6);
    EXPECT_EQ(mismatch(to_array(got[k]), to_array(expected[k]), allowed, scale), "")
        << what << ' ' << k;
  }
}

namespace {

/// Kernels that CUDA lacks, and linear algebra. Ops that need them throw KernelError.
constexpr std::string_view kNotOnCuda[] = {"poisson", "multinomial", "ctc_loss",
                                           "fft",     "rfft",        "irfft"};

}  // namespace

bool is_missing(const KernelError& error) {
  const std::string_view text = error.what();
  const std::string_view kernel = text.substr(0, text.find(':'));
  return default_device().type == DeviceType::kCuda &&
         text.find(": no kernel for cuda") != text.npos &&
         (kernel.starts_with("linalg.") ||
          std::find(std::begin(kNotOnCuda), std::end(kNotOnCuda), kernel) != std::end(kNotOnCuda));
}

}  // namespace tapegrad::testing
