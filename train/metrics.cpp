#include "train/metrics.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/str_format.h"

#include "core/autograd/internal/capture.h"
#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

void Metric::update(const Variable& output, const Variable& target, Where where) {
  const ErrorLine line(where);
  add(output, target);
}

void RunningMean::add(const Variable& value, double weight) {
  const NoGrad no_grad;
  if (value.numel() != 1)
    fail<ShapeError>("RunningMean: add: one element expected: ", value.shape());
  if (value.device() == cpu) {
    cpu_sum_ += value.item() * weight;
  } else {
    const Variable part = reshape(value.detach(), {}).to(f64) * weight;
    sum_ = sum_.defined() ? sum_.to(part.device()) + part : part;
  }
  weight_ += weight;
}

double RunningMean::value() const {
  if (weight_ == 0) return kNaN;
  return (sum_.defined() ? cpu_sum_ + sum_.item() : cpu_sum_) / weight_;
}

TensorMap RunningMean::state_dict() const {
  const double sum = sum_.defined() ? cpu_sum_ + sum_.item() : cpu_sum_;
  return {{"sum", Tensor::full({}, sum, f64)}, {"weight", Tensor::full({}, weight_, f64)}};
}

void RunningMean::load_state_dict(const TensorMap& state) {
  for (const char* name : {"sum", "weight"})
    if (const auto found = state.find(name); found == state.end() || found->second.numel() != 1)
      fail<ArgumentError>("RunningMean: load_state_dict: no number \"", name, '"');
  sum_ = {};
  cpu_sum_ = state.at("sum").item();
  weight_ = state.at("weight").item();
}

namespace {

void require_host() {
  if (Capture* capture = Capture::current())
    capture->give_up("a metric keeps the parts of its total on the host");
}

}  // namespace

void Metric::accumulate(const std::string& name, const Variable& part) {
  require_host();
  const NoGrad no_grad;
  std::vector<Variable>& parts = totals_[name];
  if (parts.empty())
    parts.push_back(part.detach());
  else
    parts[0] = parts[0].to(part.device()) + part.detach();
}

void Metric::set(const std::string& name, const Variable& value) {
  require_host();
  totals_[name] = {value.detach()};
}

void Metric::append(const std::string& name, const Variable& part) {
  require_host();
  totals_[name].push_back(part.detach());
}

Variable Metric::total(const std::string& name) const {
  const auto found = totals_.find(name);
  if (found == totals_.end()) return {};
  if (found->second.size() == 1) return found->second[0];
  const NoGrad no_grad;
  std::vector<Variable> parts;
  for (const Variable& part : found->second)
    parts.push_back(part.to(found->second.back().device()));
  return cat(parts);
}

double Metric::number(const std::string& name) const {
  const Variable value = total(name);
  return value.defined() ? value.item() : 0.0;
}

TensorMap Metric::state_dict() const {
  TensorMap state;
  for (const auto& [name, parts] : totals_) state.emplace(name, total(name).value());
  return state;
}

void Metric::load_state_dict(const TensorMap& state) {
  totals_.clear();
  for (const auto& [name, tensor] : state) totals_[name] = {Variable(tensor.clone())};
}

namespace {

/// Returns the classes of a target, or of an output if `is_output`.
Variable classes_of(const Variable& x, bool is_output) {
  const NoGrad no_grad;
  if (x.rank() == 1 && !is_float(x.dtype())) return x.detach().to(i64);
  if (x.rank() == 2 && x.size(1) > 1) return argmax(x.detach(), 1);
  if (x.rank() != 1 && (x.rank() != 2 || x.size(1) != 1))
    fail<ShapeError>("predicted_classes: an output [N, C], [N] or [N, 1] expected: ", x.shape());
  const Variable values = reshape(x.detach(), {x.size(0)});
  if (!is_output) return (values > 0.5).to(i64);
  const Variable are_logits = any(logical_or(values<0.0, values> 1.0));
  return (values > where(are_logits, 0.0, 0.5)).to(i64);
}

}  // namespace

Variable predicted_classes(const Variable& output) { return classes_of(output, true); }

Variable target_classes(const Variable& target) { return classes_of(target, false); }

Variable count_correct(const Variable& output, const Variable& target) {
  const NoGrad no_grad;
  const Variable predicted = predicted_classes(output), truth = target_classes(target);
  if (predicted.shape() != truth.shape())
    fail<ShapeError>("count_correct: output ", output.shape(), " and target ", target.shape(),
                     " do not fit");
  return sum(predicted == truth);
}

void print_predictions(const std::string& title, const std::vector<int64_t>& labels,
                       const std::vector<int64_t>& predictions, std::ostream& out) {
  if (labels.size() != predictions.size())
    fail<ShapeError>("print_predictions: ", labels.size(), " labels, ", predictions.size(),
                     " predictions");
  const size_t shown = std::min<size_t>(16, labels.size());
  auto row = [&](const char* name, const std::vector<int64_t>& values) {
    out << absl::StreamFormat("  %-17s", name);
    for (size_t i = 0; i < shown; ++i) out << absl::StreamFormat(" %2d", values[i]);
    out << '\n';
  };
  size_t right = 0;
  for (size_t i = 0; i < labels.size(); ++i) right += labels[i] == predictions[i];
  out << title << '\n';
  row("true labels:", labels);
  row("predicted labels:", predictions);
  out << absl::StreamFormat("  accuracy rate: %.2f %% (%d/%d)\n",
                            labels.empty() ? 0.0 : 100.0 * double(right) / double(labels.size()),
                            right, labels.size());
  out.flush();
}

void print_predictions(const std::string& title, const Variable& targets, const Variable& outputs,
                       std::ostream& out) {
  print_predictions(title, target_classes(targets).to_vector<int64_t>(),
                    predicted_classes(outputs).to_vector<int64_t>(), out);
}

void Metric::reset() { totals_.clear(); }
double Metric::compute() const { return value(); }
MetricRef::MetricRef(Metric& metric) : MetricRef(&metric) {}
Metric* MetricRef::operator->() const { return metric_.get(); }
bool MetricRef::is_owned() const { return metric_.use_count() > 0; }
}  // namespace tapegrad
