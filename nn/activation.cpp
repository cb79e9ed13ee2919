#include "nn/activation.h"

#include "nn/weighted.h"
#include "ops/create.h"

namespace tapegrad::nn {

PReLU::PReLU(int64_t num_parameters, double init) {
  require_option("PReLU", ".num_parameters", num_parameters);
  weight = full({num_parameters}, init, {.dtype = default_dtype(), .requires_grad = true});
}

Variable Unflatten::forward(const Variable& x, Where where) const {
  const int at = normalize_dim("Unflatten", dim, x.rank());
  Shape shape;
  int64_t rest = x.size(at);
  for (int64_t size : unflattened_size)
    if (size > 0) rest /= size;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) shape.push_back(x.size(i));
    if (i == at)
      for (int64_t size : unflattened_size) shape.push_back(size < 0 ? rest : size);
  }
  return reshape(x, shape, where);
}

ReLU::ReLU(bool) {}
ReLU6::ReLU6(bool) {}
SiLU::SiLU(bool) {}
Hardswish::Hardswish(bool) {}
LeakyReLU::LeakyReLU(double negative_slope, bool) : Function(negative_slope) {}
ELU::ELU(double alpha, bool) : Function(alpha) {}
CELU::CELU(double alpha) : Function(alpha) {}
GELU::GELU(Choice<Gelu> approximate) : Function(approximate) {}
Softplus::Softplus(double beta, double threshold) : Function(beta, threshold) {}
Hardtanh::Hardtanh(double min_val, double max_val) : Function(min_val, max_val) {}
Softshrink::Softshrink(double lambd) : Function(lambd) {}
Hardshrink::Hardshrink(double lambd) : Function(lambd) {}
Threshold::Threshold(double threshold, double value) : Function(threshold, value) {}
GLU::GLU(int dim) : Function(dim) {}
Softmax::Softmax(int dim) : Function(dim) {}
LogSoftmax::LogSoftmax(int dim) : Function(dim) {}
Softmin::Softmin(int dim) : Function(dim) {}
Flatten::Flatten(int start_dim, int end_dim) : Function(start_dim, end_dim) {}
Unflatten::Unflatten(int dim, const Shape& unflattened_size)
    : dim(dim), unflattened_size(unflattened_size) {}
Lambda::Lambda(std::function<Variable(const Variable&)> function) : function(std::move(function)) {
  if (!this->function) fail<ArgumentError>("Lambda: the function is empty");
}

}  // namespace tapegrad::nn
