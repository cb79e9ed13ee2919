// Products of floats by cuBLAS, of integers by our own kernel.
#include "ops/matmul.h"

#include "backends/cuda/blas/matrices.h"
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/register.h"
#include "backends/cuda/runtime/address.h"
#include "backends/joint_layout.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cuda {
namespace {

/// Writes the addresses of the matrices of a batch: those of a, then those of b and of c.
struct WriteAddresses {
  JointLayout<2> batch;  // strides in bytes
  std::byte *a, *b, *c;
  int64_t c_step, count;
  std::byte** to;

  __device__ void operator()(int64_t i) const {
    int64_t rest = i, a_offset = 0, b_offset = 0;
    for (int d = batch.rank - 1; d >= 0; --d) {
      const int64_t index = rest % batch.sizes[size_t(d)];
      rest /= batch.sizes[size_t(d)];
      a_offset += index * batch.strides[0][size_t(d)];
      b_offset += index * batch.strides[1][size_t(d)];
    }
    to[i] = a + a_offset;
    to[count + i] = b + b_offset;
    to[2 * count + i] = c + i * c_step;
  }
};

bool is_aligned(const WriteAddresses& w, int64_t bytes) {
  int64_t all = int64_t(uintptr_t(w.a) | uintptr_t(w.b) | uintptr_t(w.c)) | w.c_step;
  for (int d = 0; d < w.batch.rank; ++d)
    all |= w.batch.strides[0][size_t(d)] | w.batch.strides[1][size_t(d)];
  return all % bytes == 0;
}

/// Computes y = a b for each matrix of the batch; leading dimensions are equal. One call of cuBLAS:
/// with strides if each operand has one stride for the batch, otherwise with addresses.
void multiply(const Tensor& a0, const Tensor& b0, Tensor& y) {
  const Tensor a = plain(a0), b = plain(b0);
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
  if (y.numel() == 0) return;
  const Product product{m, n, k, y.numel() / (m * n), y.dtype(), y.dtype()};
  const auto with_steps = [&](const Tensor& a, const Tensor& b, int64_t a_step, int64_t b_step) {
    gemm(product, matrices_of(a, 0, a_step), matrices_of(b, 0, b_step), address_of(y), n, m * n, y);
  };
  const int64_t size = size_of(y.dtype());
  JointLayout<2> batch{};
  for (int d = 0; d < r - 2; ++d)
    batch.add_dim(y.shape()[d], {a.strides()[d] * size, b.strides()[d] * size});
  if (batch.rank <= 1)
    return with_steps(a, b, batch.strides[0][0] / size, batch.strides[1][0] / size);
  WriteAddresses write{batch,        address_of(a), address_of(b), address_of(y),
                       m * n * size, product.batch, nullptr};
  if (k == 0 || !is_aligned(write, alignment_for_gemm_at(y.dtype())))
    return with_steps(a.contiguous(), b.contiguous(), m * k, k * n);
  const Tensor addresses = Tensor::empty({3 * product.batch}, i64, y.device());
  write.to = reinterpret_cast<std::byte**>(addresses.data<int64_t>());
  for_each(product.batch, y, write);
  gemm_at(product, matrices_of(a, 0, 0), matrices_of(b, 0, 0), n, addresses);
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
                       []<typename T>(TypeTag<T>, auto&... a) { multiply_integers<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
