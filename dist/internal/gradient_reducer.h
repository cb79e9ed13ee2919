// GradientReducer: sends the gradients of a model during backward passes; see dist/data_parallel.h.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/tape/internal/leaf_observer.h"
#include "dist/data_parallel.h"

namespace tapegrad {
class Capture;
}

namespace tapegrad::dist {

/// Groups parameters, last first, by dtype and type of the device. A group is closed as soon as it
/// reaches the given number of bytes; the first group has a separate limit. Leaves out parameters
/// that are frozen or have no elements.
std::vector<std::vector<size_t>> group_leaves(std::span<const Variable> leaves, int64_t first_bytes,
                                              int64_t bytes);

class GradientReducer final : public LeafObserver,
                              public std::enable_shared_from_this<GradientReducer> {
 public:
  GradientReducer(const std::vector<nn::NamedVariable>& parameters, Communicator world,
                  DataParallelOptions options);

  std::span<const Variable> leaves() const override { return leaves_; }
  /// If the ranks are threads, each thread observes only the passes of its own model.
  bool observes_this_thread() const override {
    return !is_of_threads_ || thread_ == std::this_thread::get_id();
  }
  bool begin(const std::vector<bool>& reached, const BackwardOptions& options) override;
  void on_gradient(size_t leaf, Variable& gradient) override;
  void finish(std::span<Variable> gradients) override;
  void cancel() noexcept override;

  const Communicator& world() const { return world_; }
  const CommunicationStats& stats() const { return stats_; }
  /// Adds to a counter. While it is above 0, passes do not communicate. `is_captured` tells whether
  /// the scope is part of a captured step.
  void add_silence(int change, bool is_captured) {
    silence_ += change;
    if (is_captured) captured_silence_ += change;
  }
  bool is_silent() const { return silence_ > 0; }
  const DataParallelOptions& options() const { return options_; }
  /// Implements DataParallel::reduce_gradients().
  void reduce_gradients();

  // Ranks with different numbers of batches:

  void add_join(int change);
  bool is_joining() const { return joins_ > 0; }
  /// Implements DataParallel::Join::follow().
  bool follow();
  /// Returns the first of the ranks that had the most passes of their own in the scope. A
  /// collective.
  int busiest_rank() const;

  void tell(int64_t number) { told_ = number; }
  int64_t heard() const { return world_.size() == 1 ? told_ : heard_; }

  // With shard_gradients:
  bool shards() const { return options_.shard_gradients; }
  /// Returns the parameters of each bucket, in their order in the bucket.
  std::vector<std::vector<size_t>> bucket_leaves();
  /// Returns this rank's part of the mean gradients of a bucket, padded with zeros; empty before
  /// the first pass. Passes add to the part until it is taken.
  Tensor take_shard(size_t bucket) { return std::exchange(buckets_[bucket].shard, {}); }

 private:
  struct Bucket {
    std::vector<size_t> leaves = {};
    std::string name = {};  // for messages; differs if the leaves do
    DType dtype = f32;
    int64_t numel = 0;
    Device device = cpu;  // of the tensors below: the leaves' device with NCCL, else the CPU
    Tensor flat = {};     // with shard_gradients, exists only until it is sent
    Tensor arrived = {};  // this rank's part of the pass, with shard_gradients
    Tensor shard = {};    // sum of `arrived` over the passes until take_shard()
    size_t missing = 0;
    Pending pending = {};
    double ready = 0;  // when it was complete
  };
  /// Position of the gradient of a leaf. Bucket -1: none, because the leaf is frozen or has no
  /// elements.
  struct Slot {
    int64_t bucket = -1, offset = 0, numel = 0;
    DType dtype = f32;
  };

  void plan();
  void check_plan();
  void require_used(const std::vector<bool>& used) const;
  /// Begins to send. `used` tells which leaves have a gradient on this rank; `is_active` tells
  /// whether the rank has a batch.
  void start_pass(const std::vector<bool>& used, bool is_active);
  void set_gradients(std::span<const Variable> gradients);
  Tensor mean_of(const Tensor& reduced) const;
  Tensor make_flat(const Bucket& bucket) const;
  void send(size_t index);
  void keep_means(std::span<Variable> gradients);
  void keep_shards(std::span<Variable> gradients);
  bool plan_is_stale() const;
  std::string name_of(size_t bucket) const;
  void repeat_silent_pass(Capture& capture);
  Tensor part_of(const Slot& slot) const;

  std::vector<std::string> names_;
  std::vector<Variable> leaves_;
  const Communicator world_;
  const DataParallelOptions options_;
  const bool is_of_threads_;
  const std::thread::id thread_ = std::this_thread::get_id();

  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;  // in the order in which they are sent
  size_t next_ = 0;              // next bucket to send
  double begin_ = 0;             // when the pass began
  Tensor used_;  // for each leaf, the number of ranks with a gradient; then that of active ranks
  Pending used_pending_;
  bool has_local_ = false;    // leaves have gradients that were not sent
  bool is_in_place_ = false;  // gradients keep their memory
  std::atomic<int> silence_ = 0, captured_silence_ = 0, joins_ = 0;
  int64_t active_ = 0;      // number of ranks with a batch in the last pass, in a join() scope
  int64_t own_passes_ = 0;  // number of own passes in the join() scope
  int64_t told_ = 0, heard_ = 0;
  CommunicationStats stats_;
};

}  // namespace tapegrad::dist
