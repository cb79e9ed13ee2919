// Selection of the CPU level. A portable build contains backends/cpu twice, compiled for AVX2 and
// for AVX-512 (cmake/CpuLevels.cmake). This file is compiled for neither and selects the level that
// runs.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/dispatch/internal/backends.h"

namespace tapegrad::backends::cpu {

namespace avx2 {
void register_kernels();
std::string describe();
}  // namespace avx2
namespace avx512 {
void register_kernels();
std::string describe();
}  // namespace avx512

namespace {

struct Level {
  std::string_view name;
  std::string_view needs;
  bool runs;
  void (*register_kernels)();
  std::string (*describe)();
};

/// TAPEGRAD_CPU if set, otherwise the highest level that processor and operating system support. Of
/// x86-64-v3 and v4 only the newest extensions are tested: no processor has them without the
/// others.
Level choose() {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  const Level levels[] = {
      {"avx512", "AVX-512 (F, BW, CD, DQ, VL)", v4, avx512::register_kernels, avx512::describe},
      {"avx2", "AVX2, FMA and BMI2", v3, avx2::register_kernels, avx2::describe}};

  const char* text = std::getenv("TAPEGRAD_CPU");
  const std::string_view wanted = text != nullptr ? text : "";
  for (const Level& level : levels) {
    if (level.name == wanted && !level.runs)
      fail<DeviceError>("TAPEGRAD_CPU: ", wanted, " needs a processor with ", level.needs);
    if (level.runs && (level.name == wanted || wanted.empty())) return level;
  }
  if (!wanted.empty()) fail<ArgumentError>("TAPEGRAD_CPU: \"", wanted, "\" is not avx512 or avx2");
  fail<DeviceError>("cpu: the kernels need a processor with ", levels[1].needs);
}

const Level& level() {
  static const Level chosen = choose();
  return chosen;
}

}  // namespace

void register_kernels() { level().register_kernels(); }

std::string describe() {
  try {
    return level().describe() + "instructions chosen of: avx512, avx2 (TAPEGRAD_CPU forces one)\n";
  } catch (const Error& error) {
    return std::string(error.message()) + '\n';
  }
}

}  // namespace tapegrad::backends::cpu
