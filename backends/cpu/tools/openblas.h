// Processor type of OpenBLAS, which selects its kernels when the program is loaded. OpenBLAS takes
// a processor that is newer than itself for "Prescott", with SSE3 only (docs/performance.md has the
// times). backends/cpu_process.cpp selects the type again by the processor's instructions, unless
// the environment sets OPENBLAS_CORETYPE.
#pragma once

#include <string>

namespace tapegrad::backends::cpu {

/// Returns advice for the user if OpenBLAS nevertheless uses kernels for Prescott on a processor
/// with AVX2; otherwise an empty string.
std::string openblas_advice();

}  // namespace tapegrad::backends::cpu
