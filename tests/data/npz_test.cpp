// Reads files that NumPy wrote, damaged copies of them, and files that write_npy() and write_npz()
// wrote.
#include "data/npz.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/base/error.h"
#include "data/mnist.h"
#include "io/numpy_file.h"
#include "io/safetensors.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/subscript.h"
#include "ops/view.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::message_of;
using testing::TempDir;

// NumPy 2.4: savez_compressed of uint8 arrays x_train [3, 2, 2] = 10 arange(12), y_train = 1 0 9,
// x_test [1, 2, 2] = 255 and y_test = 4, in hexadecimal.
constexpr const char* kCompressed =
    "504b03042d000000080000002100fa0725edffffffffffffffff0b001400785f747261696e2e6e7079010010"
    "008c0000000000000054000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05e536aa8aea3"
    "a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91ac63a0a4640a4a9a350ab401ee062"
    "e01291d330b2710b884ac90300504b03042d000000080000002100b6686d63ffffffffffffffff0b00140079"
    "5f747261696e2e6e707901001000830000000000000047000000000000009bec17ea1b10c9c850c650ad9e92"
    "5a9c5ca46ea5a05e536aa8aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91ac6"
    "3a9a3a0ab50a14002e46064e00504b03042d000000080000002100a4a3301effffffffffffffff0a00140078"
    "5f746573742e6e70790100100084000000000000004a000000000000009bec17ea1b10c9c850c650ad9e925a"
    "9c5ca46ea5a05e536aa8aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a863a"
    "0a4640a4a9a350ab401ee0fa0f0400504b03042d000000080000002100f446ccb0ffffffffffffffff0a0014"
    "00795f746573742e6e707901001000810000000000000045000000000000009bec17ea1b10c9c850c650ad9e"
    "925a9c5ca46ea5a05e536aa8aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a"
    "863a9a3a0ab50a14002e1600504b01022d032d000000080000002100fa0725ed540000008c0000000b000000"
    "0000000000000000800100000000785f747261696e2e6e7079504b01022d032d000000080000002100b6686d"
    "6347000000830000000b0000000000000000000000800191000000795f747261696e2e6e7079504b01022d03"
    "2d000000080000002100a4a3301e4a000000840000000a0000000000000000000000800115010000785f7465"
    "73742e6e7079504b01022d032d000000080000002100f446ccb045000000810000000a000000000000000000"
    "000080019b010000795f746573742e6e7079504b05060000000004000400e20000001c0200000000";

// NumPy 2.4: savez of f = float32 [1.5, -2], n = int64 7 and h = float16 [[0.5]].
constexpr const char* kStored =
    "504b03042d000000000000002100d6434b05ffffffffffffffff05001400662e6e7079010010008800000000"
    "0000008800000000000000934e554d5059010076007b276465736372273a20273c6634272c2027666f727472"
    "616e5f6f72646572273a2046616c73652c20277368617065273a2028322c292c207d20202020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020200a0000c03f000000c0504b03042d00000000000000210023b8f06cffffffffffffffff050014"
    "006e2e6e70790100100088000000000000008800000000000000934e554d5059010076007b27646573637227"
    "3a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a202829"
    "2c207d2020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020200a0700000000000000504b03042d000000000000002100"
    "ecc769a6ffffffffffffffff05001400682e6e70790100100082000000000000008200000000000000934e55"
    "4d5059010076007b276465736372273a20273c6632272c2027666f727472616e5f6f72646572273a2046616c"
    "73652c20277368617065273a2028312c2031292c207d20202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020200a0038504b01022d"
    "032d000000000000002100d6434b058800000088000000050000000000000000000000800100000000662e6e"
    "7079504b01022d032d00000000000000210023b8f06c88000000880000000500000000000000000000008001"
    "bf0000006e2e6e7079504b01022d032d000000000000002100ecc769a6820000008200000005000000000000"
    "000000000080017e010000682e6e7079504b0506000000000300030099000000370200000000";

std::string bytes_of(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes += char(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string written(const TempDir& dir, const std::string& bytes) {
  const std::string path = dir.path() / "arrays.npz";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(Npz, ReadsWhatNumPyStored) {
  const TempDir dir;
  const auto arrays = read_npz(written(dir, bytes_of(kStored)));
  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays.at("f").to_vector<double>(), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(arrays.at("f").dtype(), f32);
  EXPECT_EQ(arrays.at("n").shape(), Shape());
  EXPECT_EQ(arrays.at("n").item(), 7);
  EXPECT_EQ(arrays.at("h").shape(), (Shape{1, 1}));
  EXPECT_EQ(arrays.at("h").item(), 0.5);
}

TEST(Npz, ReadsWhatNumPyCompressed) {
  const TempDir dir;
  const Mnist data = load_mnist_npz(written(dir, bytes_of(kCompressed)), {.scale = false});
  EXPECT_EQ(data.train.data().shape(), (Shape{3, 1, 2, 2}));
  EXPECT_EQ(data.train.data().to_vector<int64_t>().back(), 110);
  EXPECT_EQ(data.train.target().to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 9}));
  EXPECT_EQ(data.test.target().item(), 4);
}

TEST(Npz, NamesWhatIsMissing) {
  const TempDir dir;
  EXPECT_THROW(load_mnist_npz(written(dir, bytes_of(kStored))), FormatError);
  EXPECT_THROW(read_npz(dir.path() / "absent.npz"), IoError);
}

// No damage of one byte crashes or is read as other names or values.
TEST(Npz, RefusesDamage) {
  const TempDir dir;
  for (const char* text : {kStored, kCompressed}) {
    const std::string whole = bytes_of(text);
    const auto expected = read_npz(written(dir, whole));
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = char(damaged[i] ^ 0x41);
      try {
        for (const auto& [name, array] : read_npz(written(dir, damaged))) {
          ASSERT_TRUE(expected.contains(name)) << i;
          EXPECT_EQ(array.to_vector<double>(), expected.at(name).to_vector<double>()) << i;
        }
      } catch (const FormatError&) {
      }
      if (i % 7 == 0) {
        EXPECT_THROW(read_npz(written(dir, whole.substr(0, i))), FormatError) << i;
      }
    }
  }
}

// numpy.save of numpy.float32([[1.5, -2]]) by NumPy 2.4.
TEST(Npy, WritesTheBytesOfNumPy) {
  const TempDir dir;
  const std::string path = dir.path() / "x.npy";
  write_npy(path, tensor({{1.5F, -2.F}}));
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
  header.append(117 - header.size(), ' ');
  const std::string expected =
      std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + '\n' + bytes_of("0000c03f000000c0");
  EXPECT_EQ(bytes, expected);
}

TEST(Npy, ReadsWhatItWrites) {
  const TempDir dir;
  const std::string path = dir.path() / "x.npy";
  for (const DType dtype : {boolean, u8, i8, i16, i32, i64, f16, f32, f64})
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{0, 4}, Shape{2, 1, 3}}) {
      const Variable x = (arange(numel(shape)) > 1).reshape(shape).to(dtype);
      write_npy(path, x);
      const Variable back = read_npy(path);
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), shape) << dtype;
      EXPECT_EQ(back.to_vector<double>(), x.to_vector<double>()) << dtype;
    }
  const Variable view = arange(6).reshape({2, 3}).t();  // neither contiguous nor at the beginning
  write_npy(path, view[1]);
  EXPECT_EQ(read_npy(path).to_vector<int64_t>(), (std::vector<int64_t>{1, 4}));
  EXPECT_THROW(write_npy(path, ones({2}).to(bf16)), DTypeError);
  EXPECT_THROW(write_npy(path, Variable()), Error);
  EXPECT_EQ(read_npy(path).to_vector<int64_t>(), (std::vector<int64_t>{1, 4}));
  EXPECT_THROW(write_npy(dir.path() / "absent" / "x.npy", view), IoError);
  EXPECT_THROW(read_npy(dir.path() / "absent.npy"), IoError);
  std::ofstream(path, std::ios::binary) << "\x93NUMPY";
  EXPECT_THROW(read_npy(path), FormatError);
}

TEST(Npz, ReadsWhatItWrites) {
  const TempDir dir;
  const std::string path = dir.path() / "x.npz";
  const Variable x = tensor({{1.5F, -2.F}}), none = zeros({0});
  write_npz(path, {{"x", x}, {"n", tensor(7)}, {"none", none}});
  const auto arrays = read_npz(path);
  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays.at("x").to_vector<double>(), x.to_vector<double>());
  EXPECT_EQ(arrays.at("n").item(), 7);
  EXPECT_EQ(arrays.at("none").shape(), Shape{0});
  write_npz(path, {});
  EXPECT_TRUE(read_npz(path).empty());
  EXPECT_THROW(write_npz(path, {{"", x}}), ArgumentError);
  EXPECT_THROW(write_npz(path, {{std::string(70000, 'x'), x}}), ArgumentError);
}

// save() writes safetensors; a file of that name would be one that NumPy cannot read.
TEST(Npz, SaveAndLoadNameTheFunctions) {
  const TempDir dir;
  const std::string npy = dir.path() / "x.npy", npz = dir.path() / "x.npz";
  const Variable x = ones({2});
  EXPECT_NE(message_of<ArgumentError>([&] { save(npy, x); }).find("write_npy(path, x)"),
            std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] { save(x, npy); }).find("write_npy(path, x)"),
            std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] {
              save(npz, {{"x", x}});
            }).find("write_npz(path"),
            std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] { load(npy); }).find("read_npy(path)"),
            std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] { load(npz); }).find("read_npz(path)"),
            std::string::npos);
}

TEST(Digits, ReadsTheFormatOfTheFile) {
  const TempDir dir;
  const std::string path = dir.path() / "digits.csv";  // zlib passes plain text through
  std::string line;
  for (int i = 0; i < 64; ++i) line += "16,";
  {
    std::ofstream out(path);
    for (int i = 0; i < 12; ++i) out << line << i % 10 << '\n';
  }
  const Mnist data = load_digits(path);
  EXPECT_EQ(data.train.data().shape(), (Shape{10, 1, 28, 28}));
  EXPECT_EQ(data.test.target().to_vector<int64_t>(), (std::vector<int64_t>{5, 1}));
  const std::vector<float> pixels = data.test.get(0).data.to_vector<float>();
  EXPECT_EQ(pixels[0], 0);
  EXPECT_EQ(pixels[14 * 28 + 14], 1);
  for (const std::string bad : {"1,2\n", "17,", "x", ""}) {
    std::ofstream(path) << bad;
    EXPECT_THROW(load_digits(path), FormatError) << bad;
  }
  EXPECT_THROW(load_digits(dir.path() / "absent"), IoError);
}

}  // namespace
}  // namespace tapegrad
