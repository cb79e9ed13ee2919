#include "train/libtorch/libtorch_names.h"

namespace tapegrad::torch::nn {

plain::Lambda Functional(Variable (*function)(Variable, Where)) {
  return plain::Lambda([function](const Variable& x) { return function(x, Where::current()); });
}
plain::Lambda Functional(std::function<Variable(const Variable&)> function) {
  return plain::Lambda(std::move(function));
}

}  // namespace tapegrad::torch::nn

namespace tapegrad::torch {
double Scalar::toDouble() const { return to<double>(); }
float Scalar::toFloat() const { return to<float>(); }
int64_t Scalar::toLong() const { return to<int64_t>(); }
int Scalar::toInt() const { return to<int>(); }
bool Scalar::toBool() const { return to<bool>(); }
TensorOptions dtype(DType type) { return TensorOptions().dtype(type); }
TensorOptions device(Device where) { return TensorOptions().device(where); }
TensorOptions requires_grad(bool on) { return TensorOptions().requires_grad(on); }
}  // namespace tapegrad::torch

namespace tapegrad::torch::optim {
OptimizerParamGroup::OptimizerParamGroup(std::vector<Variable> of)
    : plain::ParamGroup{.params = std::move(of)} {}
}  // namespace tapegrad::torch::optim
