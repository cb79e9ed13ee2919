// Conversion between elements and compute types. Sixteen-bit floats are computed in float and
// converted only where they are loaded and stored.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "core/base/dtype.h"

namespace tapegrad::backends::cuda {

template <typename T>
inline constexpr bool kIsFloat = std::is_floating_point_v<Compute<T>>;

template <typename T>
__device__ inline Compute<T> widen(T x) {
  if constexpr (std::is_same_v<T, float16>)
    return __half2float(__half(__half_raw{x.bits}));
  else
    return Compute<T>(x);
}

/// Rounds to nearest even.
template <typename T, typename V>
__device__ inline T narrow(V value) {
  if constexpr (std::is_same_v<T, float16>) {
    T y;
    y.bits = __half_raw(__float2half_rn(float(value))).x;
    return y;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    T y;
    y.bits = __nv_bfloat16_raw(__float2bfloat16_rn(float(value))).x;
    return y;
  } else {
    return T(value);
  }
}

}  // namespace tapegrad::backends::cuda
