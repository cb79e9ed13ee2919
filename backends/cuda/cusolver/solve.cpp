// LU and Cholesky factors.
#include "backends/cuda/cusolver/factors.h"
#include "backends/cuda/cusolver/library.h"
#include "backends/cuda/device/matrices.h"

namespace tapegrad::backends::cuda::cusolver {

template <typename T>
bool lu_factor(Tensor& a0, Tensor& pivots, Tensor& info) {
  if (a0.numel() == 0) return true;
  if (!is_countable(a0)) return false;
  const Use use(a0);
  if (!use) return false;
  const Matrices<T> a(a0);
  const int n = a.rows;
  const Routines<T>& f = routines<T>();
  if (a.count > 1 && n <= kSmall) {
    const Tensor addresses = addresses_of(a0);
    with_cublas(a0.device(), [&](cublasHandle_t blas) {
      check(f.getrfBatched(blas, n, pointers<T>(addresses), a.ld, pivots.data<int>(),
                           info.data<int>(), a.count),
            "cublas<t>getrfBatched");
    });
    return true;
  }
  int length = 0;
  if (!is_sized(f.getrf_bufferSize(use.handle(), n, n, a.data, a.ld, &length),
                "cusolverDn<t>getrf_bufferSize"))
    return false;
  const Tensor work = workspace(length, a0);
  return work && for_each_matrix(a.count, "cusolverDn<t>getrf", [&](int i) {
           return f.getrf(use.handle(), n, n, a[i], a.ld, work.data<T>(),
                          pivots.data<int>() + int64_t(i) * n, info.data<int>() + i);
         });
}

template <typename T>
bool lu_solve(const Tensor& lu0, const Tensor& pivots, bool transposed, Tensor& b0) {
  if (b0.numel() == 0) return true;
  if (!is_countable(lu0) || !is_countable(b0)) return false;
  const Use use(b0);
  if (!use) return false;
  const Matrices<T> lu(lu0), b(b0);
  const int n = lu.rows;
  const auto operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const Routines<T>& f = routines<T>();
  if (b.count > 1 && n <= kSmall) {
    const Tensor from = addresses_of(lu0), to = addresses_of(b0);
    int wrong_argument = 0;  // on the host, and set before the call returns
    with_cublas(b0.device(), [&](cublasHandle_t blas) {
      check(f.getrsBatched(blas, operation, n, b.columns, pointers<T>(from), lu.ld,
                           pivots.data<int>(), pointers<T>(to), b.ld, &wrong_argument, b.count),
            "cublas<t>getrsBatched");
    });
    return true;
  }
  const Tensor ignored = Tensor::empty({1}, i32, b0.device());  // tells of wrong arguments only
  return for_each_matrix(b.count, "cusolverDn<t>getrs", [&](int i) {
    return f.getrs(use.handle(), operation, n, b.columns, lu[i], lu.ld,
                   pivots.data<int>() + int64_t(i) * n, b[i], b.ld, ignored.data<int>());
  });
}

template <typename T>
bool cholesky(Tensor& a0, Tensor& info) {
  if (a0.numel() == 0) return true;
  if (!is_countable(a0)) return false;
  const Use use(a0);
  if (!use) return false;
  const Matrices<T> a(a0);
  const int n = a.rows;
  constexpr auto kLower = CUBLAS_FILL_MODE_LOWER;
  const Routines<T>& f = routines<T>();
  if (a.count > 1 && n <= kSmall) {
    const Tensor addresses = addresses_of(a0);
    if (!is_accepted(f.potrfBatched(use.handle(), kLower, n, pointers<T>(addresses), a.ld,
                                    info.data<int>(), a.count),
                     "cusolverDn<t>potrfBatched"))
      return false;
  } else {
    int length = 0;
    if (!is_sized(f.potrf_bufferSize(use.handle(), kLower, n, a.data, a.ld, &length),
                  "cusolverDn<t>potrf_bufferSize"))
      return false;
    const Tensor work = workspace(length, a0);
    if (!work || !for_each_matrix(a.count, "cusolverDn<t>potrf", [&](int i) {
          return f.potrf(use.handle(), kLower, n, a[i], a.ld, work.data<T>(), length,
                         info.data<int>() + i);
        }))
      return false;
  }
  finish_cholesky(a0, info);
  return true;
}

#define INSTANTIATE(T)                                                    \
  template bool lu_factor<T>(Tensor&, Tensor&, Tensor&);                  \
  template bool lu_solve<T>(const Tensor&, const Tensor&, bool, Tensor&); \
  template bool cholesky<T>(Tensor&, Tensor&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tapegrad::backends::cuda::cusolver
