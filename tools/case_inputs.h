// Makes the Variables of a case from the tensors of the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <tapegrad/core/tensor_map.h>
#include <tapegrad/core/variable.h>

#include "tools/case_file.h"

namespace tapegrad::tools {

/// How tensors of the file are converted before they are passed to an op.
struct InputOptions {
  Device device = cpu;
  bool for_gradcheck = false;  // floats as float64; no shared memory
};

struct CaseInputs {
  Arguments arguments;
  /// Inputs, flattened: null counts one, and so does each element of a list.
  std::vector<Variable> flat;
  std::vector<bool> wants_gradient;  // of each of `flat`, by the case

  /// Returns each Variable whose gradient is requested, once, in order.
  std::vector<Variable> leaves() const;
};

/// Makes the inputs of one case from copies of the file's tensors, so that an op that writes to
/// them does not affect the next case. Inputs with the same tensor and view are the same Variable;
/// different views of one tensor share its storage.
class InputMaker {
 public:
  /// Throws ArgumentError for a tensor that is not in the file.
  InputMaker(const TensorMap& file, InputOptions options) : file_(file), options_(options) {}

  CaseInputs make(const Case& c);
  /// Makes the seeds. Each is a separate Variable, even if two name the same tensor.
  std::vector<Variable> make_seeds(const std::vector<TensorRef>& refs);

 private:
  struct Made {
    std::string name;
    StridedLayout layout;
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
