#include "ops/internal/extent.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "ops/view.h"

namespace tapegrad::detail {

Extent::Extent(std::string_view op, const Shape& shape, const Dims& dims, bool keepdim)
    : from(shape) {
  std::array<bool, kMaxRank> reduced{};
  const int rank = std::max(shape.rank(), 1);  // 0 and -1 name the only element of a scalar
  for (int64_t dim : dims) {
    if (dim < -rank || dim >= rank)
      fail<IndexError>(op, ": dim ", dim, " is outside a tensor of shape ", shape);
    bool& seen = reduced[dim < 0 ? dim + rank : dim];
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

Tensor Extent::finish(const Tensor& y) const {
  return to == kept ? y : y.with_layout({to, contiguous_strides(to), y.layout().offset});
}

Shape Extent::rows_of(const Tensor& x) const {
  if (!x.is_contiguous() || x.numel() == 0) return {};
  int first = 0, last = x.rank();
  const auto is_kept = [&](int i) { return kept[i] == x.shape()[i]; };
  while (first < last && is_kept(first)) ++first;
  while (last > first && is_kept(last - 1)) --last;
  Shape rows{1, 1, 1};
  for (int i = 0; i < x.rank(); ++i) {
    if (i >= first && i < last && is_kept(i) && x.shape()[i] != 1) return {};
    rows[i < first ? 0 : i < last ? 1 : 2] *= x.shape()[i];
  }
  return rows;
}

Variable Extent::keep(const Variable& y) const { return y.shape() == kept ? y : reshape(y, kept); }

Variable Extent::spread(const Variable& y) const { return expand(keep(y), from); }

Tensor around(const Tensor& x, int dim) {
  Shape shape{1, x.shape()[dim], 1};
  for (int i = 0; i < dim; ++i) shape[0] *= x.shape()[i];
  for (int i = dim + 1; i < x.rank(); ++i) shape[2] *= x.shape()[i];
  const Tensor dense = x.contiguous();
  return dense.with_layout(contiguous_layout(shape, dense.layout().offset));
}

void require_float(std::string_view op, const Tensor& x) {
  if (!is_float(x.dtype())) fail<DTypeError>(op, ": a float type is wanted, not ", x.dtype());
}

void require_elements(std::string_view op, const Extent& extent) {
  if (extent.count == 0) fail<ArgumentError>(op, ": nothing to choose from in ", extent.from);
}

}  // namespace tapegrad::detail
