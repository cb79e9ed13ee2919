#include "optim/custom.h"

#include "core/autograd/internal/capture.h"
#include "core/dispatch/kernels.h"
#include "core/tape/recording.h"
#include "ops/update.h"

namespace tapegrad::optim {
namespace {

/// Copies a result into the memory of the parameter or state. Throws ShapeError for another shape.
void store(std::string_view name, const Variable& result, Tensor to) {
  const Tensor& value = result.value();
  if (value.shape() != to.shape())
    fail<ShapeError>("optimizer: update: ", name, " of ", to.shape(), " became ", value.shape());
  if (value.dtype() == to.dtype() && value.shares_storage(to)) return;
  kernels::copy(value.to(to.dtype()).contiguous(), to);
}

}  // namespace

CustomOptimizer::CustomOptimizer(std::string_view kind, Params params, double lr,
                                 double weight_decay, std::vector<std::string> state,
                                 std::initializer_list<std::string_view> options)
    : Optimizer(kind, std::move(params), lr, weight_decay, options), state_(std::move(state)) {}

std::vector<Optimizer::StateInfo> CustomOptimizer::state_info(const Group&) const {
  std::vector<StateInfo> infos;
  for (const std::string& name : state_) infos.push_back({name});
  return infos;
}

void CustomOptimizer::update(const Group& group, const ParamUpdates& params,
                             const StepGuard& guard) {
  const NoGrad no_grad;
  if (Capture* capture = Capture::current())
    capture->give_up("an optimizer is written with ops, which take its rates as numbers");
  if (guard.found_inf && guard.found_inf.item() != 0) return;
  const int64_t skipped = guard.skipped ? guard.skipped.number().to<int64_t>() : 0;
  for (const ParamUpdate& each : params.list) {
    const Variable grad(each.grad);
    Parameter parameter{.value = Variable(each.param),
                        .grad = grad,
                        .state = {},
                        .lr = group.lr,
                        .weight_decay = group.weight_decay,
                        .step = each.t - skipped,
                        .options = group.own};
    for (const Tensor& state : each.state)
      parameter.state.push_back(state ? Variable(state) : Variable());
    update(parameter);
    store("the parameter", parameter.value, each.param);
    for (size_t i = 0; i < each.state.size(); ++i)
      if (each.state[i]) store(state_[i], parameter.state.at(i), each.state[i]);
  }
}

}  // namespace tapegrad::optim
