#include "core/autograd/checkpoint.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/cleanup/cleanup.h"

#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/base/internal/scope.h"
#include "core/tape/autocast.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"

namespace tapegrad {
/// A checkpointed call. Its first run records what is saved and drawn; its second run recomputes
/// the saved tensors.
class detail::CheckpointScope::Segment final : public SavedStore, public DrawObserver {
 public:
  Segment(const std::vector<Variable>& inputs, Run run)
      : run_(std::move(run)),
        scope_(current_scope()),
        autocast_(is_autocast_enabled()),
        autocast_dtype_(autocast_dtype()) {
    for (const Variable& x : inputs) {
      inputs_.emplace_back();
      inputs_.back().requires_grad = x.requires_grad();
      if (x.defined()) inputs_.back().value.keep(x.value());
    }
  }

  /// Between start and end, ops of this thread save their tensors here, and draws are recorded or
  /// repeated here.
  void enter() {
    store_.emplace(this);
    observer_.emplace(this);
    outer_observer_ = observer_->before();
  }
  void leave() {
    store_.reset();
    observer_.reset();
    outer_observer_ = nullptr;
    is_first_run_ = false;
    values_.clear();
  }

  uint32_t keep(const Tensor& value) override {
    Saved saved{value.shape(), value.dtype(), value.storage().version()};
    if (!again_) {
      saved_.push_back(std::move(saved));
      return uint32_t(saved_.size() - 1);
    }
    const size_t number = values_.size();
    if (number >= saved_.size() || saved_[number].shape != saved.shape ||
        saved_[number].dtype != saved.dtype)
      fail<AutogradError>("checkpoint: run again, the function saves other values: ", saved.shape,
                          ", the ", number + 1, ". of ", saved_.size());
    values_.push_back(value);
    if (is_first_run_ && values_.size() == saved_.size()) throw ReachedFirstRun();
    return uint32_t(number);
  }

  const Tensor& value(uint32_t number) override {
    // A backward pass that the function makes when it runs again finds its values there.
    if (running_.load(std::memory_order_relaxed) == std::this_thread::get_id())
      return checked(number);
    const std::lock_guard lock(mutex_);
    if (number >= values_.size()) run_again();
    return checked(number);
  }
  void on_op(std::string_view name) override {
    if (!again_) return ops_.push_back(name);
    if (next_op_ == ops_.size())
      fail<AutogradError>("checkpoint: run again, the function has more ops");
    if (ops_[next_op_] != name)
      fail<AutogradError>("checkpoint: run again, the function calls ", name, " in place of ",
                          ops_[next_op_]);
    ++next_op_;
  }
  void on_input(const Tensor& input) override {
    const uint32_t version = input.storage().version();
    if (!again_) return read_.push_back(version);
    if (next_read_ == read_.size())
      fail<AutogradError>("checkpoint: run again, the function has more ops");
    if (read_[next_read_++] != version)
      fail<AutogradError>("checkpoint: a value of shape ", input.shape(),
                          " that the function reads was changed in place since it ran");
  }

  bool repeat(RandomState& state) override {
    if (!again_) {
      if (outer_observer_ == nullptr || !outer_observer_->repeat(state)) return false;
      draws_.push_back(state);
      return true;
    }
    if (next_draw_ == draws_.size())
      fail<AutogradError>("checkpoint: run again, the function draws more random numbers");
    state = draws_[next_draw_++];
    return true;
  }
  void on_draw(RandomState state) override {
    draws_.push_back(state);
    if (outer_observer_ != nullptr) outer_observer_->on_draw(state);
  }

 private:
  struct Input {
    SavedValue value;
    bool requires_grad;
  };
  struct Saved {
    Shape shape;
    DType dtype;
    uint32_t version;
  };

  /// Ends a repeated run at the place that the first run has reached.
  struct ReachedFirstRun {};

  const Tensor& checked(uint32_t number) const {
    const Tensor& value = values_.at(number);
    if (value.storage().version() != saved_[number].version)
      fail<AutogradError>(running_node()->name(),
                          ": a value saved for backward was changed in place in a checkpoint");
    return value;
  }

  void run_again() {
    std::vector<Variable> xs;
    for (const Input& input : inputs_) {
      xs.emplace_back();
      if (!input.value) continue;
      xs.back() = Variable(input.value.value());
      if (input.requires_grad) xs.back().requires_grad_();
    }
    const Recording on(true);
    const Scope scope(scope_);
    const Autocast autocast(autocast_dtype_, autocast_);
    const Set<&Context::is_recomputing> recomputing(true);
    const Set<&Context::saved_store> store(this);
    const Set<&Context::draw_observer> observer(this);
    again_ = true;
    running_ = std::this_thread::get_id();
    next_draw_ = next_op_ = next_read_ = 0;
    values_.clear();
    bool is_complete = false, is_whole = true;
    const absl::Cleanup end_again = [&] {
      running_ = std::thread::id();
      again_ = false;
      if (!is_complete) values_.clear();
    };
    try {
      run_(xs);
    } catch (const ReachedFirstRun&) {
      is_whole = false;
    }
    if (values_.size() != saved_.size())
      fail<AutogradError>("checkpoint: run again, the function saves ", values_.size(),
                          " values, at first it saved ", saved_.size());
    if (is_whole && next_op_ < ops_.size())
      fail<AutogradError>("checkpoint: run again, the function does not call ", ops_[next_op_]);
    if (is_whole && next_draw_ < draws_.size())
      fail<AutogradError>("checkpoint: run again, the function draws fewer random numbers");
    is_complete = true;
  }

  const Run run_;
  const std::string* const scope_;
  const bool autocast_;
  const DType autocast_dtype_;
  std::vector<Input> inputs_;
  std::vector<Saved> saved_;
  std::vector<std::string_view> ops_;  // names of the recorded ops, in order
  std::vector<uint32_t> read_;         // versions of the inputs of the recorded ops, in order
  std::vector<RandomState> draws_;
  std::optional<Set<&Context::saved_store>> store_;
  std::optional<Set<&Context::draw_observer>> observer_;
  DrawObserver* outer_observer_ = nullptr;

  std::mutex mutex_;           // two backward passes may need the values at once
  std::deque<Tensor> values_;  // references stay valid while more are kept
  size_t next_draw_ = 0, next_op_ = 0, next_read_ = 0;
  bool is_first_run_ = true;  // a pass within the run repeats the function up to that place
  bool again_ = false;
  std::atomic<std::thread::id> running_{};  // the thread that runs the function again
};

detail::CheckpointScope::CheckpointScope(std::vector<Variable> inputs, Run run) {
  if (!is_recording()) return;
  segment_ = new Segment(inputs, std::move(run));
  segment_->enter();
}

detail::CheckpointScope::~CheckpointScope() {
  if (segment_ == nullptr) return;
  segment_->leave();
  if (segment_->drop_owner()) SavedStore::destroy(segment_);
}

}  // namespace tapegrad
