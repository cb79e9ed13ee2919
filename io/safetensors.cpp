#include "io/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "io/atomic_file.h"
#include "io/internal/safetensors_header.h"

namespace tapegrad {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

/// An input file of known size.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path) {
    if (path_.find('\0') != path_.npos)  // the system would end the name there
      fail<IoError>("load: a NUL in the name of a file: '", path_, "'");
    file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ < 0) fail<IoError>("load: cannot open ", path_, ": ", std::strerror(errno));
    struct stat about {};
    if (fstat(file_, &about) != 0 || !S_ISREG(about.st_mode)) {
      close(file_);
      fail<IoError>("load: not a regular file: ", path_);
    }
    size_ = about.st_size;
  }
  ~InputFile() { close(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  void read(void* into, int64_t count) {
    auto* to = static_cast<char*>(into);
    while (count > 0) {
      const ssize_t got = ::read(file_, to, size_t(std::min<int64_t>(count, 1 << 26)));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail<IoError>("load: cannot read ", path_, ": ", std::strerror(errno));
      if (got == 0) fail<FormatError>(path_, ": the file ends too early");
      to += got;
      count -= got;
    }
  }

 private:
  std::string path_;
  int file_ = -1;
  int64_t size_ = 0;
};

/// The rest of a stream, with the members of InputFile.
class InputStream {
 public:
  explicit InputStream(std::istream& in) : in_(in) {
    const auto here = in.tellg();
    in.seekg(0, std::ios::end);
    size_ = int64_t(in.tellg() - here);
    in.seekg(here);
    if (!in) fail<IoError>("load: cannot read the stream, or cannot find its end");
  }
  std::string path() const { return "stream"; }
  int64_t size() const { return size_; }
  void read(void* into, int64_t count) {
    if (!in_.read(static_cast<char*>(into), count))
      fail<FormatError>(path(), ": the stream ends too early");
  }

 private:
  std::istream& in_;
  int64_t size_ = 0;
};

/// Reads the header. The file position is then the beginning of the data.
template <typename File>
SafetensorsHeader read_header(File& file) {
  if (file.size() < 8)
    fail<FormatError>(file.path(), ": ", file.size(), " bytes are too few for a safetensors file");
  uint64_t length;
  file.read(&length, 8);
  if ((length & 0xffffffff) == 0x04034b50)  // "PK": a zip archive
    fail<FormatError>(file.path(),
                      ": a zip archive, as torch.save() writes; write the file with "
                      "safetensors.torch.save_file(model.state_dict(), path)");
  if (length > uint64_t(file.size() - 8))
    fail<FormatError>(file.path(), ": not a safetensors file, or cut off: the header claims ",
                      length, " bytes, the file has ", file.size() - 8, " more");
  if (length > kMaxSafetensorsHeader)
    fail<FormatError>(file.path(), ": a header of ", length, " bytes; at most ",
                      kMaxSafetensorsHeader, " are read");
  std::string json(size_t(length), '\0');
  file.read(json.data(), int64_t(length));
  return parse_safetensors_header(file.path(), json, file.size() - 8 - int64_t(length));
}

/// Returns the first element that is finite in `before` and not finite in `after`, or -1.
int64_t find_overflow(const Tensor& before, const Tensor& after) {
  const Tensor x = before.to(f64), y = after.to(f64);
  const double *from = x.data<double>(), *to = y.data<double>();
  for (int64_t i = 0; i < x.numel(); ++i)
    if (std::isfinite(from[i]) && !std::isfinite(to[i])) return i;
  return -1;
}

Tensor convert_float(const char* op, const std::string& name, const Tensor& x, DType dtype) {
  Tensor converted = x.to(dtype);
  if (const int64_t at = find_overflow(x, converted); at >= 0)
    fail<ArgumentError>(op, ": element ", at, " of '", name, "' is too large for ", dtype);
  return converted;
}

/// Converts a tensor for storage: contiguous, on the CPU, with the requested dtype.
Tensor to_store(const std::string& name, const Tensor& tensor, std::optional<DType> dtype) {
  if (!tensor) fail<ArgumentError>("save: tensor '", name, "' is empty");
  const Tensor here = tensor.to(cpu).contiguous();
  if (!dtype || !is_float(here.dtype()) || here.dtype() == *dtype) return here;
  return convert_float("save", name, here, *dtype);
}

void check_bools(const std::string& file, const SafetensorsEntry& entry, const std::byte* data) {
  for (int64_t i = 0; i < entry.end - entry.begin; ++i)
    if (data[i] > std::byte{1})
      fail<FormatError>(file, ": element ", i, " of the BOOL tensor '", entry.name, "' is ",
                        int(data[i]), ", neither 0 nor 1");
}

}  // namespace

/// Returns whether the path names a file of NumPy, which io/numpy_file.h writes and data/npz.h
/// reads.
static bool is_of_numpy(const std::string& path) {
  return path.ends_with(".npy") || path.ends_with(".npz");
}

/// Calls start() when the tensors are known to be valid, then write(bytes) for all parts of a file.
template <typename Start, typename Write>
static void write_tensors(const TensorMap& tensors, const SaveOptions& options, const Start& start,
                          const Write& write) {
  if (options.dtype && !is_float(*options.dtype))
    fail<DTypeError>("save: dtype must be a float type: ", *options.dtype);
  struct Stored {
    const std::string* name;
    Tensor tensor;
  };
  std::vector<Stored> stored;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__" || name.find('\0') != name.npos)
      fail<ArgumentError>("save: a tensor cannot have the name '", name, "'");
    stored.push_back({&name, to_store(name, tensor, options.dtype)});
  }
  // Sorts larger element types first, which aligns every tensor for its type.
  std::stable_sort(stored.begin(), stored.end(), [](const Stored& a, const Stored& b) {
    return size_of(a.tensor.dtype()) > size_of(b.tensor.dtype());
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!options.metadata.empty()) header["__metadata__"] = options.metadata;
  int64_t at = 0;
  std::string text;
  try {
    nlohmann::ordered_json::object_t& fields = header.get_ref<nlohmann::ordered_json::object_t&>();
    for (const auto& [name, tensor] : stored) {
      const int64_t end = at + tensor.numel() * size_of(tensor.dtype());
      // push_back avoids a look-up per name, which would take quadratic time; names are unique.
      fields.push_back(
          {*name,
           {{"dtype", safetensors_name(tensor.dtype())},
            {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
            {"data_offsets", {at, end}}}});
      at = end;
    }
    text = header.dump();
  } catch (const nlohmann::json::type_error& error) {  // a name is not valid UTF-8
    fail<ArgumentError>("save: a name or the metadata is not UTF-8: ", error.what());
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxSafetensorsHeader)
    fail<ArgumentError>("save: the names of ", tensors.size(), " tensors make a header of ",
                        text.size(), " bytes; at most ", kMaxSafetensorsHeader, " can be read");

  start();
  const uint64_t length = text.size();
  write(std::as_bytes(std::span(&length, 1)));
  write(std::as_bytes(std::span(text)));
  for (const auto& [name, tensor] : stored) {
    const int64_t size = size_of(tensor.dtype());
    write(std::span<const std::byte>(tensor.storage().data() + tensor.layout().offset * size,
                                     size_t(tensor.numel() * size)));
  }
}

void save(const std::string& path, const TensorMap& tensors, SaveOptions options, Where where) {
  const ErrorLine line(where);
  if (is_of_numpy(path))
    fail<ArgumentError>(
        "save: ", path, ": save() writes safetensors; for NumPy, call ",
        path.ends_with("y") ? "write_npy(path, x)" : "write_npz(path, {{\"x\", x}})");
  std::optional<AtomicFile> file;
  write_tensors(
      tensors, options, [&] { file.emplace(path); },
      [&](std::span<const std::byte> bytes) { file->write(bytes); });
  file->commit();
}
void save(const TensorMap& tensors, std::ostream& out, SaveOptions options, Where where) {
  const ErrorLine line(where);
  write_tensors(
      tensors, options, [] {},
      [&](std::span<const std::byte> bytes) {
        out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
      });
  if (!out.flush()) fail<IoError>("save: cannot write to the stream");
}

Saved::Saved(const Tensor& value) : tensors_{{"", value}} {}
Saved::Saved(TensorMap state) : tensors_(std::move(state)), has_names_(true) {}
Tensor Saved::number(Number value) {
  return value.kind() == f64 ? Tensor::full({}, value.real(), f64)
                             : Tensor::full({}, value, value.kind());
}
Saved::Saved(std::initializer_list<std::pair<std::string, Saved>> values) : Saved(join(values)) {}
TensorMap Saved::join(std::initializer_list<std::pair<std::string, Saved>> values) {
  TensorMap all;
  for (const auto& [name, value] : values)
    for (const auto& [part, x] : value.tensors_) {
      const std::string full = value.has_names_ ? name + "." + part : name;
      if (!all.emplace(full, x).second)
        fail<ArgumentError>("save: two tensors are named \"", full, "\"");
    }
  return all;
}
void save(const std::string& path, std::initializer_list<std::pair<std::string, Saved>> values,
          Where where) {
  const ErrorLine line(where);
  save(path, Saved::join(values));
}
void save(std::initializer_list<std::pair<std::string, Saved>> values, const std::string& path,
          Where where) {
  save(path, values, where);
}
TensorMap part_of(const TensorMap& tensors, const std::string& state) {
  const std::string prefix = state + '.';
  TensorMap part;
  for (auto it = tensors.lower_bound(prefix); it != tensors.end() && it->first.starts_with(prefix);
       ++it)
    part.emplace(it->first.substr(prefix.size()), it->second);
  return part;
}

void save(const std::vector<Variable>& xs, const std::string& path, Where where) {
  TensorMap tensors;
  for (size_t i = 0; i < xs.size(); ++i) tensors.emplace(std::to_string(i), xs[i].value());
  save(path, tensors, {}, where);
}
void save(const Variable& x, const std::string& path, Where where) {
  save(std::vector{x}, path, where);
}

void load(std::vector<Variable>& xs, const std::string& path, Where where) {
  const ErrorLine line(where);
  const TensorMap tensors = load(path);
  std::vector<Variable> read;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto found = tensors.find(std::to_string(i));
    if (found == tensors.end())
      fail<FormatError>(path,
                        ": tensors by name, not a list; write TensorMap tensors = load(path)");
    read.emplace_back(found->second);
  }
  xs = std::move(read);
}
void load(Variable& x, const std::string& path, Where where) {
  const ErrorLine line(where);
  std::vector<Variable> read;
  load(read, path);
  if (read.size() != 1) fail<FormatError>(path, ": ", read.size(), " tensors, not one");
  x = read[0];
}

void save(const Variable& x, std::ostream& out, Where where) {
  save(TensorMap{{"0", x.value()}}, out, {}, where);
}
void load(Variable& x, std::istream& in, Where where) {
  const ErrorLine line(where);
  const TensorMap tensors = load(in);
  if (tensors.size() != 1)
    fail<FormatError>("load: a stream of ", tensors.size(), " tensors, not one");
  x = Variable(tensors.begin()->second);
}

void save(const TensorMap& tensors, const std::string& path, SaveOptions options, Where where) {
  save(path, tensors, std::move(options), where);
}

template <typename File>
static TensorMap read_tensors(File&& file) {
  const SafetensorsHeader header = read_header(file);
  TensorMap tensors;
  for (const SafetensorsEntry& entry : header.entries) {
    Tensor tensor = Tensor::empty(entry.shape, entry.dtype);
    file.read(tensor.storage().data(), entry.end - entry.begin);
    if (entry.dtype == boolean) check_bools(file.path(), entry, tensor.storage().data());
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

TensorMap load(const std::string& path, Where where) {
  const ErrorLine line(where);
  if (is_of_numpy(path))
    fail<ArgumentError>("load: ", path, ": load() reads safetensors; for NumPy, call ",
                        path.ends_with("y") ? "read_npy(path)" : "read_npz(path)");
  return read_tensors(InputFile(path));
}
TensorMap load(std::istream& in, Where where) {
  const ErrorLine line(where);
  return read_tensors(InputStream(in));
}

std::map<std::string, std::string> load_metadata(const std::string& path, Where where) {
  const ErrorLine line(where);
  InputFile file(path);
  return read_header(file).metadata;
}

TensorMap convert_like(TensorMap tensors, const TensorMap& like) {
  for (auto& [name, tensor] : tensors) {
    const auto found = like.find(name);
    if (found == like.end() || !is_float(found->second.dtype()) || !is_float(tensor.dtype()))
      continue;
    if (tensor.dtype() != found->second.dtype())
      tensor = convert_float("load", name, tensor, found->second.dtype());
  }
  return tensors;
}

void save(std::initializer_list<Variable> xs, const std::string& path, Where where) {
  save(std::vector<Variable>(xs), path, where);
}
}  // namespace tapegrad
