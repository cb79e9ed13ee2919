// The passes of batch_norm over tensors with a packed layout (packed.h).
#pragma once

#include "backends/cpu/fast/packed.h"

namespace tapegrad::backends::cpu {

/// Mean and variance of each channel.
void channel_moments_packed(const PackedValues& x, float* mean, float* var);
/// y = (x - mean) * scale + shift
void normalize_packed(const PackedValues& x, const float* mean, const float* scale,
                      const float* shift, float* y);
/// For each channel, the sum of dy and the sum of dy * (x - mean) * invstd.
void channel_sums_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                         const float* invstd, double* sums, double* products);
/// dx = scale * (dy - shift - (x - mean) * slope)
void input_gradient_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                           const float* scale, const float* shift, const float* slope, float* dx);

}  // namespace tapegrad::backends::cpu
