// What layers with a weight and a bias share: sizes that may become known later.
#pragma once

#include "nn/init.h"

namespace tapegrad::nn {

/// ArgumentError, naming the option, unless it was given and makes sense.
void require_option(std::string_view layer, std::string_view option, int64_t value);

/// A layer with a weight, and a bias or an empty variable. Until the weight's shape is known both
/// hold no elements.
template <typename Self>
class Weighted : public Model<Self> {
 public:
  Variable weight;
  Variable bias;

  void members(Members& m) override { m("weight", weight)("bias", bias); }
  bool is_inferred() const override { return weight.rank() > 1; }
  void initialize(const Init& init) override {
    this->set_init(init);
    if (is_inferred()) run_init();
  }

 protected:
  explicit Weighted(bool has_bias) : weight(Tensor::empty({0}, default_dtype(), default_device())) {
    weight.requires_grad_();
    if (!has_bias) return;
    bias = Variable(Tensor::empty({0}, default_dtype(), default_device()));
    bias.requires_grad_();
  }
  /// Gives the parameters their shape, under the same handles, and initial values.
  void allocate(const Shape& weight_shape) const { allocate(weight_shape, weight_shape[0]); }
  void allocate(const Shape& weight_shape, int64_t bias_size) const {
    Tensor bias_value;
    if (bias) bias_value = bias.value().empty_like({bias_size});
    weight.rebind(weight.value().empty_like(weight_shape));
    if (bias) bias.rebind(std::move(bias_value));
    run_init();
  }

 private:
  void run_init() const {
    Variable w = weight, b = bias;
    if (const Init& init = this->init())
      init(w, b);
    else
      init::torch(w, b);
  }
};

}  // namespace tapegrad::nn
