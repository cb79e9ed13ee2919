// Writer of the protobuf wire format: fields are appended to a string. Not part of the public
// interface.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/base/internal/escaped_text.h"

namespace tapegrad {

class Protobuf {
 public:
  Protobuf& integer(int field, int64_t value) {
    tag(field, 0);
    varint(uint64_t(value));
    return *this;
  }
  Protobuf& number(int field, double value) { return fixed(field, 1, value); }
  Protobuf& number32(int field, float value) { return fixed(field, 5, value); }
  Protobuf& string(int field, std::string_view value) { return bytes(field, valid_utf8(value)); }
  /// Bytes or the encoded fields of a message.
  Protobuf& bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Protobuf& message(int field, const Protobuf& value) { return bytes(field, value.text_); }
  /// An entry of a map whose keys are strings.
  Protobuf& entry(int field, std::string_view key, const Protobuf& value) {
    return message(field, Protobuf().string(1, key).message(2, value));
  }

  const std::string& text() const { return text_; }

 private:
  template <typename T>
  Protobuf& fixed(int field, int kind, T value) {
    tag(field, kind);
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    text_.append(raw, sizeof raw);
    return *this;
  }
  void tag(int field, int kind) { varint(uint64_t(field) << 3 | uint64_t(kind)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += char(value | 0x80);
    text_ += char(value);
  }

  std::string text_;
};

}  // namespace tapegrad
