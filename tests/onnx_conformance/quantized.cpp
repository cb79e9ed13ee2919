// Operators on 8-bit integers that stand for (q - zero point) * scale. Computed exactly, in
// float64.
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/onnx_conformance/windows.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

/// Reshapes a factor per axis so that it broadcasts to x.
Variable along(const Variable& factor, const Variable& x, int64_t axis) {
  if (factor.numel() == 1) return reshape(factor, {});
  Shape shape = Dims::filled(x.rank(), 1);
  shape[normalize_dim("axis", int(axis), x.rank())] = factor.numel();
  return reshape(factor, shape);
}

/// Returns x minus its zero point in float64.
Variable centred(N n, size_t x, size_t zero_point, int64_t axis) {
  const Variable wide = n[x].to(f64);
  return n.has(zero_point) ? wide - along(n[zero_point].to(f64), wide, axis) : wide;
}

Variable saturated(const Variable& y, DType dtype) {
  const bool is_signed = dtype == i8;
  return clamp(y, {.min = is_signed ? -128.0 : 0.0, .max = is_signed ? 127.0 : 255.0}).to(dtype);
}

Variable quantized(const Variable& x, const Variable& scale, const Variable& zero_point,
                   int64_t axis) {
  const Variable steps = round(x / along(scale.to(x.dtype()), x, axis));
  return saturated(steps + along(zero_point.to(x.dtype()), x, axis), zero_point.dtype());
}

Values quantized_by_range(N n) {
  const Variable low = minimum(amin(n[0]), 0.0), high = maximum(amax(n[0]), 0.0);
  const Variable scale = (high - low) / 255.0;
  const Variable zero_point = saturated(round(-low / scale), u8);
  return {quantized(n[0], scale, zero_point, 0), scale, zero_point};
}

Variable product(N n) {
  const Variable a = centred(n, 0, 2, 0), b = centred(n, 3, 5, -1);
  const Variable y = matmul(a, b) * (n[1].to(f64) * n[4].to(f64));
  return quantized(y, n[6], n[7], 1);
}

Variable quantized_convolution(N n) {
  const Variable x = centred(n, 0, 2, 0), w = centred(n, 3, 5, 0);
  Variable y = convolution(n, x, w, n.has(8) ? n[8].to(f64) : Variable());
  return quantized(y * (n[1].to(f64) * along(n[4].to(f64), y, 1)), n[6], n[7], 1);
}

}  // namespace

void add_quantized(Operators& table) {
  add(table, "QuantizeLinear", [](N n) {
    const Variable none = zeros({}, {.dtype = u8});
    return quantized(n[0], n[1], n.has(2) ? n[2] : none, n.integer("axis", 1));
  });
  add(table, "DequantizeLinear", [](N n) {
    const Variable x = centred(n, 0, 2, n.integer("axis", 1));
    return (x * along(n[1].to(f64), x, n.integer("axis", 1))).to(n[1].dtype());
  });
  table["DynamicQuantizeLinear"] = quantized_by_range;
  add(table, "MatMulInteger",
      [](N n) { return matmul(centred(n, 0, 2, 0), centred(n, 1, 3, -1)).to(i32); });
  add(table, "ConvInteger",
      [](N n) { return convolution(n, centred(n, 0, 2, 0), centred(n, 1, 3, 0), {}).to(i32); });
  add(table, "QLinearMatMul", product);
  add(table, "QLinearConv", quantized_convolution);
}

}  // namespace tapegrad::onnx_conformance
