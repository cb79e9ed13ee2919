#include "core/dispatch/kernels.h"

namespace tapegrad::kernels {

constinit decltype(fill) fill{"fill"};
constinit decltype(copy) copy{"copy"};
constinit decltype(accumulate) accumulate{"accumulate"};
constinit decltype(transfer) transfer{"transfer"};

}  // namespace tapegrad::kernels
