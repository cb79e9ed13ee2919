// Dropout and its variants: random layers that do nothing after eval().
#pragma once

#include "nn/module.h"
#include "nn/option_checks.h"
#include "nn/refused_nullptr.h"
#include "ops/dropout.h"

namespace tapegrad::nn {

struct DropoutOptions {
  ByName by_name = {};
  double p = 0.5;
  bool inplace = false;  // has no effect
};
/// In training, sets each element to 0 with probability p, else to x / (1 - p). Returns x after
/// eval().
class Dropout final : public Stateless<Dropout> {
 public:
  static constexpr std::string_view kName = "Dropout";
  explicit Dropout(RefusedNullptr);
  explicit Dropout(double p = 0.5, bool inplace = false, Where where = Where::current());
  explicit Dropout(DropoutOptions options);

  Variable forward(Variable x, Where where = Where::current()) const;
  std::string options() const override;

 private:
  double p_;
};

/// Base of random layers: function(x, p, training).
template <typename Self, auto function>
class Noise : public Stateless<Self> {
 public:
  explicit Noise(double p = 0.5, Where where = Where::current()) : p_(p) {
    require_share(this->kind(), "p", p, where);
    this->note_mode();
  }
  explicit Noise(DropoutOptions options) : Noise(options.p, options.by_name.where) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return function(x, p_, this->is_training(), default_generator(), where);
  }

 private:
  double p_;
};

/// Sets whole channels to zero instead of elements.
struct Dropout1d final : Noise<Dropout1d, dropout1d> {
  using Noise::Noise;
};
struct Dropout2d final : Noise<Dropout2d, dropout2d> {
  using Noise::Noise;
};
struct Dropout3d final : Noise<Dropout3d, dropout3d> {
  using Noise::Noise;
};
/// Preserves mean and variance, for networks with SELU.
struct AlphaDropout final : Noise<AlphaDropout, alpha_dropout> {
  using Noise::Noise;
};
struct FeatureAlphaDropout final : Noise<FeatureAlphaDropout, feature_alpha_dropout> {
  using Noise::Noise;
};

// Programs do not compile the virtual functions of this layer.
extern template class Model<Dropout, Module, false>;

}  // namespace tapegrad::nn
