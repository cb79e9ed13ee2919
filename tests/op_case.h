// The table of op cases. One row drives everything that is asked of an op: its value against a
// plain double computation, in every dtype and memory layout; its gradient and second gradient;
// empty inputs. The rows stand in tests/cases/, one file a family; op_cases_test runs them, and
// fails for a catalog op that has none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/catalog.h"

namespace tapegrad::testing {

/// How an input is filled (always from a fixed seed).
enum class Fill {
  kNormal,    // in [-2, 2], no value closer than 0.05 to 0
  kPositive,  // in [0.2, 2.2]
  kUnit,      // in [0.05, 0.95]
  kAboveOne,  // in [1.2, 3.2]
  kDistinct,  // in [-2, 2], no two closer than 3 / count: for maxima and sorting
  kIntegers,  // whole numbers in [-4, 4]
  kBool,      // dtype bool
  kIndices,   // int64 in [0, bound)
};

struct Input {
  Shape shape;
  Fill fill = Fill::kNormal;
  int64_t bound = 0;  // of kIndices
  bool grad = true;   // whether gradients in it are checked; never for kBool and kIndices
};

/// A dense row-major array of doubles, which references take and give.
struct Array {
  Shape shape;
  std::vector<double> values;
};
/// Receives the inputs in their order (one that is left out has no values), then the list.
using Reference = std::function<Array(const std::vector<Array>& inputs)>;

struct OpCase {
  std::string op;                              // its name in the catalog
  std::vector<std::optional<Input>> inputs{};  // nullopt: an optional input left out
  std::vector<Input> list{};                   // of an input that takes several
  Attributes attributes{};
  Reference reference{};   // of the first output, written without the library
  double tolerance = 4;    // in units of eps(dtype) * max|reference|
  bool same_bits = false;  // elementwise: every layout gives the same bits
  std::vector<DType> dtypes{f64, f32, bf16, f16};  // of the floating inputs

  /// For ops of special matrices, and results whose signs are free: what is done to the inputs
  /// before the op sees them, and to its results. Differentiable; the reference knows of it.
  std::vector<Variable> (*before)(std::vector<Variable> inputs) = nullptr;
  std::vector<Variable> (*after)(std::vector<Variable> results) = nullptr;
};
using OpCases = std::vector<OpCase>;

/// References for elementwise ops: f applied to each element, or to two that broadcast.
Reference elementwise(double (*f)(double));
Reference elementwise(double (*f)(double, double));

/// Calls visit(flat index, index in each dimension) for every element of a shape.
void for_each_index(const Shape& shape,
                    const std::function<void(int64_t, const std::vector<int64_t>&)>& visit);
int64_t flat_index(const Shape& shape, const std::vector<int64_t>& index);

// The families' rows.
void create_cases(OpCases& cases);
void random_cases(OpCases& cases);
void noise_cases(OpCases& cases);
void unary_cases(OpCases& cases);
void activation_cases(OpCases& cases);
void binary_cases(OpCases& cases);
void arithmetic_cases(OpCases& cases);
void special_cases(OpCases& cases);
void statistics_cases(OpCases& cases);
void distance_cases(OpCases& cases);
void products_cases(OpCases& cases);
void linalg_cases(OpCases& cases);
void linalg_factors_cases(OpCases& cases);
void linalg_functions_cases(OpCases& cases);
void fft_cases(OpCases& cases);
void diagonal_cases(OpCases& cases);
void sort_cases(OpCases& cases);
void scan_cases(OpCases& cases);
void scatter_cases(OpCases& cases);
void subscript_cases(OpCases& cases);
void reduce_cases(OpCases& cases);
void softmax_cases(OpCases& cases);
void matmul_cases(OpCases& cases);
void conv_cases(OpCases& cases);
void conv_nd_cases(OpCases& cases);
void pool_cases(OpCases& cases);
void pool_nd_cases(OpCases& cases);
void norm_cases(OpCases& cases);
void loss_cases(OpCases& cases);
void margin_loss_cases(OpCases& cases);
void ctc_loss_cases(OpCases& cases);
void index_cases(OpCases& cases);
void view_cases(OpCases& cases);
void image_cases(OpCases& cases);
void sample_cases(OpCases& cases);
void attention_cases(OpCases& cases);
void recurrent_cases(OpCases& cases);

}  // namespace tapegrad::testing
