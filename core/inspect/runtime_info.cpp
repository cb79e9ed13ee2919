#include "core/inspect/runtime_info.h"

#include <sys/utsname.h>

#include <fstream>

#include "core/base/device.h"
#include "core/base/dtype.h"
#include "core/base/internal/classic_text.h"
#include "core/base/version.h"
#include "core/dispatch/internal/backends.h"

#ifndef TAPEGRAD_BUILD
#define TAPEGRAD_BUILD "unknown"
#define TAPEGRAD_BUILD_FLAGS "unknown"
#endif

namespace tapegrad {
namespace {

/// Returns the operating system, as in "Linux 6.1.0 x86_64, Debian GNU/Linux 12 (bookworm)".
std::string platform() {
  utsname kernel{};
  if (uname(&kernel) != 0) return "unknown";
  std::string text = std::string(kernel.sysname) + ' ' + kernel.release + ' ' + kernel.machine;
  std::ifstream file("/etc/os-release");
  const std::string key = "PRETTY_NAME=";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) {
      std::erase(line, '"');
      text += ", " + line.substr(key.size());
    }
  return text;
}

}  // namespace

std::string runtime_info() {
  ClassicText out;
  out << "tapegrad: " << TAPEGRAD_VERSION_STRING << '\n';
#if defined(__clang__)
  out << "compiler: clang " << __clang_version__ << '\n';
#elif defined(__GNUC__)
  out << "compiler: g++ " << __VERSION__ << '\n';
#endif
  out << "build: " << TAPEGRAD_BUILD << '\n' << "flags: " << TAPEGRAD_BUILD_FLAGS << '\n';
  out << "platform: " << platform() << '\n';
  out << backends::cpu::describe() << backends::cuda::describe();
  out << "default device: " << default_device() << '\n';
  out << "default dtype: " << default_dtype() << '\n';
  return out.str();
}

}  // namespace tapegrad
