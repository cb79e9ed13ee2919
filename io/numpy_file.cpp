#include "io/numpy_file.h"

#include <zlib.h>

#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "io/atomic_file.h"

namespace tapegrad {
namespace {

std::string_view descr_of(std::string_view function, DType dtype) {
  if (dtype == boolean) return "|b1";
  if (dtype == u8) return "|u1";
  if (dtype == i8) return "|i1";
  if (dtype == i16) return "<i2";
  if (dtype == i32) return "<i4";
  if (dtype == i64) return "<i8";
  if (dtype == f16) return "<f2";
  if (dtype == f32) return "<f4";
  if (dtype == f64) return "<f8";
  fail<DTypeError>(function, ": NumPy has no ", dtype, "; cast with x.to(f32)");
}

/// An array as the bytes of a .npy file: a header, whose size is a multiple of 64, and elements.
struct NpyArray {
  std::string header;
  Tensor values;  // contiguous, on the CPU

  NpyArray(std::string_view function, const Variable& x) : values(x.value().to(cpu).contiguous()) {
    std::string text = "{'descr': '" + std::string(descr_of(function, values.dtype())) +
                       "', 'fortran_order': False, 'shape': (";
    for (int i = 0; i < values.rank(); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(values.shape()[i]);
    text += values.rank() == 1 ? ",), }" : "), }";
    constexpr size_t kPrefix = 10;
    text.append(63 - (kPrefix + text.size()) % 64, ' ');
    text += '\n';
    header = "\x93NUMPY";
    header += {'\1', '\0', char(text.size() & 0xff), char(text.size() >> 8)};
    header += text;
  }
  std::string_view elements() const {
    if (values.numel() == 0) return {};
    const auto size = size_of(values.dtype());
    return {reinterpret_cast<const char*>(values.storage().data()) + values.layout().offset * size,
            size_t(values.numel() * size)};
  }
  uint64_t size() const { return header.size() + elements().size(); }
  uint32_t checksum() const {
    uLong crc = crc32(0, nullptr, 0);
    const std::string_view bytes = elements();
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(header.data()), header.size());
    if (bytes.empty()) return uint32_t(crc);  // zlib takes a null pointer for a new beginning
    return uint32_t(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  }
};

void append(std::string& to, std::initializer_list<uint32_t> words) {
  for (const uint32_t word : words)
    for (int shift = 0; shift < 32; shift += 8) to += char(word >> shift & 0xff);
}
void append_short(std::string& to, uint32_t value) {
  to += {char(value & 0xff), char(value >> 8 & 0xff)};
}

/// A member of the archive, whose records share most fields.
struct Entry {
  std::string name;
  uint32_t crc, size, offset;

  /// The fields from the version to the lengths, which both records of a member have.
  void append_fields(std::string& to) const {
    append_short(to, 20);       // version needed
    append_short(to, 1 << 11);  // flags: the name is UTF-8
    append_short(to, 0);        // stored
    append(to, {33u << 16});    // time 0:00, 1 January 1980
    append(to, {crc, size, size});
    append_short(to, uint32_t(name.size()));
    append_short(to, 0);  // length of the extra field
  }
};

}  // namespace

void write_npy(const std::string& path, const Variable& x, Where where) {
  const ErrorLine line(where);
  const NpyArray array("write_npy", x);
  AtomicFile file(path);
  file.write(array.header);
  file.write(array.elements());
  file.commit();
}

void write_npz(const std::string& path, const std::map<std::string, Variable>& arrays,
               Where where) {
  const ErrorLine line(where);
  if (arrays.size() > 65534) fail<ArgumentError>("write_npz: ", arrays.size(), " arrays");
  std::vector<NpyArray> values;
  uint64_t size = 0;
  for (const auto& [name, x] : arrays) {
    if (name.empty() || name.size() > 65531)
      fail<ArgumentError>("write_npz: a name of ", name.size(), " bytes");
    values.emplace_back("write_npz", x);
    size += values.back().size() + 2 * name.size() + 128;
  }
  if (size > UINT32_MAX - 64)
    fail<ArgumentError>("write_npz: ", size,
                        " bytes, of at most 4 GiB; take save(), or a file of "
                        "write_npy() per array");
  AtomicFile file(path);
  std::vector<Entry> entries;
  uint64_t offset = 0;
  const auto write = [&](std::string_view bytes) {
    file.write(bytes);
    offset += bytes.size();
  };
  auto value = values.begin();
  for (const auto& [name, x] : arrays) {
    entries.push_back(
        {name + ".npy", value->checksum(), uint32_t(value->size()), uint32_t(offset)});
    std::string local;
    append(local, {0x04034b50});
    entries.back().append_fields(local);
    write(local + entries.back().name);
    write(value->header);
    write(value->elements());
    ++value;
  }
  const uint64_t start = offset;
  for (const Entry& entry : entries) {
    std::string central;
    append(central, {0x02014b50});
    append_short(central, 20);  // made by this version, on MS-DOS
    entry.append_fields(central);
    append_short(central, 0);  // length of the comment
    append_short(central, 0);  // disk
    append_short(central, 0);  // internal attributes
    append(central, {0, entry.offset});
    write(central + entry.name);
  }
  std::string end;
  append(end, {0x06054b50, 0});
  append_short(end, uint32_t(entries.size()));
  append_short(end, uint32_t(entries.size()));
  append(end, {uint32_t(offset - start), uint32_t(start)});
  append_short(end, 0);
  write(end);
  file.commit();
}

void savez(const std::string& path, const std::map<std::string, Variable>& arrays, Where where) {
  write_npz(path.ends_with(".npz") ? path : path + ".npz", arrays, where);
}

void save_npy(const std::string& path, const Variable& x, Where where) {
  write_npy(path, x, where);
}
void save_npz(const std::string& path, const std::map<std::string, Variable>& arrays, Where where) {
  write_npz(path, arrays, where);
}

}  // namespace tapegrad
