// Operators that rearrange, slice and concatenate.
#include "core/tape/view.h"

#include "ops/binary.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/image.h"
#include "ops/index.h"
#include "ops/view.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

Shape to_shape(const Ints& sizes) {
  Shape shape;
  for (int64_t size : sizes) shape.push_back(size);
  return shape;
}

Variable from_ints(const Ints& values) { return tensor(values, {int64_t(values.size())}); }

Variable reshaped(N n) {
  Shape shape = to_shape(n.ints_at(1));
  if (!n.flag("allowzero", false))
    for (int i = 0; i < shape.rank(); ++i)
      if (shape[i] == 0) shape[i] = n[0].size(i);
  return reshape(n[0], shape);
}

Variable flattened(N n) {
  const int rank = n[0].rank();
  const int axis = n.axis(1) < 0 ? n.axis(1) + rank : n.axis(1);
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < rank; ++i) (i < axis ? rows : columns) *= n[0].size(i);
  return reshape(n[0], {rows, columns});
}

/// Returns sorted axes of a result that includes the inserted axes.
Ints sorted_axes(Ints axes, int rank) {
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  return axes;
}

Variable unsqueezed(N n) {
  const Ints axes = n.has(1) ? n.ints_at(1) : n.ints("axes");
  Variable y = n[0];
  for (int64_t axis : sorted_axes(axes, y.rank() + int(axes.size()))) y = unsqueeze(y, int(axis));
  return y;
}

Variable squeezed(N n) {
  const Ints axes = sorted_axes(n.has(1) ? n.ints_at(1) : n.ints("axes"), n[0].rank());
  if (axes.empty()) return squeeze(n[0]);
  Variable y = n[0];
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) y = squeeze(y, int(*axis));
  return y;
}

Variable transposed(N n) {
  Ints order = n.ints("perm");
  if (order.empty())
    for (int i = n[0].rank() - 1; i >= 0; --i) order.push_back(i);
  return permute(n[0], to_shape(order));
}

Variable sliced(N n) {
  const Ints starts = n.ints_at(1), ends = n.ints_at(2), steps = n.ints_at(4, {});
  Ints axes = n.ints_at(3, {});
  Variable y = n[0];
  for (size_t k = 0; k < starts.size(); ++k) {
    const int axis = normalize_dim("Slice", axes.empty() ? int(k) : int(axes[k]), y.rank());
    const int64_t step = steps.empty() ? 1 : steps[k], size = y.size(axis);
    const auto place = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp(at < 0 ? at + size : at, low, high);
    };
    if (step > 0) {
      const int64_t start = place(starts[k], 0, size), end = place(ends[k], 0, size);
      y = slice(y, axis, start, std::max(start, end), step);
    } else {
      Ints picked;
      const int64_t end = ends[k] < -size ? -1 : place(ends[k], -1, size - 1);
      for (int64_t i = place(starts[k], -1, size - 1); i > end; i += step) picked.push_back(i);
      y = index_select(y, axis, from_ints(picked));
    }
  }
  return y;
}

Values split_up(N n) {
  const int axis = n.axis(0);
  if (n.has(1)) return split(n[0], n.ints_at(1), axis);
  const int64_t size = n[0].size(axis), parts = int64_t(n.outputs);
  return split(n[0], (size + parts - 1) / parts, axis);
}

Variable padded(N n) {
  const Ints pads = n.ints_at(1);
  const size_t rank = size_t(n[0].rank());
  Ints amounts;  // pairs (before, after), starting with the last dimension
  for (size_t i = rank; i-- > 0;) amounts.insert(amounts.end(), {pads[i], pads[i + rank]});
  const std::string mode = n.text("mode", "constant");
  const double value = n.has(2) ? n[2].item() : 0;
  return pad(n[0], amounts,
             mode == "reflect" ? PadMode::kReflect
             : mode == "edge"  ? PadMode::kReplicate
                               : PadMode::kConstant,
             value);
}

Variable shape_of(N n) {
  const int64_t rank = n[0].rank();
  const auto bound = [&](const char* name, int64_t otherwise) {
    const int64_t at = n.integer(name, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  Ints sizes;
  for (int64_t i = bound("start", 0); i < bound("end", rank); ++i)
    sizes.push_back(n[0].size(int(i)));
  return from_ints(sizes);
}

Variable to_depth(N n) {
  const int64_t b = n.integer("blocksize", 1);
  const Shape& s = n[0].shape();
  const Variable blocks = reshape(n[0], {s[0], s[1], s[2] / b, b, s[3] / b, b});
  return reshape(permute(blocks, {0, 3, 5, 1, 2, 4}), {s[0], s[1] * b * b, s[2] / b, s[3] / b});
}

Variable to_space(N n) {
  const int64_t b = n.integer("blocksize", 1);
  if (n.text("mode", "DCR") == "CRD") return pixel_shuffle(n[0], b);
  const Shape& s = n[0].shape();
  const Variable blocks = reshape(n[0], {s[0], b, b, s[1] / (b * b), s[2], s[3]});
  return reshape(permute(blocks, {0, 3, 4, 1, 5, 2}), {s[0], s[1] / (b * b), s[2] * b, s[3] * b});
}

Variable constant(N n) {
  if (n.has("value")) return std::get<Variable>(n.attributes.at("value"));
  if (n.has("value_int")) return scalar(n.integer("value_int", 0));
  if (n.has("value_ints")) return from_ints(n.ints("value_ints"));
  if (n.has("value_float")) return scalar(n.real("value_float", 0), {.dtype = f32});
  if (n.has("value_floats")) {
    const auto& values = std::get<Reals>(n.attributes.at("value_floats"));
    return tensor(values, {int64_t(values.size())}, {.dtype = f32});
  }
  throw Unsupported("strings");
}

Variable constant_of_shape(N n) {
  const Shape shape = to_shape(n.ints_at(0));
  if (!n.has("value")) return zeros(shape);
  const Variable value = reshape(std::get<Variable>(n.attributes.at("value")), {});
  return clone(expand(value, shape));
}

Variable eye_like(N n) {
  const DType dtype = n.has("dtype") ? dtype_of(n.integer("dtype", 0)) : n[0].dtype();
  const Variable rows = unsqueeze(arange(n[0].size(0)), 1), columns = arange(n[0].size(1));
  return (rows + n.integer("k", 0) == columns).to(dtype);
}

}  // namespace

void add_shapes(Operators& table) {
  add(table, "Reshape", reshaped);
  add(table, "Flatten", flattened);
  add(table, "Unsqueeze", unsqueezed);
  add(table, "Squeeze", squeezed);
  add(table, "Transpose", transposed);
  add(table, "Slice", sliced);
  add(table, "Pad", padded);
  add(table, "Shape", shape_of);
  add(table, "Size", [](N n) { return scalar(n[0].numel()); });
  add(table, "SpaceToDepth", to_depth);
  add(table, "DepthToSpace", to_space);
  add(table, "Constant", constant);
  add(table, "ConstantOfShape", constant_of_shape);
  add(table, "EyeLike", eye_like);
  add(table, "Concat", [](N n) { return cat(n.inputs, n.axis(0)); });
  add(table, "Tile", [](N n) { return tile(n[0], to_shape(n.ints_at(1))); });
  add(table, "Expand", [](N n) {
    return clone(expand(n[0], broadcast("Expand", n[0].shape(), to_shape(n.ints_at(1)))));
  });
  add(table, "Trilu", [](N n) {
    const int64_t k = n.has(1) ? n.ints_at(1).at(0) : 0;
    return n.flag("upper", true) ? triu(n[0], k) : tril(n[0], k);
  });
  add(table, "Range", [](N n) {
    const auto number = [&](size_t i) { return n[i].value().number(); };
    return arange(number(0), number(1), number(2), {.dtype = n[0].dtype()});
  });
  table["Split"] = split_up;
}

}  // namespace tapegrad::onnx_conformance
