#include "core/inspect/runtime_info.h"

#include "core/base/device.h"
#include "core/base/dtype.h"
#include "core/base/internal/classic_text.h"
#include "core/base/version.h"
#include "core/dispatch/internal/backends.h"

#ifndef TAPEGRAD_BUILD_TYPE
#define TAPEGRAD_BUILD_TYPE "unknown"
#endif

namespace tapegrad {

std::string runtime_info() {
  ClassicText out;
  out << "tapegrad: " << TAPEGRAD_VERSION_STRING << '\n';
#if defined(__clang__)
  out << "compiler: clang " << __clang_version__ << '\n';
#elif defined(__GNUC__)
  out << "compiler: g++ " << __VERSION__ << '\n';
#endif
  out << "build: " << TAPEGRAD_BUILD_TYPE << '\n';
  out << backends::cpu::describe() << backends::cuda::describe();
  out << "default device: " << default_device() << '\n';
  out << "default dtype: " << default_dtype() << '\n';
  return out.str();
}

}  // namespace tapegrad
