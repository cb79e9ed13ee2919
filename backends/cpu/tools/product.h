// Matrix products in registers, for float and double.
#pragma once

#include "backends/cpu/tools/gemm.h"

namespace tapegrad::backends::cpu {

/// Effect of a product on its result: c = a b, c += a b or c -= a b.
enum class Update { kStore, kAdd, kSubtract };

/// Updates c by a b; m, n and k are positive. Operands may have any strides,
/// and sixteen-bit floats are widened, since both operands are packed. Each element is summed in an
/// order that depends on m, n and k only, not on the number of threads. Allocates workspace.
template <typename T, typename From>
void multiply_blocks(int64_t m, int64_t n, int64_t k, Matrix<From> a, Matrix<From> b, T* c,
                     int64_t ldc, Update update);

/// Returns whether multiply_in_cache() accepts a product: b fits into the first-level cache.
template <typename T>
bool fits_into_cache(int64_t m, int64_t n, int64_t k);
/// Updates c as multiply_blocks() does, to the bit, by the calling thread and without workspace.
/// The product must be one that fits_into_cache() accepts.
template <typename T>
void multiply_in_cache(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc,
                       Update update);

}  // namespace tapegrad::backends::cpu
