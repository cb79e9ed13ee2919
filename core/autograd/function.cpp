#include "core/autograd/function.h"

#include <utility>

#include "core/tape/op.h"

namespace tapegrad::autograd {

void SavedItem::fail_type() const {
  if (!value_.has_value()) fail<ArgumentError>("saved_data: nothing was saved under this name");
  fail<ArgumentError>("saved_data: the saved value has another type");
}

void SavedTensors::fail_index(size_t i) const {
  fail<IndexError>("autograd::Function: saved_tensors()[", i, "] of ", size(), " saved ones");
}

SavedTensors Context::saved_tensors() const {
  std::vector<Variable> all = saved_;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined()) continue;
    const uint32_t version = all[i].value().storage().version();
    if (const uint32_t writes = version - versions_[i]; writes != 0)
      fail<AutogradError>("autograd::Function: a value saved for backward was changed in place (",
                          writes, writes == 1 ? " write" : " writes", " since); clone() it first");
    // The history of a result would make a cycle; a handle that is not kept gets the running node.
    if (outputs_[i] >= 0 && is_recording()) {
      all[i] = Variable(all[i].value());
      all[i].set_history(
          {RefPtr<TapeNode>::share(const_cast<TapeNode*>(running_node())), uint32_t(outputs_[i])});
    }
  }
  return {std::move(all)};
}

bool Context::needs_input_grad(size_t argument) const {
  if (argument >= needs_.size())
    fail<IndexError>("needs_input_grad: argument ", argument, " of ", needs_.size());
  return needs_[argument];
}

FunctionCall::FunctionCall(Backward backward)
    : context_(std::make_shared<Context>()), backward_(backward) {}
FunctionCall::~FunctionCall() = default;

void FunctionCall::add(const Variable& argument) {
  arguments_.push_back(context_->needs_.size());
  context_->needs_.push_back(argument.requires_grad());
  inputs_.push_back(argument);
  versions_.push_back(argument.defined() ? argument.value().storage().version() : 0);
}

namespace {

/// Returns a gradient that backward returned, converted to a value of this type: summed over the
/// dimensions along which the value was broadcast, and in the value's dtype. Returns any other
/// gradient unchanged.
Variable fit_gradient(const Variable& gradient, const ValueType& value) {
  if (!gradient.defined() || !is_float(gradient.dtype())) return gradient;
  Variable fitted = gradient;
  const int missing = gradient.rank() - value.shape.rank();
  if (gradient.shape() != value.shape && missing >= 0) {
    Dims repeated;
    for (int i = 0; i < gradient.rank(); ++i) {
      const int64_t size = i < missing ? 1 : value.shape[i - missing];
      if (size == gradient.shape()[i] && i >= missing) continue;
      if (size != 1) return gradient;
      repeated.push_back(i);
    }
    fitted = gradient.sum(repeated, /*keepdim=*/true).reshape(value.shape);
  }
  return fitted.dtype() == value.dtype ? fitted : fitted.to(value.dtype);
}

}  // namespace

struct FunctionCall::Op {
  static constexpr std::string_view kName = "autograd::Function";
  static constexpr size_t kRequired = 0;

  std::shared_ptr<Context> context;
  Backward run;
  std::vector<size_t> arguments;
  std::vector<Tensor> results;

  std::vector<Tensor> forward(std::span<const Variable>) const { return results; }
  std::vector<Variable> backward(std::span<const Variable> dy) const {
    std::vector<Variable> gradients(dy.begin(), dy.end());
    for (size_t k = 0; k < gradients.size(); ++k)
      if (!gradients[k].defined() && context->materializes_) {
        const Tensor& y = results[k];
        gradients[k] = Variable(Tensor::full(y.shape(), 0, y.dtype(), y.device()));
      }
    std::vector<Variable> all = run(*context, std::move(gradients));
    // As in libtorch, a gradient may be returned for each defaulted argument that the call left
    // out.
    while (all.size() > context->needs_.size() && !all.back().defined()) all.pop_back();
    if (all.size() != context->needs_.size())
      fail<AutogradError>("autograd::Function: backward returned ", all.size(), " gradients for ",
                          context->needs_.size(), " arguments of forward");
    std::vector<Variable> dx;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const TapeEdge& edge = running_node()->edges()[i];
      const Variable& gradient = all[arguments[i]];
      dx.push_back(edge ? fit_gradient(gradient, edge.node->output_type(edge.output)) : gradient);
    }
    return dx;
  }
};

std::vector<Variable> FunctionCall::record(const std::vector<Variable>& results, Where where) {
  // The history of a result of an op would not contain the write. A leaf has no history.
  for (size_t i = 0; i < inputs_.size() && is_recording(); ++i)
    if (inputs_[i].requires_grad() && !inputs_[i].is_leaf() &&
        inputs_[i].value().storage().version() != versions_[i])
      fail<AutogradError>("autograd::Function: forward writes in place to its argument ",
                          arguments_[i], ", which is the result of an op; write to a clone()");
  Op op{context_, backward_, arguments_, {}};
  for (const Variable& result : results) op.results.push_back(result.value());
  for (Variable& saved : context_->saved_) {
    context_->versions_.push_back(saved.defined() ? saved.value().storage().version() : 0);
    context_->outputs_.push_back(-1);
    for (size_t k = 0; k < results.size(); ++k)
      if (saved.defined() && saved.is_same(results[k])) {
        context_->outputs_.back() = int(k);
        saved = Variable(saved.value());  // a handle whose history may be set
      }
  }
  std::vector<Variable> recorded =
      tapegrad::apply(std::move(op), where, std::span<const Variable>(inputs_));
  for (const Variable& constant : std::exchange(context_->constant_, {}))
    for (size_t k = 0; k < results.size(); ++k)
      if (constant.is_same(results[k])) recorded[k] = recorded[k].detach();
  return recorded;
}

double SavedItem::toDouble() const { return to<double>(); }
int64_t SavedItem::toInt() const { return to<int64_t>(); }
bool SavedItem::toBool() const { return to<bool>(); }
const Variable& SavedItem::toTensor() const { return get<Variable>(); }
std::vector<int64_t> SavedItem::toIntVector() const { return get<Dims>().vec(); }
const std::string& SavedItem::toStringRef() const { return get<std::string>(); }
Variable SavedTensors::operator[](size_t i) const {
  if (i >= size()) [[unlikely]]
    fail_index(i);
  return data()[i];
}
void Context::save_for_backward(std::vector<Variable> variables) { saved_ = std::move(variables); }
SavedTensors Context::get_saved_variables() const { return saved_tensors(); }
SavedTensors Context::saved_variables() const { return saved_tensors(); }
void Context::mark_non_differentiable(std::vector<Variable> results) {
  constant_ = std::move(results);
}
}  // namespace tapegrad::autograd
