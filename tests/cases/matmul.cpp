#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/view.h"
#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

/// NumPy's matmul: three loops for each pair of matrices.
Array matmul(const std::vector<Array>& in) {
  Shape a = in[0].shape, b = in[1].shape;
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = {1, a[0]};
  if (column) b = {b[0], 1};
  const int64_t m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
  const int fronts = std::max(a.rank(), b.rank()) - 2;
  const auto front = [&](const Shape& x, int dim) {
    const int i = dim - (fronts - (x.rank() - 2));
    return i < 0 ? 1 : x[i];
  };
  Shape batch;
  for (int i = 0; i < fronts; ++i) batch.push_back(std::max(front(a, i), front(b, i)));
  Array y{batch, {}};
  if (!row) y.shape.push_back(m);
  if (!column) y.shape.push_back(n);
  for_each_index(batch, [&](int64_t, const std::vector<int64_t>& index) {
    const auto start = [&](const Shape& x) {
      int64_t flat = 0;
      for (int i = 0; i < fronts; ++i)
        flat = flat * front(x, i) + (front(x, i) == 1 ? 0 : index[size_t(i)]);
      return flat;
    };
    const double* left = in[0].values.data() + start(a) * m * k;
    const double* right = in[1].values.data() + start(b) * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += left[i * k + l] * right[l * n + j];
        y.values.push_back(sum);
      }
  });
  return y;
}

Array outer(const std::vector<Array>& in) {
  Array y{{in[0].shape[0], in[1].shape[0]}, {}};
  for (double a : in[0].values)
    for (double b : in[1].values) y.values.push_back(a * b);
  return y;
}

Array linear(const std::vector<Array>& in) {
  const int64_t out = in[1].shape[0], size = in[1].shape[1];
  const bool bias = in.size() > 2 && !in[2].values.empty();
  Array y{in[0].shape, {}};
  y.shape[y.shape.rank() - 1] = out;
  for (int64_t i = 0; i < int64_t(in[0].values.size()) / size; ++i)
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias ? in[2].values[size_t(o)] : 0;
      for (int64_t l = 0; l < size; ++l)
        sum += in[0].values[size_t(i * size + l)] * in[1].values[size_t(o * size + l)];
      y.values.push_back(sum);
    }
  return y;
}

Array linear_relu(const std::vector<Array>& in) {
  Array y = linear(in);
  for (double& value : y.values) value = std::max(value, 0.0);
  return y;
}

Array linear_gelu(const std::vector<Array>& in) {
  Array y = linear(in);
  for (double& x : y.values)
    x *= 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  return y;
}

OpCase product_case(std::string op, Shape a, Shape b, Reference reference) {
  return {.op = std::move(op),
          .inputs = {Input{a}, Input{b}},
          .reference = std::move(reference),
          .tolerance = 16};
}

}  // namespace

void draw_matmul(OpCases& cases, Choices& choices) {
  const int64_t most = choices.of({4, 9, 40});
  const int64_t m = choices.between(1, most), k = choices.between(1, most);
  const int64_t n = choices.between(1, most);
  if (choices.below(4) == 0) {
    Shape x = draw_shape(choices, int(choices.below(3)), 4);
    x.push_back(k);
    cases.push_back({.op = "linear",
                     .inputs = {Input{x, Fill::kIntegers}, Input{{n, k}, Fill::kIntegers}},
                     .reference = linear,
                     .tolerance = 0,
                     .dtypes = {f64, f32}});
    cases.back().inputs.resize(3);
    if (choices.flag()) cases.back().inputs[2] = Input{{n}, Fill::kIntegers};
    return;
  }
  const Shape batch = draw_shape(choices, int(choices.below(3)), 3);
  const auto operand = [&](int64_t rows, int64_t columns) {
    if (choices.below(5) == 0) return Input{{k}, Fill::kIntegers};
    Shape shape = draw_broadcast(choices, batch);
    shape.push_back(rows);
    shape.push_back(columns);
    return Input{shape, Fill::kIntegers};
  };
  cases.push_back(product_case("matmul", {}, {}, matmul));
  cases.back().inputs = {operand(m, k), operand(k, n)};
  cases.back().tolerance = 0;
  cases.back().dtypes = {f64, f32, i64};
}

void matmul_cases(OpCases& cases) {
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{3, 4}, {4, 5}},
                                                                 {{1, 4}, {4, 1}},
                                                                 {{4}, {4}},
                                                                 {{4}, {4, 3}},
                                                                 {{3, 4}, {4}},
                                                                 {{2, 3, 4}, {2, 4, 2}},
                                                                 {{2, 3, 4}, {4, 5}},
                                                                 {{3, 4}, {2, 4, 2}},
                                                                 {{2, 1, 2, 3}, {3, 3, 2}},
                                                                 {{4}, {2, 4, 3}},
                                                                 {{2, 3, 4}, {4}}})
    cases.push_back(product_case("matmul", a, b, matmul));
  cases.push_back(product_case("mm", {3, 5}, {5, 2}, matmul));
  cases.push_back(product_case("bmm", {3, 2, 4}, {3, 4, 3}, matmul));
  cases.push_back(product_case("dot", {5}, {5}, matmul));
  cases.push_back(product_case("outer", {3}, {4}, outer));
  // The CPU's kernel for narrow layers needs at least eighteen rows.
  for (const Shape& x : {Shape{4, 3}, Shape{3}, Shape{2, 2, 3}, Shape{18, 3}})
    for (const auto& [op, reference] : std::vector<std::pair<std::string, Reference>>{
             {"linear", linear}, {"linear_relu", linear_relu}, {"linear_gelu", linear_gelu}})
      for (const bool bias : {true, false}) {
        cases.push_back({.op = op,
                         .inputs = {Input{x}, Input{{5, 3}}, Input{{5}}},
                         .reference = reference,
                         .tolerance = 16});
        if (!bias) cases.back().inputs[2] = std::nullopt;
      }
  // Sizes and a layout for which oneDNN's matmul primitive is selected.
  const auto transposed = [](std::vector<Variable> inputs) {
    inputs[1] = transpose(inputs[1], 0, 1);
    return inputs;
  };
  for (const char* op : {"matmul", "linear"}) {
    cases.push_back(product_case(op, {20, 64}, {64, 64}, linear));
    cases.back().dtypes = {f32, bf16};
    if (cases.back().op == "matmul") cases.back().before = transposed;
    if (cases.back().op == "linear") cases.back().inputs.push_back(Input{{64}});
  }
  // A batch of products which are not tiny.
  cases.push_back(product_case("bmm", {2, 20, 16}, {2, 16, 20}, matmul));
  // Sizes for which oneDNN multiplies a batch of bfloat16.
  cases.push_back(product_case("bmm", {4, 16, 32}, {4, 32, 32}, matmul));
  cases.back().dtypes = {bf16};
  // Sizes for which cuBLASLt has algorithms.
  cases.push_back({.op = "linear_gelu",
                   .inputs = {Input{{3, 8}}, Input{{16, 8}}, Input{{16}}},
                   .reference = linear_gelu,
                   .tolerance = 16,
                   .dtypes = {bf16, f16}});
}

}  // namespace tapegrad::testing
