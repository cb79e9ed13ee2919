// examples/resnet_cifar reads CIFAR-10's binary format: a class, then 32 x 32 red pixels in rows,
// then green and blue ones.
#include "resnet_cifar/cifar.h"

#include <gtest/gtest.h>

#include "tests/temp_dir.h"

namespace {

namespace tg = tapegrad;
using tapegrad::testing::put;
using tapegrad::testing::TempDir;

/// Returns a record whose pixels are their position modulo 251, plus the class.
std::string record(int id) {
  std::string bytes(1, char(id));
  for (int i = 0; i < cifar::kPixels; ++i) bytes += char(uint8_t(i % 251 + id));
  return bytes;
}

/// Two records in each file; file number i has the classes i and 9 - i.
void write_files(const std::filesystem::path& folder) {
  for (int i = 1; i <= 5; ++i)
    put(folder / ("data_batch_" + std::to_string(i) + ".bin"), record(i) + record(9 - i));
  put(folder / "test_batch.bin", record(0) + record(9));
}

TEST(Cifar, ReadsClassesAndPlanes) {
  const TempDir dir;
  write_files(dir.path());
  const tg::Mnist data = cifar::load(dir.path());
  EXPECT_EQ(data.train.data().shape(), (tg::Shape{10, 3, 32, 32}));
  EXPECT_EQ(data.train.target().to_vector<int64_t>(),
            (std::vector<int64_t>{1, 8, 2, 7, 3, 6, 4, 5, 5, 4}));
  EXPECT_EQ(data.test.target().to_vector<int64_t>(), (std::vector<int64_t>{0, 9}));
  const tg::Variable& x = data.train.data();
  for (const auto& [image, channel, row, column] :
       {std::array{0, 0, 0, 1}, {1, 1, 0, 0}, {2, 2, 31, 31}, {9, 0, 17, 5}}) {
    const int at = (channel * 32 + row) * 32 + column;
    const int id = int(data.train.target()[image].item());
    EXPECT_NEAR(x[image][channel][row][column].item(), (at % 251 + id) / 255.0, 1e-6)
        << image << ' ' << at;
  }
}

TEST(Cifar, RefusesOtherFiles) {
  const TempDir dir;
  EXPECT_THROW(cifar::load(dir.path()), tg::IoError);
  const auto refuses = [&](const std::string& bytes) {
    write_files(dir.path());
    put(dir / "data_batch_3.bin", bytes);
    EXPECT_THROW(cifar::load(dir.path()), tg::FormatError) << bytes.size();
  };
  refuses("");
  refuses(record(1) + "x");
  refuses(record(1).substr(1));
  refuses(record(1) + record(10));
}

}  // namespace
