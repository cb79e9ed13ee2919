#include "train/internal/png.h"

#include <zlib.h>

#include "core/base/error.h"

namespace tapegrad {
namespace {

void add_big_endian(std::string& text, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) text += char(value >> shift & 0xff);
}

void add_chunk(std::string& file, std::string_view kind, const std::string& content) {
  add_big_endian(file, uint32_t(content.size()));
  std::string checked(kind);
  checked += content;
  file += checked;
  add_big_endian(file, uint32_t(crc32(0, reinterpret_cast<const Bytef*>(checked.data()),
                                      uInt(checked.size()))));
}

}  // namespace

std::string encode_png(const Picture& picture) {
  const auto row = size_t(picture.width * picture.channels);
  std::string raw;
  for (int64_t y = 0; y < picture.height; ++y) {
    raw += '\0';  // the row is not filtered
    raw.append(reinterpret_cast<const char*>(picture.pixels.data()) + size_t(y) * row, row);
  }
  uLongf size = compressBound(uLong(raw.size()));
  std::string packed(size, '\0');
  if (compress(reinterpret_cast<Bytef*>(packed.data()), &size,
               reinterpret_cast<const Bytef*>(raw.data()), uLong(raw.size())) != Z_OK)
    fail<OutOfMemory>("png: no memory to compress ", raw.size(), " bytes");
  packed.resize(size);
  std::string header;
  add_big_endian(header, uint32_t(picture.width));
  add_big_endian(header, uint32_t(picture.height));
  header += {8, char(picture.channels == 3 ? 2 : 0), 0, 0, 0};  // 8 bits, colour or grey
  std::string file = "\x89PNG\r\n\x1a\n";
  add_chunk(file, "IHDR", header);
  add_chunk(file, "IDAT", packed);
  add_chunk(file, "IEND", "");
  return file;
}

}  // namespace tapegrad
