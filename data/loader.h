// Batches of a data set, epoch after epoch.
//
//   DataLoader loader(train, {.batch_size = 128, .shuffle = true, .num_workers = 2});
//   for (int epoch = 0; epoch < 12; ++epoch)
//     for (auto& [x, y] : loader) ...
//
// The order of an epoch depends on the seed and the number of the epoch alone: not on the number
// of workers, not on which loader is used, not on what else draws random numbers.
#pragma once

#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"

namespace tapegrad {

/// Where a loader stands: saved with a checkpoint, training goes on with the next batch.
struct LoaderState {
  uint64_t epoch = 0;
  int64_t position = 0;  // batches of the epoch that were delivered

  bool operator==(const LoaderState&) const = default;
};

/// One epoch of batches, delivered in order.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  /// The next batch; false at the end of the epoch.
  virtual bool next(Example& batch) = 0;
};

/// What fit() and evaluate() take, and what range-for runs over.
class Loader {
 public:
  virtual ~Loader() = default;

  virtual int64_t num_examples() const = 0;
  int64_t batch_size() const { return batch_size_; }
  /// Batches of an epoch.
  int64_t size() const;

  /// The epoch that the next begin() delivers, or the unfinished one that was begun last.
  LoaderState state() const { return state_; }
  /// The next begin() goes on from there. ArgumentError past the end of an epoch.
  void set_state(LoaderState state);
  void set_epoch(uint64_t epoch) { set_state({epoch, 0}); }

  class Iterator {
   public:
    using value_type = Example;
    using difference_type = std::ptrdiff_t;
    Iterator(Loader* loader, std::unique_ptr<BatchStream> stream);
    Example& operator*() { return batch_; }
    Example* operator->() { return &batch_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !stream_; }

   private:
    Loader* loader_;
    std::unique_ptr<BatchStream> stream_;  // empty at the end
    Example batch_;
  };
  /// Begins the epoch of state(); at its end, or when another is begun, the next epoch's turn
  /// comes.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 protected:
  Loader(int64_t batch_size, bool drop_last, const char* name);
  virtual std::unique_ptr<BatchStream> start(LoaderState from) = 0;

 private:
  int64_t batch_size_;
  bool drop_last_;
  bool begun_ = false;  // state_ is that of an epoch under way
  LoaderState state_;
};

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  uint64_t seed = 0;        // of the order, and of the random numbers that examples draw
  bool drop_last = false;   // leave out a last batch that is smaller than the others
  int num_workers = 0;      // threads that read ahead; 0 reads when a batch is asked for
  int prefetch_factor = 2;  // batches that each of them may be ahead
  /// Batches lie in pinned memory (core/cuda.h), where those who read ahead put them. For the
  /// default device, if that is a GPU, else for the first one; where there is none, as without.
  bool pin_memory = false;
};

/// Reads from any data set, ahead of time on threads if asked. What a data set throws comes out of
/// the loop, in the place of the batch it spoiled. Leaving a loop early stops the threads.
class DataLoader final : public Loader {
 public:
  /// ArgumentError for a batch size below 1, or negative numbers of workers or batches.
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options);
  DataLoader(const TensorDataset& dataset, DataLoaderOptions options);

  int64_t num_examples() const override { return dataset_->size(); }

 private:
  std::unique_ptr<BatchStream> start(LoaderState from) override;

  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
};

struct DeviceLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  uint64_t seed = 0;
  bool drop_last = false;
  std::optional<Device> device = {};  // where the tensors are kept; by default where they are
};

/// Tensors that stay on a device: a batch is gathered there by index, and without shuffling it is a
/// view. Delivers the same batches as a DataLoader of equal options. A thread shuffles for the
/// epoch that follows.
class DeviceLoader final : public Loader {
 public:
  DeviceLoader(const TensorDataset& dataset, DeviceLoaderOptions options);

  int64_t num_examples() const override { return data_.size(0); }

 private:
  std::unique_ptr<BatchStream> start(LoaderState from) override;

  std::vector<int64_t> order_of(uint64_t epoch);

  Variable data_, target_;
  DeviceLoaderOptions options_;
  uint64_t next_epoch_ = 0;
  std::future<std::vector<int64_t>> next_order_;  // found while an epoch goes on
};

/// The order of an epoch: 0 ... n - 1, shuffled from (seed, epoch).
std::vector<int64_t> shuffled_order(int64_t n, uint64_t seed, uint64_t epoch);

}  // namespace tapegrad
