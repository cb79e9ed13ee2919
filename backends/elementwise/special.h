// Registers the elementwise kernels of ops/special.h.
#pragma once

#include "backends/elementwise/elementwise.h"
#include "backends/formulas_bessel.h"
#include "backends/formulas_special.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/kernels/special.h"
#include "ops/special.h"

namespace tapegrad::backends {

template <typename Device, auto& kKernel, typename Slope>
void register_slope() {
  Elementwise<Device>::template set<kKernel, formulas::SlopeBackward<Slope>>(kFloatTypes);
}

template <typename Device>
void register_special_kernels() {
  using D = Elementwise<Device>;
  D::template set<kernels::sinh, formulas::Sinh>(kFloatTypes);
  D::template set<kernels::cosh, formulas::Cosh>(kFloatTypes);
  D::template set<kernels::asin, formulas::Asin>(kFloatTypes);
  D::template set<kernels::acos, formulas::Acos>(kFloatTypes);
  D::template set<kernels::atan, formulas::Atan>(kFloatTypes);
  D::template set<kernels::asinh, formulas::Asinh>(kFloatTypes);
  D::template set<kernels::acosh, formulas::Acosh>(kFloatTypes);
  D::template set<kernels::atanh, formulas::Atanh>(kFloatTypes);
  D::template set<kernels::erfc, formulas::Erfc>(kFloatTypes);
  D::template set<kernels::erfinv, formulas::Erfinv>(kFloatTypes);
  D::template set<kernels::lgamma, formulas::Lgamma>(kFloatTypes);
  D::template set<kernels::digamma, formulas::Digamma>(kFloatTypes);
  D::template set<kernels::sinc, formulas::Sinc>(kFloatTypes);
  D::template set<kernels::special_function, formulas::SpecialFunctionOf>(kFloatTypes);
  D::template set<kernels::igamma, formulas::IncompleteGamma<false>>(kFloatTypes);
  D::template set<kernels::igammac, formulas::IncompleteGamma<true>>(kFloatTypes);
  D::template set<kernels::gamma_slope, formulas::GammaSlope>(kFloatTypes);
  D::template set<kernels::zeta, formulas::Zeta>(kFloatTypes);

  register_slope<Device, kernels::asin_backward, formulas::AsinSlope>();
  register_slope<Device, kernels::acos_backward, formulas::AcosSlope>();
  register_slope<Device, kernels::atan_backward, formulas::AtanSlope>();
  register_slope<Device, kernels::asinh_backward, formulas::AsinhSlope>();
  register_slope<Device, kernels::acosh_backward, formulas::AcoshSlope>();
  register_slope<Device, kernels::atanh_backward, formulas::AtanhSlope>();
  register_slope<Device, kernels::erfc_backward, formulas::ErfcSlope>();

  Device::template set<kernels::polygamma>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, int64_t n, Tensor& y) {
        n == 1 ? Device::template map<T>(formulas::Trigamma{}, y, x)
               : Device::template map<T>(formulas::Polygamma{n}, y, x);
      });

  Device::template set<kernels::nan_to_num>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, double nan, double posinf,
                                  double neginf, Tensor& y) {
        using S = Compute<T>;
        Device::template map<T>(formulas::NanToNum<S>{S(nan), S(posinf), S(neginf)}, y, x);
      });
}

}  // namespace tapegrad::backends
