// A call of an op that the fuzzer makes up.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/operand.h"

namespace tapegrad::fuzz {

class Call {
 public:
  const testing::OpCase& row() const { return row_; }
  DType dtype() const { return dtype_; }
  bool writes() const;      // its first input, or running statistics
  bool is_random() const;   // draws, so that another dtype gives other numbers
  bool has_values() const;  // unlike empty()
  /// "conv2d of [2, 3, 4, 4] [1, 3, 2, 2], stride = 2, in float32".
  std::string text() const;

  /// One tensor for each input, then those of the list.
  std::vector<Tensor> operands() const;
  std::vector<Variable> run(const std::vector<Variable>& in) const;

 private:
  friend Call make_call(Choices& choices);
  explicit Call(const testing::OpCase& row, DType dtype) : row_(row), dtype_(dtype) {}
  std::vector<testing::Input*> slots();
  void change(Choices& choices);
  void change_attribute(Choices& choices);

  testing::OpCase row_;  // a copy, to be changed
  DType dtype_;
  std::vector<std::pair<size_t, DType>> dtypes_ = {};  // of inputs that have another one
};

/// A row of the case table, with up to five changes.
Call make_call(Choices& choices);

/// "2.5", "[1, 2]", "none".
std::string print(const Attribute& value);

}  // namespace tapegrad::fuzz
