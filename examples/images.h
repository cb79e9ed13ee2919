// Images for the examples: those of the given folder or file, else the first available of Debian's
// data sets, else synthetic digits.
#pragma once

#include <filesystem>
#include <string>

#include <tapegrad/tapegrad.h>

namespace examples {

struct Images {
  tapegrad::Mnist data;
  std::string source;  // source of the images
};

/// Images [N, 1, 28, 28] in ten classes. See kDataHelp for `path`.
inline Images load_images(const std::string& path, tapegrad::MnistOptions options = {}) {
  namespace tg = tapegrad;
  if (path.ends_with(".npz")) return {tg::load_mnist_npz(path, options), path};
  if (path.ends_with(".csv.gz")) return {tg::load_digits(path, options), path};
  if (path == "drawn") return {tg::make_digits({.images = options}), "drawn digits"};
  if (!path.empty()) return {tg::load_mnist(path, options), path};
  if (std::filesystem::exists(tg::kFashionMnistDir))
    return {tg::load_mnist(tg::kFashionMnistDir, options), tg::kFashionMnistDir};
  if (std::filesystem::exists(tg::kDigitsFile))
    return {tg::load_digits(tg::kDigitsFile, options), tg::kDigitsFile};
  return {tg::make_digits({.images = options}), "drawn digits"};
}

/// Help of the flag --data_dir.
inline constexpr const char* kDataHelp =
    "folder of four IDX files, plain or gzipped, mnist.npz, Debian's digits.csv.gz, or \"drawn\" "
    "for drawn digits; if empty, the first that exists: Debian's Fashion-MNIST, Debian's digits, "
    "drawn digits";

/// Keeps the first images of both parts; 0 keeps all.
inline void keep_first(tapegrad::Mnist& data, int64_t train, int64_t test) {
  if (train > 0) data.train = data.train.take(train);
  if (test > 0) data.test = data.test.take(test);
}

}  // namespace examples
