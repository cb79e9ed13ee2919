// Sends the gradients of a model during backward passes; see dist/data_parallel.h.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/tape/internal/leaf_observer.h"
#include "dist/data_parallel.h"

namespace tapegrad::dist {

class GradientReducer final : public LeafObserver {
 public:
  GradientReducer(const std::vector<nn::NamedVariable>& parameters, Communicator world,
                  DataParallelOptions options);

  std::span<const Variable> leaves() const override { return leaves_; }
  /// If the ranks are threads, each has a model of its own.
  bool observes_this_thread() const override {
    return !is_of_threads_ || thread_ == std::this_thread::get_id();
  }
  bool begin(const std::vector<bool>& reached, const BackwardOptions& options) override;
  void on_gradient(size_t leaf, const Variable& gradient) override;
  void finish(std::span<Variable> gradients) override;
  void cancel() noexcept override { buckets_.clear(); }

  const Communicator& world() const { return world_; }
  const CommunicationStats& stats() const { return stats_; }
  /// Above 0, passes do not communicate.
  void add_silence(int change) { silence_ += change; }
  bool is_silent() const { return silence_ > 0; }

 private:
  struct Bucket {
    std::vector<size_t> leaves;
    Tensor flat;  // on the host
    size_t missing = 0;
    Pending pending = {};
  };
  /// Where the gradient of a leaf is. Bucket -1: nowhere, it is frozen or has no elements.
  struct Slot {
    int64_t bucket = -1, offset = 0, numel = 0;
    DType dtype = f32;
  };

  void plan();
  bool plan_is_stale() const;
  void mark_complete(size_t leaf);
  std::string name_of(size_t bucket) const;
  Tensor part_of(const Slot& slot) const;

  std::vector<std::string> names_;
  std::vector<Variable> leaves_;
  const Communicator world_;
  const DataParallelOptions options_;
  const bool is_of_threads_;
  const std::thread::id thread_ = std::this_thread::get_id();

  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;  // in the order in which they are sent
  size_t next_ = 0;              // bucket to send
  Tensor used_;                  // ranks with a gradient, for each leaf
  Pending used_pending_;
  bool has_local_ = false;  // leaves have gradients that were not sent
  std::atomic<int> silence_ = 0;
  CommunicationStats stats_;
};

}  // namespace tapegrad::dist
