// CIFAR-10's binary format: files of records of 3073 bytes, a class and 3 x 32 x 32 pixels.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

namespace cifar {

namespace tg = tapegrad;

constexpr int64_t kChannels = 3, kSide = 32, kPixels = kChannels * kSide * kSide;

/// Appends the records of a file.
inline void read_records(const std::filesystem::path& path, std::vector<uint8_t>& images,
                         std::vector<int64_t>& classes) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  if (!file) throw tg::IoError("cannot read " + path.string());
  if (bytes.empty() || bytes.size() % (kPixels + 1) != 0)
    throw tg::FormatError(path.string() + ": " + std::to_string(bytes.size()) +
                          " bytes are not records of " + std::to_string(kPixels + 1));
  for (auto at = bytes.begin(); at != bytes.end(); at += kPixels + 1) {
    const auto id = static_cast<uint8_t>(*at);
    if (id > 9)
      throw tg::FormatError(path.string() + ": record " +
                            std::to_string((at - bytes.begin()) / (kPixels + 1)) + " has class " +
                            std::to_string(id));
    classes.push_back(id);
    images.insert(images.end(), at + 1, at + kPixels + 1);
  }
}

inline tg::TensorDataset data_set(const std::vector<uint8_t>& images,
                                  const std::vector<int64_t>& classes) {
  const int64_t n = int64_t(classes.size());
  return tg::TensorDataset(tg::scale_pixels(tg::Variable(
                               tg::Tensor::from<uint8_t>(images, {n, kChannels, kSide, kSide}))),
                           tg::Variable(tg::Tensor::from<int64_t>(classes, {n})));
}

/// Reads data_batch_1.bin to data_batch_5.bin and test_batch.bin of a folder; images
/// [N, 3, 32, 32] in [0, 1].
inline tg::Mnist load(const std::filesystem::path& folder) {
  std::vector<uint8_t> train_images, test_images;
  std::vector<int64_t> train_classes, test_classes;
  for (int part = 1; part <= 5; ++part)
    read_records(folder / ("data_batch_" + std::to_string(part) + ".bin"), train_images,
                 train_classes);
  read_records(folder / "test_batch.bin", test_images, test_classes);
  return {data_set(train_images, train_classes), data_set(test_images, test_classes)};
}

}  // namespace cifar
