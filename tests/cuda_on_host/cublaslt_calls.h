// How often cuBLASLt multiplied, for tests of who asks it to.
#pragma once

namespace coh {

int cublaslt_calls();
int cublaslt_gelus();           // of them, with a GELU
int cublaslt_gelu_gradients();  // with the gradient of one
int cublaslt_relu_gradients();  // with that of a ReLU
/// Whether its mask lets gradients through where the sum is 0.
void cublaslt_mask_has_zero(bool has);
/// Whether its max(NaN, 0) is 0, as fmaxf has it.
void cublaslt_relu_drops_nan(bool drops);

}  // namespace coh
