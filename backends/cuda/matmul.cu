// Products of floats by cuBLAS, of integers by our own kernel.
#include "ops/matmul.h"

#include "backends/cuda/blas/matrices.h"
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/register.h"
#include "backends/joint_layout.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cuda {
namespace {

/// y = a b for each matrix of the batch; leading dimensions are equal. Matrices with equal strides
/// use one call.
void multiply(const Tensor& a0, const Tensor& b0, Tensor& y) {
  const Tensor a = plain(a0), b = plain(b0);
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
  if (y.numel() == 0) return;
  JointLayout<2> batch;
  for (int d = 0; d < r - 2; ++d) batch.add_dim(y.shape()[d], {a.strides()[d], b.strides()[d]});
  const int last = batch.rank - 1;
  const int64_t together = batch.rank > 0 ? batch.sizes[size_t(last)] : 1;
  const int64_t calls = y.numel() / (m * n) / together;
  const int64_t a_step = batch.rank > 0 ? batch.strides[0][size_t(last)] : 0;
  const int64_t b_step = batch.rank > 0 ? batch.strides[1][size_t(last)] : 0;
  const int64_t size = size_of(y.dtype());
  for (int64_t call = 0; call < calls; ++call) {
    int64_t rest = call, a_offset = 0, b_offset = 0;
    for (int d = last - 1; d >= 0; --d) {
      const int64_t index = rest % batch.sizes[size_t(d)];
      rest /= batch.sizes[size_t(d)];
      a_offset += index * batch.strides[0][size_t(d)];
      b_offset += index * batch.strides[1][size_t(d)];
    }
    gemm({m, n, k, together, y.dtype(), y.dtype()}, matrices_of(a, a_offset, a_step),
         matrices_of(b, b_offset, b_step),
         y.storage().data() + (y.layout().offset + call * together * m * n) * size, n, m * n, y);
  }
}

/// One element of y; sums wrap around.
template <typename T>
struct IntegerProduct {
  const T *a, *b;
  T* y;
  int64_t m, n, k;

  __device__ void operator()(int64_t i) const {
    const int64_t column = i % n, row = i / n % m, matrix = i / (n * m);
    uint64_t sum = 0;
    for (int64_t l = 0; l < k; ++l)
      sum += uint64_t(a[(matrix * m + row) * k + l]) * uint64_t(b[(matrix * k + l) * n + column]);
    y[i] = T(sum);
  }
};

template <typename T>
void multiply_integers(const Tensor& a0, const Tensor& b0, Tensor& y) {
  const Tensor a = a0.contiguous(), b = b0.contiguous();
  const int r = y.rank();
  for_each(y.numel(), y,
           IntegerProduct<T>{a.data<T>(), b.data<T>(), y.data<T>(), y.shape()[r - 2],
                             y.shape()[r - 1], a.shape()[r - 1]});
}

}  // namespace

void register_matmul() {
  constexpr TypeList<uint8_t, int32_t, int64_t> kIntegers{};
  set<kernels::matmul>(kFloatTypes, [](auto, auto&... a) { multiply(a...); });
  set<kernels::matmul>(kIntegers,
                       []<typename T>(Type<T>, auto&... a) { multiply_integers<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
