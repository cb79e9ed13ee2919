// Padding in one pass, for devices with such kernels.
#pragma once

#include <vector>

#include "core/base/number.h"
#include "core/dispatch/dispatcher.h"
#include "ops/image.h"

namespace tapegrad {

/// Elements of x of which the elements of a padded y are copies, along one dimension.
struct PadSource {
  int64_t size = 0, count = 0;  // of x and y
  int64_t before = 0;           // position in y of the first element of x
  int64_t first = 0, kept = 0;  // the part of x that kCircular continues
  PadMode mode = PadMode::kReflect;

  bool is_identity() const { return before == 0 && count == size; }
  int64_t operator()(int64_t i) const {
    i -= before;
    if (i >= 0 && i < size) return i;
    if (mode == PadMode::kReflect) return i < 0 ? -i : 2 * (size - 1) - i;
    if (mode == PadMode::kCircular) return i < first ? i + kept : i - kept;
    return i < 0 ? 0 : size - 1;
  }
};
using PadSources = std::vector<PadSource>;  // one for each dimension

namespace kernels {

/// Computes y[i] = x[i - before], and `value` where x has no such element. For devices and dtypes
/// with packed layouts; for others the op calls pad_by_parts().
extern Kernel<void(const Tensor& x, const Dims& before, Number value, Tensor& y)> pad;
/// Implementation of pad that fills y and copies x.
void pad_by_parts(const Tensor& x, const Dims& before, Number value, Tensor& y);

/// Copies x to the channels (dimension 1) of y from `first` on. For concatenation. For devices and
/// dtypes with packed layouts.
extern Kernel<void(const Tensor& x, int64_t first, Tensor& y)> put_channels;

/// Copies x to y, which is not empty. The adjoint adds the elements of dy to the elements of dx
/// that they were copied from. On devices without these kernels, the op selects indices along one
/// dimension after another.
extern Kernel<void(const Tensor& x, const PadSources& from, Tensor& y)> pad_from;
extern Kernel<void(const Tensor& dy, const PadSources& from, Tensor& dx)> pad_from_backward;

}  // namespace kernels
}  // namespace tapegrad
