// Rows of the case table with random shapes, attributes, dtypes and layouts (drawn_cases.h):
//
//   values     equal those of plain loops in float64; exactly for linear ops
//   gradients  along a random direction equal finite differences
//   again      gradients of the gradients do so too
#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/reduce.h"
#include "tests/cases/drawn_cases.h"
#include "tests/cases/operand.h"
#include "tests/fuzz/call.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Variables = std::vector<Variable>;
using Tensors = std::vector<Tensor>;

/// A drawn row with its operands and a description.
class Drawn {
 public:
  Drawn(const OpCase& row, fuzz::Choices& choices)
      : row_(row), info_(catalog().find(row.op)), dtype_(choices.of(row.dtypes)) {
    seed_ = choices.below(65536);
    for (const auto& input : row.inputs) slots_.push_back(input ? &*input : nullptr);
    for (const Input& input : row.list) slots_.push_back(&input);
    for (size_t i = 0; i < slots_.size(); ++i) arrangements_.push_back(choices.below(6));
  }

  DType dtype() const { return dtype_; }
  size_t slots() const { return slots_.size(); }
  bool wants_gradient(size_t i) const {
    return slots_[i] && slots_[i]->grad && slots_[i]->fill != Fill::kBool &&
           slots_[i]->fill != Fill::kIndices;
  }
  bool is_differentiable() const {
    if (info_.traits.max_order == 0 || !is_float(dtype_)) return false;
    for (size_t i = 0; i < slots(); ++i)
      if (wants_gradient(i)) return true;
    return false;
  }
  int max_order() const { return info_.traits.max_order; }

  Tensors operands(DType dtype) const {
    Tensors all;
    for (size_t i = 0; i < slots(); ++i)
      all.push_back(slots_[i] ? make_operand(*slots_[i], dtype, seed_ + 31 * i) : Tensor());
    return all;
  }
  /// Returns the tensors in the drawn layouts; dense if the layout does not exist.
  Tensors arranged(Tensors all) const {
    for (size_t i = 0; i < slots(); ++i)
      if (all[i] && arrangements_[i] < 4)
        if (Tensor x = arrange(all[i], kArrangements[arrangements_[i]])) all[i] = std::move(x);
    return all;
  }

  Variables call(const Variables& in) const {
    const auto list = in.begin() + std::ptrdiff_t(row_.inputs.size());
    Arguments arguments{{in.begin(), list}, {list, in.end()}, row_.attributes};
    for (size_t i = 0; i < arguments.inputs.size() && i < info_.inputs.size(); ++i)
      if (info_.inputs[i].name.starts_with("running_") && arguments.inputs[i].defined())
        arguments.inputs[i] = clone(arguments.inputs[i]);
    if (row_.before) arguments.inputs = row_.before(std::move(arguments.inputs));
    Variables results = info_.call(std::move(arguments));
    return row_.after ? row_.after(std::move(results)) : results;
  }

  [[noreturn]] void finding(const std::string& what) const {
    std::ostringstream text;
    text << row_.op << " of";
    for (size_t i = 0; i < slots(); ++i) {
      if (!slots_[i]) {
        text << " none";
        continue;
      }
      text << ' ' << slots_[i]->shape;
      if (arrangements_[i] < 4) text << " (" << name(kArrangements[arrangements_[i]]) << ')';
    }
    for (const auto& [name, value] : row_.attributes)
      text << ", " << name << " = " << fuzz::print(value);
    text << ", in " << dtype_ << ", seed " << seed_ << ": " << what;
    fuzz::finding(text.str());
  }

 private:
  const OpCase& row_;
  const OpInfo& info_;
  DType dtype_;
  uint64_t seed_;
  std::vector<const Input*> slots_;
  std::vector<size_t> arrangements_;  // layouts; operands beyond the first four are dense
};

Variables constants(const Tensors& tensors) {
  Variables all;
  for (const Tensor& x : tensors) all.push_back(x ? Variable(x) : Variable());
  return all;
}

void check_values(const Drawn& drawn, const OpCase& row) {
  std::vector<Array> arrays;
  const Tensors dense = drawn.operands(drawn.dtype());
  for (const Tensor& x : dense) arrays.push_back(to_array(x));
  const Array expected = row.reference(arrays);
  const NoGrad off;
  const Tensor got = drawn.call(constants(drawn.arranged(dense)))[0].value();
  // A result of few elements may cancel to less than its terms, so the scale has a lower bound.
  const double scale = std::max(largest_magnitude(expected), 0.25);
  const std::string fault =
      mismatch(to_array(got), expected, 4 * row.tolerance * epsilon(got.dtype()), scale);
  if (!fault.empty()) drawn.finding(fault);
}

/// sum(v . y) over all float results y, for fixed v.
Variable along(const Variables& ys, uint64_t seed) {
  Variable total;
  for (size_t k = 0; k < ys.size(); ++k) {
    if (!ys[k].defined() || !is_float(ys[k].dtype())) continue;
    const Tensor v = make_operand({ys[k].shape()}, ys[k].dtype(), seed + k);
    const Variable part = sum(mul(ys[k], Variable(v)));
    total = total.defined() ? add(total, part) : part;
  }
  return total;
}

/// Derivatives of <v, y> and of <u, its gradient> in direction d, at x + t d.
struct Slopes {
  double value, first, gradient, second;
};

Slopes slopes(const Drawn& drawn, double t) {
  Tensors at = drawn.operands(f64);
  Variables xs, ds;
  for (size_t i = 0; i < at.size(); ++i) {
    if (!drawn.wants_gradient(i)) continue;
    ds.emplace_back(make_operand({at[i].shape()}, f64, 77 + i));
    at[i] = add(Variable(at[i]), mul(ds.back(), t)).value();
  }
  Variables in = constants(drawn.arranged(at));
  for (size_t i = 0; i < in.size(); ++i)
    if (drawn.wants_gradient(i)) xs.push_back(in[i].requires_grad_());
  const auto inner = [](const Variables& gradients, const Variables& with) {
    double total = 0;
    for (size_t i = 0; i < with.size(); ++i)
      if (gradients[i].defined()) total += sum(mul(gradients[i].detach(), with[i])).item();
    return total;
  };
  Slopes s{};
  const Variable y = along(drawn.call(in), 1000);
  s.value = y.item();
  if (!y.requires_grad()) return s;
  const bool again = drawn.max_order() > 1;
  const Variables first = grad({&y, 1}, xs, {}, {.create_graph = again, .allow_unused = true});
  s.first = inner(first, ds);
  if (!again) return s;
  const Variable g = along(first, 2000);
  if (!g.defined()) return s;
  s.gradient = g.item();
  if (g.requires_grad()) s.second = inner(grad({&g, 1}, xs, {}, {.allow_unused = true}), ds);
  return s;
}

void check_gradients(const Drawn& drawn) {
  constexpr double kStep = 1e-5;
  const Slopes here = slopes(drawn, 0), ahead = slopes(drawn, kStep),
               behind = slopes(drawn, -kStep);
  const auto compare = [&](const char* what, double got, double a, double b) {
    const double expected = (a - b) / (2 * kStep);
    if (!std::isfinite(expected)) return;
    const double allowed = 1e-4 * (1 + std::abs(expected)) + 1e-14 * std::abs(a) / kStep;
    if (std::abs(got - expected) <= allowed) return;
    std::ostringstream text;
    text << what << " along a direction is " << got << ", differences give " << expected;
    drawn.finding(text.str());
  };
  compare("the gradient", here.first, ahead.value, behind.value);
  compare("the second derivative", here.second, ahead.gradient, behind.gradient);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool exact = (set_conv_algorithm(ConvAlgorithm::kDirect), true);
  (void)exact;
  fuzz::Choices choices(data, size);
  for (const OpCase& row : draw_cases(choices)) {
    const Drawn drawn(row, choices);
    try {
      check_values(drawn, row);
      if (drawn.is_differentiable()) check_gradients(drawn);
    } catch (const std::exception& error) {
      drawn.finding(error.what());
    }
  }
  return 0;
}
