// Batches of a data set, epoch after epoch.
//
//   DataLoader loader(train, {.batch_size = 128, .shuffle = true, .num_workers = 2});
//   for (int epoch = 0; epoch < 12; ++epoch)
//     for (auto& [x, y] : loader) ...
//
// The order of an epoch depends only on the seed and the epoch number: not on the number of
// workers, the kind of loader or other random numbers.
#pragma once

#include <concepts>
#include <iterator>
#include <memory>
#include <optional>
#include <typeinfo>
#include <vector>

#include "core/base/error.h"
#include "data/dataset.h"
#include "data/shard.h"

namespace tapegrad {

/// Position of a loader. Saved in a checkpoint, it lets training continue with the next batch.
struct LoaderState {
  uint64_t epoch = 0;
  int64_t position = 0;  // batches of the epoch that were delivered

  bool operator==(const LoaderState&) const = default;
};

/// One epoch of batches, delivered in order.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  /// Stores the next batch, or returns false at the end of the epoch.
  virtual bool next(Example& batch) = 0;
  /// Returns the batch that next() delivered, for loaders of any fields (data/item_loader.h); else
  /// null.
  virtual std::shared_ptr<void> item() const { return nullptr; }
};

/// Interface of loaders for fit(), evaluate() and range-for.
class Loader {
 public:
  virtual ~Loader();

  virtual int64_t num_examples() const = 0;
  /// Returns the part of the data set that this loader reads.
  virtual Shard shard() const;
  /// Returns the number of examples of the data set, of which num_examples() belong to the shard.
  virtual int64_t dataset_size() const;
  int64_t batch_size() const { return batch_size_; }
  /// Returns the seed of the order and of the random numbers of examples.
  virtual uint64_t seed() const { return 0; }
  /// Returns the number of batches per epoch.
  int64_t size() const;
  /// Returns the type of Iterator::item(); null if there is none.
  virtual const std::type_info* item_type() const { return nullptr; }
  /// Returns whether a batch is an Example of data and target.
  virtual bool has_examples() const { return true; }

  /// Returns the epoch that the next begin() delivers, or the unfinished epoch that was begun last.
  LoaderState state() const { return state_; }
  /// Sets the position from which the next begin() continues. Throws ArgumentError for a position
  /// past the end of an epoch.
  void set_state(LoaderState state);
  void set_epoch(uint64_t epoch);

  class Iterator {
   public:
    using value_type = Example;
    using difference_type = std::ptrdiff_t;
    Iterator(Loader* loader, std::unique_ptr<BatchStream> stream, uint64_t run);
    Iterator(Iterator&&) noexcept;
    Iterator& operator=(Iterator&&) noexcept;
    ~Iterator();
    Example& operator*() { return batch_; }
    Example* operator->() { return &batch_; }
    std::shared_ptr<void> item() const;
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const;

   private:
    Loader* loader_;
    std::unique_ptr<BatchStream> stream_;  // empty at the end
    uint64_t run_;
    Example batch_;
  };
  /// Begins the epoch of state(). When the epoch ends or another begin() is called, the epoch
  /// number increases. An iterator that was begun earlier delivers the rest of its own epoch;
  /// state() refers to the iterator that was begun last.
  Iterator begin();
  std::default_sentinel_t end() const;

 protected:
  Loader(int64_t batch_size, bool drop_last, const char* name, Where where = Where::current());
  virtual std::unique_ptr<BatchStream> start(LoaderState from) = 0;

 private:
  int64_t batch_size_;
  bool drop_last_;
  bool begun_ = false;  // whether state_ is in the middle of an epoch
  uint64_t runs_ = 0;   // iterators begun and states set: the iterator of the last one moves state_
  LoaderState state_;
};

/// Iterator over the batches of an epoch, as Python's iter(loader); next(it) returns the next
/// batch. A loader that is not a temporary must outlive this object.
///
/// Batches is a reference to a loader, or the type of a loader that this object owns.
template <typename Batches>
class BatchIterator {
 public:
  explicit BatchIterator(Batches&& batches)
      : batches_(std::forward<Batches>(batches)), at_(batches_.begin()), end_(batches_.end()) {}
  /// Returns the next batch. Throws IndexError after the last one.
  auto next() {
    if (begun_) ++at_;
    begun_ = true;
    if (at_ == end_) fail<IndexError>("next: the epoch has no further batch");
    return *at_;
  }

 private:
  Batches batches_;
  decltype(std::declval<Batches&>().begin()) at_;
  decltype(std::declval<Batches&>().end()) end_;
  bool begun_ = false;
};
/// Returns the next batch of a temporary iterator: `auto [x, y] = next(iter(loader));`.
template <typename Batches>
requires std::derived_from<std::remove_cvref_t<Batches>, Loader> BatchIterator<Batches> iter(
    Batches&& batches) {
  return BatchIterator<Batches>(std::forward<Batches>(batches));
}
template <typename Batches>
auto next(BatchIterator<Batches>& batches) {
  return batches.next();
}
template <typename Batches>
auto next(BatchIterator<Batches>&& batches) {
  return batches.next();
}

/// Chooses the examples of an epoch and their order. data/sampler.h has implementations.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Returns the number of indices of an epoch.
  virtual int64_t size() const = 0;
  /// Returns the indices of an epoch, which may repeat. Called by one thread at a time.
  virtual std::vector<int64_t> indices(uint64_t epoch) const = 0;

  /// Iterates over the indices of one epoch: `for (int64_t i : sampler)`.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = int64_t;
    using difference_type = std::ptrdiff_t;
    using pointer = const int64_t*;
    using reference = int64_t;
    Iterator() = default;
    explicit Iterator(std::vector<int64_t> indices);
    int64_t operator*() const;
    Iterator& operator++() { return --left_, *this; }
    Iterator operator++(int) {
      Iterator old = *this;
      return ++*this, old;
    }
    bool operator==(const Iterator& other) const { return left_ == other.left_; }

   private:
    std::shared_ptr<const std::vector<int64_t>> indices_;
    size_t left_ = 0;  // number of remaining indices
  };
  /// Begins an epoch: 0 in the first loop, 1 in the second. Loaders count their epochs separately.
  Iterator begin();
  Iterator end() const;

 private:
  uint64_t epoch_ = 0;  // epoch of the next begin()
};
/// A sampler by value or by pointer, or none.
class AnySampler {
 public:
  AnySampler() = default;
  template <std::derived_from<Sampler> S>
  AnySampler(const S& sampler) : sampler_(std::make_shared<S>(sampler)) {}
  template <std::derived_from<Sampler> S>
  AnySampler(std::shared_ptr<S> sampler) : sampler_(std::move(sampler)) {}
  const Sampler* get() const;

 private:
  std::shared_ptr<const Sampler> sampler_;
};

/// Values of a BatchSampler (data/sampler.h), for the option .batch_sampler.
struct BatchPlan {
  AnySampler sampler = {};
  int64_t batch_size = 1;
  bool drop_last = false;
};

/// Type of PyTorch's option collate_fn. A value gives a compile error that names the replacement,
/// because loaders have no such option.
struct RefusedCollate {
  RefusedCollate() = default;
  template <typename F>
  requires(!std::same_as<F, RefusedCollate>) RefusedCollate(const F&) {
    static_assert(detail::kNever<F>,
                  "collate_fn: type ItemLoader(data, {.batch_size = 32}, collate), where "
                  "collate(std::vector of items) returns a batch");
  }
};
struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  AnySampler sampler = {};  // chooses the examples, in place of shuffle
  /// A BatchSampler, in place of batch_size, shuffle, sampler and drop_last.
  BatchPlan batch_sampler = {};
  int num_workers = 0;  // threads that read ahead; 0: batches are read when requested
  /// Whether batches are put into pinned memory (core/cuda.h), by the workers if there are any. The
  /// memory is pinned for the default device if it is a GPU, else for the first GPU. Without a GPU
  /// the option has no effect.
  bool pin_memory = false;
  bool drop_last = false;        // leave out the last batch if it is smaller than the others
  GeneratorSeed generator = {};  // draws the seed, in place of .seed
  uint64_t seed = 0;             // for the order and for the random numbers of examples
  int prefetch_factor = 2;       // batches that each worker may be ahead
  Shard shard = {};              // the part of the data set that this process reads
  RefusedCollate collate_fn = {};
};
/// Returns the number of examples per epoch that the loader of a shard reads from a data set of n
/// examples.
int64_t epoch_size(int64_t n, const DataLoaderOptions& options);

namespace detail {
/// Returns the options with the values of .batch_sampler and .generator, if given, in place of the
/// other options.
DataLoaderOptions resolved(DataLoaderOptions options, Where where);
}  // namespace detail

/// Reads batches from any data set, on worker threads if requested. An exception of the data set is
/// rethrown in the loop in place of its batch. Leaving the loop early stops the workers.
class DataLoader final : public Loader {
 public:
  /// Throws ArgumentError for a batch size below 1, for workers outside of [0, 1024], for a
  /// prefetch_factor outside of [1, 65536], for shuffle combined with a sampler, and for a
  /// batch_sampler combined with batch_size, shuffle, sampler or drop_last.
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {},
             Where where = Where::current());
  DataLoader(std::shared_ptr<const Dataset> dataset, int64_t batch_size, bool shuffle = false,
             int num_workers = 0, Where where = Where::current());
  /// Copies the data set, which shares the memory of its tensors.
  template <std::derived_from<Dataset> D>
  explicit DataLoader(const D& dataset, DataLoaderOptions options = {},
                      Where where = Where::current())
      : DataLoader(detail::shared_copy(dataset), std::move(options), where) {}
  template <std::derived_from<Dataset> D>
  DataLoader(const D& dataset, std::integral auto batch_size, bool shuffle = false,
             int num_workers = 0, Where where = Where::current())
      : DataLoader(detail::shared_copy(dataset), int64_t(batch_size), shuffle, num_workers, where) {
  }
  /// Takes the first arguments, and options by name: DataLoader(data, 64, true, {.num_workers =
  /// 2}).
  template <std::derived_from<Dataset> D>
  DataLoader(const D& dataset, std::integral auto batch_size, DataLoaderOptions options,
             Where where = Where::current())
      : DataLoader(dataset, (options.batch_size = int64_t(batch_size), std::move(options)), where) {
  }
  template <std::derived_from<Dataset> D>
  DataLoader(const D& dataset, std::integral auto batch_size, std::same_as<bool> auto shuffle,
             DataLoaderOptions options, Where where = Where::current())
      : DataLoader(dataset, batch_size, (options.shuffle = shuffle, std::move(options)), where) {}
  template <typename D>
  requires(!std::derived_from<D, Dataset> && requires(const D& data) {
    data.size();
  }) explicit DataLoader(const D&, const DataLoaderOptions& = {}) noexcept(refuse<D>()) {}
  template <typename D>
  requires(!std::derived_from<D, Dataset> && requires(const D& data) { data.size(); })
      DataLoader(const D&, std::integral auto, bool = false)
  noexcept(refuse<D>()) {}
  template <typename D>
  requires requires(D stream) { stream.next(); }
  explicit DataLoader(const D&, const DataLoaderOptions& = {}) noexcept(refuse_stream<D>()) {}
  template <typename D>
  requires requires(D stream) { stream.next(); }
  DataLoader(const D&, std::integral auto) noexcept(refuse_stream<D>()) {}

  /// Throws ArgumentError if the loader was moved from.
  const Dataset& dataset() const;
  /// Returns the number of examples of the shard.
  int64_t num_examples() const override;
  Shard shard() const override { return options_.shard; }
  int64_t dataset_size() const override;
  uint64_t seed() const override { return options_.seed; }

 private:
  struct ResolvedOptions {};  // options without a batch_sampler
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options, Where where,
             ResolvedOptions);
  template <typename D>
  static constexpr bool refuse_stream() {
    static_assert(detail::kNever<D>,
                  "DataLoader: a stream has no indices; type StreamLoader(stream, {.batch_size = "
                  "32})");
    return true;
  }
  template <typename D>
  static constexpr bool refuse() {
    static_assert(detail::kNever<D>,
                  "DataLoader: the data set does not derive from Dataset; type ItemLoader(data, "
                  "{.batch_size = 32}), and a function that makes a batch as third argument");
    return true;
  }
  std::unique_ptr<BatchStream> start(LoaderState from) override;

  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
};

struct DeviceLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  uint64_t seed = 0;
  /// Device of the tensors. By default, tensors on the CPU are moved to the default device, and
  /// tensors on other devices are not moved.
  std::optional<Device> device = {};
  Shard shard = {};  // the part of the data set that this process reads
};

/// Loader for tensors that stay on a device. A batch is gathered on the device by index; without
/// shuffling it is a view. Delivers the same batches as a DataLoader with equal options. A thread
/// shuffles the next epoch in advance.
class DeviceLoader final : public Loader {
 public:
  DeviceLoader(const TensorDataset& dataset, DeviceLoaderOptions options,
               Where where = Where::current());

  int64_t num_examples() const override;
  Shard shard() const override { return options_.shard; }
  int64_t dataset_size() const override;
  uint64_t seed() const override { return options_.seed; }

 private:
  std::unique_ptr<BatchStream> start(LoaderState from) override;

  std::vector<int64_t> order_of(uint64_t epoch);

  Variable data_, target_;
  DeviceLoaderOptions options_;
  uint64_t next_epoch_ = 0;
  struct NextOrder;
  std::shared_ptr<NextOrder> next_order_;  // computed during the current epoch
};

/// Returns the order of an epoch: 0 ... n - 1, shuffled by (seed, epoch).
std::vector<int64_t> shuffled_order(int64_t n, uint64_t seed, uint64_t epoch);
/// Returns the entries of an epoch of `n` examples that the loader of a shard reads.
std::vector<int64_t> order_of_epoch(int64_t n, const DataLoaderOptions& options, uint64_t epoch);

}  // namespace tapegrad
