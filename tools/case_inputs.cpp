#include "tools/case_inputs.h"

#include <algorithm>

#include <tapegrad/core/error.h>

namespace tapegrad::tools {
namespace {

/// Throws ArgumentError unless all elements of the view are among the `count` elements of the
/// buffer.
void check_inside(const TensorRef& ref, const StridedLayout& view, int64_t count) {
  const auto outside = [&](const char* why) {
    fail<ArgumentError>("view of \"", ref.name, "\": ", why, ": shape ", view.shape, ", strides ",
                        view.strides, ", offset ", view.offset, "; the buffer has ", count,
                        " elements");
  };
  const bool is_empty = numel(view.shape) == 0;
  int64_t last = view.offset;
  if (view.offset < 0) outside("a negative offset");
  for (int i = 0; i < view.shape.rank(); ++i) {
    if (view.strides[i] < 0) outside("a negative stride");
    int64_t extent = 0;
    if (is_empty) continue;
    if (__builtin_mul_overflow(view.shape[i] - 1, view.strides[i], &extent) ||
        __builtin_add_overflow(last, extent, &last))
      outside("too large");
  }
  if (last > count || (last == count && !is_empty)) outside("it leaves the buffer");
}

}  // namespace

std::vector<Variable> CaseInputs::leaves() const {
  std::vector<Variable> leaves;
  for (size_t i = 0; i < flat.size(); ++i) {
    const auto same = [&](const Variable& leaf) { return leaf.is_same(flat[i]); };
    if (wants_gradient[i] && std::none_of(leaves.begin(), leaves.end(), same))
      leaves.push_back(flat[i]);
  }
  return leaves;
}

const Tensor& InputMaker::buffer(const std::string& name) {
  const auto known = buffers_.find(name);
  if (known != buffers_.end()) return known->second;
  const auto stored = file_.find(name);
  if (stored == file_.end()) fail<ArgumentError>("the tensor file has no \"", name, '"');
  Tensor copy = stored->second.clone().to(options_.device);
  if (options_.for_gradcheck && is_float(copy.dtype())) copy = copy.to(f64);
  return buffers_.emplace(name, std::move(copy)).first->second;
}

Tensor InputMaker::view(const TensorRef& ref) {
  const Tensor& whole = buffer(ref.name);
  if (!ref.view) return whole;
  check_inside(ref, *ref.view, whole.numel());
  return whole.with_layout(*ref.view);
}

Variable InputMaker::make(const TensorRef& ref) {
  Tensor value = view(ref);
  const StridedLayout layout = value.layout();
  for (const Made& made : made_)
    if (made.name == ref.name && made.layout.shape == layout.shape &&
        made.layout.strides == layout.strides && made.layout.offset == layout.offset)
      return made.variable;
  made_.push_back({ref.name, layout, {}});
  if (options_.for_gradcheck)
    value = overlaps_itself(layout) ? value.clone() : buffer(ref.name).clone().with_layout(layout);
  return made_.back().variable = Variable(std::move(value));
}

CaseInputs InputMaker::make(const Case& c) {
  CaseInputs inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool is_list = c.op->inputs[i].list;
    auto& into = is_list ? inputs.arguments.list : inputs.arguments.inputs;
    for (const std::optional<TensorRef>& ref : c.inputs[i]) {
      Variable x = ref ? make(*ref) : Variable();
      if (ref && ref->grad) x.requires_grad_();
      into.push_back(x);
      inputs.flat.push_back(std::move(x));
      inputs.wants_gradient.push_back(ref && ref->grad);
    }
  }
  inputs.arguments.attributes = c.attributes;
  return inputs;
}

std::vector<Variable> InputMaker::make_seeds(const std::vector<TensorRef>& refs) {
  std::vector<Variable> seeds;
  for (const TensorRef& ref : refs) seeds.emplace_back(view(ref));
  return seeds;
}

}  // namespace tapegrad::tools
