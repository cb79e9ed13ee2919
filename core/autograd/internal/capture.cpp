#include "core/autograd/internal/capture.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "core/autograd/internal/recorded_step.h"
#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/backward.h"
#include "core/tape/internal/leaf_changes.h"
#include "core/tape/recording.h"

namespace tapegrad {
namespace {

using CurrentStep = detail::Set<&detail::Context::step_observer>;
constexpr size_t kLiveAlign = 16;

Leaf& leaf_of(const RefPtr<TapeNode>& node) { return static_cast<Leaf&>(*node); }

std::string place(Device device) {
  if (device.type == DeviceType::kCpu) return "the CPU";
  detail::ErrorText text;
  text.add(device);
  return text.text();
}

template <typename... Parts>
std::string text_of(const Parts&... parts) {
  detail::ErrorText text;
  (text.add(parts), ...);
  return text.text();
}

}  // namespace

Capture::Capture(Device device)
    : device_(device), number_([] {
        static std::atomic<int64_t> made{0};
        return ++made;
      }()) {}
Capture::~Capture() = default;

std::unique_ptr<Capture> Capture::create(Device device) {
  if (device.type == DeviceType::kCpu) return std::make_unique<RecordedStep>();
  return create_on_gpu(device);
}

void Capture::record(const std::function<void()>& fn) {
  if (current() != nullptr)
    fail<ArgumentError>("GraphedStep: another one is recorded by this thread");
  const CurrentStep step(this);
  begin();
  capturing_ = true;
  on_setting([dtype = default_dtype()] { return default_dtype() == dtype; });
  const absl::Cleanup leave = [this] { this->leave(); };
  try {
    fn();
  } catch (...) {
    execute();
    throw;
  }
  if (capturing_) finish();
  if (!ready_ && !lost_) check_watched(/*wait=*/true);
}

/// Called after fn has returned.
void Capture::finish() {
  settle();
  if (!capturing_) return;  // the capture ended early, for lack of memory
  // A leaf that the step creates and destroys is a different leaf in each step.
  if (device_.type == DeviceType::kCpu)
    std::erase_if(gradients_, [](const Gradient& gradient) {
      return !gradient.into && gradient.leaf->has_one_owner();
    });
  for (Gradient& gradient : gradients_) {
    gradient.result = leaf_of(gradient.leaf).gradient();
    gradient.hooks = leaf_of(gradient.leaf).hooks_state();
  }
  for (const Draws& draws : draws_)
    if (draws.generator == nullptr) return give_up("the step makes a generator");
  for (CapturedOperand& operand : operands_) {
    operand.is_written = operand.tensor->storage().version() != operand.version;
    if (operand.tensor->storage().has_one_owner())
      return give_up(text_of("the step reads a tensor of shape ", operand.tensor->shape(),
                             " that it then replaces by another; copy_() writes into it"));
  }
  if (trace_ != nullptr)
    if (std::string what = difference(*std::exchange(trace_, nullptr)); !what.empty()) {
      different_ = true;
      return give_up(std::move(what));
    }
  capturing_ = false;
  leaf_changes_ = detail::leaf_change_count();
  if (!end(/*repeats=*/true)) return lose();
  reset_generators();
  ready_ = true;
  for (const Gradient& gradient : gradients_)  // the first run has not been made
    if (gradient.into) leaf_of(gradient.leaf).set_gradient(Variable(gradient.into));
}

/// Executes the work recorded so far and continues outside of the capture.
void Capture::execute() {
  if (!capturing_) return;
  capturing_ = false;
  detail::context.step_observer = nullptr;
  if (!end(/*repeats=*/false)) return lose();
  reset_generators();
  run();
}

void Capture::reset_generators() {
  for (const Draws& draws : draws_)
    if (draws.generator != nullptr) draws.generator->set_state(draws.start);
}

void Capture::lose() {
  lost_ = true;
  reset_generators();
  for (const Gradient& gradient : gradients_)
    if (!gradient.into) leaf_of(gradient.leaf).set_gradient({});
}

void Capture::give_up(std::string why) {
  if (!capturing_) return;
  reason_ = std::move(why);
  execute();
  if (lost_) fail<Error>("GraphedStep: the recording was lost: ", reason_);
}

void Capture::on_host_change(std::string_view what) { give_up(text_of("the step ", what)); }

void Capture::on_setting(std::function<bool()> is_unchanged) {
  if (capturing_) settings_.push_back(std::move(is_unchanged));
}

bool Capture::is_current() const {
  for (const Gradient& gradient : gradients_) {
    if (!gradient.into && !gradient.cleared && leaf_of(gradient.leaf).gradient().defined())
      return false;
    if (leaf_of(gradient.leaf).hooks_state() != gradient.hooks) return false;
  }
  for (const ReadGradient& gradient : read_gradients_) {
    const Variable now = leaf_of(gradient.leaf).gradient(), &then = gradient.value;
    if (now.defined() != then.defined()) return false;
    if (now.defined() && !(now.value().shares_storage(then.value()) &&
                           now.value().layout().offset == then.value().layout().offset &&
                           now.strides() == then.strides()))
      return false;
  }
  if (const uint64_t seen = std::exchange(leaf_changes_, detail::leaf_change_count());
      seen != leaf_changes_ && detail::any_leaf_change(seen, [&](const TensorStorage* storage) {
        return std::any_of(operands_.begin(), operands_.end(), [&](const CapturedOperand& operand) {
          return &operand.tensor->storage() == storage;
        });
      }))
    return false;
  for (const std::function<bool()>& is_unchanged : settings_)
    if (!is_unchanged()) return false;
  if (!has_values_read()) return false;
  return std::none_of(operands_.begin(), operands_.end(), [](const CapturedOperand& operand) {
    return operand.tensor->storage().has_one_owner();
  });
}

void Capture::before_replay(std::function<void()> part, std::function<void()> undo) {
  parts_.push_back({values_.size(), call_count(), std::move(part), std::move(undo)});
}

const void* Capture::live(const void* value, size_t bytes) {
  const size_t at = preparing_ ? cursor_ : values_.size();
  const size_t end = at + (bytes + kLiveAlign - 1) / kLiveAlign * kLiveAlign;
  if (preparing_ && end > values_.size())
    fail<Error>("GraphedStep: too many values that change with each step");
  if (end > kLiveBytes) {
    give_up("too many values are copied from the CPU");
    return nullptr;
  }
  if (preparing_)
    cursor_ = end;
  else
    values_.resize(end);
  std::memcpy(values_.data() + at, value, bytes);
  return live_memory() + at;
}

void Capture::on_draw(RandomGenerator& generator, RandomState state, uint64_t counters) {
  if (!capturing_) return;
  auto found = std::find_if(draws_.begin(), draws_.end(),
                            [&](const Draws& draws) { return draws.generator == &generator; });
  const bool is_reseeded =
      found != draws_.end() &&
      (found->start.seed != state.seed || found->start.offset + found->counters != state.offset);
  const bool is_second = std::any_of(draws_.begin(), draws_.end(), [&](const Draws& draws) {
    return draws.generator != &generator && draws.start.seed == state.seed;
  });
  if (is_reseeded || is_second) {
    give_up(is_second ? "two generators have one seed" : "the step sets the seed of a generator");
    // This draw is made outside of the capture.
    return generator.set_state({state.seed, state.offset + counters});
  }
  if (found == draws_.end()) {
    const size_t at = values_.size();
    const RandomState base{state.seed, 0};
    live(&base, sizeof(base));
    draws_.push_back({&generator, state, at, 0});
    found = draws_.end() - 1;
  }
  found->counters += counters;
}

void Capture::on_end(const RandomGenerator& generator) {
  for (Draws& draws : draws_)
    if (capturing_ && draws.generator == &generator) draws.generator = nullptr;
}

const RandomState* Capture::base_of(RandomState state) {
  for (const Draws& draws : draws_)
    if (capturing_ && draws.start.seed == state.seed)
      return reinterpret_cast<const RandomState*>(live_memory() + draws.place);
  return nullptr;
}

void Capture::before_gradient(const Leaf& leaf, const Variable& gradient) {
  if (!capturing_ || !gradient.defined() || is_own(gradient.value())) return;
  if (gradient.is_sole_owner() && !is_recording()) return;
  const bool is_read = std::ranges::any_of(
      read_gradients_, [&](const ReadGradient& known) { return known.leaf.get() == &leaf; });
  if (is_read || is_recording())
    return give_up(text_of("a gradient of shape ", leaf.shape(),
                           " is added to one that others hold too; zero_grad() at the start of the "
                           "step clears it"));
  // The sum is a new tensor; the previous gradient is an operand. If an earlier pass of the step
  // has added to the previous gradient, each run begins with it.
  const bool is_known = find(leaf) != nullptr;
  on_gradient_read(leaf);
  auto& target = const_cast<Leaf&>(leaf);
  target.set_gradient(Variable(gradient.value().clone()));
  if (!is_known)
    gradients_.push_back({RefPtr<TapeNode>::share(&target), Tensor(), {}, /*cleared=*/true});
}

Capture::Gradient* Capture::find(const Leaf& leaf) {
  for (Gradient& known : gradients_)
    if (known.leaf.get() == &leaf) return &known;
  return nullptr;
}

void Capture::on_gradient(Leaf& leaf, bool had_one) {
  if (!capturing_ || find(leaf) != nullptr) return;
  gradients_.push_back({RefPtr<TapeNode>::share(&leaf), Tensor(), {}, false});
  const Variable gradient = leaf.gradient();
  if (had_one) gradients_.back().into = gradient.value();
  if (gradient.device().type != device_.type)
    give_up(text_of("a gradient is on ", place(gradient.device())));
}

void Capture::on_gradient_read(const Leaf& leaf) {
  if (!capturing_ || find(leaf) != nullptr) return;
  for (const ReadGradient& known : read_gradients_)
    if (known.leaf.get() == &leaf) return;
  read_gradients_.push_back({RefPtr<TapeNode>::share(const_cast<Leaf*>(&leaf)), leaf.gradient()});
}

void Capture::on_clear(Leaf& leaf) {
  if (capturing_ && find(leaf) == nullptr)
    gradients_.push_back({RefPtr<TapeNode>::share(&leaf), Tensor(), {}, true});
}

void Capture::on_set_to_zero(Leaf& leaf) {
  if (!capturing_ || find(leaf) != nullptr) return;
  on_setting([node = RefPtr<TapeNode>::share(&leaf), had_one = leaf.gradient().defined()] {
    return leaf_of(node).gradient().defined() == had_one;
  });
}

void Capture::on_operand(const Tensor& x) {
  if (!capturing_ || !x || x.device().type != device_.type || is_own(x)) return;
  for (const CapturedOperand& known : operands_)
    if (known.tensor->shares_storage(x)) return;
  operands_.push_back({share_operand(x), x.storage().version()});
}

bool Capture::is_known(const Tensor& x) const {
  const auto is_shared = [&](const Tensor& other) { return other.shares_storage(x); };
  return x.numel() > 0 && !is_own(x) && std::ranges::none_of(constants_, is_shared) &&
         std::ranges::none_of(read_gradients_, [&](const ReadGradient& gradient) {
           return gradient.value.defined() && is_shared(gradient.value.value());
         });
}

/// Performs the work of the host for a run.
void Capture::prepare() {
  const detail::Set<&detail::Context::draw_observer> unobserved(nullptr);  // draws of the past
  for (Draws& draws : draws_) {
    if (draws.generator == nullptr) continue;
    const RandomState now = draws.before = draws.generator->draw(4 * draws.counters);
    const RandomState base{now.seed, now.offset - draws.start.offset};
    std::memcpy(values_.data() + draws.place, &base, sizeof(base));
  }
  const CurrentStep step(this);
  preparing_ = true;
  const absl::Cleanup done = [this] { preparing_ = false; };
  for (const Part& part : parts_) {
    cursor_ = part.begin;
    run_part(part.run, part.calls);
  }
}

/// Undoes the effects of prepare() for calls that an error has prevented.
void Capture::rewind() {
  const std::optional<size_t> failed = failed_call();
  if (!failed) return;
  for (const Draws& draws : draws_) {
    if (draws.generator == nullptr) continue;
    if (const auto next = draw_from(draws.start.seed, *failed + 1))
      draws.generator->set_state(
          {draws.before.seed, draws.before.offset + (next->offset - draws.start.offset)});
  }
  for (const Part& part : parts_)
    if (part.calls > *failed && part.undo) part.undo();
}

/// Undoes the effects of prepare().
void Capture::revert() {
  for (const Draws& draws : draws_)
    if (draws.generator != nullptr) draws.generator->set_state(draws.before);
  for (const Part& part : parts_)
    if (part.undo) part.undo();
}

/// Performs a run. After an error, leaves do not keep gradients that were not computed.
void Capture::run() {
  try {
    prepare();
    launch(values_);
  } catch (const Changed&) {
    throw;
  } catch (...) {
    rewind();
    for (const Gradient& gradient : gradients_) {
      Leaf& leaf = leaf_of(gradient.leaf);
      const Variable now = leaf.gradient();
      if (!gradient.into)
        leaf.set_gradient({});
      else if (now.defined() && !now.value().shares_storage(gradient.into))
        leaf.set_gradient(Variable(gradient.into));
    }
    throw;
  }
}

void Capture::replay() {
  check_watched(/*wait=*/false);
  // A gradient that the graph adds to must be at the recorded address.
  for (const Gradient& gradient : gradients_) {
    if (!gradient.into) continue;
    const Variable now = leaf_of(gradient.leaf).gradient();
    Tensor into = gradient.into;
    if (!now.defined())
      kernels::fill(into, -0.0);  // -0 + x has the bits of x, also if x is -0
    else if (!now.value().shares_storage(into))
      kernels::copy(now.value(), into);
  }
  try {
    run();
  } catch (const Changed&) {
    revert();
    throw;
  }
  for (const Gradient& gradient : gradients_) {
    Leaf& leaf = leaf_of(gradient.leaf);
    const Variable now = leaf.gradient();
    if (now.defined() != gradient.result.defined() ||
        (now.defined() && !now.is_same(gradient.result)))
      leaf.set_gradient(gradient.result);
  }
  for (const CapturedOperand& operand : operands_)
    if (operand.is_written) operand.tensor->storage().bump_version();
}

}  // namespace tapegrad
