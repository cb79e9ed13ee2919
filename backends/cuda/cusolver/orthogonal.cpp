// QR factors, singular values and eigenvalues.
#include "backends/cuda/cusolver/factors.h"
#include "backends/cuda/cusolver/library.h"
#include "backends/cuda/device/matrices.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cuda::cusolver {
namespace {

/// Tensors in which the library computes u and vh of an SVD, in its order and sizes.
struct Factors {
  Tensor left, right;
};

/// Decomposes small matrices in one call, by Jacobi's method. The library computes all columns of
/// u, and of v instead of vh. The call fails without memory for u and v, even if they are not
/// wanted (aten/src/ATen/native/cuda/linalg of pytorch/pytorch).
template <typename T>
bool svd_of_small(const Use& use, Tensor& a0, Tensor& u, Tensor& s, Tensor& vh, Tensor& info) {
  const Matrices<T> a(a0);
  const int m = a.rows, n = a.columns;
  const bool is_wanted = bool(u);
  const auto job = is_wanted ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const Routines<T>& f = routines<T>();
  const Factors of{a0.empty_like({a.count, m, m}), a0.empty_like({a.count, n, n})};
  T *const left = of.left.data<T>(), *const right = of.right.data<T>();
  int length = 0;
  if (!is_sized(f.gesvdjBatched_bufferSize(use.handle(), job, m, n, a.data, a.ld, s.data<T>(), left,
                                           m, right, n, &length, use.of_svd(), a.count),
                "cusolverDn<t>gesvdjBatched_bufferSize"))
    return false;
  const Tensor work = workspace(length, a0);
  if (!work) return false;
  const Tensor verdicts = set_aside_non_finite(a0, /*lower=*/false);
  check(f.gesvdjBatched(use.handle(), job, m, n, a.data, a.ld, s.data<T>(), left, m, right, n,
                        work.data<T>(), length, info.data<int>(), use.of_svd(), a.count),
        "cusolverDn<t>gesvdjBatched");
  add_verdicts(verdicts, info);
  if (!is_wanted) return true;
  kernels::copy(first_columns(of.left, u.shape()[1]), u);
  kernels::copy(transposed(first_columns(of.right, vh.shape()[2])), vh);
  return true;
}

/// Any matrices, by the QR iteration, which requires at least as many rows as columns. A wide
/// matrix is transposed: A^T = V S U^T.
template <typename T>
bool svd_of_large(const Use& use, Tensor& a0, Tensor& u, Tensor& s, Tensor& vh, Tensor& info) {
  const bool is_wide = a0.shape()[2] < a0.shape()[1], is_wanted = bool(u);
  const Routines<T>& f = routines<T>();
  Tensor tall = is_wide ? transposed(a0).clone() : a0;
  Factors of{u, vh};
  if (is_wide && is_wanted)
    of = {vh.empty_like(transposed(vh).shape()), u.empty_like(transposed(u).shape())};
  const Matrices<T> a(tall);
  const int m = a.rows, n = a.columns;
  const signed char job = !is_wanted ? 'N' : of.left.shape()[1] == m ? 'A' : 'S';
  T *left = nullptr, *right = nullptr;
  int64_t left_size = 0, right_size = 0;
  if (is_wanted) {
    left = of.left.data<T>(), right = of.right.data<T>();
    left_size = of.left.shape()[1] * m, right_size = int64_t(n) * n;
  }
  int length = 0;
  if (!is_sized(f.gesvd_bufferSize(use.handle(), m, n, &length), "cusolverDn<t>gesvd_bufferSize"))
    return false;
  const Tensor work = workspace(length, tall), rest = workspace(n, tall);
  if (!work || !rest) return false;
  const Tensor verdicts = set_aside_non_finite(tall, /*lower=*/false);
  for (int i = 0; i < a.count; ++i)
    check(f.gesvd(use.handle(), job, job, m, n, a[i], a.ld, s.data<T>() + int64_t(i) * n,
                  left + i * left_size, m, right + i * right_size, n, work.data<T>(), length,
                  rest.data<T>(), info.data<int>() + i),
          "cusolverDn<t>gesvd");
  add_verdicts(verdicts, info);
  if (!is_wide || !is_wanted) return true;
  kernels::copy(transposed(of.right), u);
  kernels::copy(transposed(of.left), vh);
  return true;
}

}  // namespace

template <typename T>
bool qr_factor(Tensor& a0, Tensor& scales) {
  if (a0.numel() == 0) return true;
  if (!is_countable(a0)) return false;
  const Use use(a0);
  if (!use) return false;
  const Matrices<T> a(a0);
  const Routines<T>& f = routines<T>();
  if (a.count > 1 && std::max(a.rows, a.columns) <= kSmall) {
    const Tensor addresses = addresses_of(a0), of_scales = addresses_of(scales);
    int wrong_argument = 0;  // on the host, and set before the call returns
    with_cublas(a0.device(), [&](cublasHandle_t blas) {
      check(f.geqrfBatched(blas, a.rows, a.columns, pointers<T>(addresses), a.ld,
                           pointers<T>(of_scales), &wrong_argument, a.count),
            "cublas<t>geqrfBatched");
    });
    return true;
  }
  int length = 0;
  if (!is_sized(f.geqrf_bufferSize(use.handle(), a.rows, a.columns, a.data, a.ld, &length),
                "cusolverDn<t>geqrf_bufferSize"))
    return false;
  const Tensor work = workspace(length, a0);
  const Tensor ignored = Tensor::empty({1}, i32, a0.device());  // tells of wrong arguments only
  return work && for_each_matrix(a.count, "cusolverDn<t>geqrf", [&](int i) {
           return f.geqrf(use.handle(), a.rows, a.columns, a[i], a.ld,
                          scales.data<T>() + i * scales.shape()[1], work.data<T>(), length,
                          ignored.data<int>());
         });
}

template <typename T>
bool qr_form(Tensor& q0, const Tensor& scales) {
  if (q0.numel() == 0) return true;
  if (scales.numel() == 0) {  // no reflectors
    set_identity(q0);
    return true;
  }
  if (!is_countable(q0)) return false;
  const Use use(q0);
  if (!use) return false;
  const Matrices<T> q(q0);
  const int k = int(scales.shape()[1]);
  const Routines<T>& f = routines<T>();
  int length = 0;
  if (!is_sized(f.orgqr_bufferSize(use.handle(), q.rows, q.columns, k, q.data, q.ld,
                                   scales.data<T>(), &length),
                "cusolverDn<t>orgqr_bufferSize"))
    return false;
  const Tensor work = workspace(length, q0);
  const Tensor ignored = Tensor::empty({1}, i32, q0.device());  // tells of wrong arguments only
  return work && for_each_matrix(q.count, "cusolverDn<t>orgqr", [&](int i) {
           return f.orgqr(use.handle(), q.rows, q.columns, k, q[i], q.ld,
                          scales.data<T>() + int64_t(i) * k, work.data<T>(), length,
                          ignored.data<int>());
         });
}

template <typename T>
bool svd(Tensor& a, Tensor& u, Tensor& s, Tensor& vh, Tensor& info) {
  if (a.numel() == 0) {  // any orthogonal factors are right
    set_identity(u);
    set_identity(vh);
    return true;
  }
  for (const Tensor* x : {&a, &u, &vh})
    if (*x && !is_countable(*x)) return false;
  const Use use(a);
  if (!use) return false;
  const bool is_small = a.shape()[0] > 1 && std::max(a.shape()[1], a.shape()[2]) <= kSmallOfJacobi;
  return is_small ? svd_of_small<T>(use, a, u, s, vh, info)
                  : svd_of_large<T>(use, a, u, s, vh, info);
}

template <typename T>
bool eigh(Tensor& a0, bool vectors, Tensor& values, Tensor& info) {
  if (a0.numel() == 0) return true;
  if (!is_countable(a0)) return false;
  const Use use(a0);
  if (!use) return false;
  const Matrices<T> a(a0);
  const int n = a.rows;
  const auto job = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  constexpr auto kLower = CUBLAS_FILL_MODE_LOWER;
  const Routines<T>& f = routines<T>();
  const bool is_small = a.count > 1 && n <= kSmallOfJacobi;
  int length = 0;
  const cusolverStatus_t asked =
      is_small ? f.syevjBatched_bufferSize(use.handle(), job, kLower, n, a.data, a.ld,
                                           values.data<T>(), &length, use.of_eigh(), a.count)
               : f.syevd_bufferSize(use.handle(), job, kLower, n, a.data, a.ld, values.data<T>(),
                                    &length);
  if (!is_sized(asked, "the workspace of cusolverDn<t>syev")) return false;
  const Tensor work = workspace(length, a0);
  if (!work) return false;
  const Tensor verdicts = set_aside_non_finite(a0, /*lower=*/true);
  if (is_small) {
    check(f.syevjBatched(use.handle(), job, kLower, n, a.data, a.ld, values.data<T>(),
                         work.data<T>(), length, info.data<int>(), use.of_eigh(), a.count),
          "cusolverDn<t>syevjBatched");
  } else {
    for (int i = 0; i < a.count; ++i)
      check(f.syevd(use.handle(), job, kLower, n, a[i], a.ld, values.data<T>() + int64_t(i) * n,
                    work.data<T>(), length, info.data<int>() + i),
            "cusolverDn<t>syevd");
  }
  add_verdicts(verdicts, info);
  return true;
}

#define INSTANTIATE(T)                                               \
  template bool qr_factor<T>(Tensor&, Tensor&);                      \
  template bool qr_form<T>(Tensor&, const Tensor&);                  \
  template bool svd<T>(Tensor&, Tensor&, Tensor&, Tensor&, Tensor&); \
  template bool eigh<T>(Tensor&, bool, Tensor&, Tensor&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tapegrad::backends::cuda::cusolver
