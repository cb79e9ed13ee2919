#include "data/dataset.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "data/internal/check_index.h"
#include "ops/index.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

Variable stack_of(const std::vector<Example>& examples, Variable Example::*part) {
  std::vector<Variable> parts;
  for (const Example& example : examples)
    if ((example.*part).defined()) parts.push_back(example.*part);
  if (!parts.empty() && parts.size() != examples.size())
    fail<ArgumentError>("dataset: ", parts.size(), " of the ", examples.size(), " examples have a ",
                        part == &Example::data ? "datum" : "target");
  return parts.empty() ? Variable() : stack(parts);
}

/// Returns rows of x. The indices must be valid.
Variable rows(const Variable& x, std::span<const int64_t> indices) {
  if (!x.defined()) return {};
  const Tensor& from = x.value();
  if (from.device() != cpu || !from.is_contiguous()) {
    const Tensor index = Tensor::from(indices, {int64_t(indices.size())});
    return index_select(x, 0, Variable(index.to(x.device())));
  }
  // Copies by hand: this function runs on loader threads, which should not start OpenMP teams.
  Shape shape = from.shape();
  shape[0] = int64_t(indices.size());
  Tensor to = from.empty_like(shape);
  if (to.numel() == 0) return Variable(std::move(to));
  const int64_t row = from.numel() / from.shape()[0] * size_of(from.dtype());
  const std::byte* source = from.storage().data() + from.layout().offset * size_of(from.dtype());
  std::byte* target = to.storage().data();
  for (int64_t index : indices) {
    std::memcpy(target, source + index * row, size_t(row));
    target += row;
  }
  return Variable(std::move(to));
}

class Mapped final : public Dataset {
 public:
  Mapped(std::shared_ptr<const Dataset> dataset, ExampleMap change)
      : dataset_(std::move(dataset)), change_(std::move(change)) {}

  int64_t size() const override { return dataset_->size(); }
  Example get(int64_t index, RandomGenerator& random) const override {
    return change_(dataset_->get(index, random), random);
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  ExampleMap change_;
};

}  // namespace

void detail::note_items(Error& error, std::span<const int64_t> indices) {
  constexpr size_t kMostNamed = 8;
  const auto named = indices.first(std::min(indices.size(), kMostNamed));
  error.note(absl::StrCat(indices.size() == 1 ? "item " : "items ", absl::StrJoin(named, ", "),
                          indices.size() > kMostNamed ? " ..." : "", " of the data set"));
}

RandomGenerator SampleRandom::at(int64_t index) const {
  // Two rounds of mixing give every (seed, epoch, index) its own stream.
  const auto key = philox(seed, epoch);
  const auto mixed = philox(uint64_t(key[0]) << 32 | key[1], uint64_t(index));
  return RandomGenerator(uint64_t(mixed[0]) << 32 | mixed[1]);
}

const Variable& Example::operator[](int64_t i) const {
  if (i != 0 && i != 1)
    fail<IndexError>("batch[", i, "]: batch[0] is the data, batch[1] the target");
  return i == 0 ? data : target;
}

Example Dataset::get(int64_t index) const {
  RandomGenerator random;
  return get(index, random);
}

Example Dataset::get(int64_t index, RandomGenerator&) const {
  // The defaults call each other. The second call for one data set means that none is overridden.
  thread_local const Dataset* asking = nullptr;
  if (asking == this)
    fail<ArgumentError>(
        "Dataset: the class of this data set overrides no get(); override "
        "`Example get(int64_t index) const`");
  const Dataset* const before = std::exchange(asking, this);
  const absl::Cleanup restore = [before] { asking = before; };
  return get(index);
}

Example Dataset::gather(std::span<const int64_t> indices, const SampleRandom& random) const {
  if (indices.empty()) fail<ArgumentError>("dataset: gather: no indices");
  std::vector<Example> examples;
  for (int64_t index : indices) {
    check_index(index, size());
    examples.push_back(detail::about_items({&index, 1}, [&] {
      RandomGenerator generator = random.at(index);
      return get(index, generator);
    }));
  }
  return detail::about_items(indices, [&]() -> Example {
    return {stack_of(examples, &Example::data), stack_of(examples, &Example::target)};
  });
}

TensorDataset::TensorDataset(const Variable& data, const Variable& target, Where where) {
  const ErrorLine line(where);
  data_ = data.detach();
  if (target.defined()) target_ = target.detach();
  if (data_.rank() == 0 || (target_.defined() && target_.rank() == 0))
    fail<ShapeError>("TensorDataset: a tensor without dimensions holds no examples");
  if (target_.defined() && target_.size(0) != data_.size(0))
    fail<ShapeError>("TensorDataset: sizes along dimension 0 differ: data ", data_.shape(),
                     ", target ", target_.shape());
}

int64_t TensorDataset::size() const { return data_.size(0); }

Example TensorDataset::get(int64_t index, RandomGenerator&) const {
  check_index(index, size());
  const NoGrad no_grad;
  return {select(data_, 0, index), target_.defined() ? select(target_, 0, index) : Variable()};
}

Example TensorDataset::gather(std::span<const int64_t> indices, const SampleRandom&) const {
  for (int64_t index : indices) check_index(index, size());
  const NoGrad no_grad;
  return {rows(data_, indices), rows(target_, indices)};
}

TensorDataset TensorDataset::take(int64_t count) const {
  const NoGrad no_grad;
  const int64_t length = std::max<int64_t>(0, std::min(count, size()));
  return TensorDataset(narrow(data_, 0, 0, length),
                       target_.defined() ? narrow(target_, 0, 0, length) : Variable());
}

std::shared_ptr<const Dataset> map_dataset(std::shared_ptr<const Dataset> dataset,
                                           ExampleMap change) {
  if (!dataset) fail<ArgumentError>("map_dataset: no dataset");
  if (!change) fail<ArgumentError>("map_dataset: the function is empty");
  return std::make_shared<Mapped>(std::move(dataset), std::move(change));
}

std::shared_ptr<const Dataset> map_dataset(const TensorDataset& dataset, ExampleMap change) {
  return map_dataset(std::make_shared<TensorDataset>(dataset), std::move(change));
}

GeneratorSeed::GeneratorSeed(RandomGenerator& generator) : seed_(detail::draw_seed(generator)) {}
GeneratorSeed::GeneratorSeed(RandomGenerator&& generator) : GeneratorSeed(generator) {}
uint64_t GeneratorSeed::value_or(uint64_t seed) const { return seed_.value_or(seed); }
Dataset::~Dataset() = default;
template std::shared_ptr<const Dataset> detail::shared_copy(const TensorDataset&);
}  // namespace tapegrad
