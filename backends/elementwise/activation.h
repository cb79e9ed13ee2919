// Registers the elementwise kernels of ops/activation.h.
#pragma once

#include "backends/elementwise/elementwise.h"
#include "backends/formulas_activation.h"
#include "ops/activation.h"

namespace tapegrad::backends {

template <typename Device>
void register_activation_kernels() {
  using D = Elementwise<Device>;
  D::template set<kernels::sigmoid, formulas::Sigmoid>(kFloatTypes);
  D::template set<kernels::relu, formulas::Relu>(kFloatTypes);
  D::template set<kernels::gelu_erf, formulas::GeluErf>(kFloatTypes);
  D::template set<kernels::gelu_tanh, formulas::GeluTanh>(kFloatTypes);
  D::template set<kernels::silu, formulas::Silu>(kFloatTypes);
  D::template set<kernels::mish, formulas::Mish>(kFloatTypes);
  D::template set<kernels::hardsigmoid, formulas::Hardsigmoid>(kFloatTypes);
  D::template set<kernels::hardswish, formulas::Hardswish>(kFloatTypes);

  D::template set<kernels::sigmoid_backward, formulas::SigmoidBackward>(kFloatTypes);
  D::template set<kernels::relu_backward, formulas::ReluBackward>(kFloatTypes);
  D::template set<kernels::gelu_erf_backward, formulas::GeluErfBackward>(kFloatTypes);
  D::template set<kernels::gelu_tanh_backward, formulas::GeluTanhBackward>(kFloatTypes);
  D::template set<kernels::silu_backward, formulas::SiluBackward>(kFloatTypes);
  D::template set<kernels::mish_backward, formulas::MishBackward>(kFloatTypes);
  D::template set<kernels::hardswish_backward, formulas::HardswishBackward>(kFloatTypes);

  D::template set<kernels::leaky_relu, formulas::LeakyRelu>(kFloatTypes);
  D::template set<kernels::elu, formulas::Elu>(kFloatTypes);
  D::template set<kernels::elu_backward, formulas::EluBackward>(kFloatTypes);
  D::template set<kernels::softplus, formulas::Softplus>(kFloatTypes);
  D::template set<kernels::softplus_backward, formulas::SoftplusBackward>(kFloatTypes);
}

}  // namespace tapegrad::backends
