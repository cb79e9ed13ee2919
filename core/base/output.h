// std::cout for default arguments, without <iostream>, which every user would compile.
#pragma once

#include <iosfwd>

namespace tapegrad {

std::ostream& standard_output();

}  // namespace tapegrad
