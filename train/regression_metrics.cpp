#include "train/regression_metrics.h"

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

void require_equal_shapes(const char* name, const Variable& output, const Variable& target) {
  if (output.shape() != target.shape() || output.rank() == 0)
    fail<ShapeError>(name, ": output ", output.shape(), " and target ", target.shape(),
                     " do not fit");
}

Variable difference(const Variable& output, const Variable& target) {
  return output.detach().to(f64) - target.detach().to(f64);
}

Variable element_count(const Variable& x) {
  return full({}, x.numel(), {.dtype = i64, .device = x.device()});
}

}  // namespace

void MeanAbsoluteError::add(const Variable& output, const Variable& target) {
  const NoGrad no_grad;
  require_equal_shapes("MeanAbsoluteError", output, target);
  accumulate("sum", sum(abs(difference(output, target))));
  accumulate("count", element_count(output));
}

double MeanAbsoluteError::value() const {
  return total("count").defined() ? number("sum") / number("count") : kNaN;
}

void MeanSquaredError::add(const Variable& output, const Variable& target) {
  const NoGrad no_grad;
  require_equal_shapes("MeanSquaredError", output, target);
  accumulate("sum", sum(square(difference(output, target))));
  accumulate("count", element_count(output));
}

double MeanSquaredError::value() const {
  return total("count").defined() ? number("sum") / number("count") : kNaN;
}

void R2::add(const Variable& output, const Variable& target) {
  const NoGrad no_grad;
  require_equal_shapes("R2", output, target);
  const int64_t rows = output.size(0);
  if (rows == 0) return;
  const Variable x = reshape(output.detach().to(f64), {rows, -1});
  const Variable y = reshape(target.detach().to(f64), {rows, -1});
  const Variable mean = tapegrad::mean(y, {0});
  const Variable count = full({}, double(rows), {.dtype = f64, .device = y.device()});
  accumulate("residual", sum(square(y - x), {0}));
  const Variable squares = sum(square(y - mean), {0});  // around the mean of this batch
  if (!total("count").defined()) {
    set("mean", mean);
    set("squares", squares);
  } else {
    // Joins two sets of numbers by their counts, means and squares around the means.
    const Variable before = total("count").to(y.device()), all = before + count;
    const Variable old = total("mean").to(y.device()), apart = mean - old;
    set("mean", old + apart * (count / all));
    accumulate("squares", squares + square(apart) * (before * count / all));
  }
  accumulate("count", count);
}

double R2::value() const {
  if (number("count") < 2) return kNaN;
  const std::vector<double> residual = total("residual").to_vector<double>(),
                            squares = total("squares").to_vector<double>();
  double all = 0;
  for (size_t i = 0; i < residual.size(); ++i)
    all += squares[i] > 0 ? 1 - residual[i] / squares[i] : residual[i] == 0 ? 1 : 0;
  return all / double(residual.size());
}

}  // namespace tapegrad
