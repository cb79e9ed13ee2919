// Text for the examples, and letters as ids.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

namespace examples {

/// Text that every Debian system has: about 220 KB of licences in English.
inline constexpr const char* kLicences = "/usr/share/common-licenses";

/// Reads a file, or all regular files of a folder in alphabetical order, without symbolic links.
/// Throws IoError if there is no text.
inline std::string read_text(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  std::ostringstream text;
  for (const auto& file : files)
    if (std::ifstream in(file, std::ios::binary); in.peek() != EOF) text << in.rdbuf();
  if (text.str().empty()) throw tapegrad::IoError("no text in " + path.string());
  return text.str();
}

/// The different bytes of a text, numbered in ascending order.
class Letters {
 public:
  explicit Letters(const std::string& text) {
    ids_.fill(-1);
    for (const char letter : text) ids_[static_cast<unsigned char>(letter)] = 0;
    for (int64_t byte = 0; byte < 256; ++byte)
      if (ids_[size_t(byte)] == 0) {
        ids_[size_t(byte)] = size();
        letters_ += char(byte);
      }
  }
  int64_t size() const { return int64_t(letters_.size()); }
  char letter(int64_t id) const { return letters_[size_t(id)]; }
  /// Throws ArgumentError for a letter that is not in the text.
  std::vector<int64_t> encode(const std::string& text) const {
    std::vector<int64_t> ids;
    for (const char letter : text) {
      ids.push_back(ids_[static_cast<unsigned char>(letter)]);
      if (ids.back() < 0)
        throw tapegrad::ArgumentError(std::string("the text has no letter '") + letter + "'");
    }
    return ids;
  }

 private:
  std::string letters_;
  std::array<int64_t, 256> ids_;
};

}  // namespace examples
