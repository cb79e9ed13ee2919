#include "data/npz.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "data/internal/deflate.h"

namespace tapegrad {
namespace {

constexpr size_t kEndSize = 22, kEntrySize = 46, kLocalSize = 30;
constexpr uint32_t kEndMark = 0x06054b50, kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;

/// The bytes of a file, and the errors of a function that reads them.
class Bytes {
 public:
  Bytes(const char* function, const std::string& path) : function_(function), path_(path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail<IoError>(function, ": cannot open ", path);
    try {  // a folder, or a file larger than the memory
      bytes_.assign(std::istreambuf_iterator<char>(file), {});
    } catch (const std::exception& error) {
      fail<IoError>(function, ": cannot read ", path, ": ", error.what());
    }
    if (file.bad()) fail<IoError>(function, ": cannot read ", path);
  }

  template <typename... Facts>
  [[noreturn]] void fault(const Facts&... facts) const {
    fail<FormatError>(function_, ": ", path_, ": ", facts...);
  }
  const std::string& bytes() const { return bytes_; }

 protected:
  const char* function_;
  std::string path_, bytes_;
};

class Archive : public Bytes {
 public:
  explicit Archive(const std::string& path) : Bytes("read_npz", path) {}

  /// Calls visit(name, content) for every member.
  template <typename Visit>
  void for_each(Visit visit) const {
    const size_t end = find_end();
    size_t at = number<uint32_t>(end + 16);
    for (int left = number<uint16_t>(end + 10); left > 0; --left) {
      if (number<uint32_t>(at) != kEntryMark)
        fault("byte ", at, " is not an entry of the directory");
      const size_t name_size = number<uint16_t>(at + 28);
      const std::string name(part(at + kEntrySize, name_size));
      visit(name, content(at, name));
      at += kEntrySize + name_size + number<uint16_t>(at + 30) + number<uint16_t>(at + 32);
    }
  }

 private:
  std::string_view part(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at)
      fault("ends at byte ", bytes_.size(), ", within ", size, " bytes at ", at);
    return std::string_view(bytes_).substr(at, size);
  }
  template <typename T>
  T number(size_t at) const {
    T value;
    std::memcpy(&value, part(at, sizeof value).data(), sizeof value);
    return value;
  }

  /// Returns the last record of a ZIP file, which a comment of up to 65535 bytes may follow.
  size_t find_end() const {
    for (size_t back = kEndSize; back <= bytes_.size() && back <= kEndSize + 65535; ++back)
      if (number<uint32_t>(bytes_.size() - back) == kEndMark) return bytes_.size() - back;
    fault("is not a ZIP archive");
  }

  std::string content(size_t entry, const std::string& name) const {
    const auto method = number<uint16_t>(entry + 10);
    const auto crc = number<uint32_t>(entry + 16);
    const uint64_t packed = number<uint32_t>(entry + 20), size = number<uint32_t>(entry + 24);
    const size_t local = number<uint32_t>(entry + 42);
    if (packed == UINT32_MAX || size == UINT32_MAX || local == UINT32_MAX)
      fault(name, ": has ZIP64 sizes, which are not supported");
    if (number<uint32_t>(local) != kLocalMark) fault(name, ": byte ", local, " is no local header");
    // No checksum covers the names.
    if (part(local + kLocalSize, number<uint16_t>(local + 26)) !=
        part(entry + kEntrySize, number<uint16_t>(entry + 28)))
      fault(name, ": has another name in its local header");
    const size_t data =
        local + kLocalSize + number<uint16_t>(local + 26) + number<uint16_t>(local + 28);
    const std::string_view stored = part(data, packed);
    std::string result;
    if (method == 0) {
      result = stored;
    } else if (method == 8) {
      if (size > packed * kMostInflated) fault(name, ": ", packed, " bytes cannot hold ", size);
      result = inflated(stored, size, name);
    } else {
      fault(name, ": compression method ", method, " is neither 0 (stored) nor 8 (deflated)");
    }
    if (result.size() != size) fault(name, ": has ", result.size(), " bytes, not ", size);
    const auto found = crc32(0, reinterpret_cast<const Bytef*>(result.data()), uInt(result.size()));
    if (found != crc) fault(name, ": the checksum is ", found, ", not ", crc);
    return result;
  }

  std::string inflated(std::string_view packed, uint64_t size, const std::string& name) const {
    std::string result(size + 1, '\0');  // one more, to find members that are too long
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail<OutOfMemory>("read_npz: ", path_);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = uInt(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(result.data());
    stream.avail_out = uInt(result.size());
    const int code = inflate(&stream, Z_FINISH);
    result.resize(stream.total_out);
    inflateEnd(&stream);
    if (code != Z_STREAM_END) fault(name, ": the compressed bytes are damaged");
    return result;
  }
};

/// Returns the text after "'key':" in the header of a .npy file, a Python dictionary.
std::string_view value_of(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == header.npos) return {};
  header.remove_prefix(at + key.size());
  const size_t start = header.find_first_not_of("': ");
  return start == header.npos ? std::string_view() : header.substr(start);
}

std::optional<DType> dtype_of(std::string_view descr) {
  constexpr std::array<std::pair<std::string_view, DType>, 9> kTypes = {{{"|b1", boolean},
                                                                         {"|u1", u8},
                                                                         {"|i1", i8},
                                                                         {"<i2", i16},
                                                                         {"<i4", i32},
                                                                         {"<i8", i64},
                                                                         {"<f2", f16},
                                                                         {"<f4", f32},
                                                                         {"<f8", f64}}};
  for (const auto& [text, dtype] : kTypes)
    if (descr.starts_with(text)) return dtype;
  return {};
}

/// Parses "(60000, 28, 28)".
std::optional<Shape> shape_of(std::string_view text) {
  Shape shape;
  if (!text.starts_with('(')) return {};
  text.remove_prefix(1);
  while (true) {
    const size_t start = text.find_first_not_of(", ");
    if (start == text.npos) return {};
    text.remove_prefix(start);
    if (text.front() == ')') return shape;
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0 || shape.rank() == kMaxRank) return {};
    shape.push_back(size);
    text.remove_prefix(size_t(end - text.data()));
  }
}

Variable array_of(const Bytes& archive, const std::string& name, std::string_view bytes) {
  if (bytes.size() < 12 || !bytes.starts_with("\x93NUMPY"))
    archive.fault(name, ": is not an array of NumPy");
  const bool is_long = bytes[6] > 1;  // the length of the header has two bytes, later four
  uint32_t header_size = 0;
  std::memcpy(&header_size, bytes.data() + 8, is_long ? 4 : 2);
  const size_t start = (is_long ? 12 : 10) + size_t(header_size);
  if (start > bytes.size()) archive.fault(name, ": ends within its header");
  const std::string_view header = bytes.substr(is_long ? 12 : 10, header_size);
  const std::optional<DType> dtype = dtype_of(value_of(header, "'descr'"));
  if (!dtype) archive.fault(name, ": unsupported element type in ", header);
  if (value_of(header, "'fortran_order'").starts_with("True"))
    archive.fault(name, ": is stored in column-major order");
  const std::optional<Shape> shape = shape_of(value_of(header, "'shape'"));
  if (!shape) archive.fault(name, ": no shape in ", header);
  uint64_t size = uint64_t(size_of(*dtype));
  const uint64_t left = bytes.size() - start;
  bool fits = true;
  for (const int64_t extent : *shape) {
    if (extent > 0 && size > left / uint64_t(extent)) fits = false;
    size *= uint64_t(extent);
  }
  if (size != 0 && !fits) archive.fault(name, ": ", left, " bytes for an array of ", *shape);
  if (size != left) archive.fault(name, ": ", left, " bytes, ", size, " expected");
  Tensor array = Tensor::empty(*shape, *dtype, cpu);
  if (size > 0) std::memcpy(array.storage().data(), bytes.data() + start, size);
  if (*dtype == boolean)
    for (const char value : bytes.substr(start))
      if (value != 0 && value != 1) archive.fault(name, ": a bool has the value ", int(value));
  return Variable(std::move(array));
}

}  // namespace

std::map<std::string, Variable> read_npz(const std::string& path, Where where) {
  return at_line(where, [&] {
    const Archive archive(path);
    std::map<std::string, Variable> arrays;
    archive.for_each([&](std::string name, const std::string& bytes) {
      if (!name.ends_with(".npy")) archive.fault(name, ": is not an array");
      name.resize(name.size() - 4);
      arrays[name] = array_of(archive, name, bytes);
    });
    return arrays;
  });
}

Variable read_npy(const std::string& path, Where where) {
  return at_line(where, [&] {
    const Bytes file("read_npy", path);
    return array_of(file, "the file", file.bytes());
  });
}

std::map<std::string, Variable> load_npz(const std::string& path, Where where) {
  return read_npz(path, where);
}
Variable load_npy(const std::string& path, Where where) { return read_npy(path, where); }
}  // namespace tapegrad
