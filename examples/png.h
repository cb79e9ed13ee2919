// Writes grey pictures as PNG files (ISO/IEC 15948), uncompressed.
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

namespace examples {

namespace png {

inline uint32_t crc(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

inline std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += char(value >> shift & 255);
  return bytes;
}

inline std::string chunk(const std::string& name, const std::string& data) {
  return big_endian(uint32_t(data.size())) + name + data + big_endian(crc(name + data));
}

/// Returns a zlib stream of stored blocks.
inline std::string stored(const std::string& data) {
  constexpr size_t kBlock = 65'535;
  std::string stream = "\x78\x01";
  uint32_t a = 1, b = 0;  // Adler-32
  for (const char byte : data) {
    a = (a + static_cast<unsigned char>(byte)) % 65'521;
    b = (b + a) % 65'521;
  }
  for (size_t at = 0; at < data.size(); at += kBlock) {
    const std::string block = data.substr(at, kBlock);
    const auto size = uint16_t(block.size());
    stream += char(at + kBlock >= data.size());
    for (const uint16_t word : {size, uint16_t(~size)})
      stream += {char(word & 255), char(word >> 8)};
    stream += block;
  }
  return stream + big_endian(b << 16 | a);
}

}  // namespace png

/// Writes images [count, height, width] of values in [0, 1] as one picture with `columns` images in
/// a row. Throws IoError if the file cannot be written.
inline void save_png(const std::string& path, const tapegrad::Variable& images, int64_t columns) {
  const int64_t count = images.size(0), height = images.size(1), width = images.size(2);
  const int64_t rows = (count + columns - 1) / columns;
  const std::vector<float> values = images.to_vector<float>();
  const size_t stride = size_t(columns * width + 1);  // a filter byte, then the pixels
  std::string lines(size_t(rows * height) * stride, '\0');
  for (int64_t i = 0; i < count; ++i)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        lines[size_t(i / columns * height + y) * stride + 1 + size_t(i % columns * width + x)] =
            char(values[size_t((i * height + y) * width + x)] * 255.0f + 0.5f);
  const std::string header = png::big_endian(uint32_t(columns * width)) +
                             png::big_endian(uint32_t(rows * height)) +
                             std::string("\x08\x00\x00\x00\x00", 5);  // eight bits, grey
  std::ofstream file(path, std::ios::binary);
  file << "\x89PNG\r\n\x1a\n"
       << png::chunk("IHDR", header) << png::chunk("IDAT", png::stored(lines))
       << png::chunk("IEND", "");
  if (!file.flush()) throw tapegrad::IoError("cannot write " + path);
}

}  // namespace examples
