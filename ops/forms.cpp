// Further forms of ops, as PyTorch has them: operators, tensors in place of numbers, names in place
// of enumerators, nested lists. Each is composed of the op's main form.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>

#include "core/base/error.h"
#include "core/base/internal/host_values.h"
#include "core/base/internal/step_constant.h"
#include "core/tape/internal/call_line.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/bitwise.h"
#include "ops/catalog.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/internal/operands.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/sort.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

/// Returns alpha * b, in the dtype of a if b is a number.
Variable scaled(const Operand& a, const Operand& b, Number alpha) {
  if (b.variable != nullptr || a.variable == nullptr) return mul(b, alpha);
  return mul(full({}, b.number, {.device = a.variable->device()}), alpha);
}

}  // namespace

template <typename>
Variable add(const Operand& a, const Operand& b, Number alpha) {
  const CallLine line(a.where);
  return add(a, scaled(a, b, alpha));
}
template Variable add(const Operand&, const Operand&, Number);
template <typename>
Variable sub(const Operand& a, const Operand& b, Number alpha) {
  const CallLine line(a.where);
  return sub(a, scaled(a, b, alpha));
}
template Variable sub(const Operand&, const Operand&, Number);

Variable add(const Operand& a, const Operand& b, AlphaOptions options) {
  return add(a, b, options.alpha);
}
Variable sub(const Operand& a, const Operand& b, AlphaOptions options) {
  return sub(a, b, options.alpha);
}

Variable round(const Variable& x, int decimals, Where where) {
  const CallLine line(where);
  if (is_float(x.dtype())) {
    const Variable wide = x.dtype() == f64 ? x : x.to(f32);
    const int most = x.dtype() == f64 ? 308 : 38;  // the largest power of ten
    const double power = std::pow(10.0, std::abs(std::clamp(decimals, -most, most)));
    const Variable y = decimals >= 0 ? round(wide * power) / power : round(wide / power) * power;
    // A number whose product with the power overflows has no decimals.
    return tapegrad::where(isfinite(y), y, wide).to(x.dtype());
  }
  if (decimals < 0)
    fail<ArgumentError>("round: ", decimals, " decimals of ", x.dtype(), "; cast to a float first");
  return round(x);
}
Variable round(const Variable& x, RoundOptions options, Where where) {
  return round(x, options.decimals, where);
}

Variable operator!(const Variable& x) { return logical_not(x); }
Variable operator%(Operand a, Operand b) { return remainder(std::move(a), std::move(b)); }
Variable operator&(Variable a, Operand b) {
  return bitwise_and({std::move(a), b.where}, std::move(b));
}
Variable operator|(Variable a, Operand b) {
  return bitwise_or({std::move(a), b.where}, std::move(b));
}
Variable operator^(Variable a, Operand b) {
  if (is_float(a.dtype())) {
    const ErrorLine line(b.where);
    fail<DTypeError>("^: the bits of ", a.dtype(), "; type pow(x, y) for a power");
  }
  return bitwise_xor({std::move(a), b.where}, std::move(b));
}
Variable operator~(Operand a) {
  if (a.variable == nullptr) fail<ArgumentError>("~: a variable wanted");
  return bitwise_not(take(a), a.where);
}
namespace {

/// Writes the result of a bitwise op over one of its operands.
Variable& write_bits(std::string_view op, Variable& a, const Variable& result, Where where) {
  const ErrorLine line(where);
  if (result.dtype() != a.dtype())
    fail<DTypeError>(op, ": the result is ", result.dtype(), ", which does not fit in place into ",
                     a.dtype());
  if (result.shape() != a.shape())
    fail<ShapeError>(op, ": the result is ", result.shape(), ", which does not fit in place into ",
                     a.shape());
  return copy_(a, result, where);
}

}  // namespace

Variable& operator&=(Variable& a, const Operand& b) { return write_bits("&=", a, a & b, b.where); }
Variable& operator|=(Variable& a, const Operand& b) { return write_bits("|=", a, a | b, b.where); }
Variable& operator^=(Variable& a, const Operand& b) { return write_bits("^=", a, a ^ b, b.where); }
void operator&=(Variable&& a, const Operand& b) {
  require_seen("&=", a);
  a &= b;
}
void operator|=(Variable&& a, const Operand& b) {
  require_seen("|=", a);
  a |= b;
}
void operator^=(Variable&& a, const Operand& b) {
  require_seen("^=", a);
  a ^= b;
}
void operator&=(Variable::Part&& a, const Operand& b) { std::move(a) = Variable(a & b); }
void operator|=(Variable::Part&& a, const Operand& b) { std::move(a) = Variable(a | b); }
void operator^=(Variable::Part&& a, const Operand& b) { std::move(a) = Variable(a ^ b); }
void detail::require_seen(std::string_view op, const Variable& target) {
  if (target.defined() && target.is_sole_owner() && !target.value().storage().is_wrapped())
      [[unlikely]]
    fail<ArgumentError>(
        op, ": the left side, of shape ", target.shape(),
        ", is a copy, as x[mask] and x[index] are, and nothing would see the write; "
        "index_put_(x, {mask}, values) writes to x");
}
void operator+=(Variable&& a, const Operand& b) {
  require_seen("+=", a);
  add_(a, b);
}
void operator-=(Variable&& a, const Operand& b) {
  require_seen("-=", a);
  sub_(a, b);
}
void operator*=(Variable&& a, const Operand& b) {
  require_seen("*=", a);
  mul_(a, b);
}
void operator/=(Variable&& a, const Operand& b) {
  require_seen("/=", a);
  div_(a, b);
}

namespace {

/// The bound where x is beyond it or the bound is NaN, else x. `beyond` is lt or gt, and `extreme`
/// the extreme that prefers its first operand if its operands are equal.
template <const kernels::Binary& extreme, auto beyond, Literal name>
struct Limit : BinaryOp<extreme> {
  static constexpr std::string_view kName = name.text;
  static constexpr bool kTakesWideNumber = false;
  SavedInput<0> bound{};
  SavedInput<1> x{};
  auto saved() { return std::tie(bound, x); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    Variable outside = beyond(x(), bound());
    if (is_float(dy.dtype())) outside = logical_or(outside, isnan(bound()));
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = this->reduce(0, where(outside, dy, 0));
    if (needs[1]) dx[1] = this->reduce(1, where(outside, 0, dy));
    return dx;
  }
};
using LimitBelow = Limit<kernels::maximum, lt, "clamp_min">;
using LimitAbove = Limit<kernels::minimum, gt, "clamp_max">;

template <typename Op>
Variable limit(Variable x, const Operand& bound) {
  return run<Op>(bound, {std::move(x), bound.where});
}

}  // namespace

Variable clamp(Variable x, const Operand& min, const Operand& max) {
  if (min.variable == nullptr && max.variable == nullptr)
    return clamp(std::move(x), ClampOptions{min.number, max.number}, min.where);
  const CallLine line(min.where);
  return limit<LimitAbove>(limit<LimitBelow>(std::move(x), min), max);
}
Variable clamp(Variable x, const Operand& min) { return clamp_min(std::move(x), min); }
Variable clamp_min(Variable x, const Operand& min) {
  if (min.variable == nullptr)
    return clamp(std::move(x), ClampOptions{.min = min.number}, min.where);
  const CallLine line(min.where);
  return limit<LimitBelow>(std::move(x), min);
}
Variable clamp_max(Variable x, const Operand& max) {
  if (max.variable == nullptr)
    return clamp(std::move(x), ClampOptions{.max = max.number}, max.where);
  const CallLine line(max.where);
  return limit<LimitAbove>(std::move(x), max);
}

Variable max(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  return maximum({a, where}, {b, where});
}
Variable min(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  return minimum({a, where}, {b, where});
}

bool equal(const Variable& a, const Variable& b, Where where) {
  const CallLine line(where);
  return a.shape() == b.shape() && all(eq(a, b)).item() != 0;
}

Variable masked_fill(Variable x, const Variable& mask, const Variable& value, Where where) {
  const CallLine line(where);
  if (value.rank() != 0)
    fail<ShapeError>("masked_fill: a value of rank 0 wanted, not ", value.shape(), "; use where()");
  if (mask.dtype() != boolean) fail<DTypeError>("masked_fill: the mask is ", mask.dtype());
  const DType dtype = x.dtype();
  return tapegrad::where(mask, value.to(dtype), std::move(x));
}

Variable rand_like(const Variable& x) {
  return rand(x.shape(), TensorOptions{.dtype = x.dtype(), .device = x.device()});
}
Variable randn_like(const Variable& x) {
  return randn(x.shape(), TensorOptions{.dtype = x.dtype(), .device = x.device()});
}

Variable randint_like(const Variable& x, int64_t high) { return randint_like(x, 0, high); }
Variable randint_like(const Variable& x, int64_t low, int64_t high) {
  return randint(low, high, x.shape(), TensorOptions{.dtype = x.dtype(), .device = x.device()});
}

Variable logspace(double start, double end, int64_t steps, double base, TensorOptions options) {
  const ErrorLine line(options.where);
  const DType dtype = options.dtype.value_or(default_dtype());
  const bool gradient = options.requires_grad;
  options.dtype = f64, options.requires_grad = false;
  return pow(base, linspace(start, end, steps, options)).to(dtype).requires_grad_(gradient);
}

void detail::fail_ragged(size_t expected, size_t found) {
  fail<ShapeError>("tensor: a list of ", found, " entries beside one of ", expected);
}

/// Finds the shape and the elements of nested lists.
struct NestedValues::Reader {
  Shape shape;
  std::vector<Number> elements;

  void read(const NestedValues& values, int depth) {
    if (!values.is_list_) {
      if (depth != shape.rank()) fail<ShapeError>("tensor: a number beside a list");
      elements.push_back(values.value_);
      return;
    }
    const size_t size = values.list_.size();
    if (elements.empty() && depth == shape.rank()) shape.push_back(int64_t(size));
    if (depth >= shape.rank()) fail<ShapeError>("tensor: a list beside a number");
    if (size != size_t(shape[depth])) fail_ragged(size_t(shape[depth]), size);
    for (const NestedValues& entry : values.list_) read(entry, depth + 1);
  }
};

Variable NestedValues::make(TensorOptions options) const {
  const ErrorLine line(options.where);
  Reader reader;
  reader.read(*this, 0);
  const auto is = [&](DType kind) {
    return [kind](const Number& number) { return number.kind() == kind; };
  };
  DType dtype = i64;
  if (std::ranges::any_of(reader.elements, is(f64)) || reader.elements.empty())
    dtype = default_dtype();
  else if (std::ranges::all_of(reader.elements, is(boolean)))
    dtype = boolean;
  dtype = options.dtype.value_or(dtype);
  Tensor values;
  with_type(dtype, [&]<typename T>(TypeTag<T>) {
    const auto stored = std::make_unique<T[]>(reader.elements.size());
    std::ranges::transform(reader.elements, stored.get(),
                           [](const Number& number) { return number.to<T>(); });
    values =
        Tensor::from<T>(std::span<const T>(stored.get(), reader.elements.size()), reader.shape);
  });
  Variable x(values.to(options.device.value_or(default_device())));
  return options.requires_grad ? x.requires_grad_() : x;
}

Variable repeat_interleave(const Variable& x, int64_t times, Where where) {
  return repeat_interleave(flatten(x, 0, -1, where), times, 0, where);
}
Variable repeat_interleave(const Variable& x, const Variable& times, Where where) {
  return repeat_interleave(flatten(x, 0, -1, where), times, 0, where);
}
Variable repeat_interleave(const Variable& x, const Variable& times, int dim, Where where) {
  const CallLine line(where);
  dim = normalize_dim("repeat_interleave", dim, x.rank());
  if (times.rank() > 1 || !is_integer(times.dtype()))
    fail<ArgumentError>("repeat_interleave: a vector of integers wanted, not ", times.dtype(), ' ',
                        times.shape());
  const std::vector<int64_t> counts = host_integers(times.value());
  if (counts.size() == 1) return repeat_interleave(x, counts[0], dim);
  if (int64_t(counts.size()) != x.size(dim))
    fail<ShapeError>("repeat_interleave: ", counts.size(), " numbers of times for ", x.shape(),
                     " along dimension ", dim);
  std::vector<int64_t> index;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0)
      fail<ArgumentError>("repeat_interleave: a negative number of times: ", counts[i]);
    index.insert(index.end(), size_t(counts[i]), int64_t(i));
  }
  const TensorOptions here{.device = x.device()};
  return index_select(x, dim, Variable(step_constant([&] { return tensor(index, here).value(); })));
}

Reduction::Kind Reduction::parse(std::string_view name, Where where) {
  if (name == "mean") return kMean;
  if (name == "sum") return kSum;
  if (name == "none") return kNone;
  fail_at<ArgumentError>(where, "reduction: \"mean\", \"sum\" or \"none\" wanted, not \"", name,
                         '"');
}

KLDivReduction::KLDivReduction(std::string_view name, Where where)
    : kind(Reduction::kSum), is_batchmean(name == "batchmean") {
  if (is_batchmean) return;
  if (name != "mean" && name != "sum" && name != "none")
    fail_at<ArgumentError>(
        where, "reduction: \"batchmean\", \"mean\", \"sum\" or \"none\" wanted, not \"", name, '"');
  kind = Reduction(name, where);
}

Variable kl_div(const Variable& x, const Variable& target, std::string_view reduction,
                bool log_target, Where where) {
  const KLDivReduction how(reduction, where);
  const Variable loss = kl_div(x, target, log_target, how.kind, where);
  return how.is_batchmean && x.rank() > 0 ? div({loss, where}, {x.size(0), where}) : loss;
}

Variable quantile(const Variable& x, std::initializer_list<double> q, QuantileOptions options,
                  Where where) {
  return quantile(x, tensor(std::vector<double>(q), {.dtype = f64, .device = x.device()}), options,
                  where);
}

void catalog_forms(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("clamp_min(input, min)", "max(x, min)", [](A a) { return clamp_min(a[0], a[1]); });
  catalog.add("clamp_max(input, max)", "min(x, max)", [](A a) { return clamp_max(a[0], a[1]); });
  catalog.add("rand_like(input)", "uniform in [0, 1)", [](A a) { return rand_like(a[0]); },
              {.max_order = 0, .random = true});
  catalog.add("randn_like(input)", "standard normal", [](A a) { return randn_like(a[0]); },
              {.max_order = 0, .random = true});
  catalog.add(
      "logspace(start: float, end: float, steps: int, base: float = 10, "
      "dtype: dtype = none)",
      "base^linspace(start, end, steps)",
      [](A a) {
        TensorOptions options;
        if (a.has("dtype")) options.dtype = a.dtype("dtype");
        return logspace(a.real("start"), a.real("end"), a.integer("steps"), a.real("base"),
                        options);
      },
      {.max_order = 0});
}

}  // namespace tapegrad
