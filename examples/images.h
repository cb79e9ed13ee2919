// Images for the examples: those of a folder or file that is given, else the first of the data sets
// that Debian packages, else digits that are drawn.
#pragma once

#include <filesystem>
#include <string>

#include <tapegrad/tapegrad.h>

namespace examples {

struct Images {
  tapegrad::Mnist data;
  std::string source;  // where the images are from
};

/// Images [N, 1, 28, 28] in ten classes. `path` is a folder of IDX files, mnist.npz, or empty.
inline Images load_images(const std::string& path, tapegrad::MnistOptions options = {}) {
  namespace tg = tapegrad;
  if (path.ends_with(".npz")) return {tg::load_mnist_npz(path, options), path};
  if (!path.empty()) return {tg::load_mnist(path, options), path};
  if (std::filesystem::exists(tg::kFashionMnistDir))
    return {tg::load_mnist(tg::kFashionMnistDir, options), tg::kFashionMnistDir};
  if (std::filesystem::exists(tg::kDigitsFile))
    return {tg::load_digits(tg::kDigitsFile, options), tg::kDigitsFile};
  return {tg::make_digits({.images = options}), "drawn digits"};
}

/// The option list of --data_dir.
inline constexpr const char* kDataHelp =
    "folder of four IDX files, plain or gzipped, or mnist.npz; empty takes Debian's Fashion-MNIST, "
    "or else Debian's handwritten digits, or else drawn digits";

}  // namespace examples
