#include "data/split.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "data/internal/check_index.h"
#include "data/loader.h"
#include "ops/index.h"

namespace tapegrad {
namespace {

using Indices = std::vector<int64_t>;

TensorDataset select_examples(const TensorDataset& dataset, const Indices& indices) {
  const NoGrad no_grad;
  const auto take = [&](const Variable& x) {
    if (!x.defined()) return x;
    const Tensor index = Tensor::from<int64_t>(indices, {int64_t(indices.size())});
    return index_select(x, 0, Variable(index.to(x.device())));
  };
  return TensorDataset(take(dataset.data()), take(dataset.target()));
}

}  // namespace

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices, Where where)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  const ErrorLine line(where);
  if (!dataset_) fail<ArgumentError>("Subset: no dataset");
  for (const int64_t index : indices_) check_index(index, dataset_->size());
}

std::vector<int64_t> Subset::indices_in(const Variable& tensor, Where where) {
  const ErrorLine line(where);
  if (is_float(tensor.dtype()) || tensor.dtype() == boolean)
    fail<DTypeError>("Subset: the indices are ", tensor.dtype(),
                     ", not integers; nonzero(mask) has those of a mask");
  return tensor.to_vector<int64_t>();
}

Example Subset::get(int64_t index, RandomGenerator& random) const {
  check_index(index, size());
  return dataset_->get(indices_[size_t(index)], random);
}

Example Subset::gather(std::span<const int64_t> indices, const SampleRandom& random) const {
  Indices chosen;
  for (const int64_t index : indices) {
    check_index(index, size());
    chosen.push_back(indices_[size_t(index)]);
  }
  return dataset_->gather(chosen, random);
}

uint64_t detail::draw_seed(RandomGenerator& generator) {
  const RandomState state = generator.draw(2);
  const auto words = philox(state.seed, state.offset);
  return uint64_t(words[0]) << 32 | words[1];
}

std::vector<Indices> detail::random_parts(int64_t n, const std::vector<double>& shares,
                                          uint64_t seed, Where where) {
  const ErrorLine line(where);
  double sum = 0;
  for (const double share : shares) {
    if (!(share >= 0)) fail<ArgumentError>("random_split: a share is ", share, ", below 0");
    sum += share;
  }
  const bool are_counts = sum == double(n) && std::ranges::all_of(shares, [](double share) {
                            return share == std::floor(share);
                          });
  if (!are_counts && std::abs(sum - 1) > 1e-6)
    fail<ArgumentError>("random_split: the shares sum to ", sum, ", neither to 1 nor to the ", n,
                        " examples");
  const Indices order = shuffled_order(n, seed, 0);
  std::vector<Indices> parts;
  double share = 0;
  const auto place = [&] {
    return std::min<int64_t>(n, std::llround(are_counts ? share : share * double(n)));
  };
  for (size_t i = 0; i < shares.size(); ++i) {
    const int64_t first = place();
    share += shares[i];
    const int64_t end = i + 1 == shares.size() ? n : place();
    parts.emplace_back(order.begin() + first, order.begin() + end);
  }
  return parts;
}

std::vector<Subset> random_split(std::shared_ptr<const Dataset> dataset,
                                 const std::vector<double>& shares, uint64_t seed, Where where) {
  const ErrorLine line(where);
  if (!dataset) fail<ArgumentError>("random_split: no dataset");
  std::vector<Subset> parts;
  for (Indices& part : detail::random_parts(dataset->size(), shares, seed, where))
    parts.emplace_back(dataset, std::move(part));
  return parts;
}

KFold::KFold(KFoldOptions options) : options_(options) {
  if (options.random_state != 0) options_.seed = options.random_state;
  if (options.n_splits < 2)
    fail<ArgumentError>("KFold: ", options.n_splits, " folds; at least 2 are needed");
}
std::vector<Fold> KFold::split(int64_t examples, Where where) const {
  const ErrorLine line(where);
  const int64_t folds = options_.n_splits;
  if (examples < folds) fail<ArgumentError>("KFold: ", examples, " examples for ", folds, " folds");
  std::vector<int64_t> order = shuffled_order(examples, options_.seed, 0);
  if (!options_.shuffle) std::sort(order.begin(), order.end());
  std::vector<Fold> result;
  for (int64_t k = 0, first = 0; k < folds; ++k) {
    const int64_t last = first + examples / folds + (k < examples % folds ? 1 : 0);
    Fold fold;
    for (int64_t i = 0; i < examples; ++i)
      (first <= i && i < last ? fold.test : fold.train).push_back(order[size_t(i)]);
    result.push_back(std::move(fold));
    first = last;
  }
  return result;
}

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  for (const auto& dataset : datasets_) {
    if (!dataset) fail<ArgumentError>("ConcatDataset: no dataset");
    ends_.push_back(size() + dataset->size());
  }
}

Example ConcatDataset::get(int64_t index, RandomGenerator& random) const {
  check_index(index, size());
  const size_t part = size_t(std::ranges::upper_bound(ends_, index) - ends_.begin());
  return datasets_[part]->get(part == 0 ? index : index - ends_[part - 1], random);
}

std::array<Variable, 4> train_test_split(const Variable& x, const Variable& y,
                                         TrainTestSplitOptions options) {
  const ErrorLine line(options.by_name.where);
  const TensorDataset all(x, y, options.by_name.where);
  const int64_t rows = all.size();
  const double wanted =
      options.test_size < 1 ? std::ceil(options.test_size * double(rows)) : options.test_size;
  if (!(wanted >= 1 && wanted < double(rows)))
    fail<ArgumentError>("train_test_split: a test_size of ", options.test_size, " of ", rows,
                        " rows leaves a part empty");
  Indices order = shuffled_order(rows, options.random_state, 0);
  if (!options.shuffle) std::ranges::sort(order);
  const auto middle = order.end() - int64_t(wanted);
  const TensorDataset train = select_examples(all, Indices(order.begin(), middle));
  const TensorDataset test = select_examples(all, Indices(middle, order.end()));
  return {train.data(), test.data(), train.target(), test.target()};
}

std::pair<Indices, Indices> detail::split_indices(int64_t size, double share, uint64_t seed,
                                                  Where where) {
  if (!(share >= 0 && share <= 1))
    fail_at<ArgumentError>(where, "split_dataset: share is ", share, ", not in [0, 1]");
  Indices first = shuffled_order(size, seed, 0);
  const auto middle = first.end() - std::llround(share * double(size));
  Indices second(middle, first.end());
  first.erase(middle, first.end());
  std::ranges::sort(first);
  std::ranges::sort(second);
  return {std::move(first), std::move(second)};
}

std::pair<TensorDataset, TensorDataset> split_dataset(const TensorDataset& dataset, double share,
                                                      uint64_t seed, Where where) {
  const auto [first, second] = detail::split_indices(dataset.size(), share, seed, where);
  return {select_examples(dataset, first), select_examples(dataset, second)};
}

std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split_dataset(
    std::shared_ptr<const Dataset> dataset, double share, uint64_t seed, Where where) {
  if (!dataset) fail_at<ArgumentError>(where, "split_dataset: no dataset");
  auto [first, second] = detail::split_indices(dataset->size(), share, seed, where);
  return {std::make_shared<Subset>(dataset, std::move(first)),
          std::make_shared<Subset>(dataset, std::move(second))};
}

int64_t Subset::size() const { return int64_t(indices_.size()); }
KFold::KFold(int64_t n_splits, bool shuffle, uint64_t seed)
    : KFold(KFoldOptions{n_splits, shuffle, seed}) {}
KFold::KFold(int64_t n_splits, KFoldOptions options)
    : KFold((options.n_splits = n_splits, options)) {}
std::vector<Fold> KFold::split(const Dataset& dataset, Where where) const {
  return split(dataset.size(), where);
}
int64_t ConcatDataset::size() const { return ends_.empty() ? 0 : ends_.back(); }
}  // namespace tapegrad
