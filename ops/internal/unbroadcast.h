// Unbroadcast: member of ops whose operands broadcast. Sums gradients of the result down to the
// operands' shapes.
#pragma once

#include <array>
#include <memory>

#include "core/tape/recording.h"
#include "ops/reduce.h"

namespace tapegrad {
namespace detail {

/// Returns sum_to(a * b, shape) of floats, in one pass where the device has a kernel for it.
Tensor sum_of_products(const Tensor& a, const Tensor& b, const Shape& shape);

}  // namespace detail

/// Member of an op with N inputs. Allocates memory only if an operand has neither the shape of the
/// result nor rank 0.
template <size_t N>
class Unbroadcast {
 public:
  Unbroadcast() {}

  /// Records the operands' shapes in forward.
  template <std::same_as<Tensor>... Tensors>
  void remember(const Shape& result, const Tensors&... operands) {
    size_t i = 0;
    (remember_one(i++, operands.shape(), result), ...);
  }
  /// Returns whether the operand has another shape than the result.
  bool is_broadcast(size_t input) const { return how_[input] != kSame; }
  /// Returns the shape of a broadcast operand.
  Shape shape_of(size_t input) const {
    return how_[input] == kNumber ? Shape() : (*shapes_)[input];
  }
  Variable operator()(size_t input, const Variable& dx) const {
    if (!is_broadcast(input)) [[likely]]
      return dx;
    return sum_to(dx, shape_of(input));
  }
  Tensor operator()(size_t input, Tensor&& dx) const {
    if (!is_broadcast(input)) [[likely]]
      return std::move(dx);
    return (*this)(input, Variable(std::move(dx))).value();
  }

 private:
  enum How : uint8_t { kSame, kNumber, kShaped };

  void remember_one(size_t i, const Shape& shape, const Shape& result) {
    how_[i] = shape == result ? kSame : shape.rank() == 0 ? kNumber : kShaped;
    if (how_[i] != kShaped || !is_recording()) return;
    if (!shapes_) shapes_ = std::make_unique<std::array<Shape, N>>();
    (*shapes_)[i] = shape;
  }

  std::array<How, N> how_{};
  std::unique_ptr<std::array<Shape, N>> shapes_;
};

}  // namespace tapegrad
