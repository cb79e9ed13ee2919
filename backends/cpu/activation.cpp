#include "ops/activation.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"
#include "backends/formulas_activation.h"

namespace tapegrad::backends::cpu {

void register_activation() {
  register_unary_formula<formulas::Sigmoid>(kernels::sigmoid, kFloatTypes);
  register_unary_formula<formulas::Relu>(kernels::relu, kFloatTypes);
  register_unary_formula<formulas::GeluErf>(kernels::gelu_erf, kFloatTypes);
  register_unary_formula<formulas::GeluTanh>(kernels::gelu_tanh, kFloatTypes);
  register_unary_formula<formulas::Silu>(kernels::silu, kFloatTypes);
  register_unary_formula<formulas::Mish>(kernels::mish, kFloatTypes);
  register_unary_formula<formulas::Hardsigmoid>(kernels::hardsigmoid, kFloatTypes);
  register_unary_formula<formulas::Hardswish>(kernels::hardswish, kFloatTypes);

  register_binary_formula<formulas::SigmoidBackward>(kernels::sigmoid_backward, kFloatTypes);
  register_binary_formula<formulas::ReluBackward>(kernels::relu_backward, kFloatTypes);
  register_binary_formula<formulas::GeluErfBackward>(kernels::gelu_erf_backward, kFloatTypes);
  register_binary_formula<formulas::GeluTanhBackward>(kernels::gelu_tanh_backward, kFloatTypes);
  register_binary_formula<formulas::SiluBackward>(kernels::silu_backward, kFloatTypes);
  register_binary_formula<formulas::MishBackward>(kernels::mish_backward, kFloatTypes);
  register_binary_formula<formulas::HardswishBackward>(kernels::hardswish_backward, kFloatTypes);

  constexpr DeviceType kCpu = DeviceType::kCpu;
  set_kernel(kernels::leaky_relu, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& x, double slope, Tensor& y) {
               map<T>(formulas::LeakyRelu{slope}, y, x);
             });
  set_kernel(kernels::elu, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& x, double alpha, double scale, Tensor& y) {
               map<T>(formulas::Elu{alpha, scale}, y, x);
             });
  set_kernel(kernels::elu_backward, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& dy, const Tensor& x, double alpha, double scale,
                            Tensor& dx) {
               map<T>(formulas::EluBackward{alpha, scale}, dx, dy, x);
             });
  set_kernel(kernels::softplus, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& x, double beta, double threshold, Tensor& y) {
               map<T>(formulas::Softplus{beta, threshold}, y, x);
             });
  set_kernel(kernels::softplus_backward, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& dy, const Tensor& x, double beta,
                            double threshold, Tensor& dx) {
               map<T>(formulas::SoftplusBackward{beta, threshold}, dx, dy, x);
             });
}

}  // namespace tapegrad::backends::cpu
