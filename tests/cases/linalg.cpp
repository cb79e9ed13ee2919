// Solving, inverses and determinants.
#include "tests/cases/linalg_parts.h"

namespace tapegrad::testing {
namespace {

OpCase solve_case(Shape a, Shape b, bool left, Reference reference) {
  return {.op = "linalg.solve",
          .inputs = {Input{a}, Input{b}},
          .attributes = {{"left", left}},
          .reference = std::move(reference),
          .tolerance = 32,
          .dtypes = kMatrixTypes,
          .before = shift_first};
}
Reference solution(bool left) {
  return of_matrices([left](const Matrices& in) {
    const Matrix a = shifted(in[0]);
    return left ? solved(a, in[1]).x : transposed(solved(transposed(a), transposed(in[1])).x);
  });
}

OpCase of_one(const char* op, Shape shape, Matrix (*f)(const Matrix&),
              Variables (*before)(Variables), int dropped = 0,
              Variables (*after)(Variables) = nullptr, Attributes attributes = {}) {
  return {.op = op,
          .inputs = {Input{shape}},
          .attributes = std::move(attributes),
          .reference = of_matrices([=](const Matrices& in) { return f(in[0]); }, dropped),
          .tolerance = 32,
          .dtypes = kMatrixTypes,
          .before = before,
          .after = after};
}

Matrix inverse_shifted(const Matrix& x) { return inverse(shifted(x)); }
Matrix determinant(const Matrix& x) { return number(solved(x, x).determinant); }
Matrix log_magnitude(const Matrix& x) {
  return number(std::log(std::abs(solved(x, x).determinant)));
}
Matrix sign_of(const Matrix& x) { return number(solved(x, x).determinant < 0 ? -1.0 : 1.0); }
Variables second(Variables y) { return {y[1]}; }

Matrix factor(const Matrix& x) {
  const Matrix a = gram(x);
  Matrix l{a.rows, a.rows};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double rest = a(i, j);
      for (int64_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
    }
  return l;
}
Matrix upper_factor(const Matrix& x) { return transposed(factor(x)); }

Matrix triangle(Matrix x, bool upper, bool unit) {
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.columns; ++j) {
      if (upper ? j < i : j > i) x(i, j) = 0;
      if (unit && i == j) x(i, j) = 1;
    }
  return x;
}

OpCase triangular_case(Shape a, Shape b, bool upper, bool unit, bool left) {
  const auto reference = [=](const Matrices& in) {
    const Matrix t = triangle(shifted(in[0]), upper, unit);
    return left ? solved(t, in[1]).x : transposed(solved(transposed(t), transposed(in[1])).x);
  };
  return {.op = "linalg.solve_triangular",
          .inputs = {Input{a}, Input{b}},
          .attributes = {{"upper", upper}, {"left", left}, {"unitriangular", unit}},
          .reference = of_matrices(reference),
          .tolerance = 32,
          .dtypes = kMatrixTypes,
          .before = shift_first};
}

/// triangular_solve, which takes its operands in the opposite order.
OpCase older_triangular_case(Shape b, Shape a, bool upper, bool transpose) {
  return {.op = "triangular_solve",
          .inputs = {Input{b}, Input{a}},
          .attributes = {{"upper", upper}, {"transpose", transpose}},
          .reference = of_matrices([=](const Matrices& in) {
            const Matrix t = triangle(shifted(in[1]), upper, false);
            return solved(transpose ? transposed(t) : t, in[0]).x;
          }),
          .tolerance = 32,
          .dtypes = kMatrixTypes,
          .before = shift_second};
}

OpCase cholesky_solve_case(Shape b, Shape l, bool upper) {
  return {.op = "cholesky_solve",
          .inputs = {Input{b}, Input{l}},
          .attributes = {{"upper", upper}},
          .reference = of_matrices([=](const Matrices& in) {
            const Matrix t = triangle(shifted(in[1]), upper, false);
            return solved(upper ? transposed(t) * t : t * transposed(t), in[0]).x;
          }),
          .tolerance = 32,
          .dtypes = kMatrixTypes,
          .before = shift_second};
}

}  // namespace

void draw_solving(OpCases& cases, Choices& choices) {
  const int64_t n = choices.between(1, 8), k = choices.between(1, 4);
  const int64_t batch = choices.between(0, 3), own = choices.flag() ? batch : 0;
  const bool upper = choices.flag(), other = choices.flag();
  const Shape a = matrices(own, n, n), square = matrices(batch, n, n);
  const Shape b = matrices(batch, n, k), turned = matrices(batch, k, n);
  switch (choices.below(8)) {
    case 0:
      return cases.push_back(solve_case(a, other ? b : turned, other, solution(other)));
    case 1:
      return cases.push_back(of_one("linalg.inv", square, inverse_shifted, shift_first));
    case 2:
      return cases.push_back(of_one(
          "linalg.det", square, [](const Matrix& x) { return determinant(shifted(x)); },
          shift_first, 2));
    case 3:
      return cases.push_back(of_one(
          "linalg.slogdet", square, [](const Matrix& x) { return log_magnitude(shifted(x)); },
          shift_first, 2, second));
    case 4:
      return cases.push_back(of_one("linalg.cholesky", matrices(batch, n, k),
                                    upper ? upper_factor : factor, make_gram, 0, nullptr,
                                    {{"upper", upper}}));
    case 5: {
      const bool unit = choices.flag();
      if (unit && n > 4) return;  // large entries beside a diagonal of ones: badly conditioned
      return cases.push_back(triangular_case(a, other ? b : turned, upper, unit, other));
    }
    case 6:
      return cases.push_back(older_triangular_case(b, a, upper, other));
    default:
      return cases.push_back(cholesky_solve_case(b, a, upper));
  }
}

void linalg_cases(OpCases& cases) {
  const auto add = [&](OpCase row) { cases.push_back(std::move(row)); };
  add(solve_case({3, 3}, {3, 2}, true, solution(true)));
  add(solve_case({1, 1}, {1, 1}, true, solution(true)));
  add(solve_case({2, 3, 3}, {2, 3, 2}, true, solution(true)));
  add(solve_case({3, 3}, {2, 3, 1}, true, solution(true)));
  add(solve_case({2, 3, 3}, {3, 2}, true, solution(true)));
  add(solve_case({3, 3}, {2, 3}, false, solution(false)));
  add(solve_case({3, 3}, {3}, true, [](std::vector<Array> in) {
    in[1].shape = {3, 1};
    const Matrix x = solved(shifted(matrix_at(in[0], 0)), matrix_at(in[1], 0)).x;
    return Array{{3}, x.values};
  }));
  for (Shape shape : {Shape{3, 3}, Shape{2, 4, 4}, Shape{1, 1}})
    add(of_one("linalg.inv", shape, inverse_shifted, shift_first));
  add(of_one("linalg.inv", {2, 2}, inverse, nullptr));
  for (Shape shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{1, 1}, Shape{4, 4}}) {
    add(of_one("linalg.det", shape, determinant, nullptr, 2));
    add(of_one("linalg.slogdet", shape, sign_of, nullptr, 2));
    add(of_one("linalg.slogdet", shape, log_magnitude, nullptr, 2, second));
  }
  for (Shape shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{1, 1}, Shape{4, 2}})
    add(of_one("linalg.cholesky", shape, factor, make_gram));
  add(of_one("linalg.cholesky", {3, 3}, upper_factor, make_gram, 0, nullptr, {{"upper", true}}));
  for (bool upper : {false, true})
    for (bool unit : {false, true}) {
      add(triangular_case({3, 3}, {3, 2}, upper, unit, true));
      add(triangular_case({3, 3}, {2, 3}, upper, unit, false));
      if (!unit) add(triangular_case({2, 2, 2}, {2, 2}, upper, unit, true));
    }
  for (bool upper : {false, true}) {
    for (bool transpose : {false, true})
      add(older_triangular_case({2, 3, 2}, {3, 3}, upper, transpose));
    add(cholesky_solve_case({3, 2}, {3, 3}, upper));
  }
}

}  // namespace tapegrad::testing
