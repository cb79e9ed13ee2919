// Registers the elementwise kernels of ops/unary.h.
#pragma once

#include "backends/elementwise/elementwise.h"
#include "backends/formulas_unary.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/unary.h"

namespace tapegrad::backends {

template <typename Device>
void register_unary_kernels() {
  using D = Elementwise<Device>;
  D::template set<kernels::neg, formulas::Neg>(kNumberTypes);
  D::template set<kernels::abs, formulas::Abs>(kNumberTypes);
  D::template set<kernels::sign, formulas::Sign>(kNumberTypes);
  D::template set<kernels::square, formulas::Square>(kNumberTypes);
  D::template set<kernels::cube, formulas::Cube>(kFloatTypes);
  D::template set<kernels::step, formulas::Step>(kNumberTypes);
  D::template set<kernels::exp, formulas::Exp>(kFloatTypes);
  D::template set<kernels::expm1, formulas::Expm1>(kFloatTypes);
  D::template set<kernels::log, formulas::Log>(kFloatTypes);
  D::template set<kernels::log1p, formulas::Log1p>(kFloatTypes);
  D::template set<kernels::log2, formulas::Log2>(kFloatTypes);
  D::template set<kernels::log10, formulas::Log10>(kFloatTypes);
  D::template set<kernels::sqrt, formulas::Sqrt>(kFloatTypes);
  D::template set<kernels::rsqrt, formulas::Rsqrt>(kFloatTypes);
  D::template set<kernels::reciprocal, formulas::Reciprocal>(kFloatTypes);
  D::template set<kernels::sin, formulas::Sin>(kFloatTypes);
  D::template set<kernels::cos, formulas::Cos>(kFloatTypes);
  D::template set<kernels::tan, formulas::Tan>(kFloatTypes);
  D::template set<kernels::tanh, formulas::Tanh>(kFloatTypes);
  D::template set<kernels::erf, formulas::Erf>(kFloatTypes);
  D::template set<kernels::floor, formulas::Floor>(kFloatTypes);
  D::template set<kernels::ceil, formulas::Ceil>(kFloatTypes);
  D::template set<kernels::round, formulas::Round>(kFloatTypes);
  D::template set<kernels::trunc, formulas::Trunc>(kFloatTypes);
  D::template set<kernels::exp2, formulas::Exp2>(kFloatTypes);
  D::template set<kernels::frac, formulas::Frac>(kFloatTypes);
  // The bounds are compared with elements: they are rounded to T first.
  Device::template set<kernels::logit>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, double low, double high, Tensor& y) {
        using S = Compute<T>;
        Device::template map<T>(formulas::Logit<S>{S(convert<T>(low)), S(convert<T>(high))}, y, x);
      });
  Device::template set<kernels::logit_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& dy, const Tensor& x, double low,
                                  double high, Tensor& dx) {
        using S = Compute<T>;
        const formulas::LogitBackward<S> formula{S(convert<T>(low)), S(convert<T>(high))};
        Device::template map<T>(formula, dx, dy, x);
      });
  D::template set_predicate<kernels::logical_not, formulas::LogicalNot>(kNumberTypes);
  D::template set_predicate<kernels::logical_not, formulas::LogicalNot>(
      TypeList<int8_t, int16_t>{});
  Device::template set<kernels::logical_not>(
      TypeList<bool>{}, [](TypeTag<bool>, const Tensor& x, Tensor& y) {
        Device::template map<uint8_t, uint8_t>(formulas::FlipBool{}, y, x);
      });
  D::template set_predicate<kernels::signbit, formulas::SignBit>(kFloatTypes);
  D::template set_predicate<kernels::isnan, formulas::IsNan>(kAllTypes);
  D::template set_predicate<kernels::isfinite, formulas::IsFinite>(kAllTypes);
  D::template set<kernels::abs_backward, formulas::AbsBackward>(kFloatTypes);
  D::template set<kernels::square_backward, formulas::SquareBackward>(kFloatTypes);
  D::template set<kernels::cube_backward, formulas::CubeBackward>(kFloatTypes);
  D::template set<kernels::expm1_backward, formulas::Expm1Backward>(kFloatTypes);
  D::template set<kernels::log1p_backward, formulas::Log1pBackward>(kFloatTypes);
  D::template set<kernels::sqrt_backward, formulas::SqrtBackward>(kFloatTypes);
  D::template set<kernels::rsqrt_backward, formulas::RsqrtBackward>(kFloatTypes);
  D::template set<kernels::reciprocal_backward, formulas::ReciprocalBackward>(kFloatTypes);
  D::template set<kernels::sin_backward, formulas::SinBackward>(kFloatTypes);
  D::template set<kernels::cos_backward, formulas::CosBackward>(kFloatTypes);
  D::template set<kernels::tan_backward, formulas::TanBackward>(kFloatTypes);
  D::template set<kernels::tanh_backward, formulas::TanhBackward>(kFloatTypes);
  D::template set<kernels::erf_backward, formulas::ErfBackward>(kFloatTypes);

  Device::template set<kernels::clamp>(kNumberTypes, []<typename T>(TypeTag<T>, const Tensor& x,
                                                                    Number min, Number max,
                                                                    Tensor& y) {
    using S = Compute<T>;
    Device::template map<T>(formulas::Clamp<S>{S(min.saturated<T>()), S(max.saturated<T>())}, y, x);
  });
  Device::template set<kernels::piecewise>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& dy, const Tensor& x,
                                  const kernels::Pieces& p, Tensor& dx) {
        using S = Compute<T>;
        const auto bound = [](double value) { return S(convert<T>(value)); };
        Device::template map<T>(formulas::Piecewise<S>{bound(p.low), bound(p.high), S(p.below),
                                                       S(p.between), S(p.above), p.closed},
                                dx, dy, x);
      });
}

}  // namespace tapegrad::backends
