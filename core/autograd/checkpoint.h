// Checkpointing trades time for memory: a part of a model saves no tensors for the backward pass
// and is recomputed when its gradient is needed.
//
//   Variable y = checkpoint([&](const Variable& x) { return block(x); }, x);
//
// Values, gradients of any order and random numbers (dropout) equal those of block(x).
#pragma once

#include <concepts>
#include <functional>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

namespace detail {

/// While the object exists, tensors that nodes of this thread would save are dropped; `run`
/// recomputes them from the inputs. Has no effect while nothing is recorded.
class [[nodiscard]] CheckpointScope {
 public:
  using Run = std::function<void(const std::vector<Variable>& inputs)>;
  CheckpointScope(std::vector<Variable> inputs, Run run);
  ~CheckpointScope();
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

 private:
  class Segment;
  Segment* segment_ = nullptr;
};

}  // namespace detail

/// Returns f(xs...), keeping only the inputs. When a backward pass needs a saved tensor of f, f
/// runs again under the same conditions: the same random numbers, the same Autocast, the same
/// module name, and with is_recomputing() true (BatchNorm then leaves its statistics unchanged).
/// The recomputed saved tensors live until the backward pass frees their nodes.
///
/// f is copied and lives as long as the graph. Objects that f captures by reference must live as
/// long. Recomputation must repeat the first run: AutogradError is thrown if the ops or random
/// draws differ, or if an input, a parameter or another tensor that f reads was modified in
/// between. Checkpoints may be nested. f may call grad(); a backward() in f adds to gradients of
/// leaves only in the first run.
template <typename F, std::derived_from<Variable>... Xs>
requires std::invocable<F&, const Variable&, const Xs&...>
auto checkpoint(F f, const Variable& x, const Xs&... xs) {
  const detail::CheckpointScope scope({x, xs...}, [f](const std::vector<Variable>& in) mutable {
    [&]<size_t... I>(std::index_sequence<I...>) { f(in[I]...); }
    (std::make_index_sequence<1 + sizeof...(Xs)>());
  });
  return f(x, xs...);
}
/// Overload for functions of a list of variables.
template <typename F>
auto checkpoint(F f, const std::vector<Variable>& xs) {
  const detail::CheckpointScope scope(xs, [f](const std::vector<Variable>& in) mutable { f(in); });
  return f(xs);
}

}  // namespace tapegrad
