// std::cout for default arguments, without <iostream>, which would cost every user compile time.
#pragma once

#include <iosfwd>

namespace tapegrad {

std::ostream& standard_output();

}  // namespace tapegrad
