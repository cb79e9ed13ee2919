#include "train/internal/pass.h"

#include "core/base/context.h"
#include "core/tape/recording.h"
#include "io/safetensors.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

LossFn or_cross_entropy(LossFn loss) {
  if (loss) return loss;
  return [](const Variable& output, const Variable& target) {
    if (output.rank() > 1 && output.size(1) == 1)
      fail<ArgumentError>("the loss of a model with one output ", output.shape(),
                          " must be named: {.loss = mse_loss}; the default, cross_entropy of one "
                          "class, is always 0");
    if (target.defined() && is_float(target.dtype()))
      kernels::check_unit(target.value(),
                          "the default loss is cross_entropy of floats as probabilities (a "
                          "regression names another: {.loss = \"mse\"})");
    return cross_entropy(output, target);
  };
}

void move_to(const std::optional<Device>& device, Example& batch) {
  if (!device) return;
  batch.data = batch.data.to(*device);
  if (batch.target.defined()) batch.target = batch.target.to(*device);
}

void require_batch_fn(const char* caller, const Loader& data, const BatchFn& batch_fn) {
  if (!batch_fn && !data.has_examples())
    fail<ArgumentError>(
        caller, ": the loader's batches are not pairs of Variables; give a function: ", caller,
        "(model, items, ..., [](auto& model, auto& batch) { return loss; })");
}

BatchResult run_batch(nn::Module& model, const LossFn& loss, const BatchFn& batch_fn,
                      const Example& batch, void* item, Where where) {
  if (batch_fn) {
    BatchResult made = batch_fn(model, item);
    if (!made.loss.defined() || made.loss.numel() != 1)
      fail<ArgumentError>("the function of a batch returns the mean loss, one element, not ",
                          made.loss.defined() ? made.loss.numel() : 0, " elements");
    return made;
  }
  Variable output = model.call(batch.data, where);
  const detail::Set<&detail::Context::module_line> line(&where);  // for a loss that is a module
  Variable value = loss(output, batch.target);
  return {std::move(value), std::move(output), batch.target};
}

PassSums::PassSums(bool accuracy, const LossFn& loss, std::vector<MetricRef> metrics)
    : counts_(accuracy), takes_logits_(loss.takes_logits()), metrics_(std::move(metrics)) {
  // The accuracy is computed without a metric.
  if (counts_)
    std::erase_if(metrics_, [](const MetricRef& metric) {
      return metric.is_owned() && metric->name() == "accuracy";
    });
  reset();
}

Variable PassSums::predicted(const Variable& output) const {
  const bool is_one = output.rank() == 1 || (output.rank() == 2 && output.size(1) == 1);
  return takes_logits_ && is_one ? reshape(output > 0.0, {output.size(0)}).to(i64)
                                 : predicted_classes(output);
}

Variable PassSums::share_correct(const Variable& output, const Variable& target) const {
  const NoGrad no_grad;
  const auto if_all = [](const Variable& valid, const Variable& share) {
    return where(all(valid), share.to(f64), scalar(kNaN, {.dtype = f64, .device = share.device()}));
  };
  const auto is_class = [](const Variable& x) { return logical_or(x == 0.0, x == 1.0); };
  if (takes_logits_ && output.shape() == target.shape())
    return if_all(is_class(target), mean((output > 0.0) == (target > 0.5), f64));
  const Variable share = count_correct(output, target).to(f64) / double(output.size(0));
  if (!is_float(target.dtype())) return share;
  if (target.rank() == 2 && target.size(1) > 1)
    return if_all(logical_and(target >= 0.0, abs(sum(target, {1}, true) - 1.0) < 1e-3), share);
  return if_all(is_class(target), share);
}

void PassSums::add(const BatchResult& batch, int64_t count) {
  const auto& [loss, output, target] = batch;
  const auto n = double(output.defined() ? output.size(0) : count);
  loss_.add(loss, n);
  if (!output.defined()) return;
  if (counts_) accuracy_.add(share_correct(output, target), n);
  for (const MetricRef& metric : metrics_) metric->add(output, target);
}

void PassSums::reset() {
  loss_ = accuracy_ = {};
  for (const MetricRef& metric : metrics_) metric->reset();
}

NamedValues PassSums::metrics(const std::string& prefix) const {
  NamedValues values;
  for (const MetricRef& metric : metrics_)
    values.emplace_back(prefix + metric->name(), metric->value());
  return values;
}

TensorMap PassSums::state_dict() const {
  TensorMap all;
  add_part(all, "loss", loss_.state_dict());
  add_part(all, "accuracy", accuracy_.state_dict());
  for (size_t i = 0; i < metrics_.size(); ++i)
    add_part(all, "metric" + std::to_string(i), metrics_[i]->state_dict());
  return all;
}

void PassSums::load_state_dict(const TensorMap& state) {
  loss_.load_state_dict(part_of(state, "loss"));
  accuracy_.load_state_dict(part_of(state, "accuracy"));
  for (size_t i = 0; i < metrics_.size(); ++i)
    metrics_[i]->load_state_dict(part_of(state, "metric" + std::to_string(i)));
}

void add_part(TensorMap& all, const std::string& part, const TensorMap& state) {
  for (const auto& [name, tensor] : state) all.emplace(part + '.' + name, tensor);
}

}  // namespace tapegrad
