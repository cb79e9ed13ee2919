// The sixteen-bit float types: float16 (IEEE binary16) and bfloat16 (the upper half of a float32).
// Both are storage formats: arithmetic converts to float and rounds the result to nearest even.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#if defined(__F16C__) && !defined(__CUDA_ARCH__)
#include <immintrin.h>
#endif

#include "core/base/host_device.h"

namespace tapegrad {

struct float16 {
  uint16_t bits;

  float16() = default;
  TG_HD explicit float16(float value) : bits(encode(value)) {}
  TG_HD explicit operator float() const { return decode(bits); }

  TG_HD static uint16_t encode(float value);
  TG_HD static float decode(uint16_t bits);
};

struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;
  TG_HD explicit bfloat16(float value) : bits(encode(value)) {}
  TG_HD explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }

  TG_HD static uint16_t encode(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) return uint16_t(word >> 16 | 0x40u);  // quiet NaN
    return uint16_t((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
  }
};

inline uint16_t float16::encode(float value) {
#if defined(__F16C__) && !defined(__CUDA_ARCH__)
  return uint16_t(_cvtss_sh(value, 0));
#else
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = word >> 16 & 0x8000u;
  uint32_t size = word & 0x7fffffffu;
  if (size > 0x7f800000u) return uint16_t(sign | 0x7e00u | (size >> 13 & 0x3ffu));  // quiet NaN
  if (size >= 0x47800000u) return uint16_t(sign | 0x7c00u);  // 65536 and above become infinity
  if (size < 0x38800000u) {  // subnormal: adding 0.5 aligns the last bit at 2^-24 and rounds
    const float aligned = std::bit_cast<float>(size) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  size += 0xc8000000u + 0xfffu + (size >> 13 & 1u);  // change the exponent bias and round to even
  return uint16_t(sign | size >> 13);
#endif
}

inline float float16::decode(uint16_t bits) {
#if defined(__F16C__) && !defined(__CUDA_ARCH__)
  return _cvtsh_ss(bits);
#else
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  const uint32_t size = bits & 0x7fffu;
  if (size >= 0x7c00u)  // infinity or quiet NaN
    return std::bit_cast<float>(sign | 0x7f800000u | size << 13 |
                                (size > 0x7c00u ? 0x400000u : 0u));
  if (size >= 0x400u) return std::bit_cast<float>(sign | ((size << 13) + 0x38000000u));
  const float value = float(size) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
#endif
}

/// The type used for arithmetic on T: float for sixteen-bit floats, otherwise T.
template <typename T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<float16> {
  using type = float;
};
template <>
struct ComputeType<bfloat16> {
  using type = float;
};
template <typename T>
using Compute = typename ComputeType<T>::type;

/// Converts between any two element types. Floats become integers by truncation (out-of-range
/// values saturate, NaN becomes 0); any type becomes bool by `!= 0`.
template <typename To, typename From>
TG_HD constexpr To convert(From from) {
  using Wide = Compute<From>;
  const Wide value = static_cast<Wide>(from);
  if constexpr (std::is_same_v<To, bool>) {
    return value != Wide(0);
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<Wide>) {
    constexpr double kLow = double(std::numeric_limits<To>::min());
    constexpr double kHigh = double(std::numeric_limits<To>::max());  // 2^63 for int64
    if (!(double(value) >= kLow)) return value != value ? To(0) : std::numeric_limits<To>::min();
    if (double(value) >= kHigh) return std::numeric_limits<To>::max();
    return To(value);
  } else if constexpr (std::is_same_v<To, float16> || std::is_same_v<To, bfloat16>) {
    return To(float(value));
  } else {
    return To(value);
  }
}

}  // namespace tapegrad
