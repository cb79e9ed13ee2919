// Parts of data sets: random splits, subsets and concatenation.
//
//   const auto [train, validation] = split_dataset(data, 0.1);   // a tenth for validation
//   auto [train, validation, test] = random_split(data, {0.8, 0.1, 0.1});
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/by_name.h"
#include "data/dataset.h"

namespace tapegrad {

/// Some examples of a data set, in the order of the indices, which may repeat.
class Subset final : public Dataset {
 public:
  /// Throws IndexError for an index outside of the data set.
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices,
         Where where = Where::current());
  template <std::derived_from<Dataset> D>
  Subset(const D& dataset, std::vector<int64_t> indices, Where where = Where::current())
      : Subset(detail::shared_copy(dataset), std::move(indices), where) {}
  /// Overload for indices in a tensor: `Subset(data, randperm(100).slice(0, 0, 80))`. Throws
  /// DTypeError unless they are integers.
  template <std::derived_from<Dataset> D, std::derived_from<Variable> V>
  Subset(const D& dataset, const V& indices, Where where = Where::current())
      : Subset(detail::shared_copy(dataset), indices_in(indices, where), where) {}
  template <typename D>
  requires(!std::derived_from<D, Dataset> &&
           !std::convertible_to<D, std::shared_ptr<const Dataset>>)
      Subset(const D&, const std::vector<int64_t>&) {
    static_assert(detail::kNever<D>,
                  "Subset: the data set does not derive from Dataset; type ItemSubset(data, "
                  "indices), for an ItemLoader");
  }

  using Dataset::get;
  int64_t size() const override;
  Example get(int64_t index, RandomGenerator& random) const override;
  Example gather(std::span<const int64_t> indices, const SampleRandom& random) const override;

 private:
  static std::vector<int64_t> indices_in(const Variable& tensor, Where where);

  std::shared_ptr<const Dataset> dataset_;
  std::vector<int64_t> indices_;
};

namespace detail {
/// Returns the indices of the parts of random_split().
std::vector<std::vector<int64_t>> random_parts(int64_t examples, const std::vector<double>& shares,
                                               uint64_t seed, Where where);
/// Returns the indices of the parts of split_dataset().
std::pair<std::vector<int64_t>, std::vector<int64_t>> split_indices(int64_t examples, double share,
                                                                    uint64_t seed, Where where);
}  // namespace detail

/// Splits a data set at random into parts. The sizes are shares that sum to 1, for example {0.8,
/// 0.2}, or numbers of examples that sum to the size of the data set, for example {800, 200}.
/// Throws ArgumentError for other sizes.
std::vector<Subset> random_split(std::shared_ptr<const Dataset> dataset,
                                 const std::vector<double>& shares, uint64_t seed = 0,
                                 Where where = Where::current());
template <std::derived_from<Dataset> D>
std::vector<Subset> random_split(const D& dataset, const std::vector<double>& shares,
                                 uint64_t seed = 0, Where where = Where::current()) {
  return random_split(detail::shared_copy(dataset), shares, seed, where);
}

/// A list of N sizes, so that `auto [train, test] = random_split(data, {0.8, 0.2})` has N parts.
template <size_t N>
struct SplitParts : std::array<Subset, N> {
  operator std::vector<Subset>() const { return {this->begin(), this->end()}; }
};
template <std::derived_from<Dataset> D, size_t N>
SplitParts<N> random_split(const D& dataset, const double (&shares)[N], uint64_t seed = 0,
                           Where where = Where::current()) {
  const std::vector<Subset> parts =
      random_split(dataset, std::vector(shares, shares + N), seed, where);
  return [&]<size_t... I>(std::index_sequence<I...>) { return SplitParts<N>{{parts[I]...}}; }
  (std::make_index_sequence<N>());
}

/// Overload with a generator that draws the parts: `random_split(data, {80, 20}, generator)`.
template <std::derived_from<Dataset> D, size_t N>
SplitParts<N> random_split(const D& dataset, const double (&shares)[N], RandomGenerator& generator,
                           Where where = Where::current()) {
  return random_split(dataset, shares, detail::draw_seed(generator), where);
}
struct RandomSplitOptions {
  ByName by_name = {};
  GeneratorSeed generator;
};
/// Overload with PyTorch's option: `random_split(data, {80, 20}, {.generator = generator})`.
template <std::derived_from<Dataset> D, size_t N>
SplitParts<N> random_split(const D& dataset, const double (&shares)[N], RandomSplitOptions options,
                           Where where = Where::current()) {
  return random_split(dataset, shares, options.generator.value_or(0), where);
}
template <typename D, size_t N>
requires requires(const D& parts) {
  parts.train;
  parts.test;
}
auto random_split(const D&, const double (&)[N]) {
  static_assert(detail::kNever<D>,
                "random_split(load_digits(), ...): the data are split already: const auto [train, "
                "test] = load_digits(), or random_split(load_digits().train, {0.9, 0.1})");
}

/// Indices of one fold. Every example is in `test` of exactly one fold.
struct Fold {
  std::vector<int64_t> train, test;
};
struct KFoldOptions {
  int64_t n_splits = 5;
  bool shuffle = false;
  uint64_t seed = 0;
  uint64_t random_state = 0;  // scikit-learn's name of seed
};
/// Divides examples into folds for cross-validation, as scikit-learn's KFold does. If n_splits does
/// not divide the number of examples, the first folds have one more example.
///
///   for (const auto& [train, test] : KFold(5).split(data))
///     fit(model, DataLoader(Subset(data, train), 32), ...);
class KFold {
 public:
  /// Throws ArgumentError for fewer than two folds.
  explicit KFold(KFoldOptions options);
  explicit KFold(int64_t n_splits = 5, bool shuffle = false, uint64_t seed = 0);
  /// Takes the number of folds, and options by name: KFold(5, {.shuffle = true}).
  KFold(int64_t n_splits, KFoldOptions options);
  /// Returns the folds. Throws ArgumentError for fewer examples than folds.
  std::vector<Fold> split(int64_t examples, Where where = Where::current()) const;
  std::vector<Fold> split(const Dataset& dataset, Where where = Where::current()) const;
  /// Takes any data with size(), as an ItemLoader does.
  template <typename Data>
  requires(!std::derived_from<Data, Dataset>) && requires(const Data& data) { data.size(); }
  std::vector<Fold> split(const Data& data, Where where = Where::current()) const {
    return split(int64_t(data.size()), where);
  }

 private:
  KFoldOptions options_;
};

/// Concatenation of several data sets.
class ConcatDataset final : public Dataset {
 public:
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);
  template <std::derived_from<Dataset>... D>
  explicit(sizeof...(D) == 1) ConcatDataset(const D&... datasets)
      : ConcatDataset(
            std::vector<std::shared_ptr<const Dataset>>{detail::shared_copy(datasets)...}) {}

  using Dataset::get;
  int64_t size() const override;
  Example get(int64_t index, RandomGenerator& random) const override;

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<int64_t> ends_;  // end of each data set in the concatenation
};

/// PyTorch's form of ConcatDataset(first, second).
template <std::derived_from<Dataset> First, std::derived_from<Dataset> Second>
ConcatDataset operator+(const First& first, const Second& second) {
  return ConcatDataset(first, second);
}

struct TrainTestSplitOptions {
  ByName by_name = {};
  double test_size = 0.25;  // share of the rows, rounded up; from 1 on, their number
  uint64_t random_state = 0;
  bool shuffle = true;  // false: the last rows are the test rows
};
/// Divides the rows of x and y into rows for training and for testing, as scikit-learn does:
/// `auto [x_train, x_test, y_train, y_test] = train_test_split(x, y, {.test_size = 0.2});`. Throws
/// ShapeError unless x and y have equally many rows, and ArgumentError if a part would be empty.
std::array<Variable, 4> train_test_split(const Variable& x, const Variable& y,
                                         TrainTestSplitOptions options = {});

/// Moves a share of the examples, rounded to whole examples, to the second part. The order of the
/// examples within a part does not change. Equal seeds give equal parts. Throws ArgumentError
/// unless 0 <= share <= 1.
std::pair<TensorDataset, TensorDataset> split_dataset(const TensorDataset& dataset, double share,
                                                      uint64_t seed = 0,
                                                      Where where = Where::current());
/// Overload whose parts read from the data set. An example gets the same random numbers as in the
/// whole data set.
std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split_dataset(
    std::shared_ptr<const Dataset> dataset, double share, uint64_t seed = 0,
    Where where = Where::current());
/// Overload for a user's data set, whose parts read from a copy of it.
template <std::derived_from<Dataset> D>
std::pair<Subset, Subset> split_dataset(const D& dataset, double share, uint64_t seed = 0,
                                        Where where = Where::current()) {
  const std::shared_ptr<const Dataset> shared = detail::shared_copy(dataset);
  auto [first, second] = detail::split_indices(shared->size(), share, seed, where);
  return {Subset(shared, std::move(first)), Subset(shared, std::move(second))};
}

}  // namespace tapegrad

template <size_t N>
struct std::tuple_size<tapegrad::SplitParts<N>> : std::integral_constant<size_t, N> {};
template <size_t I, size_t N>
struct std::tuple_element<I, tapegrad::SplitParts<N>> {
  using type = tapegrad::Subset;
};
