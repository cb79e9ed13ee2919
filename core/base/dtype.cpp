#include "core/base/dtype.h"

#include <atomic>
#include <ostream>

#include "core/base/error.h"

namespace tapegrad {
namespace {

std::atomic<DType> default_dtype_{f32};

struct Alias {
  std::string_view text;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"f2", f16},     {"e", f16},     {"half", f16}, {"f16", f16}, {"bf16", bf16}, {"f4", f32},
    {"f", f32},      {"float", f32}, {"f32", f32},  {"f8", f64},  {"d", f64},     {"double", f64},
    {"f64", f64},    {"i1", i8},     {"b", i8},     {"i2", i16},  {"h", i16},     {"short", i16},
    {"i4", i32},     {"i", i32},     {"int", i32},  {"i32", i32}, {"i8", i64},    {"q", i64},
    {"l", i64},      {"long", i64},  {"i64", i64},  {"u1", u8},   {"B", u8},      {"u8", u8},
    {"b1", boolean}, {"?", boolean},
};

}  // namespace

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

DType parse_dtype(std::string_view text, Where where) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (text == kDTypeNames[i]) return DType(i);
  for (const Alias& alias : kAliases)
    if (text == alias.text) return alias.dtype;
  std::string known;
  for (std::string_view name : kDTypeNames) known.append(known.empty() ? "" : ", ").append(name);
  fail_at<DTypeError>(where, "parse_dtype: \"", text, "\" is not one of ", known,
                      ", nor one of NumPy's short codes");
}

DType promote(DType a, DType b) {
  if (a == b || b == boolean) return a;
  if (a == boolean) return b;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    if (size_of(a) != size_of(b)) return size_of(a) > size_of(b) ? a : b;
    return f32;  // float16 with bfloat16
  }
  if (a == u8 || b == u8) {
    const DType other = a == u8 ? b : a;
    return other == i8 ? i16 : other;
  }
  return size_of(a) > size_of(b) ? a : b;
}

DType default_dtype() { return default_dtype_.load(std::memory_order_relaxed); }

void set_default_dtype(DType dtype, Where where) {
  if (!is_float(dtype)) fail_at<DTypeError>(where, "set_default_dtype: only floats, not ", dtype);
  default_dtype_ = dtype;
}

}  // namespace tapegrad
