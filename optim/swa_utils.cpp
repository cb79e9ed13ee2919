#include "optim/swa_utils.h"

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "nn/internal/module_modes.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim::swa_utils {

AverageFn get_ema_avg_fn(double decay) {
  require_share("get_ema_avg_fn", "decay", decay);
  return [decay](const Variable& average, const Variable& value, int64_t) {
    return decay * average + (1 - decay) * value;
  };
}
AverageFn get_swa_avg_fn() {
  return [](const Variable& average, const Variable& value, int64_t updates) {
    return average + (value - average) / double(updates + 1);
  };
}

namespace detail {
namespace {

using Named = std::vector<nn::NamedVariable>;

void require_same(const Named& a, const Named& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = a[i].name == b[i].name && a[i].variable.shape() == b[i].variable.shape();
  if (!same)
    fail<ArgumentError>("update_parameters: the model has other members than the averaged one");
}

/// Calls visit(layer) if the module is a batch normalisation with statistics.
template <typename Visit>
void visit_batch_norm(nn::Module& module, const Visit& visit) {
  const auto as = [&]<typename Layer>(Layer* layer) {
    if (layer != nullptr && layer->running_mean.defined()) visit(*layer);
  };
  as(dynamic_cast<nn::BatchNorm1d*>(&module));
  as(dynamic_cast<nn::BatchNorm2d*>(&module));
  as(dynamic_cast<nn::BatchNorm3d*>(&module));
}

}  // namespace

void update_average(const nn::Module& model, nn::Module& average, Variable& count,
                    const AveragedModelOptions& options) {
  const NoGrad no_grad;
  const Named parameters = model.named_parameters(), buffers = model.named_buffers();
  const Named averages = average.named_parameters(), kept = average.named_buffers();
  require_same(parameters, averages);
  require_same(buffers, kept);
  const int64_t updates = count.item<int64_t>();
  const AverageFn& chosen = options.avg_fn ? options.avg_fn : get_swa_avg_fn();
  const auto add = [&](Variable to, const Variable& from, bool averages) {
    const Variable value = from.detach().to(to.device()).to(to.dtype());
    to.copy_(averages && updates > 0 && is_float(to.dtype()) ? chosen(to.detach(), value, updates)
                                                             : value);
  };
  for (size_t i = 0; i < averages.size(); ++i)
    add(averages[i].variable, parameters[i].variable, true);
  for (size_t i = 0; i < kept.size(); ++i)
    add(kept[i].variable, buffers[i].variable, options.use_buffers);
  count.copy_(full({}, updates + 1, {.dtype = i64, .device = count.device()}));
}

struct NewStatistics::State {
  Modes modes;
  std::vector<std::pair<nn::Module*, std::optional<double>>> before;  // layers, and their momentum
};

bool NewStatistics::is_needed() const { return !state_->before.empty(); }
NewStatistics::NewStatistics(nn::Module& model)
    : state_(new State{.modes = modes_of(model), .before = {}}) {
  const NoGrad no_grad;
  for (nn::Module* module : model.modules()) {
    visit_batch_norm(*module, [&](auto& layer) {
      state_->before.emplace_back(&layer, layer.momentum());
      layer.reset_running_stats();
      layer.set_momentum(std::nullopt);
    });
  }
  model.train();
}
NewStatistics::~NewStatistics() {
  for (const auto& [module, momentum] : state_->before)
    visit_batch_norm(*module,
                     [&, momentum = momentum](auto& layer) { layer.set_momentum(momentum); });
  restore(state_->modes);
}

}  // namespace detail
}  // namespace tapegrad::optim::swa_utils

namespace tapegrad::optim::swa_utils {
AverageFn get_ema_multi_avg_fn(double decay) { return get_ema_avg_fn(decay); }
AverageFn get_swa_multi_avg_fn() { return get_swa_avg_fn(); }
}  // namespace tapegrad::optim::swa_utils
