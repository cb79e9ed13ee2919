#include "nn/weighted.h"

#include <cmath>

#include "nn/internal/weight_parts.h"

namespace tapegrad::nn {

void require_option(std::string_view layer, std::string_view option, int64_t value) {
  if (value == 0) fail<ArgumentError>(layer, ": the option ", option, " is missing, or 0");
  if (value < 0) fail<ArgumentError>(layer, ": ", option, " is negative: ", value);
}

void require_share(std::string_view layer, std::string_view option, double value) {
  if (!(value >= 0 && value <= 1))
    fail<ArgumentError>(layer, ": ", option, " is ", value, ", not in [0, 1]");
}
void require_size(std::string_view layer, std::string_view option, double value) {
  if (!(value >= 0) || std::isinf(value))
    fail<ArgumentError>(layer, ": ", option, " is ", value, ", not a number from 0");
}

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
