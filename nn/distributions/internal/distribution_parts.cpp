#include "nn/distributions/internal/distribution_parts.h"

#include <algorithm>
#include <limits>

#include "core/base/context.h"
#include "core/base/error.h"
#include "core/base/internal/host_values.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/extremes.h"
#include "ops/internal/value_checks.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

[[noreturn]] void fail_required(std::string_view kind, std::string_view condition,
                                const Variable& holds, std::initializer_list<Variable> values) {
  const NoGrad no_grad;
  const auto at = argmax(reshape(!holds, {-1}).to(i32), 0).item<int64_t>();
  detail::ErrorText found;
  for (const Variable& value : values) {
    if (!found.text().empty()) found.add(" and ");
    found.add(reshape(expand(value, holds.shape()), {-1}).select(0, at).item());
  }
  fail<ArgumentError>(kind, ": ", condition, " is required, not ", found.text());
}

}  // namespace

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (const int64_t size : b) shape.push_back(size);
  return shape;
}

Shape batch_of(const Variable& a, const Variable& b) {
  const NoGrad no_grad;
  return (a + b).shape();
}

double epsilon(DType dtype) {
  if (dtype == f64) return std::numeric_limits<double>::epsilon();
  if (dtype == f32) return std::numeric_limits<float>::epsilon();
  return dtype == f16 ? 0x1p-10 : 0x1p-7;
}

Variable clamp_probs(const Variable& probs) {
  const double eps = epsilon(probs.dtype());
  return clamp(probs, {.min = eps, .max = 1 - eps});
}

void require(std::string_view kind, std::string_view condition, const Variable& holds,
             std::initializer_list<Variable> values) {
  const Variable all_hold = all(holds);
  if (detail::context.recorder == nullptr) {
    if (!all_hold.item<bool>()) fail_required(kind, condition, holds, values);
    return;
  }
  detail::check_values(all_hold.value(), [kind, condition](const Tensor& x) {
    if (x.item() == 0) fail<ArgumentError>(kind, ": ", condition, " is required");
  });
}

void require_location_scale(std::string_view kind, const Variable& loc, const Variable& scale) {
  require(kind, "scale > 0", scale > 0, {scale});
  require(kind, "loc == loc", loc == loc, {loc});
}

void require_one(std::string_view kind, const Odds& odds) {
  if (odds.probs.defined() == odds.logits.defined())
    fail<ArgumentError>(kind, ": give either .probs or .logits");
}

Variable count_times(const Variable& counts, const Variable& logs) {
  return counts * where(logical_and(counts == 0, logs == -INFINITY), 0.0, logs);
}
Variable has_fraction(const Variable& value) {
  if (!is_float(value.dtype())) return value != value;
  return value - floor(value) > 0;  // false for NaN and infinities
}

Variable checked_probability(const Variable& probability) {
  const Variable is_invalid = logical_or(probability<0, probability> 1);
  return where(is_invalid, NAN, probability);
}

Variable open_uniform(const Shape& shape, const Variable& of, RandomGenerator& generator) {
  const double least = of.dtype() == f64 ? 0x1p-53 : 0x1p-24;
  return clamp(rand(shape, like(of), generator), {.min = least, .max = 1 - least});
}

Variable draw_by_rejection(const Shape& shape, double refused,
                           const std::function<Candidates()>& draw) {
  constexpr int64_t kMost = 100;
  const auto elements = double(std::max<int64_t>(numel(shape), 1));
  // After these rounds, an element is left in at most this share of the calls, too.
  const int64_t rounds = 1 + int64_t(std::ceil(std::log(elements) / -std::log(refused)));
  Variable result, is_done;
  for (int64_t round = 1; round <= kMost; ++round) {
    const auto [values, is_taken] = draw();
    result = round == 1 ? values : where(is_done, result, values);
    is_done = round == 1 ? is_taken : logical_or(is_done, is_taken);
    if (round < rounds) continue;
    if (tapegrad::detail::host_number(all(is_done).value()).to<bool>()) return result;
  }
  fail<ArgumentError>("sample: a concentration is not finite, or too large");
}

Variable sum_last(const Variable& x, int n) {
  Dims dims;
  for (int i = 1; i <= n; ++i) dims.push_back(-i);
  return n == 0 ? x : sum(x, dims);
}

Variable pair_of(const Variable& a, const Variable& b) {
  const Shape shape = batch_of(a, b);
  return stack({{expand(a, shape), expand(b, shape)}}, -1);
}

}  // namespace tapegrad::distributions
