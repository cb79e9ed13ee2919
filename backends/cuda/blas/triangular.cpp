#include "backends/cuda/blas/triangular.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cuda/blas/blas.h"
#include "backends/cuda/device/matrices.h"
#include "backends/cuda/runtime/library.h"

namespace tapegrad::backends::cuda {
namespace {

template <typename T>
struct Routines;
#define TG_ROUTINES(T, type)                                                                    \
  template <>                                                                                   \
  struct Routines<T> {                                                                          \
    const Found<decltype(cublas##type##trsm_v2)> one{find_in_cublas("cublas" #type "trsm_v2")}; \
    const Found<decltype(cublas##type##trsmBatched)> batch{                                     \
        find_in_cublas("cublas" #type "trsmBatched")};                                          \
  };
TG_ROUTINES(float, S)
TG_ROUTINES(double, D)
#undef TG_ROUTINES

/// Triangles up to this size are solved by one call for the batch, larger triangles by a call each.
/// Not measured.
constexpr int64_t kSmall = 128;

}  // namespace

template <typename T>
bool solve_triangle(const Tensor& a, kernels::Triangle triangle, Tensor& b) {
  if (b.numel() == 0) return true;
  const int64_t count = b.shape()[0], n = b.shape()[2], columns = b.shape()[1];
  if (std::max({count, n, columns}) > std::numeric_limits<int>::max()) return false;
  static const Routines<T> f;
  const auto form = triangle.upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const auto operation = triangle.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const auto diagonal = triangle.unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  const int rows = int(n), width = int(columns);
  const T one = 1;
  const bool is_batch = count > 1 && n <= kSmall;
  Tensor from, to;
  if (is_batch) from = addresses_of(a), to = addresses_of(b);
  with_cublas(b.device(), [&](cublasHandle_t blas) {
    if (is_batch)
      return check(f.batch(blas, CUBLAS_SIDE_LEFT, form, operation, diagonal, rows, width, &one,
                           pointers<T>(from), rows, pointers<T>(to), rows, int(count)),
                   "cublas<t>trsmBatched");
    for (int64_t i = 0; i < count; ++i)
      check(f.one(blas, CUBLAS_SIDE_LEFT, form, operation, diagonal, rows, width, &one,
                  a.data<T>() + i * n * n, rows, b.data<T>() + i * n * columns, rows),
            "cublas<t>trsm");
  });
  return true;
}

template bool solve_triangle<float>(const Tensor&, kernels::Triangle, Tensor&);
template bool solve_triangle<double>(const Tensor&, kernels::Triangle, Tensor&);

}  // namespace tapegrad::backends::cuda
