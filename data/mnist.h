// MNIST and its kin: 28 x 28 grey images of ten classes in four IDX files, and digits drawn here
// for machines that have none.
//
//   const auto [train, test] = load_mnist("/usr/share/datasets/fashion-mnist");
//   DataLoader loader(train, {.batch_size = 128, .shuffle = true});
#pragma once

#include <string>

#include "data/dataset.h"

namespace tapegrad {

/// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr const char* kFashionMnistDir = "/usr/share/datasets/fashion-mnist";

enum class ImageLayout {
  kChannelsFirst,  // [N, 1, 28, 28]
  kChannelsLast,   // [N, 28, 28, 1]
  kFlat,           // [N, 784]
};

struct MnistOptions {
  bool scale = true;     // float32 in [0, 1]; otherwise uint8 as stored
  bool one_hot = false;  // float32 targets [N, 10] instead of int64 class ids [N]
  ImageLayout layout = ImageLayout::kChannelsFirst;
};

struct Mnist {
  TensorDataset train, test;
};

/// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte, each also with ".gz" and with "." for the "-" before idx.
/// IoError lists the paths tried for a file that is not there; FormatError when images and labels
/// do not fit together or a label is above 9.
Mnist load_mnist(const std::string& dir = kFashionMnistDir, MnistOptions options = {});

struct DigitsOptions {
  int64_t train = 10'000;
  int64_t test = 2'000;
  uint64_t seed = 0;
  MnistOptions images = {};
};
/// Digits drawn with a pen: strokes of each digit, moved, turned, slanted, stretched and thickened
/// by chance, with noise. Equal seeds draw equal digits; image i does not depend on how many are
/// drawn.
Mnist make_digits(DigitsOptions options = {});

/// The class names of Fashion-MNIST, "T-shirt/top" to "Ankle boot". IndexError outside [0, 10).
std::string fashion_mnist_class(int64_t id);

/// Numbers / divisor as float32: bytes to [0, 1].
Variable scale_pixels(const Variable& pixels, double divisor = 255.0);
/// Class ids [...] to float32 [..., num_classes] of zeros and a one. IndexError for other ids.
Variable one_hot_targets(const Variable& ids, int64_t num_classes);

}  // namespace tapegrad
