#include "train/evaluate.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/internal/classic_text.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "nn/internal/module_modes.h"
#include "ops/rearrange.h"
#include "train/internal/pass.h"

namespace tapegrad {

LossFn::LossFn(Variable (*loss)(const Variable&, const Variable&, Reduction, Where))
    : function([loss](const Variable& output, const Variable& target) {
        return loss(output, target, Reduction::kMean, Where());
      }),
      is_function_of_logits_(loss ==
                             static_cast<decltype(loss)>(binary_cross_entropy_with_logits)) {}
LossFn::LossFn(Variable (*loss)(const Variable&, const Variable&, Reduction, double, Where))
    : function([loss](const Variable& output, const Variable& target) {
        return loss(output, target, Reduction::kMean, 1.0, Where());
      }) {}

EvalMode::EvalMode(nn::Module& model) : modes_(modes_of(model)) { model.eval(); }
EvalMode::~EvalMode() { restore(modes_); }

namespace {

Evaluation run_pass(nn::Module& model, Loader& data, const EvaluateOptions& options) {
  const LossFn loss_fn = or_cross_entropy(options.loss);
  const NoGrad no_grad;
  const EvalMode mode(model);
  const Progress clock(data.size(), {.style = ProgressStyle::kNone});
  Evaluation result;
  PassSums sums(options.accuracy, loss_fn, options.metrics);
  require_batch_fn("evaluate", data, options.batch);
  if (data.size() == 0)
    fail<ArgumentError>("evaluate: the loader has no batches: ", data.num_examples(), " examples");
  for (auto at = data.begin(); at != data.end(); ++at) {
    move_to(options.device, *at);
    std::optional<BatchResult> made;
    {
      std::optional<Autocast> amp;
      if (options.amp) amp.emplace(*options.amp);
      made = run_batch(model, loss_fn, options.batch, *at, at.item().get(), options.by_name.where);
    }
    sums.add(*made, at->data.size(0));
    result.count += made->output.defined() ? made->output.size(0) : at->data.size(0);
    if (!options.accuracy || !made->output.defined()) continue;
    for (auto [classes, into] : {std::pair(target_classes(made->target), &result.labels),
                                 std::pair(sums.predicted(made->output), &result.predictions)}) {
      const std::vector<int64_t> ids = classes.to_vector<int64_t>();
      into->insert(into->end(), ids.begin(), ids.end());
    }
  }
  result.loss = sums.loss();
  result.accuracy = sums.accuracy();
  if (std::isnan(result.accuracy)) result.labels = result.predictions = {};  // no classes
  result.more = sums.metrics();
  result.seconds = clock.seconds();
  return result;
}

}  // namespace

Evaluation::Evaluation() = default;
Evaluation::Evaluation(const Evaluation&) = default;
Evaluation::Evaluation(Evaluation&&) noexcept = default;
Evaluation& Evaluation::operator=(const Evaluation&) = default;
Evaluation& Evaluation::operator=(Evaluation&&) noexcept = default;
Evaluation::~Evaluation() = default;

Evaluation detail::evaluate(nn::Module& model, Loader& data, Where where) {
  return tapegrad::evaluate(model, data, EvaluateOptions{.by_name = {where}});
}
Evaluation evaluate(nn::Module& model, Loader& data, EvaluateOptions options) {
  return at_line(options.by_name.where, [&] { return run_pass(model, data, options); });
}

void Evaluation::print(const std::string& title, std::ostream& out) const {
  if (labels.empty())
    out << title << "\n  " << *this << std::endl;
  else
    print_predictions(title, labels, predictions, out);
}

std::ostream& operator<<(std::ostream& out, const Evaluation& result) {
  ClassicText text;
  text << "loss " << result.loss;
  if (!std::isnan(result.accuracy)) text << ", accuracy " << result.accuracy;
  for (const auto& [name, value] : result.more)
    if (name != "accuracy" || std::isnan(result.accuracy)) text << ", " << name << ' ' << value;
  text << " (" << result.count << (result.count == 1 ? " example)" : " examples)");
  return out << text.str();
}

Evaluation evaluate(nn::Module& model, const Variable& x, const Variable& y,
                    EvaluateOptions options) {
  const Where where = options.by_name.where;
  DeviceLoader loader(TensorDataset(x, y, where), {.batch_size = options.batch_size}, where);
  return evaluate(model, loader, std::move(options));
}

Variable predict(nn::Module& model, Loader& data, std::optional<Device> device, Where where) {
  const NoGrad no_grad;
  const EvalMode mode(model);
  std::vector<Variable> outputs;
  for (Example& batch : data) {
    move_to(device, batch);
    outputs.push_back(model.call(batch.data, where).cpu());
  }
  if (outputs.empty()) fail_at<ArgumentError>(where, "predict: no batches");
  return outputs.size() == 1 ? outputs[0] : cat(outputs);
}

Variable predict(nn::Module& model, const Variable& x, int64_t batch_size, Where where) {
  DeviceLoader loader(TensorDataset(x, {}, where), {.batch_size = batch_size}, where);
  return predict(model, loader, {}, where);
}

BatchResult::BatchResult(Variable mean_loss, Variable outputs, Variable targets)
    : loss(std::move(mean_loss)), output(std::move(outputs)), target(std::move(targets)) {}
Evaluation evaluate(nn::Module& model, Loader&& data, EvaluateOptions options) {
  return evaluate(model, data, std::move(options));
}
Variable predict(nn::Module& model, const Variable& x, PredictOptions options) {
  return predict(model, x, options.batch_size, options.by_name.where);
}
}  // namespace tapegrad
