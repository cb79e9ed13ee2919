#include "nn/activation.h"

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "nn/option_checks.h"
#include "ops/activation_composed.h"
#include "ops/create.h"

namespace tapegrad::nn {

PReLU::PReLU(int64_t num_parameters, double init, Where where) {
  require_option("PReLU", ".num_parameters", num_parameters, where);
  weight = full({num_parameters}, init, {.dtype = default_dtype(), .requires_grad = true});
}

RReLU::RReLU(double lower, double upper, bool, Where where) : lower_(lower), upper_(upper) {
  const ErrorLine line(where);
  note_mode();
  if (!(lower <= upper))
    fail<ArgumentError>(kName, ": lower is ", lower, ", not at most upper, ", upper);
}
Variable RReLU::forward(const Variable& x, Where where) const {
  return rrelu(x, lower_, upper_, is_training(), default_generator(), where);
}
std::string RReLU::options() const {
  ClassicText text;
  text << "lower=" << lower_ << ", upper=" << upper_;
  return text.str();
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
ReLU::ReLU(InplaceOptions options) : ReLU(options.inplace) {}
ReLU6::ReLU6(bool) {}
ReLU6::ReLU6(InplaceOptions options) : ReLU6(options.inplace) {}
SiLU::SiLU(bool) {}
SiLU::SiLU(InplaceOptions options) : SiLU(options.inplace) {}
Hardswish::Hardswish(bool) {}
Hardswish::Hardswish(InplaceOptions options) : Hardswish(options.inplace) {}
LeakyReLU::LeakyReLU(double negative_slope, bool) : Function(negative_slope) {}
LeakyReLU::LeakyReLU(LeakyReLUOptions options) : LeakyReLU(options.negative_slope) {}
ELU::ELU(double alpha, bool) : Function(alpha) {}
ELU::ELU(ELUOptions options) : ELU(options.alpha) {}
CELU::CELU(double alpha, Where where) : Function(alpha) {
  const ErrorLine line(where);
  if (alpha == 0 || !(alpha == alpha)) fail<ArgumentError>("CELU: alpha must not be ", alpha);
}
CELU::CELU(ELUOptions options) : CELU(options.alpha, options.by_name.where) {}
GELU::GELU(Choice<Gelu> approximate) : Function(approximate) {}
GELU::GELU(GeluOptions options) : GELU(options.approximate) {}
Softplus::Softplus(double beta, double threshold, Where where) : Function(beta, threshold) {
  require_positive(kind(), "beta", beta, where);
}
Softplus::Softplus(SoftplusOptions options)
    : Softplus(options.beta, options.threshold, options.by_name.where) {}
Hardtanh::Hardtanh(double min_val, double max_val, Where where) : Function(min_val, max_val) {
  const ErrorLine line(where);
  if (!(min_val < max_val))
    fail<ArgumentError>("Hardtanh: min_val is ", min_val, ", not below max_val, ", max_val);
}
Hardtanh::Hardtanh(HardtanhOptions options)
    : Hardtanh(options.min_val, options.max_val, options.by_name.where) {}
Softshrink::Softshrink(double lambd, Where where) : Function(lambd) {
  require_not_negative(kind(), "lambd", lambd, where);
}
Softshrink::Softshrink(ShrinkOptions options) : Softshrink(options.lambd, options.by_name.where) {}
Hardshrink::Hardshrink(double lambd) : Function(lambd) {}
Hardshrink::Hardshrink(ShrinkOptions options) : Hardshrink(options.lambd) {}
Threshold::Threshold(double threshold, double value) : Function(threshold, value) {}
GLU::GLU(int dim) : Function(dim) {}
GLU::GLU(DimOptions options) : GLU(options.dim) {}
Softmax::Softmax(int dim) : Function(dim) {}
Softmax::Softmax(DimOptions options) : Softmax(options.dim) {}
LogSoftmax::LogSoftmax(int dim) : Function(dim) {}
LogSoftmax::LogSoftmax(DimOptions options) : LogSoftmax(options.dim) {}
Variable Softmax2d::forward(const Variable& x, Where where) const {
  const ErrorLine line(where);
  if (x.rank() != 3 && x.rank() != 4)
    fail<ShapeError>("Softmax2d: [n, c, h, w] or [c, h, w] wanted, not ", x.shape());
  return softmax(x, -3, where);
}
Softmin::Softmin(int dim) : Function(dim) {}
Softmin::Softmin(DimOptions options) : Softmin(options.dim) {}
Flatten::Flatten(int start_dim, int end_dim) : Function(start_dim, end_dim) {}
Flatten::Flatten(FlattenOptions options) : Flatten(options.start_dim, options.end_dim) {}
Unflatten::Unflatten(int dim, const Shape& unflattened_size)
    : dim(dim), unflattened_size(unflattened_size) {}
Lambda::Lambda(std::function<Variable(const Variable&)> function) : function(std::move(function)) {
  if (!this->function) fail<ArgumentError>("Lambda: the function is empty");
}
Variable Lambda::forward(const Variable& x) const {
  if (!function) fail<ArgumentError>("Lambda: the function is empty; the layer was moved from");
  return function(x);
}

void PReLU::members(Members& m) { m("weight", weight); }
Variable PReLU::forward(const Variable& x, Where where) const { return prelu(x, weight, where); }
template class Model<ReLU, Module, false>;

}  // namespace tapegrad::nn
