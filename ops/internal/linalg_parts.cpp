#include "ops/internal/linalg_parts.h"

#include "core/base/error.h"
#include "ops/create.h"
#include "ops/internal/matrix_views.h"
#include "ops/internal/value_checks.h"
#include "ops/linalg.h"
#include "ops/view.h"

namespace tapegrad::detail {
namespace {

int64_t batch_of(const Shape& shape) { return numel(front_of(shape)); }

Tensor reshaped(const Tensor& dense, const Shape& shape) {
  return dense.with_layout(contiguous_layout(shape, dense.layout().offset));
}

}  // namespace

void require_matrix(std::string_view op, const Tensor& x) {
  if (x.rank() < 2) fail<ShapeError>(op, ": a matrix is wanted, not ", x.shape());
  if (x.dtype() != f32 && x.dtype() != f64)
    fail<DTypeError>(op, ": float32 or float64 is wanted, not ", x.dtype());
}

void require_square(std::string_view op, const Tensor& x) {
  require_matrix(op, x);
  if (x.shape()[x.rank() - 1] != x.shape()[x.rank() - 2])
    fail<ShapeError>(op, ": a square matrix is wanted, not ", x.shape());
}

Shape with_matrix(const Shape& shape, int64_t rows, int64_t columns) {
  Shape other = shape;
  other[shape.rank() - 2] = rows;
  other[shape.rank() - 1] = columns;
  return other;
}

Shape front_of(const Shape& shape) {
  Shape front;
  for (int i = 0; i + 2 < shape.rank(); ++i) front.push_back(shape[i]);
  return front;
}

Tensor by_columns(const Tensor& x) {
  const int r = x.rank();
  return reshaped(transposed(x).clone(), {batch_of(x.shape()), x.shape()[r - 1], x.shape()[r - 2]});
}

Tensor by_rows(const Tensor& columns, const Shape& shape) {
  const int r = shape.rank();
  return transposed(reshaped(columns, with_matrix(shape, shape[r - 1], shape[r - 2]))).clone();
}

Tensor info_for(const Tensor& columns) {
  return Tensor::full({columns.shape()[0]}, 0, i32, columns.device());
}

void check_info(std::string_view op, const Tensor& info, std::string_view rule) {
  check_values(info, [op, rule](const Tensor& statuses) {
    const Tensor here = statuses.to(cpu);
    const int32_t* values = here.data<int32_t>();
    for (int64_t i = 0; i < here.numel(); ++i)
      if (values[i] < 0)
        fail<LinAlgError>(op, ": matrix ", i, " of ", here.numel(),
                          " in the batch has values that are not finite");
      else if (values[i] != 0)
        fail<LinAlgError>(op, ": ", rule, ": matrix ", i, " of ", here.numel(),
                          " in the batch, at ", values[i]);
  });
}

Variable identity_like(const Variable& x) {
  return expand(eye(x.size(-1), {}, {.dtype = x.dtype(), .device = x.device()}), x.shape());
}

auto mT(const Variable& x) -> Variable { return transpose(x, -2, -1); }
auto as_scalar(const Variable& x) -> Variable { return unsqueeze(unsqueeze(x, -1), -1); }
auto as_row(const Variable& x) -> Variable { return unsqueeze(x, -2); }
auto as_column(const Variable& x) -> Variable { return unsqueeze(x, -1); }

OneBatch broadcast_batches(std::string_view op, const Variable& a, const Variable& b) {
  const Shape left = front_of(a.shape()), right = front_of(b.shape());
  if (left == right) return {a, b};
  const Shape front = broadcast(op, left, right);
  const auto spread = [&](const Variable& x) {
    Shape shape = front;
    shape.push_back(x.size(-2)), shape.push_back(x.size(-1));
    return expand(x, shape);
  };
  return {spread(a), spread(b)};
}

}  // namespace tapegrad::detail
