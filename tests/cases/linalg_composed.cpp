// Matrix functions, products of several matrices, and norms.
#include <limits>

#include "tests/cases/linalg_parts.h"

namespace tapegrad::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

OpCase power(Shape shape, int64_t n, bool grad = true) {
  return {.op = "linalg.matrix_power",
          .inputs = {Input{.shape = shape, .grad = grad}},
          .attributes = {{"n", n}},
          .reference = of_matrices([=](const Matrices& in) {
            const Matrix x = shifted(in[0]), factor = n < 0 ? inverse(x) : x;
            Matrix y = identity(x.rows);
            for (int64_t i = 0; i < std::abs(n); ++i) y = y * factor;
            return y;
          }),
          .tolerance = 64,
          .dtypes = kMatrixTypes,
          .before = shift_first};
}

Matrix exponential(Matrix x) {
  x = x * 0x1p-20;
  Matrix term = identity(x.rows), y = term * 0;  // y + 1 is the exponential
  for (int k = 1; k < 12; ++k) {
    term = term * x * (1.0 / k);
    y = y + term;
  }
  for (int i = 0; i < 20; ++i) y = y * 2 + y * y;
  return y + identity(x.rows);
}

OpCase exponential_case(Shape shape) {
  return {.op = "linalg.matrix_exp",
          .inputs = {Input{shape}},
          .reference = of_matrices([](const Matrices& in) { return exponential(in[0]); }),
          .tolerance = 64,
          .dtypes = kMatrixTypes};
}

Array product_of_chain(std::vector<Array> in) {
  Array y;
  const size_t last = in.size() - 1;
  const bool row = in[0].shape.rank() == 1, column = in[last].shape.rank() == 1;
  if (row) in[0].shape = {1, in[0].shape[0]};
  if (column) in[last].shape = {in[last].shape[0], 1};
  Matrix product = matrix_at(in[0], 0);
  for (size_t i = 1; i <= last; ++i) product = product * matrix_at(in[i], 0);
  if (!row) y.shape.push_back(product.rows);
  if (!column) y.shape.push_back(product.columns);
  y.values = product.values;
  return y;
}

OpCase chain(std::vector<Input> factors) {
  return {.op = "linalg.multi_dot",
          .list = std::move(factors),
          .reference = product_of_chain,
          .tolerance = 32};
}

double vector_norm(double ord, const std::vector<double>& x) {
  double y = ord == -kInf ? kInf : 0;
  for (double value : x) {
    const double size = std::abs(value);
    y = ord == kInf    ? std::max(y, size)
        : ord == -kInf ? std::min(y, size)
        : ord == 0     ? y + (size != 0)
                       : y + std::pow(size, ord);
  }
  return std::isinf(ord) || ord == 0 ? y : std::pow(y, 1 / ord);
}

/// Norm of the rows, with keepdim.
OpCase rows_case(Shape shape, double ord) {
  return {.op = "linalg.vector_norm",
          .inputs = {Input{shape, Fill::kDistinct}},
          .attributes = {{"ord", ord}, {"dim", std::vector<int64_t>{-1}}, {"keepdim", true}},
          .reference =
              [=](const std::vector<Array>& in) {
                Array y{in[0].shape, {}};
                int64_t& last = y.shape[y.shape.rank() - 1];
                for (auto at = in[0].values.begin(); at != in[0].values.end(); at += last)
                  y.values.push_back(vector_norm(ord, {at, at + last}));
                last = 1;
                return y;
              },
          .tolerance = 16};
}

Matrix matrix_norm(std::string_view ord, const Matrix& x) {
  if (ord == "fro") {
    double sum = 0;
    for (double value : x.values) sum += value * value;
    return number(std::sqrt(sum));
  }
  if (ord == "nuc" || ord == "2" || ord == "-2") {
    const std::vector<double> values = singular_values(x);
    double sum = 0;
    for (double value : values) sum += value;
    return number(ord == "2" ? values.front() : ord == "-2" ? values.back() : sum);
  }
  const Matrix lines = ord.ends_with("1") ? transposed(x) : x;
  double y = ord[0] == '-' ? kInf : 0;
  for (int64_t i = 0; i < lines.rows; ++i) {
    double line = 0;
    for (int64_t j = 0; j < lines.columns; ++j) line += std::abs(lines(i, j));
    y = ord[0] == '-' ? std::min(y, line) : std::max(y, line);
  }
  return number(y);
}

OpCase norm_case(Shape shape, const std::string& ord) {
  const bool by_values = ord == "nuc" || ord == "2" || ord == "-2";
  return {.op = "linalg.matrix_norm",
          .inputs = {Input{shape}},
          .attributes = {{"ord", ord}},
          .reference = of_matrices([=](const Matrices& in) { return matrix_norm(ord, in[0]); }, 2),
          .tolerance = 32,
          .dtypes = by_values ? kMatrixTypes : std::vector<DType>{f64, f32, bf16, f16}};
}

}  // namespace

void draw_functions(OpCases& cases, Choices& choices) {
  const int64_t batch = choices.between(0, 3), m = choices.between(1, 7), n = choices.between(1, 7);
  const Shape square = matrices(batch, n, n), any = matrices(batch, m, n);
  switch (choices.below(5)) {
    case 0:
      return cases.push_back(power(square, choices.between(-3, 5)));
    case 1:
      cases.push_back(exponential_case(square));
      cases.back().tolerance = 256;
      return;
    case 2: {
      std::vector<Input> factors;
      int64_t rows = n;
      for (int64_t left = choices.between(2, 5); left > 0; --left) {
        const int64_t columns = choices.between(1, 5);
        factors.push_back(Input{{rows, columns}, Fill::kIntegers});
        rows = columns;
      }
      if (choices.flag()) factors.front().shape = {factors.front().shape[1]};
      if (choices.flag()) factors.back().shape = {factors.back().shape[0]};
      cases.push_back(chain(factors));
      cases.back().tolerance = 0;
      cases.back().dtypes = kMatrixTypes;
      return;
    }
    case 3: {
      const double ord = choices.of({2.0, 1.0, 3.0, 0.0, kInf, -kInf, -1.0});
      cases.push_back(rows_case(any, ord));
      cases.back().inputs[0]->grad = ord == 2;
      return;
    }
    default: {
      const std::string ord = choices.of({"fro", "inf", "-inf", "1", "-1", "2"});
      cases.push_back(norm_case(any, ord));
      // the other norms have points without a derivative
      cases.back().inputs[0]->grad = ord == "fro" || ord == "2";
    }
  }
}

void linalg_composed_cases(OpCases& cases) {
  const auto add = [&](OpCase row) { cases.push_back(std::move(row)); };
  add(power({3, 3}, 0, /*grad=*/false));
  add(power({3, 3}, 1));
  add(power({2, 2, 2}, 2));
  add(power({3, 3}, 5));
  add(power({3, 3}, -3));
  for (Shape shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{1, 1}}) add(exponential_case(shape));
  OpCase wide = exponential_case({3, 2, 2});
  wide.reference = of_matrices([](const Matrices& in) { return exponential(in[0] * 4); });
  wide.tolerance = 256;
  wide.before = [](Variables in) { return Variables{in[0] * 4}; };
  add(wide);

  add(chain({Input{{2, 3}}, Input{{3, 4}}}));
  add(chain({Input{{4, 2}}, Input{{2, 5}}, Input{{5, 1}}}));
  add(chain({Input{{2, 3}}, Input{{3, 1}}, Input{{1, 4}}, Input{{4, 2}}}));
  add(chain({Input{{3}}, Input{{3, 2}}, Input{{2, 3}}, Input{{3}}}));
  add(chain({Input{{3}}, Input{{3}}}));

  for (double ord : {2.0, 1.0, 3.0, 0.0, kInf, -kInf, -1.0}) {
    add({.op = "linalg.vector_norm",
         .inputs = {Input{{2, 3}, Fill::kDistinct}},
         .attributes = {{"ord", ord}},
         .reference =
             [=](const std::vector<Array>& in) {
               return Array{{}, {vector_norm(ord, in[0].values)}};
             },
         .tolerance = 16});
    add(rows_case({3, 4}, ord));
  }
  for (const std::string ord : {"fro", "nuc", "inf", "-inf", "1", "-1", "2", "-2"}) {
    add(norm_case({3, 3}, ord));
    add(norm_case({2, 3, 2}, ord));
    OpCase turned = norm_case({2, 3, 2}, ord);  // each matrix is x[:, k, :], transposed
    turned.attributes["dim"] = std::vector<int64_t>{2, 0};
    turned.attributes["keepdim"] = true;
    turned.dtypes = kMatrixTypes;
    turned.reference = [=](const std::vector<Array>& in) {
      Array y{{1, 3, 1}, {}};
      for (size_t k = 0; k < 3; ++k) {
        Matrix x{2, 2};
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t j = 0; j < 2; ++j)
            x(i, j) = in[0].values[size_t(j * 6 + int64_t(k) * 2 + i)];
        y.values.push_back(matrix_norm(ord, x)(0, 0));
      }
      return y;
    };
    add(turned);
  }
}

}  // namespace tapegrad::testing
