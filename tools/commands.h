// The commands of `tapegrad op`. Each prints its data to stdout and its diagnostics to stderr.
#pragma once

#include "tools/options.h"

namespace tapegrad::tools {

ExitStatus list_ops(const OpOptions& options);
ExitStatus run_cases(const OpOptions& options);
ExitStatus gradcheck_cases(const OpOptions& options);
ExitStatus bench_cases(const OpOptions& options);

}  // namespace tapegrad::tools
