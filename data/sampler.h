// Samplers choose the examples of an epoch of a loader, and their order.
//
//   WeightedRandomSampler sampler(weights, 1000);           // one weight per example
//   DataLoader loader(train, {.batch_size = 32, .sampler = sampler});
//
// User-defined samplers derive from Sampler (data/loader.h). The indices depend only on its state
// and the epoch, so that a run can be resumed.
#pragma once

#include "data/loader.h"

namespace tapegrad {

/// Draws num_samples indices with probabilities proportional to the weights, with or without
/// replacement. Throws ArgumentError for a weight that is negative or not finite, and if there are
/// too few positive weights.
class WeightedRandomSampler final : public Sampler {
 public:
  WeightedRandomSampler(const std::vector<double>& weights, int64_t num_samples,
                        bool replacement = true, uint64_t seed = 0, Where where = Where::current());
  WeightedRandomSampler(const Variable& weights, int64_t num_samples, bool replacement = true,
                        uint64_t seed = 0, Where where = Where::current());
  int64_t size() const override { return num_samples_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  Variable weights_;
  int64_t num_samples_;
  bool replacement_;
  uint64_t seed_;
};

struct RandomSamplerOptions {
  bool replacement = false;
  std::optional<int64_t> num_samples = {};  // default: the number of examples
  uint64_t seed = 0;
};
/// Chooses all examples in a new random order in each epoch. With replacement, draws num_samples
/// examples uniformly; without, chooses num_samples different examples.
class RandomSampler final : public Sampler {
 public:
  /// Throws ArgumentError for a negative number of examples, and if num_samples exceeds the number
  /// that can be drawn.
  explicit RandomSampler(int64_t examples, RandomSamplerOptions options = {},
                         Where where = Where::current());
  explicit RandomSampler(const Dataset& dataset, RandomSamplerOptions options = {},
                         Where where = Where::current());
  int64_t size() const override;
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t examples_;
  RandomSamplerOptions options_;
};

/// Chooses all examples in their order, as a loader without a sampler and without .shuffle.
class SequentialSampler final : public Sampler {
 public:
  /// Throws ArgumentError for a negative number of examples.
  explicit SequentialSampler(int64_t examples, Where where = Where::current());
  explicit SequentialSampler(const Dataset& dataset);
  int64_t size() const override { return examples_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t examples_;
};

/// Chooses the given indices, in a new random order in each epoch.
class SubsetRandomSampler final : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<int64_t> indices, uint64_t seed = 0);
  /// Overload for indices in a tensor of integers, such as a part of randperm(n). Throws DTypeError
  /// for floats.
  template <std::derived_from<Variable> V>
  explicit SubsetRandomSampler(const V& indices, uint64_t seed = 0)
      : SubsetRandomSampler(indices_of(indices), seed) {}
  int64_t size() const override;
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  static std::vector<int64_t> indices_of(const Variable& indices);

  std::vector<int64_t> indices_;
  uint64_t seed_;
};

/// Groups the indices of a sampler into lists of batch_size: `for (auto& indices :
/// BatchSampler(sampler, 4, false))`. Each loop is a new epoch of the sampler.
class BatchSampler {
 public:
  /// Throws ArgumentError for a batch size below 1.
  BatchSampler(AnySampler sampler, int64_t batch_size, bool drop_last = false,
               Where where = Where::current());
  int64_t size() const;  // number of lists
  operator BatchPlan() const;
  std::vector<std::vector<int64_t>>::const_iterator begin();
  std::vector<std::vector<int64_t>>::const_iterator end() const;

 private:
  AnySampler sampler_;
  int64_t batch_size_;
  bool drop_last_;
  uint64_t epoch_ = 0;  // epoch of the next begin()
  std::vector<std::vector<int64_t>> batches_;
};

struct DistributedSamplerOptions {
  bool shuffle = true;
  uint64_t seed = 0;       // equal on all ranks
  bool drop_last = false;  // leave out examples, instead of repeating some on the last ranks
};
/// Sampler for the part of a data set that one of several processes reads (data/shard.h), under
/// PyTorch's name. Equivalent to the options .shuffle, .seed and .shard of a loader; a different
/// number of ranks can continue a run with either. Do not set .shard in addition. There is no
/// set_epoch(), because the loader counts the epochs.
class DistributedSampler final : public Sampler {
 public:
  /// Throws ArgumentError for an invalid shard and for a negative number of examples.
  DistributedSampler(int64_t examples, Shard shard, DistributedSamplerOptions options = {},
                     Where where = Where::current());
  DistributedSampler(const Dataset& dataset, Shard shard, DistributedSamplerOptions options = {},
                     Where where = Where::current());
  int64_t size() const override;
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t examples_;
  Shard shard_;
  DistributedSamplerOptions options_;
};

}  // namespace tapegrad
