#include "core/base/internal/escaped_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace tapegrad {
namespace {

/// Returns the number of bytes of the character that the text begins with; 0 if it is invalid.
size_t utf8_length(std::string_view text) {
  const auto first = uint8_t(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  const auto is_continuation = [](char byte) { return (uint8_t(byte) & 0xC0) == 0x80; };
  if (!std::ranges::all_of(text.substr(1, length - 1), is_continuation)) return 0;
  // Encodings that are too long, surrogates, and numbers above 0x10FFFF.
  const auto second = uint8_t(text[1]);
  const bool is_valid = first == 0xE0   ? second >= 0xA0
                        : first == 0xED ? second < 0xA0
                        : first == 0xF0 ? second >= 0x90
                                        : first != 0xF4 || second < 0x90;
  return is_valid ? length : 0;
}

/// Appends, for each character below 0x80, what `escape` makes of it.
template <typename Escape>
std::string map_ascii(std::string_view text, const Escape& escape) {
  std::string result;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 1)
      result += escape(text[0]);
    else
      result += length == 0 ? "\uFFFD" : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  return map_ascii(text, [](char c) { return c; });
}

std::string json_escape(std::string_view text) {
  return map_ascii(text, [](char c) {
    if (c == '"' || c == '\\') return std::string{'\\', c};
    if (c >= ' ') return std::string(1, c);
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", unsigned(c));
    return std::string(code);
  });
}

std::string xml_escape(std::string_view text) {
  return map_ascii(text, [](char c) -> std::string {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&quot;";
      default:
        return {c < ' ' ? ' ' : c};
    }
  });
}

}  // namespace tapegrad
