// Batches: the SIMD registers in which float kernels compute.
//
// Sixteen-bit floats are converted to batches of float when loaded, and rounded when stored, bit
// for bit as in core/base/float16.h. A value must not depend on its lane or on the other lanes.
// xsimd 8.1 violates this in sin, cos and tan (all lanes choose the reduction together) and has
// further faults: pow(0, 0) is 0, erf has an error of 68 ulp in double, exp(-100f) is 0, -x of +0
// is +0, fma rounds twice, and NaN != NaN is false with AVX-512: write !(x == x).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include <xsimd/xsimd.hpp>

#include "core/base/float16.h"

namespace tapegrad::backends::cpu {

template <typename T>
inline constexpr bool kIsFloat = std::is_floating_point_v<Compute<T>>;
template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// The batch used for arithmetic on T: a batch of float for sixteen-bit floats.
template <typename T>
using Batch = xsimd::batch<Compute<T>>;
template <typename T>
inline constexpr int64_t kLanes = int64_t(Batch<T>::size);

/// The bits of a batch of float, and of the same number of bfloat16.
using FloatBits [[gnu::vector_size(4 * kLanes<float>)]] = uint32_t;
using BFloat16Bits [[gnu::vector_size(2 * kLanes<float>)]] = uint16_t;

/// Conversions between bfloat16 and float, lane by lane.
inline xsimd::batch<float> decode_bfloat16(BFloat16Bits bits) {
#if XSIMD_WITH_AVX512F  // g++ 12 makes four shuffles of the conversion below
  const auto words =
      std::bit_cast<FloatBits>(_mm512_maskz_cvtepu16_epi32(0xffff, std::bit_cast<__m256i>(bits)));
#else
  const auto words = __builtin_convertvector(bits, FloatBits);
#endif
  return std::bit_cast<xsimd::batch<float>::register_type>(words << 16);
}
inline BFloat16Bits encode_bfloat16(xsimd::batch<float> values) {
  const auto words = std::bit_cast<FloatBits>(values.data);
  const FloatBits rounded = words + 0x7fffu + (words >> 16 & 1u);
  const FloatBits upper = values.data != values.data ? words | 0x400000u : rounded;  // quiet NaN
  return __builtin_convertvector(upper >> 16, BFloat16Bits);
}

#if XSIMD_WITH_AVX512F
/// Widens either 16-bit type. The maskz forms avoid warnings of g++ 12 about its own headers.
template <typename T>
Batch<T> decode_half(__m256i bits) {
  if constexpr (std::is_same_v<T, bfloat16>)
    return decode_bfloat16(std::bit_cast<BFloat16Bits>(bits));
  else
    return _mm512_maskz_cvtph_ps(0xffff, bits);
}
template <typename T>
__m256i encode_half(Batch<T> values) {
  if constexpr (std::is_same_v<T, bfloat16>)
    return std::bit_cast<__m256i>(encode_bfloat16(values));
  else
    return _mm512_maskz_cvtps_ph(0xffff, values, 0);
}
#endif

/// Prefetch a cache line for reading or writing. The address may be invalid. The hardware
/// prefetcher stops at the end of a page, so a long loop without these hints mostly waits.
inline constexpr int64_t kFetchAhead = 2048;  // bytes
inline void fetch(const void* address) { __builtin_prefetch(address); }
inline void fetch_to_write(const void* address) { __builtin_prefetch(address, 1); }

/// Loads kLanes<T> elements; `from` need not be aligned.
template <typename T>
Batch<T> load_batch(const T* from) {
  if constexpr (!kIsHalf<T>) {
    return Batch<T>::load_unaligned(from);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    BFloat16Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    return decode_bfloat16(bits);
  } else {
#if XSIMD_WITH_AVX512F
    return decode_half<T>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif XSIMD_WITH_AVX && defined(__F16C__)
    return Batch<T>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
    alignas(64) float wide[kLanes<T>];
    for (int64_t i = 0; i < kLanes<T>; ++i) wide[i] = float(from[i]);
    return Batch<T>::load_aligned(wide);
#endif
  }
}

template <typename T>
void store_batch(T* to, Batch<T> values) {
  if constexpr (!kIsHalf<T>) {
    values.store_unaligned(to);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    const BFloat16Bits bits = encode_bfloat16(values);
    std::memcpy(to, &bits, sizeof bits);
  } else {
#if XSIMD_WITH_AVX512F
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), encode_half<T>(values));
#elif XSIMD_WITH_AVX && defined(__F16C__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(values, 0));
#else
    alignas(64) float wide[kLanes<T>];
    values.store_aligned(wide);
    for (int64_t i = 0; i < kLanes<T>; ++i) to[i] = T(wide[i]);
#endif
  }
}

/// The forms of load_some() and store_some() by way of memory. Not inlined, because they are longer
/// than most formulas.
template <typename T>
[[gnu::noinline]] Batch<T> load_by_memory(const T* from, int64_t count) {
  if (count == 1) return Batch<T>(static_cast<Compute<T>>(from[0]));
  alignas(64) T elements[kLanes<T>];
  for (int64_t i = 0; i < kLanes<T>; ++i) elements[i] = from[i < count ? i : 0];
  return load_batch(elements);
}
template <typename T>
[[gnu::noinline]] void store_by_memory(T* to, int64_t count, Batch<T> values) {
  alignas(64) T elements[kLanes<T>];
  store_batch(elements, values);
  if (count == 1)
    to[0] = elements[0];
  else
    std::memcpy(to, elements, size_t(count) * sizeof(T));
}

/// Loads `count` elements, 0 < count < kLanes<T>; the remaining lanes repeat the first element. A
/// single float is loaded without a mask, which is faster if the element was just stored.
template <typename T>
Batch<T> load_some(const T* from, int64_t count) {
#if XSIMD_WITH_AVX512F
  if constexpr (std::is_same_v<T, float>) {
    if (count == 1) return Batch<T>(from[0]);
    return Batch<T>(
        _mm512_mask_loadu_ps(_mm512_set1_ps(from[0]), __mmask16((1u << count) - 1), from));
  } else if constexpr (std::is_same_v<T, double>)
    return Batch<T>(
        _mm512_mask_loadu_pd(_mm512_set1_pd(from[0]), __mmask8((1u << count) - 1), from));
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  else if constexpr (kIsHalf<T>)
    return decode_half<T>(_mm256_mask_loadu_epi16(_mm256_set1_epi16(std::bit_cast<short>(from[0])),
                                                  __mmask16((1u << count) - 1), from));
#endif
#endif
  return load_by_memory(from, count);
}

/// Stores the first `count` lanes.
template <typename T>
void store_some(T* to, int64_t count, Batch<T> values) {
#if XSIMD_WITH_AVX512F
  if constexpr (std::is_same_v<T, float>)
    return _mm512_mask_storeu_ps(to, __mmask16((1u << count) - 1), values);
  else if constexpr (std::is_same_v<T, double>)
    return _mm512_mask_storeu_pd(to, __mmask8((1u << count) - 1), values);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  else if constexpr (kIsHalf<T>)
    return _mm256_mask_storeu_epi16(to, __mmask16((1u << count) - 1), encode_half<T>(values));
#endif
#endif
  store_by_memory(to, count, values);
}

/// Applies f to each lane; for functions without a vector form.
template <typename T, typename F, typename... More>
xsimd::batch<T> map_lanes(F f, xsimd::batch<T> first, More... more) {
  constexpr size_t kCount = xsimd::batch<T>::size;
  alignas(64) T lanes[1 + sizeof...(More)][kCount];
  T* row = lanes[0];
  first.store_aligned(row);
  (more.store_aligned(row += kCount), ...);
  alignas(64) T results[kCount];
  for (size_t i = 0; i < kCount; ++i) results[i] = [&]<size_t... K>(std::index_sequence<K...>) {
      return f(lanes[K][i]...);
    }
  (std::make_index_sequence<1 + sizeof...(More)>());
  return xsimd::batch<T>::load_aligned(results);
}

/// Convert arrays between T and Compute<T>, for kernels that work on converted copies.
template <typename T>
[[gnu::noinline]] void widen(const T* from, int64_t count, Compute<T>* to) {
  int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) load_batch(from + i).store_unaligned(to + i);
  for (; i < count; ++i) to[i] = static_cast<Compute<T>>(from[i]);
}
template <typename T>
[[gnu::noinline]] void narrow(const Compute<T>* from, int64_t count, T* to) {
  int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>)
    store_batch(to + i, Batch<T>::load_unaligned(from + i));
  for (; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

}  // namespace tapegrad::backends::cpu
