#include "core/tape/grad.h"

namespace tapegrad {
std::vector<Variable> grad(const Variable& y, std::span<const Variable> xs, GradOptions options,
                           Where where) {
  return grad(y, xs, {}, options, where);
}
std::vector<Variable> grad(const Variable& y, std::initializer_list<Variable> xs,
                           GradOptions options, Where where) {
  return grad(y, std::span<const Variable>(xs.begin(), xs.size()), {}, options, where);
}
std::vector<Variable> grad(std::initializer_list<Variable> ys, std::initializer_list<Variable> xs,
                           GradOptions options, Where where) {
  return grad(std::span<const Variable>(ys.begin(), ys.size()),
              std::span<const Variable>(xs.begin(), xs.size()), {}, options, where);
}
std::vector<Variable> grad(VariableList ys, VariableList xs, VariableList seeds,
                           std::optional<bool> retain_graph, bool create_graph, bool allow_unused) {
  return grad(ys, xs, seeds,
              {.retain_graph = retain_graph.value_or(create_graph),
               .create_graph = create_graph,
               .allow_unused = allow_unused});
}
}  // namespace tapegrad
