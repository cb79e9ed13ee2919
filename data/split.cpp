#include "data/split.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "data/loader.h"
#include "ops/index.h"

namespace tapegrad {
namespace {

using Indices = std::vector<int64_t>;

/// Some examples of a data set.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, Indices indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}

  int64_t size() const override { return int64_t(indices_.size()); }
  Example get(int64_t index, Generator& random) const override {
    return whole_->get(indices_.at(size_t(index)), random);
  }
  Example gather(std::span<const int64_t> indices, const SampleRandom& random) const override {
    Indices chosen;
    for (const int64_t index : indices) chosen.push_back(indices_.at(size_t(index)));
    return whole_->gather(chosen, random);
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  Indices indices_;
};

std::pair<Indices, Indices> split_indices(int64_t size, double share, uint64_t seed) {
  if (!(share >= 0 && share <= 1))
    fail<ArgumentError>("split_dataset: share is ", share, ", not in [0, 1]");
  Indices first = shuffled_order(size, seed, 0);
  const auto middle = first.end() - std::llround(share * double(size));
  Indices second(middle, first.end());
  first.erase(middle, first.end());
  std::ranges::sort(first);
  std::ranges::sort(second);
  return {std::move(first), std::move(second)};
}

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

std::pair<TensorDataset, TensorDataset> split_dataset(const TensorDataset& dataset, double share,
                                                      uint64_t seed) {
  const auto [first, second] = split_indices(dataset.size(), share, seed);
  return {select_examples(dataset, first), select_examples(dataset, second)};
}

std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split_dataset(
    std::shared_ptr<const Dataset> dataset, double share, uint64_t seed) {
  auto [first, second] = split_indices(dataset->size(), share, seed);
  return {std::make_shared<Subset>(dataset, std::move(first)),
          std::make_shared<Subset>(dataset, std::move(second))};
}

}  // namespace tapegrad
