#include "train/evaluate.h"

#include "core/base/error.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "ops/rearrange.h"
#include "train/internal/pass.h"

namespace tapegrad {

EvalMode::EvalMode(nn::Module& model) : modes_(modes_of(model)) { model.eval(); }
EvalMode::~EvalMode() { restore(modes_); }

Evaluation evaluate(nn::Module& model, Loader& data, EvaluateOptions options) {
  const LossFn loss_fn = or_cross_entropy(options.loss);
  const NoGrad no_grad;
  const EvalMode mode(model);
  const Progress clock(data.size(), {.style = ProgressStyle::kNone});
  Evaluation result;
  PassSums sums(options.accuracy, options.metrics);
  for (Example& batch : data) {
    move_to(options.device, batch);
    Variable output, loss;
    {
      std::optional<Autocast> amp;
      if (options.amp) amp.emplace(*options.amp);
      output = model.call(batch.data, Where::current());
      loss = loss_fn(output, batch.target);
    }
    sums.add(loss, output, batch.target);
    result.count += output.size(0);
    if (!options.accuracy) continue;
    for (auto [classes, into] : {std::pair(target_classes(batch.target), &result.labels),
                                 std::pair(predicted_classes(output), &result.predictions)}) {
      const std::vector<int64_t> ids = classes.to_vector<int64_t>();
      into->insert(into->end(), ids.begin(), ids.end());
    }
  }
  result.loss = sums.loss();
  result.accuracy = sums.accuracy();
  result.more = sums.metrics();
  result.seconds = clock.seconds();
  return result;
}

void Evaluation::print(const std::string& title, std::ostream& out) const {
  print_predictions(title, labels, predictions, out);
}

Variable predict(nn::Module& model, Loader& data, std::optional<Device> device) {
  const NoGrad no_grad;
  const EvalMode mode(model);
  std::vector<Variable> outputs;
  for (Example& batch : data) {
    move_to(device, batch);
    outputs.push_back(model.call(batch.data, Where::current()).cpu());
  }
  if (outputs.empty()) fail<ArgumentError>("predict: no batches");
  return outputs.size() == 1 ? outputs[0] : cat(outputs);
}

Variable predict(nn::Module& model, const Variable& x, int64_t batch_size) {
  DeviceLoader loader(TensorDataset(x), {.batch_size = batch_size});
  return predict(model, loader);
}

}  // namespace tapegrad
