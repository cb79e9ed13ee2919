// Capture: a CUDA graph, and the host's part in it. What ops give to the device while fn runs in
// record() is recorded; replay() gives all of it to the device again, without fn. What the host
// decides anew for every run (where random numbers begin, the rate and number of an optimizer's
// step) the device then reads from memory that replay() fills. For train/graphed_step.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/internal/step_observer.h"
#include "core/tape/variable.h"

namespace tapegrad {

class Capture : public StepObserver {
 public:
  /// DeviceError when there is no such device, or it has no graphs.
  static std::unique_ptr<Capture> create(Device device);

  virtual ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Runs fn, once. If it could be recorded, is_ready(), and nothing was executed: replay() is to
  /// follow. If not, all was executed as ever, and reason() says what was in the way: when fn waits
  /// for the device, what it gave until then is executed first. An exception of fn passes through,
  /// after what was given before it was executed. If the recording was lost, is_lost(), nothing was
  /// executed, and there may be an exception.
  void record(const std::function<void()>& fn);
  bool is_ready() const { return ready_; }
  bool is_lost() const { return lost_; }
  const std::string& reason() const { return reason_; }

  /// Whether what the graph reads is still what others hold: not so after load_state_dict().
  bool is_current() const;
  /// In the current stream; waits for nothing. ArgumentError when a value that an earlier run met
  /// was not one that its op takes.
  void replay();

  // For what runs in fn.

  /// What this thread records, or prepares to run; null nearly always.
  static Capture* current() { return static_cast<Capture*>(StepObserver::current()); }
  int64_t number() const override { return number_; }
  bool is_preparing() const { return preparing_; }

  /// Called before every run, the first one too.
  void before_replay(std::function<void()> part);
  /// Where the device finds a value of the host, in a part of before_replay() set anew: its calls
  /// are matched with those that were recorded after it was handed over, in their order.
  const void* live(const void* value, size_t bytes);
  void on_draw(Generator& generator, RandomState start, uint64_t counters) override;
  /// Where the device finds what a run adds to a draw: its seed, and how much to the offset.
  const RandomState* base_of(RandomState state);
  void before_gradient(const Leaf& leaf, const Variable& gradient) override;
  void on_gradient(Leaf& leaf, bool had_one) override;
  void on_clear(Leaf& leaf) override;
  /// Of a kernel that is recorded.
  void on_operand(const Tensor& x);
  /// Host memory that a check on the device writes to: {-1, 0, ...} as long as all is well.
  virtual int64_t* watch(std::string_view op) = 0;
  /// Ends the recording: executes what there is of it. For those who wait for the device.
  void give_up(std::string why);

 protected:
  Capture();

  virtual void begin() = 0;
  /// Puts in order what was packed (core/base/storage.h) since then and lives on: a run writes
  /// where it lay when it was recorded.
  virtual void settle() = 0;
  /// False when the recording was lost.
  virtual bool end() = 0;
  virtual void leave() = 0;  // the stream of the recording is no longer this thread's
  virtual std::byte* live_memory() = 0;
  virtual void launch(const std::vector<std::byte>& live) = 0;
  virtual void check_watched(bool wait) = 0;
  virtual bool is_own(const Tensor& x) const = 0;  // memory made while recording

  static constexpr size_t kLiveBytes = size_t(256) << 10;

 private:
  struct Draws {
    Generator* generator;
    RandomState start;
    size_t place;
    uint64_t counters;
  };
  struct Part {
    size_t begin;
    std::function<void()> run;
  };
  struct Gradient {
    Ref<Node> leaf;
    Tensor into;      // the gradient that was added to; empty if there was none
    Variable result;  // what the leaf has after a run
    bool cleared;     // before anything was added
  };
  struct Operand {
    Tensor tensor;
    uint32_t version;
    bool is_written = false;
  };

  void finish();
  void execute();
  void lose();
  void prepare();
  Gradient* find(const Leaf& leaf);

  const int64_t number_;
  bool recording_ = false, ready_ = false, preparing_ = false, lost_ = false;
  std::string reason_;
  std::vector<std::byte> values_;  // what live memory holds in the next run
  size_t cursor_ = 0;
  std::vector<Draws> draws_;
  std::vector<Part> parts_;
  std::vector<Gradient> gradients_;
  std::vector<Operand> operands_;  // of memory that was there before
};

}  // namespace tapegrad
