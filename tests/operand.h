// The inputs of op cases: their values, and the same values in every memory layout.
#pragma once

#include <string>
#include <vector>

#include "tests/op_case.h"

namespace tapegrad::testing {

/// An input's values, as the dtype holds them; the same for the same seed. Bool and index inputs
/// have their own dtype.
Tensor make_operand(const Input& input, DType dtype, uint64_t seed);

/// What the reference takes: the values as doubles. An empty tensor gives an Array without values.
Array to_array(const Tensor& x);

enum class Arrangement {
  kTransposed,     // the last two dimensions exchanged in memory
  kStepTwo,        // every second element along the last dimension
  kOffset,         // the inside of something larger in every dimension
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

/// The values of x in this arrangement, NaN (or the largest integer) around them; an expanded one
/// repeats x's first entry along its dimension. Empty when x has too few dimensions for it.
Tensor arrange(const Tensor& x, Arrangement arrangement);

/// x on the device, in the same layout: Tensor::to makes it contiguous.
Tensor move_to(Device device, const Tensor& x);

/// The same shape, dtype and bits; any NaN equals any other.
bool same_bits(const Tensor& a, const Tensor& b);

/// The spacing of a float type's numbers at 1; 0 for integers and bool.
double epsilon(DType dtype);

/// The largest finite magnitude; 0 of nothing.
double largest(const Array& x);

/// "" when `got` is within tolerance * scale of expected everywhere; otherwise the first element
/// that is not. The scale is max|expected| unless it is given. NaN matches NaN, infinities match
/// themselves.
std::string mismatch(const Array& got, const Array& expected, double tolerance);
std::string mismatch(const Array& got, const Array& expected, double tolerance, double scale);

}  // namespace tapegrad::testing
