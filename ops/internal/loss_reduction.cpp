#include "ops/internal/loss_reduction.h"

#include "core/base/error.h"
#include "core/base/internal/shape_mismatch.h"
#include "ops/reduce.h"

namespace tapegrad::detail {

void check_equal_shapes(std::string_view op, const Variable& x, const Variable& target) {
  if (x.shape() != target.shape())
    fail<ShapeError>(op, ": input and target have different shapes: ", x.shape(), " and ",
                     target.shape(), draw_difference("input", x.shape(), "target", target.shape()));
}

Tensor as_pixels(const Tensor& x) {
  const Shape& shape = x.shape();
  const int64_t examples = shape.rank() > 1 ? shape[0] : 1, classes = shape[class_dim(shape)];
  const int64_t pixels = shape.rank() > 2 ? numel(shape, 2, shape.rank()) : 1;
  return x.with_layout(
      {{examples, pixels, classes}, {pixels * classes, 1, pixels}, x.layout().offset});
}

Variable reduced(const Variable& losses, Reduction reduction, Where where) {
  switch (reduction) {
    case Reduction::kMean:
      return mean(losses, where);
    case Reduction::kSum:
      return sum(losses, where);
    case Reduction::kNone:
      break;
  }
  return losses;
}

Reduction reduction_of(const Arguments& arguments) {
  const std::string text = arguments.text("reduction");
  if (text == "mean") return Reduction::kMean;
  if (text == "sum") return Reduction::kSum;
  if (text == "none") return Reduction::kNone;
  fail<ArgumentError>("loss: reduction is mean, sum or none, not \"", text, '"');
}

}  // namespace tapegrad::detail
