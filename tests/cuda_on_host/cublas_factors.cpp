// The factorizations and triangular solves of cuBLAS: the toolkit's prototypes, which check and
// record their arguments. The kernels of the CPU compute the results from the recorded arguments.
#include <cublas_v2.h>

#include <cstring>

#include "cublas_parts.h"
#include "factors.h"
#include "ops/linalg.h"

using namespace coh;
namespace kernels = tapegrad::kernels;

namespace {

cublasStatus_t submit(cublasHandle_t handle, std::function<void()> work) {
  return enqueue(stream_of(handle), std::move(work)) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool is_matrix(int rows, int columns, int ld) {
  return rows >= 0 && columns >= 0 && ld >= std::max(1, rows);
}
const char* name_of(cublasOperation_t operation) { return operation == CUBLAS_OP_T ? "T" : "N"; }

template <typename T>
struct Factors {
  static auto at(auto& kernel) { return kernel.at(DeviceType::kCpu, kDTypeOf<T>); }

  static cublasStatus_t getrf(cublasHandle_t handle, int n, T* const a[], int ld, int* pivots,
                              int* info, int count) {
    if (!is_matrix(n, n, ld)) return CUBLAS_STATUS_INVALID_VALUE;
    require_device(a, pivots, info);
    note_library_call(joined("getrfBatched(n ", n, ", ld ", ld, ", batch ", count, ")"));
    return submit(handle, [=] {
      for (int i = 0; i < count; ++i) {
        Matrix<T> x(a[i], n, n, ld);
        Tensor rows = vector_of(pivots + std::int64_t(i) * n, n, tapegrad::i32);
        Tensor status = info_of(info + i);
        at(kernels::lu_factor)(x.tensor, rows, status);
        x.store(a[i]);
      }
    });
  }
  static cublasStatus_t getrs(cublasHandle_t handle, cublasOperation_t operation, int n,
                              int columns, const T* const a[], int lda, const int* pivots,
                              T* const b[], int ldb, int* info, int count) {
    if (operation == CUBLAS_OP_C || !is_matrix(n, n, lda) || !is_matrix(n, columns, ldb))
      return CUBLAS_STATUS_INVALID_VALUE;
    require_device(a, pivots, b);
    if (device_of(info) >= 0) fail("getrsBatched: info is not on the host");
    *info = 0;
    note_library_call(joined("getrsBatched(", name_of(operation), ", n ", n, ", columns ", columns,
                             ", ld ", lda, " ", ldb, ", batch ", count, ")"));
    return submit(handle, [=] {
      for (int i = 0; i < count; ++i) {
        const Matrix<T> lu(a[i], n, n, lda);
        Matrix<T> x(b[i], n, columns, ldb);
        at(kernels::lu_solve)(
            lu.tensor, vector_of(const_cast<int*>(pivots) + std::int64_t(i) * n, n, tapegrad::i32),
            operation == CUBLAS_OP_T, x.tensor);
        x.store(b[i]);
      }
    });
  }
  static cublasStatus_t geqrf(cublasHandle_t handle, int m, int n, T* const a[], int ld,
                              T* const scales[], int* info, int count) {
    if (!is_matrix(m, n, ld)) return CUBLAS_STATUS_INVALID_VALUE;
    require_device(a, scales);
    if (device_of(info) >= 0) fail("geqrfBatched: info is not on the host");
    *info = 0;
    note_library_call(joined("geqrfBatched(", m, " x ", n, ", ld ", ld, ", batch ", count, ")"));
    return submit(handle, [=] {
      for (int i = 0; i < count; ++i) {
        Matrix<T> x(a[i], m, n, ld);
        Tensor factors = vector_of(scales[i], std::min(m, n), kDTypeOf<T>);
        at(kernels::qr_factor)(x.tensor, factors);
        x.store(a[i]);
      }
    });
  }

  static void solve(kernels::Triangle triangle, int n, int columns, const T* a, int lda, T* b,
                    int ldb) {
    const Matrix<T> t(a, n, n, lda);
    Matrix<T> x(b, n, columns, ldb);
    at(kernels::triangular_solve)(t.tensor, triangle, x.tensor);
    x.store(b);
  }
  static cublasStatus_t trsm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t part,
                             cublasOperation_t operation, cublasDiagType_t diagonal, int n,
                             int columns, const T* alpha, const T* a, const T* const all_a[],
                             int lda, T* b, T* const all_b[], int ldb, int count) {
    if (side != CUBLAS_SIDE_LEFT || *alpha != 1 || !is_matrix(n, n, lda) ||
        !is_matrix(n, columns, ldb))
      return CUBLAS_STATUS_INVALID_VALUE;
    require_device(a, all_a, b, all_b);
    const kernels::Triangle triangle{.upper = part == CUBLAS_FILL_MODE_UPPER,
                                     .transposed = operation != CUBLAS_OP_N,
                                     .unit = diagonal == CUBLAS_DIAG_UNIT};
    note_library_call(joined(all_a != nullptr ? "trsmBatched(" : "trsm(",
                             triangle.upper ? "upper, " : "lower, ", name_of(operation),
                             triangle.unit ? ", unit, n " : ", n ", n, ", columns ", columns,
                             ", ld ", lda, " ", ldb, all_a != nullptr ? ", batch " : "",
                             all_a != nullptr ? std::to_string(count) : "", ")"));
    return submit(handle, [=] {
      for (int i = 0; i < count; ++i)
        solve(triangle, n, columns, all_a != nullptr ? all_a[i] : a, lda,
              all_b != nullptr ? all_b[i] : b, ldb);
    });
  }
};

}  // namespace

extern "C" {

#define ROUTINES(T, S)                                                                             \
  cublasStatus_t cublas##S##getrfBatched(cublasHandle_t h, int n, T* const a[], int ld,            \
                                         int* pivots, int* info, int count) {                      \
    return Factors<T>::getrf(h, n, a, ld, pivots, info, count);                                    \
  }                                                                                                \
  cublasStatus_t cublas##S##getrsBatched(                                                          \
      cublasHandle_t h, cublasOperation_t operation, int n, int columns, const T* const a[],       \
      int lda, const int* pivots, T* const b[], int ldb, int* info, int count) {                   \
    return Factors<T>::getrs(h, operation, n, columns, a, lda, pivots, b, ldb, info, count);       \
  }                                                                                                \
  cublasStatus_t cublas##S##geqrfBatched(cublasHandle_t h, int m, int n, T* const a[], int ld,     \
                                         T* const scales[], int* info, int count) {                \
    return Factors<T>::geqrf(h, m, n, a, ld, scales, info, count);                                 \
  }                                                                                                \
  cublasStatus_t cublas##S##trsm_v2(cublasHandle_t h, cublasSideMode_t side,                       \
                                    cublasFillMode_t part, cublasOperation_t operation,            \
                                    cublasDiagType_t diagonal, int m, int n, const T* alpha,       \
                                    const T* a, int lda, T* b, int ldb) {                          \
    return Factors<T>::trsm(h, side, part, operation, diagonal, m, n, alpha, a, nullptr, lda, b,   \
                            nullptr, ldb, 1);                                                      \
  }                                                                                                \
  cublasStatus_t cublas##S##trsmBatched(                                                           \
      cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t part, cublasOperation_t operation, \
      cublasDiagType_t diagonal, int m, int n, const T* alpha, const T* const a[], int lda,        \
      T* const b[], int ldb, int count) {                                                          \
    return Factors<T>::trsm(h, side, part, operation, diagonal, m, n, alpha, nullptr, a, lda,      \
                            nullptr, b, ldb, count);                                               \
  }
ROUTINES(float, S)
ROUTINES(double, D)
#undef ROUTINES

}  // extern "C"

#define TG_FUNCTION(name) \
  if (std::strcmp(function, #name) == 0) return reinterpret_cast<void*>(&name)
#define TG_FUNCTIONS(name)    \
  TG_FUNCTION(cublasS##name); \
  TG_FUNCTION(cublasD##name)

void* coh::find_factorization(const char* function) {
  TG_FUNCTIONS(getrfBatched);
  TG_FUNCTIONS(getrsBatched);
  TG_FUNCTIONS(geqrfBatched);
  TG_FUNCTIONS(trsm_v2);
  TG_FUNCTIONS(trsmBatched);
  return nullptr;
}
