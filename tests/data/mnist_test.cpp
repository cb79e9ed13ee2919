#include "data/mnist.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::message_of;
using testing::put;
using testing::TempDir;

std::string idx(const std::vector<uint32_t>& sizes, const std::string& values) {
  std::string bytes{0, 0, 8, char(sizes.size())};
  for (uint32_t size : sizes)
    for (int shift : {24, 16, 8, 0}) bytes += char(size >> shift);
  return bytes + values;
}

void put_all(const TempDir& dir) {
  const std::string pixels{0, char(255), 51, 102, 1, 2, 3, 4};
  put(dir / "train-images-idx3-ubyte", idx({2, 2, 2}, pixels));
  put(dir / "train-labels-idx1-ubyte", idx({2}, {3, 9}));
  put(dir / "t10k-images.idx3-ubyte", idx({1, 2, 2}, pixels.substr(0, 4)));
  put(dir / "t10k-labels.idx1-ubyte", idx({1}, {7}));
}

TEST(Mnist, LoadsAFolder) {
  const TempDir dir;
  put_all(dir);
  const auto [train, test] = load_mnist(dir.path());
  EXPECT_EQ(train.data().shape(), (Shape{2, 1, 2, 2}));
  EXPECT_EQ(train.data().dtype(), f32);
  EXPECT_EQ(train.data().to_vector<float>()[1], 1.0f);
  EXPECT_EQ(train.data().to_vector<float>()[2], 51.0f / 255.0f);
  EXPECT_EQ(train.target().to_vector<int64_t>(), (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(test.target().dtype(), i64);
  EXPECT_EQ(test.size(), 1);

  const Mnist raw = load_mnist(
      dir.path(), {.scale = false, .one_hot = true, .layout = ImageLayout::kChannelsLast});
  EXPECT_EQ(raw.train.data().dtype(), u8);
  EXPECT_EQ(raw.train.data().shape(), (Shape{2, 2, 2, 1}));
  EXPECT_EQ(raw.train.target().shape(), (Shape{2, 10}));
  EXPECT_EQ(raw.test.target().to_vector<float>(),
            (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(load_mnist(dir.path(), {.layout = ImageLayout::kFlat}).test.data().shape(),
            (Shape{1, 4}));
}

TEST(Mnist, SaysWhatIsWrong) {
  const TempDir dir;
  const std::string missing = message_of<IoError>([&] { load_mnist(dir.path()); });
  for (const char* name : {"/train-images-idx3-ubyte,", "/train-images-idx3-ubyte.gz,",
                           "/train-images.idx3-ubyte,", "/train-images.idx3-ubyte.gz"})
    EXPECT_NE(missing.find(dir.path().string() + name), std::string::npos) << missing;
  put_all(dir);
  put(dir / "t10k-labels.idx1-ubyte", idx({1}, {10}));
  EXPECT_NE(message_of<FormatError>([&] { load_mnist(dir.path()); }).find("is 10"),
            std::string::npos);
  put(dir / "t10k-labels.idx1-ubyte", idx({2}, {1, 1}));
  EXPECT_THROW(load_mnist(dir.path()), FormatError);
  put(dir / "train-images-idx3-ubyte", idx({2, 4}, std::string(8, '\0')));
  EXPECT_THROW(load_mnist(dir.path()), FormatError);
}

TEST(Mnist, T75_NoImagesForTrainingOrTesting) {
  const TempDir dir;
  put_all(dir);
  put(dir / "train-images-idx3-ubyte", idx({0, 2, 2}, ""));
  put(dir / "train-labels-idx1-ubyte", idx({0}, ""));
  EXPECT_NE(message_of<FormatError>([&] { load_mnist(dir.path()); }).find("0 training images"),
            std::string::npos);
  put_all(dir);
  put(dir / "t10k-images.idx3-ubyte", idx({0, 2, 2}, ""));
  put(dir / "t10k-labels.idx1-ubyte", idx({0}, ""));
  EXPECT_NE(message_of<FormatError>([&] { load_mnist(dir.path()); }).find("0 test images"),
            std::string::npos);
}

TEST(Mnist, T75_TestImagesOfAnotherSize) {
  const TempDir dir;
  put_all(dir);
  put(dir / "t10k-images.idx3-ubyte", idx({1, 4, 1}, {1, 2, 3, 4}));
  const std::string message = message_of<FormatError>([&] { load_mnist(dir.path()); });
  EXPECT_NE(message.find("[1, 1, 2, 2], test images of [1, 1, 4, 1]"), std::string::npos)
      << message;
}

TEST(Mnist, FashionMnistOfThisMachine) {
  if (!std::filesystem::exists(kFashionMnistDir))
    GTEST_SKIP() << "not installed: " << kFashionMnistDir;
  const auto [train, test] = load_mnist();
  EXPECT_EQ(train.data().shape(), (Shape{60'000, 1, 28, 28}));
  EXPECT_EQ(test.data().shape(), (Shape{10'000, 1, 28, 28}));
  std::vector<int64_t> per_class(10);
  for (int64_t id : train.target().to_vector<int64_t>()) ++per_class[size_t(id)];
  EXPECT_EQ(per_class, std::vector<int64_t>(10, 6000));
  double sum = 0;
  for (float pixel : train.data().to_vector<float>()) sum += pixel;
  EXPECT_NEAR(sum / (60'000.0 * 784), 0.2860, 1e-4);  // the known mean of the data set
  EXPECT_EQ(fashion_mnist_class(test.target().to_vector<int64_t>()[0]), "Ankle boot");
}

TEST(Mnist, NamesOfClasses) {
  EXPECT_EQ(fashion_mnist_class(0), "T-shirt/top");
  EXPECT_EQ(fashion_mnist_class(9), "Ankle boot");
  EXPECT_THROW(fashion_mnist_class(-1), IndexError);
  EXPECT_THROW(fashion_mnist_class(10), IndexError);
}

TEST(Mnist, OneHotChecksIds) {
  const Variable ids(Tensor::from<int64_t>(std::vector<int64_t>{0, 3}, {2}));
  EXPECT_EQ(one_hot_targets(ids, 4).to_vector<float>(),
            (std::vector<float>{1, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_THROW(one_hot_targets(ids, 3), IndexError);
  EXPECT_THROW(one_hot_targets(ids.to(f32), 4), DTypeError);
}

TEST(Digits, AreTheSameForTheSameSeed) {
  const Mnist a = make_digits({.train = 50, .test = 10, .seed = 4});
  const Mnist b = make_digits({.train = 20, .test = 10, .seed = 4});
  const Mnist c = make_digits({.train = 20, .test = 10, .seed = 5});
  EXPECT_EQ(a.train.take(20).data().to_vector<float>(), b.train.data().to_vector<float>());
  EXPECT_EQ(a.test.target().to_vector<int64_t>(), b.test.target().to_vector<int64_t>());
  EXPECT_NE(b.train.data().to_vector<float>(), c.train.data().to_vector<float>());
}

TEST(Digits, CanBeToldApart) {
  // Classification by the nearest of ten class means: far below a network, far above chance.
  const Mnist digits = make_digits({.train = 3000, .test = 500});
  const auto images = digits.train.data().to_vector<float>();
  const auto labels = digits.train.target().to_vector<int64_t>();
  std::vector<std::vector<double>> means(10, std::vector<double>(784));
  std::vector<double> counts(10);
  for (size_t i = 0; i < labels.size(); ++i) {
    ++counts[size_t(labels[i])];
    for (size_t k = 0; k < 784; ++k) means[size_t(labels[i])][k] += images[i * 784 + k];
  }
  for (size_t c = 0; c < 10; ++c) {
    EXPECT_GT(counts[c], 200);
    for (double& value : means[c]) value /= counts[c];
  }
  const auto tests = digits.test.data().to_vector<float>();
  const auto truth = digits.test.target().to_vector<int64_t>();
  int right = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    size_t best = 0;
    double least = INFINITY;
    for (size_t c = 0; c < 10; ++c) {
      double distance = 0;
      for (size_t k = 0; k < 784; ++k) {
        const double d = tests[i * 784 + k] - means[c][k];
        distance += d * d;
      }
      if (distance < least) least = distance, best = c;
    }
    right += int64_t(best) == truth[i];
  }
  EXPECT_GT(right, 250);
}

}  // namespace
}  // namespace tapegrad
