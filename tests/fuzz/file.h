// An in-memory file with a path, for readers that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <span>

#include "tests/fuzz/fuzz.h"

namespace tapegrad::fuzz {

class File {
 public:
  explicit File(std::span<const uint8_t> bytes) : file_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (file_ < 0 || write(file_, bytes.data(), bytes.size()) != ssize_t(bytes.size()))
      finding("no memory for a file");
  }
  ~File() { close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace tapegrad::fuzz
