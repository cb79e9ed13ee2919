// Memory for time: a part of a model that keeps nothing for the backward pass, and is computed once
// more when its gradient is wanted.
//
//   Variable y = checkpoint([&](const Variable& x) { return block(x); }, x);
//
// The value, the gradients of any order and the random numbers (dropout) are those of block(x).
#pragma once

#include <concepts>
#include <functional>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

namespace detail {

/// While it lives, the values that nodes of this thread would save are dropped; `run` makes them
/// again from the inputs. Does nothing when nothing is recorded.
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

/// f(xs...), of which only the inputs are kept. When a backward pass needs a value from within, f
/// runs once more, as it did: with the same draws of random numbers, the same Autocast, within the
/// same part of the model, and with is_recomputing() true (by which BatchNorm leaves its statistics
/// alone). What it saves then lives until the backward pass has freed its nodes.
///
/// f is copied and kept as long as the graph: what it refers to must live as long, and what it
/// captures by value is kept alive. It must compute the same again: AutogradError when its ops or
/// draws are others than at first, or when an input, a parameter or another value that an op of it
/// reads was written in between. Checkpoints may be nested.
template <typename F, std::same_as<Variable>... Xs>
requires std::invocable<F&, const Variable&, const Xs&...>
auto checkpoint(F f, const Variable& x, const Xs&... xs) {
  const detail::CheckpointScope scope({x, xs...}, [f](const std::vector<Variable>& in) mutable {
    [&]<size_t... I>(std::index_sequence<I...>) { f(in[I]...); }
    (std::make_index_sequence<1 + sizeof...(Xs)>());
  });
  return f(x, xs...);
}
/// The same for a function of a list.
template <typename F>
auto checkpoint(F f, const std::vector<Variable>& xs) {
  const detail::CheckpointScope scope(xs, [f](const std::vector<Variable>& in) mutable { f(in); });
  return f(xs);
}

}  // namespace tapegrad
