// How often cuBLASLt multiplied, for tests of who asks it to.
#pragma once

namespace coh {

int cublaslt_calls();
int cublaslt_gelus();  // of them, with a GELU

}  // namespace coh
