#include "ops/replace.h"

#include <array>

#include "core/base/error.h"
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
#include "ops/reshape.h"
#include "ops/scatter.h"
#include "ops/subscript.h"
#include "ops/view.h"

namespace tapegrad {

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

struct DiagonalPart {
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
  return WithPart<DiagonalPart>::replaced(x, source, {offset, dim1, dim2});
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
  if (x.rank() == 1 && source.rank() == 0) return index_copy(x, dim, index, reshape(source, {1}));
  const Variable at = atleast_1d(index);
  Shape wanted = x.shape();
  wanted[dim] = at.numel();
  if (source.shape() != wanted)
    fail<ShapeError>("index_copy: the source is ", source.shape(), ", not ", wanted);
  Shape shape = Dims::filled(x.rank(), 1);
  shape[dim] = at.numel();
  return scatter(x, dim, expand(reshape(at, shape), wanted), source);
}

void catalog_replace(Catalog& catalog) {
  using A = const Arguments&;
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
}

}  // namespace tapegrad
