#include "nn/linear.h"

#include <sstream>

#include "ops/linear.h"

namespace tapegrad::nn {

Linear::Linear(LinearOptions options) : Model(options.bias), out_features_(options.out_features) {
  require_option(kName, ".out_features", options.out_features);
  if (options.in_features == 0) return;
  require_option(kName, ".in_features", options.in_features);
  allocate({options.out_features, options.in_features});
}

void Linear::infer(const Variable& x) const {
  infer_once([&] { allocate({out_features_, x.size(-1)}); });
}

Variable Linear::forward(const Variable& x, Where where) const {
  infer(x);
  return linear(x, weight, bias, where);
}

Variable Linear::forward_relu(const Variable& x, Where where) const {
  infer(x);
  return linear_relu(x, weight, bias, where);
}

Activated Linear::forward_joined(const Activated& x, Activation behind, Where where) const {
  infer(x.y);
  return linear_joined(x, weight, bias, behind, where);
}

std::string Linear::options() const {
  std::ostringstream text;
  if (is_inferred()) text << "in_features=" << weight.size(1) << ", ";
  text << "out_features=" << out_features_;
  if (!bias.defined()) text << ", bias=false";
  return text.str();
}

}  // namespace tapegrad::nn
