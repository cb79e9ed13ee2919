#include "ops/epilogue.h"

#include "core/dispatch/kernels.h"
#include "ops/activation.h"

namespace tapegrad {

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
