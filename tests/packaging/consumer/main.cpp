#include "core/tensor.h"

#include <tapegrad/ops/noise.h>  // a former path (cmake/StageHeaders.cmake)
#include <tapegrad/tapegrad.h>

static_assert(TAPEGRAD_VERSION >= 100 && TAPEGRAD_VERSION_MAJOR == 0);

int main() {
  tapegrad::Variable x = tapegrad::tensor({1.0, 2.0}, {.requires_grad = true});
  tapegrad::sum(tapegrad::exp(x) * x).backward();
  return x.grad().to_vector<float>()[0] > 5.4f && kOwnTensor == 7 ? 0 : 1;
}
