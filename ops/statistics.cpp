#include "ops/statistics.h"

#include <cmath>
#include <limits>

#include "core/base/internal/host_values.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/index.h"
#include "ops/internal/catalog_arguments.h"
#include "ops/internal/extent.h"
#include "ops/internal/kernels/histogram.h"
#include "ops/internal/kernels/reduce.h"
#include "ops/internal/limits.h"
#include "ops/internal/operands.h"
#include "ops/internal/shared_choice.h"
#include "ops/internal/value_checks.h"
#include "ops/matmul.h"
#include "ops/scan.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {
constinit decltype(nansum) nansum{"nansum"};
constinit decltype(count_nonzero) count_nonzero{"count_nonzero"};
constinit decltype(histogram) histogram{"histogram"};
}  // namespace kernels

using namespace detail;

namespace {

template <typename Kernel>
bool is_in_one_pass(const Kernel& kernel, const Variable& x) {
  return kernel.has(x.device().type, x.dtype());
}

struct CountNonzero {
  static constexpr std::string_view kName = "count_nonzero";
  static constexpr bool kDifferentiable = false;
  Extent extent;

  Tensor forward(const Tensor& x) const {
    Tensor y = Tensor::empty(extent.kept, i64, x.device());
    kernels::count_nonzero(x, y);
    return extent.finish(y);
  }
};

struct NanSum {
  static constexpr std::string_view kName = "nansum";
  Extent extent;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  Tensor forward(const Tensor& x) const {
    Tensor y = x.empty_like(extent.kept);
    kernels::nansum(overlaps_itself(x.layout()) ? x.contiguous() : x, y);  // rounds as for a copy
    return extent.finish(y);
  }
  Variable backward(const Variable& dy) const {
    return masked_fill(extent.spread(dy), isnan(x()), 0);
  }
};

}  // namespace

Variable count_nonzero(const Variable& x, const Dims& dims, Where where) {
  const ErrorLine line(where);
  if (is_in_one_pass(kernels::count_nonzero, x))
    return apply(CountNonzero{Extent("count_nonzero", x.shape(), dims, false)}, where, x);
  return sum(ne({x, where}, {0, where}), dims, false, where);
}

Variable nansum(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  if (!is_float(x.dtype())) return sum(x, dims, keepdim, where);
  const ErrorLine line(where);
  if (is_in_one_pass(kernels::nansum, x))
    return apply_wide(NanSum{Extent("nansum", x.shape(), dims, keepdim)}, where, x);
  return sum(masked_fill(x, isnan(x), 0, where), dims, keepdim, where);
}

Variable nanmean(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  if (!is_float(x.dtype())) fail<DTypeError>("nanmean: a float type is wanted, not ", x.dtype());
  const DType dtype = compute_dtype(x.dtype());  // the sum may not fit in 16 bits
  const Variable count = sum(eq(x, x), dims, keepdim, where).to(dtype);
  return div({nansum(x.to(dtype), dims, keepdim, where), where}, {count, where}).to(x.dtype());
}

MinMax aminmax(const Variable& x, Where where) {
  const ErrorLine line(where);
  return {amin(x, where), amax(x, where)};
}
MinMax aminmax(const Variable& x, int dim, bool keepdim, Where where) {
  const ErrorLine line(where);
  return {amin(x, {dim}, keepdim, where), amax(x, {dim}, keepdim, where)};
}

MinMax aminmax(const Variable& x, AlongOptions options, Where where) {
  if (const std::optional<int> dim = options.along())
    return aminmax(x, *dim, options.keeps(), where);
  const ErrorLine line(where);
  return {amin(x, {.keepdim = options.keeps()}, where),
          amax(x, {.keepdim = options.keeps()}, where)};
}

StdMean std_mean(const Variable& x, const Dims& dims, VarOptions options, Where where) {
  const ErrorLine line(where);
  return {std(x, dims, options, where), mean(x, dims, options.keeps(), where)};
}
VarMean var_mean(const Variable& x, const Dims& dims, VarOptions options, Where where) {
  const ErrorLine line(where);
  return {var(x, dims, options, where), mean(x, dims, options.keeps(), where)};
}

namespace {

/// Returns the product of all weights of observations; empty if none is given.
Variable observation_weights(const CovOptions& options, int64_t count, DType dtype) {
  const auto check = [&](const char* name, const Variable& w) {
    if (!w.defined()) return;
    if (w.shape() != Shape{count})
      fail<ShapeError>("cov: ", name, " are of shape ", w.shape(), ", observations are ", count);
    check_values((w < 0).any().value(), [name](const Tensor& found) {
      if (found.item() != 0) fail<ArgumentError>("cov: ", name, " below 0");
    });
  };
  check("fweights", options.fweights);
  check("aweights", options.aweights);
  if (options.fweights.defined() && is_float(options.fweights.dtype()))
    fail<DTypeError>("cov: fweights are whole numbers, not ", options.fweights.dtype());
  if (!options.fweights.defined() && !options.aweights.defined()) return {};
  if (!options.fweights.defined()) return options.aweights.to(dtype);
  const Variable w = options.fweights.to(dtype);
  return options.aweights.defined() ? w * options.aweights.to(dtype) : w;
}

}  // namespace

Variable cov(const Variable& input, CovOptions options, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return cov(a...); }, where, input, options);
  const ErrorLine line(where);
  if (input.rank() > 2) fail<ShapeError>("cov: at most a matrix is wanted, not ", input.shape());
  if (compute_dtype(input.dtype()) != input.dtype()) {
    const DType wide = compute_dtype(input.dtype());  // counts and sums may not fit in 16 bits
    return cov(input.to(wide, where), options, where).to(input.dtype(), where);
  }
  const Variable floats = as_float(input, where);
  const Variable x = input.rank() == 2 ? floats : reshape(floats, {1, input.numel()}, where);
  const int64_t count = x.size(1);
  const Variable w = observation_weights(options, count, x.dtype());
  // The divisor is the total weight minus the weight that the means use up.
  const Variable total =
      w.defined() ? sum(w) : full({}, count, {.dtype = x.dtype(), .device = x.device()});
  const Variable taken = w.defined() && options.aweights.defined()
                             ? sum(w * options.aweights.to(x.dtype())) / total * options.correction
                             : full_like(total, options.correction);
  const Variable divisor = clamp(total - taken, {.min = 0.0});
  const Variable means =
      w.defined() ? sum(x * w, {1}, true) / total : mean(x, {1}, /*keepdim=*/true, where);
  const Variable centred = x - means;
  const Variable products = matmul(centred, t(w.defined() ? centred * w : centred), where);
  const Variable y = products / divisor;
  return y.numel() == 1 ? reshape(y, {}, where) : y;
}

Variable corrcoef(const Variable& x, Where where) {
  if (const DType wide = compute_dtype(x.dtype()); wide != x.dtype())
    return corrcoef(x.to(wide, where), where).to(x.dtype(), where);
  const Variable c = cov(x, {}, where);
  if (c.rank() == 0) return c / c;
  const Variable deviation = sqrt(diagonal(c, 0, 0, 1, where));
  return clamp(c / unsqueeze(deviation, 1) / deviation, {.min = -1.0, .max = 1.0}, where);
}

/// Adds up the weights of each number below `size`.
static Variable counts_of(const Variable& numbers, const Variable& weights, int64_t size,
                          Where where) {
  return scatter_add(zeros({size}, {.dtype = weights.dtype(), .device = weights.device()}), 0,
                     numbers, weights, where);
}

Variable bincount(const Variable& x, const Variable& weights, int64_t minlength, Where where) {
  const ErrorLine line(where);
  if (x.rank() != 1 || is_float(x.dtype()) || x.dtype() == boolean)
    fail<ArgumentError>("bincount: a vector of whole numbers is wanted, not ", x.dtype(), ' ',
                        x.shape());
  if (minlength < 0) fail<ArgumentError>("bincount: minlength ", minlength, " is below 0");
  if (weights.defined() && weights.shape() != x.shape())
    fail<ShapeError>("bincount: weights of ", weights.shape(), " for numbers of ", x.shape());
  const Variable index = x.to(i64);
  int64_t size = minlength;
  if (index.numel() > 0) {
    const MinMax range = aminmax(index);
    const auto check = [](const Tensor& extreme) {
      const auto number = extreme.number().to<int64_t>();
      if (number < 0 || number == std::numeric_limits<int64_t>::max())  // too many bins
        fail<ArgumentError>("bincount: a number is ", number);
    };
    check_values(range.min.value(), check);
    check_values(range.max.value(), check);
    size = host_number(clamp_min(range.max + 1, minlength).value()).to<int64_t>();
  }
  const DType dtype = !weights.defined() ? i64 : is_float(weights.dtype()) ? weights.dtype() : f64;
  const Variable ones = weights.defined() ? weights.to(dtype) : ones_like(index);
  return counts_of(index, ones, size, where);
}

Variable histc(const Variable& x, int64_t bins, double min, double max, Where where) {
  const ErrorLine line(where);
  const NoGrad off;
  require_float("histc", x.value());
  require_count("histc", "bins", bins);
  const TensorOptions like{.dtype = f64, .device = x.device()};
  Variable low = full({}, min, like), high = full({}, max, like);
  if (min == max && x.numel() > 0) low = amin(x).to(f64), high = amax(x).to(f64);
  check_values(stack({{low, high}}).value(), [](const Tensor& range) {
    const std::vector<double> ends = Variable(range).to_vector<double>();
    if (!std::isfinite(ends[0]) || !std::isfinite(ends[1]) || ends[0] > ends[1])
      fail<ArgumentError>("histc: no range from ", ends[0], " to ", ends[1]);
  });
  if (min == max) {
    const Variable one = (low == high).to(f64);
    low = low - one;
    high = high + one;
  }
  if (is_in_one_pass(kernels::histogram, x)) {
    Tensor counts = Tensor::empty({bins}, i64, x.device());
    kernels::histogram(x.value().contiguous(), low.value(), high.value(), counts);
    return Variable(counts).to(x.dtype());
  }
  const Variable values = flatten(x).to(f64);
  const Variable bin = floor((values - low) * (double(bins) / (high - low)));
  const Variable inside = logical_and(ge(values, low), le(values, high));
  // Elements outside of the range are counted in an extra bin, which is dropped.
  const Variable index = tapegrad::where(inside, minimum(bin, double(bins - 1)), double(bins));
  const Variable counted = index.to(i64);
  return narrow(counts_of(counted, ones_like(counted), bins + 1, where), 0, 0, bins).to(x.dtype());
}

namespace {

/// The elements of x along dim in ascending order, NaN last, and the number of the others.
struct SortedNumbers {
  Variable order, count;

  SortedNumbers(const Variable& x, int dim)
      : order(argsort(x, dim)),
        count(sum(is_float(x.dtype()) ? logical_not(isnan(x)) : eq(x, x), dim, true)) {}
};

/// Areas between neighbouring points; `width` broadcasts.
Variable trapezoids(std::string_view op, const Variable& y, const Operand& width, int dim) {
  dim = normalize_dim(op, dim, y.rank());
  const int64_t n = y.size(dim);
  const Variable pairs =
      slice(y, dim, std::min<int64_t>(1, n)) + slice(y, dim, 0, std::max<int64_t>(n - 1, 0));
  return pairs * width * 0.5;
}
Variable widths(const Variable& y, const Variable& x, int dim) {
  if (x.rank() != 1) return diff(x, 1, dim);
  Shape shape = Dims::filled(y.rank(), 1);
  shape[normalize_dim("trapezoid", dim, y.rank())] = std::max<int64_t>(x.numel() - 1, 0);
  return reshape(diff(x), shape);
}

}  // namespace

ValuesIndices nanmedian(const Variable& input, int dim, bool keepdim, Where where) {
  const CallLine line(where);
  const Variable x = input.rank() == 0 ? reshape(input, {1}) : input;
  dim = normalize_dim("nanmedian", dim, x.rank());
  if (x.size(dim) == 0) fail<ArgumentError>("nanmedian: nothing to choose from in ", x.shape());
  const SortedNumbers sorted(x, dim);
  const Variable middle = clamp_min(bitwise_right_shift(sorted.count - 1, 1), 0);
  const Variable index = gather(sorted.order, dim, middle);
  const Variable value = gather(x, dim, index);
  if (input.rank() == 0) return {reshape(value, {}), reshape(index, {})};
  if (keepdim) return {value, index};
  return {squeeze(value, dim), squeeze(index, dim)};
}
Variable nanmedian(const Variable& x, Where where) {
  const ErrorLine line(where);
  const Variable chosen = nanmedian(flatten(x.detach(), 0, -1, where), 0, false, where).values;
  return apply(SharedChoice{chosen.value()}, where, x);
}

Variable nanquantile(const Variable& input, double q, QuantileOptions options, Where where) {
  const CallLine line(where);
  const auto along = options.dim;
  if (!(q >= 0 && q <= 1)) fail<ArgumentError>("nanquantile: q is ", q, ", not in [0, 1]");
  if (!is_float(input.dtype())) fail<DTypeError>("nanquantile: floats wanted, not ", input.dtype());
  const Variable x = along && input.rank() > 0 ? input : reshape(input, {input.numel()});
  const int dim = along && input.rank() > 0 ? normalize_dim("nanquantile", *along, x.rank()) : 0;
  if (x.size(dim) == 0) fail<ArgumentError>("nanquantile: no elements in ", x.shape());
  const SortedNumbers sorted(x, dim);
  const Variable rank = clamp_min(sorted.count - 1, 0).to(f64) * q;
  const auto at = [&](const Variable& position) {
    return gather(x, dim, gather(sorted.order, dim, position.to(i64)));
  };
  const Variable below = floor(rank), above = ceil(rank);
  const Interpolation how = options.interpolation;
  const Variable y = how == Interpolation::kLower     ? at(below)
                     : how == Interpolation::kHigher  ? at(above)
                     : how == Interpolation::kNearest ? at(round(rank))
                     : how == Interpolation::kMidpoint
                         ? lerp(at(below), at(above), 0.5)
                         : lerp(at(below), at(above), (rank - below).to(x.dtype()));
  const bool keepdim = options.keepdim;
  if (!along) return keepdim ? reshape(y, Dims::filled(input.rank(), 1)) : reshape(y, {});
  if (input.rank() == 0) return reshape(y, {});
  return keepdim ? y : squeeze(y, dim);
}

Variable trapezoid(const Variable& y, double dx, int dim, Where where) {
  const CallLine line(where);
  dim = normalize_dim("trapezoid", dim, y.rank());
  if (y.size(dim) == 0) return sum(y, dim) * dx;
  const Variable ends = select(y, dim, 0) + select(y, dim, -1);
  return (sum(y, dim) - ends * 0.5) * dx;
}
Variable trapezoid(const Variable& y, const Variable& x, int dim, Where where) {
  const CallLine line(where);
  return sum(trapezoids("trapezoid", y, widths(y, x, dim), dim), dim);
}
Variable cumulative_trapezoid(const Variable& y, double dx, int dim, Where where) {
  const CallLine line(where);
  return cumsum(trapezoids("cumulative_trapezoid", y, dx, dim), dim);
}
Variable cumulative_trapezoid(const Variable& y, const Variable& x, int dim, Where where) {
  const CallLine line(where);
  return cumsum(trapezoids("cumulative_trapezoid", y, widths(y, x, dim), dim), dim);
}
Variable cumulative_trapezoid(const Variable& y, const TrapezoidOptions& options, Where where) {
  return options.x.defined() ? cumulative_trapezoid(y, options.x, options.dim, where)
                             : cumulative_trapezoid(y, options.dx, options.dim, where);
}

void catalog_statistics(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr auto dims = [](A a) { return a.has("dim") ? a.dims("dim") : Dims{}; };
  static constexpr auto options = [](A a) {
    return VarOptions{.correction = a.int32("correction"), .keepdim = a.flag("keepdim")};
  };
  const OpTraits flat{.max_order = 0};
  catalog.add(
      "count_nonzero(input, dim: ints = none)", "how many are not 0",
      [](A a) { return count_nonzero(a[0], dims(a)); }, flat);
  catalog.add("nansum(input, dim: ints = none, keepdim: bool = false, dtype: dtype = none)",
              "the sum without NaN",
              [](A a) { return nansum(input_in_dtype(a), dims(a), a.flag("keepdim")); });
  catalog.add("nanmean(input, dim: ints = none, keepdim: bool = false, dtype: dtype = none)",
              "the mean without NaN",
              [](A a) { return nanmean(input_in_dtype(a), dims(a), a.flag("keepdim")); });
  catalog.add("nanmedian(input, dim: int = none, keepdim: bool = false)", "the median without NaN",
              [](A a) {
                if (!a.has("dim")) return std::vector{nanmedian(a[0])};
                const ValuesIndices y = nanmedian(a[0], a.int32("dim"), a.flag("keepdim"));
                return std::vector{y.values, y.indices};
              });
  catalog.add(
      "nanquantile(input, q: float, dim: int = none, keepdim: bool = false, "
      "interpolation: str = linear)",
      "the quantile without NaN",
      [](A a) {
        QuantileOptions options{.keepdim = a.flag("keepdim"),
                                .interpolation = a.text("interpolation")};
        if (a.has("dim")) options.dim = a.int32("dim");
        return nanquantile(a[0], a.real("q"), options);
      },
      {.example = [](DType dtype) -> Arguments {
        return {.inputs = {ones({3}, {.dtype = dtype})}, .attributes = {{"q", 0.5}}};
      }});
  catalog.add("trapezoid(y, x?, dx: float = 1, dim: int = -1)", "the integral along dim", [](A a) {
    return a[1].defined() ? trapezoid(a[0], a[1], a.int32("dim"))
                          : trapezoid(a[0], a.real("dx"), a.int32("dim"));
  });
  catalog.add("cumulative_trapezoid(y, x?, dx: float = 1, dim: int = -1)",
              "integrals along dim up to each element", [](A a) {
                return a[1].defined() ? cumulative_trapezoid(a[0], a[1], a.int32("dim"))
                                      : cumulative_trapezoid(a[0], a.real("dx"), a.int32("dim"));
              });
  catalog.add("aminmax(input, dim: int = none, keepdim: bool = false)", "amin and amax", [](A a) {
    const MinMax y =
        a.has("dim") ? aminmax(a[0], a.int32("dim"), a.flag("keepdim")) : aminmax(a[0]);
    return std::vector{y.min, y.max};
  });
  catalog.add("std_mean(input, dim: ints = none, correction: int = 1, keepdim: bool = false)",
              "std and mean", [](A a) {
                const StdMean y = std_mean(a[0], dims(a), options(a));
                return std::vector{y.std, y.mean};
              });
  catalog.add("var_mean(input, dim: ints = none, correction: int = 1, keepdim: bool = false)",
              "var and mean", [](A a) {
                const VarMean y = var_mean(a[0], dims(a), options(a));
                return std::vector{y.var, y.mean};
              });
  catalog.add("cov(input, fweights?, aweights?, correction: int = 1)",
              "sum((x_i - mean_i) (x_j - mean_j)) / (n - correction)", [](A a) {
                return cov(a[0], {a.int32("correction"), a[1], a[2]});
              });
  catalog.add("corrcoef(input)", "cov_ij / sqrt(cov_ii cov_jj)",
              [](A a) { return corrcoef(a[0]); });
  catalog.add("bincount(input, weights?, minlength: int = 0)", "y[x[i]] += weights[i], or 1",
              [](A a) { return bincount(a[0], a[1], a.integer("minlength")); });
  catalog.add(
      "histc(input, bins: int = 100, min: float = 0.0, max: float = 0.0)",
      "how many are in each part of [min, max]",
      [](A a) { return histc(a[0], a.integer("bins"), a.real("min"), a.real("max")); }, flat);
}

Variable trapezoid(const Variable& y, const TrapezoidOptions& options, Where where) {
  if (options.x.defined()) return trapezoid(y, options.x, options.dim, where);
  return trapezoid(y, options.dx, options.dim, where);
}
Variable MinMax::operator[](int part) const { return detail::part_at(*this, part); }
Variable StdMean::operator[](int part) const { return detail::part_at(*this, part); }
Variable VarMean::operator[](int part) const { return detail::part_at(*this, part); }
Variable bincount(const Variable& x, BincountOptions options, Where where) {
  return bincount(x, options.weights, options.minlength, where);
}
}  // namespace tapegrad
