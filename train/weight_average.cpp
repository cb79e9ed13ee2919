#include "train/weight_average.h"

#include <algorithm>

#include "core/autograd/internal/capture.h"
#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "core/tape/recording.h"
#include "ops/arithmetic.h"
#include "ops/bitwise.h"

namespace tapegrad {
namespace {

/// Copies values into a weight, whose handles stay valid.
void overwrite(Variable& weight, const Tensor& values) {
  kernels::copy(values.to(weight.device()).to(weight.dtype()), weight.writable());
  weight.value().storage().bump_version();
}

}  // namespace

WeightAverage::WeightAverage(const nn::Module& model) : model_(model.copy()) {
  for (const auto& list : {model.named_parameters(), model.named_buffers()})
    for (const auto& [name, weight] : list) {
      if (!is_float(weight.dtype())) continue;
      const DType wide = weight.dtype() == f64 ? f64 : f32;
      weights_.push_back({name, weight, Variable(weight.value().to(wide).clone())});
    }
}

void WeightAverage::update() {
  if (Capture* capture = Capture::current())
    capture->give_up("a weight average counts its updates on the host");
  const NoGrad no_grad;
  const double part = share(++updates_);
  if (part == 0) return;
  for (Weight& each : weights_) {
    const Variable now = each.weight.detach().to(each.average.dtype());
    each.average =
        part == 1 ? Variable(now.value().clone()) : lerp(each.average.to(now.device()), now, part);
  }
}

void WeightAverage::copy_to_model() {
  const NoGrad no_grad;
  for (Weight& each : weights_) overwrite(each.weight, each.average.value());
}

TensorMap WeightAverage::state_dict() const {
  TensorMap state{{"updates", Tensor::full({}, updates_, i64)}};
  for (const Weight& each : weights_) state.emplace("weight." + each.name, each.average.value());
  return state;
}

void WeightAverage::load_state_dict(const TensorMap& state) {
  const auto count = state.find("updates");
  if (count == state.end() || count->second.numel() != 1 || state.size() != weights_.size() + 1)
    fail<ArgumentError>("load_state_dict: not the averages of ", weights_.size(), " weights");
  for (const Weight& each : weights_) {
    const auto found = state.find("weight." + each.name);
    if (found == state.end() || found->second.shape() != each.average.shape() ||
        found->second.dtype() != each.average.dtype())
      fail<ArgumentError>("load_state_dict: no average of \"", each.name, "\", ",
                          each.average.dtype(), ' ', each.average.shape());
  }
  for (Weight& each : weights_)
    each.average = Variable(state.at("weight." + each.name).to(each.weight.device()).clone());
  updates_ = count->second.number().to<int64_t>();
}

Ema::Ema(const nn::Module& model, EmaOptions options) : WeightAverage(model), options_(options) {
  if (!(options.decay >= 0 && options.decay < 1))
    fail<ArgumentError>("Ema: decay is ", options.decay, ", not in [0, 1)");
}

double Ema::share(int64_t update) const {
  const double n = double(update);
  return 1 - (options_.warmup ? std::min(options_.decay, (1 + n) / (10 + n)) : options_.decay);
}

Swa::Swa(const nn::Module& model, SwaOptions options) : WeightAverage(model), options_(options) {
  if (options.start < 0) fail<ArgumentError>("Swa: start is negative: ", options.start);
  if (options.every < 1) fail<ArgumentError>("Swa: every is ", options.every, ", not at least 1");
}

double Swa::share(int64_t update) const {
  const int64_t counted = update - options_.start - 1;
  return counted < 0 || counted % options_.every != 0 ? 0
                                                      : 1.0 / double(counted / options_.every + 1);
}

UseAverage::UseAverage(WeightAverage& average) : average_(average) {
  for (const WeightAverage::Weight& each : average.weights_)
    own_.push_back(each.weight.value().clone());
  average.copy_to_model();
}

UseAverage::~UseAverage() {
  const NoGrad no_grad;
  for (size_t i = 0; i < own_.size(); ++i) overwrite(average_.weights_[i].weight, own_[i]);
}

Ema::Ema(const nn::Module& model, double decay) : Ema(model, EmaOptions{.decay = decay}) {}
}  // namespace tapegrad
