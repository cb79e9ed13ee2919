// The case table of ops. One row drives every generic test of an op: its value against a plain
// computation in double, in every dtype and memory layout; its gradient and second derivative;
// empty inputs. The rows are in tests/cases/, one file per family. op_cases_test runs them, and
// fails for a catalog op without a row.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/catalog.h"

namespace tapegrad::testing {

/// Values of an input, always from a fixed seed.
enum class Fill {
  kNormal,    // in [-2, 2], at least 0.05 away from 0
  kPositive,  // in [0.2, 2.2]
  kUnit,      // in [0.05, 0.95]
  kAboveOne,  // in [1.2, 3.2]
  kDistinct,  // in [-2, 2], distances of at least 3 / count, for maxima and sorting
  kIntegers,  // whole numbers in [-4, 4]
  kBool,      // dtype bool
  kIndices,   // int64 in [0, bound)
};

struct Input {
  Shape shape;
  Fill fill = Fill::kNormal;
  int64_t bound = 0;  // for kIndices
  bool grad = true;   // whether its gradient is checked; never for kBool and kIndices
};

/// A dense row-major array of doubles, the argument and result of references.
struct Array {
  Shape shape;
  std::vector<double> values;
};
/// Receives the inputs in order (an input that is left out has no values), then the list.
using Reference = std::function<Array(const std::vector<Array>& inputs)>;

struct OpCase {
  std::string op;                              // name in the catalog
  std::vector<std::optional<Input>> inputs{};  // nullopt: an optional input is left out
  std::vector<Input> list{};                   // the operands of an input that is a list
  Attributes attributes{};
  Reference reference{};   // computes the first output without the library
  double tolerance = 4;    // in units of eps(dtype) * max|reference|
  bool same_bits = false;  // whether every layout must give the same bits, as for elementwise ops
  std::vector<DType> dtypes{f64, f32, bf16, f16};  // of the floating-point inputs

  /// Differentiable functions applied to the inputs before the op, and to its results. For ops on
  /// special matrices, and for results with arbitrary signs. The reference takes them into account.
  std::vector<Variable> (*before)(std::vector<Variable> inputs) = nullptr;
  std::vector<Variable> (*after)(std::vector<Variable> results) = nullptr;
};
using OpCases = std::vector<OpCase>;

/// For `before`: convolves the first input with an identity kernel. The values stay the same. On
/// the CPU the result has a packed layout if it has at least 32,768 elements of float32 and a
/// multiple of 16 channels.
std::vector<Variable> packed_images(std::vector<Variable> inputs);

/// References of elementwise ops: apply f to each element, or to two broadcast operands.
Reference elementwise(double (*f)(double));
Reference elementwise(double (*f)(double, double));

/// Calls visit(flat index, index in each dimension) for every element of a shape.
void for_each_index(const Shape& shape,
                    const std::function<void(int64_t, const std::vector<int64_t>&)>& visit);
int64_t flat_index(const Shape& shape, const std::vector<int64_t>& index);

// Functions that add the rows of a family.
void create_cases(OpCases& cases);
void random_cases(OpCases& cases);
void dropout_cases(OpCases& cases);
void unary_cases(OpCases& cases);
void activation_cases(OpCases& cases);
void binary_cases(OpCases& cases);
void arithmetic_cases(OpCases& cases);
void bitwise_cases(OpCases& cases);
void compare_cases(OpCases& cases);
void forms_cases(OpCases& cases);
void special_cases(OpCases& cases);
void statistics_cases(OpCases& cases);
void distance_cases(OpCases& cases);
void products_cases(OpCases& cases);
void linalg_cases(OpCases& cases);
void linalg_factor_cases(OpCases& cases);
void linalg_composed_cases(OpCases& cases);
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
void reshape_cases(OpCases& cases);
void image_cases(OpCases& cases);
void resample_cases(OpCases& cases);
void attention_cases(OpCases& cases);
void recurrent_cases(OpCases& cases);

}  // namespace tapegrad::testing
