#include "data/mnist.h"

#include <array>
#include <filesystem>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "data/idx.h"
#include "data/internal/mnist_parts.h"
#include "data/npz.h"
#include "ops/create.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

std::filesystem::path find_file(const std::filesystem::path& dir, const std::string& stem,
                                const std::string& kind) {
  std::string tried;
  for (const char* dash : {"-", "."})
    for (const char* ending : {"", ".gz"}) {
      std::filesystem::path path = dir / (stem + dash + kind + ending);
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored)) return path;
      tried += (tried.empty() ? "" : ", ") + path.string();
    }
  fail<IoError>("load_mnist: no such file; tried ", tried,
                "; Debian's package dataset-fashion-mnist installs them into ", kFashionMnistDir,
                ", and make_digits() needs no files");
}

void check_part(const Variable& images, const Variable& labels, const std::string& images_path,
                const std::string& labels_path) {
  if (images.rank() != 3 || images.dtype() != u8)
    fail<FormatError>("load_mnist: ", images_path, ": holds ", images.dtype(), " ", images.shape(),
                      ", not uint8 [N, height, width]");
  if (labels.rank() != 1 || labels.dtype() != u8)
    fail<FormatError>("load_mnist: ", labels_path, ": holds ", labels.dtype(), " ", labels.shape(),
                      ", not uint8 [N]");
  if (images.size(0) != labels.size(0))
    fail<FormatError>("load_mnist: ", images.size(0), " images in ", images_path, ", ",
                      labels.size(0), " labels in ", labels_path);
  const uint8_t* label = labels.value().data<uint8_t>();
  for (int64_t i = 0; i < labels.numel(); ++i)
    if (label[i] > 9)
      fail<FormatError>("load_mnist: ", labels_path, ": label ", i, " is ", int(label[i]),
                        ", not a class of 0 to 9");
}

/// Throws FormatError unless there are images for training and for testing, of one size.
Mnist checked(Mnist both, const std::string& path) {
  if (both.train.size() == 0 || both.test.size() == 0)
    fail<FormatError>("load_mnist: ", path, ": ", both.train.size(), " training images and ",
                      both.test.size(), " test images");
  Shape train = both.train.data().shape(), test = both.test.data().shape();
  train[0] = test[0] = 1;
  if (train != test)
    fail<FormatError>("load_mnist: ", path, ": training images of ", train, ", test images of ",
                      test);
  return both;
}

TensorDataset load_part(const std::string& dir, const std::string& part,
                        const MnistOptions& options) {
  const auto images_path = find_file(dir, part + "-images", "idx3-ubyte");
  const auto labels_path = find_file(dir, part + "-labels", "idx1-ubyte");
  const Variable images = read_idx(images_path), labels = read_idx(labels_path);
  check_part(images, labels, images_path, labels_path);
  return arrange_mnist(images, labels, options);
}

}  // namespace

TensorDataset arrange_mnist(const Variable& images, const Variable& labels,
                            const MnistOptions& options) {
  const NoGrad no_grad;
  const int64_t n = images.size(0), height = images.size(1), width = images.size(2);
  Variable data = options.scale ? scale_pixels(images) : images;
  switch (options.layout) {
    case ImageLayout::kChannelsFirst:
      data = reshape(data, {n, 1, height, width});
      break;
    case ImageLayout::kChannelsLast:
      data = reshape(data, {n, height, width, 1});
      break;
    case ImageLayout::kFlat:
      data = reshape(data, {n, height * width});
      break;
  }
  return TensorDataset(data, options.one_hot ? one_hot_targets(labels, 10) : labels.to(i64));
}

Mnist load_mnist(const std::string& dir, MnistOptions options, Where where) {
  const ErrorLine line(where);
  return checked({load_part(dir, "train", options), load_part(dir, "t10k", options)}, dir);
}

Mnist load_mnist_npz(const std::string& path, MnistOptions options, Where where) {
  const ErrorLine line(where);
  const std::map<std::string, Variable> arrays = read_npz(path);
  const auto part = [&](const std::string& name) {
    const auto images = arrays.find("x_" + name), labels = arrays.find("y_" + name);
    if (images == arrays.end() || labels == arrays.end())
      fail<FormatError>("load_mnist_npz: ", path, ": has no x_", name, " and y_", name);
    check_part(images->second, labels->second, path, path);
    return arrange_mnist(images->second, labels->second, options);
  };
  return checked({part("train"), part("test")}, path);
}

std::string fashion_mnist_class(int64_t id) {
  static constexpr std::array<const char*, 10> kNames = {
      "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  if (id < 0 || id > 9) fail<IndexError>("fashion_mnist_class: ", id, " is outside [0, 10)");
  return kNames[size_t(id)];
}

Variable scale_pixels(const Variable& pixels, double divisor) {
  Tensor x = pixels.value().to(f32);
  // Never writes the caller's tensor: to() returns the same tensor if it was float32 already.
  if (x.shares_storage(pixels.value())) x = x.clone();
  const Tensor scaled = x.to(cpu);
  float* data = scaled.data<float>();
  const float by = float(divisor);
  for (int64_t i = 0; i < scaled.numel(); ++i) data[i] /= by;
  return Variable(scaled.to(pixels.device()));
}

Variable one_hot_targets(const Variable& ids, int64_t num_classes) {
  if (is_float(ids.dtype()) || ids.dtype() == boolean)
    fail<DTypeError>("one_hot_targets: class ids must be integers: ", ids.dtype());
  if (num_classes < 1)
    fail<ArgumentError>("one_hot_targets: num_classes must be at least 1: ", num_classes);
  Shape shape = ids.shape();
  shape.push_back(num_classes);
  const std::vector<int64_t> classes = ids.to_vector<int64_t>();
  for (size_t i = 0; i < classes.size(); ++i)
    if (classes[i] < 0 || classes[i] >= num_classes)
      fail<IndexError>("one_hot_targets: id ", classes[i], " at ", i, " is outside [0, ",
                       num_classes, ")");
  Tensor targets = Tensor::full(shape, 0.0, f32);
  float* data = targets.data<float>();
  for (size_t i = 0; i < classes.size(); ++i) data[int64_t(i) * num_classes + classes[i]] = 1.0f;
  return Variable(targets.to(ids.device()));
}

}  // namespace tapegrad
