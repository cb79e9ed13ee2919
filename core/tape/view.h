// The few differentiable, linear ops that core needs itself: to sum gradients, to let a write
// through a view reach its base, to convert and to move. The views that users call are in
// ops/view.h.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// A contiguous copy.
Variable clone(const Variable& x, Where where = Where::current());

/// The values as another dtype. Nothing flows back through an integer or bool.
Variable cast(const Variable& x, DType dtype, Where where = Where::current());

/// The values on another device.
Variable move(const Variable& x, Device device, Where where = Where::current());

/// a + b of equal shapes.
Variable add_gradients(const Variable& a, const Variable& b, Where where = Where::current());

/// A contiguous x seen through a layout of its elements.
Variable strided(const Variable& x, const Layout& layout, Where where = Where::current());

/// Zeros of the shape, with x added at the layout: the adjoint of taking that view.
Variable embed(const Variable& x, const Shape& shape, const Layout& layout,
               Where where = Where::current());

/// The view's layout as seen from a contiguous base that starts at 0.
Layout relative_layout(const Variable& view, const Variable& base);

/// History of base seen through the layout.
Edge record_view(const Variable& base, const Layout& layout);

/// History of base after `written` replaced what the layout shows of it.
Edge record_view_write(const Variable& base, const Layout& layout, Edge written, Where where);

}  // namespace tapegrad
