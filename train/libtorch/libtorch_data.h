// libtorch's data sets: a class with get(size_t) and size(), transforms and loaders.
//
//   struct Digits : torch::data::datasets::Dataset<Digits> {
//     torch::data::Example<> get(size_t i) override { return {images[i], labels[i]}; }
//     torch::optional<size_t> size() const override { return images.size(0); }
//     torch::Tensor images, labels;
//   };
//   auto set = Digits().map(torch::data::transforms::Normalize<>(0.13, 0.31))
//                      .map(torch::data::transforms::Stack<>());
//   auto loader = torch::data::make_data_loader(set, /*batch_size=*/64);   // in random order
//   for (auto& batch : *loader) batch.data;
//
// Data sets of this library have get(int64_t) const instead (data/dataset.h).
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/chained.h"
#include "data/loader.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/view.h"

namespace tapegrad::torch::data {

using namespace ::tapegrad;
template <typename Data = Variable, typename Target = Variable>
using Example = ::tapegrad::Example;
using DataLoaderOptions =
    Chained<::tapegrad::DataLoaderOptions, &::tapegrad::DataLoaderOptions::batch_size>;

namespace samplers {
struct RandomSampler {};
struct SequentialSampler {};
}  // namespace samplers

namespace transforms {
/// Has no effect, because loaders stack examples themselves.
template <typename E = ::tapegrad::Example>
struct Stack {
  ::tapegrad::Example operator()(::tapegrad::Example example) const { return example; }
};
/// Computes (data - mean) / stddev of an image, or of each channel of [channels, height, width].
template <typename Data = Variable>
class Normalize {
 public:
  Normalize(double mean, double stddev) : mean_(scalar(mean)), stddev_(scalar(stddev)) {}
  Normalize(const std::vector<double>& mean, const std::vector<double>& stddev)
      : mean_(of_channels(mean)), stddev_(of_channels(stddev)) {}
  ::tapegrad::Example operator()(::tapegrad::Example example) const {
    return {(example.data - mean_) / stddev_, example.target};
  }

 private:
  static Variable of_channels(const std::vector<double>& values) {
    return view(tensor(values), {int64_t(values.size()), 1, 1});
  }
  Variable mean_, stddev_;
};
}  // namespace transforms

namespace datasets {

template <typename Of, typename Transform>
class MapDataset;

/// Loaders with workers call get() from several threads at once.
template <typename Self, typename E = ::tapegrad::Example>
class Dataset {
 public:
  using ExampleType = E;
  virtual ~Dataset() = default;
  virtual E get(size_t index) = 0;
  virtual std::optional<size_t> size() const = 0;
  /// Returns a data set that applies the transform to every example.
  template <typename Transform>
  MapDataset<Self, Transform> map(Transform transform) const {
    return {static_cast<const Self&>(*this), std::move(transform)};
  }
};

template <typename Of, typename Transform>
class MapDataset final : public Dataset<MapDataset<Of, Transform>> {
 public:
  MapDataset(Of of, Transform transform) : of_(std::move(of)), transform_(std::move(transform)) {}
  ::tapegrad::Example get(size_t index) override { return transform_(of_.get(index)); }
  std::optional<size_t> size() const override { return of_.size(); }

 private:
  Of of_;
  Transform transform_;
};

/// Data set of images [1, 28, 28] in [0, 1] and class ids, read from the files of load_mnist() in a
/// directory.
class MNIST final : public Dataset<MNIST> {
 public:
  enum class Mode { kTrain, kTest };
  /// Throws the errors of load_mnist().
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain);
  ::tapegrad::Example get(size_t index) override;
  std::optional<size_t> size() const override;
  bool is_train() const { return mode_ == Mode::kTrain; }
  const Variable& images() const { return images_; }
  const Variable& targets() const { return targets_; }

 private:
  Mode mode_;
  Variable images_, targets_;
};

}  // namespace datasets

using datasets::Dataset;

namespace detail {
template <typename D>
class Adapted final : public ::tapegrad::Dataset {
 public:
  explicit Adapted(D of) : of_(std::move(of)) {}
  int64_t size() const override {
    if (!of_.size()) fail<ArgumentError>("make_data_loader: the data set has no size");
    return int64_t(*of_.size());
  }
  using ::tapegrad::Dataset::get;
  ::tapegrad::Example get(int64_t index) const override { return of_.get(size_t(index)); }

 private:
  mutable D of_;
};
template <typename D>
std::shared_ptr<const ::tapegrad::Dataset> shared(D dataset) {
  if constexpr (std::derived_from<D, ::tapegrad::Dataset>)
    return std::make_shared<const D>(std::move(dataset));
  else
    return std::make_shared<const Adapted<D>>(std::move(dataset));
}
}  // namespace detail

/// Makes a loader: `auto loader = make_data_loader(dataset, 64); for (auto& [x, y] : *loader)`. The
/// loader must outlive the loop. As in libtorch, the order is random unless the sampler is
/// samplers::SequentialSampler.
template <typename Sampler = samplers::RandomSampler, typename D>
std::unique_ptr<DataLoader> make_data_loader(D dataset,
                                             ::tapegrad::DataLoaderOptions options = {}) {
  options.shuffle = std::same_as<Sampler, samplers::RandomSampler>;
  return std::make_unique<DataLoader>(detail::shared(std::move(dataset)), options);
}
template <typename Sampler = samplers::RandomSampler, typename D, std::integral N>
std::unique_ptr<DataLoader> make_data_loader(D dataset, N batch_size) {
  return make_data_loader<Sampler>(std::move(dataset),
                                   ::tapegrad::DataLoaderOptions{.batch_size = batch_size});
}

}  // namespace tapegrad::torch::data

// PyTorch's torch.utils.data: data::DataLoader, data::TensorDataset, data::random_split. Dataset
// and Example are those of data/dataset.h; the other names are those declared above.
namespace tapegrad::data {
using ::tapegrad::Dataset;
using ::tapegrad::Example;
using namespace ::tapegrad::torch::data;
}  // namespace tapegrad::data
namespace tapegrad::utils {
namespace data = ::tapegrad::data;
}  // namespace tapegrad::utils
