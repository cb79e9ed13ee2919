#include "core/runtime_info.h"

#include <sstream>

#include "core/allocator.h"
#include "core/dtype.h"

#ifndef TAPEGRAD_VERSION
#define TAPEGRAD_VERSION "unknown"
#endif
#ifndef TAPEGRAD_BUILD_TYPE
#define TAPEGRAD_BUILD_TYPE "unknown"
#endif

namespace tapegrad {

// Defined by the backend, which alone knows its libraries.
namespace backends::cpu {
std::string describe();
}

std::string runtime_info() {
  std::ostringstream out;
  out << "tapegrad: " << TAPEGRAD_VERSION << '\n';
#if defined(__clang__)
  out << "compiler: clang " << __clang_version__ << '\n';
#elif defined(__GNUC__)
  out << "compiler: g++ " << __VERSION__ << '\n';
#endif
  out << "build: " << TAPEGRAD_BUILD_TYPE << '\n';
  out << backends::cpu::describe();
  out << "cuda: ";
  if (is_available(gpu))
    out << "available\n";
  else
    out << "not available (" << why_unavailable(gpu) << ")\n";
  out << "default device: " << default_device() << '\n';
  out << "default dtype: " << default_dtype() << '\n';
  return out.str();
}

}  // namespace tapegrad
