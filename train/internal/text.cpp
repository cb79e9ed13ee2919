#include "train/internal/text.h"

#include <cstdarg>

namespace tapegrad {

std::string format(const char* pattern, ...) {
  va_list args, again;
  va_start(args, pattern);
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, pattern, args);
  std::string text(size_t(length > 0 ? length : 0), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(args);
  va_end(again);
  return text;
}

}  // namespace tapegrad
