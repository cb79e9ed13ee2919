// Sketch of a tensor: a few numbers by which two computations of a result can be compared without
// keeping the result. A RunLedger (train/run_ledger.h) stores sketches.
#pragma once

#include <cstdint>

#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// Numbers that are kept of a result. Each sum adds all elements, each with a sign; any two
/// elements have equal signs half of the time (ops/internal/sketch_signs.h). The expected square of
/// the difference of a sum between two results is therefore the squared norm of their difference.
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

/// Computes the sketch of a contiguous tensor. The hash covers only the bits.
extern Kernel<void(const Tensor& x, ResultSketch& sketch)> sketch;

}  // namespace kernels
}  // namespace tapegrad
