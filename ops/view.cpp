#include "ops/view.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "core/base/internal/shape_mismatch.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/catalog.h"
#include "ops/image.h"
#include "ops/reduce.h"

namespace tapegrad {
namespace {

/// Strides that read the elements of `from`, in row-major order, with shape `to` of equal size;
/// nullopt if no strides do.
std::optional<Strides> strides_as(const StridedLayout& from, const Shape& to) {
  Strides strides = contiguous_strides(to);
  if (std::find(to.begin(), to.end(), 0) != to.end()) return strides;
  int at = to.rank() - 1;
  for (int dim = from.shape.rank() - 1; dim >= 0;) {
    // Dimensions that are contiguous in memory form a block, which the new dimensions divide.
    int64_t step = from.strides[dim], count = from.shape[dim];
    --dim;
    if (count == 1) continue;
    for (; dim >= 0 && (from.shape[dim] == 1 || from.strides[dim] == step * count); --dim)
      count *= from.shape[dim];
    for (; count > 1; --at) {
      if (count % to[at] != 0) return {};
      strides[at] = step;
      step *= to[at];
      count /= to[at];
    }
  }
  return strides;
}

/// Replaces the -1 in a shape, if any, so that the shape has `count` elements.
Shape complete_shape(std::string_view op, const Shape& given, const Shape& from, int64_t count) {
  Shape shape = given;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1 && unknown < 0) {
      unknown = i;
    } else if (shape[i] < 0) {
      fail<ShapeError>(op, ": a size is negative, or more than one is -1: ", shape);
    } else if (__builtin_mul_overflow(known, shape[i], &known)) {
      fail<ShapeError>(op, ": too many elements: ", shape);
    }
  }
  if (unknown >= 0) {
    if (known == 0)
      fail<ShapeError>(op, ": -1 could be any size beside a 0: ", from, " to ", given);
    shape[unknown] = count / known;
    known *= shape[unknown];
  }
  if (known != count)
    fail<ShapeError>(op, ": the number of elements differs: ", from, " to ", given);
  return shape;
}

struct Reshape {
  static constexpr std::string_view kName = "reshape";
  Shape to;
  Shape from{};

  Tensor forward(const Tensor& x) {
    from = x.shape();
    to = complete_shape(kName, to, from, x.numel());
    if (const auto strides = strides_as(x.layout(), to))
      return x.with_layout({to, *strides, x.layout().offset});
    return x.clone().with_layout(contiguous_layout(to));
  }
  Variable backward(const Variable& dy) const { return reshape(dy, from); }
};

struct View {
  static constexpr std::string_view kName = "view";
  Shape to;
  Shape from{};

  Tensor forward(const Tensor& x) {
    from = x.shape();
    to = complete_shape(kName, to, from, x.numel());
    const auto strides = strides_as(x.layout(), to);
    if (!strides)
      fail<ShapeError>(kName, ": ", from, " with strides ", x.strides(), " cannot be seen as ", to,
                       "; reshape copies");
    return x.with_layout({to, *strides, x.layout().offset});
  }
  Variable backward(const Variable& dy) const { return reshape(dy, from); }
};

struct Permute {
  static constexpr std::string_view kName = "permute";
  Dims dims;

  Tensor forward(const Tensor& x) {
    if (dims.rank() != x.rank())
      fail<ShapeError>(kName, ": ", dims, " does not name each dimension of ", x.shape());
    StridedLayout layout = x.layout();
    std::array<bool, kMaxRank> seen{};
    for (int i = 0; i < dims.rank(); ++i) {
      const int dim = normalize_dim(kName, dims[i], x.rank());
      if (seen[dim]) fail<ArgumentError>(kName, ": dim ", dim, " twice in ", dims);
      seen[dim] = true;
      dims[i] = dim;
      layout.shape[i] = x.shape()[dim];
      layout.strides[i] = x.strides()[dim];
    }
    return x.with_layout(layout);
  }
  Variable backward(const Variable& dy) const {
    Dims inverse = dims;
    for (int i = 0; i < dims.rank(); ++i) inverse[int(dims[i])] = i;
    return permute(dy, inverse);
  }
};

struct Transpose {
  static constexpr std::string_view kName = "transpose";
  int dim0, dim1;

  Tensor forward(const Tensor& x) {
    dim0 = normalize_dim(kName, dim0, x.rank());
    dim1 = normalize_dim(kName, dim1, x.rank());
    StridedLayout layout = x.layout();
    std::swap(layout.shape[dim0], layout.shape[dim1]);
    std::swap(layout.strides[dim0], layout.strides[dim1]);
    return x.with_layout(layout);
  }
  Variable backward(const Variable& dy) const { return transpose(dy, dim0, dim1); }
};

struct SliceOp {
  static constexpr std::string_view kName = "slice";
  int dim;
  int64_t start, end, step;
  Shape from{};
  int64_t size = 0;

  Tensor forward(const Tensor& x) {
    dim = normalize_dim(kName, dim, x.rank());
    if (step < 1) fail<ArgumentError>(kName, ": step ", step, " is below 1");
    from = x.shape();
    const int64_t whole = from[dim];
    start = std::clamp<int64_t>(start < 0 ? start + whole : start, 0, whole);
    end = std::clamp<int64_t>(end < 0 ? end + whole : end, start, whole);
    size = end == start ? 0 : (end - start - 1) / step + 1;
    return x.with_layout(slice_layout(x.layout(), dim, start, size, step));
  }
  Variable backward(const Variable& dy) const {
    return send_part(dy, from, slice_layout(contiguous_layout(from), dim, start, size, step));
  }
};

struct Select {
  static constexpr std::string_view kName = "select";
  int dim;
  int64_t index;
  Shape from{};

  Tensor forward(const Tensor& x) {
    dim = normalize_dim(kName, dim, x.rank());
    from = x.shape();
    if (index < -from[dim] || index >= from[dim])
      fail<IndexError>(kName, ": index ", index, " is outside dim ", dim, " of ", from);
    if (index < 0) index += from[dim];
    return x.with_layout(look(x.layout()));
  }
  Variable backward(const Variable& dy) const {
    return send_part(dy, from, look(contiguous_layout(from)));
  }
  StridedLayout look(const StridedLayout& whole) const {
    StridedLayout layout;
    layout.offset = whole.offset + index * whole.strides[dim];
    for (int i = 0; i < whole.shape.rank(); ++i) {
      if (i == dim) continue;
      layout.shape.push_back(whole.shape[i]);
      layout.strides.push_back(whole.strides[i]);
    }
    return layout;
  }
};

struct Expand {
  static constexpr std::string_view kName = "expand";
  static constexpr bool kRepeatsOperand = true;
  Shape to;
  Shape from{};

  Tensor forward(const Tensor& x) {
    from = x.shape();
    const int added = to.rank() - from.rank();
    if (added < 0) fail<ShapeError>(kName, ": ", from, " has more dimensions than ", to);
    for (int i = 0; i < to.rank(); ++i) {
      if (to[i] == -1 && i >= added) to[i] = from[i - added];
      if (to[i] < 0) fail<ShapeError>(kName, ": ", to, " has a negative size for ", from);
      if (i >= added && from[i - added] != 1 && from[i - added] != to[i])
        fail<ShapeError>(kName, ": only sizes of 1 can be repeated: ", from, " to ", to,
                         draw_mismatch({{"", from, i - added}, {"", to, i}}));
    }
    return x.with_layout({to, broadcast_strides(x.layout(), to), x.layout().offset});
  }
  Variable backward(const Variable& dy) const { return sum_to(dy, from); }
};

struct UnfoldDim {
  static constexpr std::string_view kName = "unfold";
  int dim;
  int64_t size, step;
  Shape from{};

  Tensor forward(const Tensor& x) {
    dim = normalize_dim(kName, dim, x.rank());
    from = x.shape();
    if (step < 1) fail<ArgumentError>(kName, ": step ", step, " is below 1");
    if (size < 0 || size > from[dim])
      fail<ShapeError>(kName, ": no window of ", size, " along dim ", dim, " of ", from);
    return x.with_layout(look(x.layout()));
  }
  Variable backward(const Variable& dy) const {
    return embed(dy, from, look(contiguous_layout(from)));
  }
  StridedLayout look(const StridedLayout& whole) const {
    StridedLayout layout = slice_layout(whole, dim, 0, (from[dim] - size) / step + 1, step);
    layout.shape.push_back(size);
    layout.strides.push_back(whole.strides[dim]);
    return layout;
  }
};

struct Split {
  static constexpr std::string_view kName = "split";
  std::vector<int64_t> sizes;
  int dim;
  Shape from{};
  DType dtype{};
  Device device{};

  std::vector<Tensor> forward(const Tensor& x) {
    from = x.shape();
    dtype = x.dtype();
    device = x.device();
    std::vector<Tensor> pieces;
    int64_t at = 0;
    for (int64_t size : sizes) {
      pieces.push_back(x.with_layout(slice_layout(x.layout(), dim, at, size)));
      at += size;
    }
    return pieces;
  }
  Variable backward(std::span<const Variable> dys) const {
    std::vector<Variable> pieces(dys.begin(), dys.end());
    for (size_t k = 0; k < pieces.size(); ++k) {
      if (pieces[k].defined()) continue;
      Shape shape = from;
      shape[dim] = sizes[k];
      pieces[k] = Variable(Tensor::full(shape, 0, dtype, device));
    }
    return cat(pieces, dim);
  }
};

}  // namespace

Variable reshape(const Variable& x, const Shape& shape, Where where) {
  const ErrorLine line(where);
  return apply(Reshape{shape}, where, x);
}
Variable view(const Variable& x, const Shape& shape, Where where) {
  const ErrorLine line(where);
  return apply(View{shape}, where, x);
}

Variable flatten(const Variable& x, int start_dim, int end_dim, Where where) {
  const ErrorLine line(where);
  if (x.rank() == 0) return reshape(x, {1}, where);
  const int start = normalize_dim("flatten", start_dim, x.rank());
  const int end = normalize_dim("flatten", end_dim, x.rank());
  if (start > end) fail<ArgumentError>("flatten: start_dim ", start, " is after end_dim ", end);
  Shape shape;
  for (int i = 0; i <= start; ++i) shape.push_back(x.shape()[i]);
  for (int i = start + 1; i <= end; ++i) shape[start] *= x.shape()[i];
  for (int i = end + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return reshape(x, shape, where);
}

Variable permute(const Variable& x, const Dims& dims, Where where) {
  const ErrorLine line(where);
  return apply(Permute{dims}, where, x);
}
Variable transpose(const Variable& x, int dim0, int dim1, Where where) {
  const ErrorLine line(where);
  if (x.value_or_empty().rank() == 0 && x.defined()) [[unlikely]] {  // 0 and -1 are dimensions
    normalize_dim("transpose", dim0, 1), normalize_dim("transpose", dim1, 1);
    return reshape(x, {}, where);
  }
  return apply(Transpose{dim0, dim1}, where, x);
}
Variable t(const Variable& x, Where where) {
  const ErrorLine line(where);
  if (x.rank() > 2) fail<ShapeError>("t: at most two dimensions, not ", x.shape());
  if (x.rank() < 2) return reshape(x, x.shape(), where);
  return transpose(x, 0, 1, where);
}

Variable slice(const Variable& x, int dim, int64_t start, int64_t end, int64_t step, Where where) {
  const ErrorLine line(where);
  return apply(SliceOp{dim, start, end, step}, where, x);
}

Variable narrow(const Variable& x, int dim, int64_t start, int64_t length, Where where) {
  const ErrorLine line(where);
  const int64_t size = x.shape()[normalize_dim("narrow", dim, x.rank())];
  const int64_t from = start < 0 ? start + size : start;
  if (from < 0 || length < 0 || from > size || length > size - from)
    fail<IndexError>("narrow: ", length, " elements from ", start, " are not in dim ", dim, " of ",
                     x.shape());
  return slice(x, dim, from, from + length, 1, where);
}

Variable select(const Variable& x, int dim, int64_t index, Where where) {
  const ErrorLine line(where);
  return apply(Select{dim, index}, where, x);
}
Variable expand(const Variable& x, const Shape& shape, Where where) {
  const ErrorLine line(where);
  return apply(Expand{shape}, where, x);
}

Variable squeeze(const Variable& x, Where where) {
  const ErrorLine line(where);
  Shape shape;
  for (int64_t size : x.shape())
    if (size != 1) shape.push_back(size);
  return reshape(x, shape, where);
}
Variable squeeze(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  dim = normalize_dim("squeeze", dim, std::max(x.rank(), 1));
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (i != dim || x.shape()[i] != 1) shape.push_back(x.shape()[i]);
  return reshape(x, shape, where);
}
Variable unsqueeze(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  dim = normalize_dim("unsqueeze", dim, x.rank() + 1);
  Shape shape;
  for (int i = 0; i <= x.rank(); ++i) {
    if (i == dim) shape.push_back(1);
    if (i < x.rank()) shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape, where);
}
// Only a member of Variable, because the function unfold() is the one for images (ops/conv.h).
Variable VariableOps::unfold(int dim, int64_t size, int64_t step, Where where) const {
  const ErrorLine line(where);
  return apply(UnfoldDim{dim, size, step}, where, self());
}

namespace {

/// Returns the sizes of pieces of `size`.
std::vector<int64_t> equal_sizes(int64_t all, int64_t size) {
  if (size < 1) fail<ArgumentError>("split: size ", size, " is below 1");
  std::vector<int64_t> sizes;
  for (int64_t left = all; left > 0 || sizes.empty(); left -= sizes.back())
    sizes.push_back(std::min(size, left));
  return sizes;
}

}  // namespace

std::vector<Variable> split(const Variable& x, const Sections& sections, int dim, Where where) {
  const ErrorLine line(where);
  dim = normalize_dim("split", dim, x.rank());
  int64_t left = x.shape()[dim];
  std::vector<int64_t> sizes =
      sections.is_list() ? sections.list() : equal_sizes(left, sections.number());
  for (int64_t size : sizes) {
    if (size < 0 || size > left) left = -1;
    if (left < 0) break;
    left -= size;
  }
  if (left != 0)
    fail<ShapeError>("split: sizes of at least 0 wanted that add up to dim ", dim, " of ",
                     x.shape(), "; the sum is ", std::accumulate(sizes.begin(), sizes.end(), 0.0));
  return apply(Split{std::move(sizes), dim}, where, x);
}

std::vector<Variable> chunk(const Variable& x, int64_t chunks, int dim, Where where) {
  const ErrorLine line(where);
  dim = normalize_dim("chunk", dim, x.rank());
  if (chunks < 1) fail<ArgumentError>("chunk: ", chunks, " chunks");
  const int64_t size = x.shape()[dim];
  // As in PyTorch, a dimension of size 0 has `chunks` pieces of size 0.
  if (size == 0 && chunks > 1 << 20)
    fail<ArgumentError>("chunk: ", chunks, " chunks of a dimension of size 0");
  if (size == 0) return split(x, std::vector<int64_t>(size_t(chunks), 0), dim, where);
  return split(x, (size - 1) / chunks + 1, dim, where);
}

void catalog_view(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("reshape(input, shape: ints)", "the same elements in row-major order",
              [](A a) { return reshape(a[0], a.dims("shape")); });
  catalog.add("view(input, shape: ints)", "reshape without a copy",
              [](A a) { return view(a[0], a.dims("shape")); });
  catalog.add("flatten(input, start_dim: int = 0, end_dim: int = -1)",
              "dimensions start_dim..end_dim become one",
              [](A a) { return flatten(a[0], a.int32("start_dim"), a.int32("end_dim")); });
  catalog.add("permute(input, dims: ints)", "y[i_dims[0], ...] = x[i_0, ...]",
              [](A a) { return permute(a[0], a.dims("dims")); });
  catalog.add("transpose(input, dim0: int, dim1: int)", "two dimensions exchanged",
              [](A a) { return transpose(a[0], a.int32("dim0"), a.int32("dim1")); });
  catalog.add("t(input)", "y[i, j] = x[j, i]", [](A a) { return t(a[0]); });
  catalog.add(
      "slice(input, dim: int = 0, start: int = 0, end: int = 9223372036854775807, "
      "step: int = 1)",
      "x[start:end:step] along dim", [](A a) {
        return slice(a[0], a.int32("dim"), a.integer("start"), a.integer("end"), a.integer("step"));
      });
  catalog.add(
      "narrow(input, dim: int, start: int, length: int)", "x[start:start + length] along dim",
      [](A a) { return narrow(a[0], a.int32("dim"), a.integer("start"), a.integer("length")); });
  catalog.add("select(input, dim: int, index: int)", "x[index] along dim",
              [](A a) { return select(a[0], a.int32("dim"), a.integer("index")); });
  catalog.add("expand(input, size: ints)", "sizes of 1 repeated, without a copy",
              [](A a) { return expand(a[0], a.dims("size")); });
  catalog.add("squeeze(input, dim: int = none)", "without dimensions of size 1",
              [](A a) { return a.has("dim") ? squeeze(a[0], a.int32("dim")) : squeeze(a[0]); });
  catalog.add("unsqueeze(input, dim: int)", "a new dimension of size 1",
              [](A a) { return unsqueeze(a[0], a.int32("dim")); });
  // PyTorch's Tensor.unfold; "unfold" is torch.nn.functional.unfold, for images.
  catalog.add("tensor.unfold(input, dimension: int, size: int, step: int)",
              "y[..., i, ..., j] = x[..., i * step + j, ...]", [](A a) {
                return a[0].unfold(a.int32("dimension"), a.integer("size"), a.integer("step"));
              });
  catalog.add("cat(tensors*, dim: int = 0)", "joined along dim",
              [](A a) { return cat(a.list, a.int32("dim")); });
  catalog.add("stack(tensors*, dim: int = 0)", "joined along a new dimension",
              [](A a) { return stack(a.list, a.int32("dim")); });
  catalog.add("split(tensor, split_size_or_sections: ints, dim: int = 0)", "pieces along dim",
              [](A a) {
                const Attribute& sizes = a.attributes.find("split_size_or_sections")->second;
                const int dim = a.int32("dim");
                if (const int64_t* size = std::get_if<int64_t>(&sizes))
                  return split(a[0], *size, dim);
                return split(a[0], a.integers("split_size_or_sections"), dim);
              });
  catalog.add("chunk(input, chunks: int, dim: int = 0)", "at most `chunks` equal pieces along dim",
              [](A a) { return chunk(a[0], a.integer("chunks"), a.int32("dim")); });
  catalog.add("flip(input, dims: ints)", "y[i] = x[n - 1 - i] along dims",
              [](A a) { return flip(a[0], a.dims("dims")); });
  catalog.add("rot90(input, k: int = 1, dims: ints = [0, 1])", "turned by k 90 degrees",
              [](A a) { return rot90(a[0], a.integer("k"), a.dims("dims")); });
  catalog.add("meshgrid(tensors*, indexing: str = ij)", "y_k[i_0, i_1, ...] = x_k[i_k]",
              [](A a) { return meshgrid(a.list, a.text("indexing")); });
  catalog.add(
      "roll(input, shifts: ints, dims: ints = none)", "y[i] = x[(i - shift) mod n]",
      [](A a) { return roll(a[0], a.dims("shifts"), a.has("dims") ? a.dims("dims") : Dims()); });
  catalog.add("pad(input, pad: ints, mode: str = constant, value: float = 0.0)",
              "x with `value`, or with what it holds itself, around it",
              [](A a) { return pad(a[0], a.integers("pad"), a.text("mode"), a.real("value")); });
  catalog.add("repeat(input, repeats: ints)", "x laid side by side",
              [](A a) { return repeat(a[0], a.dims("repeats")); });
  catalog.add("tile(input, dims: ints)", "x laid side by side",
              [](A a) { return tile(a[0], a.dims("dims")); });
  catalog.add("repeat_interleave(input, repeats: int, dim: int = none)",
              "y[i] = x[i / repeats] along dim, or of all elements", [](A a) {
                return a.has("dim") ? repeat_interleave(a[0], a.integer("repeats"), a.int32("dim"))
                                    : repeat_interleave(a[0], a.integer("repeats"));
              });
  catalog.add("clone(input)", "a copy", [](A a) { return clone(a[0]); });
  catalog.add("to(input, dtype: dtype)", "converted",
              [](A a) { return a[0].to(a.dtype("dtype")); });
  catalog.add("copy_(input, src)", "input = src",
              [](A a) {
                Variable y = a[0];
                return copy_(y, a[1]);
              },
              {.inplace = true});
  catalog.add("fill_(input, value: number)", "input = value",
              [](A a) {
                Variable y = a[0];
                return fill_(y, a.number("value"));
              },
              {.inplace = true});
  catalog.add("zero_(input)", "input = 0",
              [](A a) {
                Variable y = a[0];
                return zero_(y);
              },
              {.inplace = true});
}

}  // namespace tapegrad
