// MNIST and data sets in its format: 28 x 28 grey images of ten classes in four IDX files; and
// synthetic digits for machines without a data set.
//
//   const auto [train, test] = load_mnist("/usr/share/datasets/fashion-mnist");
//   DataLoader loader(train, {.batch_size = 128, .shuffle = true});
#pragma once

#include <string>

#include "data/dataset.h"

namespace tapegrad {

/// Directory of Debian's package dataset-fashion-mnist.
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
/// t10k-labels-idx1-ubyte. Each name may end in ".gz" and may have "." instead of "-" before idx.
/// Throws IoError with the tried paths if a file is missing; FormatError if the numbers of images
/// and labels differ or a label is above 9.
Mnist load_mnist(const std::string& dir = kFashionMnistDir, MnistOptions options = {},
                 Where where = Where::current());

/// Reads Keras's file mnist.npz: uint8 arrays x_train, y_train, x_test and y_test. Throws the
/// errors of load_mnist() and read_npz().
Mnist load_mnist_npz(const std::string& path, MnistOptions options = {},
                     Where where = Where::current());

/// File of handwritten digits in Debian's package python3-sklearn: a gzipped CSV file.
inline constexpr const char* kDigitsFile =
    "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz";
/// Reads 8 x 8 digits with 17 grey levels: lines of 64 numbers in [0, 16] and a class. Every sixth
/// image is for testing. The images are enlarged by linear interpolation to 24 x 24 pixels and
/// centred in 28 x 28 pixels, so that networks for MNIST accept them. Throws IoError and
/// FormatError.
Mnist load_digits(const std::string& path = kDigitsFile, MnistOptions options = {});

struct DigitsOptions {
  int64_t train = 10'000;
  int64_t test = 2'000;
  uint64_t seed = 0;
  MnistOptions images = {};
};
/// Draws synthetic digits: the strokes of each digit are shifted, rotated, slanted, scaled and
/// thickened at random, with noise. Equal seeds draw equal digits. Image i does not depend on the
/// number of images.
Mnist make_digits(DigitsOptions options = {});

/// Returns a class name of Fashion-MNIST, "T-shirt/top" to "Ankle boot". Throws IndexError outside
/// [0, 10).
std::string fashion_mnist_class(int64_t id);

/// Returns pixels / divisor as float32; by default, maps bytes to [0, 1].
Variable scale_pixels(const Variable& pixels, double divisor = 255.0);
/// Maps class ids [...] to one-hot float32 [..., num_classes]. Throws IndexError for invalid ids.
Variable one_hot_targets(const Variable& ids, int64_t num_classes);

}  // namespace tapegrad
