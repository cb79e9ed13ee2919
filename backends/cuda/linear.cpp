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

/// Computes y = x w^T with the epilogue, to which the bias is added. Returns false, with nothing
/// done, if not supported.
bool product_with(LtEpilogue epilogue, const Tensor& x, const Tensor& w, const Tensor& bias,
                  Tensor& y) {
  const Tensor dense = bias ? bias.contiguous() : bias;
  if (bias) epilogue.bias = address_of(dense);
  const Product p{y.shape()[0], y.shape()[1], x.shape()[1], 1, y.dtype(), y.dtype()};
  return gemm_with(epilogue, p, matrices_of(x, 0, 0), transposed(matrices_of(w, 0, 0)),
                   address_of(y), p.n, y);
}

/// Computes y = x w^T + bias.
void product(const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y) {
  if (bias && product_with({}, x, w, bias, y)) return;
  if (bias) kernels::copy(bias, y);
  const Product p{.m = y.shape()[0],
                  .n = y.shape()[1],
                  .k = x.shape()[1],
                  .dtype = y.dtype(),
                  .result = y.dtype(),
                  .accumulate = bool(bias)};
  gemm(p, matrices_of(x, 0, 0), transposed(matrices_of(w, 0, 0)), address_of(y), p.n, 0, y);
}

void linear(const Tensor& x0, const Tensor& w0, const Tensor& bias, const Epilogue& epilogue,
            Tensor& y) {
  const Tensor x = plain(x0), w = plain(w0);
  const bool gelu = epilogue.activation == Activation::kGelu;
  const bool relu = epilogue.activation == Activation::kRelu && relu_of_cublas_lt_keeps_nan(y);
  const LtEpilogue fused{.relu = relu,
                         .gelu = gelu,
                         .before_gelu = gelu && epilogue.at ? address_of(epilogue.at) : nullptr};
  if ((gelu || relu) && product_with(fused, x, w, bias, y)) return;
  Tensor z = gelu && epilogue.at ? epilogue.at : y;
  product(x, w, bias, z);
  kernels::run_epilogue(epilogue, z, y);
}

/// Computes dx = dz weight, times the gradient of gelu at z. Returns false, and changes nothing, if
/// not supported.
bool gradient_with_gelu(const Tensor& dz, const Tensor& weight, const Tensor& z, Tensor& dx) {
  const Tensor a = plain(dz), b = plain(weight), at = z.contiguous();
  const Product p{dx.shape()[0], dx.shape()[1], dz.shape()[1], 1, dx.dtype(), dx.dtype()};
  return gemm_with({.gelu_at = address_of(at)}, p, matrices_of(a, 0, 0), matrices_of(b, 0, 0),
                   address_of(dx), p.n, dx);
}

/// Computes dw = dz^T x and db = the sum of dz's rows, on the way. Returns false, with nothing
/// done, if not supported.
bool gradient_with_sums(const Tensor& dz, const Tensor& x, Tensor& dw, Tensor& db) {
  const Tensor a = plain(dz), b = plain(x);
  const Product p{dw.shape()[0], dw.shape()[1], dz.shape()[0], 1, dw.dtype(), dw.dtype()};
  return gemm_with({.row_sums = address_of(db)}, p, transposed(matrices_of(a, 0, 0)),
                   matrices_of(b, 0, 0), address_of(dw), p.n, dw);
}

void linear_of_integers(const Tensor& x, const Tensor& w, const Tensor& bias,
                        const Epilogue& epilogue, Tensor& y) {
  kernels::matmul(x, transposed(w), y);
  if (bias)
    kernels::accumulate(bias.with_layout({y.shape(), broadcast_strides(bias.layout(), y.shape()),
                                          bias.layout().offset}),
                        y);
  kernels::run_epilogue(epilogue, y, y);
}

void linear_backward(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                     const Tensor& weight, const Epilogue& front, Tensor& dx, Tensor& dw,
                     Tensor& db) {
  Tensor dz = dy, other_dx = dx, other_dw = dw, other_db = db;
  kernels::run_epilogue_backward(behind, dy, dz);
  if (dx && front.activation == Activation::kGelu && gradient_with_gelu(dz, weight, front.at, dx))
    other_dx = {};
  if (dw && db && gradient_with_sums(dz, x, dw, db)) other_dw = other_db = {};
  kernels::linear_backward_by_products(dz, {}, x, weight, front, other_dx, other_dw, other_db);
}

}  // namespace

void register_linear() {
  constexpr TypeList<uint8_t, int32_t, int64_t> kIntegers{};
  set<kernels::linear>(kFloatTypes, [](auto, auto&... a) { linear(a...); });
  set<kernels::linear_backward>(kFloatTypes, [](auto, auto&... a) { linear_backward(a...); });
  set<kernels::linear>(kIntegers, [](auto, auto&... a) { linear_of_integers(a...); });
}

}  // namespace tapegrad::backends::cuda
