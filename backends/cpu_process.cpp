// Settings of the CPU backend for the whole process. Compiled once, for every level.
#include <cstdlib>
#include <string_view>

#include <omp.h>

#include "backends/cpu/tools/openblas.h"
#include "core/dispatch/internal/backends.h"

extern "C" {
char* openblas_get_corename();
// Not declared in cblas.h. An OpenBLAS for a single processor type does not have them.
[[gnu::weak]] void gotoblas_dynamic_init();
[[gnu::weak]] void gotoblas_dynamic_quit();
}

namespace tapegrad::backends::cpu {
namespace {

constexpr const char* kTypeVariable = "OPENBLAS_CORETYPE";

/// Returns the type that this processor is compatible with, or null if OpenBLAS knows the
/// processor.
const char* better_type() {
  __builtin_cpu_init();
  if (std::string_view(openblas_get_corename()) != "Prescott" || !__builtin_cpu_supports("avx2"))
    return nullptr;
  return __builtin_cpu_supports("avx512vl") ? "SkylakeX" : "Haswell";
}

/// Runs before main(), because OpenBLAS must not change its kernels while another thread calls it.
[[gnu::constructor]] void choose_openblas_type() {
  const char* type = better_type();
  if (type == nullptr || std::getenv(kTypeVariable) != nullptr) return;
  if (gotoblas_dynamic_init == nullptr || gotoblas_dynamic_quit == nullptr) return;
  setenv(kTypeVariable, type, 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(kTypeVariable);
}

}  // namespace

std::string openblas_advice() {
  const char* type = better_type();
  if (type == nullptr) return {};
  return std::string(
             "OpenBLAS does not know this processor and uses slow kernels for linear "
             "algebra; set ") +
         kTypeVariable + "=" + type + " in the environment";
}

void set_num_threads(int count) { omp_set_num_threads(count); }
int num_threads() { return omp_get_max_threads(); }

}  // namespace tapegrad::backends::cpu
