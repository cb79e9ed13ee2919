#include "ops/arrange.h"

#include <array>

#include "core/base/error.h"
#include "core/base/internal/step_constant.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/index.h"
#include "ops/internal/index_checks.h"
#include "ops/scatter.h"
#include "ops/subscript.h"
#include "ops/view.h"

namespace tapegrad {

namespace {

/// One op with all entries, so that its rule writes the gradient in one pass.
struct Unbind {
  static constexpr std::string_view kName = "unbind";
  int dim;
  Shape entry{};
  DType dtype{};
  Device device{};

  std::vector<Tensor> forward(const Tensor& x) {
    StridedLayout layout = x.layout();
    layout.shape = layout.strides = {};
    for (int i = 0; i < x.rank(); ++i) {
      if (i == dim) continue;
      layout.shape.push_back(x.shape()[i]);
      layout.strides.push_back(x.strides()[i]);
    }
    entry = layout.shape, dtype = x.dtype(), device = x.device();
    std::vector<Tensor> entries;
    for (int64_t i = 0; i < x.shape()[dim]; ++i, layout.offset += x.strides()[dim])
      entries.push_back(x.with_layout(layout));
    return entries;
  }
  Variable backward(std::span<const Variable> dys) const {
    std::vector<Variable> entries(dys.begin(), dys.end());
    for (Variable& dy : entries)
      if (!dy.defined()) dy = Variable(Tensor::full(entry, 0, dtype, device));
    return stack(entries, dim);
  }
};

}  // namespace

std::vector<Variable> unbind(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  dim = normalize_dim("unbind", dim, x.rank());
  if (x.size(dim) == 0) return {};
  return apply(Unbind{dim}, where, x);
}

/// Larger numbers of parts, most of them empty, would exhaust the memory after a long time.
constexpr int64_t kMostParts = int64_t(1) << 24;

namespace {

std::vector<Variable> split_equally(const Variable& x, int64_t sections, int dim) {
  if (sections < 1 || sections > kMostParts)
    fail<ArgumentError>("tensor_split: ", sections, " sections, not in [1, ", kMostParts, "]");
  const int64_t size = x.size(dim), least = size / sections, longer = size % sections;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < sections; ++i) sizes.push_back(least + (i < longer));
  return split(x, sizes, dim);
}

}  // namespace

std::vector<Variable> tensor_split(const Variable& x, const Sections& sections, int dim,
                                   Where where) {
  const CallLine line(where);
  dim = normalize_dim("tensor_split", dim, x.rank());
  if (!sections.is_list()) return split_equally(x, sections.number(), dim);
  std::vector<Variable> pieces;
  int64_t start = 0;
  for (const int64_t index : sections.list()) {
    pieces.push_back(slice(x, dim, start, index));
    start = index;
  }
  pieces.push_back(slice(x, dim, start));
  return pieces;
}

Variable atleast_1d(const Variable& x, Where where) {
  return x.rank() > 0 ? x : reshape(x, {1}, where);
}
Variable atleast_2d(const Variable& x, Where where) {
  const CallLine line(where);
  return x.rank() > 1 ? x : unsqueeze(atleast_1d(x), 0);
}
Variable atleast_3d(const Variable& x, Where where) {
  const CallLine line(where);
  return x.rank() > 2 ? x : unsqueeze(atleast_2d(x), 2);
}

namespace {

std::vector<Variable> each(VariableList inputs, Variable (*f)(const Variable&, Where)) {
  std::vector<Variable> results;
  for (const Variable& input : inputs) results.push_back(f(input, Where::current()));
  return results;
}

}  // namespace

Variable vstack(VariableList inputs, Where where) {
  const CallLine line(where);
  return cat(each(inputs, atleast_2d), 0);
}
Variable hstack(VariableList inputs, Where where) {
  const CallLine line(where);
  const std::vector<Variable> all = each(inputs, atleast_1d);
  return cat(all, all.empty() || all[0].rank() == 1 ? 0 : 1);
}
Variable dstack(VariableList inputs, Where where) {
  const CallLine line(where);
  return cat(each(inputs, atleast_3d), 2);
}
Variable column_stack(VariableList inputs, Where where) {
  const CallLine line(where);
  return cat(each(inputs,
                  [](const Variable& x, Where) {
                    return x.rank() > 1 ? x : reshape(x, {x.numel(), 1});
                  }),
             1);
}

namespace {

struct BlockDiag {
  static constexpr std::string_view kName = "block_diag";
  std::vector<Shape> shapes{};
  std::vector<DType> dtypes{};

  Tensor forward(std::span<const Variable> inputs) {
    const NoGrad off;
    if (inputs.empty()) fail<ArgumentError>(kName, ": no inputs");
    Shape all{0, 0};
    DType dtype = inputs[0].dtype();
    for (const Variable& x : inputs) {
      if (x.rank() > 2) fail<ShapeError>(kName, ": a matrix wanted, not ", x.shape());
      check_same_device(kName, inputs[0].value(), x.value());
      const Shape matrix = atleast_2d(x.detach()).shape();
      all = {all[0] + matrix[0], all[1] + matrix[1]};
      dtype = promote(dtype, x.dtype());
      shapes.push_back(x.shape());
      dtypes.push_back(x.dtype());
    }
    Tensor y = Tensor::full(all, 0, dtype, inputs[0].device());
    std::vector<Variable> blocks = blocks_of(Variable(y));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor block = blocks[i].value();
      kernels::copy(atleast_2d(inputs[i].detach()).value(), block);
    }
    return y;
  }
  std::vector<Variable> backward(const Variable& dy) const {
    std::vector<Variable> dx = blocks_of(dy);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = reshape(dx[i].to(dtypes[i]), shapes[i]);
    return dx;
  }

 private:
  std::vector<Variable> blocks_of(const Variable& y) const {
    std::vector<Variable> blocks;
    int64_t row = 0, column = 0;
    for (const Shape& shape : shapes) {
      const int64_t rows = shape.rank() < 2 ? 1 : shape[0];
      const int64_t columns = shape.rank() < 1 ? 1 : shape[shape.rank() - 1];
      blocks.push_back(slice(slice(y, 0, row, row + rows), 1, column, column + columns));
      row += rows, column += columns;
    }
    return blocks;
  }
};

}  // namespace

Variable block_diag(VariableList inputs, Where where) {
  const CallLine line(where);
  return apply(BlockDiag{}, Where::current(), std::span<const Variable>(inputs));
}

Variable cartesian_prod(VariableList inputs, Where where) {
  const CallLine line(where);
  if (inputs.size() == 1) return inputs[0];
  return stack(each(meshgrid(inputs), [](const Variable& x, Where) { return flatten(x); }), 1);
}

std::vector<Variable> broadcast_tensors(VariableList inputs, Where where) {
  const CallLine line(where);
  Shape shape;
  for (const Variable& x : inputs) shape = broadcast("broadcast_tensors", shape, x.shape());
  std::vector<Variable> results;
  for (const Variable& x : inputs) results.push_back(expand(x, shape));
  return results;
}

Variable movedim(const Variable& x, const Dims& source, const Dims& destination, Where where) {
  const CallLine line(where);
  if (source.rank() != destination.rank())
    fail<ArgumentError>("movedim: one destination is wanted for each dimension: ", source, " and ",
                        destination);
  const int rank = x.rank();
  Dims order = Dims::filled(rank, -1);
  std::vector<bool> moved(size_t(rank), false);
  for (int i = 0; i < source.rank(); ++i) {
    const int from = normalize_dim("movedim", source[i], rank);
    const int to = normalize_dim("movedim", destination[i], rank);
    if (moved[size_t(from)] || order[to] != -1)
      fail<ArgumentError>("movedim: a dimension is given twice: ", source, " and ", destination);
    moved[size_t(from)] = true;
    order[to] = from;
  }
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    if (order[i] != -1) continue;
    while (moved[size_t(next)]) ++next;
    order[i] = next++;
  }
  return permute(x, order);
}

Variable unflatten(const Variable& x, int dim, const Shape& sizes, Where where) {
  const CallLine line(where);
  dim = normalize_dim("unflatten", dim, x.rank());
  Shape shape, given;
  for (const int64_t size : sizes) given.push_back(size == -1 ? 1 : size);
  const int64_t known = numel(given);
  for (int i = 0; i < x.rank(); ++i) {
    if (i != dim) {
      shape.push_back(x.size(i));
      continue;
    }
    for (const int64_t size : sizes)
      shape.push_back(size == -1 && known > 0 ? x.size(dim) / known : size);
  }
  if (numel(shape) != x.numel())
    fail<ShapeError>("unflatten: dimension ", dim, " of ", x.shape(), " is not ", sizes);
  return view(x, shape);
}

namespace {

// Views of a part of a tensor.
struct Entry {
  static constexpr std::string_view kName = "select_scatter";
  int dim;
  int64_t index;
  Variable operator()(const Variable& x) const { return select(x, dim, index); }
};
struct Range {
  static constexpr std::string_view kName = "slice_scatter";
  int dim;
  int64_t start, end, step;
  Variable operator()(const Variable& x) const { return slice(x, dim, start, end, step); }
};
struct Diagonal {
  static constexpr std::string_view kName = "diagonal_scatter";
  int64_t offset;
  int dim1, dim2;
  Variable operator()(const Variable& x) const { return diagonal(x, offset, dim1, dim2); }
};

/// A copy of x in which the source replaces a part.
template <typename Part>
struct WithPart {
  static constexpr std::string_view kName = Part::kName;
  Part part;

  Tensor forward(const Tensor& x, const Tensor& source) const {
    const NoGrad off;
    check_same_device(kName, x, source);
    Tensor y = x.clone(), target = part(Variable(y)).value();
    kernels::copy(source, target);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    const Variable d_source = part(dy);
    return {needs[0] ? replaced(dy, zeros_like(d_source), part) : Variable(), d_source};
  }

  static Variable replaced(const Variable& x, const Variable& source, Part part) {
    const Shape shape = part(x.detach()).shape();
    if (shape != source.shape())
      fail<ShapeError>(kName, ": the part is ", shape, " and the source ", source.shape());
    return apply(WithPart{part}, Where::current(), x, source.to(x.dtype()));
  }
};

}  // namespace

Variable select_scatter(const Variable& x, const Variable& source, int dim, int64_t index,
                        Where where) {
  const CallLine line(where);
  return WithPart<Entry>::replaced(x, source, {dim, index});
}
Variable slice_scatter(const Variable& x, const Variable& source, int dim, int64_t start,
                       int64_t end, int64_t step, Where where) {
  const CallLine line(where);
  return WithPart<Range>::replaced(x, source, {dim, start, end, step});
}
Variable diagonal_scatter(const Variable& x, const Variable& source, int64_t offset, int dim1,
                          int dim2, Where where) {
  const CallLine line(where);
  return WithPart<Diagonal>::replaced(x, source, {offset, dim1, dim2});
}

Variable index_fill(const Variable& x, int dim, const Variable& index, Number value, Where where) {
  const CallLine line(where);
  if (x.rank() == 0) return reshape(index_fill(reshape(x, {1}), dim, index, value), {});
  dim = normalize_dim("index_fill", dim, x.rank());
  const Variable at = detail::wrapped("index_fill", atleast_1d(index), x.size(dim));
  Variable chosen = zeros({x.size(dim)}, {.dtype = i64, .device = x.device()});
  chosen = index_add(chosen, 0, at, ones(at.shape(), {.dtype = i64, .device = x.device()}));
  Shape shape = Dims::filled(x.rank(), 1);
  shape[dim] = x.size(dim);
  return masked_fill(x, reshape(gt(chosen, 0), shape), value);
}

Variable index_copy(const Variable& x, int dim, const Variable& index, const Variable& source,
                    Where where) {
  const CallLine line(where);
  if (x.rank() == 0)
    return reshape(index_copy(reshape(x, {1}), dim, index, reshape(source, {1})), {});
  dim = normalize_dim("index_copy", dim, x.rank());
  const Variable at = atleast_1d(index);
  Shape wanted = x.shape();
  wanted[dim] = at.numel();
  if (source.shape() != wanted)
    fail<ShapeError>("index_copy: the source is ", source.shape(), ", not ", wanted);
  Shape shape = Dims::filled(x.rank(), 1);
  shape[dim] = at.numel();
  return scatter(x, dim, expand(reshape(at, shape), wanted), source);
}

static Variable full_matrix(std::string_view op, int64_t rows, int64_t columns) {
  if (rows < 0 || columns < 0)
    fail<ArgumentError>(op, ": a matrix of ", rows, " x ", columns, " elements");
  return ones({rows, columns}, {.dtype = u8, .device = cpu});
}
/// Returns the places of the nonzero elements of make(), a matrix on the CPU, as columns.
template <typename Make>
static Variable places_of(const Make& make) {
  return Variable(detail::step_constant(
      [&] { return transpose(nonzero(make()), 0, 1).contiguous().to(default_device()).value(); }));
}
Variable tril_indices(int64_t rows, int64_t columns, int64_t offset) {
  return places_of([&] { return tril(full_matrix("tril_indices", rows, columns), offset); });
}
Variable triu_indices(int64_t rows, int64_t columns, int64_t offset) {
  return places_of([&] { return triu(full_matrix("triu_indices", rows, columns), offset); });
}

Variable vander(const Variable& x, std::optional<int64_t> n, bool increasing, Where where) {
  const CallLine line(where);
  if (x.rank() == 0) fail<ShapeError>("vander: vectors [..., n] wanted, not a number");
  const int64_t count = n.value_or(x.size(-1));
  if (count < 0) fail<ArgumentError>("vander: a negative number of columns: ", count);
  Variable exponents = arange(count, {.device = x.device()});
  if (!increasing) exponents = flip(exponents, 0);
  return pow(unsqueeze(x, -1), exponents.to(x.dtype()));
}

void catalog_arrange(Catalog& catalog) {
  using A = const Arguments&;
  const OpTraits flat{.max_order = 0};
  catalog.add("unbind(input, dim: int = 0)", "the entries along dim",
              [](A a) { return unbind(a[0], a.int32("dim")); });
  catalog.add("tensor_split(input, indices_or_sections: ints, dim: int = 0)",
              "pieces of about equal size, or between indices", [](A a) {
                const Attribute& where = a.attributes.find("indices_or_sections")->second;
                const int dim = a.int32("dim");
                return std::holds_alternative<int64_t>(where)
                           ? tensor_split(a[0], std::get<int64_t>(where), dim)
                           : tensor_split(a[0], a.integers("indices_or_sections"), dim);
              });
  catalog.add("vstack(tensors*)", "one below another", [](A a) { return vstack(a.list); });
  catalog.add("hstack(tensors*)", "side by side", [](A a) { return hstack(a.list); });
  catalog.add("dstack(tensors*)", "one behind another", [](A a) { return dstack(a.list); });
  catalog.add("column_stack(tensors*)", "side by side, vectors as columns",
              [](A a) { return column_stack(a.list); });
  catalog.add("block_diag(tensors*)", "matrices on the diagonal, among zeros",
              [](A a) { return block_diag(a.list); });
  catalog.add("cartesian_prod(tensors*)", "all combinations of elements",
              [](A a) { return cartesian_prod(a.list); });
  catalog.add("broadcast_tensors(tensors*)", "expanded to one shape",
              [](A a) { return broadcast_tensors(a.list); });
  catalog.add("movedim(input, source: ints, destination: ints)", "dimensions at other places",
              [](A a) { return movedim(a[0], a.dims("source"), a.dims("destination")); },
              {.example = [](DType dtype) -> Arguments {
                return {.inputs = {ones({2, 3}, {.dtype = dtype})},
                        .attributes = {{"source", int64_t(0)}, {"destination", int64_t(1)}}};
              }});
  catalog.add("unflatten(input, dim: int, sizes: ints)", "dimension dim as several",
              [](A a) { return unflatten(a[0], a.int32("dim"), a.dims("sizes")); },
              {.example = [](DType dtype) -> Arguments {
                return {.inputs = {ones({6}, {.dtype = dtype})},
                        .attributes = {{"dim", int64_t(0)}, {"sizes", std::vector<int64_t>{2, 3}}}};
              }});
  catalog.add("atleast_1d(input)", "rank 1 or more", [](A a) { return atleast_1d(a[0]); });
  catalog.add("atleast_2d(input)", "rank 2 or more", [](A a) { return atleast_2d(a[0]); });
  catalog.add("atleast_3d(input)", "rank 3 or more", [](A a) { return atleast_3d(a[0]); });
  catalog.add("select_scatter(input, src, dim: int, index: int)", "input with one entry replaced",
              [](A a) { return select_scatter(a[0], a[1], a.int32("dim"), a.integer("index")); },
              {.example = [](DType dtype) -> Arguments {
                return {.inputs = {ones({2, 3}, {.dtype = dtype}), ones({3}, {.dtype = dtype})},
                        .attributes = {{"dim", int64_t(0)}, {"index", int64_t(1)}}};
              }});
  catalog.add(
      "slice_scatter(input, src, dim: int = 0, start: int = none, end: int = none, "
      "step: int = 1)",
      "input with a slice replaced",
      [](A a) {
        return slice_scatter(a[0], a[1], a.int32("dim"), a.has("start") ? a.integer("start") : 0,
                             a.has("end") ? a.integer("end") : kEnd, a.integer("step"));
      },
      {.example = [](DType dtype) -> Arguments {
        return {.inputs = {ones({2, 3}, {.dtype = dtype}), ones({1, 3}, {.dtype = dtype})},
                .attributes = {{"end", int64_t(1)}}};
      }});
  catalog.add("diagonal_scatter(input, src, offset: int = 0, dim1: int = 0, dim2: int = 1)",
              "input with a diagonal replaced",
              [](A a) {
                return diagonal_scatter(a[0], a[1], a.integer("offset"), a.int32("dim1"),
                                        a.int32("dim2"));
              },
              {.example = [](DType dtype) -> Arguments {
                return {.inputs = {ones({2, 3}, {.dtype = dtype}), ones({2}, {.dtype = dtype})}};
              }});
  catalog.add("index_fill(input, index, dim: int, value: number)", "value at the index along dim",
              [](A a) { return index_fill(a[0], a.int32("dim"), a[1], a.number("value")); });
  catalog.add("index_copy(input, index, source, dim: int)", "source at the index along dim",
              [](A a) { return index_copy(a[0], a.int32("dim"), a[1], a[2]); },
              {.example = [](DType dtype) -> Arguments {
                return {.inputs = {ones({2, 3}, {.dtype = dtype}), tensor({1, 0}),
                                   ones({2, 3}, {.dtype = dtype})},
                        .attributes = {{"dim", int64_t(0)}}};
              }});
  catalog.add(
      "tril_indices(row: int, col: int, offset: int = 0)", "the places of the lower triangle",
      [](A a) { return tril_indices(a.integer("row"), a.integer("col"), a.integer("offset")); },
      flat);
  catalog.add(
      "triu_indices(row: int, col: int, offset: int = 0)", "the places of the upper triangle",
      [](A a) { return triu_indices(a.integer("row"), a.integer("col"), a.integer("offset")); },
      flat);
  catalog.add("vander(x, N: int = none, increasing: bool = false)", "powers as columns", [](A a) {
    return vander(a[0], a.has("N") ? std::optional(a.integer("N")) : std::nullopt,
                  a.flag("increasing"));
  });
}

}  // namespace tapegrad
