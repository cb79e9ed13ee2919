#include "backends/cuda/device/matrices.h"

#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/team.cuh"
#include "backends/cuda/runtime/address.h"
#include "ops/internal/exchanged_rows.h"

namespace tapegrad::backends::cuda {
namespace {

template <typename F>
void for_real(const Tensor& x, const F& f) {
  x.dtype() == f32 ? f(TypeTag<float>{}) : f(TypeTag<double>{});
}

struct Addresses {
  int64_t first, step;  // in bytes
  int64_t* y;
  __device__ void operator()(int64_t i) const { y[i] = first + i * step; }
};

/// The column and row of an element of a batch.
struct Place {
  int64_t matrix, column, row;
  TG_HD Place(int64_t i, int64_t rows, int64_t columns)
      : matrix(i / (rows * columns)), column(i / rows % columns), row(i % rows) {}
};

template <typename T>
struct ClearUpper {
  T* a;
  int64_t n;
  __device__ void operator()(int64_t i) const {
    const Place at(i, n, n);
    if (at.row < at.column) a[i] = T(0);
  }
};

template <typename T>
struct Identity {
  T* a;
  int64_t rows, columns;
  __device__ void operator()(int64_t i) const {
    const Place at(i, rows, columns);
    a[i] = T(at.row == at.column);
  }
};

template <typename T>
struct NoteNonFinite {
  const T* a;
  int64_t rows, columns;
  bool lower;
  int* verdicts;
  __device__ void operator()(int64_t i) const {
    const Place at(i, rows, columns);
    if (!(a[i] - a[i] == T(0)) && (!lower || at.row >= at.column))
      verdicts[at.matrix] = -1;  // all threads store the same value
  }
};

template <typename T>
struct ClearNoted {
  T* a;
  int64_t size;  // of a matrix
  const int* verdicts;
  __device__ void operator()(int64_t i) const {
    if (verdicts[i / size] != 0) a[i] = T(0);
  }
};

struct AddVerdicts {
  const int* verdicts;
  int* info;
  __device__ void operator()(int64_t i) const {
    if (verdicts[i] != 0) info[i] = verdicts[i];
  }
};

struct ExchangedRow {
  const int64_t* with;
  int64_t n;
  int64_t* rows;
  __device__ void operator()(int64_t i) const {
    rows[i] = row_before_exchanges(with + i / n * n, n, i % n);
  }
};

struct Smaller {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

/// A warp for each matrix.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    check_diagonals(const T* a, int64_t count, int64_t n, int* info) {
  for (int64_t i = WarpTeam::first(); i < count; i += WarpTeam::step()) {
    int64_t bad = n;
    for (int64_t k = WarpTeam::rank(); k < n; k += WarpTeam::kSize)
      if (!(a[i * n * n + k * (n + 1)] > T(0)) && k < bad) bad = k;
    bad = WarpTeam::reduce(bad, Smaller{});
    if (WarpTeam::rank() == 0 && bad < n && info[i] == 0) info[i] = int(bad + 1);
  }
}

}  // namespace

Tensor addresses_of(const Tensor& batch) {
  const int64_t count = batch.shape()[0];
  Tensor y = Tensor::empty({count}, i64, batch.device());
  for_each(count, batch,
           Addresses{reinterpret_cast<int64_t>(address_of(batch)),
                     batch.numel() / std::max<int64_t>(count, 1) * size_of(batch.dtype()),
                     y.data<int64_t>()});
  return y;
}

Tensor transposed(const Tensor& batch) {
  StridedLayout layout = batch.layout();
  std::swap(layout.shape[1], layout.shape[2]);
  std::swap(layout.strides[1], layout.strides[2]);
  return batch.with_layout(layout);
}

Tensor first_columns(const Tensor& batch, int64_t count) {
  StridedLayout layout = batch.layout();
  layout.shape[1] = count;
  return batch.with_layout(layout);
}

void finish_cholesky(Tensor& factors, Tensor& info) {
  const int64_t count = factors.shape()[0], n = factors.shape()[1];
  for_real(factors, [&]<typename T>(TypeTag<T>) {
    for_each(factors.numel(), factors, ClearUpper<T>{factors.data<T>(), n});
    launch(teams_for<WarpTeam>(count, factors), &check_diagonals<T>, factors.data<T>(), count, n,
           info.data<int>());
  });
}

Tensor set_aside_non_finite(Tensor& batch, bool lower) {
  const int64_t columns = batch.shape()[1], rows = batch.shape()[2];
  Tensor verdicts = Tensor::full({batch.shape()[0]}, 0, i32, batch.device());
  for_real(batch, [&]<typename T>(TypeTag<T>) {
    for_each(batch.numel(), batch,
             NoteNonFinite<T>{batch.data<T>(), rows, columns, lower, verdicts.data<int>()});
    for_each(batch.numel(), batch,
             ClearNoted<T>{batch.data<T>(), rows * columns, verdicts.data<int>()});
  });
  return verdicts;
}

void add_verdicts(const Tensor& verdicts, Tensor& info) {
  for_each(info.numel(), info, AddVerdicts{verdicts.data<int>(), info.data<int>()});
}

void set_identity(Tensor& batch) {
  if (!batch) return;
  for_real(batch, [&]<typename T>(TypeTag<T>) {
    for_each(batch.numel(), batch,
             Identity<T>{batch.data<T>(), batch.shape()[2], batch.shape()[1]});
  });
}

void exchanged_rows(const Tensor& with, Tensor& rows) {
  for_each(rows.numel(), rows,
           ExchangedRow{with.data<int64_t>(), with.shape()[-1], rows.data<int64_t>()});
}

}  // namespace tapegrad::backends::cuda
