#include "ops/diagonal.h"

#include <algorithm>

#include "core/base/internal/step_constant.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

/// Larger than any matrix; sizes can be added without overflow.
constexpr int64_t kFar = int64_t(1) << 62;

/// Two dimensions of a tensor and a diagonal in their plane.
struct Plane {
  int64_t offset;
  int rows, columns;

  Plane(std::string_view op, int64_t offset, int dim1, int dim2, int rank)
      : offset(std::clamp(offset, -kFar, kFar)),
        rows(normalize_dim(op, dim1, rank)),
        columns(normalize_dim(op, dim2, rank)) {
    if (rows == columns) fail<ArgumentError>(op, ": dim1 and dim2 are both ", rows);
  }
  /// Returns the layout of the diagonal, after the remaining dimensions.
  StridedLayout look(const StridedLayout& whole) const {
    const int64_t down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0;
    const int64_t length =
        std::max<int64_t>(0, std::min(whole.shape[rows] - down, whole.shape[columns] - right));
    StridedLayout layout{{}, {}, whole.offset};
    int64_t step = 1;
    if (length > 0) {
      layout.offset += down * whole.strides[rows] + right * whole.strides[columns];
      step = whole.strides[rows] + whole.strides[columns];
    }
    for (int i = 0; i < whole.shape.rank(); ++i) {
      if (i == rows || i == columns) continue;
      layout.shape.push_back(whole.shape[i]);
      layout.strides.push_back(whole.strides[i]);
    }
    layout.shape.push_back(length);
    layout.strides.push_back(step);
    return layout;
  }
};

struct Diagonal {
  static constexpr std::string_view kName = "diagonal";
  Plane plane;
  Shape from{};

  Tensor forward(const Tensor& x) {
    from = x.shape();
    return x.with_layout(plane.look(x.layout()));
  }
  Variable backward(const Variable& dy) const {
    return send_part(dy, from, plane.look(contiguous_layout(from)));
  }
};

struct DiagEmbed {
  static constexpr std::string_view kName = "diag_embed";
  Plane plane;

  Tensor forward(const Tensor& x) const {
    const int64_t length = x.shape()[x.rank() - 1];
    const int64_t size = length + std::abs(plane.offset);
    Shape shape;
    for (int i = 0, next = 0; i <= x.rank(); ++i)
      shape.push_back(i == plane.rows || i == plane.columns ? size : x.shape()[next++]);
    Tensor y = Tensor::full(shape, 0, x.dtype(), x.device());
    Tensor target = y.with_layout(plane.look(y.layout()));
    kernels::copy(x, target);
    return y;
  }
  Variable backward(const Variable& dy) const {
    return diagonal(dy, plane.offset, plane.rows, plane.columns);
  }
};

/// Sets elements to 0 where column - row is beyond the diagonal.
Variable triangle(std::string_view op, const Variable& x, int64_t diagonal, bool lower,
                  Where where) {
  const ErrorLine line(where);
  if (x.rank() < 2) fail<ShapeError>(op, ": a matrix is wanted, not ", x.shape());
  const int64_t rows = x.size(-2), columns = x.size(-1);
  diagonal = std::clamp(diagonal, -rows, columns);  // those beyond keep or drop every element
  const bool is_short = std::max(rows, columns) < int64_t(1) << 30;
  const TensorOptions here{.dtype = is_short ? i32 : i64, .device = x.device()};
  const Variable bound = unsqueeze(arange(diagonal, diagonal + rows, 1, here), 1);
  const Variable column = arange(columns, here);
  return masked_fill(x, lower ? gt(column, bound) : lt(column, bound), 0, where);
}

}  // namespace

Variable tril(const Variable& x, int64_t diagonal, Where where) {
  return triangle("tril", x, diagonal, /*lower=*/true, where);
}
Variable triu(const Variable& x, int64_t diagonal, Where where) {
  return triangle("triu", x, diagonal, /*lower=*/false, where);
}

Variable diagonal(const Variable& x, int64_t offset, int dim1, int dim2, Where where) {
  const ErrorLine line(where);
  return apply(Diagonal{{Diagonal::kName, offset, dim1, dim2, x.rank()}}, where, x);
}
Variable diag_embed(const Variable& x, int64_t offset, int dim1, int dim2, Where where) {
  const ErrorLine line(where);
  if (x.rank() == 0) fail<ShapeError>("diag_embed: a number has no dimension to lay out");
  constexpr int64_t kMost = int64_t(1) << 31;
  if (offset <= -kMost || offset >= kMost)
    fail<ArgumentError>("diag_embed: the offset must be below 2^31 either way: ", offset);
  return apply(DiagEmbed{{DiagEmbed::kName, offset, dim1, dim2, x.rank() + 1}}, where, x);
}

Variable diag(const Variable& x, int64_t diagonal, Where where) {
  const ErrorLine line(where);
  if (x.rank() == 1) return diag_embed(x, diagonal, 0, 1, where);
  if (x.rank() != 2) fail<ShapeError>("diag: a vector or a matrix is wanted, not ", x.shape());
  return clone(tapegrad::diagonal(x, diagonal, 0, 1, where), where);
}

Variable trace(const Variable& x, Where where) {
  const ErrorLine line(where);
  if (x.rank() != 2) fail<ShapeError>("trace: a matrix is wanted, not ", x.shape());
  return sum(diagonal(x, 0, 0, 1, where), where);
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
  const DType dtype = is_float(x.dtype()) ? x.dtype() : i64;
  return pow(unsqueeze(x, -1).to(dtype), exponents.to(dtype));
}

void catalog_diagonal(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("tril(input, diagonal: int = 0)", "x[i, j] where j - i <= diagonal, else 0",
              [](A a) { return tril(a[0], a.integer("diagonal")); });
  catalog.add("triu(input, diagonal: int = 0)", "x[i, j] where j - i >= diagonal, else 0",
              [](A a) { return triu(a[0], a.integer("diagonal")); });
  catalog.add("diagonal(input, offset: int = 0, dim1: int = 0, dim2: int = 1)",
              "y[..., i] = x[i, ..., i + offset]", [](A a) {
                return diagonal(a[0], a.integer("offset"), a.int32("dim1"), a.int32("dim2"));
              });
  catalog.add("diag_embed(input, offset: int = 0, dim1: int = -2, dim2: int = -1)",
              "y[..., i, i + offset] = x[..., i], else 0", [](A a) {
                return diag_embed(a[0], a.integer("offset"), a.int32("dim1"), a.int32("dim2"));
              });
  catalog.add("diag(input, diagonal: int = 0)", "the diagonal of a matrix, or a matrix of it",
              [](A a) { return diag(a[0], a.integer("diagonal")); });
  catalog.add("trace(input)", "the sum of x[i, i]", [](A a) { return trace(a[0]); });
  catalog.add(
      "tril_indices(row: int, col: int, offset: int = 0)", "the places of the lower triangle",
      [](A a) { return tril_indices(a.integer("row"), a.integer("col"), a.integer("offset")); },
      {.max_order = 0});
  catalog.add(
      "triu_indices(row: int, col: int, offset: int = 0)", "the places of the upper triangle",
      [](A a) { return triu_indices(a.integer("row"), a.integer("col"), a.integer("offset")); },
      {.max_order = 0});
  catalog.add("vander(x, N: int = none, increasing: bool = false)", "powers as columns", [](A a) {
    return vander(a[0], a.has("N") ? std::optional(a.integer("N")) : std::nullopt,
                  a.flag("increasing"));
  });
}

Variable diagonal(const Variable& x, DiagonalOptions options, Where where) {
  return diagonal(x, options.offset, options.dim1, options.dim2, where);
}
}  // namespace tapegrad
