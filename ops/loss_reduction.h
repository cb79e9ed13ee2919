// Reduction of the element losses of a loss.
#pragma once

#include <string_view>

#include "core/base/by_name.h"

namespace tapegrad {

/// Reduction::kMean, kSum or kNone; or the name "mean", "sum" or "none". Throws ArgumentError for
/// another name.
class Reduction {
 public:
  enum Kind { kMean, kSum, kNone };
  static constexpr Kind Mean = kMean, Sum = kSum, None = kNone;  // as in libtorch
  constexpr Reduction(Kind kind) : kind_(kind) {}
  Reduction(std::string_view name) : kind_(parse(name)) {}
  Reduction(const char* name) : kind_(parse(name)) {}
  constexpr operator Kind() const { return kind_; }

 private:
  static Kind parse(std::string_view name);

  Kind kind_;
};

/// Options of mse_loss(x, y, {.reduction = "sum"}).
struct LossOptions {
  ByName by_name = {};
  Reduction reduction = Reduction::kMean;
};

}  // namespace tapegrad
