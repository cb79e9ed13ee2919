// Sketch of a tensor: a few numbers by which two computations of a result can be compared without
// keeping the result. RunLedger (train/run_ledger.h) is made of sketches.
#pragma once

#include <cstdint>

#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// What is kept of a result. The sums are those of all elements, each with a sign: pairs of
/// elements have equal signs half of the time (ops/internal/sketch_signs.h). The expected square of
/// the difference of a sum between two results is therefore the square of the norm of their
/// difference.
struct ResultSketch {
  uint64_t hash = 0;        // of dtype, shape and bits
  double sums[2] = {0, 0};  // in float64
  double norm = 0;          // square root of the sum of squares

  bool operator==(const ResultSketch&) const = default;
};

/// Returns the sketch of the elements in row-major order, computed on the CPU. Waits for the
/// device.
ResultSketch sketch_of(const Tensor& x);

namespace kernels {

/// Computes the sketch of a contiguous tensor, whose hash is that of the bits alone.
extern Kernel<void(const Tensor& x, ResultSketch& sketch)> sketch;

}  // namespace kernels
}  // namespace tapegrad
