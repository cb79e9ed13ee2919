// Reduction of the element losses of a loss.
#pragma once

#include <string_view>

#include "core/base/by_name.h"

namespace tapegrad {

/// Reduction::kMean, kSum or kNone; or the name "mean", "sum" or "none". Throws ArgumentError for
/// another name.
class Reduction {
 public:
  /// Scoped, so that Reduction::kNone is no number, such as the delta of huber_loss().
  enum class Kind { kMean, kSum, kNone };
  static constexpr Kind kMean = Kind::kMean, kSum = Kind::kSum, kNone = Kind::kNone;
  static constexpr Kind Mean = kMean, Sum = kSum, None = kNone;  // as in libtorch
  constexpr Reduction(Kind kind) : kind_(kind) {}
  Reduction(std::string_view name, Where where = Where::current()) : kind_(parse(name, where)) {}
  Reduction(const char* name, Where where = Where::current()) : kind_(parse(name, where)) {}
  constexpr operator Kind() const { return kind_; }

 private:
  static Kind parse(std::string_view name, Where where);

  Kind kind_;
};

/// Reduction of kl_div(): a Reduction, or "batchmean", the sum divided by the batch size. "mean" is
/// over all elements.
struct KLDivReduction {
  KLDivReduction(Reduction of) : kind(of) {}
  KLDivReduction(Reduction::Kind of) : kind(of) {}
  /// Throws ArgumentError for another name.
  KLDivReduction(std::string_view name, Where where = Where::current());
  KLDivReduction(const char* name, Where where = Where::current())
      : KLDivReduction(std::string_view(name), where) {}

  Reduction kind;
  bool is_batchmean = false;
};

/// Options of mse_loss(x, y, {.reduction = "sum"}).
struct LossOptions {
  ByName by_name = {};
  Reduction reduction = Reduction::kMean;
};

}  // namespace tapegrad
