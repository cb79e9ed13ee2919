// GraphedStep: a training step that a GPU repeats by itself, as one CUDA graph. A step of a small
// model is some hundred kernels of a few microseconds, which a CPU cannot give out fast enough; a
// graph is given out at once. On the CPU the same call just runs the step.
//
//   GraphedStep step([&](const Variable& x, const Variable& y) {
//     optimizer.zero_grad();
//     Variable loss = cross_entropy(model(x), y);
//     loss.backward();
//     optimizer.step();
//     return loss;
//   });
//   for (auto& [x, y] : batches) mean.add(step(x, y));
//   if (!step.reason().empty()) std::cout << "not graphed: " << step.reason() << '\n';
//
// The first calls run the function as it is (they are steps of the training like all others), on
// inputs that are copied to where a graph will read them; the next one records what it gives to the
// device, and from then on that is repeated with the values of the inputs at hand. Repeated calls
// give the very bits of calls that are not. Each set of shapes and types of the inputs has a graph
// of its own, so that a last batch may be smaller.
//
// Repeated is what the device does. What the function does on the host happens only while it runs:
// numbers that it computes there stay as they were, branches as they were taken, lines it prints
// appear once. These are taken anew in each call all the same: random numbers (dropout), the rate
// and the step number of an optimizer (so a scheduler works, outside of the function), the scale of
// a GradScaler, whose decision to leave a step out the device makes by itself.
//
// What cannot be repeated is found while it is recorded. The function then runs as if it had not
// been, now and in later calls, and reason() says why:
//
//   - it waits for the device: item(), to(cpu), printing, nonzero() and whatever else has a result
//     whose size depends on values; values that it brings from the CPU
//   - it reads a tensor and then puts another in its place (h = f(h)): use copy_(h, f(h))
//   - TAPEGRAD_CUDA_BLOCKING, TAPEGRAD_CUDA_ALLOCATOR=direct
//
// Tensors that the function reads without being given them are read where they were: writing into
// them is seen. When one is replaced (load_state_dict, to()), the step is recorded again. Class ids
// and indices are checked in each repeat too, but the error comes with a later call.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

struct GraphedStepOptions {
  bool enabled = true;     // else every call runs the function
  int64_t warmup = 3;      // calls with inputs of new shapes that run the function; at least 1
  int64_t max_graphs = 4;  // sets of shapes that get one; calls with others run the function
};

class GraphedStep {
 public:
  using Inputs = std::span<const Variable>;
  using Function = std::function<std::vector<Variable>(Inputs)>;

  /// fn takes its inputs one by one, up to three, or as Inputs, and returns a Variable, a
  /// std::vector of them, or nothing. What it uses (model, optimizers, generators) outlives this.
  /// `inputs` are what a call without any takes. ArgumentError for a warmup or max_graphs below 1.
  template <typename Fn>
  explicit GraphedStep(Fn fn, std::vector<Variable> inputs = {}, GraphedStepOptions options = {})
      : GraphedStep(Wrapped(), wrap(std::move(fn)), std::move(inputs), options) {}
  ~GraphedStep();
  GraphedStep(GraphedStep&&) noexcept;
  GraphedStep& operator=(GraphedStep&&) noexcept;

  /// One step; its first result, or an empty variable. Results have no history, and are the
  /// caller's: a later step does not change them. Gradients of leaves it does.
  template <std::same_as<Variable>... Xs>
  Variable operator()(const Xs&... inputs) {
    const Variable list[] = {inputs..., Variable()};
    return run_first({list, sizeof...(Xs)});
  }
  /// One step; all results.
  std::vector<Variable> run_all(Inputs inputs);

  /// Whether the last call was a repeat.
  bool is_graphed() const;
  /// Why the last call was not, for good; empty while it was, or is still to be.
  const std::string& reason() const;

 private:
  struct Impl;
  struct Wrapped {};

  GraphedStep(Wrapped, Function fn, std::vector<Variable> inputs, GraphedStepOptions options);
  Variable run_first(Inputs inputs);

  static std::vector<Variable> as_list(const Variable& result) { return {result}; }
  static std::vector<Variable> as_list(std::vector<Variable> results) { return results; }

  template <typename Fn, typename... Xs>
  static std::vector<Variable> call(Fn& fn, const Xs&... inputs) {
    if constexpr (std::is_void_v<std::invoke_result_t<Fn&, const Xs&...>>) {
      fn(inputs...);
      return {};
    } else {
      return as_list(fn(inputs...));
    }
  }
  static void check_count(size_t expected, size_t given);

  template <typename Fn>
  static Function wrap(Fn fn) {
    using V = const Variable&;
    return [fn = std::move(fn)](Inputs x) mutable {
      if constexpr (std::invocable<Fn&>) {
        check_count(0, x.size());
        return call(fn);
      } else if constexpr (std::invocable<Fn&, V>) {
        check_count(1, x.size());
        return call(fn, x[0]);
      } else if constexpr (std::invocable<Fn&, V, V>) {
        check_count(2, x.size());
        return call(fn, x[0], x[1]);
      } else if constexpr (std::invocable<Fn&, V, V, V>) {
        check_count(3, x.size());
        return call(fn, x[0], x[1], x[2]);
      } else {
        static_assert(std::invocable<Fn&, Inputs>, "a function of up to three inputs, or a span");
        return call(fn, x);
      }
    };
  }

  std::unique_ptr<Impl> impl_;
};

}  // namespace tapegrad
