#include "ops/reduce.h"

#include <cmath>
#include <limits>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/catalog_arguments.h"
#include "ops/internal/extent.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/kernels/reduce.h"
#include "ops/internal/operands.h"
#include "ops/internal/scalar_dimension.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(sum) sum{"sum"};
constinit decltype(prod) prod{"prod"};
constinit decltype(var) var{"var"};
constinit decltype(norm) norm{"norm"};
constinit decltype(logsumexp) logsumexp{"logsumexp"};
constinit decltype(logsumexp_backward) logsumexp_backward{"logsumexp_backward"};
constinit decltype(sum_of_products) sum_of_products{"sum_of_products"};

}  // namespace kernels

using namespace detail;

namespace {

struct Sum {
  static constexpr std::string_view kName = "sum";
  Extent extent;

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty(extent.kept, is_float(x.dtype()) ? x.dtype() : i64, x.device());
    kernels::sum(x, 1.0, y);
    return extent.finish(y);
  }
  Variable backward(const Variable& dy) const { return extent.spread(dy); }
};

struct Mean {
  static constexpr std::string_view kName = "mean";
  Extent extent;

  Tensor forward(const Tensor& x) {
    require_float(kName, x);
    Tensor y = x.empty_like(extent.kept);
    kernels::sum(x, double(extent.count), y);
    return extent.finish(y);
  }
  Variable backward(const Variable& dy) const { return extent.spread(dy / double(extent.count)); }
};

/// The variance, or the standard deviation if `root`.
struct Var {
  static constexpr std::string_view kName = "var";
  Extent extent;
  double divisor;
  bool root;
  SavedInput<0> x{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, y); }

  Tensor forward(const Tensor& x) {
    require_float(root ? "std" : kName, x);
    Tensor y = x.empty_like(extent.kept);
    kernels::var(x, divisor, root, y);
    return extent.finish(y);
  }
  // dx = 2 (x - mean) / divisor dy. For the root, divided by 2 y, and 0 where y is 0.
  Variable backward(const Variable& dy) const {
    const Variable x = this->x();
    Variable scale = dy * (2.0 / divisor);
    if (root) {
      const Variable y = this->y();
      const Variable flat = eq(y, 0.0);
      scale = where(flat, 0.0, scale / where(flat, 1.0, y * 2.0));
    }
    Extent kept = extent;
    kept.to = kept.kept;
    return (x - apply(Mean{kept}, Where::current(), x)) * extent.keep(scale);
  }
};

/// Computes dx[i] = dy * the product of all elements except x[i], along dim. Computed without
/// division, from products of halves on the way up and the remaining factors on the way down, so it
/// is exact for any number of zeros and any derivative order.
Variable prod_gradient(const Variable& x, int dim, const Variable& dy) {
  struct Level {
    Variable low, high, rest;  // rest: the last element of an odd number
  };
  std::vector<Level> levels;
  for (Variable level = x; level.size(dim) > 1;) {
    const int64_t half = level.size(dim) / 2;
    const bool odd = level.size(dim) % 2 == 1;
    levels.push_back({narrow(level, dim, 0, half), narrow(level, dim, half, half),
                      odd ? narrow(level, dim, 2 * half, 1) : Variable()});
    level = levels.back().low * levels.back().high;
    if (odd) level = cat({level, levels.back().rest}, dim);
  }
  Variable dx = dy;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    const int64_t half = level->low.size(dim);
    const Variable both = narrow(dx, dim, 0, half);
    if (level->rest.defined())
      dx = cat({both * level->high, both * level->low, narrow(dx, dim, half, 1)}, dim);
    else
      dx = cat({both * level->high, both * level->low}, dim);
  }
  return dx;
}

struct Prod {
  static constexpr std::string_view kName = "prod";
  Extent extent;
  int dim;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty(extent.kept, is_float(x.dtype()) ? x.dtype() : i64, x.device());
    kernels::prod(x, y);
    return extent.finish(y);
  }
  Variable backward(const Variable& dy) const {
    const Variable x = this->x();
    if (x.numel() == 0) return Variable(Tensor::full(x.shape(), 0.0, x.dtype(), x.device()));
    const DType wide = size_of(x.dtype()) == 2 ? f32 : x.dtype();  // rounded once at the end
    return prod_gradient(x.to(wide), dim, extent.keep(dy).to(wide)).to(x.dtype());
  }
};

struct Norm {
  static constexpr std::string_view kName = "norm";
  Extent extent;
  double p;
  SavedInput<0> x{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, y); }

  Tensor forward(const Tensor& x) {
    require_float(kName, x);
    Tensor y = x.empty_like(extent.kept);
    kernels::norm(x, p, y);
    return extent.finish(y);
  }
  // dx = sign(x) (|x| / y)^(p - 1) dy, and 0 where x or y is 0.
  Variable backward(const Variable& dy) const {
    const Variable x = this->x();
    if (p == 0) return Variable(Tensor::full(x.shape(), 0.0, x.dtype(), x.device()));
    if (p == 1) return sign(x) * extent.keep(dy);
    const Variable y = extent.keep(this->y());
    if (p < 0) {  // y is 0 if an element is
      const Variable size = where(eq(x, 0.0), 1.0, abs(x));
      return sign(x) * pow(y / size, 1 - p) * extent.keep(dy);
    }
    if (p == 2)  // derivatives of all orders are 0 where y is
      return x * (extent.keep(dy) / where(eq(y, 0.0), std::numeric_limits<double>::infinity(), y));
    const Variable length = where(eq(y, 0.0), 1.0, y);
    const Variable size = where(eq(x, 0.0), 1.0, abs(x));
    return sign(x) * pow(size / length, p - 1) * extent.keep(dy);
  }
};

struct LogSumExp {
  static constexpr std::string_view kName = "logsumexp";
  Extent extent;
  SavedInput<0> x{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, y); }

  Tensor forward(const Tensor& x) {
    require_float(kName, x);
    Tensor y = x.empty_like(extent.to);
    if (const Shape rows = extent.rows_of(x); rows.rank() > 0) {
      kernels::logsumexp(x.with_layout({rows, contiguous_strides(rows), x.layout().offset}), y);
      return y;
    }
    // Merges the reduced dimensions into one and moves it to the end.
    StridedLayout layout{{}, {}, x.layout().offset};
    for (bool reduced : {false, true})
      for (int i = 0; i < x.rank(); ++i)
        if ((extent.kept[i] != x.shape()[i]) == reduced) {
          layout.shape.push_back(x.shape()[i]);
          layout.strides.push_back(x.strides()[i]);
        }
    const Tensor dense = x.with_layout(layout).contiguous();
    const Shape rows{numel(extent.kept), extent.count, 1};
    kernels::logsumexp(dense.with_layout({rows, contiguous_strides(rows), dense.layout().offset}),
                       y);
    return y;
  }
  // dx = exp(x - y) dy; 0 for a row that is entirely -inf.
  Variable backward(const Variable& dy) const {
    const Variable y = extent.keep(this->y());
    const Variable finite = where(eq(y, -std::numeric_limits<double>::infinity()), 0.0, y);
    return exp(x() - finite) * extent.keep(dy);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    const Tensor x = this->x.value();
    const auto kept = [&](const Tensor& of) { return extent.keep(Variable(of)).value(); };
    Tensor dx = x.empty_like(x.shape());
    kernels::logsumexp_backward(kept(dy), x, kept(y.value()), dx);
    return dx;
  }
};

/// Returns the extent of sum_to(). Throws ShapeError if `to` does not broadcast to `from`.
Extent extent_of_sum_to(const Shape& from, const Shape& to) {
  const int missing = from.rank() - to.rank();
  if (missing < 0 || broadcast("sum_to", to, from) != from)
    fail<ShapeError>("sum_to: ", to, " does not broadcast to ", from);
  Extent extent{"sum_to", from, {}, true};
  extent.kept = from;
  for (int i = 0; i < from.rank(); ++i) extent.kept[i] = i < missing ? 1 : to[i - missing];
  extent.to = to;
  return extent;
}

double divisor_of(const Extent& extent, const VarOptions& options) {
  const int correction = options.unbiased ? int(*options.unbiased) : options.correction;
  return double(std::max<int64_t>(extent.count - int64_t(correction), 0));
}

}  // namespace

template <typename>
Variable sum(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  return apply_wide(Sum{{Sum::kName, x.shape(), dims, keepdim}}, where, x);
}
template Variable sum(const Variable&, const Dims&, bool, Where);
Variable sum(const Variable& x, ReduceOptions options, Where where) {
  return sum(options.dtype ? x.to(*options.dtype, where) : x, options.dims(), options.keeps(),
             where);
}
Variable sum(const Variable& x, Where where) { return sum(x, Dims{}, false, where); }

Variable sum_to(const Variable& x, const Shape& shape, Where where) {
  const ErrorLine line(where);
  if (x.shape() == shape) return x;
  return apply(Sum{extent_of_sum_to(x.shape(), shape)}, where, x);
}

Tensor detail::sum_of_products(const Tensor& a, const Tensor& b, const Shape& shape) {
  const Shape all = broadcast("mul", a.shape(), b.shape());
  const Extent extent = extent_of_sum_to(all, shape);
  Tensor y = Tensor::empty(extent.kept, a.dtype(), a.device());
  const auto spread = [&](const Tensor& x) {
    return x.shape() == all
               ? x
               : x.with_layout({all, broadcast_strides(x.layout(), all), x.layout().offset});
  };
  if (const Tensor p = spread(a), q = spread(b);
      a.dtype() == b.dtype() && kernels::sum_of_products.accepts(p, q, y))
    kernels::sum_of_products(p, q, y);
  else
    kernels::sum(compute(kernels::mul, a, b), 1.0, y);
  return extent.finish(y);
}

template <typename>
Variable mean(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  return apply(Mean{{Mean::kName, x.shape(), dims, keepdim}}, where, x);
}
template Variable mean(const Variable&, const Dims&, bool, Where);
Variable mean(const Variable& x, ReduceOptions options, Where where) {
  return mean(options.dtype ? x.to(*options.dtype, where) : x, options.dims(), options.keeps(),
              where);
}
Variable mean(const Variable& x, Where where) { return mean(x, Dims{}, false, where); }

Variable var(const Variable& x, VarOptions options, Where where) {
  return var(x, options.dims(), options, where);
}
Variable detail::var_over(const Variable& x, const Dims& dims, VarOptions options, Where where) {
  const ErrorLine line(where);
  const Extent extent{"var", x.shape(), dims, options.keeps()};
  return apply(Var{extent, divisor_of(extent, options), false}, where, x);
}
Variable std(const Variable& x, VarOptions options, Where where) {
  return std(x, options.dims(), options, where);
}
Variable detail::std_over(const Variable& x, const Dims& dims, VarOptions options, Where where) {
  const ErrorLine line(where);
  const Extent extent{"std", x.shape(), dims, options.keeps()};
  return apply(Var{extent, divisor_of(extent, options), true}, where, x);
}

Variable prod(const Variable& x, Where where) {
  return prod(reshape(x, {x.numel()}, where), 0, false, where);
}
Variable prod(const Variable& x, int dim, bool keepdim, Where where) {
  if (x.value(where).dtype() == boolean) return prod(x.to(i64, where), dim, keepdim, where);
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return prod(v, dim); });
  dim = normalize_dim(Prod::kName, dim, x.rank());
  return apply_wide(Prod{{Prod::kName, x.shape(), {dim}, keepdim}, dim}, where, x);
}
Variable prod(const Variable& x, AlongOptions options, Where where) {
  if (const std::optional<int> dim = options.along()) return prod(x, *dim, options.keeps(), where);
  const Variable all = prod(x, where);
  if (!options.keeps()) return all;
  Shape ones;
  for (int i = 0; i < x.rank(); ++i) ones.push_back(1);
  return reshape(all, ones, where);
}

template <typename>
Variable logsumexp(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  return apply_wide(LogSumExp{{LogSumExp::kName, x.shape(), dims, keepdim}}, where,
                    as_float(x, where));
}
template Variable logsumexp(const Variable&, const Dims&, bool, Where);
Variable logsumexp(const Variable& x, ReduceOptions options, Where where) {
  if (options.dtype) fail<ArgumentError>("logsumexp: the option .dtype is one of sum and mean");
  return logsumexp(x, options.dims(), options.keeps(), where);
}

Variable norm(const Variable& x, double p, Where where) { return norm(x, p, Dims{}, false, where); }
Variable norm(const Variable& x, NormOptions options, Where where) {
  return norm(x, options.p, options.dim, options.keepdim, where);
}
Variable norm(const Variable& x, double p, const Dims& dims, bool keepdim, Where where) {
  const ErrorLine line(where);
  if (std::isnan(p)) fail<ArgumentError>("norm: p is not a number");
  if (std::isinf(p))
    return p > 0 ? amax(abs(wide(x, where), where), dims, keepdim, where)
                 : amin(abs(wide(x, where), where), dims, keepdim, where);
  return apply_wide(Norm{{Norm::kName, x.shape(), dims, keepdim}, p}, where, x);
}

namespace {

VarOptions var_options(const Arguments& a) {
  return {.correction = a.int32("correction"), .keepdim = a.flag("keepdim")};
}

}  // namespace

void catalog_reduce(Catalog& catalog) {
  catalog.add("sum(input, dim: ints = none, keepdim: bool = false, dtype: dtype = none)",
              "the sum over dim, or all", [](const Arguments& a) {
                return sum(input_in_dtype(a), dims_of(a), a.flag("keepdim"));
              });
  catalog.add("sum_to(input, shape: ints)", "the sum down to a shape that broadcasts to input's",
              [](const Arguments& a) { return sum_to(a[0], a.dims("shape")); });
  catalog.add(
      "mean(input, dim: ints = none, keepdim: bool = false, dtype: dtype = none)", "sum / count",
      [](const Arguments& a) { return mean(input_in_dtype(a), dims_of(a), a.flag("keepdim")); });
  catalog.add("var(input, dim: ints = none, correction: int = 1, keepdim: bool = false)",
              "sum((x - mean)^2) / (count - correction)",
              [](const Arguments& a) { return var(a[0], dims_of(a), var_options(a)); });
  catalog.add("std(input, dim: ints = none, correction: int = 1, keepdim: bool = false)",
              "sqrt(var)",
              [](const Arguments& a) { return std(a[0], dims_of(a), var_options(a)); });
  catalog.add("prod(input, dim: int = none, keepdim: bool = false, dtype: dtype = none)",
              "the product along dim, or of all", [](const Arguments& a) {
                const Variable x = input_in_dtype(a);
                return a.has("dim") ? prod(x, a.int32("dim"), a.flag("keepdim")) : prod(x);
              });
  catalog_extremes(catalog);
  catalog.add("logsumexp(input, dim: ints, keepdim: bool = false)", "log(sum(exp(x))) over dim",
              [](const Arguments& a) { return logsumexp(a[0], a.dims("dim"), a.flag("keepdim")); });
  catalog.add(
      "norm(input, p: float = 2.0, dim: ints = none, keepdim: bool = false)", "(sum |x|^p)^(1/p)",
      [](const Arguments& a) { return norm(a[0], a.real("p"), dims_of(a), a.flag("keepdim")); });
}

}  // namespace tapegrad
