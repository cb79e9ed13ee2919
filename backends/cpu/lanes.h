// Runs of elements as contiguous values of the type that is computed in.
#pragma once

#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "core/dtype.h"

namespace tapegrad::backends::cpu {

/// The n elements from x on, `step` apart, as contiguous Compute<T>: x itself where it is that,
/// else the buffer they were converted into.
template <typename T>
const Compute<T>* load_values(const T* x, int64_t step, int64_t n, Compute<T>* buffer) {
  if constexpr (std::is_same_v<T, Compute<T>>)
    if (step == 1) return x;
  int64_t i = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, float16>)
    if (step == 1)
      for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(buffer + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
#endif
  if (step == 1)
    for (; i < n; ++i) buffer[i] = Compute<T>(x[i]);
  else
    for (; i < n; ++i) buffer[i] = Compute<T>(x[i * step]);
  return buffer;
}

/// The inverse for contiguous elements: y = values, rounded to T.
template <typename T>
void store_values(const Compute<T>* values, int64_t n, T* y) {
  int64_t i = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, float16>)
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; ++i) y[i] = T(values[i]);
}

}  // namespace tapegrad::backends::cpu
