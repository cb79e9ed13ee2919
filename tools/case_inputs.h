// The Variables of a case, made from the tensors of the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <tapegrad/core/tensor_map.h>
#include <tapegrad/core/variable.h>

#include "tools/case_file.h"

namespace tapegrad::tools {

/// What is done to the tensors of the file on their way to an op.
struct InputOptions {
  Device device = cpu;
  bool for_gradcheck = false;  // floats as float64, and no two Variables or elements share memory
};

struct CaseInputs {
  Arguments arguments;
  /// The inputs flattened: null and every element of a list count one.
  std::vector<Variable> flat;
  std::vector<bool> wants_gradient;  // as the case says, of each of `flat`

  /// Each Variable whose gradient is wanted, once, in order.
  std::vector<Variable> leaves() const;
};

/// Makes the inputs of one case, from copies of the file's tensors: an op that writes changes
/// nothing for the next case. Two inputs of one tensor and the same view are the same Variable;
/// other views of one tensor share its storage.
class InputMaker {
 public:
  /// ArgumentError for a tensor that the file does not have.
  InputMaker(const TensorMap& file, InputOptions options) : file_(file), options_(options) {}

  CaseInputs make(const Case& c);
  /// Seeds are Variables of their own, whatever tensor they name.
  std::vector<Variable> make_seeds(const std::vector<TensorRef>& refs);

 private:
  struct Made {
    std::string name;
    Layout layout;
    Variable variable;
  };

  const Tensor& buffer(const std::string& name);
  Tensor view(const TensorRef& ref);
  Variable make(const TensorRef& ref);

  const TensorMap& file_;
  InputOptions options_;
  std::map<std::string, Tensor> buffers_;
  std::vector<Made> made_;
};

}  // namespace tapegrad::tools
