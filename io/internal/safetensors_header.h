// Header of a safetensors file. Not part of the public interface.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"

namespace tapegrad {

inline constexpr uint64_t kMaxSafetensorsHeader = uint64_t(8) << 20;

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  int64_t begin = 0, end = 0;  // offsets into the data, in bytes
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

/// Parses the header. Throws FormatError, beginning with `file`, unless the header is valid for
/// `data_bytes` bytes of data: the tensors must cover all bytes exactly once.
SafetensorsHeader parse_safetensors_header(const std::string& file, std::string_view json,
                                           int64_t data_bytes);

/// Name of the dtype in the format: "F32", "BOOL" ...
std::string_view safetensors_name(DType dtype);

}  // namespace tapegrad
