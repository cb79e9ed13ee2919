#include "nn/functional_call.h"

#include <set>

#include "core/tape/recording.h"
#include "ops/rearrange.h"

namespace tapegrad {

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

Variable utils::parameters_to_vector(const std::vector<Variable>& parameters) {
  std::vector<Variable> parts;
  for (const Variable& p : parameters) parts.push_back(flatten(p));
  if (parts.empty()) fail<ArgumentError>("parameters_to_vector: no parameters");
  return cat(parts);
}
void utils::vector_to_parameters(const Variable& vector, const std::vector<Variable>& parameters) {
  int64_t count = 0, begin = 0;
  for (const Variable& p : parameters) count += p.numel();
  if (vector.rank() != 1 || vector.numel() != count)
    fail<ShapeError>("vector_to_parameters: ", vector.shape(), " for parameters of ", count,
                     " elements in all");
  const NoGrad no_grad;
  for (Variable p : parameters) {
    copy_(p, reshape(narrow(vector, 0, begin, p.numel()), p.shape()));
    begin += p.numel();
  }
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
    for (const auto& [old, fresh] : changes)
      if (member->is_same(old) && !fresh->is_same(given->second))
        fail<ArgumentError>("functional_call: ", path,
                            " is tied to a parameter that is given another value");
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

VariableMap detail::map_of(const NamedList<NamedVariable>& parameters) {
  VariableMap map;
  for (const NamedVariable& p : parameters) map.emplace(p.name, p.variable);
  return map;
}
VariableMap detail::map_of(const TensorMap& state) {
  VariableMap map;
  for (const auto& [name, value] : state) map.emplace(name, Variable(value));
  return map;
}

ReplacedParameters::~ReplacedParameters() {
  for (auto& [member, old] : before_) *member = std::move(old);
}

}  // namespace nn
}  // namespace tapegrad
