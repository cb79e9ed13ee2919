#include "ops/update.h"

namespace tapegrad::kernels {

constinit Kernel<void(Tensor&, const Tensor&, Tensor&, const SgdStep&)> sgd_step{"sgd_step"};
constinit Kernel<void(Tensor&, const Tensor&, Tensor&, Tensor&, Tensor&, const AdamStep&)>
    adam_step{"adam_step"};
constinit Kernel<void(Tensor&, const Tensor&, Tensor&, const AdagradStep&)> adagrad_step{
    "adagrad_step"};
constinit Kernel<void(Tensor&, const Tensor&, Tensor&, Tensor&, Tensor&, const RmspropStep&)>
    rmsprop_step{"rmsprop_step"};
constinit Kernel<void(Tensor&, const Tensor&, Tensor&, Tensor&, const AdadeltaStep&)> adadelta_step{
    "adadelta_step"};

}  // namespace tapegrad::kernels
