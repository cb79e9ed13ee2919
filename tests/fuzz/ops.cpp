// Calls of the catalog's ops: rows of the case table with shapes, attributes, dtypes and layouts
// changed by the input bytes. The result must always be a value or an error of the library, and
//
//   operands   a call changes none of its inputs, unless the op is in place
//   layouts    strided inputs give the values and gradients of contiguous ones: equal bits for
//              elementwise ops, nearly equal values for other ops
//   dtypes     float32 results are close to float64 results
//   gradients  have the shape and dtype of their inputs
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <set>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "tests/fuzz/call.h"
#include "tests/fuzz/fuzz.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using fuzz::Call;
using Variables = std::vector<Variable>;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Results {
  bool failed = false, out_of_memory = false;
  std::vector<Tensor> values, gradients;
};

/// Runs the call on these inputs; returns the results, and the gradients of the sum of their
/// elements.
Results run(const Call& call, const std::vector<Tensor>& tensors) {
  constexpr int64_t kMemory = int64_t(32) << 20;  // larger results take longer and find no more
  Variables in;
  for (const Tensor& x : tensors) in.push_back(x ? Variable(x) : Variable());
  Results results;
  set_memory_limit(memory_stats().in_use + kMemory);
  try {
    Variables leaves;
    if (!call.writes())
      for (Variable& x : in)
        if (x.defined() && is_float(x.dtype())) leaves.push_back(x.requires_grad_());
    manual_seed(5);
    Variables ys, seeds;
    const Variables all = call.run(in);
    for (const Variable& y : all) {
      if (!y.defined()) continue;
      results.values.push_back(y.value());
      if (!y.requires_grad()) continue;
      ys.push_back(y);
      seeds.emplace_back(Tensor::full(y.shape(), 1.0, y.dtype()));
    }
    const Variables found =
        ys.empty() ? Variables(leaves.size()) : grad(ys, leaves, seeds, {.allow_unused = true});
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (found[i].defined() &&
          (found[i].shape() != leaves[i].shape() || found[i].dtype() != leaves[i].dtype()))
        fuzz::finding(call.text() + ": a gradient of another shape or dtype");
      results.gradients.push_back(found[i].defined()
                                      ? found[i].value()
                                      : Tensor::full(leaves[i].shape(), 0.0, leaves[i].dtype()));
    }
  } catch (const OutOfMemory&) {
    results.failed = results.out_of_memory = true;
  } catch (const Error&) {
    results.failed = true;
  } catch (const std::exception& error) {
    fuzz::finding(call.text() + ": not an error of the library: " + error.what());
  }
  set_memory_limit(-1);
  return results;
}

/// Ops that are discontinuous, so that a rounding error may change the result, or that amplify
/// rounding errors without bound.
bool jumps(const std::string& op) {
  static const std::set<std::string, std::less<>> all = {
      "floor_divide", "remainder", "fmod",     "histc",       "quantile", "grid_sample",
      "affine_grid",  "arange",    "linspace", "interpolate", "tan",      "isclose",
      "allclose",     "pow",       "rms_norm", "normalize",   "corrcoef"};
  return all.contains(op) || op.starts_with("linalg.") || op.find("cholesky") != op.npos ||
         op.find("triangular") != op.npos;
}

/// Ops that use the same weights at every step, so that each step amplifies rounding errors.
bool recurs(const std::string& op) {
  return op == "lstm" || op == "gru" || op == "rnn_tanh" || op == "rnn_relu";
}

/// Returns the largest difference, in the unit and scale of expect_close.
double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double unit) {
  double most = 0, scale = 1;
  for (size_t k = 0; k < a.size(); ++k) {
    Array x = to_array(a[k]), y = to_array(b[k]);
    scale = std::max(scale, largest_magnitude(x));
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] -= y.values[i];
    most = std::max(most, largest_magnitude(x));
  }
  return most / (unit * scale);
}

/// Returns the largest magnitude of the results; infinity if a result is not finite.
double largest(const Results& results) {
  double most = 0;
  for (const auto& list : {results.values, results.gradients})
    for (const Tensor& y : list)
      for (double value : to_array(y).values)
        most = std::max(most, std::isfinite(value) ? std::abs(value) : kInf);
  return most;
}

/// Additional tolerance for values and gradients of a recurrence.
struct Growth {
  double values = 0, gradients = 0;
};

/// Measures how much a recurrence amplifies rounding errors. A step multiplies an error by up to
/// the norm of its weights, but by less where tanh and the gates are flat; the product of the norms
/// (about 30^8 for eight steps of 33 drawn rows) would be a useless bound. Rounding errors act like
/// changes of the weights (different at every step) and of the other inputs by about an epsilon.
/// The growth is therefore measured as the effect of random changes of this size on the float64
/// results. Of 25,000 results none was further from float64 than 1.7 times the largest effect of
/// four changes. Returns nothing if memory is exhausted, or near the end of a dtype's range, where
/// the order of a sum decides between inf and NaN.
std::optional<Growth> growth(const Call& call, const std::vector<Tensor>& dense) {
  constexpr int kChanges = 4;
  constexpr double kMargin = 8;
  if (!recurs(call.row().op)) return Growth();
  double unit = 0;
  std::vector<Tensor> exact;
  for (const Tensor& x : dense) {
    if (x) unit = std::max(unit, epsilon(x.dtype()));
    exact.push_back(x ? x.to(f64) : x);
  }
  const Results expected = run(call, exact);
  const double end = unit == epsilon(f16)   ? 65504.0
                     : unit == epsilon(f64) ? std::numeric_limits<double>::max()
                                            : std::numeric_limits<float>::max();
  if (expected.failed || largest(expected) > end / 1000) return {};
  Growth most;
  std::mt19937 bits(11);
  for (int change = 0; change < kChanges; ++change) {
    std::vector<Tensor> changed = exact;
    for (Tensor& x : changed) {
      if (!x) continue;
      Array array = to_array(x);
      for (double& value : array.values) value *= bits() % 2 == 0 ? 1 + unit : 1 - unit;
      x = Tensor::from<double>(array.values, x.shape());
    }
    const Results got = run(call, changed);
    if (got.failed) return {};
    most.values = std::max(most.values, difference(expected.values, got.values, unit));
    most.gradients = std::max(most.gradients, difference(expected.gradients, got.gradients, unit));
  }
  return Growth{kMargin * most.values, kMargin * most.gradients};
}

/// Expects results that are close, for computations in about the same order. Where rounding errors
/// are amplified, for example by a nearly singular matrix, large results raise the tolerance.
void expect_close(const Call& call, const std::vector<Tensor>& got,
                  const std::vector<Tensor>& expected, double tolerance, const std::string& what) {
  if (got.size() != expected.size()) fuzz::finding(call.text() + ", " + what + ": other results");
  double scale = 1;
  for (const Tensor& y : expected) scale = std::max(scale, largest_magnitude(to_array(y)));
  for (size_t k = 0; k < got.size(); ++k) {
    const double allowed = tolerance * (jumps(call.row().op) ? scale : 1) *
                           std::max(epsilon(got[k].dtype()), epsilon(expected[k].dtype()));
    if (allowed == 0 && got[k].dtype() == expected[k].dtype()) {
      if (!same_bits(got[k], expected[k]))
        fuzz::finding(call.text() + ", " + what + ": other bits");
      continue;
    }
    const std::string fault = mismatch(to_array(got[k]), to_array(expected[k]), allowed, scale);
    if (!fault.empty())
      fuzz::finding(call.text() + ", " + what + ' ' + std::to_string(k) + ": " + fault);
  }
}

void check_layouts(const Call& call, const std::vector<Tensor>& dense, const Results& plain,
                   const Growth& growth, fuzz::Choices& choices) {
  std::vector<Tensor> strided = dense;
  std::string arranged;
  for (size_t i = 0; i < dense.size(); ++i) {
    const size_t which = choices.below(6);
    if (!dense[i] || which > 3 || (call.writes() && i == 0)) continue;
    if (Tensor x = arrange(dense[i], kArrangements[which])) {
      strided[i] = std::move(x);
      arranged += ' ' + std::to_string(i) + " is " + name(kArrangements[which]);
    }
  }
  const Results got = run(call, strided);
  if (got.out_of_memory) return;
  if (got.failed) {
    if (call.row().op == "view") return;  // view is an error for most layouts
    fuzz::finding(call.text() + ',' + arranged + ": an error, which contiguous inputs are not");
  }
  const double tolerance = call.row().same_bits ? 0 : 4 * call.row().tolerance;
  expect_close(call, got.values, plain.values, tolerance + growth.values, arranged + ": result");
  expect_close(call, got.gradients, plain.gradients, tolerance + growth.gradients,
               arranged + ": gradient");
}

/// Returns whether an attribute is a number outside of the range of float32.
bool overflows_float(const Attributes& attributes) {
  return std::any_of(attributes.begin(), attributes.end(), [](const auto& attribute) {
    const auto* value = std::get_if<double>(&attribute.second);
    return value && std::isfinite(*value) && std::abs(*value) > std::numeric_limits<float>::max();
  });
}

void check_dtypes(const Call& call, const std::vector<Tensor>& dense, const Results& plain,
                  const Growth& growth) {
  if (call.is_random() || jumps(call.row().op) || overflows_float(call.row().attributes)) return;
  std::vector<Tensor> wide = dense;
  for (Tensor& x : wide) {
    if (!x || !is_float(x.dtype())) continue;
    if (x.dtype() != f32) return;
    x = x.to(f64);
  }
  const Results expected = run(call, wide);
  if (expected.failed) return;
  for (const Tensor& y : expected.values)
    if (!is_float(y.dtype()) || largest_magnitude(to_array(y)) > 1e6)
      return;  // rounding decides the result
  const double tolerance = std::max(200.0, 10 * call.row().tolerance);
  expect_close(call, plain.values, expected.values, tolerance + growth.values,
               "against float64: result");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Choices choices(data, size);
  const Call call = fuzz::make_call(choices);
  const std::vector<Tensor> dense = call.operands();
  std::vector<Tensor> before;
  for (const Tensor& x : dense) before.push_back(x ? x.clone() : x);
  const Results plain = run(call, dense);
  if (!call.writes())
    for (size_t i = 0; i < dense.size(); ++i)
      if (dense[i] && !same_bits(dense[i], before[i]))
        fuzz::finding(call.text() + ": input " + std::to_string(i) + " was changed");
  if (plain.failed || call.writes() || !call.has_values()) return 0;
  const std::optional<Growth> grown = growth(call, dense);
  if (!grown) return 0;
  check_layouts(call, dense, plain, *grown, choices);
  check_dtypes(call, dense, plain, *grown);
  return 0;
}
