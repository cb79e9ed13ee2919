#include "backends/cuda/runtime/by_cpu.h"

#include <cstdio>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/internal/mutex.h"

namespace tapegrad::backends::cuda {

void announce_cpu(std::string_view kernel) {
  Error notice("tapegrad: cuda: " + std::string(kernel) +
               " runs on the CPU, because its library is missing or refuses the operands");
  detail::locate_call(notice);
  static auto* mutex = new Mutex;
  static auto* said = new std::set<std::string>;
  std::string line = notice.what();
  if (const size_t end = line.find("\n  "); end != line.npos) line.replace(end, 3, ", ");
  const MutexLock lock(*mutex);
  if (said->insert(line).second) std::fputs((line + '\n').c_str(), stderr);
}

}  // namespace tapegrad::backends::cuda
