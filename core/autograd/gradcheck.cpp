#include "core/autograd/gradcheck.h"

#include <cmath>

#include "core/autograd/internal/seeded_gradients.h"
#include "core/base/error.h"
#include "core/base/internal/classic_text.h"
#include "core/dispatch/kernels.h"
#include "core/tape/recording.h"

namespace tapegrad {
namespace {

using Names = std::function<std::string(size_t)>;

/// One element of a tensor on any device. The destructor restores its value.
class Nudge {
 public:
  Nudge(const Tensor& x, const Dims& index) {
    StridedLayout layout{{}, {}, x.layout().offset};
    for (int i = 0; i < index.rank(); ++i) layout.offset += index[i] * x.strides()[i];
    element_ = x.with_layout(layout);
    kept_ = element_.item();
  }
  ~Nudge() { kernels::fill(element_, kept_); }
  Nudge(const Nudge&) = delete;
  Nudge& operator=(const Nudge&) = delete;

  double kept() const { return kept_; }
  void set(double value) { kernels::fill(element_, value); }

 private:
  Tensor element_;
  double kept_ = 0;
};

Dims index_of(int64_t element, const Shape& shape) {
  Dims index = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = element % shape[i];
    element /= shape[i];
  }
  return index;
}

/// Calls f and returns its floating-point outputs.
std::vector<Variable> evaluate(const GradcheckFunction& f, const std::vector<Variable>& inputs) {
  std::vector<Variable> outputs;
  for (Variable& y : f(inputs)) {
    if (!y.defined() || !is_float(y.dtype())) continue;
    if (y.dtype() != f64)
      fail<DTypeError>("gradcheck: an output is ", y.dtype(), "; only float64 is precise enough");
    outputs.push_back(std::move(y));
  }
  return outputs;
}

std::vector<double> flat_values(const std::vector<Variable>& outputs) {
  std::vector<double> values;
  for (const Variable& y : outputs) {
    const auto part = y.to_vector<double>();
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

/// Returns the Jacobian, one row per output element: derivatives with respect to all elements of
/// xs.
std::vector<std::vector<double>> jacobian(const std::vector<Variable>& ys,
                                          const std::vector<Variable>& xs) {
  std::vector<std::vector<double>> rows;
  for (const Variable& y : ys)
    for (int64_t element = 0; element < y.numel(); ++element) {
      std::vector<double> unit(size_t(y.numel()));
      unit[size_t(element)] = 1;
      const Variable seed(Tensor::from<double>(unit, y.shape()).to(y.device()));
      rows.push_back(flat_values(
          detail::seeded_gradients("gradcheck", {y}, {seed}, xs, {.retain_graph = true})));
    }
  return rows;
}

/// Name of the element with flat index `at` in the list, such as "output 0, element [1, 2]".
std::string place(const std::vector<Variable>& values, const Names& names, size_t at) {
  size_t k = 0;
  for (; at >= size_t(values[k].numel()); ++k) at -= size_t(values[k].numel());
  ClassicText text;
  text << names(k) << ", element " << index_of(int64_t(at), values[k].shape());
  return text.str();
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

/// Compares the derivatives of f with respect to xs, which are among its inputs, with differences.
GradcheckResult check(const GradcheckFunction& f, const std::vector<Variable>& inputs,
                      const std::vector<Variable>& xs, const Names& input_names,
                      const Names& output_names, const GradcheckOptions& options) {
  const auto mismatch = [](const auto&... parts) {
    ClassicText text;
    (text << ... << parts);
    return GradcheckResult{false, text.str()};
  };
  const std::vector<Variable> ys = evaluate(f, inputs);
  const std::vector<double> values = flat_values(ys);
  const std::vector<std::vector<double>> exact = jacobian(ys, xs);
  if (!same(values, flat_values(evaluate(f, inputs))))
    return mismatch("gradcheck: the function gives other values when it is called again");

  size_t column = 0;
  for (const Variable& x : xs)
    for (int64_t element = 0; element < x.numel(); ++element, ++column) {
      Nudge nudge(x.value(), index_of(element, x.shape()));
      const double high = nudge.kept() + options.eps, low = nudge.kept() - options.eps;
      nudge.set(high);
      const std::vector<double> above = flat_values(evaluate(f, inputs));
      nudge.set(low);
      const std::vector<double> below = flat_values(evaluate(f, inputs));
      if (above.size() != values.size() || below.size() != values.size())
        return mismatch("gradcheck: the shapes of the outputs depend on the values of ",
                        place(xs, input_names, column));
      for (size_t row = 0; row < values.size(); ++row) {
        const double numeric = (above[row] - below[row]) / (high - low);
        const double got = exact[row][column];
        if (std::abs(got - numeric) <= options.atol + options.rtol * std::abs(numeric)) continue;
        return mismatch("gradcheck: ", place(ys, output_names, row), " by ",
                        place(xs, input_names, column), ": backward says ", got,
                        ", the central difference ", numeric);
      }
    }
  return {};
}

Names numbered(std::string_view what) {
  return [what = std::string(what)](size_t i) { return what + ' ' + std::to_string(i); };
}

/// Returns fixed values in [-1.1, 1.1], none near 0.
Variable some_seed(const Variable& y, double phase) {
  std::vector<double> values(static_cast<size_t>(y.numel()));
  for (double& value : values) {
    value = std::sin(phase += 1.7);
    value += std::copysign(0.1, value);
  }
  return Variable(Tensor::from<double>(values, y.shape()).to(y.device())).requires_grad_();
}

/// Runs check(). For higher orders, also checks the gradient as a function of the inputs followed
/// by the seeds.
GradcheckResult check_orders(const GradcheckFunction& f, const std::vector<Variable>& inputs,
                             const std::vector<Variable>& xs, const Names& input_names,
                             const Names& output_names, const GradcheckOptions& options) {
  GradcheckResult result = check(f, inputs, xs, input_names, output_names, options);
  if (!result || options.order == 1) return result;
  std::vector<Variable> all = inputs, varied = xs;
  const std::vector<Variable> outputs = evaluate(f, inputs);
  for (size_t k = 0; k < outputs.size(); ++k) {
    all.push_back(some_seed(outputs[k], 0.3 + double(k)));
    varied.push_back(all.back());
  }
  const GradcheckFunction gradient = [&](const std::vector<Variable>& in) {
    const auto seeds = in.begin() + std::ptrdiff_t(inputs.size());
    return detail::seeded_gradients("gradcheck", evaluate(f, {in.begin(), seeds}),
                                    {seeds, in.end()}, xs, {.create_graph = true});
  };
  const Names varied_names = [&](size_t i) {
    return i < xs.size() ? input_names(i) : "seed " + std::to_string(i - xs.size());
  };
  const Names gradient_names = [&](size_t i) { return "gradient in " + input_names(i); };
  GradcheckOptions rest = options;
  --rest.order;
  return check_orders(gradient, all, varied, varied_names, gradient_names, rest);
}

}  // namespace

GradcheckResult gradcheck_outputs(const GradcheckFunction& f, const std::vector<Variable>& inputs,
                                  GradcheckOptions options) {
  if (options.order < 1 || options.order > 3)
    fail<ArgumentError>("gradcheck: order is 1, 2 or 3, not ", options.order);
  const Recording on(true);
  std::vector<Variable> xs;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    if (inputs[i].dtype() != f64)
      fail<DTypeError>("gradcheck: input ", i, " is ", inputs[i].dtype(),
                       "; only float64 is precise enough");
    if (overlaps_itself(inputs[i].value().layout()))
      fail<ArgumentError>("gradcheck: input ", i, " of shape ", inputs[i].shape(),
                          " is expanded: its elements cannot be varied one by one");
    xs.push_back(inputs[i]);
    numbers.push_back(i);
  }
  if (xs.empty()) fail<ArgumentError>("gradcheck: no input requires a gradient");

  const Names input_name = [&](size_t i) { return "input " + std::to_string(numbers[i]); };
  return check_orders(f, inputs, xs, input_name, numbered("output"), options);
}

}  // namespace tapegrad
