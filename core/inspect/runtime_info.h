// What this build is and runs on: the first lines of every bug report.
#pragma once

#include <string>

namespace tapegrad {

/// Lines of "name: value": version, compiler, flags, CPU and its instructions, threads, the
/// libraries behind the kernels, CUDA and its devices or why there are none, memory.
std::string runtime_info();

}  // namespace tapegrad
