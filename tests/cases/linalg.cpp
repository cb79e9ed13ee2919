#include "ops/linalg.h"

#include <limits>

#include "ops/binary.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/matmul.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/cases/matrix.h"

namespace tapegrad::testing {
namespace {

using Variables = std::vector<Variable>;
using Matrices = std::vector<Matrix>;
constexpr double kShift = 6;  // makes random matrices well conditioned

const std::vector<DType> kTypes{f64, f32};

/// f of the matrices at the same place of each input; as many as the largest batch. A result of one
/// row or column drops it (dropped = 1), a number both (2).
Reference of_matrices(std::function<Matrix(const Matrices&)> f, int dropped = 0) {
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

Matrix row(const std::vector<double>& values) { return {1, int64_t(values.size()), values}; }
Matrix number(double value) { return {1, 1, {value}}; }
Matrix shifted(const Matrix& x) { return x + identity(x.rows) * kShift; }
Matrix gram(const Matrix& x) { return x * transposed(x) + identity(x.rows); }
Matrix symmetric(const Matrix& x) { return (x + transposed(x)) * 0.5; }

// The same, before the op.

Variable eye_like(const Variable& x) { return eye(x.size(-1), {}, {.dtype = x.dtype()}); }
Variables shift_first(Variables in) {
  in[0] = in[0] + eye_like(in[0]) * kShift;
  return in;
}
Variables shift_second(Variables in) {
  in[1] = in[1] + eye_like(in[1]) * kShift;
  return in;
}
Variables make_gram(Variables in) {
  const Variable product = matmul(in[0], transpose(in[0], -2, -1));
  return {product + eye_like(product)};
}
Variables symmetrize(Variables in) { return {(in[0] + transpose(in[0], -2, -1)) * 0.5}; }
Variables of_rank_one(Variables in) {
  return {matmul(narrow(in[0], -1, 0, 1), narrow(in[0], -2, 0, 1))};
}

/// Vectors as columns of x, seen without their signs: the sum of k x_k x_k^T.
Variable without_signs(const Variable& x) {
  const Variable weights = arange(1, x.size(-1) + 1).to(x.dtype());
  return matmul(x * weights, transpose(x, -2, -1));
}

void add_solving(OpCases& cases) {
  const auto solve_case = [&](Shape a, Shape b, bool left, Reference reference) {
    cases.push_back({.op = "linalg.solve",
                     .inputs = {Input{a}, Input{b}},
                     .attributes = {{"left", left}},
                     .reference = std::move(reference),
                     .tolerance = 32,
                     .dtypes = kTypes,
                     .before = shift_first});
  };
  const auto solution =
      of_matrices([](const Matrices& in) { return solved(shifted(in[0]), in[1]).x; });
  solve_case({3, 3}, {3, 2}, true, solution);
  solve_case({1, 1}, {1, 1}, true, solution);
  solve_case({2, 3, 3}, {2, 3, 2}, true, solution);
  solve_case({3, 3}, {2, 3, 1}, true, solution);
  solve_case({2, 3, 3}, {3, 2}, true, solution);
  solve_case({3, 3}, {2, 3}, false, of_matrices([](const Matrices& in) {
               return transposed(solved(transposed(shifted(in[0])), transposed(in[1])).x);
             }));
  solve_case({3, 3}, {3}, true, [](std::vector<Array> in) {
    in[1].shape = {3, 1};
    const Matrix x = solved(shifted(matrix_at(in[0], 0)), matrix_at(in[1], 0)).x;
    return Array{{3}, x.values};
  });
  const auto of_one = [&](const char* op, Shape shape, auto f, Variables (*before)(Variables),
                          int dropped = 0, Variables(*after)(Variables) = nullptr,
                          Attributes attributes = {}) {
    cases.push_back(
        {.op = op,
         .inputs = {Input{shape}},
         .attributes = std::move(attributes),
         .reference = of_matrices([=](const Matrices& in) { return f(in[0]); }, dropped),
         .tolerance = 32,
         .dtypes = kTypes,
         .before = before,
         .after = after});
  };
  const auto inverse_shifted = [](const Matrix& x) { return inverse(shifted(x)); };
  for (Shape shape : {Shape{3, 3}, Shape{2, 4, 4}, Shape{1, 1}})
    of_one("linalg.inv", shape, inverse_shifted, shift_first);
  of_one("linalg.inv", {2, 2}, inverse, nullptr);
  const auto determinant = [](const Matrix& x) { return number(solved(x, x).determinant); };
  const auto log_magnitude = [](const Matrix& x) {
    return number(std::log(std::abs(solved(x, x).determinant)));
  };
  const auto sign = [](const Matrix& x) {
    return number(solved(x, x).determinant < 0 ? -1.0 : 1.0);
  };
  for (Shape shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{1, 1}, Shape{4, 4}}) {
    of_one("linalg.det", shape, determinant, nullptr, 2);
    of_one("linalg.slogdet", shape, sign, nullptr, 2);
    of_one("linalg.slogdet", shape, log_magnitude, nullptr, 2,
           [](Variables y) { return Variables{y[1]}; });
  }
  const auto factor = [](const Matrix& x) {
    const Matrix a = gram(x);
    Matrix l{a.rows, a.rows};
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double rest = a(i, j);
        for (int64_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
        l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
      }
    return l;
  };
  for (Shape shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{1, 1}, Shape{4, 2}})
    of_one("linalg.cholesky", shape, factor, make_gram);
  of_one("linalg.cholesky", {3, 3}, [=](const Matrix& x) { return transposed(factor(x)); },
         make_gram, 0, nullptr, {{"upper", true}});

  const auto triangle = [](Matrix x, bool upper, bool unit) {
    for (int64_t i = 0; i < x.rows; ++i)
      for (int64_t j = 0; j < x.columns; ++j) {
        if (upper ? j < i : j > i) x(i, j) = 0;
        if (unit && i == j) x(i, j) = 1;
      }
    return x;
  };
  for (bool upper : {false, true})
    for (bool unit : {false, true}) {
      const auto triangular_case = [&](Shape a, Shape b, bool left) {
        const auto reference = [=](const Matrices& in) {
          const Matrix t = triangle(shifted(in[0]), upper, unit);
          return left ? solved(t, in[1]).x : transposed(solved(transposed(t), transposed(in[1])).x);
        };
        cases.push_back({.op = "linalg.solve_triangular",
                         .inputs = {Input{a}, Input{b}},
                         .attributes = {{"upper", upper}, {"left", left}, {"unitriangular", unit}},
                         .reference = of_matrices(reference),
                         .tolerance = 32,
                         .dtypes = kTypes,
                         .before = shift_first});
      };
      triangular_case({3, 3}, {3, 2}, true);
      triangular_case({3, 3}, {2, 3}, false);
      if (!unit) triangular_case({2, 2, 2}, {2, 2}, true);
    }
  for (bool upper : {false, true})
    for (bool transpose : {false, true})
      cases.push_back({.op = "triangular_solve",
                       .inputs = {Input{{2, 3, 2}}, Input{{3, 3}}},
                       .attributes = {{"upper", upper}, {"transpose", transpose}},
                       .reference = of_matrices([=](const Matrices& in) {
                         const Matrix t = triangle(shifted(in[1]), upper, false);
                         return solved(transpose ? transposed(t) : t, in[0]).x;
                       }),
                       .tolerance = 32,
                       .dtypes = kTypes,
                       .before = shift_second});
  for (bool upper : {false, true})
    cases.push_back({.op = "cholesky_solve",
                     .inputs = {Input{{3, 2}}, Input{{3, 3}}},
                     .attributes = {{"upper", upper}},
                     .reference = of_matrices([=](const Matrices& in) {
                       const Matrix t = triangle(shifted(in[1]), upper, false);
                       return solved(upper ? transposed(t) * t : t * transposed(t), in[0]).x;
                     }),
                     .tolerance = 32,
                     .dtypes = kTypes,
                     .before = shift_second});
}

void add_factors(OpCases& cases) {
  // Gram and Schmidt: R has a positive diagonal.
  const auto q_of = [](const Matrix& x) {
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
  };
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
                       .reference = of_matrices([=](const Matrices& in) { return q_of(in[0]); }),
                       .tolerance = 32,
                       .dtypes = kTypes,
                       .after = positive});
    }
  cases.push_back({.op = "linalg.qr",
                   .inputs = {Input{.shape = {4, 3}, .grad = false}},
                   .attributes = {{"mode", std::string("r")}},
                   .reference = of_matrices(
                       [=](const Matrices& in) { return transposed(q_of(in[0])) * in[0]; }),
                   .tolerance = 32,
                   .dtypes = kTypes,
                   .after = [](Variables y) {
                     return Variables{y[1] * unsqueeze(sign(diagonal(y[1], 0, -2, -1)), -1)};
                   }});

  const auto values =
      of_matrices([](const Matrices& in) { return row(singular_values(in[0])); }, 1);
  for (Shape shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 3}, Shape{2, 2, 2}, Shape{1, 1}}) {
    for (bool full : {false, true})
      cases.push_back({.op = "linalg.svd",
                       .inputs = {Input{shape}},
                       .attributes = {{"full_matrices", full}},
                       .reference = values,
                       .tolerance = 32,
                       .dtypes = kTypes,
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
                     .dtypes = kTypes});
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
                       .dtypes = kTypes,
                       .before = symmetrize,
                       .after = [](Variables y) {
                         return Variables{y[0], without_signs(y[1])};
                       }});
      cases.push_back({.op = "linalg.eigvalsh",
                       .inputs = {Input{shape}},
                       .attributes = {{"UPLO", std::string(side)}},
                       .reference = eigenvalues,
                       .tolerance = 32,
                       .dtypes = kTypes,
                       .before = symmetrize});
    }

  const auto pseudo = [](const Matrix& x) {
    const Matrix t = transposed(x);
    return x.rows < x.columns ? t * inverse(x * t) : inverse(t * x) * t;
  };
  for (Shape shape : {Shape{4, 3}, Shape{2, 3}, Shape{2, 3, 2}, Shape{2, 2}})
    cases.push_back({.op = "linalg.pinv",
                     .inputs = {Input{shape}},
                     .reference = of_matrices([=](const Matrices& in) { return pseudo(in[0]); }),
                     .tolerance = 128,
                     .dtypes = kTypes});
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
                   .dtypes = kTypes,
                   .before = of_rank_one});
  const auto least = of_matrices([=](const Matrices& in) { return pseudo(in[0]) * in[1]; });
  const auto lstsq_case = [&](Shape a, Shape b, Reference reference) {
    cases.push_back({.op = "linalg.lstsq",
                     .inputs = {Input{a}, Input{b}},
                     .reference = std::move(reference),
                     .tolerance = 128,
                     .dtypes = kTypes,
                     .after = [](Variables y) {
                       return Variables{y[0], y[1]};
                     }});
  };
  lstsq_case({4, 3}, {4, 2}, least);
  lstsq_case({2, 3}, {2, 2}, least);
  lstsq_case({2, 3, 2}, {2, 3, 1}, least);
  lstsq_case({3, 2}, {2, 3, 1}, least);
  lstsq_case({4, 2}, {4}, [=](std::vector<Array> in) {
    in[1].shape = {4, 1};
    return Array{{2}, (pseudo(matrix_at(in[0], 0)) * matrix_at(in[1], 0)).values};
  });
}

void add_functions(OpCases& cases) {
  const auto power = [&](Shape shape, int64_t n, bool grad = true) {
    cases.push_back({.op = "linalg.matrix_power",
                     .inputs = {Input{.shape = shape, .grad = grad}},
                     .attributes = {{"n", n}},
                     .reference = of_matrices([=](const Matrices& in) {
                       const Matrix x = shifted(in[0]), factor = n < 0 ? inverse(x) : x;
                       Matrix y = identity(x.rows);
                       for (int64_t i = 0; i < std::abs(n); ++i) y = y * factor;
                       return y;
                     }),
                     .tolerance = 64,
                     .dtypes = kTypes,
                     .before = shift_first});
  };
  power({3, 3}, 0, /*grad=*/false);
  power({3, 3}, 1);
  power({2, 2, 2}, 2);
  power({3, 3}, 5);
  power({3, 3}, -3);

  const auto exponential = [](Matrix x) {
    x = x * 0x1p-20;
    Matrix term = identity(x.rows), y = term * 0;  // y + 1 is the exponential
    for (int k = 1; k < 12; ++k) {
      term = term * x * (1.0 / k);
      y = y + term;
    }
    for (int i = 0; i < 20; ++i) y = y * 2 + y * y;
    return y + identity(x.rows);
  };
  for (Shape shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{1, 1}})
    cases.push_back(
        {.op = "linalg.matrix_exp",
         .inputs = {Input{shape}},
         .reference = of_matrices([=](const Matrices& in) { return exponential(in[0]); }),
         .tolerance = 64,
         .dtypes = kTypes});
  cases.push_back(
      {.op = "linalg.matrix_exp",
       .inputs = {Input{{3, 2, 2}}},
       .reference = of_matrices([=](const Matrices& in) { return exponential(in[0] * 4); }),
       .tolerance = 256,
       .dtypes = kTypes,
       .before = [](Variables in) { return Variables{in[0] * 4}; }});

  const auto chain = [&](std::vector<Input> factors) {
    cases.push_back({.op = "linalg.multi_dot",
                     .list = factors,
                     .reference =
                         [](std::vector<Array> in) {
                           Array y;
                           const size_t last = in.size() - 1;
                           const bool row = in[0].shape.rank() == 1;
                           const bool column = in[last].shape.rank() == 1;
                           if (row) in[0].shape = {1, in[0].shape[0]};
                           if (column) in[last].shape = {in[last].shape[0], 1};
                           Matrix product = matrix_at(in[0], 0);
                           for (size_t i = 1; i <= last; ++i)
                             product = product * matrix_at(in[i], 0);
                           if (!row) y.shape.push_back(product.rows);
                           if (!column) y.shape.push_back(product.columns);
                           y.values = product.values;
                           return y;
                         },
                     .tolerance = 32});
  };
  chain({Input{{2, 3}}, Input{{3, 4}}});
  chain({Input{{4, 2}}, Input{{2, 5}}, Input{{5, 1}}});
  chain({Input{{2, 3}}, Input{{3, 1}}, Input{{1, 4}}, Input{{4, 2}}});
  chain({Input{{3}}, Input{{3, 2}}, Input{{2, 3}}, Input{{3}}});
  chain({Input{{3}}, Input{{3}}});
}

void add_norms(OpCases& cases) {
  const double inf = std::numeric_limits<double>::infinity();
  for (double ord : {2.0, 1.0, 3.0, 0.0, inf, -inf, -1.0}) {
    const auto of = [=](const std::vector<double>& x) {
      double y = ord == -inf ? inf : 0;
      for (double value : x) {
        const double size = std::abs(value);
        y = ord == inf    ? std::max(y, size)
            : ord == -inf ? std::min(y, size)
            : ord == 0    ? y + (size != 0)
                          : y + std::pow(size, ord);
      }
      return std::isinf(ord) || ord == 0 ? y : std::pow(y, 1 / ord);
    };
    cases.push_back({.op = "linalg.vector_norm",
                     .inputs = {Input{{2, 3}, Fill::kDistinct}},
                     .attributes = {{"ord", ord}},
                     .reference =
                         [=](const std::vector<Array>& in) {
                           return Array{{}, {of(in[0].values)}};
                         },
                     .tolerance = 16});
    cases.push_back(
        {.op = "linalg.vector_norm",
         .inputs = {Input{{3, 4}, Fill::kDistinct}},
         .attributes = {{"ord", ord}, {"dim", std::vector<int64_t>{-1}}, {"keepdim", true}},
         .reference =
             [=](const std::vector<Array>& in) {
               Array y{{3, 1}, {}};
               for (auto at = in[0].values.begin(); at != in[0].values.end(); at += 4)
                 y.values.push_back(of({at, at + 4}));
               return y;
             },
         .tolerance = 16});
  }
  for (const char* ord : {"fro", "nuc", "inf", "-inf", "1", "-1", "2", "-2"}) {
    const auto of = [=](const Matrix& x) {
      const std::string_view name = ord;
      const std::vector<double> values = singular_values(x);
      if (name == "2") return number(values.front());
      if (name == "-2") return number(values.back());
      double sum = 0;
      for (double value : values) sum += name == "nuc" ? value : value * value;
      if (name == "nuc") return number(sum);
      if (name == "fro") return number(std::sqrt(sum));
      const Matrix lines = name.ends_with("1") ? transposed(x) : x;
      double y = name[0] == '-' ? 1e300 : 0;
      for (int64_t i = 0; i < lines.rows; ++i) {
        double line = 0;
        for (int64_t j = 0; j < lines.columns; ++j) line += std::abs(lines(i, j));
        y = name[0] == '-' ? std::min(y, line) : std::max(y, line);
      }
      return number(y);
    };
    const bool by_values = std::string_view("nuc 2 -2").find(ord) != std::string_view::npos;
    for (Shape shape : {Shape{3, 3}, Shape{2, 3, 2}})
      cases.push_back({.op = "linalg.matrix_norm",
                       .inputs = {Input{shape}},
                       .attributes = {{"ord", std::string(ord)}},
                       .reference = of_matrices([=](const Matrices& in) { return of(in[0]); }, 2),
                       .tolerance = 32,
                       .dtypes = by_values ? kTypes : std::vector<DType>{f64, f32, bf16, f16}});
    cases.push_back({.op = "linalg.matrix_norm",
                     .inputs = {Input{{2, 3, 2}}},
                     .attributes = {{"ord", std::string(ord)},
                                    {"dim", std::vector<int64_t>{2, 0}},
                                    {"keepdim", true}},
                     .reference =
                         [=](const std::vector<Array>& in) {
                           Array y{{1, 3, 1}, {}};
                           for (size_t k = 0; k < 3; ++k) {
                             Matrix x{2, 2};
                             for (int64_t i = 0; i < 2; ++i)
                               for (int64_t j = 0; j < 2; ++j)
                                 x(i, j) = in[0].values[size_t(j * 6 + int64_t(k) * 2 + i)];
                             y.values.push_back(of(x)(0, 0));
                           }
                           return y;
                         },
                     .tolerance = 32,
                     .dtypes = kTypes});
  }
}

}  // namespace

void linalg_cases(OpCases& cases) {
  add_solving(cases);
  add_factors(cases);
  add_functions(cases);
  add_norms(cases);
}

}  // namespace tapegrad::testing
