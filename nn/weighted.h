// What layers with a weight and a bias share: sizes that may become known later.
#pragma once

#include "nn/init.h"

namespace tapegrad::nn {

/// ArgumentError, naming the option, unless it was given and makes sense.
void require_option(std::string_view layer, std::string_view option, int64_t value);

/// A layer with a weight, and a bias or an empty variable. Until the weight's shape is known both
/// hold no elements. Derive from Model<Self, Weighted>.
class Weighted : public Module {
 public:
  Variable weight;
  Variable bias;

  ~Weighted() override;
  void members(Members& m) override;
  bool is_inferred() const override { return weight.rank() > 1; }
  void initialize(const Init& init) override;

 protected:
  explicit Weighted(bool has_bias);
  Weighted(const Weighted&);
  Weighted& operator=(const Weighted&) = default;

  /// Gives the parameters their shape, under the same handles, and initial values.
  void allocate(const Shape& weight_shape) const { allocate(weight_shape, weight_shape[0]); }
  void allocate(const Shape& weight_shape, int64_t bias_size) const;

 private:
  void run_init() const;
};

}  // namespace tapegrad::nn
