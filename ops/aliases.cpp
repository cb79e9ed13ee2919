#include "ops/aliases.h"

#include <ostream>
#include <string>

#include "core/base/output.h"

namespace tapegrad {

void detail::print_line(const std::string& text) { standard_output() << text << std::endl; }

}  // namespace tapegrad
