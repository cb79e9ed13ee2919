#include "backends/cpu/tools/openblas.h"

#include <string_view>

#include <cblas.h>

namespace tapegrad::backends::cpu {

std::string openblas_advice() {
  if (std::string_view(openblas_get_corename()) != "Prescott" || !__builtin_cpu_supports("avx2"))
    return {};
  const char* type = __builtin_cpu_supports("avx512vl") ? "SkylakeX" : "Haswell";
  return std::string(
             "OpenBLAS does not know this processor and uses slow kernels for linear algebra; "
             "set ") +
         "OPENBLAS_CORETYPE=" + type + " in the environment";
}

}  // namespace tapegrad::backends::cpu
