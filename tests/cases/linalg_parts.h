// Shared by the rows of linear algebra: references based on plain matrices, and changes of inputs
// before an op.
#pragma once

#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/cases/drawn_cases.h"
#include "tests/cases/matrix.h"

namespace tapegrad::testing {

using Variables = std::vector<Variable>;
using Matrices = std::vector<Matrix>;
inline constexpr double kShift = 6;  // makes random matrices well conditioned

inline const std::vector<DType> kMatrixTypes{f64, f32};

/// Reference that applies f to the matrices at one batch index of each input. The batch is that of
/// the largest input. Results that are a row or column drop that dimension (dropped = 1), numbers
/// drop both (2).
inline Reference of_matrices(std::function<Matrix(const Matrices&)> f, int dropped = 0) {
  return [=](const std::vector<Array>& inputs) {
    const Array* largest = &inputs[0];
    for (const Array& x : inputs)
      if (x.shape.rank() > largest->shape.rank()) largest = &x;
    Array y;
    int64_t batch = 1;
    for (int i = 0; i + 2 < largest->shape.rank(); ++i) {
      y.shape.push_back(largest->shape[i]);
      batch *= largest->shape[i];
    }
    Matrix one;
    for (int64_t i = 0; i < batch; ++i) {
      Matrices at;
      for (const Array& x : inputs) at.push_back(matrix_at(x, i));
      one = f(at);
      y.values.insert(y.values.end(), one.values.begin(), one.values.end());
    }
    if (dropped == 0) y.shape.push_back(one.rows);
    if (dropped <= 1) y.shape.push_back(one.columns);
    return y;
  };
}

inline Matrix row(const std::vector<double>& values) { return {1, int64_t(values.size()), values}; }
inline Matrix number(double value) { return {1, 1, {value}}; }
inline Matrix shifted(const Matrix& x) { return x + identity(x.rows) * kShift; }
inline Matrix gram(const Matrix& x) { return x * transposed(x) + identity(x.rows); }
inline Matrix symmetric(const Matrix& x) { return (x + transposed(x)) * 0.5; }

// Changes of inputs, written with ops.

inline Variable eye_like(const Variable& x) { return eye(x.size(-1), {}, {.dtype = x.dtype()}); }
inline Variables shift_first(Variables in) {
  in[0] = in[0] + eye_like(in[0]) * kShift;
  return in;
}
inline Variables shift_second(Variables in) {
  in[1] = in[1] + eye_like(in[1]) * kShift;
  return in;
}
inline Variables make_gram(Variables in) {
  const Variable product = matmul(in[0], transpose(in[0], -2, -1));
  return {product + eye_like(product)};
}
inline Variables symmetrize(Variables in) { return {(in[0] + transpose(in[0], -2, -1)) * 0.5}; }
inline Variables of_rank_one(Variables in) {
  return {matmul(narrow(in[0], -1, 0, 1), narrow(in[0], -2, 0, 1))};
}

/// sum of k x_k x_k^T over the columns x_k of x, which does not depend on their signs.
inline Variable without_signs(const Variable& x) {
  const Variable weights = arange(1, x.size(-1) + 1).to(x.dtype());
  return matmul(x * weights, transpose(x, -2, -1));
}

/// Shape of a matrix, or of a batch of matrices.
inline Shape matrices(int64_t batch, int64_t rows, int64_t columns) {
  return batch == 0 ? Shape{rows, columns} : Shape{batch, rows, columns};
}

}  // namespace tapegrad::testing
