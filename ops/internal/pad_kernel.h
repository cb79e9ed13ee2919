// Padding in one pass, where a device has it.
#pragma once

#include "core/base/number.h"
#include "core/dispatch/dispatcher.h"

namespace tapegrad::kernels {

/// y[i] = x[i - before], and `value` where x has no such element. Has no fallback: the op fills y
/// and copies x if nothing accepts the operands.
extern Kernel<void(const Tensor& x, const Dims& before, Number value, Tensor& y)> pad;

}  // namespace tapegrad::kernels
