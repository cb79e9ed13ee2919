#include "nn/functional_call.h"

#include <set>

#include "ops/rearrange.h"

namespace tapegrad {

void detail::fail_vmap(const Shape& x, const Shape& y) {
  fail<ShapeError>("vmap: dimension 0 of the arguments must be equal and not 0: ", x, " and ", y);
}

Variable detail::stack_all(const std::vector<Variable>& parts) {
  if (parts.empty()) fail<ArgumentError>("per_sample_gradients: no examples");
  return stack(parts);
}

namespace nn {

VariableMap parameter_map(const Module& model) {
  VariableMap map;
  for (NamedVariable& named : model.named_parameters())
    map.emplace(std::move(named.name), std::move(named.variable));
  return map;
}

ReplacedParameters::ReplacedParameters(Module& model, const VariableMap& values) {
  struct Finder final : MemberVisitor {
    std::vector<std::pair<std::string, Variable*>> found;
    void on_parameter(const std::string& path, Variable& x) override {
      found.push_back({path, &x});
    }
    void on_buffer(const std::string& path, Variable& x) override { found.push_back({path, &x}); }
  } finder;
  model.visit(finder);
  std::vector<std::pair<Variable, const Variable*>> changes;  // old and new
  std::set<std::string> known;
  for (const auto& [path, member] : finder.found) {
    known.insert(path);
    const auto given = values.find(path);
    if (given == values.end()) continue;
    if (given->second.shape() != member->shape())
      fail<ArgumentError>("functional_call: ", path, " is ", member->shape(), ", given ",
                          given->second.shape());
    changes.emplace_back(*member, &given->second);
  }
  for (const auto& [name, value] : values)
    if (!known.contains(name)) fail<ArgumentError>("functional_call: no parameter \"", name, "\"");
  for (const auto& [path, member] : finder.found)
    for (const auto& [old, fresh] : changes)
      if (member->is_same(old)) {
        before_.emplace_back(member, *member);
        *member = *fresh;
        break;
      }
}

ReplacedParameters::~ReplacedParameters() {
  for (auto& [member, old] : before_) *member = std::move(old);
}

}  // namespace nn
}  // namespace tapegrad
