// Plain matrices of doubles, for the references of linear algebra.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values = std::vector<double>(size_t(rows * columns));

  double& operator()(int64_t i, int64_t j) { return values[size_t(i * columns + j)]; }
  double operator()(int64_t i, int64_t j) const { return values[size_t(i * columns + j)]; }
};

inline Matrix identity(int64_t n) {
  Matrix y{n, n};
  for (int64_t i = 0; i < n; ++i) y(i, i) = 1;
  return y;
}

inline Matrix transposed(const Matrix& x) {
  Matrix y{x.columns, x.rows};
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.columns; ++j) y(j, i) = x(i, j);
  return y;
}

inline Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix y{a.rows, b.columns};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j)
      for (int64_t k = 0; k < a.columns; ++k) y(i, j) += a(i, k) * b(k, j);
  return y;
}

inline Matrix operator+(Matrix a, const Matrix& b) {
  for (size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

inline Matrix operator*(Matrix a, double factor) {
  for (double& value : a.values) value *= factor;
  return a;
}

/// X with A X = B by Gauss-Jordan elimination with row exchanges; and det A.
struct Solved {
  Matrix x;
  double determinant = 1;
};
inline Solved solved(Matrix a, Matrix b) {
  double determinant = 1;
  for (int64_t k = 0; k < a.rows; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < a.rows; ++i)
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    const auto exchange = [&](Matrix& m) {
      for (int64_t j = 0; j < m.columns; ++j) std::swap(m(k, j), m(pivot, j));
    };
    if (pivot != k) {
      exchange(a), exchange(b);
      determinant = -determinant;
    }
    const double p = a(k, k);
    determinant *= p;
    const auto eliminate = [&](Matrix& m, int64_t i, double factor) {
      for (int64_t j = 0; j < m.columns; ++j) m(i, j) -= factor * m(k, j);
    };
    const auto divide = [&](Matrix& m) {
      for (int64_t j = 0; j < m.columns; ++j) m(k, j) /= p;
    };
    divide(a), divide(b);
    for (int64_t i = 0; i < a.rows; ++i) {
      if (i == k) continue;
      const double factor = a(i, k);
      eliminate(a, i, factor), eliminate(b, i, factor);
    }
  }
  return {b, determinant};
}
inline Matrix inverse(const Matrix& x) { return solved(x, identity(x.rows)).x; }

/// Eigenvalues of a symmetric matrix in ascending order, and eigenvectors as columns, by Jacobi
/// rotations.
struct Spectrum {
  std::vector<double> values;
  Matrix vectors;
};
inline Spectrum spectrum(Matrix a) {
  const int64_t n = a.rows;
  Matrix v = identity(n);
  for (int sweep = 0; sweep < 60; ++sweep)
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const double theta = 0.5 * std::atan2(2 * a(p, q), a(q, q) - a(p, p));
        Matrix turn = identity(n);
        turn(p, p) = turn(q, q) = std::cos(theta);
        turn(p, q) = std::sin(theta);
        turn(q, p) = -turn(p, q);
        a = transposed(turn) * a * turn;
        v = v * turn;
      }
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return a(i, i) < a(j, j); });
  Spectrum sorted{{}, Matrix{n, n}};
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[size_t(j)];
    sorted.values.push_back(a(from, from));
    for (int64_t i = 0; i < n; ++i) sorted.vectors(i, j) = v(i, from);
  }
  return sorted;
}

/// Singular values in descending order.
inline std::vector<double> singular_values(const Matrix& x) {
  const Matrix gram = x.rows < x.columns ? x * transposed(x) : transposed(x) * x;
  std::vector<double> values = spectrum(gram).values;
  std::reverse(values.begin(), values.end());
  for (double& value : values) value = std::sqrt(std::max(value, 0.0));
  return values;
}

/// Matrix `index` of an array; a smaller batch is repeated.
inline Matrix matrix_at(const Array& x, int64_t index) {
  const int r = x.shape.rank();
  Matrix y{x.shape[r - 2], x.shape[r - 1]};
  const int64_t count = y.rows * y.columns, batch = int64_t(x.values.size()) / count;
  std::copy_n(x.values.begin() + (index % batch) * count, count, y.values.begin());
  return y;
}

}  // namespace tapegrad::testing
