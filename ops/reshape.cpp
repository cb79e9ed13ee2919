#include "ops/reshape.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/internal/value_checks.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
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

/// Larger numbers of parts, most of them empty, would exhaust the memory after a long time.
constexpr int64_t kMostParts = int64_t(1) << 24;

std::vector<Variable> split_equally(const Variable& x, int64_t sections, int dim) {
  if (sections < 1 || sections > kMostParts)
    fail<ArgumentError>("tensor_split: ", sections, " sections, not in [1, ", kMostParts, "]");
  const int64_t size = x.size(dim), least = size / sections, longer = size % sections;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < sections; ++i) sizes.push_back(least + (i < longer));
  return split(x, sizes, dim);
}

}  // namespace

std::vector<Variable> unbind(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  dim = normalize_dim("unbind", dim, x.rank());
  if (x.size(dim) == 0) return {};
  return apply(Unbind{dim}, where, x);
}

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
  if (rank == 0) return reshape(movedim(reshape(x, {1}), source, destination), {});
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

Variable squeeze(const Variable& x, const Dims& dims, Where where) {
  const ErrorLine line(where);
  std::vector<bool> is_given(size_t(std::max(x.rank(), 1)));
  for (const int64_t given : dims) {
    const auto dim = size_t(normalize_dim("squeeze", int(given), int(is_given.size())));
    if (is_given[dim]) fail<ArgumentError>("squeeze: dimension ", dim, " is given twice");
    is_given[dim] = true;
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (!is_given[size_t(i)] || x.shape()[i] != 1) shape.push_back(x.shape()[i]);
  return reshape(x, shape, where);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, Where where) {
  const ErrorLine line(where);
  return broadcast("broadcast_shapes", a, b);
}

std::vector<Variable> unravel_index(const Variable& positions, const Shape& shape, Where where) {
  const CallLine line(where);
  if (is_float(positions.dtype()) || positions.dtype() == boolean)
    fail<DTypeError>("unravel_index: positions of ", positions.dtype());
  const NoGrad off;
  Variable rest = positions.to(i64);
  const int64_t size = numel(shape);
  if (rest.numel() > 0)
    detail::check_values(any(logical_or(lt(rest, 0), ge(rest, size))).value(),
                         [shape, size](const Tensor& is_outside) {
                           if (is_outside.item() != 0)
                             fail<IndexError>("unravel_index: positions outside of ", shape,
                                              ", which has ", size, " elements");
                         });
  std::vector<Variable> coordinates(shape.size());
  for (size_t i = shape.size(); i-- > 0; rest = floor_divide(rest, shape[int(i)]))
    coordinates[i] = remainder(rest, shape[int(i)]);
  return coordinates;
}

void catalog_reshape(Catalog& catalog) {
  using A = const Arguments&;
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
}

}  // namespace tapegrad
