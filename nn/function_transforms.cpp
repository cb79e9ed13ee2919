#include "nn/function_transforms.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/create.h"
#include "ops/rearrange.h"
#include "ops/view.h"

namespace tapegrad {

void detail::fail_vmap(const Shape& x, const Shape& y) {
  fail<ShapeError>("vmap: dimension 0 of the arguments must be equal and not 0: ", x, " and ", y);
}

}  // namespace tapegrad

namespace tapegrad::func::detail {
namespace {

/// An argument has a history if the functions are nested: leaf() then returned another handle to
/// the argument, and not a leaf.
bool has_history(const Variable& x) { return x.defined() && x.requires_grad() && !x.is_leaf(); }

std::vector<Variable> values(const VariableMap& xs) {
  std::vector<Variable> list;
  for (const auto& entry : xs) list.push_back(entry.second);
  return list;
}
VariableMap with_values(const VariableMap& names, const std::vector<Variable>& list) {
  VariableMap map;
  size_t i = 0;
  for (const auto& entry : names) map[entry.first] = list[i++];
  return map;
}

template <typename List, typename F>
List each(const List& xs, F f) {
  List result;
  for (const Variable& x : xs) result.push_back(f(x));
  return result;
}

}  // namespace

Variable leaf(const Variable& x) {
  return x.requires_grad() ? view(x, x.shape()) : x.detach().requires_grad_();
}
std::vector<Variable> leaf(const std::vector<Variable>& xs) {
  return each(xs, [](const Variable& x) { return leaf(x); });
}
VariableMap leaf(const VariableMap& xs) { return with_values(xs, leaf(values(xs))); }

Variable value_of(const Variable& y, const Variable& x) {
  return x.requires_grad() ? y : y.detach();
}
Variable value_of(const Variable& y, const std::vector<Variable>& xs) {
  return std::ranges::any_of(xs, &Variable::requires_grad) ? y : y.detach();
}
Variable value_of(const Variable& y, const VariableMap& xs) { return value_of(y, values(xs)); }

Variable gradient(const Variable& y, const Variable& x) {
  return gradient(y, std::vector<Variable>{x})[0];
}
std::vector<Variable> gradient(const Variable& y, const std::vector<Variable>& xs) {
  if (y.numel() != 1) fail<ShapeError>("grad: the function returns one element, not ", y.shape());
  std::vector<Variable> gradients(xs.size());
  if (y.requires_grad())  // otherwise y does not depend on xs
    gradients = tapegrad::grad(
        y, xs, {.create_graph = std::ranges::any_of(xs, has_history), .allow_unused = true});
  for (size_t i = 0; i < xs.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = zeros_like(xs[i].detach());
  return gradients;
}
VariableMap gradient(const Variable& y, const VariableMap& xs) {
  return with_values(xs, gradient(y, values(xs)));
}

void fail_no_variable(int index) {
  fail<ArgumentError>("grad: argument ", index, " is not a Variable");
}
void check_argument(int index, size_t count) {
  if (index < 0 || size_t(index) >= count)
    fail<IndexError>("grad: argument ", index, " of a function of ", count, " arguments");
}

int64_t size_of(const Variable& x, InDim dim) { return dim.dim ? x.size(*dim.dim) : -1; }
int64_t size_of(const std::vector<Variable>& xs, InDim dim) {
  return dim.dim && !xs.empty() ? size_of(xs[0], dim) : -1;
}
int64_t size_of(const VariableMap& xs, InDim dim) { return size_of(values(xs), dim); }

Variable at(const Variable& x, InDim dim, int64_t index) {
  return dim.dim ? select(x, *dim.dim, index) : x;
}
std::vector<Variable> at(const std::vector<Variable>& xs, InDim dim, int64_t index) {
  return each(xs, [&](const Variable& x) { return at(x, dim, index); });
}
VariableMap at(const VariableMap& xs, InDim dim, int64_t index) {
  return with_values(xs, at(values(xs), dim, index));
}

int64_t size_of(const std::vector<nn::NamedVariable>& xs, InDim dim) {
  return dim.dim && !xs.empty() ? size_of(xs[0].variable, dim) : -1;
}
VariableMap at(const std::vector<nn::NamedVariable>& xs, InDim dim, int64_t index) {
  VariableMap map;
  for (const nn::NamedVariable& x : xs) map.emplace(x.name, at(x.variable, dim, index));
  return map;
}

Variable join(const std::vector<Variable>& parts, int out_dim) { return stack(parts, out_dim); }
std::vector<Variable> join(const std::vector<std::vector<Variable>>& parts, int out_dim) {
  std::vector<Variable> result;
  for (size_t k = 0; k < parts[0].size(); ++k) {
    std::vector<Variable> column;
    for (const std::vector<Variable>& part : parts) column.push_back(part[k]);
    result.push_back(stack(column, out_dim));
  }
  return result;
}
VariableMap join(const std::vector<VariableMap>& parts, int out_dim) {
  std::vector<std::vector<Variable>> lists;
  for (const VariableMap& part : parts) lists.push_back(values(part));
  return with_values(parts[0], join(lists, out_dim));
}

void check_dims(const VmapOptions& options, size_t arguments) {
  size_t given = 0;
  while (given < std::size(options.in_dims) && options.in_dims[given].is_given) ++given;
  if (arguments > std::size(options.in_dims) || (given > 0 && given != arguments))
    fail<ArgumentError>("vmap: ", given, " in_dims for ", arguments, " arguments, of at most ",
                        std::size(options.in_dims));
}

int64_t common_size(std::initializer_list<int64_t> sizes) {
  int64_t common = -1;
  for (const int64_t size : sizes) {
    if (size < 0) continue;
    if (common >= 0 && size != common)
      fail<ShapeError>("vmap: the sizes of the arguments are ", common, " and ", size);
    common = size;
  }
  if (common < 1)
    fail<ArgumentError>("vmap: no argument has a dimension of at least one element to go along");
  return common;
}

}  // namespace tapegrad::func::detail

namespace tapegrad::func {

std::pair<VariableMap, VariableMap> stack_module_state(const std::vector<nn::Module*>& models) {
  if (models.empty()) fail<ArgumentError>("stack_module_state: no models");
  const NoGrad no_grad;
  for (const nn::Module* model : models) {
    if (model == nullptr) fail<ArgumentError>("stack_module_state: a model is null");
    if (model->is_training() != models[0]->is_training())
      fail<ArgumentError>("stack_module_state: some models train and others do not");
  }
  const auto stacked = [&](nn::NamedVariables (nn::Module::*list)() const) {
    std::map<std::string, std::vector<Variable>> parts;
    for (const nn::Module* model : models)
      for (nn::NamedVariable& named : (model->*list)())
        parts[named.name].push_back(named.variable.detach());
    VariableMap result;
    for (const auto& [name, values] : parts) {
      if (values.size() != models.size())
        fail<ArgumentError>("stack_module_state: only ", values.size(), " of ", models.size(),
                            " models have \"", name, '"');
      result[name] = stack(values);
    }
    return result;
  };
  VariableMap parameters = stacked(&nn::Module::named_parameters);
  for (auto& [name, parameter] : parameters) parameter.requires_grad_();
  return {std::move(parameters), stacked(&nn::Module::named_buffers)};
}

}  // namespace tapegrad::func

namespace tapegrad {
InDim::InDim(NewAxis) : is_given(true), dim() {}
InDim::InDim(std::nullopt_t) : InDim(NewAxis()) {}
}  // namespace tapegrad
