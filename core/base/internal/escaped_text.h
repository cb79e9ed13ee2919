// Text of a program in the formats of others. All results are valid UTF-8: U+FFFD replaces other
// bytes.
#pragma once

#include <string>
#include <string_view>

namespace tapegrad {

std::string valid_utf8(std::string_view text);

/// Returns the text between the quotes of a JSON string.
std::string json_escape(std::string_view text);

/// Returns the text for an element or a quoted attribute of XML and HTML. Control characters, which
/// XML does not allow, become spaces.
std::string xml_escape(std::string_view text);

}  // namespace tapegrad
