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

/// Base of Dropout1d and the further variants: forward(x) returns function(x, p, is_training()).
template <typename Self, auto function>
class DropoutLayer : public Stateless<Self> {
 public:
  explicit DropoutLayer(double p = 0.5, Where where = Where::current()) : p_(p) {
    require_share(this->kind(), "p", p, where);
    this->note_mode();
  }
  explicit DropoutLayer(DropoutOptions options) : DropoutLayer(options.p, options.by_name.where) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return function(x, p_, this->is_training(), default_generator(), where);
  }

 private:
  double p_;
};

/// Sets whole channels to zero instead of elements.
struct Dropout1d final : DropoutLayer<Dropout1d, dropout1d> {
  using DropoutLayer::DropoutLayer;
};
struct Dropout2d final : DropoutLayer<Dropout2d, dropout2d> {
  using DropoutLayer::DropoutLayer;
};
struct Dropout3d final : DropoutLayer<Dropout3d, dropout3d> {
  using DropoutLayer::DropoutLayer;
};
/// Preserves mean and variance, for networks with SELU.
struct AlphaDropout final : DropoutLayer<AlphaDropout, alpha_dropout> {
  using DropoutLayer::DropoutLayer;
};
struct FeatureAlphaDropout final : DropoutLayer<FeatureAlphaDropout, feature_alpha_dropout> {
  using DropoutLayer::DropoutLayer;
};

// Programs do not compile the virtual functions of this layer.
extern template class Model<Dropout, Module, false>;

}  // namespace tapegrad::nn
