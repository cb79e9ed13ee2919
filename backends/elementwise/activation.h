// Registers the elementwise kernels of ops/activation.h, and those of ops/loss.h.
#pragma once

#include "backends/elementwise/elementwise.h"
#include "backends/formulas_activation.h"
#include "ops/activation.h"
#include "ops/internal/kernels/pointwise.h"

namespace tapegrad::backends {

/// Registers kernels with numbers that are compared with elements: they are rounded to T first.
template <typename Device>
void register_shrinking_kernels() {
  Device::template set<kernels::threshold>(
      kFloatTypes,
      []<typename T>(TypeTag<T>, const Tensor& x, double threshold, double value, Tensor& y) {
        using S = Compute<T>;
        Device::template map<T>(
            formulas::Threshold<S>{S(convert<T>(threshold)), S(convert<T>(value))}, y, x);
      });
  Device::template set<kernels::hardshrink>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, double lambd, Tensor& y) {
        using S = Compute<T>;
        Device::template map<T>(formulas::Hardshrink<S>{S(convert<T>(lambd))}, y, x);
      });
  Device::template set<kernels::softshrink>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, double lambd, Tensor& y) {
        using S = Compute<T>;
        Device::template map<T>(formulas::Softshrink<S>{S(convert<T>(lambd))}, y, x);
      });
  Device::template set<kernels::shrink_backward>(
      kFloatTypes,
      []<typename T>(TypeTag<T>, const Tensor& dy, const Tensor& x, double lambd, Tensor& dx) {
        using S = Compute<T>;
        Device::template map<T>(formulas::ShrinkBackward<S>{S(convert<T>(lambd))}, dx, dy, x);
      });
}

/// The numbers are not rounded to T: the inverse of a small bound is large.
template <typename Device>
void register_huber_kernels() {
  Device::template set<kernels::huber>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, const Tensor& target, double bound,
                                  double scale, Tensor& y) {
        using S = Compute<T>;
        Device::template map<T>(formulas::Huber<S>{S(bound), S(scale)}, y, x, target);
      });
  Device::template set<kernels::huber_backward>(kFloatTypes, []<typename T>(
                                                                 TypeTag<T>, const Tensor& dy,
                                                                 const Tensor& x,
                                                                 const Tensor& target, double bound,
                                                                 double scale, Tensor& dx) {
    using S = Compute<T>;
    Device::template map<T>(formulas::HuberBackward<S>{{S(bound), S(scale)}}, dx, dy, x, target);
  });
}

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
  D::template set<kernels::log_sigmoid_backward, formulas::LogSigmoidBackward>(kFloatTypes);
  D::template set<kernels::relu_backward, formulas::ReluBackward>(kFloatTypes);
  D::template set<kernels::gelu_erf_backward, formulas::GeluErfBackward>(kFloatTypes);
  D::template set<kernels::gelu_tanh_backward, formulas::GeluTanhBackward>(kFloatTypes);
  D::template set<kernels::silu_backward, formulas::SiluBackward>(kFloatTypes);
  D::template set<kernels::mish_backward, formulas::MishBackward>(kFloatTypes);
  D::template set<kernels::hardswish_backward, formulas::HardswishBackward>(kFloatTypes);

  register_shrinking_kernels<Device>();
  register_huber_kernels<Device>();
  D::template set<kernels::mse, formulas::Mse>(kFloatTypes);
  D::template set<kernels::mse_backward, formulas::MseBackward>(kFloatTypes);
  D::template set<kernels::bce_with_logits, formulas::BceWithLogits>(kFloatTypes);
  D::template set<kernels::bce_with_logits_backward, formulas::BceWithLogitsBackward>(kFloatTypes);
  D::template set<kernels::celu, formulas::Celu>(kFloatTypes);
  D::template set<kernels::celu_backward, formulas::CeluBackward>(kFloatTypes);
  D::template set<kernels::prelu, formulas::Prelu>(kFloatTypes);
  D::template set<kernels::prelu_backward, formulas::PreluBackward>(kFloatTypes);
  D::template set<kernels::prelu_backward_weight, formulas::PreluBackwardWeight>(kFloatTypes);
  D::template set<kernels::glu, formulas::Glu>(kFloatTypes);
  D::template set<kernels::glu_backward, formulas::Glu>(kFloatTypes);
  D::template set<kernels::glu_backward_gate, formulas::GluBackwardGate>(kFloatTypes);

  D::template set<kernels::leaky_relu, formulas::LeakyRelu>(kFloatTypes);
  D::template set<kernels::elu, formulas::Elu>(kFloatTypes);
  D::template set<kernels::elu_backward, formulas::EluBackward>(kFloatTypes);
  D::template set<kernels::softplus, formulas::Softplus>(kFloatTypes);
  D::template set<kernels::softplus_backward, formulas::SoftplusBackward>(kFloatTypes);
}

}  // namespace tapegrad::backends
