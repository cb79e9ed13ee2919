// Runs modules and records everything that PyTorch needs to repeat the run (the expression that
// constructs the module, its state, the inputs) and our results, gradients and buffers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/generator.h"
#include "core/base/tensor_map.h"
#include "nn/module.h"

namespace tapegrad::torch_oracle {

using Variables = std::vector<Variable>;

class Recorder {
 public:
  /// Modules and inputs have the given dtype. Records are added to `tensors` and `lines`.
  Recorder(DType dtype, TensorMap& tensors, nlohmann::json& lines)
      : dtype_(dtype), tensors_(tensors), lines_(lines) {}

  DType dtype() const { return dtype_; }

  // Random inputs, different in every call. Floats require a gradient unless they are detached.
  Variable normal(const Shape& shape);
  Variable positive(const Shape& shape);                        // in [0.2, 2.2]
  Variable unit(const Shape& shape);                            // in [0.05, 0.95]
  Variable sign(const Shape& shape);                            // 1 or -1
  Variable ids(int64_t low, int64_t high, const Shape& shape);  // int64 in [low, high)

  /// Records module(x), module(x, y) or module(x, y, z). `torch` is the expression that constructs
  /// PyTorch's module, in the namespace of torch.nn. The module is run in its current mode.
  void operator()(const std::string& torch, const nn::Module& module, const Variable& x);
  template <typename M>
  void operator()(const std::string& torch, const M& module, const Variable& x, const Variable& y) {
    compare(torch, "m(*x)", module, {x, y}, [&] { return as_list(module(x, y)); });
  }
  template <typename M>
  void operator()(const std::string& torch, const M& module, const Variable& x, const Variable& y,
                  const Variable& z) {
    compare(torch, "m(*x)", module, {x, y, z}, [&] { return as_list(module(x, y, z)); });
  }
  /// Records any other call of a module with a list of inputs x; `call` is the call in PyTorch,
  /// with m for the module. Records the message of an error in place of results.
  void compare(const std::string& torch, const std::string& call, const nn::Module& module,
               const Variables& x, const std::function<Variables()>& forward);

 private:
  static Variables as_list(Variable y) { return {std::move(y)}; }
  static Variables as_list(Variables ys) { return ys; }
  Variable leaf(const Variable& values) const;
  void fill(const nn::Module& module);
  void run(const std::string& torch, const std::string& call, const nn::Module& module,
           const Variables& x, const std::function<Variables()>& forward);

  DType dtype_;
  TensorMap& tensors_;
  nlohmann::json& lines_;
  RandomGenerator generator_{7};
};

/// Returns the module in evaluation mode.
template <typename M>
M evaluated(M module) {
  module.eval();
  return module;
}

void layer_rows(Recorder& record);
void window_rows(Recorder& record);
void loss_rows(Recorder& record);
void sequence_rows(Recorder& record);
void option_rows(Recorder& record);
void sequence_option_rows(Recorder& record);
void computed_weight_rows(Recorder& record);

}  // namespace tapegrad::torch_oracle
