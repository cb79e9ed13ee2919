#include "data/idx.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "data/internal/deflate.h"

namespace tapegrad {
namespace {

/// A file read through zlib, which passes plain files through unchanged.
class Input {
 public:
  explicit Input(const std::string& path) : path_(path) {
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) fail<IoError>("read_idx: cannot open ", path_, ": ", std::strerror(errno));
    struct stat about {};
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
      ::close(file);
      fail<IoError>("read_idx: not a regular file: ", path_);
    }
    bytes_on_disk_ = about.st_size;
    file_ = gzdopen(file, "rb");
    if (!file_) {
      ::close(file);
      fail<OutOfMemory>("read_idx: no memory to read ", path_);
    }
    gzbuffer(file_, 1 << 16);
  }
  ~Input() { gzclose(file_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// Reads up to `count` bytes; fewer only at the end of the file.
  int64_t read(void* into, int64_t count) {
    int64_t done = 0;
    while (done < count) {
      const auto part = unsigned(std::min<int64_t>(count - done, 1 << 24));
      const int got = gzread(file_, static_cast<char*>(into) + done, part);
      if (got < 0) fail_read();
      if (got == 0) break;
      done += got;
    }
    // For a truncated gzip stream, gzread returns the available bytes first and reports the error
    // in gzerror.
    int code = Z_OK;
    gzerror(file_, &code);
    if (done < count && code != Z_OK && code != Z_STREAM_END) fail_read();
    return done;
  }

  bool gzipped() const { return gzdirect(file_) == 0; }
  int64_t bytes_on_disk() const { return bytes_on_disk_; }
  template <typename... Facts>
  [[noreturn]] void fault(const Facts&... facts) const {
    fail<FormatError>("read_idx: ", path_, ": ", facts...);
  }

 private:
  [[noreturn]] void fail_read() const {
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code == Z_ERRNO) fail<IoError>("read_idx: cannot read ", path_, ": ", text);
    if (code == Z_BUF_ERROR) fault("the gzip stream ends too early");
    fault("the gzip stream is damaged: ", text);
  }

  std::string path_;
  int64_t bytes_on_disk_ = 0;
  gzFile file_ = nullptr;
};

std::optional<DType> element_type(uint8_t code) {
  switch (code) {
    case 0x08:
      return u8;
    case 0x09:
      return i8;
    case 0x0B:
      return i16;
    case 0x0C:
      return i32;
    case 0x0D:
      return f32;
    case 0x0E:
      return f64;
  }
  return {};
}

void reverse_bytes(std::byte* data, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i) std::reverse(data + i * size, data + (i + 1) * size);
}

}  // namespace

Variable read_idx(const std::string& path) {
  Input input(path);
  uint8_t header[4 + 4 * kMaxRank];
  if (input.read(header, 4) < 4) input.fault("the header ends too early");
  if (header[0] != 0 || header[1] != 0) input.fault("not an IDX file: it does not begin with 0 0");
  const std::optional<DType> dtype = element_type(header[2]);
  if (!dtype) input.fault("unknown element type ", int(header[2]));
  const int rank = header[3];
  if (rank > kMaxRank) input.fault("has ", rank, " dimensions; at most ", kMaxRank, " are read");
  if (input.read(header + 4, 4 * rank) < 4 * rank) input.fault("the header ends too early");

  Shape shape;
  int64_t bytes = size_of(*dtype);
  bool too_large = false, is_empty = false;
  for (int i = 0; i < rank; ++i) {
    const uint8_t* at = header + 4 + 4 * i;
    shape.push_back(int64_t(at[0]) << 24 | int64_t(at[1]) << 16 | int64_t(at[2]) << 8 | at[3]);
    is_empty |= shape[i] == 0;
    too_large |= __builtin_mul_overflow(bytes, std::max<int64_t>(shape[i], 1), &bytes);
  }
  if (too_large) input.fault("the sizes ", shape, " are impossible: their product overflows");
  if (is_empty) bytes = 0;
  const int64_t on_disk = input.bytes_on_disk(), head = 4 + 4 * rank;
  if (!input.gzipped() && on_disk != head + bytes)
    input.fault("the sizes ", shape, " of ", *dtype, " need ", bytes, " bytes; ", on_disk - head,
                " follow the header");
  if (input.gzipped() && bytes / kMostInflated > on_disk)
    input.fault("the sizes ", shape, " of ", *dtype, " need ", bytes, " bytes, which ", on_disk,
                " gzipped bytes cannot hold");

  Tensor values = Tensor::empty(shape, *dtype);
  std::byte* data = values.storage().data();
  const int64_t got = input.read(data, bytes);
  if (got < bytes)
    input.fault("the sizes ", shape, " of ", *dtype, " need ", bytes, " bytes; only ", got,
                " follow the header");
  // Reading to the end also makes zlib verify the checksum.
  if (char more; input.read(&more, 1) == 1)
    input.fault("more follows the ", bytes, " bytes that the sizes ", shape, " need");
  if (size_of(*dtype) > 1) reverse_bytes(data, values.numel(), size_of(*dtype));
  return Variable(std::move(values));
}

}  // namespace tapegrad
