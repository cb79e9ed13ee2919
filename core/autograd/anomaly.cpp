#include "core/autograd/anomaly.h"

#include <cmath>
#include <optional>

#include "core/autograd/internal/result_observer.h"
#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/internal/newest_line.h"
#include "core/tape/op.h"

namespace tapegrad {
namespace {

constexpr unsigned char kNan = 1, kInfinity = 2;

using detail::NonFinite;

/// Calls visit(T) for the elements of x in row-major order, on the host, until it returns false.
template <typename Visit>
void visit_floats(const Tensor& x, const Visit& visit) {
  if (!x || !is_float(x.dtype())) return;
  const Tensor here = x.to(cpu).contiguous();
  with_type(here.dtype(), [&]<typename T>(TypeTag<T>) {
    const T* values = here.data<T>();
    for (int64_t i = 0; i < here.numel(); ++i)
      if (!visit(convert<double>(values[i]))) return;
  });
}

/// Position and shape of an element, such as "[1, 2] of [4, 5]".
std::string place(int64_t element, const Shape& shape) {
  Dims index = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = element % shape[i];
    element /= shape[i];
  }
  detail::ErrorText text;
  text.add(index);
  text.add(" of ");
  text.add(shape);
  return text.text();
}

/// Returns the first non-finite value of y of a kind that `before` lacks, such as "a NaN at [1] of
/// [4]".
std::optional<std::string> describe_made(NonFinite before, unsigned char wanted, const Tensor& y) {
  std::optional<std::string> made;
  const bool nan = (wanted & kNan) != 0 && !before.nan;
  const bool infinity = (wanted & kInfinity) != 0 && !before.nan && !before.infinity;
  int64_t element = 0;
  visit_floats(y, [&](double value) {
    if (nan && std::isnan(value)) made = "a NaN at " + place(element, y.shape());
    if (infinity && std::isinf(value)) made = "an infinity at " + place(element, y.shape());
    ++element;
    return !made;
  });
  return made;
}

NonFinite both(NonFinite a, NonFinite b) { return {a.nan || b.nan, a.infinity || b.infinity}; }

}  // namespace

AnomalyMode::AnomalyMode(AnomalyOptions options)
    : wanted_(kNan | (options.infinity ? kInfinity : 0)) {}

NonFinite detail::find_non_finite(const Tensor& x) {
  // An op calls check_made() if its result has a non-finite value.
  if (context.anomaly == kObserve) return {true, true};
  NonFinite found;
  visit_floats(x, [&](double value) {
    found.nan |= std::isnan(value);
    found.infinity |= std::isinf(value);
    return !found.nan || !found.infinity;
  });
  return found;
}

void detail::check_made(std::string_view op, NonFinite before, const Tensor& y) {
  const TapeNode* running = running_node();
  if (running != nullptr && !is_call_line(*running)) return;  // check_made_by_rule() checks rules
  if (context.anomaly == kObserve) return show_written(op, take_newest_line().value_or(Where()), y);
  const unsigned char wanted = running != nullptr ? context.anomaly & kNan : context.anomaly;
  if (const auto made = describe_made(before, wanted, y))
    fail<AutogradError>(op, ": made ", *made, ", from inputs without");
}

void detail::show_written(std::string_view op, Where where, const Tensor& y) {
  const TapeNode* running = running_node();
  if (running == nullptr)
    context.result_observer->on_result(op, where, y);
  else if (is_call_line(*running))
    context.result_observer->on_result(op, running->where(), y);
}

void detail::show_gradient(const Tensor& gradient) {
  if (gradient && context.running != nullptr)
    context.result_observer->on_gradient(*context.running, gradient);
}

void detail::check_made_by_rule(const TapeNode& node, std::span<const Variable> incoming,
                                std::span<const Variable> outgoing) {
  // A saved infinity rightfully makes an infinite gradient. A NaN is reported even if a saved
  // tensor is the cause, because it enters the gradients here.
  struct Saved final : SavedVisitor {
    NonFinite found;
    void on_saved(const Tensor& value) override { found = both(found, find_non_finite(value)); }
  } saved;
  node.visit_saved(saved);
  NonFinite before{false, saved.found.nan || saved.found.infinity};
  for (const Variable& dy : incoming)
    before = both(before, detail::find_non_finite(dy.value_or_empty()));
  for (size_t i = 0; i < outgoing.size(); ++i)
    if (const auto made = describe_made(before, context.anomaly, outgoing[i].value_or_empty()))
      fail<AutogradError>(node.name(), ": its gradient made ", *made, " for input ", i,
                          saved.found.nan ? ", from a NaN that it saved" : ", from values without");
}

}  // namespace tapegrad
