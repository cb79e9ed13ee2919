// Description of the build and the machine, for bug reports.
#pragma once

#include <string>

namespace tapegrad {

/// Lines of "name: value": version, compiler, build options and flags, operating system, CPU and
/// its instruction sets, threads, kernel libraries, CUDA devices (or the reason why there are
/// none), memory.
std::string runtime_info();

}  // namespace tapegrad
