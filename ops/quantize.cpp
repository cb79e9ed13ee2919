#include "ops/quantize.h"

#include "core/base/error.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/compare.h"
#include "ops/unary.h"

namespace tapegrad {
namespace {

struct FakeQuantize {
  static constexpr std::string_view kName = "fake_quantize_per_tensor_affine";
  double scale;
  int64_t zero_point, low, high;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  Variable rounded(const Variable& x) const { return round(x * (1 / scale)) + double(zero_point); }
  Tensor forward(const Tensor& x) const {
    const Variable q = clamp(rounded(Variable(x)), double(low), double(high));
    return ((q - double(zero_point)) * scale).value();
  }
  Variable backward(const Variable& dy) const {
    const Variable q = rounded(x().detach());
    return where((q >= double(low)) & (q <= double(high)), dy, 0);
  }
};

}  // namespace

Variable fake_quantize_per_tensor_affine(const Variable& x, double scale, int64_t zero_point,
                                         int64_t quant_min, int64_t quant_max, Where where) {
  if (!is_float(x.dtype()))
    fail<DTypeError>(FakeQuantize::kName, ": floats wanted, not ", x.dtype());
  if (!(scale > 0)) fail<ArgumentError>(FakeQuantize::kName, ": scale ", scale, " is not positive");
  if (quant_min > zero_point || zero_point > quant_max)
    fail<ArgumentError>(FakeQuantize::kName, ": zero_point ", zero_point, " is outside [",
                        quant_min, ", ", quant_max, "]");
  return apply(FakeQuantize{scale, zero_point, quant_min, quant_max}, where, x);
}

}  // namespace tapegrad
