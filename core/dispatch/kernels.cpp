#include "core/dispatch/kernels.h"

#include "core/dispatch/internal/hold_number.h"

namespace tapegrad::kernels {

constinit decltype(fill) fill{"fill"};
constinit decltype(copy) copy{"copy"};
constinit decltype(accumulate) accumulate{"accumulate"};
constinit decltype(transfer) transfer{"transfer"};
constinit decltype(hold_number) hold_number{"hold_number"};

}  // namespace tapegrad::kernels
