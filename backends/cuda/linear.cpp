// Linear layers: products by cuBLAS, fused with surrounding work by cuBLASLt's epilogues where
// possible.
#include "ops/linear.h"

#include "backends/cuda/blas/blas_lt.h"
#include "backends/cuda/blas/matrices.h"
#include "backends/cuda/register.h"
#include "backends/cuda/runtime/address.h"
#include "backends/cuda/runtime/api.h"
#include "core/dispatch/kernels.h"
#include "ops/activation.h"
#include "ops/internal/matrix_views.h"
#include "ops/matmul.h"

namespace tapegrad::backends::cuda {
namespace {

using detail::transposed;

/// y = x w^T with the epilogue, to which the bias is added. Returns false, with nothing done, if
/// not supported.
bool product_with(Epilogue epilogue, const Tensor& x, const Tensor& w, const Tensor& bias,
                  Tensor& y) {
  const Tensor dense = bias ? bias.contiguous() : bias;
  if (bias) epilogue.bias = address_of(dense);
  const Product p{y.shape()[0], y.shape()[1], x.shape()[1], 1, y.dtype(), y.dtype()};
  return gemm_with(epilogue, p, matrices_of(x, 0, 0), transposed(matrices_of(w, 0, 0)),
                   address_of(y), p.n, y);
}

void linear(const Tensor& x0, const Tensor& w0, const Tensor& bias, bool relu, Tensor& y) {
  const Tensor x = plain(x0), w = plain(w0);
  const bool on_the_way = relu && relu_of_cublas_lt(y).keeps_nan;
  if ((bias || on_the_way) && product_with({.relu = on_the_way}, x, w, bias, y)) {
    if (relu && !on_the_way) kernels::relu(y, y);
    return;
  }
  if (bias) kernels::copy(bias, y);
  const Product p{.m = y.shape()[0],
                  .n = y.shape()[1],
                  .k = x.shape()[1],
                  .dtype = y.dtype(),
                  .result = y.dtype(),
                  .accumulate = bool(bias)};
  gemm(p, matrices_of(x, 0, 0), transposed(matrices_of(w, 0, 0)), address_of(y), p.n, 0, y);
  if (relu) kernels::relu(y, y);
}

void linear_gelu(const Tensor& x0, const Tensor& w0, const Tensor& bias, Tensor& y, Tensor& z) {
  const Tensor x = plain(x0), w = plain(w0);
  void* before_gelu = z ? address_of(z) : nullptr;
  if (!product_with({.gelu = true, .before_gelu = before_gelu}, x, w, bias, y))
    kernels::linear_gelu_by_parts(x, w, bias, y, z);
}

void linear_relu_masked(const Tensor& x0, const Tensor& w0, const Tensor& bias, Tensor& y,
                        Tensor& mask) {
  const Tensor x = plain(x0), w = plain(w0);
  if (relu_of_cublas_lt(y).masks_as_ours && y.numel() > 0) {
    Tensor bits = Tensor::empty({y.shape()[0], mask_bytes(y.shape()[1])}, u8, y.device());
    if (product_with({.relu = true, .relu_mask = address_of(bits)}, x, w, bias, y)) {
      mask = std::move(bits);
      return;
    }
  }
  linear(x, w, bias, /*relu=*/true, y);
}

/// db is computed by the product for dw, which reads the same operand.
void linear_backward(const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight,
                     Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor dz = dy;
  if (y) kernels::relu_backward(dy, y, dz);
  Tensor other_dw = dw, other_db = db;
  if (dw && db) {
    const Tensor a = plain(dz), b = plain(x);
    const Product p{dw.shape()[0], dw.shape()[1], dz.shape()[0], 1, dw.dtype(), dw.dtype()};
    if (gemm_with({.row_sums = address_of(db)}, p, transposed(matrices_of(a, 0, 0)),
                  matrices_of(b, 0, 0), address_of(dw), p.n, dw))
      other_dw = other_db = {};
  }
  kernels::linear_backward_by_products(dz, {}, x, weight, dx, other_dw, other_db);
}

/// dx = dy weight, where the epilogue applies the gradient of the preceding activation. Returns
/// false, with nothing done, if not supported.
bool gradient_with(const Epilogue& epilogue, const Tensor& dy, const Tensor& weight, Tensor& dx) {
  const Tensor a = plain(dy), b = plain(weight);
  const Product p{dx.shape()[0], dx.shape()[1], dy.shape()[1], 1, dx.dtype(), dx.dtype()};
  return gemm_with(epilogue, p, matrices_of(a, 0, 0), matrices_of(b, 0, 0), address_of(dx), p.n,
                   dx);
}

void gelu_linear_backward(const Tensor& dy, const Tensor& z, const Tensor& x, const Tensor& weight,
                          Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor none;
  if (dx) {
    const Tensor at = z.contiguous();
    if (!gradient_with({.gelu_at = address_of(at)}, dy, weight, dx))
      return kernels::gelu_linear_backward_by_parts(dy, z, x, weight, dx, dw, db);
  }
  linear_backward(dy, {}, x, weight, none, dw, db);
}

void relu_linear_backward(const Tensor& dy, const Tensor& mask, const Tensor& x,
                          const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor none;
  const bool joined = dx && gradient_with({.relu_at = address_of(mask)}, dy, weight, dx);
  linear_backward(dy, {}, x, weight, joined ? none : dx, dw, db);
  if (dx && !joined) kernels::relu_backward(dx, x, dx);
}

}  // namespace

void register_linear() {
  constexpr TypeList<uint8_t, int32_t, int64_t> kIntegers{};
  set<kernels::linear>(kFloatTypes, [](auto, const Tensor& x, const Tensor& w, const Tensor& bias,
                                       bool relu, Tensor& y) { linear(x, w, bias, relu, y); });
  set<kernels::linear_gelu>(
      kFloatTypes, [](auto, const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y,
                      Tensor& z) { linear_gelu(x, w, bias, y, z); });
  set<kernels::linear_relu_masked>(
      kFloatTypes, [](auto, const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y,
                      Tensor& mask) { linear_relu_masked(x, w, bias, y, mask); });
  set<kernels::linear_backward>(
      kFloatTypes,
      [](auto, const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight, Tensor& dx,
         Tensor& dw, Tensor& db) { linear_backward(dy, y, x, weight, dx, dw, db); });
  set<kernels::gelu_linear_backward>(
      kFloatTypes,
      [](auto, const Tensor& dy, const Tensor& z, const Tensor& x, const Tensor& weight, Tensor& dx,
         Tensor& dw, Tensor& db) { gelu_linear_backward(dy, z, x, weight, dx, dw, db); });
  set<kernels::relu_linear_backward>(
      kFloatTypes, [](auto, const Tensor& dy, const Tensor& mask, const Tensor& x,
                      const Tensor& weight, Tensor& dx, Tensor& dw,
                      Tensor& db) { relu_linear_backward(dy, mask, x, weight, dx, dw, db); });
  set<kernels::linear>(kIntegers, [](auto, const Tensor& x, const Tensor& w, const Tensor& bias,
                                     bool relu, Tensor& y) {
    kernels::matmul(x, transposed(w), y);
    if (bias)
      kernels::accumulate(bias.with_layout({y.shape(), broadcast_strides(bias.layout(), y.shape()),
                                            bias.layout().offset}),
                          y);
    if (relu) kernels::relu(y, y);
  });
}

}  // namespace tapegrad::backends::cuda
