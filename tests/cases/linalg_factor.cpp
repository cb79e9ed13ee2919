// Factorisations and ops based on them: qr, svd, eigh, pinv, lstsq.
#include "ops/diagonal.h"
#include "ops/unary.h"
#include "tests/cases/linalg_parts.h"

namespace tapegrad::testing {
namespace {

/// Gram-Schmidt, which makes the diagonal of R positive.
Matrix q_of(const Matrix& x) {
  Matrix q{x.rows, std::min(x.rows, x.columns)};
  for (int64_t j = 0; j < q.columns; ++j) {
    for (int64_t i = 0; i < x.rows; ++i) q(i, j) = x(i, j);
    for (int repeat = 0; repeat < 2; ++repeat)
      for (int64_t k = 0; k < j; ++k) {
        double along = 0;
        for (int64_t i = 0; i < x.rows; ++i) along += q(i, k) * q(i, j);
        for (int64_t i = 0; i < x.rows; ++i) q(i, j) -= along * q(i, k);
      }
    double square = 0;
    for (int64_t i = 0; i < x.rows; ++i) square += q(i, j) * q(i, j);
    for (int64_t i = 0; i < x.rows; ++i) q(i, j) /= std::sqrt(square);
  }
  return q;
}

Matrix pseudo(const Matrix& x) {
  const Matrix t = transposed(x);
  return x.rows < x.columns ? t * inverse(x * t) : inverse(t * x) * t;
}

/// L below the diagonal and U above it, of A = P L U.
Matrix lu_of(Matrix a) {
  for (int64_t k = 0; k < a.rows; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < a.rows; ++i)
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    for (int64_t j = 0; j < a.rows; ++j) std::swap(a(k, j), a(pivot, j));
    for (int64_t i = k + 1; i < a.rows; ++i) {
      a(i, k) /= a(k, k);
      for (int64_t j = k + 1; j < a.rows; ++j) a(i, j) -= a(i, k) * a(k, j);
    }
  }
  return a;
}
Matrix upside_down(const Matrix& x) {
  Matrix y{x.rows, x.columns};
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.columns; ++j) y(i, j) = x(x.rows - 1 - i, j);
  return y;
}
/// Well-conditioned matrices whose rows are exchanged by the factorisation.
Variables shift_and_turn(Variables in) {
  in[0] = flip(shift_first(in)[0], Dims{-2});
  return in;
}
/// P L U for the pivots 2, 3, 3 and factors in one matrix.
Matrix product_of_factors(const Matrix& lu) {
  Matrix l = identity(3), u{3, 3}, p{3, 3};
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j) (j < i ? l : u)(i, j) = lu(i, j);
  p(1, 0) = p(2, 1) = p(0, 2) = 1;
  return p * l * u;
}
Variables with_pivots(Variables in) {
  in = shift_first(std::move(in));
  in[1] = tensor({2, 3, 3}, i32);
  return in;
}

Array itself(const std::vector<Array>& in) { return in[0]; }

}  // namespace

void draw_factors(OpCases& cases, Choices& choices) {
  const int64_t batch = choices.between(0, 3), m = choices.between(1, 7), n = choices.between(1, 7);
  OpCase row{
      .op = {}, .inputs = {Input{matrices(batch, m, n)}}, .tolerance = 32, .dtypes = kMatrixTypes};
  const auto square = [&] { row.inputs = {Input{matrices(batch, n, n)}}; };
  switch (choices.below(7)) {
    case 0:
      row.op = "linalg.qr";
      row.attributes = {{"mode", std::string(choices.flag() ? "reduced" : "complete")}};
      row.inputs[0]->grad = false;  // the columns may be nearly dependent
      row.reference = itself;
      row.after = [](Variables y) { return Variables{matmul(y[0], y[1])}; };
      break;
    case 1:
      row.op = "linalg.qr";
      row.inputs[0]->grad = false;
      row.reference = of_matrices(
          [](const Matrices& in) { return identity(std::min(in[0].rows, in[0].columns)); });
      row.after = [](Variables y) { return Variables{matmul(transpose(y[0], -2, -1), y[0])}; };
      break;
    case 2:
      row.op = "linalg.svd";
      row.attributes = {{"full_matrices", choices.flag()}};
      row.reference = itself;
      row.after = [](Variables y) {
        const int64_t k = y[1].size(-1);
        return Variables{
            matmul(narrow(y[0], -1, 0, k) * unsqueeze(y[1], -2), narrow(y[2], -2, 0, k))};
      };
      break;
    case 3:
      row.op = "linalg.svdvals";  // squared, like the reference's values
      row.reference = of_matrices(
          [](const Matrices& in) {
            std::vector<double> values = singular_values(in[0]);
            for (double& value : values) value *= value;
            return testing::row(values);
          },
          1);
      row.after = [](Variables y) { return Variables{y[0] * y[0]}; };
      break;
    case 4:
      row.op = "linalg.eigh";
      square();
      row.attributes = {{"UPLO", std::string(choices.flag() ? "U" : "L")}};
      row.reference = of_matrices([](const Matrices& in) { return symmetric(in[0]); });
      row.before = symmetrize;
      row.after = [](Variables y) {
        return Variables{matmul(y[1] * unsqueeze(y[0], -2), transpose(y[1], -2, -1))};
      };
      break;
    case 5:
      row.op = "linalg.eigvalsh";
      square();
      row.attributes = {{"UPLO", std::string(choices.flag() ? "U" : "L")}};
      row.reference = of_matrices(
          [](const Matrices& in) { return testing::row(spectrum(symmetric(in[0])).values); }, 1);
      row.before = symmetrize;
      break;
    case 6: {
      const int64_t less = choices.between(1, 4), more = 2 * less + choices.between(0, 3);
      const bool wide = choices.flag();
      row.op = "linalg.pinv";
      row.inputs = {Input{matrices(batch, wide ? less : more, wide ? more : less)}};
      row.reference = of_matrices([](const Matrices& in) { return pseudo(in[0]); });
      row.tolerance = 128;
      break;
    }
  }
  cases.push_back(row);
}

void linalg_factor_cases(OpCases& cases) {
  const auto positive = [](Variables y) {
    const int64_t k = std::min(y[1].size(-2), y[1].size(-1));
    const Variable signs = sign(diagonal(y[1], 0, -2, -1));
    return Variables{narrow(y[0], -1, 0, k) * unsqueeze(signs, -2),
                     narrow(y[1], -2, 0, k) * unsqueeze(signs, -1)};
  };
  for (const char* mode : {"reduced", "complete"})
    for (Shape shape : {Shape{4, 3}, Shape{3, 3}, Shape{2, 3}, Shape{2, 3, 2}, Shape{1, 1}}) {
      const bool tall = shape[shape.rank() - 2] > shape[shape.rank() - 1];
      cases.push_back({.op = "linalg.qr",
                       .inputs = {Input{.shape = shape, .grad = !tall || mode[0] == 'r'}},
                       .attributes = {{"mode", std::string(mode)}},
                       .reference = of_matrices([](const Matrices& in) { return q_of(in[0]); }),
                       .tolerance = 32,
                       .dtypes = kMatrixTypes,
                       .after = positive});
    }
  cases.push_back(
      {.op = "linalg.qr",
       .inputs = {Input{.shape = {4, 3}, .grad = false}},
       .attributes = {{"mode", std::string("r")}},
       .reference = of_matrices([](const Matrices& in) { return transposed(q_of(in[0])) * in[0]; }),
       .tolerance = 32,
       .dtypes = kMatrixTypes,
       .after = [](Variables y) {
         return Variables{y[1] * unsqueeze(sign(diagonal(y[1], 0, -2, -1)), -1)};
       }});

  const auto factors =
      of_matrices([](const Matrices& in) { return lu_of(upside_down(shifted(in[0]))); });
  for (Shape shape : {Shape{3, 3}, Shape{2, 4, 4}, Shape{1, 1}}) {
    cases.push_back({.op = "linalg.lu_factor",
                     .inputs = {Input{shape}},
                     .reference = factors,
                     .tolerance = 32,
                     .dtypes = kMatrixTypes,
                     .before = shift_and_turn,
                     .after = [](Variables y) { return Variables{y[0]}; }});
    cases.push_back({.op = "linalg.lu",
                     .inputs = {Input{shape}},
                     .reference = factors,
                     .tolerance = 32,
                     .dtypes = kMatrixTypes,
                     .before = shift_and_turn,
                     .after = [](Variables y) {
                       return Variables{tril(y[1], -1) + y[2], matmul(matmul(y[0], y[1]), y[2])};
                     }});
  }
  for (bool left : {true, false})
    cases.push_back({.op = "linalg.lu_solve",
                     .inputs = {Input{{3, 3}}, Input{{3}, Fill::kIndices, 1},
                                Input{left ? Shape{3, 2} : Shape{2, 3}}},
                     .attributes = {{"left", left}},
                     .reference =
                         [left](const std::vector<Array>& in) {
                           const Matrix a = product_of_factors(shifted(matrix_at(in[0], 0)));
                           const Matrix b = matrix_at(in[2], 0);
                           const Matrix x = left ? inverse(a) * b : b * inverse(a);
                           return Array{in[2].shape, x.values};
                         },
                     .tolerance = 64,
                     .dtypes = kMatrixTypes,
                     .before = with_pivots});

  const auto values =
      of_matrices([](const Matrices& in) { return row(singular_values(in[0])); }, 1);
  for (Shape shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 3}, Shape{2, 2, 2}, Shape{1, 1}}) {
    for (bool full : {false, true})
      cases.push_back({.op = "linalg.svd",
                       .inputs = {Input{shape}},
                       .attributes = {{"full_matrices", full}},
                       .reference = values,
                       .tolerance = 32,
                       .dtypes = kMatrixTypes,
                       .after = [](Variables y) {
                         const int64_t k = y[1].size(-1);
                         const Variable u = narrow(y[0], -1, 0, k), vh = narrow(y[2], -2, 0, k);
                         const Variable weights = arange(1, k + 1).to(u.dtype());
                         return Variables{y[1], without_signs(u),
                                          without_signs(transpose(vh, -2, -1)),
                                          matmul(u * weights, vh)};
                       }});
    cases.push_back({.op = "linalg.svdvals",
                     .inputs = {Input{shape}},
                     .reference = values,
                     .tolerance = 32,
                     .dtypes = kMatrixTypes});
  }
  const auto eigenvalues =
      of_matrices([](const Matrices& in) { return row(spectrum(symmetric(in[0])).values); }, 1);
  for (const char* side : {"L", "U"})
    for (Shape shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{1, 1}, Shape{5, 5}}) {
      cases.push_back({.op = "linalg.eigh",
                       .inputs = {Input{shape}},
                       .attributes = {{"UPLO", std::string(side)}},
                       .reference = eigenvalues,
                       .tolerance = 32,
                       .dtypes = kMatrixTypes,
                       .before = symmetrize,
                       .after = [](Variables y) {
                         return Variables{y[0], without_signs(y[1])};
                       }});
      cases.push_back({.op = "linalg.eigvalsh",
                       .inputs = {Input{shape}},
                       .attributes = {{"UPLO", std::string(side)}},
                       .reference = eigenvalues,
                       .tolerance = 32,
                       .dtypes = kMatrixTypes,
                       .before = symmetrize});
    }

  for (Shape shape : {Shape{4, 3}, Shape{2, 3}, Shape{2, 3, 2}, Shape{2, 2}})
    cases.push_back({.op = "linalg.pinv",
                     .inputs = {Input{shape}},
                     .reference = of_matrices([](const Matrices& in) { return pseudo(in[0]); }),
                     .tolerance = 128,
                     .dtypes = kMatrixTypes});
  cases.push_back({.op = "linalg.pinv",
                   .inputs = {Input{{4, 3}}},
                   .attributes = {{"rtol", 1e-4}},
                   .reference = of_matrices([](const Matrices& in) {
                     Matrix y{3, 4};
                     double c = 0, r = 0;
                     for (int64_t i = 0; i < 4; ++i) c += in[0](i, 0) * in[0](i, 0);
                     for (int64_t j = 0; j < 3; ++j) r += in[0](0, j) * in[0](0, j);
                     for (int64_t j = 0; j < 3; ++j)
                       for (int64_t i = 0; i < 4; ++i)
                         y(j, i) = in[0](0, j) * in[0](i, 0) / (c * r);
                     return y;
                   }),
                   .tolerance = 32,
                   .dtypes = kMatrixTypes,
                   .before = of_rank_one});
  const auto least = of_matrices([](const Matrices& in) { return pseudo(in[0]) * in[1]; });
  const auto lstsq_case = [&](Shape a, Shape b, Reference reference) {
    cases.push_back({.op = "linalg.lstsq",
                     .inputs = {Input{a}, Input{b}},
                     .reference = std::move(reference),
                     .tolerance = 128,
                     .dtypes = kMatrixTypes,
                     .after = [](Variables y) {
                       return Variables{y[0], y[1]};
                     }});
  };
  lstsq_case({4, 3}, {4, 2}, least);
  lstsq_case({2, 3}, {2, 2}, least);
  lstsq_case({2, 3, 2}, {2, 3, 1}, least);
  lstsq_case({3, 2}, {2, 3, 1}, least);
  lstsq_case({4, 2}, {4}, [](std::vector<Array> in) {
    in[1].shape = {4, 1};
    return Array{{2}, (pseudo(matrix_at(in[0], 0)) * matrix_at(in[1], 0)).values};
  });
}

}  // namespace tapegrad::testing
