// Interface for code that receives the result of every op and of every rule, such as RunLedger
// (train/run_ledger.h). Results are observed by the checks of AnomalyMode, so there is no cost
// without an observer. An observer does not change which kernels run: ops still overwrite their
// operands and absorb activations, so the result of an absorbed activation has no gradient of its
// own.
#pragma once

#include <string_view>

#include "core/tape/node.h"

namespace tapegrad {

class ResultObserver {
 public:
  /// Called after an op outside of rules, with its result and, if the op was recorded, its line.
  virtual void on_result(std::string_view op, Where where, const Tensor& y) = 0;
  /// Called with each gradient that the rule of a node sends to an input, before the gradient is
  /// summed with other gradients. A RowGradient is passed as its rows.
  virtual void on_gradient(const TapeNode& node, const Tensor& gradient) = 0;

 protected:
  ~ResultObserver() = default;
};

/// Shows the results of this thread to an observer for the lifetime of the object. An AnomalyMode
/// in this scope takes the place of the observer.
struct [[nodiscard]] ObserveResults {
  explicit ObserveResults(ResultObserver* to) : observer(to) {}

  detail::Set<&detail::Context::result_observer> observer;
  detail::Set<&detail::Context::anomaly> anomaly{detail::kObserve};
};

}  // namespace tapegrad
