// RowGradient: the gradient of a matrix that is zero except in some rows, such as that of an
// embedding table. Only these rows are stored.
#pragma once

#include <memory>

#include "core/base/tensor.h"

namespace tapegrad {

class RowGradient {
 public:
  /// indices: int64 [u], ascending, without repetition, on the device of rows [u, d].
  RowGradient(Tensor indices, Tensor rows) : indices_(std::move(indices)), rows_(std::move(rows)) {}
  virtual ~RowGradient() = default;
  RowGradient(const RowGradient&) = delete;
  RowGradient& operator=(const RowGradient&) = delete;

  const Tensor& indices() const { return indices_; }
  const Tensor& rows() const { return rows_; }

  /// Returns the whole matrix, with zeros in the other rows.
  virtual Tensor dense() const = 0;
  /// Returns the sum of this gradient and another of the same matrix.
  virtual std::shared_ptr<const RowGradient> plus(const RowGradient& other) const = 0;

 private:
  Tensor indices_, rows_;
};
using RowGradientPtr = std::shared_ptr<const RowGradient>;

}  // namespace tapegrad
