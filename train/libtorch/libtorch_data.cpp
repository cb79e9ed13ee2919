#include "train/libtorch/libtorch_data.h"

#include "data/mnist.h"

namespace tapegrad::torch::data::datasets {

MNIST::MNIST(const std::string& root, Mode mode) : mode_(mode) {
  const Mnist files = load_mnist(root);
  const TensorDataset& part = is_train() ? files.train : files.test;
  images_ = part.data();
  targets_ = part.target();
}

::tapegrad::Example MNIST::get(size_t index) { return {images_[index], targets_[index]}; }

std::optional<size_t> MNIST::size() const { return size_t(images_.size(0)); }

}  // namespace tapegrad::torch::data::datasets
