// Rounding to integers of few bits while a model is trained (quantisation-aware training). The
// function has no row in the catalog.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// Returns the numbers that integers from quant_min to quant_max represent with this scale and zero
/// point: (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale. The
/// gradient passes where the integer is in range, as if nothing were rounded.
Variable fake_quantize_per_tensor_affine(const Variable& x, double scale, int64_t zero_point,
                                         int64_t quant_min, int64_t quant_max,
                                         Where where = Where::current());

}  // namespace tapegrad
