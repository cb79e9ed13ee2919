// A call of an op with arguments from the fuzzer.
#pragma once

#include <string>
#include <vector>

#include "tests/cases/operand.h"
#include "tests/fuzz/fuzz.h"

namespace tapegrad::fuzz {

class Call {
 public:
  const testing::OpCase& row() const { return row_; }
  DType dtype() const { return dtype_; }
  bool writes() const;      // writes to its first input, or to running statistics
  bool is_random() const;   // draws random numbers, so that another dtype gives other results
  bool has_values() const;  // the values are defined, unlike those of empty()
  /// "conv2d of [2, 3, 4, 4] [1, 3, 2, 2], stride = 2, in float32".
  std::string text() const;

  /// One tensor for each input, then the tensors of the list.
  std::vector<Tensor> operands() const;
  std::vector<Variable> run(const std::vector<Variable>& in) const;

 private:
  friend Call make_call(Choices& choices);
  explicit Call(const testing::OpCase& row, DType dtype) : row_(row), dtype_(dtype) {}
  std::vector<testing::Input*> slots();
  void change(Choices& choices);
  void change_attribute(Choices& choices);

  testing::OpCase row_;  // a modified copy of a row
  DType dtype_;
  std::vector<std::pair<size_t, DType>> dtypes_ = {};  // of inputs with their own dtype
};

/// Makes a call from a row of the case table with up to five changes.
Call make_call(Choices& choices);

/// "2.5", "[1, 2]", "none".
std::string print(const Attribute& value);

}  // namespace tapegrad::fuzz
