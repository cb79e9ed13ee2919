#include "ops/scatter.h"

#include <limits>

#include "core/base/internal/host_values.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/index_checks.h"
#include "ops/internal/kernels/scatter.h"
#include "ops/internal/operands.h"
#include "ops/internal/scalar_dimension.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/statistics.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(scatter) scatter{"scatter"};
constinit decltype(scatter_reduce) scatter_reduce{"scatter_reduce"};
constinit decltype(nonzero) nonzero{"nonzero"};
constinit decltype(places_of) places_of{"nonzero"};
constinit decltype(count_extremes) count_extremes{"count_extremes"};
constinit decltype(share_extremes) share_extremes{"share_extremes"};
constinit decltype(index_copy) index_copy{"index_copy"};
constinit decltype(index_accumulate) index_accumulate{"index_accumulate"};

}  // namespace kernels

using namespace detail;

namespace {

/// Checks the arguments and normalizes dim. Returns the index as contiguous int64, in range; with
/// as_rows, an index that repeats a vector is reduced to it.
Tensor check_scatter(std::string_view op, const Tensor& x, int& dim, const Tensor& index,
                     const Tensor& source, bool as_rows = false) {
  check_same_device(op, x, index, source);
  check_same_dtype(op, x, source);
  dim = normalize_dim(op, dim, x.rank());
  check_fits(op, index, x.shape(), dim, "x");
  check_fits(op, index, source.shape(), -1, "the source");
  const Tensor vector = as_rows ? repeated_vector(index, dim) : Tensor();
  const Tensor which = as_index(op, vector ? vector : index);
  check_index(op, which, x.shape()[dim]);
  return which;
}

/// Pads the gradient of the part that an index covers with zeros.
Variable padded(const Variable& part, const Shape& shape) {
  if (part.shape() == shape) return part;
  std::vector<int64_t> behind;  // last dimension first
  for (int i = shape.rank() - 1; i >= 0; --i) {
    behind.push_back(0);
    behind.push_back(shape[i] - part.shape()[i]);
  }
  return pad(part, behind);
}

/// Returns whether all elements of x are one number, as after expand().
bool is_one_number(const Tensor& x) {
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] != 1 && x.strides()[i] != 0) return false;
  return true;
}

struct Scatter {
  static constexpr std::string_view kName = "scatter";
  int dim;
  Shape from{}, source_shape{};
  SavedInput<1> index{};
  auto saved() { return std::tie(index); }

  Tensor forward(const Tensor& x, const Tensor& index, const Tensor& source) {
    const bool has_rows = kernels::index_copy.has(x.device().type, x.dtype());
    const Tensor which = check_scatter(kName, x, dim, index, source, has_rows);
    from = x.shape();
    source_shape = source.shape();
    Tensor y = x.clone();
    Tensor target = corner(y, index.shape(), dim), part = corner(source, index.shape(), -1);
    if (which.numel() == index.numel()) {
      if (which.numel() > 0) kernels::scatter(part.contiguous(), which, dim, target);
    } else if (target.is_contiguous()) {
      if (is_one_number(part)) part = part.with_layout({{}, {}, part.layout().offset});
      kernels::index_copy(part.contiguous(), as_vector(which), dim, target);
    } else {
      kernels::scatter(part.contiguous(), as_index(kName, index), dim, target);
    }
    return y;
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    const Variable which = index().to(i64);
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = scatter(dy, dim, which, 0);
    if (needs[2]) {
      dx[2] = gather(dy, dim, which);
      if (which.size(dim) > 1) dx[2] = tapegrad::where(stayed(which), dx[2], 0);
      dx[2] = padded(dx[2], source_shape);
    }
    return dx;
  }

  /// If several elements were written to one place, the last one remained. An index that repeats a
  /// vector is reduced to it.
  Variable stayed(const Variable& index) const {
    const TensorOptions whole{.dtype = i64, .device = index.device()};
    const Tensor vector = repeated_vector(index.value(), dim);
    const Variable which = vector ? Variable(vector) : index;
    Shape places = which.shape();
    places[dim] = from[dim];
    const Variable numbers = reshape(arange(which.numel(), whole), which.shape());
    Variable last(Tensor::empty(places, i64, index.device()));  // only read where it was written
    return gather(scatter(last, dim, which, numbers), dim, which) == numbers;
  }
};

/// Products and extremes, with include_self.
struct ScatterReduce {
  static constexpr std::string_view kName = "scatter_reduce";
  int dim;
  Reduce reduce;
  bool include_self = true;  // if false, x is the neutral element at the index
  Shape source_shape{};
  SavedInput<0> x{};
  SavedInput<1> index{};
  SavedInput<2> source{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, index, source, y); }

  Tensor forward(const Tensor& x, const Tensor& index, const Tensor& source) {
    const DType wide = is_float(x.dtype()) && size_of(x.dtype()) == 2 ? f32 : x.dtype();
    const bool has_rows = kernels::index_accumulate.has(x.device().type, wide);
    Tensor which = check_scatter(kName, x, dim, index, source, has_rows);
    source_shape = source.shape();
    Tensor y = x.to(wide);
    if (y.shares_storage(x)) y = y.clone();
    Tensor target = corner(y, index.shape(), dim);
    if (which.numel() != index.numel())
      which = target.is_contiguous() ? as_vector(which) : as_index(kName, index);
    if (which.numel() > 0)
      kernels::scatter_reduce(corner(source, index.shape(), -1).to(wide).contiguous(), which, dim,
                              reduce, target);
    return y.to(x.dtype());
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs) const {
    Variable part = source();
    for (int i = 0; i < part.rank(); ++i) part = narrow(part, i, 0, index().size(i));
    return reduce == Reduce::kProd ? of_product(dy, part) : of_extreme(dy, part);
  }
  std::array<Tensor, 3> kernel_backward(const Tensor& dy, Needs needs) const {
    if (reduce == Reduce::kProd) {
      const auto dx = backward(Variable(dy), needs);
      return {dx[0].value(), Tensor(), dx[2].value()};
    }
    const DType dtype = dy.dtype(), wide = compute_dtype(dtype);
    const Tensor extremes = y.value().to(wide).contiguous();
    const Shape& shape = index.value().shape();
    const Tensor part = corner(source.value(), shape, -1).to(wide).contiguous();
    const Tensor own = needs[0] || include_self ? owned(wide).value().contiguous() : Tensor();
    Tensor share = own ? own.clone() : Tensor::full(extremes.shape(), 0, wide, dy.device());
    Tensor counts = corner(share, shape, dim);
    const bool has_rows = kernels::index_accumulate.has(dy.device().type, wide);
    const Tensor vector =
        has_rows && counts.is_contiguous() ? repeated_vector(index.value(), dim) : Tensor();
    const Tensor which = as_index(kName, vector ? as_vector(vector) : index.value());
    const bool is_empty = which.numel() == 0;
    if (!is_empty) kernels::count_extremes(part, corner(extremes, shape, dim), which, dim, counts);
    kernels::div(dy.to(wide), share, share);
    std::array<Tensor, 3> dx;
    if (needs[0]) dx[0] = compute(kernels::mul, own, share).to(dtype);
    if (needs[2]) {
      Tensor others = part.empty_like();
      if (!is_empty)
        kernels::share_extremes(part, corner(extremes, shape, dim), counts, which, dim, others);
      dx[2] = padded(Variable(others), source_shape).value().to(dtype);
    }
    return dx;
  }

 private:
  /// Returns 1 where the element of x is an extreme that takes part, else 0.
  Variable owned(DType dtype) const {
    const Variable own = eq(x(), y()).to(dtype);
    return include_self ? own : scatter(own, dim, index(), 0);
  }
  // Each of n equal extremes receives dy / n.
  std::array<Variable, 3> of_extreme(const Variable& dy, const Variable& part) const {
    const Variable own = owned(dy.dtype());
    const Variable others = eq(part, gather(y(), dim, index())).to(dy.dtype());
    const Variable share = dy / scatter_add(own, dim, index(), others);
    return {own * share, Variable(), padded(others * gather(share, dim, index()), source_shape)};
  }
  // dy times the product of the other factors: product / factor if there is no zero, the product of
  // the others for the only zero, and 0 if another factor is zero.
  std::array<Variable, 3> of_product(const Variable& dy, const Variable& part) const {
    const Variable zero_x = eq(x(), 0), zero_part = eq(part, 0);
    if (is_recording() && host_number(logical_or(any(zero_x), any(zero_part)).value()).to<bool>())
      return of_product_in_layers(dy, part);
    const Variable own = where(zero_x, 1, x()), others = where(zero_part, 1, part);
    const Variable product =
        apply(ScatterReduce{dim, reduce}, Where::current(), own, index(), others);
    const Variable zeros = scatter_add(zero_x.to(i64), dim, index(), zero_part.to(i64));
    const auto gradient = [&](const Variable& is_zero, const Variable& factor, const Variable& dy,
                              const Variable& product, const Variable& zeros) {
      const Variable counts = eq(zeros, is_zero.to(i64));
      return where(counts, dy * (product / factor), 0);
    };
    const auto at = [&](const Variable& v) { return gather(v, dim, index()); };
    return {gradient(zero_x, own, dy, product, zeros), Variable(),
            padded(gradient(zero_part, others, at(dy), at(product), at(zeros)), source_shape)};
  }
  // of_product() without division, which can be differentiated over zeros. Each position along dim
  // is a layer, whose elements all go to different places; the products of lower and higher layers
  // are combined.
  std::array<Variable, 3> of_product_in_layers(const Variable& dy, const Variable& part) const {
    const Variable one = ones_like(x());
    std::vector<Variable> layers{x()}, parts;
    const auto at = [&](const Variable& v, int64_t i) { return narrow(v, dim, i, 1); };
    for (int64_t i = 0; i < part.size(dim); ++i)
      layers.push_back(scatter(one, dim, at(index(), i), at(part, i)));
    const Variable all = stack(layers, 0), first = unsqueeze(one, 0);
    const int64_t rest = part.size(dim);
    const Variable below = cat({first, cumprod(narrow(all, 0, 0, rest), 0)});
    const Variable above = flip(cat({first, cumprod(flip(narrow(all, 0, 1, rest), {0}), 0)}), {0});
    const Variable each = dy * below * above;
    for (int64_t i = 0; i < rest; ++i)
      parts.push_back(gather(select(each, 0, i + 1), dim, at(index(), i)));
    return {select(each, 0, 0), Variable(), padded(cat(parts, dim), source_shape)};
  }
};

struct Nonzero {
  static constexpr std::string_view kName = "nonzero";
  static constexpr bool kDifferentiable = false;
  int64_t count;

  Tensor forward(const Tensor& x) const {
    Tensor y = Tensor::empty({count}, i64, x.device());
    if (count > 0) kernels::nonzero(x.contiguous(), y);
    return y;
  }
};

/// Returns the row-major positions of nonzero elements.
Variable positions_of(const Variable& x, Where where) {
  const CallLine line(where);
  return apply(Nonzero{host_number(count_nonzero(x).value()).to<int64_t>()}, where, x);
}

void check_mask(std::string_view op, const Variable& mask) {
  if (mask.dtype() != boolean) fail<DTypeError>(op, ": the mask is bool, not ", mask.dtype());
}

/// Returns the neutral element of a reduction.
Number neutral(Reduce reduce, DType dtype) {
  if (reduce == Reduce::kSum || reduce == Reduce::kMean) return 0;
  if (reduce == Reduce::kProd) return 1;
  const bool high = reduce == Reduce::kAmin;
  if (is_float(dtype)) return (high ? 1 : -1) * std::numeric_limits<double>::infinity();
  return with_type(dtype, [&]<typename T>(TypeTag<T>) -> Number {
    if constexpr (std::is_integral_v<T>)
      return int64_t(high ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min());
    else
      return 0;
  });
}

}  // namespace

Variable scatter_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                        ScatterReduceOptions options, Where where) {
  return scatter_reduce(x, dim, index, source, options.reduce, options.include_self, where);
}

Variable index_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                      std::string_view reduce, bool include_self, Where where) {
  const ErrorLine line(where);
  if (detail::is_scalar(x)) [[unlikely]]
    return detail::as_vector(x, where, [&](const Variable& v) {
      return index_reduce(v, dim, reshape(index, {-1}), reshape(source, {-1}), reduce,
                          include_self);
    });
  dim = normalize_dim("index_reduce", dim, x.rank());
  if (reduce == "sum") fail<ArgumentError>("index_reduce: type index_add instead of \"sum\"");
  Shape along = source.shape(), wanted = x.shape();
  if (index.rank() != 1 || source.rank() != x.rank() || index.numel() != along[dim])
    fail<ShapeError>("index_reduce: one entry of the source for each index wanted, not index ",
                     index.shape(), " and source ", along);
  wanted[dim] = along[dim];
  if (along != wanted)
    fail<ShapeError>("index_reduce: x ", x.shape(), " and source ", along,
                     " differ in another dimension than ", dim);
  for (int i = 0; i < x.rank(); ++i)
    if (i != dim) along[i] = 1;
  const Variable which = expand(reshape(index, along), source.shape());
  return scatter_reduce(x, dim, which, source, reduce, include_self, where);
}

Variable scatter(const Variable& x, int dim, const Variable& index, const Variable& source,
                 Where where) {
  const ErrorLine line(where);
  if (detail::is_scalar(x)) [[unlikely]]
    return detail::as_vector(x, where, [&](const Variable& v) {
      return scatter(v, dim, reshape(index, {-1}), reshape(source, {-1}));
    });
  return apply(Scatter{dim}, where, x, index, source);
}
Variable scatter(const Variable& x, int dim, const Variable& index, Number value, Where where) {
  const ErrorLine line(where);
  const Variable number = full({}, value, {.dtype = x.dtype(), .device = x.device()});
  return scatter(x, dim, index, expand(number, index.shape()), where);
}

Variable scatter_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                        Reduce reduce, bool include_self, Where where) {
  const ErrorLine line(where);
  if (detail::is_scalar(x)) [[unlikely]]
    return detail::as_vector(x, where, [&](const Variable& v) {
      return scatter_reduce(v, dim, reshape(index, {-1}), reshape(source, {-1}), reduce,
                            include_self);
    });
  const Variable start =
      include_self ? x : scatter(x, dim, index, neutral(reduce, x.dtype()), where);
  if (reduce == Reduce::kSum) return scatter_add(start, dim, index, source, where);
  if (reduce != Reduce::kMean)
    return apply(ScatterReduce{dim, reduce, include_self}, where, start, index, source);
  const DType wide = is_float(x.dtype()) && size_of(x.dtype()) == 2 ? f32 : x.dtype();
  const Variable total = scatter_add(start.to(wide), dim, index, source.to(wide), where);
  const Variable own = full(x.shape(), include_self ? 1 : 0, {.dtype = i64, .device = x.device()});
  const Variable ones = full(index.shape(), 1, {.dtype = i64, .device = x.device()});
  const Variable count = maximum(scatter_add(own, dim, index, ones), 1).to(wide);
  const Variable mean = is_float(wide) ? total / count : floor_divide(total, count);
  return mean.to(x.dtype());
}

Variable scatter_reduce(const Variable& x, int dim, const Variable& index, const Variable& source,
                        std::string_view reduce, bool include_self, Where where) {
  const ErrorLine line(where);
  constexpr std::string_view kNames[] = {"sum", "prod", "mean", "amax", "amin"};
  for (int i = 0; i < 5; ++i)
    if (kNames[i] == reduce)
      return scatter_reduce(x, dim, index, source, Reduce(i), include_self, where);
  fail<ArgumentError>("scatter_reduce: no reduction is called \"", reduce,
                      "\"; there are sum, prod, mean, amax and amin");
}

Variable scatter(const Variable& x, int dim, const Variable& index, const Variable& source,
                 std::string_view reduce, Where where) {
  const ErrorLine line(where);
  if (reduce != "add" && reduce != "multiply")
    fail<ArgumentError>("scatter: no reduction is called \"", reduce,
                        "\"; there are add and multiply");
  return scatter_reduce(x, dim, index, source, reduce == "add" ? Reduce::kSum : Reduce::kProd, true,
                        where);
}

Variable take(const Variable& x, const Variable& index, Where where) {
  const ErrorLine line(where);
  const Variable which = wrapped("take", index, x.numel());
  return reshape(index_select(reshape(x, {x.numel()}, where), 0, flatten(which), where),
                 index.shape(), where);
}

Variable take_along_dim(const Variable& x, const Variable& index, std::optional<int> dim,
                        Where where) {
  const ErrorLine line(where);
  const auto wrapped = [](const Variable& index, int64_t size) {
    return tapegrad::where(index < 0, index + size, index);
  };
  if (!dim)
    return gather(reshape(x, {x.numel()}, where), 0, wrapped(flatten(index), x.numel()), where);
  if (x.rank() != index.rank())
    fail<ShapeError>("take_along_dim: an index of ", index.shape(), " for ", x.shape());
  const int along = normalize_dim("take_along_dim", *dim, x.rank());
  Shape one_x = x.shape(), one_index = index.shape();
  one_x[along] = one_index[along] = 1;
  Shape whole = broadcast("take_along_dim", one_x, one_index), which = whole;
  whole[along] = x.shape()[along];
  which[along] = index.shape()[along];
  return gather(expand(x, whole, where), along, expand(wrapped(index, whole[along]), which), where);
}

Variable masked_select(const Variable& x, const Variable& mask, Where where) {
  const ErrorLine line(where);
  check_mask("masked_select", mask);
  const Shape shape = broadcast("masked_select", x.shape(), mask.shape());
  const Variable positions = positions_of(expand(mask, shape), where);
  return index_select(reshape(expand(x, shape, where), {numel(shape)}, where), 0, positions, where);
}

Variable masked_scatter(const Variable& x, const Variable& mask, const Variable& source,
                        Where where) {
  const ErrorLine line(where);
  check_mask("masked_scatter", mask);
  const Shape shape = broadcast("masked_scatter", x.shape(), mask.shape());
  const Variable positions = positions_of(expand(mask, shape), where);
  const int64_t count = positions.numel();
  if (count > source.numel())
    fail<ShapeError>("masked_scatter: ", count, " places for ", source.numel(), " elements");
  const Variable first = narrow(reshape(source, {source.numel()}, where), 0, 0, count, where);
  const Variable whole = reshape(expand(x, shape, where), {numel(shape)}, where);
  return reshape(scatter(whole, 0, positions, first, where), shape, where);
}

std::vector<Variable> where(const Variable& condition, Where where) {
  Variable rest = positions_of(condition, where);
  std::vector<Variable> indices(size_t(condition.rank()));
  for (int i = condition.rank() - 1; i >= 0; --i) {
    const int64_t size = std::max<int64_t>(condition.shape()[i], 1);
    indices[size_t(i)] = remainder(rest, size);
    rest = floor_divide(rest, size);
  }
  return indices;
}

Variable nonzero(const Variable& x, Where where) {
  if (x.rank() > 0 && kernels::places_of.has(x.device().type, i64)) {
    const Variable positions = positions_of(x, where);
    Tensor places = Tensor::empty({positions.numel(), x.rank()}, i64, x.device());
    if (positions.numel() > 0) kernels::places_of(positions.value(), x.shape(), places);
    return Variable(places);
  }
  const std::vector<Variable> indices = tapegrad::where(x, where);
  if (indices.empty())
    return zeros({host_number(count_nonzero(x).value()).to<int64_t>(), 0},
                 {.dtype = i64, .device = x.device()});
  return stack(indices, 1);
}

void catalog_scatter(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("scatter(input, index, src?, dim: int, value: number = none)",
              "y = x, then y[index[i, j], j] = src[i, j] for dim 0", [](A a) {
                const int dim = a.int32("dim");
                return a[2].defined() ? scatter(a[0], dim, a[1], a[2])
                                      : scatter(a[0], dim, a[1], a.number("value"));
              });
  catalog.add("scatter_reduce(input, index, src, dim: int, reduce: str, include_self: bool = true)",
              "y[index[i, j], j] combined with src[i, j] for dim 0",
              [](A a) {
                return scatter_reduce(a[0], a.int32("dim"), a[1], a[2], a.text("reduce"),
                                      a.flag("include_self"));
              },
              {.example = [](DType dtype) -> Arguments {
                const Variable x(Tensor::full({2}, 1, dtype)), index(Tensor::full({2}, 0, i64));
                return {.inputs = {x, index, x},
                        .attributes = {{"dim", int64_t(0)}, {"reduce", std::string("amax")}}};
              }});
  catalog.add("take(input, index)", "y[i] = flatten(x)[index[i]]",
              [](A a) { return take(a[0], a[1]); });
  catalog.add("take_along_dim(input, indices, dim: int = none)",
              "y[i, j] = x[indices[i, j], j] for dim 0, broadcast", [](A a) {
                return take_along_dim(
                    a[0], a[1], a.has("dim") ? std::optional<int>(a.int32("dim")) : std::nullopt);
              });
  catalog.add("masked_select(input, mask)", "the elements where mask",
              [](A a) { return masked_select(a[0], a[1]); });
  catalog.add("masked_scatter(input, mask, source)", "elements of source where mask, else x",
              [](A a) { return masked_scatter(a[0], a[1], a[2]); });
  catalog.add("nonzero(input)", "the indices of what is not 0", [](A a) { return nonzero(a[0]); },
              {.max_order = 0});
}

}  // namespace tapegrad
