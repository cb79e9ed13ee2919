#include "core/base/output.h"

#include <iostream>

namespace tapegrad {

std::ostream& standard_output() { return std::cout; }

}  // namespace tapegrad
