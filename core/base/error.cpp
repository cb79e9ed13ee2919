#include "core/base/error.h"

#include <cstring>

#include "core/base/internal/classic_text.h"
#include "core/base/internal/scope.h"

namespace tapegrad {
void Error::locate(std::string_view place) {
  if (located_ || place.empty()) return;
  located_ = std::make_shared<std::string>(message() + ("\n  " + std::string(place)));
}

void Error::note(std::string_view line) {
  located_ = std::make_shared<std::string>(what() + ("\n  " + std::string(line)));
}

namespace detail {
void ErrorText::add(std::string_view part) { text_ += part; }
void ErrorText::add(char part) { text_ += part; }
void ErrorText::add(long long part) { text_ += std::to_string(part); }
void ErrorText::add(unsigned long long part) { text_ += std::to_string(part); }
void ErrorText::add(double part) {
  ClassicText out;
  out << part;
  text_ += out.str();
}

void ErrorText::add_streamed(void (*write)(std::ostream&, const void*), const void* value) {
  ClassicText out;
  write(out, value);
  text_ += out.str();
}

bool is_of_library(Where where) {
  constexpr std::string_view kPrefix = TAPEGRAD_SOURCE_PREFIX;
  return where.line() == 0 || std::strncmp(where.file_name(), kPrefix.data(), kPrefix.size()) == 0;
}

bool is_of_user(Where where) {
  const auto is_in = [&](const char* part) {
    return std::strstr(where.file_name(), part) != nullptr;
  };
  return !is_of_library(where) && !is_in("/include/tapegrad/") && !is_in("/include/c++/");
}

void locate(Error& error, Where where) {
  if (!is_of_user(where) && context.module_line != nullptr) where = *context.module_line;
  if (is_of_user(where))
    error.locate("at " + std::string(where.file_name()) + ':' + std::to_string(where.line()) +
                 in_scope(current_scope()));
  else if (current_scope() != nullptr)
    error.locate("in " + *current_scope());
}

}  // namespace detail
}  // namespace tapegrad
