#include "core/autograd/sparse_gradient.h"

#include "core/autograd/internal/capture.h"
#include "core/tape/internal/backward.h"

namespace tapegrad {

RowGradientPtr row_gradient(const Variable& leaf) {
  if (!leaf.edge() || !leaf.is_leaf()) return nullptr;
  return static_cast<const Leaf&>(*leaf.edge().node).rows();
}

Variable gradient_values(const Variable& leaf) {
  const RowGradientPtr rows = row_gradient(leaf);
  return rows ? Variable(rows->rows()) : leaf.grad();
}

bool takes_rows(size_t input) {
  const BackwardPass* pass = BackwardPass::running();
  if (pass == nullptr || !pass->takes_rows(running_node()->edges()[input])) return false;
  if (Capture* capture = Capture::current())
    capture->give_up("the gradient of an embedding is kept as rows, whose number changes");
  return true;
}

void send_rows(size_t input, RowGradientPtr gradient) {
  BackwardPass::running()->send_rows(running_node()->edges()[input], std::move(gradient));
}

}  // namespace tapegrad
