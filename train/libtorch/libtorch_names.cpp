#include "train/libtorch/libtorch_names.h"

namespace tapegrad::torch::nn {

plain::Lambda Functional(Variable (*function)(Variable, Where)) {
  return plain::Lambda([function](const Variable& x) { return function(x, Where::current()); });
}
plain::Lambda Functional(std::function<Variable(const Variable&)> function) {
  return plain::Lambda(std::move(function));
}

}  // namespace tapegrad::torch::nn
