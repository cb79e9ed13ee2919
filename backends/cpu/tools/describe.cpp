// The CPU backend's part of runtime_info().
#include <omp.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include <dnnl.hpp>
#include <xsimd/xsimd.hpp>

#include "backends/cpu/tools/cblas.h"
#include "backends/cpu/tools/openblas.h"

namespace tapegrad::backends::cpu {
namespace {

/// Returns the processor's name, from Linux.
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace

std::string describe() {
  std::ostringstream out;
  out << "cpu: " << cpu_model() << '\n';
  out << "instructions compiled for: " << xsimd::default_arch::name() << '\n';
  out << "threads: " << omp_get_max_threads() << " of " << omp_get_num_procs()
      << " processors (OpenMP)\n";
  const dnnl_version_t* dnnl = dnnl_version();
  out << "oneDNN: " << dnnl->major << '.' << dnnl->minor << '.' << dnnl->patch << '\n';
  out << "OpenBLAS: " << openblas_get_config() << '\n';
  if (const std::string advice = openblas_advice(); !advice.empty()) out << advice << '\n';
  const double pages = double(sysconf(_SC_PHYS_PAGES)), page = double(sysconf(_SC_PAGE_SIZE));
  out << "memory: " << int(pages * page / (1 << 30) + 0.5) << " GiB\n";
  return out.str();
}

}  // namespace tapegrad::backends::cpu
