#include "data/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <bit>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::contents;
using testing::message_of;
using testing::put;
using testing::TempDir;

std::string header(int type, const std::vector<uint32_t>& sizes) {
  std::string bytes{0, 0, char(type), char(sizes.size())};
  for (uint32_t size : sizes)
    for (int shift : {24, 16, 8, 0}) bytes += char(size >> shift);
  return bytes;
}

template <typename T>
std::string big_endian(const std::vector<T>& values) {
  std::string bytes;
  for (T value : values) {
    const auto raw = std::bit_cast<std::array<char, sizeof(T)>>(value);
    for (size_t i = sizeof(T); i-- > 0;) bytes += raw[i];
  }
  return bytes;
}

void put_gz(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), unsigned(bytes.size()));
  gzclose(file);
}

template <typename T>
void check_type(int type, const std::vector<T>& values) {
  const TempDir dir;
  const std::string bytes = header(type, {2, uint32_t(values.size()) / 2}) + big_endian(values);
  put(dir / "plain", bytes);
  put_gz(dir / "packed.gz", bytes);
  for (const char* name : {"plain", "packed.gz"}) {
    const Variable x = read_idx(dir / name);
    EXPECT_EQ(x.dtype(), kDTypeOf<T>);
    EXPECT_EQ(x.shape(), (Shape{2, int64_t(values.size()) / 2}));
    EXPECT_EQ(x.to_vector<T>(), values);
  }
}

TEST(Idx, ReadsEveryType) {
  check_type<uint8_t>(0x08, {0, 1, 127, 255});
  check_type<int8_t>(0x09, {-128, -1, 0, 127});
  check_type<int16_t>(0x0B, {-32768, -2, 258, 32767});
  check_type<int32_t>(0x0C, {-2147483647, -2, 16909060, 2147483647});
  check_type<float>(0x0D, {-1.5f, 3.25e-30f, 0.0f, 7e30f});
  check_type<double>(0x0E, {-1.5, 3.25e-300, 0.1, 7e300});
}

TEST(Idx, ReadsEmptyAndScalar) {
  const TempDir dir;
  put(dir / "empty", header(0x08, {0, 28, 28}));
  EXPECT_EQ(read_idx(dir / "empty").shape(), (Shape{0, 28, 28}));
  put(dir / "scalar", header(0x08, {}) + "\x07");
  EXPECT_EQ(read_idx(dir / "scalar").item(), 7.0);
}

TEST(Idx, T56_EveryTruncationAndExtensionIsAnError) {
  const TempDir dir;
  const std::string whole = header(0x0B, {3, 5}) + big_endian(std::vector<int16_t>(15, 77));
  put_gz(dir / "whole.gz", whole);
  const std::string packed = contents(dir / "whole.gz");
  for (size_t length = 0; length < whole.size(); ++length) {
    put(dir / "cut", whole.substr(0, length));
    EXPECT_NE(message_of<FormatError>([&] { read_idx(dir / "cut"); }).find("cut"),
              std::string::npos)
        << length;
    put_gz(dir / "cut.gz", whole.substr(0, length));
    EXPECT_THROW(read_idx(dir / "cut.gz"), FormatError) << length;
  }
  for (size_t length = 0; length < packed.size(); ++length) {
    put(dir / "cut", packed.substr(0, length));
    EXPECT_THROW(read_idx(dir / "cut"), FormatError) << "gzip cut to " << length;
  }
  put(dir / "long", whole + "x");
  EXPECT_THROW(read_idx(dir / "long"), FormatError);
  put_gz(dir / "long.gz", whole + "x");
  EXPECT_THROW(read_idx(dir / "long.gz"), FormatError);
}

TEST(Idx, T56_DamagedGzipIsAnError) {
  const TempDir dir;
  std::string values;
  for (int i = 0; i < 4000; ++i) values += char(i * i % 251);
  put_gz(dir / "whole.gz", header(0x08, {4000}) + values);
  const std::string packed = contents(dir / "whole.gz");
  ASSERT_NO_THROW(read_idx(dir / "whole.gz"));
  for (size_t at = 12; at < packed.size();
       at += 7) {  // skips the gzip header, which has unused fields
    std::string damaged = packed;
    damaged[at] ^= 0x10;
    put(dir / "damaged.gz", damaged);
    EXPECT_THROW(read_idx(dir / "damaged.gz"), FormatError) << at;
  }
}

TEST(Idx, T56_HostileHeaders) {
  const TempDir dir;
  auto message = [&](const std::string& bytes) {
    put(dir / "bad", bytes);
    return message_of<FormatError>([&] { read_idx(dir / "bad"); });
  };
  EXPECT_NE(message(std::string("\0\1\x08\1", 4)).find("does not begin with 0 0"),
            std::string::npos);
  EXPECT_NE(message(header(0x0A, {1}) + "x").find("unknown element type 10"), std::string::npos);
  EXPECT_NE(message(std::string("\0\0\x08\x09", 4)).find("9 dimensions"), std::string::npos);
  const uint32_t most = 0xFFFFFFFF;
  EXPECT_NE(message(header(0x0E, {most, most, most})).find("overflow"), std::string::npos);
  EXPECT_NE(message(header(0x0E, {0, most, most, most})).find("overflow"), std::string::npos);
  // Sizes that do not fit into memory are rejected before anything is allocated.
  reset_peak_memory();
  const int64_t before = memory_stats().peak;
  EXPECT_NE(message(header(0x08, {most, 4096}) + "x").find("need"), std::string::npos);
  put_gz(dir / "bad.gz", header(0x08, {most, 4096}) + "x");
  EXPECT_NE(message_of<FormatError>([&] { read_idx(dir / "bad.gz"); }).find("cannot hold"),
            std::string::npos);
  // A small header followed by a large gzipped rest: only as much as the header promises is
  // unpacked.
  put_gz(dir / "bomb.gz", header(0x08, {10}) + std::string(50'000'000, '\0'));
  EXPECT_LT(std::filesystem::file_size(dir / "bomb.gz"), 100'000u);
  EXPECT_NE(message_of<FormatError>([&] { read_idx(dir / "bomb.gz"); }).find("more follows"),
            std::string::npos);
  EXPECT_LT(memory_stats().peak - before, 1 << 20);
}

TEST(Idx, MissingFilesAndFolders) {
  const TempDir dir;
  EXPECT_NE(message_of<IoError>([&] { read_idx(dir / "none"); }).find("No such file"),
            std::string::npos);
  EXPECT_THROW(read_idx(dir.path()), IoError);
}

}  // namespace
}  // namespace tapegrad
