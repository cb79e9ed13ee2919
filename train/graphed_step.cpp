#include "train/graphed_step.h"

#include <mutex>

#include "absl/cleanup/cleanup.h"

#include "core/autograd/internal/capture.h"
#include "core/autograd/internal/step_trace.h"
#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"

namespace tapegrad {
namespace {

std::vector<Variable> without_history(const std::vector<Variable>& results) {
  std::vector<Variable> values;
  for (const Variable& result : results)
    values.push_back(result.defined() ? result.detach() : Variable());
  return values;
}

/// Returns results that share no memory with each other, the state of the step or its inputs.
std::vector<Variable> separate(std::vector<Variable> results) {
  for (Variable& result : results)
    if (result.defined() && result.value().storage().owners() > 1)
      result = Variable(result.value().clone());
  return results;
}

Device device_of(GraphedStep::Inputs inputs) {
  return inputs.empty() ? default_device() : inputs[0].device();
}

/// Memory at a fixed address for the values of an input.
class FixedInput {
 public:
  explicit FixedInput(const Variable& x) : fixed_(x.value().empty_like()) {}

  bool takes(const Variable& x) const {
    return x.shape() == fixed_.shape() && x.dtype() == fixed_.dtype() &&
           x.device() == fixed_.device();
  }
  /// Skips the copy if the same tensor was copied last time, and neither was written since. Writes
  /// through data_ptr(), or to memory of from_blob(), are not counted, so such tensors are copied.
  void set(const Variable& x) {
    const Tensor& value = x.value();
    if (last_ && fixed_.value().storage().version() == fixed_version_ &&
        last_.shares_storage(value) && last_.layout().offset == value.layout().offset &&
        last_.strides() == value.strides() && version_ == value.storage().version() &&
        !value.storage().is_inference() && !value.storage().is_exposed())
      return;
    kernels::copy(value, fixed_.writable());
    fixed_.value().storage().bump_version();  // another step may have it as its input
    last_ = value;
    version_ = value.storage().version();
    fixed_version_ = fixed_.value().storage().version();
  }
  const Variable& variable() const { return fixed_; }
  /// Gives x the values that the function wrote to the input. Returns whether it wrote any.
  bool give_back(const Variable& x) {
    if (fixed_.value().storage().version() == fixed_version_) return false;
    Variable target = x.detach();
    kernels::copy(fixed_.value(), target.writable());
    target.value().storage().bump_version();
    fixed_version_ = fixed_.value().storage().version();
    last_ = {};
    return true;
  }

 private:
  Variable fixed_;
  Tensor last_;
  uint32_t version_ = 0, fixed_version_ = 0;
};

/// Modes of the caller's thread, by which the function of a step may choose its ops.
struct Modes {
  bool records = is_recording(), is_inference = is_inference_mode(), casts = is_autocast_enabled();
  DType casts_to = autocast_dtype();
  bool operator==(const Modes&) const = default;
};

/// State for inputs of one set of shapes and dtypes, in one set of modes.
struct Shapes {
  Modes modes = {};
  std::vector<FixedInput> inputs = {};
  int64_t calls = 0;                      // calls that ran the function
  std::unique_ptr<StepTrace> trace = {};  // of the last call before a recording, on the CPU
  std::unique_ptr<Capture> graph = {};
  std::vector<Variable> results = {};  // results of the graph
  int64_t replays = 0;                 // of the graph
  bool is_checked = true;              // whether the next call need not check the graph
  int renewals = 0;         // recordings in a row that were replaced after their first run
  std::string reason = {};  // why there is no graph

  bool take(GraphedStep::Inputs given) const {
    bool all = given.size() == inputs.size() && modes == Modes();
    for (size_t i = 0; all && i < given.size(); ++i) all = inputs[i].takes(given[i]);
    return all;
  }
  /// Copies the given values to the fixed addresses.
  std::vector<Variable> fix(GraphedStep::Inputs given) {
    std::vector<Variable> fixed;
    for (size_t i = 0; i < given.size(); ++i) {
      inputs[i].set(given[i]);
      fixed.push_back(inputs[i].variable());
    }
    return fixed;
  }
  /// Prepares another recording, unless several recordings in a row were dropped for `why`.
  void drop_graph(std::string why, int64_t warmup) {
    constexpr int kMostRenewals = 4;
    results.clear();
    graph.reset();
    renewals = replays > 1 ? 0 : renewals + 1;
    if (renewals == kMostRenewals) reason = std::move(why);
    replays = 0;
    calls = warmup - 1;  // a change may require a new warm-up
  }
  /// Called after a call of the function with the fixed inputs. A function that writes to an input
  /// is not recorded, because the caller's tensor would not change.
  void give_back(GraphedStep::Inputs given) {
    for (size_t i = 0; i < given.size(); ++i)
      if (inputs[i].give_back(given[i]))
        reason = "the step writes to its input " + std::to_string(i) +
                 "; capture the tensor instead, or return its new value";
  }
};

}  // namespace

struct GraphedStep::Impl {
  Function fn;
  std::vector<Variable> inputs;
  GraphedStepOptions options;
  std::vector<Shapes> known;
  std::string reason;
  bool graphed = false;
  bool is_running = false;    // the function, which may call its own step
  std::recursive_mutex busy;  // held by the thread whose call runs

  std::vector<Variable> run(Inputs given);
  std::vector<Variable> call(Inputs given) {
    is_running = true;
    const absl::Cleanup done = [this] { is_running = false; };
    return without_history(fn(given));
  }
  std::vector<Variable> eagerly(Inputs given, const std::string& why) {
    graphed = false;
    reason = why;
    return separate(call(given));
  }
  Shapes* find(Inputs given);
  std::vector<Variable> warm_up(Shapes& shapes, Inputs given);
  std::vector<Variable> run_fixed(Shapes& shapes, Inputs given);
  std::vector<Variable> check(Shapes& shapes, Inputs given);
  std::vector<Variable> record(Shapes& shapes, Inputs given);
  std::vector<Variable> repeat(Shapes& shapes, Inputs given);
};

void GraphedStep::check_count(size_t expected, size_t given) {
  if (expected != given)
    fail<ArgumentError>("GraphedStep: ", given, " inputs for a function of ", expected);
}

GraphedStep::GraphedStep(Wrapped, Function fn, std::vector<Variable> inputs,
                         GraphedStepOptions options)
    : impl_(new Impl{std::move(fn), std::move(inputs), options, {}, {}, false, false, {}}) {
  if (options.warmup < 1) fail<ArgumentError>("GraphedStep: warmup is ", options.warmup);
  if (options.max_graphs < 1)
    fail<ArgumentError>("GraphedStep: max_graphs is ", options.max_graphs);
}
GraphedStep::~GraphedStep() = default;
GraphedStep::GraphedStep(GraphedStep&&) noexcept = default;
GraphedStep& GraphedStep::operator=(GraphedStep&&) noexcept = default;

GraphedStep::Impl& GraphedStep::impl() const {
  if (!impl_) fail<ArgumentError>("GraphedStep: this object was moved from");
  return *impl_;
}
void GraphedStep::check_next() {
  const std::lock_guard lock(impl().busy);
  for (Shapes& shapes : impl().known)
    shapes.is_checked = !shapes.graph || shapes.graph->device() != cpu;
}
bool GraphedStep::is_graphed() const { return impl().graphed; }
const std::string& GraphedStep::reason() const { return impl().reason; }
std::string GraphedStep::explain() const {
  std::string text;
  for (const Shapes& shapes : impl().known)
    if (shapes.graph) text += shapes.graph->explain();
  return text;
}

std::vector<Variable> GraphedStep::run_all(Inputs inputs) {
  return impl().run(inputs.empty() ? Inputs(impl().inputs) : inputs);
}
Variable GraphedStep::run_first(Inputs inputs) {
  std::vector<Variable> results = run_all(inputs);
  return results.empty() ? Variable() : std::move(results.front());
}

Shapes* GraphedStep::Impl::find(Inputs given) {
  for (Shapes& shapes : known)
    if (shapes.take(given)) return &shapes;
  if (int64_t(known.size()) == options.max_graphs) return nullptr;
  Shapes& made = known.emplace_back();
  for (const Variable& x : given) made.inputs.emplace_back(x);
  return &made;
}

std::vector<Variable> GraphedStep::Impl::run(Inputs given) {
  const std::lock_guard lock(busy);
  if (!options.enabled) return eagerly(given, "it is not enabled");
  if (detail::context.anomaly)
    return eagerly(given, "a RunLedger or an AnomalyMode sees the result of every op");
  if (is_running) return without_history(fn(given));  // a part of the step
  if (Capture::current() != nullptr) return eagerly(given, "it is called in another one");
  for (const Variable& x : given)
    if (x.requires_grad()) return eagerly(given, "an input requires a gradient");
  Shapes* shapes = find(given);
  if (shapes == nullptr)
    return eagerly(given, "there are max_graphs graphs for inputs of other shapes");
  if (!shapes->reason.empty()) return eagerly(given, shapes->reason);
  if (shapes->graph) shapes->fix(given);
  if (shapes->graph && !shapes->graph->is_current()) {
    shapes->drop_graph(
        "a tensor, a gradient, a value or a setting that the step reads is another one in every "
        "call",
        options.warmup);
    if (!shapes->reason.empty()) return eagerly(given, shapes->reason);
  }
  if (shapes->graph) return shapes->is_checked ? repeat(*shapes, given) : check(*shapes, given);
  // Warm-up uses the fixed inputs, so that libraries choose algorithms for the layout and alignment
  // of the recording.
  return shapes->calls < options.warmup ? warm_up(*shapes, given) : record(*shapes, given);
}

std::vector<Variable> GraphedStep::Impl::warm_up(Shapes& shapes, Inputs given) {
  const bool is_traced = ++shapes.calls == options.warmup && device_of(given) == cpu;
  shapes.trace = is_traced ? std::make_unique<StepTrace>() : nullptr;
  return run_fixed(shapes, given);
}

/// Runs the function with the fixed inputs, observed by the trace if there is one.
std::vector<Variable> GraphedStep::Impl::run_fixed(Shapes& shapes, Inputs given) {
  const std::vector<Variable> fixed = shapes.fix(given);
  std::vector<Variable> results;
  try {
    CallRecorder* const before = detail::context.recorder;
    const detail::UseRecorder trace(shapes.trace ? shapes.trace.get() : before);
    results = eagerly(fixed, "");
  } catch (...) {
    shapes.give_back(given);
    throw;
  }
  shapes.give_back(given);
  return results;
}

/// Runs the function and compares it with the graph.
std::vector<Variable> GraphedStep::Impl::check(Shapes& shapes, Inputs given) {
  shapes.trace = std::make_unique<StepTrace>();
  std::vector<Variable> results = run_fixed(shapes, given);
  shapes.is_checked = true;
  if (const std::string what = shapes.graph->difference(*shapes.trace); !what.empty()) {
    shapes.drop_graph(what, options.warmup);
    ++shapes.calls;  // this call was traced
  }
  return results;
}

std::vector<Variable> GraphedStep::Impl::record(Shapes& shapes, Inputs given) {
  const std::vector<Variable> fixed = shapes.fix(given);
  std::vector<Variable> results;
  std::unique_ptr<Capture> graph;
  try {
    graph = Capture::create(device_of(given));
    if (options.save_memory) graph->save_memory();
    graph->compare_with(shapes.trace.get());
    graph->record([&] {
      results = call(fixed);
      for (const Variable& result : results)
        if (result.defined() && result.device().type != graph->device().type)
          graph->give_up(graph->device() == cpu ? "a result is on another device"
                                                : "a result is on the CPU");
    });
  } catch (const Error& error) {
    if (graph && !graph->is_lost()) {
      shapes.give_back(given);
      throw;
    }
    shapes.reason = error.message();
  }
  if (shapes.reason.empty() && graph->is_lost())
    shapes.reason = "CUDA did not record it: a call was made that a recording does not allow";
  if (!shapes.reason.empty()) return eagerly(given, shapes.reason);
  shapes.trace.reset();
  if (!graph->is_ready()) {
    if (graph->is_different())
      shapes.drop_graph(graph->reason(), options.warmup);
    else
      shapes.reason = graph->reason();
    shapes.give_back(given);
    reason = graph->reason();
    graphed = false;
    return separate(std::move(results));
  }
  shapes.results = std::move(results);
  shapes.graph = std::move(graph);
  std::vector<Variable> values = repeat(shapes, given);
  shapes.give_back(given);
  if (!shapes.reason.empty()) shapes.graph.reset();
  return values;
}

/// Replays the graph with the fixed inputs, to which the given inputs have been copied.
std::vector<Variable> GraphedStep::Impl::repeat(Shapes& shapes, Inputs given) {
  try {
    shapes.graph->replay();
  } catch (const Capture::Changed& changed) {
    shapes.drop_graph(changed.what + ", which is another one in every call", options.warmup);
    if (!shapes.reason.empty()) return eagerly(given, shapes.reason);
    return warm_up(shapes, given);
  }
  ++shapes.replays;
  graphed = true;
  reason.clear();
  std::vector<Variable> values;
  for (const Variable& result : shapes.results)
    values.push_back(result.defined() ? Variable(shapes.graph->take(result.value())) : Variable());
  return values;
}

std::vector<Variable> GraphedStep::as_list(const Variable& result) { return {result}; }
}  // namespace tapegrad
