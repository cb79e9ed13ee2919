// Element types, as values (DType), as C++ types (TypeTag<T>) and as lists of types.
//
// A dtype is named by its short constant (`f32`), by NumPy's name ("float32") or by NumPy's type
// code ("f4", "f"). Sixteen-bit floats are a storage format; arithmetic on them is done in float32.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "core/base/float16.h"
#include "core/base/where.h"

namespace tapegrad {

enum class DType : uint8_t {
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kBool,
};
inline constexpr int kDTypeCount = 10;
inline constexpr std::string_view kDTypeNames[kDTypeCount] = {
    "float16", "bfloat16", "float32", "float64", "int8",
    "int16",   "int32",    "int64",   "uint8",   "bool"};
inline constexpr int64_t kDTypeSizes[kDTypeCount] = {2, 2, 4, 8, 1, 2, 4, 8, 1, 1};

inline constexpr DType f16 = DType::kFloat16, bf16 = DType::kBFloat16;
inline constexpr DType f32 = DType::kFloat32, f64 = DType::kFloat64;
inline constexpr DType i8 = DType::kInt8, i16 = DType::kInt16;
inline constexpr DType i32 = DType::kInt32, i64 = DType::kInt64;
inline constexpr DType u8 = DType::kUInt8, boolean = DType::kBool;

// PyTorch's names. `float16` and `bfloat16` are the C++ types; their dtypes are kFloat16,
// kBFloat16.
inline constexpr DType kFloat16 = f16, kHalf = f16, kBFloat16 = bf16;
inline constexpr DType kFloat32 = f32, kFloat = f32, kFloat64 = f64, kDouble = f64;
inline constexpr DType kInt8 = i8, kInt16 = i16, kInt32 = i32, kInt = i32;
inline constexpr DType kInt64 = i64, kLong = i64, kUInt8 = u8, kByte = u8, kBool = boolean;
inline constexpr DType float32 = f32, float64 = f64, int32 = i32, int64 = i64, uint8 = u8;

constexpr std::string_view name(DType dtype) { return kDTypeNames[int(dtype)]; }
constexpr int64_t size_of(DType dtype) { return kDTypeSizes[int(dtype)]; }
constexpr bool is_float(DType dtype) { return dtype <= DType::kFloat64; }
constexpr bool is_integer(DType dtype) { return dtype > DType::kFloat64 && dtype < DType::kBool; }
std::ostream& operator<<(std::ostream& out, DType dtype);  // float32

/// Parses names such as "float32", "f4", "f", "bf16" and "?". Throws DTypeError, which lists the
/// known names.
DType parse_dtype(std::string_view text, Where where = Where::current());

/// Returns the dtype that represents the values of both, as in PyTorch: float16 and bfloat16 give
/// float32, a float and an integer give the float, uint8 and int8 give int16.
DType promote(DType a, DType b);

/// Returns the dtype that creation functions use if none is given; initially float32.
DType default_dtype();
/// Throws DTypeError unless it is a float dtype.
void set_default_dtype(DType dtype, Where where = Where::current());

/// Passes a type as a function argument: `[]<typename T>(TypeTag<T>, ...)` receives it.
template <typename T>
struct TypeTag {};

template <typename... Ts>
struct TypeList {};
inline constexpr TypeList<float16, bfloat16, float, double> kFloatTypes{};
/// The types for which kernels of arithmetic are compiled. int8 and int16 are computed in int32
/// (backends/narrow_integers.cpp).
inline constexpr TypeList<float16, bfloat16, float, double, uint8_t, int32_t, int64_t>
    kNumberTypes{};
inline constexpr TypeList<float16, bfloat16, float, double, int8_t, int16_t, int32_t, int64_t,
                          uint8_t, bool>
    kAllTypes{};

template <typename T>
inline constexpr DType kDTypeOf = DType(255);
template <>
inline constexpr DType kDTypeOf<float16> = f16;
template <>
inline constexpr DType kDTypeOf<bfloat16> = bf16;
template <>
inline constexpr DType kDTypeOf<float> = f32;
template <>
inline constexpr DType kDTypeOf<double> = f64;
template <>
inline constexpr DType kDTypeOf<int8_t> = i8;
template <>
inline constexpr DType kDTypeOf<int16_t> = i16;
template <>
inline constexpr DType kDTypeOf<int32_t> = i32;
template <>
inline constexpr DType kDTypeOf<int64_t> = i64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = u8;
template <>
inline constexpr DType kDTypeOf<bool> = boolean;

/// Whether a dtype has elements of type T. Tensors hold int64_t (`long`), int32_t, uint8_t and
/// int8_t, but not `long long`, `unsigned` or `char`, for example.
template <typename T>
inline constexpr bool kIsElement = kDTypeOf<T> != DType(255);

/// Calls visit(TypeTag<T>{}) with the dtype's C++ type. For cold paths only; kernels are selected
/// by the dispatch table.
template <typename Visit>
decltype(auto) with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kFloat16:
      return visit(TypeTag<float16>{});
    case DType::kBFloat16:
      return visit(TypeTag<bfloat16>{});
    case DType::kFloat32:
      return visit(TypeTag<float>{});
    case DType::kFloat64:
      return visit(TypeTag<double>{});
    case DType::kInt8:
      return visit(TypeTag<int8_t>{});
    case DType::kInt16:
      return visit(TypeTag<int16_t>{});
    case DType::kInt32:
      return visit(TypeTag<int32_t>{});
    case DType::kInt64:
      return visit(TypeTag<int64_t>{});
    case DType::kUInt8:
      return visit(TypeTag<uint8_t>{});
    case DType::kBool:
      break;
  }
  return visit(TypeTag<bool>{});
}

}  // namespace tapegrad
