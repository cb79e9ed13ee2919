// matmul and linear: products of floats by cuBLAS, of integers by a kernel of our own.
#include "ops/matmul.h"

#include "backends/cuda/address.h"
#include "backends/cuda/blas_lt.h"
#include "backends/cuda/each.cuh"
#include "backends/cuda/register.h"
#include "backends/joint_layout.h"
#include "core/kernels.h"
#include "ops/activation.h"

namespace tapegrad::backends::cuda {
namespace {

/// Whether cuBLAS reads the last two dimensions: one step is 1 and the other does not overlap.
bool is_plain(const Tensor& x) {
  const int r = x.rank();
  const int64_t rows = x.shape()[r - 2], columns = x.shape()[r - 1];
  const int64_t row = x.strides()[r - 2], column = x.strides()[r - 1];
  const bool by_rows = (column == 1 || columns <= 1) && (row >= columns || rows <= 1);
  const bool by_columns = (row == 1 || rows <= 1) && (column >= rows || columns <= 1);
  return by_rows || by_columns;
}
Tensor plain(const Tensor& x) { return is_plain(x) ? x : x.clone(); }

/// The step of a dimension of size 1 means nothing.
Matrices matrices_of(const Tensor& x, int64_t offset, int64_t step) {
  const int r = x.rank();
  const int64_t rows = x.shape()[r - 2], columns = x.shape()[r - 1];
  const int64_t row = x.strides()[r - 2], column = x.strides()[r - 1];
  const void* data = x.storage().data() + (x.layout().offset + offset) * size_of(x.dtype());
  const bool by_rows = (column == 1 || columns <= 1) && (row >= columns || rows <= 1);
  if (by_rows) return {data, false, rows <= 1 ? std::max<int64_t>(columns, 1) : row, step};
  return {data, true, columns <= 1 ? std::max<int64_t>(rows, 1) : column, step};
}

Matrices transposed(Matrices x) {
  x.transposed = !x.transposed;
  return x;
}

/// y = a b for each matrix of the batch; all have the same dimensions in front. One call for what
/// lies at equal steps.
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

constexpr TypeList<uint8_t, int32_t, int64_t> kIntegers{};

/// The transposed view of a matrix.
Tensor transposed(const Tensor& w) {
  return w.with_layout(
      {{w.shape()[1], w.shape()[0]}, {w.strides()[1], w.strides()[0]}, w.layout().offset});
}

void linear(const Tensor& x0, const Tensor& w0, const Tensor& bias, bool relu, Tensor& y) {
  const Tensor x = plain(x0), w = plain(w0), dense = bias ? bias.contiguous() : bias;
  const Matrices a = matrices_of(x, 0, 0), b = transposed(matrices_of(w, 0, 0));
  Product p{y.shape()[0], y.shape()[1], x.shape()[1], 1, y.dtype(), y.dtype()};
  Epilogue epilogue{.bias = bias ? address_of(dense) : nullptr};
  epilogue.relu = relu && relu_keeps_nan(y);
  const bool has_epilogue = bias || epilogue.relu;
  if (!has_epilogue || !gemm_with(epilogue, p, a, b, address_of(y), p.n, y)) {
    epilogue.relu = false;
    if (bias) kernels::copy(bias, y);
    p.accumulate = bool(bias);
    gemm(p, a, b, address_of(y), p.n, 0, y);
  }
  if (relu && !epilogue.relu) kernels::relu(y, y);
}

void linear_gelu(const Tensor& x0, const Tensor& w0, const Tensor& bias, Tensor& y, Tensor& z) {
  const Tensor x = plain(x0), w = plain(w0), dense = bias ? bias.contiguous() : bias;
  const Product p{y.shape()[0], y.shape()[1], x.shape()[1], 1, y.dtype(), y.dtype()};
  const Epilogue epilogue{.bias = bias ? address_of(dense) : nullptr,
                          .gelu = true,
                          .before_gelu = z ? address_of(z) : nullptr};
  if (!gemm_with(epilogue, p, matrices_of(x, 0, 0), transposed(matrices_of(w, 0, 0)), address_of(y),
                 p.n, y))
    kernels::linear_gelu_by_parts(x, w, dense, y, z);
}

/// db is summed on the way to dw, from the operand that both read.
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

void gelu_linear_backward(const Tensor& dy, const Tensor& z, const Tensor& x, const Tensor& weight,
                          Tensor& dx, Tensor& dw, Tensor& db) {
  if (dx) {
    const Tensor a = plain(dy), b = plain(weight), at = z.contiguous();
    const Product p{dx.shape()[0], dx.shape()[1], dy.shape()[1], 1, dx.dtype(), dx.dtype()};
    if (!gemm_with({.gelu_at = address_of(at)}, p, matrices_of(a, 0, 0), matrices_of(b, 0, 0),
                   address_of(dx), p.n, dx))
      return kernels::gelu_linear_backward_by_parts(dy, z, x, weight, dx, dw, db);
  }
  Tensor done;
  linear_backward(dy, {}, x, weight, done, dw, db);
}

}  // namespace

void register_matmul() {
  set<kernels::matmul>(
      kFloatTypes, [](auto, const Tensor& a, const Tensor& b, Tensor& y) { multiply(a, b, y); });
  set<kernels::matmul>(kIntegers, []<typename T>(Type<T>, const Tensor& a, const Tensor& b,
                                                 Tensor& y) { multiply_integers<T>(a, b, y); });
  set<kernels::linear>(kFloatTypes, [](auto, const Tensor& x, const Tensor& w, const Tensor& bias,
                                       bool relu, Tensor& y) { linear(x, w, bias, relu, y); });
  set<kernels::linear_gelu>(
      kFloatTypes, [](auto, const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y,
                      Tensor& z) { linear_gelu(x, w, bias, y, z); });
  set<kernels::linear_backward>(
      kFloatTypes,
      [](auto, const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& weight, Tensor& dx,
         Tensor& dw, Tensor& db) { linear_backward(dy, y, x, weight, dx, dw, db); });
  set<kernels::gelu_linear_backward>(
      kFloatTypes,
      [](auto, const Tensor& dy, const Tensor& z, const Tensor& x, const Tensor& weight, Tensor& dx,
         Tensor& dw, Tensor& db) { gelu_linear_backward(dy, z, x, weight, dx, dw, db); });
  set<kernels::linear>(kIntegers, []<typename T>(Type<T>, const Tensor& x, const Tensor& w,
                                                 const Tensor& bias, bool relu, Tensor& y) {
    multiply_integers<T>(x, transposed(w), y);
    if (bias)
      kernels::accumulate(bias.with_layout({y.shape(), broadcast_strides(bias.layout(), y.shape()),
                                            bias.layout().offset}),
                          y);
    if (relu) kernels::relu(y, y);
  });
}

}  // namespace tapegrad::backends::cuda
