#include "ops/internal/index_checks.h"

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/index.h"

namespace tapegrad::detail {

Tensor as_index(std::string_view op, const Tensor& index) {
  if (index.dtype() != i64 && index.dtype() != i32)
    fail<DTypeError>(op, ": indices are int32 or int64, not ", name(index.dtype()));
  return index.to(i64).contiguous();
}

// Negative indices are rejected, because they would hide errors in index computations.
void check_index(std::string_view op, const Tensor& index, int64_t size, bool wraps) {
  if (context.recorder != nullptr) [[unlikely]]
    if (record_check(index, [name = std::string(op), size, wraps](const Tensor& x) {
          check_index(name, x, size, wraps);
        }))
      return;
  kernels::IndexScan scan;
  kernels::scan_index(index, size, scan);
  if (scan.outside < 0) [[likely]]
    return;
  Dims position = index.shape();
  int64_t rest = scan.outside;
  for (int i = index.rank() - 1; i >= 0; --i) {
    position[i] = rest % index.shape()[i];
    rest /= index.shape()[i];
  }
  const int64_t given = wraps && scan.value < 0 ? scan.value - size : scan.value;
  fail<IndexError>(op, ": index ", given, " at position ", position, " is outside [",
                   wraps ? -size : 0, ", ", size, ")");
}

Variable wrapped(std::string_view op, const Variable& index, int64_t size) {
  if (index.dtype() != i64 && index.dtype() != i32)
    fail<DTypeError>(op, ": indices are int32 or int64, not ", name(index.dtype()));
  const Variable whole = index.to(i64);
  const Variable inside = where(whole < 0, whole + size, whole);
  check_index(op, inside.value().contiguous(), size, /*wraps=*/true);
  return inside;
}

void check_fits(std::string_view op, const Tensor& index, const Shape& shape, int dim,
                const char* what) {
  bool fits = index.rank() == shape.rank();
  for (int i = 0; fits && i < index.rank(); ++i) fits = i == dim || index.shape()[i] <= shape[i];
  if (!fits)
    fail<ShapeError>(op, ": an index of shape ", index.shape(), " along dim ", dim,
                     " does not fit in ", what, " ", shape);
}

Tensor repeated_vector(const Tensor& index, int dim) {
  StridedLayout layout = index.layout();
  bool repeats = false;
  for (int i = 0; i < index.rank(); ++i) {
    if (i == dim || layout.shape[i] == 1) continue;
    if (layout.strides[i] != 0 || layout.shape[i] == 0) return {};
    repeats = true;
    layout.shape[i] = 1;
  }
  return repeats ? index.with_layout(layout) : Tensor();
}

Tensor unrepeated(const Tensor& index, int dim) {
  StridedLayout layout = index.layout();
  for (int i = 0; i < index.rank(); ++i)
    if (i != dim && layout.strides[i] == 0 && layout.shape[i] > 1) layout.shape[i] = 1;
  return index.with_layout(layout);
}

Tensor as_vector(const Tensor& x) { return x.with_layout({{x.numel()}, {1}, x.layout().offset}); }

Tensor corner(const Tensor& x, const Shape& index, int dim) {
  StridedLayout layout = x.layout();
  for (int i = 0; i < index.rank(); ++i)
    if (i != dim) layout.shape[i] = index[i];
  return x.with_layout(layout);
}

}  // namespace tapegrad::detail
