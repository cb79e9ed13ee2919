// cuSOLVER's functions, handles and error checks, and the batched factorizations of cuBLAS. Only
// for files that are compiled with cuSOLVER's header.
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <string_view>

#include "backends/cuda/blas/blas.h"
#include "backends/cuda/runtime/library.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda::cusolver {

/// The functions for matrices of T, with the prototypes of their headers.
template <typename T>
struct Routines;
#define TG_SOLVER(type, name)                            \
  const Found<decltype(::cusolverDn##type##name)> name { \
    find_in_cusolver("cusolverDn" #type #name)           \
  }
#define TG_BLAS(type, name) \
  const Found<decltype(::cublas##type##name)> name { find_in_cublas("cublas" #type #name) }
#define TG_ROUTINES(T, type)                   \
  template <>                                  \
  struct Routines<T> {                         \
    TG_SOLVER(type, potrf_bufferSize);         \
    TG_SOLVER(type, potrf);                    \
    TG_SOLVER(type, potrfBatched);             \
    TG_SOLVER(type, getrf_bufferSize);         \
    TG_SOLVER(type, getrf);                    \
    TG_SOLVER(type, getrs);                    \
    TG_SOLVER(type, geqrf_bufferSize);         \
    TG_SOLVER(type, geqrf);                    \
    TG_SOLVER(type, orgqr_bufferSize);         \
    TG_SOLVER(type, orgqr);                    \
    TG_SOLVER(type, gesvd_bufferSize);         \
    TG_SOLVER(type, gesvd);                    \
    TG_SOLVER(type, gesvdjBatched_bufferSize); \
    TG_SOLVER(type, gesvdjBatched);            \
    TG_SOLVER(type, syevd_bufferSize);         \
    TG_SOLVER(type, syevd);                    \
    TG_SOLVER(type, syevjBatched_bufferSize);  \
    TG_SOLVER(type, syevjBatched);             \
    TG_BLAS(type, getrfBatched);               \
    TG_BLAS(type, getrsBatched);               \
    TG_BLAS(type, geqrfBatched);               \
  };
TG_ROUTINES(float, S)
TG_ROUTINES(double, D)
#undef TG_ROUTINES
#undef TG_BLAS
#undef TG_SOLVER

/// Opens the libraries at its first call. Call it while a Use exists.
template <typename T>
const Routines<T>& routines() {
  static const Routines<T> opened;
  return opened;
}

/// Exclusive use of cuSOLVER on the device of a tensor, in this thread's current stream, for the
/// lifetime of the object. False if cuSOLVER is unavailable. Ends the recording of a graph, because
/// cuSOLVER does not document that its functions can be part of one.
class Use {
 public:
  explicit Use(const Tensor& where);
  explicit operator bool() const { return handle_ != nullptr; }
  cusolverDnHandle_t handle() const { return handle_; }
  gesvdjInfo_t of_svd() const { return of_svd_; }
  syevjInfo_t of_eigh() const { return of_eigh_; }

 private:
  std::unique_lock<std::mutex> lock_;
  cusolverDnHandle_t handle_ = nullptr;
  gesvdjInfo_t of_svd_ = nullptr;  // parameters of the batched Jacobi methods: cuSOLVER's defaults
  syevjInfo_t of_eigh_ = nullptr;
};

using cuda::check;  // of cuBLAS's calls
/// Throws CudaError unless the call succeeded.
void check(cusolverStatus_t status, std::string_view call);
/// Returns whether the call succeeded; false if cuSOLVER does not support the operands or has no
/// memory for them. Throws CudaError for any other error.
bool is_accepted(cusolverStatus_t status, std::string_view call);
/// is_accepted() for a query of the length of a workspace. If the length exceeds an int, the
/// libraries report an invalid argument.
bool is_sized(cusolverStatus_t status, std::string_view call);

/// A batch of matrices stored by columns, with sizes as the libraries take them.
template <typename T>
struct Matrices {
  T* data;
  int count, rows, columns;
  int ld;  // stride between columns; the libraries require at least 1

  explicit Matrices(const Tensor& x)
      : data(x.data<T>()),
        count(int(x.shape()[0])),
        rows(int(x.shape()[2])),
        columns(int(x.shape()[1])),
        ld(std::max(rows, 1)) {}
  T* operator[](int i) const { return data + int64_t(i) * rows * columns; }
};

/// Returns whether the sizes of a batch, and the elements of one matrix, can be counted by int.
inline bool is_countable(const Tensor& x) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  const int64_t rows = x.shape()[2], columns = x.shape()[1];
  return x.shape()[0] <= kMost && rows <= kMost && columns <= kMost &&
         (rows == 0 || columns <= kMost / rows);
}

/// Matrices up to this size are factorized by one call for the batch, larger matrices by a call
/// each. Not measured.
inline constexpr int kSmall = 128;
/// The batched Jacobi methods take matrices up to this size.
inline constexpr int kSmallOfJacobi = 32;

/// `length` elements of x's dtype; empty if there is no memory for them.
Tensor workspace(int length, const Tensor& x);

/// Calls f(i), which calls cuSOLVER, for each of `count` matrices. Returns false if the first call
/// is not accepted.
template <typename F>
bool for_each_matrix(int count, std::string_view call, const F& f) {
  for (int i = 0; i < count; ++i) {
    const cusolverStatus_t status = f(i);
    if (i == 0 && !is_accepted(status, call)) return false;
    check(status, call);
  }
  return true;
}

}  // namespace tapegrad::backends::cuda::cusolver
