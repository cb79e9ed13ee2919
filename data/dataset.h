// Data sets: a number of examples, read one by one or many at once.
//
//   TensorDataset train(images, labels);                // [60000, 1, 28, 28] and [60000]
//   auto noisy = map_dataset(train, [](Example e, Generator& random) {
//     return Example{e.data + 0.1 * randn(e.data.shape(), {}, random), e.target};
//   });
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// One example, or a batch of them with a dimension in front. `auto& [x, y] = example;`
struct Example {
  Variable data;
  Variable target;  // empty where there is none
};

/// The random numbers of one pass over the data: those for an example depend on seed, epoch and the
/// example's index alone, whichever thread reads it and in whichever order.
struct SampleRandom {
  uint64_t seed = 0;
  uint64_t epoch = 0;

  Generator at(int64_t index) const;
};

/// Loaders call get() and gather() from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// Example `index` of [0, size()). What it draws by chance it takes from `random`.
  virtual Example get(int64_t index, Generator& random) const = 0;
  /// The examples of these indices as a batch. By default each is read and the results are stacked.
  virtual Example gather(std::span<const int64_t> indices, const SampleRandom& random) const;

  Example get(int64_t index) const {
    Generator random;
    return get(index, random);
  }
};

/// Tensors in memory, of one size along dimension 0. The target may be empty.
class TensorDataset final : public Dataset {
 public:
  /// ShapeError when the sizes differ or a tensor has no dimensions.
  explicit TensorDataset(const Variable& data, const Variable& target = {});

  const Variable& data() const { return data_; }
  const Variable& target() const { return target_; }

  using Dataset::get;
  int64_t size() const override;
  Example get(int64_t index, Generator& random) const override;
  /// IndexError for an index outside [0, size()).
  Example gather(std::span<const int64_t> indices, const SampleRandom& random) const override;
  /// The first `count` examples, or all when there are fewer; shares memory.
  TensorDataset take(int64_t count) const;

 private:
  Variable data_, target_;
};

/// Another data set with `change` applied to every example as it is read.
using ExampleMap = std::function<Example(Example, Generator&)>;
std::shared_ptr<const Dataset> map_dataset(std::shared_ptr<const Dataset> dataset,
                                           ExampleMap change);
std::shared_ptr<const Dataset> map_dataset(const TensorDataset& dataset, ExampleMap change);

}  // namespace tapegrad
