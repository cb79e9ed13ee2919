#include "ops/extremes.h"

#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/index.h"
#include "ops/internal/catalog_arguments.h"
#include "ops/internal/extent.h"
#include "ops/internal/kernels/reduce.h"
#include "ops/internal/scalar_dimension.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(amax) amax{"amax"}, amin{"amin"};
constinit decltype(contains) contains{"any"};
constinit decltype(extreme) extreme{"max"};
constinit decltype(extreme_backward) extreme_backward{"amax_backward"};

}  // namespace kernels

using namespace detail;

namespace {

template <bool kLargest>
struct Amax {
  static constexpr std::string_view kName = kLargest ? "amax" : "amin";
  Extent extent;
  SavedInput<0> x{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, y); }

  Tensor forward(const Tensor& x) {
    require_elements(kName, extent);
    Tensor y = x.empty_like(extent.kept);
    (kLargest ? kernels::amax : kernels::amin)(x, y);
    return extent.finish(y);
  }
  // Equal extremes share the gradient: dx = dy / count where x = y.
  Variable backward(const Variable& dy) const {
    const Variable x = this->x(), y = this->y();
    const Variable chosen = eq(x, extent.keep(y)).to(x.dtype());
    return chosen * (extent.keep(dy) / sum_to(chosen, extent.kept));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    const Tensor x = this->x.value();
    const Shape shape = extent.rows_of(x);
    if (shape.rank() == 0 || !kernels::extreme_backward.has(x.device().type, x.dtype()))
      return backward(Variable(dy)).value();
    const auto as = [](const Tensor& tensor, const Shape& shape) {
      const Tensor dense = tensor.contiguous();
      return dense.with_layout(contiguous_layout(shape, dense.layout().offset));
    };
    const Shape one{shape[0], 1, shape[2]};
    Tensor dx = x.empty_like(x.shape()), rows = as(dx, shape);
    kernels::extreme_backward(as(dy, one), as(x, shape), as(y.value(), one), rows);
    return dx;
  }
};

struct MaxAlong {
  static constexpr std::string_view kName = "max";
  std::string_view name;  // max or min
  Extent extent;
  int dim;
  SavedOutput<1> indices{};
  auto saved() { return std::tie(indices); }

  std::vector<Tensor> forward(const Tensor& x) {
    require_elements(name, extent);
    Tensor values = x.empty_like(extent.to);
    Tensor indices = Tensor::empty(extent.to, i64, x.device());
    kernels::extreme(around(x, dim), name == kName, values, indices);
    return {values, indices};
  }
  // Only the chosen element receives the gradient.
  Variable backward(std::span<const Variable> dy) const {
    if (!dy[0].defined()) return {};
    const Variable zeros(Tensor::full(extent.from, 0.0, dy[0].dtype(), dy[0].device()));
    const Variable at(extent.keep(indices().detach()).value());
    return scatter_add(zeros, dim, at, extent.keep(dy[0]));
  }
};

struct ArgMax {
  static constexpr std::string_view kName = "argmax";
  static constexpr bool kDifferentiable = false;
  std::string_view name;  // argmax or argmin
  Extent extent;
  int dim;  // -1: flattened tensor

  Tensor forward(const Tensor& x) {
    require_elements(name, extent);
    Tensor values, indices = Tensor::empty(extent.to, i64, x.device());
    Tensor dense = x.contiguous();
    if (dim < 0) {
      const Shape flat{1, x.numel(), 1};
      dense = dense.with_layout({flat, contiguous_strides(flat), dense.layout().offset});
    } else {
      dense = around(dense, dim);
    }
    kernels::extreme(dense, name == kName, values, indices);
    return indices;
  }
};

struct Any {
  static constexpr std::string_view kName = "any";
  static constexpr bool kDifferentiable = false;
  bool all;
  Extent extent;

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty(extent.kept, boolean, x.device());
    kernels::contains(x, /*zero=*/all, /*yes=*/!all, y);
    return extent.finish(y);
  }
};

ValuesIndices extreme_along(std::string_view name, const Variable& x, int dim, bool keepdim,
                            Where where) {
  dim = normalize_dim(name, dim, x.rank());
  std::vector<Variable> both =
      apply(MaxAlong{name, {name, x.shape(), {dim}, keepdim}, dim}, where, x);
  return {both[0], both[1]};
}

/// Returns the option .dim, which results with indices require.
int along(std::string_view name, const AlongOptions& options, Where where) {
  const ErrorLine line(where);
  const std::optional<int> dim = options.along();
  if (!dim)
    fail<ArgumentError>(name,
                        ": the option .dim is missing; for the extreme of all elements, call a",
                        name, "(x, {.keepdim = true})");
  return *dim;
}

Variable arg_extreme(std::string_view name, const Variable& x, std::optional<int> dim, bool keepdim,
                     Where where) {
  if (!dim) return apply(ArgMax{name, {name, x.shape(), {}, keepdim}, -1}, where, x);
  const int along = normalize_dim(name, *dim, x.rank());
  return apply(ArgMax{name, {name, x.shape(), {along}, keepdim}, along}, where, x);
}

/// sum and mean share the options.
void require_no_dtype(std::string_view op, const ReduceOptions& options) {
  if (options.dtype) fail<ArgumentError>(op, ": the option .dtype is one of sum and mean");
}

}  // namespace

Dims detail::one_name(const Dims& dim, const Dims& axis) {
  if (!dim.empty() && !axis.empty())
    fail<ArgumentError>("give .dim = ", dim, " or .axis = ", axis, ", not both");
  return axis.empty() ? dim : axis;
}
std::optional<int> detail::one_name(std::optional<int> dim, std::optional<int> axis) {
  if (dim && axis) fail<ArgumentError>("give .dim = ", *dim, " or .axis = ", *axis, ", not both");
  return axis ? axis : dim;
}

std::ostream& operator<<(std::ostream& out, const ValuesIndices& both) {
  return out << "values: " << both.values << "\nindices: " << both.indices;
}

template <typename>
Variable amax(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  if (x.dtype() == boolean) return amax(x.to(u8, where), dims, keepdim, where).to(boolean, where);
  return apply(Amax<true>{{"amax", x.shape(), dims, keepdim}}, where, x);
}
template Variable amax(const Variable&, const Dims&, bool, Where);
Variable amax(const Variable& x, ReduceOptions options, Where where) {
  require_no_dtype("amax", options);
  return amax(x, options.dims(), options.keeps(), where);
}
Variable amax(const Variable& x, Where where) { return amax(x, Dims{}, false, where); }
template <typename>
Variable amin(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  if (x.dtype() == boolean) return amin(x.to(u8, where), dims, keepdim, where).to(boolean, where);
  return apply(Amax<false>{{"amin", x.shape(), dims, keepdim}}, where, x);
}
template Variable amin(const Variable&, const Dims&, bool, Where);
Variable amin(const Variable& x, ReduceOptions options, Where where) {
  require_no_dtype("amin", options);
  return amin(x, options.dims(), options.keeps(), where);
}
Variable amin(const Variable& x, Where where) { return amin(x, Dims{}, false, where); }

ValuesIndices max(const Variable& x, int dim, bool keepdim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return max(v, dim); });
  return extreme_along("max", x, dim, keepdim, where);
}
ValuesIndices max(const Variable& x, AlongOptions options, Where where) {
  return max(x, along("max", options, where), options.keeps(), where);
}
ValuesIndices min(const Variable& x, int dim, bool keepdim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return min(v, dim); });
  return extreme_along("min", x, dim, keepdim, where);
}
ValuesIndices min(const Variable& x, AlongOptions options, Where where) {
  return min(x, along("min", options, where), options.keeps(), where);
}
Variable max(const Variable& x, Where where) { return amax(x, where); }
Variable min(const Variable& x, Where where) { return amin(x, where); }

Variable argmax(const Variable& x, std::optional<int> dim, bool keepdim, Where where) {
  const ErrorLine line(where);
  if (dim && is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return argmax(v, dim); });
  return arg_extreme("argmax", x, dim, keepdim, where);
}
Variable argmin(const Variable& x, std::optional<int> dim, bool keepdim, Where where) {
  const ErrorLine line(where);
  if (dim && is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return argmin(v, dim); });
  return arg_extreme("argmin", x, dim, keepdim, where);
}

template <typename>
Variable any(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  return apply(Any{false, {"any", x.shape(), dims, keepdim}}, where, x);
}
template Variable any(const Variable&, const Dims&, bool, Where);
Variable any(const Variable& x, ReduceOptions options, Where where) {
  require_no_dtype("any", options);
  return any(x, options.dims(), options.keeps(), where);
}
Variable any(const Variable& x, Where where) { return any(x, Dims{}, false, where); }
template <typename>
Variable all(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  return apply(Any{true, {"all", x.shape(), dims, keepdim}}, where, x);
}
template Variable all(const Variable&, const Dims&, bool, Where);
Variable all(const Variable& x, ReduceOptions options, Where where) {
  require_no_dtype("all", options);
  return all(x, options.dims(), options.keeps(), where);
}
Variable all(const Variable& x, Where where) { return all(x, Dims{}, false, where); }

namespace detail {
namespace {

std::optional<int> dim_of(const Arguments& a) {
  return a.has("dim") ? std::optional<int>(a.int32("dim")) : std::nullopt;
}

template <typename Along, typename All>
std::vector<Variable> extreme_of(const Arguments& a, Along along, All all) {
  if (!a.has("dim")) return {all(a[0])};
  const ValuesIndices both = along(a[0], a.int32("dim"), a.flag("keepdim"));
  return {both.values, both.indices};
}

}  // namespace

void catalog_extremes(Catalog& catalog) {
  catalog.add("amax(input, dim: ints = none, keepdim: bool = false)",
              "the largest element; equal ones share the gradient",
              [](const Arguments& a) { return amax(a[0], dims_of(a), a.flag("keepdim")); });
  catalog.add("amin(input, dim: ints = none, keepdim: bool = false)",
              "the smallest element; equal ones share the gradient",
              [](const Arguments& a) { return amin(a[0], dims_of(a), a.flag("keepdim")); });
  catalog.add("max(input, dim: int = none, keepdim: bool = false)",
              "the largest elements along dim and where they first are, or the largest of all",
              [](const Arguments& a) {
                return extreme_of(
                    a, [](const auto& x, int dim, bool keepdim) { return max(x, dim, keepdim); },
                    [](const auto& x) { return max(x); });
              });
  catalog.add("min(input, dim: int = none, keepdim: bool = false)",
              "the smallest elements along dim and where they first are, or the smallest of all",
              [](const Arguments& a) {
                return extreme_of(
                    a, [](const auto& x, int dim, bool keepdim) { return min(x, dim, keepdim); },
                    [](const auto& x) { return min(x); });
              });
  catalog.add("argmax(input, dim: int = none, keepdim: bool = false)",
              "where the first largest element is",
              [](const Arguments& a) { return argmax(a[0], dim_of(a), a.flag("keepdim")); },
              {.max_order = 0});
  catalog.add("argmin(input, dim: int = none, keepdim: bool = false)",
              "where the first smallest element is",
              [](const Arguments& a) { return argmin(a[0], dim_of(a), a.flag("keepdim")); },
              {.max_order = 0});
  catalog.add("any(input, dim: ints = none, keepdim: bool = false)",
              "whether an element is not zero",
              [](const Arguments& a) { return any(a[0], dims_of(a), a.flag("keepdim")); },
              {.max_order = 0});
  catalog.add("all(input, dim: ints = none, keepdim: bool = false)", "whether no element is zero",
              [](const Arguments& a) { return all(a[0], dims_of(a), a.flag("keepdim")); },
              {.max_order = 0});
}

}  // namespace detail
Variable ValuesIndices::operator[](int part) const { return detail::part_at(*this, part); }
ValuesIndices::operator std::tuple<Variable&, Variable&>() { return {values, indices}; }
ValuesIndices max(const Variable& x, int dim, Keepdim keep, Where where) {
  return max(x, dim, keep.keepdim, where);
}
ValuesIndices min(const Variable& x, int dim, Keepdim keep, Where where) {
  return min(x, dim, keep.keepdim, where);
}
Variable argmax(const Variable& x, int dim, Keepdim keep, Where where) {
  return argmax(x, dim, keep.keepdim, where);
}
Variable argmin(const Variable& x, int dim, Keepdim keep, Where where) {
  return argmin(x, dim, keep.keepdim, where);
}
}  // namespace tapegrad
