#include "core/tape/view.h"

#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/backward.h"
#include "core/tape/op.h"

namespace tapegrad {
namespace {

struct Clone {
  static constexpr std::string_view kName = "clone";

  Tensor forward(const Tensor& x) { return x.clone(); }
  Variable backward(const Variable& dy) const { return dy; }
};

struct Cast {
  static constexpr std::string_view kName = "cast";
  DType to;
  DType from{};

  Tensor forward(const Tensor& x) {
    from = x.dtype();
    return x.to(to);
  }
  Variable backward(const Variable& dy) const { return cast(dy, from); }
};

struct Move {
  static constexpr std::string_view kName = "to";
  Device to;
  Device from{};

  Tensor forward(const Tensor& x) {
    from = x.device();
    return x.to(to);
  }
  Variable backward(const Variable& dy) const { return move(dy, from); }
};

struct AddGradients {
  static constexpr std::string_view kName = "add_gradients";

  Tensor forward(const Tensor& a, const Tensor& b) {
    if (a.shape() != b.shape())
      fail<AutogradError>("backward: gradients of ", a.shape(), " and ", b.shape(),
                          " for one value");
    Tensor y = a.clone();
    kernels::accumulate(b, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy) const { return {dy, dy}; }
};

// y = x viewed through a layout; replaces the chain of views that produced the layout.
struct Strided {
  static constexpr std::string_view kName = "view";
  StridedLayout layout;
  Shape shape{};  // shape of x

  Tensor forward(const Tensor& x) {
    shape = x.shape();
    const Tensor dense = x.contiguous();
    StridedLayout part = layout;
    part.offset += dense.layout().offset;
    return dense.with_layout(part);
  }
  Variable backward(const Variable& dy) const { return embed(dy, shape, layout); }
};

struct Embed {
  static constexpr std::string_view kName = "embed";
  Shape shape;
  StridedLayout layout;

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::full(shape, 0.0, x.dtype(), x.device());
    Tensor target = y.with_layout(layout);
    kernels::accumulate(x, target);
    return y;
  }
  Variable backward(const Variable& dy) const { return strided(dy, layout); }
};

// y = x with zeros at the layout.
struct Erase {
  static constexpr std::string_view kName = "erase";
  StridedLayout layout;

  Tensor forward(const Tensor& x) {
    Tensor y = x.clone();
    Tensor target = y.with_layout(layout);
    kernels::fill(target, 0.0);
    return y;
  }
  Variable backward(const Variable& dy) const { return apply(Erase{layout}, Where::current(), dy); }
};

// The base after a write through a view. Its inputs are the base before the write and the written
// value.
struct ViewWrite {
  static constexpr std::string_view kName = "view_write";
  StridedLayout layout;

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = apply(Erase{layout}, Where::current(), dy);
    if (needs[1]) dx[1] = strided(dy, layout);
    return dx;
  }
};

}  // namespace

Variable clone(const Variable& x, Where where) { return apply(Clone{}, where, x); }

Variable cast(const Variable& x, DType dtype, Where where) { return apply(Cast{dtype}, where, x); }
Variable move(const Variable& x, Device device, Where where) {
  return apply(Move{device}, where, x);
}

Variable add_gradients(const Variable& a, const Variable& b, Where where) {
  if (a.defined() && b.defined() &&
      (a.shape() != b.shape() || a.dtype() != b.dtype() || a.device() != b.device())) [[unlikely]]
    fail<ArgumentError>("add_gradients: gradients of ", a.shape(), ' ', a.dtype(), " on ",
                        a.device(), " and ", b.shape(), ' ', b.dtype(), " on ", b.device());
  return apply(AddGradients{}, where, a, b);
}

Variable embed(const Variable& x, const Shape& shape, const StridedLayout& layout, Where where) {
  return apply(Embed{shape, layout}, where, x);
}

Tensor gradient_sum(size_t input) {
  BackwardPass* pass = BackwardPass::running();
  return pass == nullptr ? Tensor() : pass->gradient_sum(running_node()->edges()[input]);
}

Variable send_part(const Variable& dy, const Shape& shape, const StridedLayout& part) {
  const Tensor sum = gradient_sum(0);
  if (!sum) return embed(dy, shape, part);
  Tensor target = sum.with_layout(part);
  kernels::accumulate(dy.value(), target);
  return {};
}

std::optional<Shape> unexpanded_shape() {
  const BackwardPass* pass = BackwardPass::running();
  if (pass == nullptr) return {};
  const TapeEdge& edge = running_node()->edges()[0];
  if (!pass->can_send_past(edge) || !edge.node->repeats_operand()) return {};
  const TapeEdge& operand = edge.node->edges()[0];
  return operand.node->output_type(operand.output).shape;
}

void send_unexpanded(Variable&& gradient) {
  if (!unexpanded_shape())
    fail<AutogradError>("send_unexpanded: no rule runs whose input 0 is an expansion of its own");
  BackwardPass::running()->send_past(running_node()->edges()[0], std::move(gradient));
}

Variable strided(const Variable& x, const StridedLayout& layout, Where where) {
  return apply(Strided{layout}, where, x);
}

StridedLayout relative_layout(const Variable& view, const Variable& base) {
  if (!base.value().is_contiguous())
    fail<AutogradError>("view: the base of a view written in place must be contiguous; clone() it");
  StridedLayout layout = view.value().layout();
  layout.offset -= base.value().layout().offset;
  return layout;
}

TapeEdge record_view(const Variable& base, const StridedLayout& layout) {
  return {make_node(Strided{layout, base.shape()}, base.edge().node->where(),
                    std::array{base.edge()}, layout.shape, base.value()),
          0};
}

TapeEdge record_view_write(const Variable& base, const StridedLayout& layout, TapeEdge written,
                           Where where) {
  return {make_node(ViewWrite{layout}, where, std::array{base.edge(), std::move(written)},
                    base.shape(), base.value()),
          0};
}

}  // namespace tapegrad
