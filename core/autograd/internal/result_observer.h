// Interface for code that sees the result of every op and of every rule, such as RunLedger
// (train/run_ledger.h). It uses the checks of AnomalyMode, so it costs nothing while there is no
// observer. An observer does not change what runs: ops overwrite their operands and absorb
// activations as without it, so the result of an absorbed activation has no gradient of its own.
#pragma once

#include <string_view>

#include "core/tape/node.h"
#include "core/tape/variable.h"

namespace tapegrad {

class ResultObserver {
 public:
  /// Called after an op outside of rules with its result, and its line if it was recorded.
  virtual void on_result(std::string_view op, Where where, const Tensor& y) = 0;
  /// Called with each gradient that the rule of a node sends to an input, before it is added to
  /// others. Of a RowGradient it gets the rows.
  virtual void on_gradient(const TapeNode& node, const Tensor& gradient) = 0;

 protected:
  ~ResultObserver() = default;
};

/// Shows the results of this thread to an observer for the lifetime of the object. An AnomalyMode
/// in this scope takes the place of the observer.
class [[nodiscard]] ObserveResults {
 public:
  explicit ObserveResults(ResultObserver* observer);
  ~ObserveResults();
  ObserveResults(const ObserveResults&) = delete;
  ObserveResults& operator=(const ObserveResults&) = delete;

 private:
  detail::Set<&detail::Context::anomaly> wanted_;
  ResultObserver* before_;
};

}  // namespace tapegrad
