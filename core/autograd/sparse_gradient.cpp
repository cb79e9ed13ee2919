#include "core/autograd/sparse_gradient.h"

#include "core/tape/internal/backward.h"

namespace tapegrad {

RowGradientPtr row_gradient(const Variable& leaf) {
  if (!leaf.edge() || !leaf.is_leaf()) return nullptr;
  return static_cast<const Leaf&>(*leaf.edge().node).rows();
}

bool takes_rows(size_t input) {
  const BackwardPass* pass = BackwardPass::running();
  return pass != nullptr && pass->takes_rows(running_node()->edges()[input]);
}

void send_rows(size_t input, RowGradientPtr gradient) {
  BackwardPass::running()->send_rows(running_node()->edges()[input], std::move(gradient));
}

}  // namespace tapegrad
