#include "io/internal/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/base/error.h"

namespace tapegrad {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kNames = {"F16", "BF16", "F32", "F64", "I8",
                                                              "I16", "I32",  "I64", "U8",  "BOOL"};

/// Processes the JSON header event by event and stores only the entries. The first invalid event
/// stops the parser.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string problem;

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        if (name_ == "__metadata__") {
          place_ = Place::kMetadata;
        } else {
          place_ = Place::kEntry;
          header.entries.emplace_back().name = name_;
          has_dtype_ = has_shape_ = has_offsets_ = false;
        }
        return true;
      default:
        return unexpected("an object");
    }
  }
  bool key(string_t& key) override {
    field_.clear();
    switch (place_) {
      case Place::kTop:
        name_ = key;
        if (name_.find('\0') != name_.npos) return reject("a name contains a NUL character");
        return names_.insert(name_).second ||
               reject("the name " + quoted(name_) + " is there twice");
      case Place::kMetadata:
        field_ = key;
        return !header.metadata.contains(key) ||
               reject("the metadata name " + quoted(key) + " is there twice");
      default:
        return entry_key(key);
    }
  }
  bool end_object() override {
    if (place_ == Place::kEntry) {
      if (!has_dtype_) return reject("tensor " + quoted(name_) + " has no dtype");
      if (!has_shape_) return reject("tensor " + quoted(name_) + " has no shape");
      if (!has_offsets_) return reject("tensor " + quoted(name_) + " has no data_offsets");
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }
  bool start_array(size_t) override {
    if (place_ != Place::kEntry || (field_ != "shape" && field_ != "data_offsets"))
      return unexpected("an array");
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    offsets_ = 0;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2)
      return reject("data_offsets of " + quoted(name_) + " are not two numbers");
    place_ = Place::kEntry;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return unexpected("a number");
    if (value > uint64_t(std::numeric_limits<int64_t>::max()))
      return reject(quoted(name_) + ": " + std::to_string(value) + " is impossibly large");
    SafetensorsEntry& entry = header.entries.back();
    if (place_ == Place::kShape) {
      if (entry.shape.rank() == kMaxRank)
        return reject("tensor " + quoted(name_) + " has more than " + std::to_string(kMaxRank) +
                      " dimensions");
      entry.shape.push_back(int64_t(value));
      return true;
    }
    if (offsets_ < 2) (offsets_ == 0 ? entry.begin : entry.end) = int64_t(value);
    ++offsets_;
    return offsets_ <= 2 || reject("data_offsets of " + quoted(name_) + " are not two numbers");
  }
  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header.metadata[field_] = value;
      return true;
    }
    if (place_ != Place::kEntry || field_ != "dtype") return unexpected("a string");
    const auto found = std::find(kNames.begin(), kNames.end(), value);
    if (found == kNames.end())
      return reject("tensor " + quoted(name_) + " is of type " + quoted(value) +
                    ", which is not known here");
    header.entries.back().dtype = DType(found - kNames.begin());
    return true;
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is not an integer of 64 bits");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // Removes the JSON library's prefix, and cuts the quoted text.
    std::string what = error.what();
    if (const size_t colon = what.find("] "); colon != what.npos) what.erase(0, colon + 2);
    return reject("the header is not valid JSON at byte " + std::to_string(position) + ": " +
                  what.substr(0, 160));
  }

  /// Quotes a name from the file: cut to 80 bytes, with control characters escaped.
  static std::string quoted(const std::string& name) {
    std::string text = "'";
    for (unsigned char c : name.substr(0, 80)) {
      if (c < 0x20 || c == 0x7f)
        text += "\\x" + std::string(1, "0123456789abcdef"[c >> 4]) + "0123456789abcdef"[c & 15];
      else
        text += char(c);
    }
    return text + (name.size() > 80 ? "...'" : "'");
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kEntry, kShape, kOffsets, kEnd };

  bool entry_key(const std::string& key) {
    bool* has = key == "dtype"          ? &has_dtype_
                : key == "shape"        ? &has_shape_
                : key == "data_offsets" ? &has_offsets_
                                        : nullptr;
    if (!has) return reject("tensor " + quoted(name_) + " has an unknown field " + quoted(key));
    if (*has) return reject("tensor " + quoted(name_) + " has " + key + " twice");
    *has = true;
    field_ = key;
    return true;
  }
  bool unexpected(const char* what) {
    switch (place_) {
      case Place::kStart:
      case Place::kEnd:
        return reject(std::string("the header is ") + what + ", not an object");
      case Place::kTop:
        return reject(quoted(name_) + " is " + what + ", not an object");
      case Place::kMetadata:
        return reject("metadata " + quoted(field_) + " is " + what + ", not a string");
      default:
        return reject(field_ + " of tensor " + quoted(name_) + " has " + what);
    }
  }
  bool reject(std::string text) {
    problem = std::move(text);
    return false;
  }

  Place place_ = Place::kStart;
  std::string name_, field_;
  std::unordered_set<std::string> names_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_ = 0;
};

/// Returns an empty string if the entry's sizes and offsets agree, else the fault.
std::string check_entry(const SafetensorsEntry& entry) {
  int64_t bytes = size_of(entry.dtype);
  bool is_empty = false, too_large = false;
  for (int64_t size : entry.shape) {
    is_empty |= size == 0;
    too_large |= __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  }
  if (too_large) return "the sizes are impossible: their product overflows";
  if (is_empty) bytes = 0;
  if (entry.end < entry.begin) return "data_offsets descend";
  if (entry.end - entry.begin != bytes)
    return "data_offsets span " + std::to_string(entry.end - entry.begin) +
           " bytes, its shape and type need " + std::to_string(bytes);
  return {};
}

}  // namespace

std::string_view safetensors_name(DType dtype) { return kNames[size_t(dtype)]; }

SafetensorsHeader parse_safetensors_header(const std::string& file, std::string_view json,
                                           int64_t data_bytes) {
  if (json.empty() || json[0] != '{')
    fail<FormatError>(file, ": the header does not begin with '{'");
  Reader reader;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader))
    fail<FormatError>(file, ": ", reader.problem.empty() ? "bad header" : reader.problem);
  // The parser takes a NUL for the end, so that anything could follow it.
  if (const size_t nul = json.find('\0'); nul != json.npos)
    fail<FormatError>(file, ": the header has a NUL character at byte ", nul);

  auto& entries = reader.header.entries;
  for (const SafetensorsEntry& entry : entries)
    if (const std::string problem = check_entry(entry); !problem.empty())
      fail<FormatError>(file, ": tensor ", Reader::quoted(entry.name), ": ", problem);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  int64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string name = Reader::quoted(entry.name);
    if (entry.end > data_bytes)
      fail<FormatError>(file, ": tensor ", name, " ends at byte ", entry.end,
                        " of the data, which has ", data_bytes, ": the file is cut off or damaged");
    if (entry.begin < at)
      fail<FormatError>(file, ": tensor ", name, " begins at byte ", entry.begin,
                        ", inside another, which ends at ", at);
    if (entry.begin > at)
      fail<FormatError>(file, ": bytes ", at, " to ", entry.begin,
                        " of the data belong to no tensor");
    at = entry.end;
  }
  if (at != data_bytes)
    fail<FormatError>(file, ": bytes ", at, " to ", data_bytes, " of the data belong to no tensor");
  return std::move(reader.header);
}

}  // namespace tapegrad
