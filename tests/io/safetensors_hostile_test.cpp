// Damaged and malicious files.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <ctime>
#include <source_location>

#include "core/base/error.h"
#include "core/base/internal/sanitizer.h"
#include "io/safetensors.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::contents;
using testing::put;
using testing::TempDir;

std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

std::string file_of(const std::string& json, const std::string& data = "") {
  return with_length(json.size(), json + data);
}

#ifdef __SANITIZE_THREAD__
constexpr double kSeconds = 10;
#else
constexpr double kSeconds = kAddressSanitizer ? 10 : 1;
#endif

/// Returns the error of load() for a file with these bytes. load() must take little time and
/// memory.
std::string fault(const std::string& bytes) {
  const TempDir dir;
  put(dir / "bad.safetensors", bytes);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const std::clock_t start = std::clock();  // of this process, since the machine may be busy
  std::string text;
  try {
    load(dir / "bad.safetensors");
  } catch (const FormatError& error) {
    text = error.what();
  }
  EXPECT_LT(double(std::clock() - start), kSeconds * CLOCKS_PER_SEC);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "KiB";
  EXPECT_TRUE(text.empty() || text.find("bad.safetensors: ") != std::string::npos) << text;
  EXPECT_LT(text.size(), 500u);
  return text;
}

void expect_fault(const std::string& bytes, std::string_view part,
                  std::source_location where = std::source_location::current()) {
  const std::string text = fault(bytes);
  EXPECT_FALSE(text.empty()) << "line " << where.line();
  EXPECT_NE(text.find(part), std::string::npos) << "line " << where.line() << ": " << text;
}

TEST(HostileSafetensors, T56_EveryTruncation) {
  const TempDir dir;
  TensorMap tensors;
  tensors["weight"] = Tensor::full({2, 3}, 0.5, f32);
  tensors["mask"] = Tensor::full({5}, true, boolean);
  save(dir / "whole", tensors, {.metadata = {{"a", "b"}}});
  const std::string whole = contents(dir / "whole");
  EXPECT_EQ(fault(whole), "");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(fault(whole.substr(0, length)), "") << length;
  expect_fault(whole + "x", "belong to no tensor");
}

TEST(HostileSafetensors, T56_EveryByteFlipInTheHeader) {
  const TempDir dir;
  save(dir / "whole", TensorMap{{"weight", Tensor::full({2, 3}, 0.5, f32)}},
       {.metadata = {{"a", "b"}}});
  const std::string whole = contents(dir / "whole");
  int valid = 0;
  for (size_t at = 0; at + 24 < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = whole;
      bytes[at] ^= char(1 << bit);
      put(dir / "flipped", bytes);
      try {  // a letter of a name may have changed; any other change must throw FormatError
        const TensorMap tensors = load(dir / "flipped");
        ASSERT_EQ(tensors.size(), 1u);
        EXPECT_EQ(tensors.begin()->second.numel(), 6);
        ++valid;
      } catch (const FormatError&) {
      }
    }
  EXPECT_GT(valid, 0);
  EXPECT_LT(valid, int(whole.size()));
}

TEST(HostileSafetensors, T56_HeaderLengths) {
  expect_fault(with_length(0, ""), "does not begin with '{'");
  expect_fault(with_length(0, "abc"), "does not begin with '{'");
  expect_fault(with_length(uint64_t(1) << 63, "{}"), "claims 9223372036854775808");
  expect_fault(with_length(~uint64_t(0), "{}"), "claims 18446744073709551615");
  expect_fault(with_length(~uint64_t(0) - 7, "{}"), "claims");
  expect_fault(with_length(3, "{}"), "claims 3");
  expect_fault("epoch,loss,accuracy", "not a safetensors file");
  expect_fault(with_length(1, "{}"), "not valid JSON");
  expect_fault(with_length(20 << 20, std::string(20 << 20, ' ')), "at most");
  EXPECT_EQ(fault(file_of("{}")), "");
  EXPECT_EQ(fault(file_of("{}      ")), "");
}

TEST(HostileSafetensors, T56_Offsets) {
  auto one = [](const std::string& offsets, size_t data = 4) {
    return file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets + "}}",
                   std::string(data, '\0'));
  };
  EXPECT_EQ(fault(one("[0,4]")), "");
  expect_fault(one("[4,0]"), "descend");
  expect_fault(one("[-4,0]"), "negative");
  expect_fault(one("[0.0,4.0]"), "not an integer");
  expect_fault(one("[0,4e0]"), "not an integer");
  expect_fault(one("[0,18446744073709551615]"), "impossibly large");
  expect_fault(one("[0,99999999999999999999]"), "not an integer");
  expect_fault(one("[9223372036854775803,9223372036854775807]"), "cut off");
  expect_fault(one("[0,8]"), "span 8 bytes");
  expect_fault(one("[0]"), "not two numbers");
  expect_fault(one("[0,4,4]"), "not two numbers");
  expect_fault(one("[]"), "not two numbers");
  expect_fault(one("[0,[4]]"), "an array");
  expect_fault(one("\"0,4\""), "a string");
  expect_fault(one("[4,8]", 8), "bytes 0 to 4");
  expect_fault(one("[0,4]", 3), "cut off");
  expect_fault(one("[0,4]", 5), "bytes 4 to 5");

  auto two = [](const std::string& first, const std::string& second, size_t data) {
    return file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
                   std::string(data, '\0'));
  };
  EXPECT_EQ(fault(two("[0,4]", "[4,8]", 8)), "");
  EXPECT_EQ(fault(two("[4,8]", "[0,4]", 8)), "");
  expect_fault(two("[0,4]", "[0,4]", 4), "inside another");
  expect_fault(two("[0,4]", "[2,6]", 6), "inside another");
  expect_fault(two("[0,4]", "[5,9]", 9), "bytes 4 to 5");
}

TEST(HostileSafetensors, T56_ShapesAndTypes) {
  auto shaped = [](const std::string& shape) {
    return file_of(R"({"a":{"dtype":"F64","shape":)" + shape + R"(,"data_offsets":[0,0]}})");
  };
  EXPECT_EQ(fault(shaped("[0]")), "");
  expect_fault(shaped("[4294967296,4294967296]"), "overflows");
  expect_fault(shaped("[9223372036854775807]"), "overflows");
  expect_fault(shaped("[0,9223372036854775807]"), "overflows");
  expect_fault(shaped("[-1]"), "negative");
  expect_fault(shaped("[1.5]"), "not an integer");
  expect_fault(shaped("[true]"), "a truth value");
  expect_fault(shaped("null"), "null");
  expect_fault(shaped("[0,0,0,0,0,0,0,0,0]"), "more than 8");
  for (const char* type : {"F8_E5M2", "f32", "", "U64", "C64"})
    expect_fault(file_of(R"({"a":{"dtype":")" + std::string(type) +
                         R"(","shape":[0],"data_offsets":[0,0]}})"),
                 "not known");
  expect_fault(file_of(R"({"a":{"dtype":3,"shape":[0],"data_offsets":[0,0]}})"), "a number");
  expect_fault(
      file_of(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", std::string("\1\2", 2)),
      "neither 0 nor 1");
}

TEST(HostileSafetensors, T56_Structure) {
  const std::string good = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_fault(file_of(R"({"a":)" + good + R"(,"a":)" + good + "}"), "twice");
  expect_fault(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
               "dtype twice");
  expect_fault(file_of(R"({"a":{"shape":[0],"data_offsets":[0,0]}})"), "no dtype");
  expect_fault(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"), "no shape");
  expect_fault(file_of(R"({"a":{"dtype":"U8","shape":[0]}})"), "no data_offsets");
  expect_fault(file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})"),
               "unknown field");
  expect_fault(file_of(R"({"a":3})"), "not an object");
  expect_fault(file_of("[]"), "does not begin with '{'");
  expect_fault(file_of("{}{}"), "not valid JSON");
  expect_fault(file_of("{} x"), "not valid JSON");
  expect_fault(file_of(std::string("{\"a\0\":3}", 8)), "not valid JSON");
  expect_fault(file_of(R"({"a\u0000b":)" + good + "}"), "NUL");
  expect_fault(file_of("{\"\xff\":" + good + "}"), "not valid JSON");
  expect_fault(file_of("{\"\xc0\x80\":" + good + "}"), "not valid JSON");
  expect_fault(file_of(R"({"\ud800":)" + good + "}"), "not valid JSON");
  expect_fault(file_of(R"({"__metadata__":{"a":1}})"), "not a string");
  expect_fault(file_of(R"({"__metadata__":{"a":{"b":"c"}}})"), "not a string");
  expect_fault(file_of(R"({"__metadata__":[]})"), "an array");
  expect_fault(file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), "twice");
  expect_fault(file_of(R"({"__metadata__":{},"__metadata__":{}})"), "twice");
}

TEST(HostileSafetensors, T56_DepthAndSize) {
  const std::string deep(100'000, '[');
  expect_fault(file_of(R"({"a":)" + deep), "an array");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  expect_fault(file_of(objects), "");
  EXPECT_NE(fault(file_of(objects)), "");
  EXPECT_NE(fault(file_of(R"({"a":{"dtype":"U8","shape":)" + deep)), "");
  // A million tensors: the header is rejected before it is parsed.
  std::string many = "{";
  for (int i = 0; i < 1'000'000; ++i)
    many += (i ? ",\"" : "\"") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_fault(file_of(many + "}"), "at most 8388608");
  // The largest accepted header, full of tensors, with an error at the end.
  many.resize(size_t(8) << 20);
  expect_fault(file_of(many), "not valid JSON");
  expect_fault(file_of("{\"" + std::string(8'000'000, 'n') + "\":3}"), "not an object");
}

}  // namespace
}  // namespace tapegrad
