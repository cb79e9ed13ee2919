// Factors of matrices and triangular solves, by recursion to products of halves.
#pragma once

#include "backends/cpu/tools/gemm.h"

namespace tapegrad::backends::cpu {

/// A strided matrix that is written to; one of the strides is 1.
template <typename T>
struct Block {
  T* data;
  int64_t row, column;

  T& at(int64_t i, int64_t j) const { return data[i * row + j * column]; }
  Block from(int64_t i, int64_t j) const { return {&at(i, j), row, column}; }
  Block transposed() const { return {data, column, row}; }
  Matrix<T> matrix() const { return {data, row, column}; }
};

/// Selection of a triangle of a matrix, and whether its diagonal counts as ones.
struct Triangular {
  bool upper, unit;
};

/// Solves t x = b for a triangular n x n matrix t and overwrites b [n, columns] with x.
template <typename T>
void solve_triangle(Triangular form, int64_t n, int64_t columns, Block<T> t, Block<T> b);

/// Overwrites the lower triangle of a symmetric matrix with its Cholesky factor. Returns 0, or the
/// number of the first column, from 1, whose pivot is not positive.
template <typename T>
int64_t factor_cholesky(int64_t n, Block<T> a);

/// Overwrites a [m, n] with its factors L and U. pivots[i], from 1, is the row that was exchanged
/// with row i. Returns 0, or the number of the first column, from 1, whose pivot is 0.
template <typename T>
int64_t factor_lu(int64_t m, int64_t n, Block<T> a, int* pivots);

/// Exchanges row i with row pivots[i] - 1, for i in [0, count) or, if `reversed`, backwards.
template <typename T>
void exchange_rows(int64_t count, const int* pivots, bool reversed, int64_t columns, Block<T> a);

}  // namespace tapegrad::backends::cpu
