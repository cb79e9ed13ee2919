// Averaged models, under the names of torch.optim.swa_utils. train/weight_average.h has averages
// for use with fit().
//
//   using namespace optim::swa_utils;
//   AveragedModel swa_model(model);          // or (model, {.avg_fn = get_ema_avg_fn(0.999)})
//   optim::SWALR schedule(optimizer, 0.05);
//   for (int epoch = 0; epoch < 30; ++epoch) {
//     train(model, loader, optimizer, loss_fn);
//     swa_model.update_parameters(model);
//     schedule.step();
//   }
//   update_bn(loader, swa_model);
//   Variable y = swa_model(x);
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/owner.h"
#include "core/tape/recording.h"
#include "nn/module.h"
#include "nn/norm.h"
#include "ops/create.h"
#include "optim/combined_schedulers.h"

namespace tapegrad::optim::swa_utils {

using optim::SWALR;

/// Function that returns the new average of a parameter, given its average over `updates` values
/// and a new value.
using AverageFn =
    std::function<Variable(const Variable& average, const Variable& value, int64_t updates)>;
/// Returns a function that computes decay average + (1 - decay) value. Throws ArgumentError unless
/// decay is in [0, 1].
AverageFn get_ema_avg_fn(double decay = 0.999);
/// Returns a function that computes the mean of all values.
AverageFn get_swa_avg_fn();
AverageFn get_ema_multi_avg_fn(double decay = 0.999);
AverageFn get_swa_multi_avg_fn();

struct AveragedModelOptions {
  AverageFn avg_fn = {};        // default: get_swa_avg_fn()
  AverageFn multi_avg_fn = {};  // in place of avg_fn
  bool use_buffers = false;     // also average buffers; otherwise they are copied
};

namespace detail {
void update_average(const nn::Module& model, nn::Module& average, Variable& count,
                    const AveragedModelOptions& options);

/// Resets the statistics of the batch normalization layers of a model, which then compute the mean
/// over all batches for the lifetime of the object. All modules are in training mode during this
/// time.
class NewStatistics {
 public:
  explicit NewStatistics(nn::Module& model);
  ~NewStatistics();
  NewStatistics(const NewStatistics&) = delete;
  NewStatistics& operator=(const NewStatistics&) = delete;
  bool is_needed() const;

 private:
  struct State;
  tapegrad::detail::Owner<State> state_;
};

/// Returns a batch that is a Variable, or the data of an Example.
template <typename Batch>
const Variable& input_of(const Batch& batch) {
  if constexpr (std::convertible_to<const Batch&, const Variable&>)
    return batch;
  else
    return batch.data;
}
}  // namespace detail

/// A copy of a model whose parameters are averages. The state_dict() has PyTorch's names
/// ("module.0.weight", "n_averaged").
template <typename M>
class AveragedModel : public nn::Model<AveragedModel<M>> {
 public:
  M module;
  Variable n_averaged = zeros({}, {.dtype = i64});

  explicit AveragedModel(const M& model, AveragedModelOptions options = {})
      : module(model.clone()), options_(std::move(options)) {
    if (options_.multi_avg_fn) options_.avg_fn = options_.multi_avg_fn;
  }

  template <std::convertible_to<AverageFn> F>
  AveragedModel(const M& model, F avg_fn)
      : AveragedModel(model, AveragedModelOptions{.avg_fn = std::move(avg_fn)}) {}

  void members(nn::Members& m) override {
    m.buffer("n_averaged", n_averaged);
    m("module", module);
  }
  template <typename... Xs>
  requires(!(std::same_as<Xs, Where> || ...) && requires(M & m, const Xs&... xs) {
    m.forward(xs...);
  }) auto forward(const Xs&... xs) const {
    return const_cast<M&>(module)(xs...);  // forward of a user's model may lack const
  }
  /// Adds the parameters of a model with the same members; the first call copies them.
  void update_parameters(const nn::Module& model) {
    detail::update_average(model, module, n_averaged, options_);
  }

 private:
  AveragedModelOptions options_;
};

/// Recomputes the statistics of batch normalization in one pass over a range of examples or inputs.
/// The pass is not recorded. Restores the mode of each module.
template <typename Data, typename M>
void update_bn(Data&& data, M& model, std::optional<Device> device = {}) {
  const detail::NewStatistics statistics(model);
  if (!statistics.is_needed()) return;
  const NoGrad no_grad;
  for (auto&& batch : data) {
    const Variable& x = detail::input_of(batch);
    model(device ? x.to(*device) : x);
  }
}

}  // namespace tapegrad::optim::swa_utils
