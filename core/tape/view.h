// The few linear, differentiable ops that core needs: to sum gradients, to propagate writes through
// views to their base, to cast and to copy between devices. Views for users are in ops/view.h.
#pragma once

#include <optional>

#include "core/tape/variable.h"

namespace tapegrad {

/// Returns a contiguous copy.
Variable clone(const Variable& x, Where where = Where::current());

/// Converts to another dtype. No gradient passes through an integer or bool dtype.
Variable cast(const Variable& x, DType dtype, Where where = Where::current());

/// Copies to another device.
Variable move(const Variable& x, Device device, Where where = Where::current());

/// Returns a + b for equal shapes.
Variable add_gradients(const Variable& a, const Variable& b, Where where = Where::current());

/// Views a contiguous x through a layout.
Variable strided(const Variable& x, const StridedLayout& layout, Where where = Where::current());

/// Returns zeros of the given shape with x added at the layout: the adjoint of strided().
Variable embed(const Variable& x, const Shape& shape, const StridedLayout& layout,
               Where where = Where::current());

/// Returns the sum of the gradients that have arrived at an input of the running rule, or zeros, as
/// a contiguous tensor of the input's shape. The rule may add the gradient of this input to the
/// tensor instead of returning the gradient, so that several gradients that are zero in most places
/// take one tensor of the input's size. Returns an empty tensor if the rule must return the
/// gradient, because the pass is recorded or observed.
Tensor gradient_sum(size_t input);

/// Adds the gradient to a part of the input's gradient and returns an empty variable, or returns
/// embed() if this is not possible. For the rule of an op of one input whose result is a part of
/// the input in which no element occurs twice.
Variable send_part(const Variable& dy, const Shape& shape, const StridedLayout& part);

/// Returns the shape of the expanded value if input 0 of the running rule is the result of expand()
/// and nothing else refers to this result. The rule may then sum the gradient of the expanded value
/// itself and send it by send_unexpanded(), so that no gradient of the result's size is made.
/// Otherwise returns nullopt, and send_unexpanded() throws AutogradError.
std::optional<Shape> unexpanded_shape();
void send_unexpanded(Variable&& gradient);

/// Returns the layout of a view relative to a contiguous base with offset 0.
StridedLayout relative_layout(const Variable& view, const Variable& base);

/// Records a strided view of base and returns its edge.
TapeEdge record_view(const Variable& base, const StridedLayout& layout);

/// Records that `written` replaced the part of base at the layout; returns the new edge of base.
TapeEdge record_view_write(const Variable& base, const StridedLayout& layout, TapeEdge written,
                           Where where);

}  // namespace tapegrad
