#include "core/dispatch/kernels.h"

namespace tapegrad::kernels {

constinit Kernel<void(Tensor&, Number)> fill{"fill"};
constinit Kernel<void(const Tensor&, Tensor&)> copy{"copy"};
constinit Kernel<void(const Tensor&, Tensor&)> accumulate{"accumulate"};
constinit Kernel<void(const Tensor&, Tensor&)> transfer{"transfer"};

}  // namespace tapegrad::kernels
