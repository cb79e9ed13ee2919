// Adafactor: adaptive rates whose second moments are kept as rows and columns.
#pragma once

#include <optional>
#include <utility>

#include "optim/custom.h"

namespace tapegrad::optim {

struct AdafactorOptions {
  double lr = 1e-2;           // upper bound of the relative rate
  double beta2_decay = -0.8;  // at most 0
  /// Lower bound of the root of the second moments, by default the machine epsilon of the
  /// parameter's dtype; and lower bound of a parameter's root mean square.
  std::pair<std::optional<double>, double> eps = {std::nullopt, 1e-3};
  double d = 1.0;  // upper bound of an update's root mean square, at least 1
  double weight_decay = 0.0;
  bool maximize = false;
};
/// Adaptive rates with little memory (Shazeer and Stern 2018). For a parameter p [..., a, b] of two
/// or more dimensions, the state has a + b numbers in place of a b. In step t:
///
///   rate = max(eps[1], rms(p)) min(lr, 1 / sqrt(t)); s = t^beta2_decay
///   row = (1 - s) row + s mean(g^2 over b);  column = (1 - s) column + s mean(g^2 over a)
///   v = row column / max(mean(row over a), eps[0])
///   u = g / sqrt(max(v, eps[0]^2))
///   p = (1 - lr weight_decay) p - rate u / max(1, rms(u) / d)
///
/// For other parameters, v = (1 - s) v + s g^2 is the state. Names, defaults and results are
/// PyTorch's. The step is composed of ops, so a captured step does not record it.
/// State: row_var and col_var, or variance.
class Adafactor final : public CustomOptimizer {
 public:
  static constexpr bool kNeedsShapes = true;  // dist::ShardedOptimizer refuses the class
  explicit Adafactor(Params params, AdafactorOptions options = {});
  Adafactor(Params params, Rate auto lr)
      : Adafactor(std::move(params), AdafactorOptions{.lr = double(lr)}) {}

 private:
  std::vector<StateInfo> state_info(const Group& group) const override;
  void update(Parameter& parameter) override;

  AdafactorOptions options_;
};

}  // namespace tapegrad::optim
