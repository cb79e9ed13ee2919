#include "nn/weighted.h"

#include "nn/internal/weight_parts.h"

namespace tapegrad::nn {

Weighted::Weighted(bool has_bias)
    : Module(OfModel()), weight(Variable(Tensor::empty({0}, default_dtype(), default_device()))) {
  if (has_bias) bias = Variable(Tensor::empty({0}, default_dtype(), default_device()));
}

// Defined here, not in the header, since every model that holds layers would compile them again.
Weighted::Weighted(const Weighted&) = default;
Weighted::~Weighted() = default;

void Weighted::members(Members& m) {
  if (parts_ == nullptr) return void(m("weight", weight)("bias", bias));
  std::map<std::string, std::shared_ptr<detail::WeightParts>> parts{{"weight", parts_}};
  m("bias", bias)("parametrizations", parts);
  parts_ = parts.at("weight");  // a copy, if a clone is being made
}

Variable Weighted::compute_weight() const {
  Variable computed = parts_->compute(is_training());
  if (is_training()) {
    Variable& handle = const_cast<Parameter&>(weight);  // the computed weight is not a parameter
    handle = computed.detach();
  }
  return computed;
}

void Weighted::initialize(const Init& init) {
  set_init(init);
  if (is_inferred()) run_init();
}

void Weighted::allocate(const Shape& weight_shape, int64_t bias_size) const {
  Tensor bias_value;
  if (bias.defined()) bias_value = bias.value().empty_like({bias_size});
  weight.rebind(weight.value().empty_like(weight_shape));
  if (bias.defined()) bias.rebind(std::move(bias_value));
  run_init();
}

void Weighted::run_init() const {
  Variable w = weight, b = bias;
  if (init())
    init()(w, b);
  else
    init::torch(w, b);
  if (parts_ != nullptr) parts_->set(w);
}

}  // namespace tapegrad::nn
