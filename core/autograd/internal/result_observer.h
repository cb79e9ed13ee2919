// Interface for code that sees the result of every op and of every rule, such as RunLedger
// (train/run_ledger.h). It uses the checks of AnomalyMode, so it costs nothing while there is no
// observer.
#pragma once

#include <string_view>

#include "core/tape/node.h"
#include "core/tape/variable.h"

namespace tapegrad {

class ResultObserver {
 public:
  /// Called after an op outside of rules with its result, and its line if it was recorded.
  virtual void on_result(std::string_view op, Where where, const Tensor& y) = 0;
  /// Called after the rule of a node with the gradient of an input.
  virtual void on_gradient(const Node& node, size_t input, const Tensor& gradient) = 0;

 protected:
  ~ResultObserver() = default;
};

/// Shows the results of this thread to an observer for the lifetime of the object. As in an
/// AnomalyMode, no op writes over its operand. An AnomalyMode in this scope takes the place of the
/// observer.
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
