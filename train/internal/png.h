// PNG images. Not part of the public interface.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapegrad {

/// Rows of pixels, each of one (grey) or three (red, green, blue) bytes.
struct Picture {
  int64_t height = 0, width = 0, channels = 1;
  std::vector<uint8_t> pixels = {};
};

/// Returns the file's content.
std::string encode_png(const Picture& picture);

}  // namespace tapegrad
