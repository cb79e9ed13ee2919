#include "ops/epilogue.h"

#include "core/dispatch/kernels.h"
#include "ops/activation.h"

namespace tapegrad {
namespace {

/// Kernel of an activation that captured steps on the CPU turn into an epilogue.
struct EpilogueKernel {
  const KernelTable* kernel;
  Activation activation;
};

// The tanh GELU has no row: no kernel of the CPU computes it in the same pass as the layer, so a
// separate call, which may join a segment, is at least as fast.
const EpilogueKernel kEpilogueKernels[] = {{&kernels::relu, Activation::kRelu}};

}  // namespace

bool Epilogue::absorb(const KernelTable& behind) {
  if (activation != Activation::kNone) return false;
  for (const EpilogueKernel& row : kEpilogueKernels)
    if (row.kernel == &behind) {
      activation = row.activation;
      return true;
    }
  return false;
}

void kernels::run_epilogue(const Epilogue& epilogue, const Tensor& z, Tensor& y) {
  switch (epilogue.activation) {
    case tapegrad::Activation::kNone:
      if (!y.shares_storage(z)) copy(z, y);
      return;
    case tapegrad::Activation::kRelu:
      return relu(z, y);
    case tapegrad::Activation::kGelu:
      return gelu_tanh(z, y);
  }
}

void kernels::run_epilogue_backward(const Epilogue& epilogue, const Tensor& dy, Tensor& dz) {
  switch (epilogue.activation) {
    case tapegrad::Activation::kNone:
      if (!dz.shares_storage(dy)) copy(dy, dz);
      return;
    case tapegrad::Activation::kRelu:
      return relu_backward(dy, epilogue.at, dz);
    case tapegrad::Activation::kGelu:
      return gelu_tanh_backward(dy, epilogue.at, dz);
  }
}

}  // namespace tapegrad
