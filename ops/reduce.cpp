#include "ops/reduce.h"

#include "core/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit Kernel<void(const Tensor&, double, Tensor&)> sum{"sum"};

}  // namespace kernels

namespace {

/// The shapes of a reduction.
struct Extent {
  Shape from;         // of x
  Shape kept;         // of x's rank, with ones
  Shape to;           // of the result
  int64_t count = 1;  // elements that meet in one

  /// Over the dimensions named, or over all when none is.
  Extent(std::string_view op, const Shape& shape, const Dims& dims, bool keepdim) : from(shape) {
    std::array<bool, kMaxRank> reduced{};
    for (int64_t dim : dims) {
      if (dim < -shape.rank() || dim >= shape.rank())
        fail<IndexError>(op, ": dim ", dim, " is outside a tensor of shape ", shape);
      bool& seen = reduced[dim < 0 ? dim + shape.rank() : dim];
      if (seen) fail<ArgumentError>(op, ": dim ", dim, " is named twice in ", dims);
      seen = true;
    }
    for (int i = 0; i < shape.rank(); ++i) {
      const bool stays = dims.rank() > 0 && !reduced[i];
      if (!stays) count *= shape[i];
      kept.push_back(stays ? shape[i] : 1);
      if (stays || keepdim) to.push_back(kept[i]);
    }
  }

  /// A result of the kernel's form, seen with the shape wanted.
  Tensor finish(const Tensor& y) const {
    return to == kept ? y : y.with_layout({to, contiguous_strides(to), y.layout().offset});
  }
  /// A gradient of the result, or the result, repeated to x's shape.
  Variable spread(const Variable& dy) const {
    return expand(dy.shape() == kept ? dy : reshape(dy, kept), from);
  }
};

void require_float(std::string_view op, const Tensor& x) {
  if (!is_float(x.dtype())) fail<DTypeError>(op, ": a float type is wanted, not ", x.dtype());
}

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
  Variable backward(const Variable& dy) const {
    return extent.spread(div(dy, double(extent.count)));
  }
};

}  // namespace

Variable sum(const Variable& x, Where where) { return sum(x, Dims{}, false, where); }
Variable sum(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  return apply(Sum{{Sum::kName, x.shape(), dims, keepdim}}, where, x);
}

Variable sum_to(const Variable& x, const Shape& shape, Where where) {
  if (x.shape() == shape) return x;
  const int missing = x.rank() - shape.rank();
  if (missing < 0 || broadcast("sum_to", shape, x.shape()) != x.shape())
    fail<ShapeError>("sum_to: ", shape, " does not broadcast to ", x.shape());
  Extent extent{"sum_to", x.shape(), {}, true};
  extent.kept = x.shape();
  for (int i = 0; i < x.rank(); ++i) extent.kept[i] = i < missing ? 1 : shape[i - missing];
  extent.to = shape;
  return apply(Sum{extent}, where, x);
}

Variable mean(const Variable& x, Where where) { return mean(x, Dims{}, false, where); }
Variable mean(const Variable& x, const Dims& dims, bool keepdim, Where where) {
  return apply(Mean{{Mean::kName, x.shape(), dims, keepdim}}, where, x);
}

namespace {
Dims dims_of(const Arguments& a) { return a.has("dim") ? a.dims("dim") : Dims{}; }
}  // namespace

void catalog_reduce(Catalog& catalog) {
  catalog.add("sum(input, dim: ints = none, keepdim: bool = false)", "the sum over dim, or all",
              [](const Arguments& a) { return sum(a[0], dims_of(a), a.flag("keepdim")); });
  catalog.add("sum_to(input, shape: ints)", "the sum down to a shape that broadcasts to input's",
              [](const Arguments& a) { return sum_to(a[0], a.dims("shape")); });
  catalog.add("mean(input, dim: ints = none, keepdim: bool = false)", "sum / count",
              [](const Arguments& a) { return mean(a[0], dims_of(a), a.flag("keepdim")); });
}

}  // namespace tapegrad
