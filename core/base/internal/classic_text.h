// Text for other programs, such as SVG and JSON, which does not depend on the program's locale.
#pragma once

#include <locale>
#include <sstream>

namespace tapegrad {

/// Stream that writes 0.5 and 1000 in every locale, never 0,5 or 1.000.
class ClassicText final : public std::ostringstream {
 public:
  ClassicText() { imbue(std::locale::classic()); }
};

}  // namespace tapegrad
