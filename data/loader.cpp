#include "data/loader.h"

#include <unistd.h>

#include <future>
#include <memory>
#include <numeric>
#include <system_error>

#include "core/base/error.h"
#include "core/cuda.h"
#include "core/dispatch/span.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "data/internal/prefetch.h"
#include "ops/index.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

/// Returns 0, 1, ... n - 1. Throws ArgumentError if n is negative, OutOfMemory if it is too large.
std::vector<int64_t> plain_order(int64_t n) {
  if (n < 0) fail<ArgumentError>("DataLoader: a data set of ", n, " examples");
  try {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t(0));
    return order;
  } catch (const std::exception&) {  // bad_alloc or length_error
    fail<OutOfMemory>("DataLoader: no memory for the order of ", n, " examples");
  }
}

/// The indices of each batch of an epoch.
class Order {
 public:
  Order(int64_t batch_size, std::vector<int64_t> order)
      : batch_size_(batch_size), n_(int64_t(order.size())), order_(std::move(order)) {}
  std::span<const int64_t> all() const { return order_; }
  std::span<const int64_t> batch(int64_t number) const {
    const int64_t first = number * batch_size_;
    return all().subspan(size_t(first), size_t(std::min(batch_size_, n_ - first)));
  }

 private:
  int64_t batch_size_, n_;
  std::vector<int64_t> order_;
};

/// Reads each batch when it is requested.
class Direct final : public BatchStream {
 public:
  Direct(std::function<Example(int64_t)> read, int64_t first, int64_t end)
      : read_(std::move(read)), next_(first), end_(end) {}
  bool next(Example& batch) override {
    if (next_ == end_) return false;
    batch = read_(next_++);
    return true;
  }

 private:
  std::function<Example(int64_t)> read_;
  int64_t next_, end_;
};

/// Returns the rows of x at indices that were drawn here. Unlike index_select, does not wait for
/// the device to check them.
Variable rows_at(const Variable& x, const Variable& index) {
  const OpSpan span("index_select");
  Shape shape = x.shape();
  shape[0] = index.numel();
  return Variable::of_result([&] {
    Tensor rows = x.value().empty_like(shape);
    if (rows.numel() > 0) kernels::index_select(x.value(), index.value(), 0, rows);
    return rows;
  });
}

/// Reads batches on threads.
class Ahead final : public BatchStream {
 public:
  Ahead(Prefetch::Read read, int64_t first, int64_t end, int workers, int prefetch_factor)
      : prefetch_(std::move(read), first, end, workers, prefetch_factor) {}
  bool next(Example& batch) override {
    const std::shared_ptr<void> ready = prefetch_.next();
    if (ready) batch = std::move(*static_cast<Example*>(ready.get()));
    return ready != nullptr;
  }

 private:
  Prefetch prefetch_;
};

}  // namespace

std::vector<int64_t> shuffled_order(int64_t n, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order = plain_order(n);
  const auto mixed = philox(seed, epoch);
  const uint64_t key = uint64_t(mixed[2]) << 32 | mixed[3];
  for (int64_t i = n - 1; i > 0; --i) {
    const auto words = philox(key, uint64_t(i));
    // The bias of the remainder is below n / 2^64.
    const uint64_t other = (uint64_t(words[0]) << 32 | words[1]) % uint64_t(i + 1);
    std::swap(order[size_t(i)], order[other]);
  }
  return order;
}

int64_t epoch_size(int64_t n, const DataLoaderOptions& options) {
  const Sampler* sampler = options.sampler.get();
  return options.shard.count(sampler != nullptr ? sampler->size() : n, options.drop_last);
}

std::vector<int64_t> order_of_epoch(int64_t n, const DataLoaderOptions& options, uint64_t epoch) {
  if (const Sampler* sampler = options.sampler.get()) {
    std::vector<int64_t> order = sampler->indices(epoch);
    if (int64_t(order.size()) != sampler->size())
      fail<ArgumentError>("sampler: ", order.size(), " indices; its size() is ", sampler->size());
    for (const int64_t index : order)
      if (index < 0 || index >= n)
        fail<IndexError>("sampler: the index ", index, " is outside of the data set of ", n);
    return options.shard.take(std::move(order), options.drop_last);
  }
  return options.shard.take(
      options.shuffle ? shuffled_order(n, options.seed, epoch) : plain_order(n), options.drop_last);
}

Loader::Loader(int64_t batch_size, bool drop_last, const char* name, Where where)
    : batch_size_(batch_size), drop_last_(drop_last) {
  const ErrorLine line(where);
  if (batch_size < 1) fail<ArgumentError>(name, ": batch_size must be at least 1: ", batch_size);
}

int64_t Loader::size() const {
  const int64_t whole = num_examples() / batch_size_;
  return whole + (!drop_last_ && num_examples() % batch_size_ ? 1 : 0);
}

void Loader::set_state(LoaderState state) {
  if (state.position < 0 || state.position > size())
    fail<ArgumentError>("loader: set_state: position ", state.position, " of an epoch of ", size(),
                        " batches");
  state_ = state;
  begun_ = false;
  ++runs_;
}

Loader::Iterator Loader::begin() {
  if (begun_) state_ = {state_.epoch + 1, 0};
  begun_ = true;
  return Iterator(this, start(state_), ++runs_);
}

Loader::~Loader() = default;
Loader::Iterator::Iterator(Iterator&&) noexcept = default;
Loader::Iterator& Loader::Iterator::operator=(Iterator&&) noexcept = default;
Loader::Iterator::~Iterator() = default;
bool Loader::Iterator::operator==(std::default_sentinel_t) const { return !stream_; }
Loader::Iterator::Iterator(Loader* loader, std::unique_ptr<BatchStream> stream, uint64_t run)
    : loader_(loader), stream_(std::move(stream)), run_(run) {
  ++*this;
}

Loader::Iterator& Loader::Iterator::operator++() {
  if (!stream_) fail<ArgumentError>("loader: no batch follows the end of an epoch, or an error");
  batch_ = {};  // frees its memory for the next batch
  bool more = false;
  try {
    more = stream_->next(batch_);
  } catch (...) {
    stream_.reset();
    throw;
  }
  if (!more) stream_.reset();
  if (run_ != loader_->runs_) return *this;  // another has been begun since
  if (more) {
    ++loader_->state_.position;
  } else {
    loader_->state_ = {loader_->state_.epoch + 1, 0};
    loader_->begun_ = false;
  }
  return *this;
}

Sampler::Iterator::Iterator(std::vector<int64_t> indices)
    : indices_(std::make_shared<const std::vector<int64_t>>(std::move(indices))),
      left_(indices_->size()) {}
Sampler::Iterator Sampler::begin() { return Iterator(indices(epoch_++)); }

DataLoaderOptions detail::resolved(DataLoaderOptions options, Where where) {
  options.seed = options.generator.value_or(options.seed);
  const BatchPlan plan = std::exchange(options.batch_sampler, {});
  if (plan.sampler.get() == nullptr) return options;
  const ErrorLine line(where);
  if (options.batch_size != 1 || options.shuffle || options.sampler.get() || options.drop_last)
    fail<ArgumentError>(
        "DataLoader: batch_sampler takes the place of batch_size, shuffle, sampler and drop_last");
  options.sampler = plan.sampler;
  options.batch_size = plan.batch_size;
  options.drop_last = plan.drop_last;
  return options;
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options,
                       Where where, ResolvedOptions)
    : Loader(options.batch_size, options.drop_last, "DataLoader", where),
      dataset_(std::move(dataset)),
      options_(options) {
  const ErrorLine line(where);
  if (!dataset_) fail<ArgumentError>("DataLoader: no dataset");
  check_workers("DataLoader", options);
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, int64_t batch_size, bool shuffle,
                       int num_workers, Where where)
    : DataLoader(std::move(dataset),
                 DataLoaderOptions{
                     .batch_size = batch_size, .shuffle = shuffle, .num_workers = num_workers},
                 where) {}

const Dataset& DataLoader::dataset() const {
  if (!dataset_) fail<ArgumentError>("DataLoader: this object was moved from");
  return *dataset_;
}

std::unique_ptr<BatchStream> DataLoader::start(LoaderState from) {
  Order order(options_.batch_size, order_of_epoch(dataset_size(), options_, from.epoch));
  const SampleRandom random{options_.seed, from.epoch};
  const Device device = default_device().type == DeviceType::kCuda ? default_device() : gpu;
  const bool pin = options_.pin_memory && is_available(device);
  auto read = [order = std::move(order), dataset = dataset_, random, device, pin](int64_t number) {
    const NoGrad no_grad;
    Example batch = dataset->gather(order.batch(number), random);
    if (pin)
      for (Variable* each : {&batch.data, &batch.target})
        if (each->defined() && each->device() == cpu) *each = cuda::pin_memory(*each, device);
    return batch;
  };
  if (options_.num_workers == 0)
    return std::make_unique<Direct>(std::move(read), from.position, size());
  auto read_ahead = [read = std::move(read)](int64_t number) -> std::shared_ptr<void> {
    return std::make_shared<Example>(read(number));
  };
  return std::make_unique<Ahead>(std::move(read_ahead), from.position, size(), options_.num_workers,
                                 options_.prefetch_factor);
}

DeviceLoader::DeviceLoader(const TensorDataset& dataset, DeviceLoaderOptions options, Where where)
    : Loader(options.batch_size, options.drop_last, "DeviceLoader", where),
      data_(dataset.data()),
      target_(dataset.target()),
      options_(options) {
  const ErrorLine line(where);
  options.shard.check("DeviceLoader");
  for (Variable* each : {&data_, &target_})
    if (each->defined() && (options.device || each->device() == cpu))
      *each = each->to(options.device.value_or(default_device()));
}

/// An order that a separate thread computes.
struct DeviceLoader::NextOrder {
  using Order = std::future<std::vector<int64_t>>;

  explicit NextOrder(Order computed) : order(std::make_unique<Order>(std::move(computed))) {}
  ~NextOrder() {
    if (!is_of_this_process()) (void)order.release();  // the thread does not exist
  }
  NextOrder(const NextOrder&) = delete;
  NextOrder& operator=(const NextOrder&) = delete;
  bool is_of_this_process() const { return getpid() == process; }

  std::unique_ptr<Order> order;
  const pid_t process = getpid();
};

std::vector<int64_t> DeviceLoader::order_of(uint64_t epoch) {
  constexpr int64_t kWorthAThread = 4096;
  const int64_t n = data_.size(0);
  if (n < kWorthAThread) return shuffled_order(n, options_.seed, epoch);
  std::vector<int64_t> order =
      next_order_ && next_epoch_ == epoch && next_order_->is_of_this_process()
          ? next_order_->order->get()
          : shuffled_order(n, options_.seed, epoch);
  next_order_.reset();
  next_epoch_ = epoch + 1;
  try {
    next_order_ = std::make_shared<NextOrder>(
        std::async(std::launch::async, shuffled_order, n, options_.seed, next_epoch_));
  } catch (const std::system_error&) {  // no more threads; the order is computed when needed
  }
  return order;
}

std::unique_ptr<BatchStream> DeviceLoader::start(LoaderState from) {
  const int64_t n = num_examples(), batch_size = options_.batch_size;
  Variable order;
  if (options_.shuffle || options_.shard.size > 1) {
    const std::vector<int64_t> indices = options_.shard.take(
        options_.shuffle ? order_of(from.epoch) : plain_order(data_.size(0)), options_.drop_last);
    order = Variable(Tensor::from<int64_t>(indices, {n}).to(data_.device()));
  }
  auto read = [data = data_, target = target_, order, n, batch_size](int64_t number) -> Example {
    const NoGrad no_grad;
    const int64_t first = number * batch_size, length = std::min(batch_size, n - first);
    if (!order.defined() && length == n) return {data, target};
    if (!order.defined())
      return {narrow(data, 0, first, length),
              target.defined() ? narrow(target, 0, first, length) : target};
    const Variable index = narrow(order, 0, first, length);
    return {rows_at(data, index), target.defined() ? rows_at(target, index) : target};
  };
  return std::make_unique<Direct>(std::move(read), from.position, size());
}

Shard Loader::shard() const { return {}; }
int64_t Loader::dataset_size() const { return num_examples(); }
void Loader::set_epoch(uint64_t epoch) { set_state({epoch, 0}); }
std::shared_ptr<void> Loader::Iterator::item() const { return stream_ ? stream_->item() : nullptr; }
std::default_sentinel_t Loader::end() const { return {}; }
int64_t Sampler::Iterator::operator*() const { return (*indices_)[indices_->size() - left_]; }
Sampler::Iterator Sampler::end() const { return {}; }
const Sampler* AnySampler::get() const { return sampler_.get(); }
DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options,
                       Where where)
    : DataLoader(std::move(dataset), detail::resolved(options, where), where, ResolvedOptions()) {}
int64_t DataLoader::num_examples() const { return epoch_size(dataset().size(), options_); }
int64_t DataLoader::dataset_size() const { return dataset().size(); }
int64_t DeviceLoader::num_examples() const {
  return options_.shard.count(data_.size(0), options_.drop_last);
}
int64_t DeviceLoader::dataset_size() const { return data_.size(0); }
}  // namespace tapegrad
