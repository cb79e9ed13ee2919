#include "data/sampler.h"

#include <numeric>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "ops/create.h"
#include "ops/random.h"

namespace tapegrad {

WeightedRandomSampler::WeightedRandomSampler(const std::vector<double>& weights,
                                             int64_t num_samples, bool replacement, uint64_t seed,
                                             Where where)
    : WeightedRandomSampler(tensor(weights, {.dtype = f64, .device = cpu}), num_samples,
                            replacement, seed, where) {}

WeightedRandomSampler::WeightedRandomSampler(const Variable& weights, int64_t num_samples,
                                             bool replacement, uint64_t seed, Where where)
    : weights_(weights.detach().to(cpu).to(f64).clone()),
      num_samples_(num_samples),
      replacement_(replacement),
      seed_(seed) {
  const ErrorLine line(where);
  if (weights_.rank() != 1)
    fail<ShapeError>("WeightedRandomSampler: one weight per example wanted, not ",
                     weights_.shape());
  if (num_samples < 1)
    fail<ArgumentError>("WeightedRandomSampler: num_samples is ", num_samples, ", not at least 1");
  indices(0);  // refuses the weights here
}

std::vector<int64_t> WeightedRandomSampler::indices(uint64_t epoch) const {
  RandomGenerator generator(seed_ ^ (0x9E3779B97F4A7C15u * (epoch + 1)));
  return multinomial(weights_, num_samples_, replacement_, generator).to_vector<int64_t>();
}

RandomSampler::RandomSampler(int64_t examples, RandomSamplerOptions options, Where where)
    : examples_(examples), options_(options) {
  const ErrorLine line(where);
  if (examples < 0) fail<ArgumentError>("RandomSampler: ", examples, " examples");
  if (size() < 0 || (size() > 0 && examples == 0) || (!options.replacement && size() > examples))
    fail<ArgumentError>("RandomSampler: ", size(), " samples of ", examples, " examples, ",
                        options.replacement ? "with" : "without", " replacement");
}
BatchSampler::BatchSampler(AnySampler sampler, int64_t batch_size, bool drop_last, Where where)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  const ErrorLine line(where);
  if (batch_size < 1) fail<ArgumentError>("BatchSampler: a batch size of ", batch_size);
  if (sampler_.get() == nullptr) fail<ArgumentError>("BatchSampler: there is no sampler");
}
int64_t BatchSampler::size() const {
  const int64_t n = sampler_.get()->size();
  return n / batch_size_ + (!drop_last_ && n % batch_size_ != 0 ? 1 : 0);
}
std::vector<std::vector<int64_t>>::const_iterator BatchSampler::begin() {
  const std::vector<int64_t> all = sampler_.get()->indices(epoch_++);
  batches_.clear();
  for (int64_t i = 0; i < size(); ++i) {
    const auto first = all.begin() + i * batch_size_;
    batches_.emplace_back(first,
                          (all.end() - first > batch_size_ ? first + batch_size_ : all.end()));
  }
  return batches_.cbegin();
}

std::vector<int64_t> RandomSampler::indices(uint64_t epoch) const {
  if (!options_.replacement) {
    std::vector<int64_t> order = shuffled_order(examples_, options_.seed, epoch);
    order.resize(size_t(size()));
    return order;
  }
  if (size() == 0) return {};
  // No example has the index -1, so the stream differs from the streams of all examples.
  RandomGenerator generator = SampleRandom{options_.seed, epoch}.at(-1);
  return randint(0, examples_, {size()}, {}, generator).to_vector<int64_t>();
}

SequentialSampler::SequentialSampler(int64_t examples, Where where) : examples_(examples) {
  const ErrorLine line(where);
  if (examples < 0) fail<ArgumentError>("SequentialSampler: ", examples, " examples");
}
std::vector<int64_t> SequentialSampler::indices(uint64_t) const {
  std::vector<int64_t> order(static_cast<size_t>(examples_));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<int64_t> indices, uint64_t seed)
    : indices_(std::move(indices)), seed_(seed) {}

std::vector<int64_t> SubsetRandomSampler::indices_of(const Variable& indices) {
  if (!is_integer(indices.dtype()) || indices.rank() != 1)
    fail<DTypeError>("SubsetRandomSampler: a vector of integers wanted, not ", indices.dtype(), ' ',
                     indices.shape());
  return indices.to_vector<int64_t>();
}

std::vector<int64_t> SubsetRandomSampler::indices(uint64_t epoch) const {
  std::vector<int64_t> order = shuffled_order(size(), seed_, epoch);
  for (int64_t& place : order) place = indices_[size_t(place)];
  return order;
}

DistributedSampler::DistributedSampler(int64_t examples, Shard shard,
                                       DistributedSamplerOptions options, Where where)
    : examples_(examples), shard_(shard), options_(options) {
  const ErrorLine line(where);
  shard.check("DistributedSampler");
  if (examples < 0) fail<ArgumentError>("DistributedSampler: ", examples, " examples");
}

std::vector<int64_t> DistributedSampler::indices(uint64_t epoch) const {
  std::vector<int64_t> order(static_cast<size_t>(examples_));
  std::iota(order.begin(), order.end(), 0);
  if (options_.shuffle) order = shuffled_order(examples_, options_.seed, epoch);
  return shard_.take(order, options_.drop_last);
}

RandomSampler::RandomSampler(const Dataset& dataset, RandomSamplerOptions options, Where where)
    : RandomSampler(dataset.size(), options, where) {}
int64_t RandomSampler::size() const { return options_.num_samples.value_or(examples_); }
SequentialSampler::SequentialSampler(const Dataset& dataset) : SequentialSampler(dataset.size()) {}
int64_t SubsetRandomSampler::size() const { return int64_t(indices_.size()); }
BatchSampler::operator BatchPlan() const { return {sampler_, batch_size_, drop_last_}; }
std::vector<std::vector<int64_t>>::const_iterator BatchSampler::end() const {
  return batches_.end();
}
DistributedSampler::DistributedSampler(const Dataset& dataset, Shard shard,
                                       DistributedSamplerOptions options, Where where)
    : DistributedSampler(dataset.size(), shard, options, where) {}
int64_t DistributedSampler::size() const { return shard_.count(examples_, options_.drop_last); }
}  // namespace tapegrad
