#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/tape/variable.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::contents;
using testing::message_of;
using testing::put;
using testing::TempDir;

template <typename T>
Tensor tensor_of(const std::vector<double>& values, const Shape& shape) {
  Tensor tensor = Tensor::empty(shape, kDTypeOf<T>);
  for (size_t i = 0; i < values.size(); ++i) tensor.data<T>()[i] = T(float(values[i]));
  return tensor;
}

std::string bytes_of(const Tensor& tensor) {
  const Tensor x = tensor.contiguous();
  const int64_t size = size_of(x.dtype());
  return {reinterpret_cast<const char*>(x.storage().data()) + x.layout().offset * size,
          size_t(x.numel() * size)};
}

TEST(Safetensors, EveryTypeComesBack) {
  const TempDir dir;
  TensorMap tensors;
  const std::vector<double> values{0, 1, 1, 0, 1, 0};
  for (int i = 0; i < kDTypeCount; ++i)
    with_type(DType(i), [&]<typename T>(TypeTag<T>) {
      tensors[std::string(name(DType(i)))] = tensor_of<T>(values, {3, 2});
    });
  tensors["scalar"] = tensor_of<float>({-2.5}, {});
  tensors["empty"] = Tensor::empty({0, 4}, f64);
  tensors["deep"] = tensor_of<int8_t>({7}, {1, 1, 1, 1, 1, 1, 1, 1});
  tensors["naïve \"name\"\n"] = tensor_of<int16_t>({-3, 4}, {2});
  save(dir / "all", tensors, {.metadata = {{"format", "pt"}, {"note", "ü"}}});
  const TensorMap back = load(dir / "all");
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& other = back.at(name);
    EXPECT_EQ(other.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(other.shape(), tensor.shape()) << name;
    EXPECT_EQ(bytes_of(other), bytes_of(tensor)) << name;
  }
  EXPECT_EQ(load_metadata(dir / "all").at("note"), "ü");
  save(dir / "none", TensorMap{});
  EXPECT_TRUE(load(dir / "none").empty());
}

TEST(Safetensors, BytesAreThoseOfTheFormat) {
  const TempDir dir;
  save(dir / "two",
       TensorMap{{"a", tensor_of<uint8_t>({5, 6}, {2})}, {"b", tensor_of<float>({1.0}, {1})}});
  const std::string json = R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("a":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  EXPECT_EQ(contents(dir / "two"), std::string(1, char(padded.size())) + std::string(7, '\0') +
                                       padded + std::string("\0\0\x80\x3f\5\6", 6));
}

TEST(Safetensors, ReadsAViewAsItLooks) {
  const TempDir dir;
  const Tensor x = tensor_of<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  save(dir / "view", TensorMap{{"t", x.with_layout({{3, 2}, {1, 3}, 0})}});
  EXPECT_EQ(bytes_of(load(dir / "view").at("t")),
            bytes_of(tensor_of<float>({0, 3, 1, 4, 2, 5}, {3, 2})));
}

TEST(Safetensors, S107_HalfTheSizeAndBack) {
  const TempDir dir;
  std::vector<double> values(10'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(double(i));
  const TensorMap tensors{{"w", tensor_of<float>(values, {100, 100})},
                          {"steps", tensor_of<int64_t>({12}, {1})}};
  save(dir / "full", tensors);
  save(dir / "half", tensors, {.dtype = f16});
  const auto full = std::filesystem::file_size(dir / "full");
  const auto half = std::filesystem::file_size(dir / "half");
  EXPECT_NEAR(double(half) / double(full), 0.5, 0.01);
  EXPECT_EQ(load(dir / "half").at("w").dtype(), f16);
  EXPECT_EQ(load(dir / "half").at("steps").dtype(), i64) << "only floats are shortened";
  EXPECT_EQ(bytes_of(tensors.at("w")), bytes_of(tensor_of<float>(values, {100, 100})))
      << "the tensors in memory stay";
  const TensorMap back = convert_like(load(dir / "half"), tensors);
  ASSERT_EQ(back.at("w").dtype(), f32);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(back.at("w").data<float>()[i], values[i], std::abs(values[i]) * 0x1p-11 + 1e-7);
}

TEST(Safetensors, RefusesToShortenToInfinity) {
  const TempDir dir;
  const TensorMap tensors{{"w", tensor_of<float>({1.0, 70'000.0}, {2})}};
  const std::string message =
      message_of<ArgumentError>([&] { save(dir / "x", tensors, {.dtype = f16}); });
  EXPECT_EQ(message.substr(0, message.find('\n')),
            "save: element 1 of 'w' is too large for float16");
  EXPECT_FALSE(std::filesystem::exists(dir / "x"));
  EXPECT_NO_THROW(save(dir / "x", tensors, {.dtype = bf16}));
  const TensorMap infinite{{"w", tensor_of<float>({INFINITY, NAN}, {2})}};
  EXPECT_NO_THROW(save(dir / "x", infinite, {.dtype = f16})) << "what is not finite may stay so";
  EXPECT_THROW(convert_like(tensors, {{"w", Tensor::empty({2}, f16)}}), ArgumentError);
}

TEST(Safetensors, RefusesWhatTheFormatCannotHold) {
  const TempDir dir;
  const Tensor x = tensor_of<float>({1}, {1});
  EXPECT_THROW(save(dir / "x", TensorMap{{"__metadata__", x}}), ArgumentError);
  EXPECT_THROW(save(dir / "x", TensorMap{{std::string("a\0b", 3), x}}), ArgumentError);
  EXPECT_THROW(save(dir / "x", TensorMap{{"\xff\xfe", x}}), ArgumentError);
  EXPECT_THROW(save(dir / "x", TensorMap{{"a", Tensor()}}), ArgumentError);
  EXPECT_THROW(save(dir / "x", TensorMap{{"a", x}}, {.dtype = i32}), DTypeError);
  EXPECT_FALSE(std::filesystem::exists(dir / "x"));
  EXPECT_THROW(load(dir / "x"), IoError);
  EXPECT_THROW(load(dir.path()), IoError);
}

/// Stands in for a model.
struct Pair {
  TensorMap values;
  TensorMap state_dict() const { return values; }
  void load_state_dict(const TensorMap& state) { values = state; }
};

TEST(Safetensors, SavesAndLoadsWhateverHasAState) {
  const TempDir dir;
  const Pair model{{{"w", tensor_of<float>({1, 2}, {2})}}};
  save(dir / "m", model, {.dtype = bf16});
  Pair other{{{"w", tensor_of<float>({0, 0}, {2})}}};
  load(dir / "m", other);
  EXPECT_EQ(bytes_of(other.values.at("w")), bytes_of(model.values.at("w")));
}

}  // namespace
}  // namespace tapegrad
