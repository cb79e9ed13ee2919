// Processor type of OpenBLAS. OpenBLAS chooses its kernels when the program is loaded; a processor
// that is newer than the library counts as "Prescott", with SSE3 only.
#pragma once

#include <string>

namespace tapegrad::backends::cpu {

/// Returns what to do if OpenBLAS uses kernels for Prescott on a processor with AVX2; otherwise an
/// empty string.
std::string openblas_advice();

}  // namespace tapegrad::backends::cpu
