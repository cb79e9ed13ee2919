// Base of layers with a weight and a bias, whose sizes may be inferred from the first input.
#pragma once

#include "nn/init.h"
#include "nn/option_checks.h"
#include "nn/refused_nullptr.h"

namespace tapegrad::nn {

namespace detail {
class WeightParts;  // nn/internal/weight_parts.h
}

/// A layer with a weight and a bias, which may be an empty variable. Until the weight's shape is
/// known, both hold no elements. Derive from Model<Self, Weighted>.
class Weighted : public Module {
 public:
  Parameter weight;  // assigning a tensor trains the tensor
  Parameter bias;

  ~Weighted() override;
  void members(Members& m) override;
  bool is_inferred() const override { return weight.rank() > 1; }
  void initialize(const Init& init) override;

 protected:
  explicit Weighted(bool has_bias);
  Weighted(const Weighted&);
  Weighted& operator=(const Weighted&) = default;

  /// Allocates the parameters under their existing handles and initialises them.
  void allocate(const Shape& weight_shape) const { allocate(weight_shape, weight_shape[0]); }
  void allocate(const Shape& weight_shape, int64_t bias_size) const;
  /// Returns the weight of a call: the member, or the weight that nn/weight_norm.h computes in its
  /// place.
  const Variable& used_weight(Variable& computed) const {
    if (parts_ == nullptr) [[likely]]
      return weight;
    return computed = compute_weight();
  }

 private:
  friend class detail::WeightParts;
  void run_init() const;
  Variable compute_weight() const;

  std::shared_ptr<detail::WeightParts> parts_;  // set if the weight is computed
};

}  // namespace tapegrad::nn
