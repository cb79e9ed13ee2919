// The cuSOLVER calls of the backend: the toolkit's prototypes, which check and record their
// arguments. The kernels of the CPU compute the results from the recorded arguments. Values that
// cuSOLVER leaves undefined are overwritten: workspaces and the other triangle of a factor are
// overwritten, and a matrix that is not finite gets no error.
#include <cusolverDn.h>

#include <cstring>

#include "backends/cuda/runtime/library.h"
#include "factors.h"
#include "ops/linalg.h"

using namespace coh;
namespace kernels = tapegrad::kernels;

namespace {

struct Handle {
  cudaStream_t stream = nullptr;
};
cudaStream_t stream_of(cusolverDnHandle_t handle) {
  return reinterpret_cast<Handle*>(handle)->stream;
}

cusolverStatus_t submit(cusolverDnHandle_t handle, std::function<void()> work) {
  if (is_capturing()) fail("cuSOLVER is called while a graph is captured");
  return enqueue(stream_of(handle), std::move(work)) == cudaSuccess
             ? CUSOLVER_STATUS_SUCCESS
             : CUSOLVER_STATUS_EXECUTION_FAILED;
}

cusolverStatus_t sized(bool is_valid, int size, int* length) {
  if (do_libraries_refuse()) return CUSOLVER_STATUS_NOT_SUPPORTED;
  if (!is_valid) return CUSOLVER_STATUS_INVALID_VALUE;
  *length = size;
  return CUSOLVER_STATUS_SUCCESS;
}

bool is_matrix(int rows, int columns, int ld) {
  return rows >= 0 && columns >= 0 && ld >= std::max(1, rows);
}

// Lengths of workspaces, in elements.
int potrf_length(int n) { return 3 * n + 7; }
int getrf_length(int n) { return 2 * n + 5; }
int geqrf_length(int m, int n) { return 4 * n + m; }
int orgqr_length(int m, int k) { return 3 * k + m; }
int gesvd_length(int m, int n) { return 5 * n + m + 1; }
int gesvdj_length(int m, int n, int batch) { return (m + n) * batch; }
int syevd_length(int n) { return n * n + 11; }
int syevj_length(int n, int batch) { return n * batch + 3; }

const char* name_of(cusolverEigMode_t job) {
  return job == CUSOLVER_EIG_MODE_VECTOR ? "vectors" : "values";
}

template <typename T>
struct Solver {
  static auto at(auto& kernel) { return kernel.at(DeviceType::kCpu, kDTypeOf<T>); }
  static void spoil(T* work, int length) { poison(work, std::size_t(length) * sizeof(T)); }

  static void cholesky(T* a, int n, int ld, int* info) {
    Matrix<T> m(a, n, n, ld);
    Tensor status = info_of(info);
    at(kernels::cholesky)(m.tensor, status);
    m.store_lower(a);
    for (int j = 0; j < n; ++j) {
      poison(a + std::int64_t(j) * ld, std::size_t(j) * sizeof(T));
      if (std::isnan(a[j + std::int64_t(j) * ld])) *info = 0;
    }
  }
  static cusolverStatus_t potrf(cusolverDnHandle_t handle, cublasFillMode_t part, int n, T* a,
                                int ld, T* work, int length, int* info) {
    if (part != CUBLAS_FILL_MODE_LOWER || !is_matrix(n, n, ld) || length < potrf_length(n))
      return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, work, info);
    note_library_call(joined("potrf(lower, n ", n, ", ld ", ld, ")"));
    return submit(handle, [=] {
      spoil(work, length);
      cholesky(a, n, ld, info);
    });
  }
  static cusolverStatus_t potrf_batched(cusolverDnHandle_t handle, cublasFillMode_t part, int n,
                                        T* a[], int ld, int* info, int count) {
    if (part != CUBLAS_FILL_MODE_LOWER || !is_matrix(n, n, ld) || count < 0)
      return CUSOLVER_STATUS_INVALID_VALUE;
    if (do_libraries_refuse()) return CUSOLVER_STATUS_NOT_SUPPORTED;
    require_device(a, info);
    note_library_call(joined("potrfBatched(lower, n ", n, ", ld ", ld, ", batch ", count, ")"));
    return submit(handle, [=] {
      for (int i = 0; i < count; ++i) cholesky(a[i], n, ld, info + i);
    });
  }

  static cusolverStatus_t getrf(cusolverDnHandle_t handle, int m, int n, T* a, int ld, T* work,
                                int* pivots, int* info) {
    if (m != n || !is_matrix(m, n, ld)) return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, work, pivots, info);
    note_library_call(joined("getrf(n ", n, ", ld ", ld, ")"));
    return submit(handle, [=] {
      spoil(work, getrf_length(n));
      Matrix<T> x(a, n, n, ld);
      Tensor rows = vector_of(pivots, n, tapegrad::i32), status = info_of(info);
      at(kernels::lu_factor)(x.tensor, rows, status);
      x.store(a);
    });
  }
  static cusolverStatus_t getrs(cusolverDnHandle_t handle, cublasOperation_t operation, int n,
                                int columns, const T* a, int lda, const int* pivots, T* b, int ldb,
                                int* info) {
    if (operation == CUBLAS_OP_C || !is_matrix(n, n, lda) || !is_matrix(n, columns, ldb))
      return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, pivots, b, info);
    if (do_libraries_refuse()) return CUSOLVER_STATUS_NOT_SUPPORTED;
    note_library_call(joined("getrs(", operation == CUBLAS_OP_T ? "T" : "N", ", n ", n,
                             ", columns ", columns, ", ld ", lda, " ", ldb, ")"));
    return submit(handle, [=] {
      const Matrix<T> lu(a, n, n, lda);
      Matrix<T> x(b, n, columns, ldb);
      at(kernels::lu_solve)(lu.tensor, vector_of(const_cast<int*>(pivots), n, tapegrad::i32),
                            operation == CUBLAS_OP_T, x.tensor);
      x.store(b);
      *info = 0;
    });
  }

  static cusolverStatus_t geqrf(cusolverDnHandle_t handle, int m, int n, T* a, int ld, T* scales,
                                T* work, int length, int* info) {
    if (!is_matrix(m, n, ld) || length < geqrf_length(m, n)) return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, scales, work, info);
    note_library_call(joined("geqrf(", m, " x ", n, ", ld ", ld, ")"));
    return submit(handle, [=] {
      spoil(work, length);
      Matrix<T> x(a, m, n, ld);
      Tensor factors = vector_of(scales, std::min(m, n), kDTypeOf<T>);
      at(kernels::qr_factor)(x.tensor, factors);
      x.store(a);
      *info = 0;
    });
  }
  static cusolverStatus_t orgqr(cusolverDnHandle_t handle, int m, int n, int k, T* a, int ld,
                                const T* scales, T* work, int length, int* info) {
    if (!is_matrix(m, n, ld) || n > m || k > n || k < 1 || length < orgqr_length(m, k))
      return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, scales, work, info);
    note_library_call(joined("orgqr(", m, " x ", n, ", k ", k, ", ld ", ld, ")"));
    return submit(handle, [=] {
      spoil(work, length);
      Matrix<T> x(a, m, n, ld);
      at(kernels::qr_form)(x.tensor, vector_of(const_cast<T*>(scales), k, kDTypeOf<T>));
      x.store(a);
      *info = 0;
    });
  }

  /// Computes all columns of u and all of v^T's rows, or the first ones.
  static void svd(T* a, int m, int n, int ld, T* s, T* u, int ldu, T* vh, int ldvh, bool all,
                  int* info) {
    const int k = std::min(m, n), width = all ? m : k, height = all ? n : k;
    Matrix<T> x(a, m, n, ld), left(nullptr, m, width, ldu), right(nullptr, height, n, ldvh);
    Tensor values = vector_of(s, k, kDTypeOf<T>), status = info_of(info), none;
    const bool is_wanted = u != nullptr;
    at(kernels::svd)(x.tensor, is_wanted ? left.tensor : none, values,
                     is_wanted ? right.tensor : none, status);
    if (*info != 0) fail("cuSOLVER got a matrix that is not finite");
    x.store(a);  // destroyed
    left.store(u);
    right.store(vh);
  }
  static cusolverStatus_t gesvd(cusolverDnHandle_t handle, signed char job_u, signed char job_vh,
                                int m, int n, T* a, int lda, T* s, T* u, int ldu, T* vh, int ldvh,
                                T* work, int length, T* rest, int* info) {
    if (m < n || job_u != job_vh || std::strchr("ASN", job_u) == nullptr || !is_matrix(m, n, lda) ||
        ldu < m || ldvh < n || length < gesvd_length(m, n) || rest == nullptr ||
        (job_u == 'N') != (u == nullptr))
      return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, s, u, vh, work, rest, info);
    note_library_call(joined("gesvd(", std::string(1, char(job_u)), ", ", m, " x ", n, ", ld ", lda,
                             " ", ldu, " ", ldvh, ")"));
    return submit(handle, [=] {
      spoil(work, length);
      spoil(rest, n);
      svd(a, m, n, lda, s, u, ldu, vh, ldvh, job_u == 'A', info);
    });
  }
  static cusolverStatus_t gesvdj_batched(cusolverDnHandle_t handle, cusolverEigMode_t job, int m,
                                         int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv,
                                         T* work, int length, int* info, gesvdjInfo_t parameters,
                                         int count) {
    if (m > 32 || n > 32 || parameters == nullptr || !is_matrix(m, n, lda) || lda != m ||
        ldu != m || ldv != n || length < gesvdj_length(m, n, count) || u == nullptr || v == nullptr)
      return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, s, u, v, work, info);
    note_library_call(
        joined("gesvdjBatched(", name_of(job), ", ", m, " x ", n, ", batch ", count, ")"));
    return submit(handle, [=] {
      spoil(work, length);
      const int k = std::min(m, n);
      std::vector<T> vh(std::size_t(n) * std::size_t(n));
      const bool is_wanted = job == CUSOLVER_EIG_MODE_VECTOR;
      for (int i = 0; i < count; ++i) {
        svd(a + std::int64_t(i) * m * n, m, n, lda, s + std::int64_t(i) * k,
            is_wanted ? u + std::int64_t(i) * m * m : nullptr, m, is_wanted ? vh.data() : nullptr,
            n, /*all=*/true, info + i);
        for (int row = 0; row < n && is_wanted; ++row)
          for (int column = 0; column < n; ++column)
            v[(std::int64_t(i) * n + column) * n + row] = vh[std::size_t(row * n + column)];
      }
    });
  }

  static void eigh(bool vectors, int n, T* a, int ld, T* values, int* info) {
    Matrix<T> x(a, n, n, ld);
    Tensor found = vector_of(values, n, kDTypeOf<T>), status = info_of(info);
    at(kernels::eigh)(x.tensor, vectors, found, status);
    if (*info != 0) fail("cuSOLVER got a matrix that is not finite");
    if (vectors)
      x.store(a);
    else
      poison(a, std::size_t(n) * sizeof(T));  // destroyed
  }
  static cusolverStatus_t syevd(cusolverDnHandle_t handle, cusolverEigMode_t job,
                                cublasFillMode_t part, int n, T* a, int ld, T* values, T* work,
                                int length, int* info) {
    if (part != CUBLAS_FILL_MODE_LOWER || !is_matrix(n, n, ld) || length < syevd_length(n))
      return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, values, work, info);
    note_library_call(joined("syevd(", name_of(job), ", lower, n ", n, ", ld ", ld, ")"));
    return submit(handle, [=] {
      spoil(work, length);
      eigh(job == CUSOLVER_EIG_MODE_VECTOR, n, a, ld, values, info);
    });
  }
  static cusolverStatus_t syevj_batched(cusolverDnHandle_t handle, cusolverEigMode_t job,
                                        cublasFillMode_t part, int n, T* a, int ld, T* values,
                                        T* work, int length, int* info, syevjInfo_t parameters,
                                        int count) {
    if (part != CUBLAS_FILL_MODE_LOWER || parameters == nullptr || !is_matrix(n, n, ld) ||
        ld != n || length < syevj_length(n, count))
      return CUSOLVER_STATUS_INVALID_VALUE;
    require_device(a, values, work, info);
    note_library_call(
        joined("syevjBatched(", name_of(job), ", lower, n ", n, ", batch ", count, ")"));
    return submit(handle, [=] {
      spoil(work, length);
      for (int i = 0; i < count; ++i)
        eigh(job == CUSOLVER_EIG_MODE_VECTOR, n, a + std::int64_t(i) * n * n, ld,
             values + std::int64_t(i) * n, info + i);
    });
  }
};

}  // namespace

extern "C" {

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  *handle = reinterpret_cast<cusolverDnHandle_t>(new Handle);
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t* made) {
  *made = reinterpret_cast<gesvdjInfo_t>(new char);
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreateSyevjInfo(syevjInfo_t* made) {
  *made = reinterpret_cast<syevjInfo_t>(new char);
  return CUSOLVER_STATUS_SUCCESS;
}

#define ROUTINES(T, S)                                                                             \
  cusolverStatus_t cusolverDn##S##potrf_bufferSize(cusolverDnHandle_t, cublasFillMode_t, int n,    \
                                                   T*, int ld, int* length) {                      \
    return sized(is_matrix(n, n, ld), potrf_length(n), length);                                    \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##potrf(cusolverDnHandle_t h, cublasFillMode_t part, int n, T* a,  \
                                        int ld, T* work, int length, int* info) {                  \
    return Solver<T>::potrf(h, part, n, a, ld, work, length, info);                                \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##potrfBatched(cusolverDnHandle_t h, cublasFillMode_t part, int n, \
                                               T* a[], int ld, int* info, int count) {             \
    return Solver<T>::potrf_batched(h, part, n, a, ld, info, count);                               \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##getrf_bufferSize(cusolverDnHandle_t, int m, int n, T*, int ld,   \
                                                   int* length) {                                  \
    return sized(is_matrix(m, n, ld), getrf_length(n), length);                                    \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##getrf(cusolverDnHandle_t h, int m, int n, T* a, int ld, T* work, \
                                        int* pivots, int* info) {                                  \
    return Solver<T>::getrf(h, m, n, a, ld, work, pivots, info);                                   \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##getrs(cusolverDnHandle_t h, cublasOperation_t operation, int n,  \
                                        int columns, const T* a, int lda, const int* pivots, T* b, \
                                        int ldb, int* info) {                                      \
    return Solver<T>::getrs(h, operation, n, columns, a, lda, pivots, b, ldb, info);               \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##geqrf_bufferSize(cusolverDnHandle_t, int m, int n, T*, int ld,   \
                                                   int* length) {                                  \
    return sized(is_matrix(m, n, ld), geqrf_length(m, n), length);                                 \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##geqrf(cusolverDnHandle_t h, int m, int n, T* a, int ld,          \
                                        T* scales, T* work, int length, int* info) {               \
    return Solver<T>::geqrf(h, m, n, a, ld, scales, work, length, info);                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##orgqr_bufferSize(cusolverDnHandle_t, int m, int n, int k,        \
                                                   const T*, int ld, const T*, int* length) {      \
    return sized(is_matrix(m, n, ld), orgqr_length(m, k), length);                                 \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##orgqr(cusolverDnHandle_t h, int m, int n, int k, T* a, int ld,   \
                                        const T* scales, T* work, int length, int* info) {         \
    return Solver<T>::orgqr(h, m, n, k, a, ld, scales, work, length, info);                        \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##gesvd_bufferSize(cusolverDnHandle_t, int m, int n,               \
                                                   int* length) {                                  \
    return sized(m >= n, gesvd_length(m, n), length);                                              \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##gesvd(                                                           \
      cusolverDnHandle_t h, signed char u_job, signed char vh_job, int m, int n, T* a, int lda,    \
      T* s, T* u, int ldu, T* vh, int ldvh, T* work, int length, T* rest, int* info) {             \
    return Solver<T>::gesvd(h, u_job, vh_job, m, n, a, lda, s, u, ldu, vh, ldvh, work, length,     \
                            rest, info);                                                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##gesvdjBatched_bufferSize(                                        \
      cusolverDnHandle_t, cusolverEigMode_t, int m, int n, const T*, int lda, const T*, const T*,  \
      int, const T*, int, int* length, gesvdjInfo_t, int count) {                                  \
    return sized(is_matrix(m, n, lda), gesvdj_length(m, n, count), length);                        \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##gesvdjBatched(cusolverDnHandle_t h, cusolverEigMode_t job,       \
                                                int m, int n, T* a, int lda, T* s, T* u, int ldu,  \
                                                T* v, int ldv, T* work, int length, int* info,     \
                                                gesvdjInfo_t parameters, int count) {              \
    return Solver<T>::gesvdj_batched(h, job, m, n, a, lda, s, u, ldu, v, ldv, work, length, info,  \
                                     parameters, count);                                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##syevd_bufferSize(cusolverDnHandle_t, cusolverEigMode_t,          \
                                                   cublasFillMode_t, int n, const T*, int ld,      \
                                                   const T*, int* length) {                        \
    return sized(is_matrix(n, n, ld), syevd_length(n), length);                                    \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##syevd(cusolverDnHandle_t h, cusolverEigMode_t job,               \
                                        cublasFillMode_t part, int n, T* a, int ld, T* values,     \
                                        T* work, int length, int* info) {                          \
    return Solver<T>::syevd(h, job, part, n, a, ld, values, work, length, info);                   \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##syevjBatched_bufferSize(                                         \
      cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int n, const T*, int ld, const T*,  \
      int* length, syevjInfo_t, int count) {                                                       \
    return sized(is_matrix(n, n, ld), syevj_length(n, count), length);                             \
  }                                                                                                \
  cusolverStatus_t cusolverDn##S##syevjBatched(                                                    \
      cusolverDnHandle_t h, cusolverEigMode_t job, cublasFillMode_t part, int n, T* a, int ld,     \
      T* values, T* work, int length, int* info, syevjInfo_t parameters, int count) {              \
    return Solver<T>::syevj_batched(h, job, part, n, a, ld, values, work, length, info,            \
                                    parameters, count);                                            \
  }
ROUTINES(float, S)
ROUTINES(double, D)
#undef ROUTINES

}  // extern "C"

#define TG_FUNCTION(name) \
  if (std::strcmp(function, #name) == 0) return reinterpret_cast<void*>(&name)
#define TG_FUNCTIONS(name)        \
  TG_FUNCTION(cusolverDnS##name); \
  TG_FUNCTION(cusolverDnD##name)

void* tapegrad::backends::cuda::find_in_cusolver(const char* function) {
  TG_FUNCTION(cusolverDnCreate);
  TG_FUNCTION(cusolverDnSetStream);
  TG_FUNCTION(cusolverDnCreateGesvdjInfo);
  TG_FUNCTION(cusolverDnCreateSyevjInfo);
  TG_FUNCTIONS(potrf_bufferSize);
  TG_FUNCTIONS(potrf);
  TG_FUNCTIONS(potrfBatched);
  TG_FUNCTIONS(getrf_bufferSize);
  TG_FUNCTIONS(getrf);
  TG_FUNCTIONS(getrs);
  TG_FUNCTIONS(geqrf_bufferSize);
  TG_FUNCTIONS(geqrf);
  TG_FUNCTIONS(orgqr_bufferSize);
  TG_FUNCTIONS(orgqr);
  TG_FUNCTIONS(gesvd_bufferSize);
  TG_FUNCTIONS(gesvd);
  TG_FUNCTIONS(gesvdjBatched_bufferSize);
  TG_FUNCTIONS(gesvdjBatched);
  TG_FUNCTIONS(syevd_bufferSize);
  TG_FUNCTIONS(syevd);
  TG_FUNCTIONS(syevjBatched_bufferSize);
  TG_FUNCTIONS(syevjBatched);
  coh::fail("a function of cuSOLVER that cuda_on_host does not have");
}
