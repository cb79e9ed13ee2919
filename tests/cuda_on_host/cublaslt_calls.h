// Counts the products of the cuBLASLt stand-in, for tests.
#pragma once

namespace coh {

int cublaslt_calls();
int cublaslt_gelus();           // products with a GELU
int cublaslt_gelu_gradients();  // products with the gradient of a GELU
/// Sets whether max(NaN, 0) is 0, like fmaxf.
void cublaslt_relu_drops_nan(bool drops);

}  // namespace coh
