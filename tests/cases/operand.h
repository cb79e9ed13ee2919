// Inputs of op cases: their values, and copies in every memory layout.
#pragma once

#include <string>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {

/// Returns the values of an input, rounded to the dtype; equal seeds give equal values. Bool and
/// index inputs have their own dtype.
Tensor make_operand(const Input& input, DType dtype, uint64_t seed);

/// Converts to doubles for the reference. An empty tensor gives an Array without values.
Array to_array(const Tensor& x);

enum class Arrangement {
  kTransposed,     // the last two dimensions are exchanged in memory
  kStepTwo,        // every second element along the last dimension
  kOffset,         // the inside of a tensor that is larger in every dimension
  kReversed,       // all dimensions in reverse order
  kExpandedFirst,  // stride 0 along the first dimension
  kExpandedLast,   // stride 0 along the last dimension
};
inline constexpr Arrangement kArrangements[] = {
    Arrangement::kTransposed, Arrangement::kStepTwo,       Arrangement::kOffset,
    Arrangement::kReversed,   Arrangement::kExpandedFirst, Arrangement::kExpandedLast};
std::string name(Arrangement arrangement);
inline bool is_expanded(Arrangement arrangement) {
  return arrangement >= Arrangement::kExpandedFirst;
}

/// Copies x into the arrangement, surrounded by NaN (or the largest integer). An expanded
/// arrangement repeats x's first entry along its dimension. Returns an empty tensor if x has too
/// few dimensions.
Tensor arrange(const Tensor& x, Arrangement arrangement);

/// Moves x to the device and keeps its layout; Tensor::to would make it contiguous.
Tensor move_to(Device device, const Tensor& x);

/// Returns whether shape, dtype and bits are equal. Any two NaN are equal.
bool same_bits(const Tensor& a, const Tensor& b);

/// Distance from 1 to the next number of a float type; 0 for integers and bool.
double epsilon(DType dtype);

/// Returns the largest finite magnitude; 0 if there is none.
double largest_magnitude(const Array& x);

/// Returns "" if all elements of `got` are within tolerance * scale of `expected`, otherwise
/// describes the first that is not. The default scale is max|expected|. NaN equals NaN, and
/// infinities of the same sign are equal.
std::string mismatch(const Array& got, const Array& expected, double tolerance);
std::string mismatch(const Array& got, const Array& expected, double tolerance, double scale);

}  // namespace tapegrad::testing
