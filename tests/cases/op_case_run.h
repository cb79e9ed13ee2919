// Calls of the ops in the case table, for all generic tests.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/tape/variable.h"
#include "tests/cases/operand.h"

namespace tapegrad::testing {

using Variables = std::vector<Variable>;

/// One row, with its inputs and its list in one sequence of slots.
class Case {
 public:
  explicit Case(const OpCase& row) : row_(row), info_(catalog().find(row.op)) {}

  const OpCase& row() const { return row_; }
  const OpTraits& traits() const { return info_.traits; }
  size_t slots() const { return row_.inputs.size() + row_.list.size(); }
  const Input* slot(size_t i) const {
    if (i >= row_.inputs.size()) return &row_.list[i - row_.inputs.size()];
    return row_.inputs[i] ? &*row_.inputs[i] : nullptr;
  }
  bool wants_gradient(size_t i) const {
    const Input* input = slot(i);
    return input && input->grad && input->fill != Fill::kBool && input->fill != Fill::kIndices;
  }
  /// Returns whether the op updates slot i: the target of an in-place op, or running statistics of
  /// batch_norm.
  bool is_updated(size_t i) const;
  bool is_differentiable() const;

  std::vector<Tensor> operands(DType dtype) const;
  Arguments arguments(const Variables& in) const;
  /// Calls the op with fixed random numbers. An in-place op writes to a copy.
  Variables call(const Variables& in) const;

 private:
  const OpCase& row_;
  const OpInfo& info_;
};

/// Returns variables on the default device.
Variables constants(const std::vector<Tensor>& tensors);
/// Returns variables in which the inputs whose gradient is checked are leaves.
Variables leaves(const Case& c, const std::vector<Tensor>& tensors);

struct Results {
  std::vector<Tensor> values;
  std::vector<Tensor> gradients;  // of the slots whose gradient is checked
};

/// Returns the values, and the gradients of <seed, values> for a fixed seed.
Results run(const Case& c, const std::vector<Tensor>& tensors, bool create_graph = false);

/// Compares with the row's tolerance.
void expect_same(const Case& c, const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                 std::string_view what);

/// Returns whether the error says that a kernel is missing that CUDA is known to lack.
bool is_missing(const KernelError& error);

/// The test "implementations": all implementations of each kernel have the fallback's results and
/// gradients.
void test_implementations(const Case& c);

/// The test "recorded": a captured step repeats the case with new operands (op_recorded_test.cpp).
void test_recorded(const Case& c);

}  // namespace tapegrad::testing
