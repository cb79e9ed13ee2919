// Data sets: examples, which are read one by one or in batches.
//
//   TensorDataset train(images, labels);                // [60000, 1, 28, 28] and [60000]
//   auto noisy = map_dataset(train, [](Example e, RandomGenerator& random) {
//     return Example{e.data + 0.1 * randn(e.data.shape(), {}, random), e.target};
//   });
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// One example, or a batch of examples with a leading dimension. `auto& [x, y] = example;`
struct Example {
  Variable data;
  Variable target;  // empty if the data set has no targets

  /// Returns data for i = 0 and target for i = 1. Throws IndexError for another number.
  const Variable& operator[](int64_t i) const;
};

/// Moves data and target, as in `batch | gpu`.
inline Example operator|(const Example& example, Device device) {
  return {example.data | device, example.target.defined() ? example.target | device : Variable()};
}

/// Random numbers of one pass over the data. The numbers of an example depend only on seed, epoch
/// and index, not on the thread that reads the example or on the order.
struct SampleRandom {
  uint64_t seed = 0;
  uint64_t epoch = 0;

  RandomGenerator at(int64_t index) const;
};

namespace detail {
uint64_t draw_seed(RandomGenerator& generator);
}  // namespace detail

/// Option `.generator`: a seed drawn from a generator of the program, or none.
class GeneratorSeed {
 public:
  GeneratorSeed() = default;
  GeneratorSeed(RandomGenerator& generator);
  GeneratorSeed(RandomGenerator&& generator);
  uint64_t value_or(uint64_t seed) const;

 private:
  std::optional<uint64_t> seed_;
};

namespace detail {

/// Appends `item 7 of the data set`, or `items 7, 3, 5 ... of the data set`, to the message.
void note_items(Error& error, std::span<const int64_t> indices);
/// Calls make(); if it throws an Error, adds the indices of the items to the message.
template <typename Make>
auto about_items(std::span<const int64_t> indices, Make make) {
  try {
    return make();
  } catch (Error& error) {
    note_items(error, indices);
    throw;
  }
}

}  // namespace detail

/// A data set. Loaders call get() and gather() from several threads at once.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  virtual ~Dataset();
  virtual int64_t size() const = 0;
  /// Returns example `index` of [0, size()). Override one of the two overloads; the second one if
  /// the example is changed at random, with random numbers only from `random`.
  virtual Example get(int64_t index) const;  // ItemLoader takes sets of items of other types
  virtual Example get(int64_t index, RandomGenerator& random) const;
  /// Returns the examples with these indices as a batch. The default calls get() for each index and
  /// stacks the results.
  virtual Example gather(std::span<const int64_t> indices, const SampleRandom& random) const;

  Example operator[](int64_t index) const { return get(index); }
};

/// Tensors in memory with equal sizes in dimension 0. The target may be empty.
class TensorDataset final : public Dataset {
 public:
  /// Throws ShapeError if the sizes differ or a tensor has no dimensions.
  explicit TensorDataset(const Variable& data, const Variable& target = {},
                         Where where = Where::current());
  template <std::derived_from<Variable>... More>
  requires(sizeof...(More) > 0) TensorDataset(const Variable&, const Variable&, const More&...)
  noexcept(refuse<More...>()) {}

  const Variable& data() const { return data_; }
  const Variable& target() const { return target_; }

  using Dataset::get;
  int64_t size() const override;
  Example get(int64_t index, RandomGenerator& random) const override;
  /// Throws IndexError for an index outside [0, size()).
  Example gather(std::span<const int64_t> indices, const SampleRandom& random) const override;
  /// Returns the first `count` examples, or all if there are fewer. Shares memory.
  TensorDataset take(int64_t count) const;

 private:
  template <typename... More>
  static constexpr bool refuse() {
    static_assert(detail::kNever<More...>,
                  "TensorDataset(a, b, c): it has data and target; type StackDataset(a, b, c), and "
                  "ItemLoader in place of DataLoader");
    return true;
  }

  Variable data_, target_;
};

namespace detail {
/// Returns a copy of the data set. Not inline, so that programs do not compile the copy of a
/// TensorDataset.
template <typename D>
std::shared_ptr<const Dataset> shared_copy(const D& dataset) {
  return std::make_shared<D>(dataset);
}
extern template std::shared_ptr<const Dataset> shared_copy(const TensorDataset&);
}  // namespace detail

/// Function that map_dataset() applies to every example when the example is read.
using ExampleMap = std::function<Example(Example, RandomGenerator&)>;
std::shared_ptr<const Dataset> map_dataset(std::shared_ptr<const Dataset> dataset,
                                           ExampleMap change);
std::shared_ptr<const Dataset> map_dataset(const TensorDataset& dataset, ExampleMap change);

}  // namespace tapegrad
