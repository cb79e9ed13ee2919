#include "backends/cpu/tools/openblas.h"

#include <cstdio>
#include <string_view>

#include <cblas.h>

namespace tapegrad::backends::cpu {

std::string openblas_advice() {
  if (std::string_view(openblas_get_corename()) != "Prescott" || !__builtin_cpu_supports("avx2"))
    return {};
  const char* type = __builtin_cpu_supports("avx512vl") ? "SkylakeX" : "Haswell";
  return std::string(
             "OpenBLAS does not know this processor and uses slow kernels for float64; set ") +
         "OPENBLAS_CORETYPE=" + type + " in the environment";
}

void print_openblas_advice() {
  static const bool printed = [] {
    const std::string advice = openblas_advice();
    // <iostream> would initialise its streams at program start, once for every level of the CPU
    // backend.
    if (!advice.empty()) std::fprintf(stderr, "tapegrad: %s\n", advice.c_str());
    return true;
  }();
  static_cast<void>(printed);
}

}  // namespace tapegrad::backends::cpu
