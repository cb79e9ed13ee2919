// Sums and the passes of batch_norm over tensors of float or bfloat16 with a packed layout
// (packed.h).
#pragma once

#include "backends/cpu/fast/packed.h"

namespace tapegrad::backends::cpu {

/// Computes sums[image * channels + channel] = the sum of each channel of each image.
template <typename T>
void image_sums_packed(const PackedValues& x, double* sums);
/// Computes squares[channel] = the sum of (x - mean)^2 of each channel of each image.
template <typename T>
void image_squares_packed(const PackedValues& x, const double* mean, double* squares);
/// Returns x with each channel of each image as a channel of a single image.
PackedValues as_one_image(const PackedValues& x);
/// Mean and variance of each channel.
template <typename T>
void channel_moments_packed(const PackedValues& x, float* mean, float* var);
/// Computes y = (x - mean) * scale + shift for the pixels of one block of channels.
template <typename T>
void normalize_pixels(int64_t block, int64_t pixels, const T* x, const float* mean,
                      const float* scale, const float* shift, T* y);
/// Computes y = (x - mean) * scale + shift.
template <typename T>
void normalize_packed(const PackedValues& x, const float* mean, const float* scale,
                      const float* shift, T* y);
/// Computes two sums of each channel: of dy, and of dy * (x - mean) * invstd.
template <typename T>
void channel_sums_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                         const float* invstd, double* sums, double* products);
/// Computes dx = scale * (dy - shift - (x - mean) * slope).
template <typename T>
void input_gradient_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                           const float* scale, const float* shift, const float* slope, T* dx);
/// Computes dx = dy * scale - shift - (x - mean) * slope.
template <typename T>
void group_gradient_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                           const float* scale, const float* shift, const float* slope, T* dx);

}  // namespace tapegrad::backends::cpu
