// Capture: the recorded kernels of a step and the work of the host that belongs to the step.
// record() records the kernels of fn, as a CUDA graph or, on the CPU, as a list of calls
// (recorded_step.h); replay() runs the kernels again without fn. Some values differ in every run:
// the offset of random numbers, and the learning rate and step number of an optimizer. A CUDA graph
// reads these values from memory that replay() fills; on the CPU, replay() writes them into the
// recorded calls. Used by train/graphed_step.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/autograd/internal/shared_operand.h"
#include "core/base/internal/step_observer.h"
#include "core/tape/variable.h"

namespace tapegrad {

class StepTrace;

class Capture : public StepObserver {
 public:
  /// Throws DeviceError if the device does not exist or cannot record.
  static std::unique_ptr<Capture> create(Device device);
  Device device() const { return device_; }

  /// Thrown by a run if a value by which the step chose its ops differs from the recorded value.
  struct Changed {
    std::string what;
  };

  virtual ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Runs fn once. The outcome is one of three:
  /// - is_ready(): fn was recorded and not executed; call replay() next.
  /// - is_lost(): the recording was lost and nothing was executed; there may be an exception.
  /// - neither is_ready() nor is_lost(): fn was executed as usual, and reason() tells why. If fn
  ///   waits for the device, the work recorded until then is executed first.
  ///
  /// An exception of fn passes through, after the work recorded before it was executed.
  void record(const std::function<void()>& fn);
  bool is_ready() const { return ready_; }
  bool is_lost() const { return lost_; }
  const std::string& reason() const { return reason_; }

  /// Returns whether fn would make the recorded calls again, as far as is known: the tensors that
  /// the graph reads are in use (not replaced by rebind(), for example) and require gradients as
  /// before, leaves have the same hooks, and the settings of on_setting() are unchanged.
  bool is_current() const;
  /// Enqueues the graph in the current stream without waiting. Throws ArgumentError if an earlier
  /// run found an argument that its op does not accept. Throws Changed, without an effect, if fn
  /// would make other calls.
  void replay();

  // The functions below are for code that runs in fn.

  /// Returns the capture that this thread records or prepares to run; usually null.
  static Capture* current() { return static_cast<Capture*>(StepObserver::current()); }
  int64_t number() const override { return number_; }
  bool is_preparing() const { return preparing_; }

  /// Lets record() plan to compute values twice if their memory costs more than the time. On the
  /// CPU only. Call before record().
  void save_memory() { saves_memory_ = true; }
  /// Lets record() compare the step with the one before, which must live until record() returns. On
  /// the CPU only. Call before record().
  void compare_with(const StepTrace* trace) { trace_ = trace; }
  /// Returns how the recorded step differs from another one; empty if it does not.
  virtual std::string difference(const StepTrace& /*other*/) const { return {}; }
  /// Returns whether the step was not recorded because it differs from the one before.
  bool is_different() const { return different_; }
  /// Returns a result of the last run, in memory that no later run uses. `result` is the tensor
  /// that was recorded.
  virtual Tensor take(const Tensor& result) { return result.clone(); }
  /// Returns a description of the plan of a run; empty if there is none.
  virtual std::string explain() const { return {}; }
  /// Registers a function that is called before every run, including the first. `undo` reverts it;
  /// it is called if the run ends with an error before it reaches the calls recorded after the
  /// function was registered.
  void before_replay(std::function<void()> part, std::function<void()> undo = {});
  /// Returns the address at which the device finds a host value. A function of before_replay()
  /// calls it again to update the value; its calls are matched, in order, with those recorded after
  /// the function was registered. Null if there is no room, which ends the capture.
  const void* live(const void* value, size_t bytes);
  void on_draw(RandomGenerator& generator, RandomState start, uint64_t counters) override;
  void on_end(const RandomGenerator& generator) override;
  /// Returns the address at which the device finds the seed of a draw and the amount to add to its
  /// offset.
  const RandomState* base_of(RandomState state);
  void before_gradient(const Leaf& leaf, const Variable& gradient) override;
  void on_gradient(Leaf& leaf, bool had_one) override;
  void on_gradient_read(const Leaf& leaf) override;
  void on_clear(Leaf& leaf) override;
  void on_set_to_zero(Leaf& leaf) override;
  void on_host_change(std::string_view what) override;
  void on_constant(const Tensor& x) override { constants_.push_back(x); }
  void on_setting(std::function<bool()> is_unchanged) override;
  /// Called for each operand of a recorded kernel.
  void on_operand(const Tensor& x);
  /// Returns host memory to which a check on the device writes: {-1, 0, ...} while no check fails.
  virtual int64_t* watch(std::string_view op) = 0;
  /// Ends the capture and executes the work recorded so far. Called before waiting for the device.
  void give_up(std::string why);

 protected:
  explicit Capture(Device device);

  virtual void begin() = 0;
  /// Unpacks tensors that were packed (core/base/storage.h) during the capture and are still
  /// alive: a run writes to the address recorded.
  virtual void settle() = 0;
  /// Ends the capture. repeats: whether the recording is kept, rather than run once. Returns false
  /// if the recording was lost.
  virtual bool end(bool repeats) = 0;
  virtual void leave() = 0;  // makes the stream of the capture no longer current
  virtual std::byte* live_memory() = 0;
  virtual void launch(const std::vector<std::byte>& live) = 0;
  virtual void check_watched(bool wait) = 0;
  /// Returns whether the memory was allocated during the capture.
  virtual bool is_own(const Tensor& x) const = 0;
  /// Returns whether the values that the step reads on the host, of tensors that exist before it,
  /// are those of the recording.
  virtual bool has_values_read() const { return true; }
  /// Returns whether x is neither made for the step nor a gradient that the step reads.
  bool is_known(const Tensor& x) const;
  /// Returns whether a run does work on the host in addition to its kernels.
  bool has_parts() const { return !parts_.empty(); }

  /// Returns the number of the call that ended the last run with an error; none if calls are not
  /// recorded one by one.
  virtual std::optional<size_t> failed_call() const { return {}; }
  /// Returns the recorded state of the first draw of new numbers, from this seed, by call
  /// `first` or a later one.
  virtual std::optional<RandomState> draw_from(uint64_t /*seed*/, size_t /*first*/) const {
    return {};
  }
  /// Returns the number of calls recorded so far; 0 if calls are not recorded one by one.
  virtual size_t call_count() const { return 0; }
  /// Calls a function of before_replay(). Kernels that the function calls do not run; on the CPU
  /// they update recorded calls, from number `calls` on.
  virtual void run_part(const std::function<void()>& part, size_t /*calls*/) { part(); }

  bool saves_memory() const { return saves_memory_; }

  static constexpr size_t kLiveBytes = size_t(256) << 10;

 private:
  static std::unique_ptr<Capture> create_on_gpu(Device device);

  struct Draws {
    RandomGenerator* generator;  // null once it is destroyed, which ends the capture
    RandomState start;
    size_t place;
    uint64_t counters;
    RandomState before{};  // the state before the last run
  };
  struct Part {
    size_t begin;  // of its values
    size_t calls;  // recorded before
    std::function<void()> run, undo;
  };
  /// A gradient that the step reads and did not compute before.
  struct ReadGradient {
    RefPtr<TapeNode> leaf;
    Variable value;
  };
  struct Gradient {
    RefPtr<TapeNode> leaf;
    Tensor into;         // the gradient that was added to; empty if there was none
    Variable result;     // the gradient of the leaf after a run
    bool cleared;        // whether the gradient was cleared before the first addition
    uint64_t hooks = 0;  // Leaf::hooks_state()
  };
  struct CapturedOperand {
    SharedOperand tensor;
    uint32_t version;
    bool is_written = false;
  };

  void finish();
  void execute();
  void lose();
  void reset_generators();
  void prepare();
  void run();
  void rewind();
  void revert();
  Gradient* find(const Leaf& leaf);

  const Device device_;
  const int64_t number_;
  bool saves_memory_ = false, different_ = false;
  const StepTrace* trace_ = nullptr;
  bool capturing_ = false, ready_ = false, preparing_ = false, lost_ = false;
  std::string reason_;
  std::vector<std::byte> values_;  // content of live memory in the next run
  size_t cursor_ = 0;
  std::vector<Draws> draws_;
  std::vector<Part> parts_;
  std::vector<Gradient> gradients_;
  std::vector<ReadGradient> read_gradients_;
  std::vector<CapturedOperand> operands_;  // of memory that existed before the step
  std::vector<Tensor> constants_;
  std::vector<std::function<bool()>> settings_;
  mutable uint64_t leaf_changes_ = 0;  // number of changes that is_current() has seen
};

}  // namespace tapegrad
