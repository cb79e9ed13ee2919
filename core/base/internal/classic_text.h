// Text that other programs read, as SVG or JSON: the same whatever locale the program has set.
#pragma once

#include <locale>
#include <sstream>

namespace tapegrad {

/// A stream that writes 0.5 and 1000, never 0,5 or 1.000.
class ClassicText final : public std::ostringstream {
 public:
  ClassicText() { imbue(std::locale::classic()); }
};

}  // namespace tapegrad
