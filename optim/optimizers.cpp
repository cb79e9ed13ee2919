#include "optim/optimizers.h"

#include <cmath>
#include <limits>

#include "ops/update.h"

namespace tapegrad::optim {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Initial value of a state that is used only with an option.
std::optional<double> zero_if(bool used) {
  return used ? std::optional<double>(0.0) : std::nullopt;
}

}  // namespace

SGD::SGD(Params params, SGDOptions options)
    : Optimizer("SGD", std::move(params), options.lr, options.weight_decay), options_(options) {
  check_range("SGD", "momentum", options.momentum, 0, kNoLimit);
  check_range("SGD", "dampening", options.dampening, 0, kNoLimit);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    fail<ArgumentError>("SGD: nesterov needs a momentum and no dampening, not momentum ",
                        options.momentum, " and dampening ", options.dampening);
}
std::vector<Optimizer::StateInfo> SGD::state_info() const {
  return {{"momentum_buffer", zero_if(options_.momentum != 0)}};
}
void SGD::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  kernels::sgd_step(params,
                    {.lr = group.lr,
                     .momentum = options_.momentum,
                     .dampening = options_.dampening,
                     .weight_decay = group.weight_decay,
                     .nesterov = options_.nesterov},
                    guard);
}

bool SGD::updates_rows(const Group& group) const {
  return options_.momentum == 0 && group.weight_decay == 0;
}

Adam::Adam(Params params, AdamOptions options)
    : Adam("Adam", std::move(params), options, /*decoupled=*/false) {}
Adam::Adam(std::string_view kind, Params params, AdamOptions options, bool decoupled)
    : Optimizer(kind, std::move(params), options.lr, options.weight_decay),
      options_(options),
      decoupled_(decoupled) {
  check_range(kind, "beta1", options.beta1, 0, 1);
  check_range(kind, "beta2", options.beta2, 0, 1);
  check_range(kind, "eps", options.eps, 0, kNoLimit);
}
AdamW::AdamW(Params params, AdamWOptions o)
    : Adam("AdamW", std::move(params), {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.amsgrad},
           /*decoupled=*/true) {}
std::vector<Optimizer::StateInfo> Adam::state_info() const {
  return {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", zero_if(options_.amsgrad)}};
}
void Adam::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  kernels::adam_step(params,
                     {.lr = group.lr,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .eps = options_.eps,
                      .weight_decay = group.weight_decay,
                      .decoupled = decoupled_},
                     guard);
}

SparseAdam::SparseAdam(Params params, SparseAdamOptions o)
    : Adam("SparseAdam", std::move(params),
           {.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps},
           /*decoupled=*/false) {}
bool SparseAdam::updates_rows(const Group& group) const { return group.weight_decay == 0; }

Adagrad::Adagrad(Params params, AdagradOptions options)
    : Optimizer("Adagrad", std::move(params), options.lr, options.weight_decay), options_(options) {
  check_range("Adagrad", "lr_decay", options.lr_decay, 0, kNoLimit);
  check_range("Adagrad", "initial_accumulator_value", options.initial_accumulator_value, 0,
              kNoLimit);
  check_range("Adagrad", "eps", options.eps, 0, kNoLimit);
}
std::vector<Optimizer::StateInfo> Adagrad::state_info() const {
  return {{"sum", options_.initial_accumulator_value}};
}
void Adagrad::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  kernels::adagrad_step(params,
                        {.lr = group.lr,
                         .lr_decay = options_.lr_decay,
                         .eps = options_.eps,
                         .weight_decay = group.weight_decay},
                        guard);
}
bool Adagrad::updates_rows(const Group& group) const { return group.weight_decay == 0; }

RMSprop::RMSprop(Params params, RMSpropOptions options)
    : Optimizer("RMSprop", std::move(params), options.lr, options.weight_decay), options_(options) {
  check_range("RMSprop", "alpha", options.alpha, 0, 1.0000001);
  check_range("RMSprop", "momentum", options.momentum, 0, kNoLimit);
  check_range("RMSprop", "eps", options.eps, 0, kNoLimit);
}
std::vector<Optimizer::StateInfo> RMSprop::state_info() const {
  return {{"square_avg"},
          {"grad_avg", zero_if(options_.centered)},
          {"momentum_buffer", zero_if(options_.momentum != 0)}};
}
void RMSprop::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  kernels::rmsprop_step(params,
                        {.lr = group.lr,
                         .alpha = options_.alpha,
                         .eps = options_.eps,
                         .weight_decay = group.weight_decay,
                         .momentum = options_.momentum},
                        guard);
}

Adadelta::Adadelta(Params params, AdadeltaOptions options)
    : Optimizer("Adadelta", std::move(params), options.lr, options.weight_decay),
      options_(options) {
  check_range("Adadelta", "rho", options.rho, 0, 1.0000001);
  check_range("Adadelta", "eps", options.eps, 0, kNoLimit);
}
std::vector<Optimizer::StateInfo> Adadelta::state_info() const {
  return {{"square_avg"}, {"acc_delta"}};
}
void Adadelta::update(const Group& group, const ParamUpdates& params, const StepGuard& guard) {
  kernels::adadelta_step(params,
                         {.lr = group.lr,
                          .rho = options_.rho,
                          .eps = options_.eps,
                          .weight_decay = group.weight_decay},
                         guard);
}

}  // namespace tapegrad::optim
