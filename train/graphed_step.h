// GraphedStep: records the kernels of a training step and replays them. On a GPU the recording is a
// CUDA graph: a step of a small model consists of some hundred kernels of a few microseconds, which
// a CPU cannot launch fast enough; a graph is one launch. On the CPU it is a list of kernel calls:
// a replay needs no tape and no checks of shapes, and runs of elementwise kernels work on blocks
// that stay in the cache.
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
// The first calls run the function (they are ordinary training steps) on inputs that are copied to
// fixed addresses. The next call records the kernels of the function. Further calls copy their
// inputs to the fixed addresses and replay the kernels, with results bit-identical to those of the
// function. Each set of shapes and dtypes of the inputs has its own recording, so a last batch may
// be smaller. Calls within NoGrad, InferenceMode and Autocast have separate recordings.
//
// A replay repeats only the kernels. Host code of the function runs only when the function runs:
// numbers computed by host code, and tensors made of them, keep their values, branches keep their
// direction, and printed lines appear once. The exceptions, which change in each replay, are random
// numbers (dropout), the learning rate and step number of an optimizer (so a scheduler works, if
// stepped outside of the function), and the scale of a GradScaler, whose decision to skip a step is
// made by a kernel. A number that changes in each call is noticed: on the CPU, the calls of kernels
// are compared with those of the call before the recording, and a step that passes other numbers,
// shapes or tensors is not recorded. A number that changes later is noticed by check_next(); better
// pass it as an input.
//
// Ops whose result depends on values in a way that a kernel cannot follow, such as the size of
// masked_select() or the lengths of sequences in a tensor, compare these values in each replay on
// the CPU. If a value differs, the replay is abandoned without an effect, the function runs
// instead, and a later call records the step again. Such values can be read before an optimizer
// makes its step, and while the tensors from outside of the step that were written before, such as
// the statistics of batch norms, have less than 1 MB.
//
// Calls by several threads run one after another. The inputs of a replay are contiguous copies, so
// results for inputs of another layout are those of the function up to rounding.
//
// A step that cannot be replayed is detected while it is recorded. The function then runs normally
// in this and in later calls, and reason() says why:
//
//   - the function reads values on the host: item(), to_vector(), data_ptr(), printing; or it
//     updates a weight average or a metric. On a GPU, also if it waits for the device in another
//     way, as ops do whose result size depends on values, or copies values from the CPU
//   - a number, a shape or a value that the ops of the step depend on differs in every call
//   - the function sets a seed, draws from a generator that it makes, sets a learning rate or a
//     weight decay, steps a scheduler, or registers a hook of a leaf or of a module
//   - the function reads a tensor and then replaces it (h = f(h)); use copy_(h, f(h))
//   - the function writes to an input
//   - a RunLedger or an AnomalyMode sees the result of every op; later steps are recorded
//   - on a GPU: TAPEGRAD_CUDA_BLOCKING or TAPEGRAD_CUDA_ALLOCATOR=direct is set
//
// An input is copied to a fixed address unless it is the tensor of the last call and was not
// written since. A write through Tensor::data() is not detected; writes through data_ptr(),
// accessor() and from_blob() are. If the step writes to the memory of an input through another
// variable, the input keeps its values until the next call.
//
// Tensors that the function reads in addition to its inputs are read at their address in each
// replay, so writes to them take effect. The step is recorded again after each of these changes:
//
//   - such a tensor is replaced (load_state_dict(), to(), net.weight = w)
//   - a parameter is frozen or thawed, a hook is added or removed, or an optimizer gets parameters
//   - a module that asked for its mode changes it (train(), eval())
//   - a learning rate or weight decay that the function itself has read (group.lr), the momentum of
//     a batch norm, or the default dtype is set to another value
//   - a gradient that the step reads is another tensor than before, or was cleared
//
// Assigning to a variable that is no member of a module goes unnoticed if another handle keeps the
// old value: write with copy_(). Class ids and indices are checked in each replay, too. If a check
// fails on the CPU, generators and optimizers are left as the function would leave them, and leaves
// have only gradients from before the call. On a GPU a later call throws the error.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/autograd/derivatives.h"
#include "core/base/owner.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct GraphedStepOptions {
  bool enabled = true;  // if false, every call runs the function
  int64_t warmup = 3;   // calls that run the function for new input shapes; at least 1
  int64_t max_graphs =
      4;  // sets of shapes with a recording; calls with other shapes run the function
  /// Whether values of cheap kernels, such as activations, are computed again when the backward
  /// pass needs them, which lowers the peak of memory. The results have the same bits. On the CPU
  /// only.
  bool save_memory = false;
};

class GraphedStep {
 public:
  using Inputs = std::span<const Variable>;
  using Function = std::function<std::vector<Variable>(Inputs)>;

  /// fn takes up to eight inputs, or Inputs, and returns a Variable, a std::vector of Variables, or
  /// nothing. Everything that fn uses (model, optimizers, generators) must outlive this object.
  /// `inputs` are used by calls without arguments. Throws ArgumentError for a warmup or max_graphs
  /// below 1.
  template <typename Fn>
  explicit GraphedStep(Fn fn, std::vector<Variable> inputs = {}, GraphedStepOptions options = {})
      : GraphedStep(Wrapped(), wrap(std::move(fn)), std::move(inputs), options) {}
  ~GraphedStep();
  GraphedStep(GraphedStep&&) noexcept;
  GraphedStep& operator=(GraphedStep&&) noexcept;

  /// Makes one step and returns its first result, or an empty variable. Results have no history and
  /// belong to the caller: a later step does not change them, but it does change the gradients of
  /// leaves.
  template <std::derived_from<Variable>... Xs>
  Variable operator()(const Xs&... inputs) {
    const Variable list[] = {inputs..., Variable()};
    return run_first({list, sizeof...(Xs)});
  }
  /// Makes one step and returns all results.
  std::vector<Variable> run_all(Inputs inputs);

  /// Makes the next call for each set of shapes run the function and compare it with its recording,
  /// which is dropped if the function passes other numbers to its kernels. fit() calls check_next()
  /// before each epoch. On the CPU only.
  void check_next();

  /// Returns whether the last call replayed a recorded step.
  bool is_graphed() const;
  /// Returns why the step cannot be replayed; empty if the last call replayed the step or a later
  /// call may.
  const std::string& reason() const;
  /// Describes the recorded steps, one for each set of shapes. On the CPU: the elementwise kernels
  /// that run together, the lines that called them, the memory that this saves, and which kernels
  /// could not be joined. Empty before a step is recorded.
  std::string explain() const;

 private:
  struct Impl;
  struct Wrapped {};
  Impl& impl() const;  // throws ArgumentError for an object that was moved from

  GraphedStep(Wrapped, Function fn, std::vector<Variable> inputs, GraphedStepOptions options);
  Variable run_first(Inputs inputs);

  static std::vector<Variable> as_list(const Variable& result);
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

  template <typename Fn, size_t... i>
  static std::vector<Variable> call_each(Fn& fn, Inputs x, std::index_sequence<i...>) {
    check_count(sizeof...(i), x.size());
    return call(fn, x[i]...);
  }
  template <typename Fn>
  static Function wrap(Fn fn) {
    return [fn = std::move(fn)](Inputs x) mutable {
      constexpr size_t kCount = detail::count_arguments<Fn, Variable>();
      if constexpr (kCount > 0 || std::invocable<Fn&>) {
        return call_each(fn, x, std::make_index_sequence < std::invocable<Fn&> ? 0 : kCount > ());
      } else {
        static_assert(std::invocable<Fn&, Inputs>,
                      "GraphedStep: a function of up to eight Variables, or of a "
                      "std::span<const Variable>");
        return call(fn, x);
      }
    };
  }

  detail::Owner<Impl> impl_;
};

}  // namespace tapegrad
