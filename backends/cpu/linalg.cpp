// LAPACK and triangular factors applied to every matrix of a batch. ops/linalg.h documents the
// kernels.
#include <algorithm>
#include <cmath>
#include <limits>

#include <omp.h>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/factor.h"
#include "backends/cpu/tools/lapack.h"
#include "backends/cpu/tools/threads.h"
#include "core/base/error.h"
#include "ops/internal/exchanged_rows.h"
#include "ops/linalg.h"

namespace tapegrad::backends::cpu {
namespace {

int size(const Tensor& x, int dim) {
  const int64_t n = x.shape()[dim];
  if (n > std::numeric_limits<int>::max())
    fail<ShapeError>("linalg: a size past 2^31, LAPACK's limit: ", x.shape());
  return int(n);
}

/// A batch of column-major matrices.
template <typename T>
struct Matrices {
  T* data;
  int rows, columns, stride;  // stride between columns; LAPACK requires at least 1

  explicit Matrices(const Tensor& x)
      : data(x.data<T>()), rows(size(x, 2)), columns(size(x, 1)), stride(std::max(rows, 1)) {}
  T* operator[](int64_t i) const { return data + i * rows * columns; }
};

// Matrices up to these sizes, measured in multiplications of a matrix product, are processed by one
// thread: kTriangles for triangular algorithms, kRotations for singular values and eigenvalues. The
// latter take thousands of short steps, in which threads mostly wait for each other, particularly
// on a busy machine.
constexpr double kTriangles = 1 << 21;
constexpr double kRotations = 1 << 27;

/// Runs f(matrix, thread) for each matrix: small ones in parallel, large ones with all threads in
/// each.
class MatrixBatch {
 public:
  explicit MatrixBatch(const Tensor& x, double one_thread = kTriangles) : count_(x.shape()[0]) {
    respect_thread_limit();
    const double m = double(x.shape()[2]), n = double(x.shape()[1]);
    is_small_ = m * n * std::min(m, n) <= one_thread;
    threads_ = is_small_ ? int(std::clamp<int64_t>(count_, 1, omp_get_max_threads())) : 1;
  }
  int threads() const { return threads_; }

  template <typename F>
  void run(const F& f) const {
    if (threads_ == 1) {
      const int before = omp_get_max_threads();  // OpenBLAS uses this number of threads
      if (is_small_) omp_set_num_threads(1);
      for (int64_t i = 0; i < count_; ++i) f(i, 0);
      omp_set_num_threads(before);
    } else {
#pragma omp parallel for schedule(static) num_threads(threads_)
      for (int64_t i = 0; i < count_; ++i) f(i, omp_get_thread_num());
    }
  }

 private:
  int64_t count_;
  bool is_small_;
  int threads_;
};

/// `length` elements for each thread.
template <typename T>
class Workspace {
 public:
  Workspace(const MatrixBatch& batch, int64_t length)
      : memory_(Tensor::empty({batch.threads(), std::max<int64_t>(length, 1)}, kDTypeOf<T>)) {}
  T* operator[](int thread) const { return memory_.data<T>() + thread * memory_.shape()[1]; }
  int length() const { return int(memory_.shape()[1]); }

 private:
  Tensor memory_;
};

/// Returns the workspace length that a routine requests: with lwork = -1 it stores the length in
/// `work`.
template <typename T, typename Query>
int64_t wanted_length(Query query) {
  T work = 0;
  const int ask = -1;
  query(&work, &ask);
  return int64_t(double(work) * (1 + 1e-6)) + 1;  // the length may have been rounded down to a
                                                  // float
}

template <typename T>
bool all_finite(const T* x, int64_t count) {
  return std::all_of(x, x + count, [](T value) { return std::isfinite(value); });
}

/// Matrix i of the batch.
template <typename T>
Block<T> block(const Matrices<T>& x, int64_t i) {
  return {x[i], 1, x.stride};
}

template <typename T>
void lu_factor(Tensor& a0, Tensor& pivots, Tensor& info) {
  if (a0.numel() == 0) return;
  const Matrices<T> a(a0);
  MatrixBatch(a0).run([&](int64_t i, int) {
    info.data<int>()[i] =
        int(factor_lu(a.rows, a.columns, block(a, i), pivots.data<int>() + i * a.rows));
  });
}

template <typename T>
void lu_solve(const Tensor& lu0, const Tensor& pivots, bool transposed, Tensor& b0) {
  if (b0.numel() == 0) return;
  const Matrices<T> lu(lu0), b(b0);
  constexpr Triangular kLower{.upper = false, .unit = true}, kUpper{.upper = true, .unit = false};
  const int64_t n = lu.rows;
  MatrixBatch(lu0).run([&](int64_t i, int) {
    const int* rows = pivots.data<int>() + i * n;
    const Block<T> factors = block(lu, i), x = block(b, i);
    if (!transposed) {
      exchange_rows(n, rows, /*reversed=*/false, b.columns, x);
      solve_triangle(kLower, n, b.columns, factors, x);
      solve_triangle(kUpper, n, b.columns, factors, x);
    } else {
      solve_triangle({.upper = false, .unit = false}, n, b.columns, factors.transposed(), x);
      solve_triangle({.upper = true, .unit = true}, n, b.columns, factors.transposed(), x);
      exchange_rows(n, rows, /*reversed=*/true, b.columns, x);
    }
  });
}

template <typename T>
void triangular_solve(const Tensor& a0, kernels::Triangle triangle, Tensor& b0) {
  if (b0.numel() == 0) return;
  const Matrices<T> a(a0), b(b0);
  const bool upper = triangle.upper != triangle.transposed;
  MatrixBatch(a0).run([&](int64_t i, int) {
    const Block<T> t = triangle.transposed ? block(a, i).transposed() : block(a, i);
    solve_triangle({.upper = upper, .unit = triangle.unit}, a.rows, b.columns, t, block(b, i));
  });
}

template <typename T>
void cholesky(Tensor& a0, Tensor& info) {
  if (a0.numel() == 0) return;
  const Matrices<T> a(a0);
  MatrixBatch(a0).run([&](int64_t i, int) {
    info.data<int>()[i] = int(factor_cholesky(a.rows, block(a, i)));
    for (int column = 1; column < a.columns; ++column)
      std::fill_n(a[i] + int64_t(column) * a.rows, column, T(0));
  });
}

template <typename T>
void qr_factor(Tensor& a0, Tensor& scales) {
  if (a0.numel() == 0) return;
  const Matrices<T> a(a0);
  const int64_t k = scales.shape()[1];
  int ignored = 0;
  const MatrixBatch batch(a0);
  const Workspace<T> work(batch, wanted_length<T>([&](T* work, const int* ask) {
                            Lapack<T>::geqrf(&a.rows, &a.columns, a.data, &a.stride,
                                             scales.data<T>(), work, ask, &ignored);
                          }));
  const int length = work.length();
  batch.run([&](int64_t i, int thread) {
    int info = 0;
    Lapack<T>::geqrf(&a.rows, &a.columns, a[i], &a.stride, scales.data<T>() + i * k, work[thread],
                     &length, &info);
  });
}

template <typename T>
void qr_form(Tensor& q0, const Tensor& scales) {
  if (q0.numel() == 0) return;
  const Matrices<T> q(q0);
  const int k = size(scales, 1);
  int ignored = 0;
  const MatrixBatch batch(q0);
  const Workspace<T> work(batch, wanted_length<T>([&](T* work, const int* ask) {
                            Lapack<T>::orgqr(&q.rows, &q.columns, &k, q.data, &q.stride,
                                             scales.data<T>(), work, ask, &ignored);
                          }));
  const int length = work.length();
  batch.run([&](int64_t i, int thread) {
    int info = 0;
    Lapack<T>::orgqr(&q.rows, &q.columns, &k, q[i], &q.stride, scales.data<T>() + i * k,
                     work[thread], &length, &info);
  });
}

/// Orthogonal factors of an empty matrix are arbitrary; uses the identity.
template <typename T>
void fill_identity(Tensor& x0) {
  if (!x0 || x0.numel() == 0) return;
  const Matrices<T> x(x0);
  std::fill_n(x.data, x0.numel(), T(0));
  for (int64_t i = 0; i < x0.shape()[0]; ++i)
    for (int k = 0; k < std::min(x.rows, x.columns); ++k) x[i][int64_t(k) * (x.rows + 1)] = T(1);
}

template <typename T>
void svd(Tensor& a0, Tensor& u0, Tensor& s, Tensor& vh0, Tensor& info) {
  if (a0.numel() == 0) {
    fill_identity<T>(u0);
    fill_identity<T>(vh0);
    return;
  }
  const Matrices<T> a(a0);
  const int k = std::min(a.rows, a.columns);
  T nothing = 0;
  const Matrices<T> u(u0 ? u0 : a0), vh(vh0 ? vh0 : a0);
  const char* job = !u0 ? "N" : u.columns == a.rows && vh.rows == a.columns ? "A" : "S";
  const auto run = [&](int64_t i, T* work, const int* length, int* indices, int* status) {
    Lapack<T>::gesdd(job, &a.rows, &a.columns, a[i], &a.stride, s.data<T>() + i * k,
                     u0 ? u[i] : &nothing, &u.stride, vh0 ? vh[i] : &nothing, &vh.stride, work,
                     length, indices, status, 1);
  };
  const MatrixBatch batch(a0, kRotations);
  const Workspace<int> indices(batch, 8 * int64_t(k));
  const Workspace<T> work(batch, wanted_length<T>([&](T* work, const int* ask) {
                            int ignored = 0;
                            run(0, work, ask, indices[0], &ignored);
                          }));
  const int length = work.length();
  batch.run([&](int64_t i, int thread) {
    int& status = info.data<int>()[i];
    if (all_finite(a[i], int64_t(a.rows) * a.columns))
      run(i, work[thread], &length, indices[thread], &status);
    else
      status = -1;
  });
}

template <typename T>
void eigh(Tensor& a0, bool vectors, Tensor& values, Tensor& info) {
  if (a0.numel() == 0) return;
  const Matrices<T> a(a0);
  const int64_t n = a.rows;
  const MatrixBatch batch(a0, kRotations);
  // The lengths documented for the routine.
  const Workspace<T> work(batch, vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1);
  const Workspace<int> indices(batch, vectors ? 3 + 5 * n : 1);
  const int length = work.length(), index_length = indices.length();
  const auto is_finite = [&](const T* matrix) {
    for (int64_t column = 0; column < n; ++column)
      if (!all_finite(matrix + column * (n + 1), n - column)) return false;
    return true;
  };
  batch.run([&](int64_t i, int thread) {
    int& status = info.data<int>()[i];
    if (is_finite(a[i]))
      Lapack<T>::syevd(vectors ? "V" : "N", "L", &a.rows, a[i], &a.stride, values.data<T>() + i * n,
                       work[thread], &length, indices[thread], &index_length, &status, 1, 1);
    else
      status = -1;
  });
}

void exchanged_rows(const Tensor& with, Tensor& rows) {
  if (rows.numel() == 0) return;
  const int64_t n = with.shape()[-1], count = rows.numel();
  const int64_t* exchanges = with.data<int64_t>();
  int64_t* y = rows.data<int64_t>();
#pragma omp parallel for schedule(static) if (count * n > 100'000)
  for (int64_t i = 0; i < count; ++i) y[i] = row_before_exchanges(exchanges + i / n * n, n, i % n);
}

constexpr TypeList<float, double> kLapackTypes{};

}  // namespace

void register_linalg() {
  set<kernels::lu_factor>(kLapackTypes,
                          []<typename T>(TypeTag<T>, auto&... a) { lu_factor<T>(a...); });
  set<kernels::lu_solve>(kLapackTypes,
                         []<typename T>(TypeTag<T>, auto&... a) { lu_solve<T>(a...); });
  set<kernels::triangular_solve>(
      kLapackTypes, []<typename T>(TypeTag<T>, auto&... a) { triangular_solve<T>(a...); });
  set<kernels::cholesky>(kLapackTypes,
                         []<typename T>(TypeTag<T>, auto&... a) { cholesky<T>(a...); });
  set<kernels::qr_factor>(kLapackTypes,
                          []<typename T>(TypeTag<T>, auto&... a) { qr_factor<T>(a...); });
  set<kernels::qr_form>(kLapackTypes, []<typename T>(TypeTag<T>, auto&... a) { qr_form<T>(a...); });
  set<kernels::svd>(kLapackTypes, []<typename T>(TypeTag<T>, auto&... a) { svd<T>(a...); });
  set<kernels::eigh>(kLapackTypes, []<typename T>(TypeTag<T>, auto&... a) { eigh<T>(a...); });
  set<kernels::exchanged_rows>(TypeList<int64_t>{}, [](auto, auto&... a) { exchanged_rows(a...); });
}

}  // namespace tapegrad::backends::cpu
