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

  Device::template set<kernels::leaky_relu>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& x, double slope, Tensor& y) {
        Device::template map<T>(formulas::LeakyRelu{slope}, y, x);
      });
  Device::template set<kernels::elu>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& x, double alpha, double scale, Tensor& y) {
        Device::template map<T>(formulas::Elu{alpha, scale}, y, x);
      });
  Device::template set<kernels::elu_backward>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& dy, const Tensor& x, double alpha,
                                  double scale, Tensor& dx) {
        Device::template map<T>(formulas::EluBackward{alpha, scale}, dx, dy, x);
      });
  Device::template set<kernels::softplus>(
      kFloatTypes,
      []<typename T>(Type<T>, const Tensor& x, double beta, double threshold, Tensor& y) {
        Device::template map<T>(formulas::Softplus{beta, threshold}, y, x);
      });
  Device::template set<kernels::softplus_backward>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& dy, const Tensor& x, double beta,
                                  double threshold, Tensor& dx) {
        Device::template map<T>(formulas::SoftplusBackward{beta, threshold}, dx, dy, x);
      });
}

}  // namespace tapegrad::backends
