// RecordedStep: a captured step on the CPU. The dispatcher passes it the kernel calls of the step
// instead of making the calls (core/dispatch/recorded_call.h). A run makes the calls in order,
// without tape and without checks of shapes.
//
// A storage made during the capture has no memory (TensorStorage::is_deferred). Small storages
// to which only calls refer have places in one block of memory, which a run allocates
// (memory_plan.h). Other storages get memory before the first call that uses them. They lose it
// after the last one, unless they hold results of the step or gradients of leaves. Host code that
// reads or writes a deferred storage is detected, because the storage has no memory. Such an access
// ends the capture, after making the calls recorded so far.
//
// An op may read a value to decide what to do (core/base/internal/host_values.h). The calls
// recorded so far are then made ahead, into memory that is not that of a run. A run compares the
// value, and is abandoned if the value differs; what it has written to memory that exists before
// the step, such as the statistics of a batch norm, is restored. This is possible while this memory
// is small, and until the step works on the host.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/autograd/internal/capture.h"
#include "core/autograd/internal/epilogue_plan.h"
#include "core/autograd/internal/repetition_plan.h"
#include "core/autograd/internal/segment.h"
#include "core/autograd/internal/step_trace.h"

namespace tapegrad {

class RecordedStep final : public Capture, public CallRecorder {
 public:
  RecordedStep();
  ~RecordedStep() override;

  bool is_capturing() const override { return is_capturing_; }
  bool on_call(std::unique_ptr<RecordedCall> call) override;
  RecordedCall* call_to_update(const KernelTable& kernel) override;
  void on_access(const TensorStorage& storage) override;
  Tensor read(const Tensor& x) override;
  Tensor copy_from_host(std::span<const std::byte> bytes, const Shape& shape, DType dtype) override;
  size_t position() const override { return calls_.size(); }
  void forget(size_t position) override;
  void begin_op(const CalledOp& op) override { ops_.push_back(op); }
  void end_op() override { ops_.pop_back(); }
  void on_read(const Tensor& x, const char* function) override;
  int64_t* watch(std::string_view) override { return nullptr; }
  Tensor take(const Tensor& result) override;
  std::string explain() const override;

 private:
  /// A random state of a call, which differs in each run.
  struct Draw {
    RandomState* state;
    RandomState recorded;
    const RandomState* base;
    size_t call;  // StepCall::number
  };
  /// Calls that run together (segment_plan.h).
  struct Group {
    StepGroup plan;
    std::unique_ptr<Segment> segment;           // null for a single call
    const std::string* ops = nullptr;           // names of the ops of a segment
    std::vector<TensorStorage*> begins = {};    // storages that get memory before the group
    std::vector<TensorStorage*> ends = {};      // storages that lose their memory after it
    std::vector<TensorStorage*> unpacked = {};  // placed storages whose last use is in the group
    std::vector<TensorStorage*> inner = {};     // storages that only the segment uses
  };
  /// The groups that use a storage of the step.
  struct Life {
    TensorStorage* storage;
    size_t first, last;
    size_t maker;            // the first call that uses it
    bool is_divided = true;  // whether a segment can keep the elements in a buffer of one block
    bool is_inner = false;   // whether only one segment uses the storage
  };
  /// Place of a storage in the block of memory of a run.
  struct Place {
    TensorStorage* storage;
    size_t offset;
  };
  /// A tensor that exists before the step, and the values by which the step has decided.
  struct ValuesRead {
    Tensor x, values;
  };
  /// A tensor that exists before the step and to which the step writes before it reads a value.
  struct Revised {
    Tensor x;
    std::vector<std::byte> before = {};  // content of the storage

    void save();
    void restore() const;
  };
  class Operands;

  void begin() override;
  void settle() override {}
  bool end(bool repeats) override;
  void leave() override;
  std::byte* live_memory() override { return live_.data(); }
  void launch(const std::vector<std::byte>& live) override;
  void check_watched(bool) override {}
  bool is_own(const Tensor& x) const override { return own_.contains(&x.storage()); }
  bool has_values_read() const override;
  std::string difference(const StepTrace& other) const override;
  std::optional<size_t> failed_call() const override { return running_call_; }
  std::optional<RandomState> draw_from(uint64_t seed, size_t first) const override;
  size_t call_count() const override { return calls_.size(); }
  void run_part(const std::function<void()>& part, size_t calls) override;

  void stop();
  bool is_written(const Tensor& x) const;
  Tensor read_made(const Tensor& x);
  bool save_revised();
  Tensor run_ahead(const Tensor& x);
  void put_ahead();
  void insert(const std::vector<Repetition>& plan);
  void plan_segments();
  void plan_storages();
  void observe_layouts(StepCall& step) const;
  void run(const Group& group);
  void run(StepCall& step) const;
  void settle_owned();
  void forget_calls();
  CalledOp current_op() const;
  std::string maker_of(const TensorStorage& storage) const;
  std::string explain_memory() const;

  bool is_capturing_ = false;
  bool is_planned_ = false;    // whether calls are joined to segments
  std::vector<CalledOp> ops_;  // the ops that run, outermost first
  std::vector<StepCall> calls_;
  std::vector<Group> groups_;
  std::vector<AbsorbedCall> absorbed_;  // calls that belong to no group
  std::vector<Life> lives_;
  std::vector<Draw> draws_;
  mutable std::optional<size_t> running_call_;  // number of the last call of a run
  std::vector<Place> places_;
  size_t block_bytes_ = 0;             // of the places
  std::vector<TensorStorage*> large_;  // storages without a place to which only calls refer
  std::vector<TensorStorage*> kept_;   // storages with owners other than calls
  std::unordered_map<const TensorStorage*, TensorStorage*>
      own_;  // storages made during the capture and used by a call
  std::vector<std::byte> live_;
  size_t next_update_ = 0;  // the first candidate while calls are updated
  std::vector<ValuesRead> values_read_;
  std::vector<Revised> revised_;
  // During the capture:
  CallRecorder* before_ = nullptr;  // the recorder outside of the step
  std::vector<HostCopy> copies_;
  size_t ahead_ = 0;  // number of calls made ahead
  std::unordered_map<TensorStorage*, RefPtr<TensorStorage>> values_ahead_;  // their results
};

}  // namespace tapegrad
