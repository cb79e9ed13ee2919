#include "core/error.h"

#include <sstream>

namespace tapegrad::detail {

void ErrorText::add(double part) {
  std::ostringstream out;
  out << part;
  text_ += out.str();
}

void ErrorText::add_streamed(void (*write)(std::ostream&, const void*), const void* value) {
  std::ostringstream out;
  write(out, value);
  text_ += out.str();
}

}  // namespace tapegrad::detail
