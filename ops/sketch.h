// Sketch of a tensor: a few numbers by which two computations of a result can be compared without
// keeping the result. A RunLedger (train/run_ledger.h) stores sketches.
#pragma once

#include <cstdint>

#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// Numbers that are kept of a result. Each sum adds all elements, each with a sign; any two
/// elements have equal signs half of the time (ops/internal/sketch_signs.h). The expected square of
/// the difference of a sum between two results is therefore the squared norm of their difference.
///
/// The sums of float32, float16 and bfloat16 begin with 32 additions in float32. A change below the
/// rounding of a sum shows in `words` and `products`: if one element changes by n units in the last
/// place, `words` changes by n and `products` by n times a number with the exponent of the element,
/// or both by the negated amounts. A sum in float32 overflows to infinity near 3e38.
struct ResultSketch {
  uint64_t hash = 0;        // of dtype, shape and bits; differs if one word of 32 bits differs
  double sums[2] = {0, 0};  // in float64
  double norm = 0;          // of the sums of the rows of each tile; estimates that of all elements
  int32_t words = 0;        // sum of the bits as words of 32 bits with signs, modulo 2^32
  /// Sum of the products of the halves of these words, with signs, modulo 2^32.
  int32_t products = 0;

  bool operator==(const ResultSketch&) const = default;
};

/// Returns the sketch of the elements in row-major order, computed on the CPU. Waits for the
/// device.
ResultSketch sketch_of(const Tensor& x);

namespace kernels {

/// Computes the sketch of a tensor. The hash covers only the bits.
extern Kernel<void(const Tensor& x, ResultSketch& sketch)> sketch;

}  // namespace kernels
}  // namespace tapegrad
