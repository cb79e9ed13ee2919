// Operators that read and write by index.
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/view.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

/// Converts to int64; negative indices count from the end.
Variable counted(const Variable& index, int64_t size) {
  const Variable i = index.to(i64);
  return where(i < 0, i + size, i);
}

Variable gathered(N n) {
  const int axis = normalize_dim("Gather", n.axis(0), n[0].rank());
  Shape shape;
  for (int i = 0; i < axis; ++i) shape.push_back(n[0].size(i));
  for (int64_t size : n[1].shape()) shape.push_back(size);
  for (int i = axis + 1; i < n[0].rank(); ++i) shape.push_back(n[0].size(i));
  const Variable index = reshape(counted(n[1], n[0].size(axis)), {n[1].numel()});
  return reshape(index_select(n[0], axis, index), shape);
}

std::optional<Reduce> reduction_of(N n) {
  const std::string name = n.text("reduction", "none");
  if (name == "none") return {};
  if (name == "add") return Reduce::kSum;
  if (name == "mul") return Reduce::kProd;
  return name == "max" ? Reduce::kAmax : Reduce::kAmin;
}

Variable written(const Variable& x, int dim, const Variable& index, const Variable& updates,
                 std::optional<Reduce> reduce) {
  return reduce ? scatter_reduce(x, dim, index, updates, *reduce) : scatter(x, dim, index, updates);
}

Variable scattered(N n) {
  const int axis = n.axis(0);
  return written(n[0], axis, counted(n[1], n[0].size(axis)), n[2], reduction_of(n));
}

/// Converts indices [..., k] into the k dimensions from `first` on to one flat index each.
Variable flat_index(const Variable& x, const Variable& indices, int first) {
  Variable flat;
  for (int64_t k = 0; k < indices.size(-1); ++k) {
    const int64_t size = x.size(first + int(k));
    const Variable i = counted(select(indices, -1, k), size);
    flat = flat.defined() ? flat * size + i : i;
  }
  return flat;
}

int64_t sizes(const Variable& x, int from, int to) {
  int64_t product = 1;
  for (int i = from; i < to; ++i) product *= x.size(i);
  return product;
}

Variable gathered_nd(N n) {
  const int batches = int(n.integer("batch_dims", 0)), k = int(n[1].size(-1));
  const int64_t batch = sizes(n[0], 0, batches), rest = sizes(n[0], batches + k, n[0].rank());
  const int64_t rows = sizes(n[0], batches, batches + k);
  const Variable flat = reshape(flat_index(n[0], n[1], batches), {batch, -1});
  const Variable index = unsqueeze(flat, 2);
  const Variable y =
      gather(reshape(n[0], {batch, rows, rest}), 1, expand(index, {batch, flat.size(1), rest}));
  Shape shape;
  for (int i = 0; i + 1 < n[1].rank(); ++i) shape.push_back(n[1].size(i));
  for (int i = batches + k; i < n[0].rank(); ++i) shape.push_back(n[0].size(i));
  return reshape(y, shape);
}

Variable scattered_nd(N n) {
  const int k = int(n[1].size(-1));
  const int64_t rows = sizes(n[0], 0, k), rest = sizes(n[0], k, n[0].rank());
  const Variable flat = reshape(flat_index(n[0], n[1], 0), {-1, 1});
  const Shape shape{flat.size(0), rest};
  return reshape(written(reshape(n[0], {rows, rest}), 0, expand(flat, shape), reshape(n[2], shape),
                         reduction_of(n)),
                 n[0].shape());
}

Variable compressed(N n) {
  const Variable x = n.has("axis") ? n[0] : reshape(n[0], {n[0].numel()});
  return index_select(x, n.axis(0), select(nonzero(n[1]), 1, 0));
}

Variable hot(N n) {
  const int64_t depth = n.ints_at(1).at(0);
  const int axis = normalize_dim("OneHot", n.axis(-1), n[0].rank() + 1);
  const Variable index = unsqueeze(counted(n[0], depth), axis);
  Shape along = Dims::filled(index.rank(), 1);
  along[axis] = depth;
  return where(index == reshape(arange(depth), along), select(n[2], 0, 1), select(n[2], 0, 0));
}

Variable reversed(N n) {
  const int time = int(n.integer("time_axis", 0)), batch = int(n.integer("batch_axis", 1));
  Shape along = Dims::filled(n[0].rank(), 1), across = along;
  along[time] = n[0].size(time);
  across[batch] = n[0].size(batch);
  const Variable t = reshape(arange(n[0].size(time)), along), length = reshape(n[1], across);
  return take_along_dim(n[0], where(t < length, length - 1 - t, t), time);
}

Values different(N n) {
  Unique found = n.has("axis") ? unique(n[0], n.axis(0)) : unique(n[0]);
  const int64_t count = found.counts.numel();
  const Variable inverse = reshape(found.inverse, {found.inverse.numel()});
  const Variable places = arange(inverse.numel());
  Variable first =
      scatter_reduce(full({count}, inverse.numel()), 0, inverse, places, Reduce::kAmin);
  Variable position = inverse;
  if (!n.flag("sorted", true)) {  // in the order of first occurrence
    const Variable order = argsort(first);
    found.values = index_select(found.values, n.has("axis") ? n.axis(0) : 0, order);
    found.counts = index_select(found.counts, 0, order);
    first = index_select(first, 0, order);
    position = index_select(argsort(order), 0, inverse);
  }
  return {found.values, first, position, found.counts};
}

}  // namespace

void add_indexing(Operators& table) {
  add(table, "Gather", gathered);
  add(table, "GatherElements",
      [](N n) { return gather(n[0], n.axis(0), counted(n[1], n[0].size(n.axis(0)))); });
  add(table, "GatherND", gathered_nd);
  add(table, "Scatter", scattered);
  add(table, "ScatterElements", scattered);
  add(table, "ScatterND", scattered_nd);
  add(table, "Compress", compressed);
  add(table, "OneHot", hot);
  add(table, "NonZero", [](N n) { return t(nonzero(n[0])); });
  add(table, "ReverseSequence", reversed);
  table["Unique"] = different;
}

}  // namespace tapegrad::onnx_conformance
