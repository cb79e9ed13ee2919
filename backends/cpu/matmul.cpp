#include <algorithm>
#include <exception>

#include "backends/cpu/dnnl/matmul_dnnl.h"
#include "backends/cpu/fast/fast_paths.h"
#include "backends/cpu/fast/linear_narrow.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/matrices.h"
#include "core/dispatch/kernels.h"
#include "ops/activation.h"
#include "ops/linear.h"
#include "ops/matmul.h"

namespace tapegrad::backends::cpu {
namespace {

// One product with more multiplications keeps all threads busy.
constexpr int64_t kParallelProduct = int64_t(1) << 21;
// A product or batch with fewer multiplications does not justify a second thread.
constexpr int64_t kSerialProduct = int64_t(1) << 15;

/// y = a b for each matrix of the batch; all have the same dimensions in front.
template <typename T>
void matmul(const Tensor& a0, const Tensor& b0, Tensor& y, MatmulPrecision precision) {
  const Tensor a = plain(a0), b = plain(b0);
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
  T* to = y.data<T>();
  if (r == 2) return product<T>(m, n, k, matrix<T>(a), matrix<T>(b), nullptr, to, precision);
  if (y.numel() == 0) return;
  const int64_t batch = y.numel() / (m * n);
  const int64_t work = m * n * std::max<int64_t>(k, 1);
  const auto left = [&](int64_t i) { return matrix<T>(a, batch_offset(a, i)); };
  const auto right = [&](int64_t i) { return matrix<T>(b, batch_offset(b, i)); };
  if (work > kParallelProduct || batch * work < kSerialProduct) {
    for (int64_t i = 0; i < batch; ++i)
      product<T>(m, n, k, left(i), right(i), nullptr, to + i * m * n, precision);
  } else {
    std::exception_ptr error;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < batch; ++i) {
      try {
        gemm(m, n, k, left(i), right(i), to + i * m * n, n);
      } catch (...) {
#pragma omp critical(tapegrad_matmul)
        error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  }
}

/// Whether linear_narrow.h has functions for these sizes of the operands.
template <typename T>
bool is_narrow(const Tensor& y, int64_t in) {
  return std::is_same_v<T, float> && cpu::is_narrow(y.shape()[0], in, y.shape()[1]);
}
Tensor contiguous(const Tensor& x) { return x ? x.contiguous() : x; }

/// y = x w^T + bias for x [n, in], w [out, in].
template <typename T>
void linear(const Tensor& x0, const Tensor& w0, const Tensor& bias, bool relu, Tensor& y,
            MatmulPrecision precision) {
  if (is_narrow<T>(y, x0.shape()[1]))
    return linear_narrow(x0.contiguous(), w0.contiguous(), contiguous(bias), relu, y);
  const Tensor x = plain(x0), w = plain(w0);
  const int64_t n = y.shape()[0], out = y.shape()[1], in = x.shape()[1];
  const Matrix<T> transposed{w.data<T>(), w.strides()[1], w.strides()[0]};
  const Tensor row = contiguous(bias);
  product<T>(n, out, in, matrix<T>(x), transposed, row ? row.data<T>() : nullptr, y.data<T>(),
             precision);
  if (relu) kernels::relu(y, y);
}

template <typename T>
void linear_backward(const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight,
                     Tensor& dx, Tensor& dw, Tensor& db) {
  if ((dx || dw) && is_narrow<T>(dy, dx ? dx.shape()[1] : dw.shape()[1]))
    return linear_narrow_backward(dy.contiguous(), contiguous(y), contiguous(x), contiguous(weight),
                                  dx, dw, db);
  kernels::linear_backward_by_products(dy, y, x, weight, dx, dw, db);
}

/// Whether the processor's own products of bfloat16 are taken, and not those of float.
bool is_short(int64_t m, int64_t n, int64_t k) { return fast_paths() && suits_bfloat16(m, n, k); }

/// y = a b, false where that is better done in float.
bool matmul_short(const Tensor& a0, const Tensor& b0, Tensor& y) {
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a0.shape()[r - 1];
  if (!is_short(m, n, k) || (r > 2 && m * n * k <= kParallelProduct)) return false;
  const Tensor a = plain(a0), b = plain(b0);
  const int64_t batch = y.numel() / (m * n);
  for (int64_t i = 0; i < batch; ++i)
    product(m, n, k, matrix<bfloat16>(a, batch_offset(a, i)),
            matrix<bfloat16>(b, batch_offset(b, i)), nullptr, y.data<bfloat16>() + i * m * n);
  return true;
}

/// y = x w^T + bias, likewise.
bool linear_short(const Tensor& x0, const Tensor& w0, const Tensor& bias, bool relu, Tensor& y) {
  const int64_t n = y.shape()[0], out = y.shape()[1], in = x0.shape()[1];
  if (!is_short(n, out, in)) return false;
  const Tensor x = plain(x0), w = plain(w0), row = contiguous(bias);
  product(n, out, in, matrix<bfloat16>(x), {w.data<bfloat16>(), w.strides()[1], w.strides()[0]},
          row ? row.data<bfloat16>() : nullptr, y.data<bfloat16>());
  if (relu) kernels::relu(y, y);
  return true;
}

constexpr TypeList<float, double, uint8_t, int32_t, int64_t> kExactTypes{};
constexpr TypeList<float16, bfloat16> kSixteenBit{};
constexpr auto kExactly = MatmulPrecision::kHighest;

}  // namespace

void register_matmul() {
  set_kernel(kernels::matmul, DeviceType::kCpu, kExactTypes,
             []<typename T>(Type<T>, const Tensor& a, const Tensor& b, Tensor& y) {
               matmul<T>(a, b, y, matmul_precision());
             });
  set_kernel(
      kernels::linear, DeviceType::kCpu, kExactTypes,
      []<typename T>(Type<T>, const Tensor& x, const Tensor& w, const Tensor& bias, bool relu,
                     Tensor& y) { linear<T>(x, w, bias, relu, y, matmul_precision()); });
  // Sixteen-bit floats: products and sums in float, rounded once.
  set_kernel(kernels::matmul, DeviceType::kCpu, kSixteenBit,
             []<typename T>(Type<T>, const Tensor& a, const Tensor& b, Tensor& y) {
               if (std::is_same_v<T, bfloat16> && matmul_short(a, b, y)) return;
               Tensor wide = Tensor::empty(y.shape(), f32);
               matmul<float>(a.to(f32), b.to(f32), wide, kExactly);
               kernels::copy(wide, y);
             });
  set_kernel(kernels::linear, DeviceType::kCpu, kSixteenBit,
             []<typename T>(Type<T>, const Tensor& x, const Tensor& w, const Tensor& bias,
                            bool relu, Tensor& y) {
               if (std::is_same_v<T, bfloat16> && linear_short(x, w, bias, relu, y)) return;
               Tensor wide = Tensor::empty(y.shape(), f32);
               linear<float>(x.to(f32), w.to(f32), bias ? bias.to(f32) : bias, relu, wide,
                             kExactly);
               kernels::copy(wide, y);
             });
  set_kernel(kernels::linear_backward, DeviceType::kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& dy, const Tensor& y, const Tensor& x,
                            const Tensor& weight, Tensor& dx, Tensor& dw,
                            Tensor& db) { linear_backward<T>(dy, y, x, weight, dx, dw, db); });
}

}  // namespace tapegrad::backends::cpu
