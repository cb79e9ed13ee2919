#include "ops/unary.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"
#include "backends/formulas_unary.h"

namespace tapegrad::backends::cpu {
namespace {

template <typename Formula>
void of_numbers(kernels::Unary& kernel) {
  register_unary_formula<Formula>(kernel, kNumberTypes);
}
template <typename Formula>
void of_floats(kernels::Unary& kernel) {
  register_unary_formula<Formula>(kernel, kFloatTypes);
}

}  // namespace

void register_unary() {
  of_numbers<formulas::Neg>(kernels::neg);
  of_numbers<formulas::Abs>(kernels::abs);
  of_numbers<formulas::Sign>(kernels::sign);
  of_numbers<formulas::Square>(kernels::square);
  of_numbers<formulas::Step>(kernels::step);
  of_floats<formulas::Exp>(kernels::exp);
  of_floats<formulas::Expm1>(kernels::expm1);
  of_floats<formulas::Log>(kernels::log);
  of_floats<formulas::Log1p>(kernels::log1p);
  of_floats<formulas::Log2>(kernels::log2);
  of_floats<formulas::Sqrt>(kernels::sqrt);
  of_floats<formulas::Rsqrt>(kernels::rsqrt);
  of_floats<formulas::Reciprocal>(kernels::reciprocal);
  of_floats<formulas::Sin>(kernels::sin);
  of_floats<formulas::Cos>(kernels::cos);
  of_floats<formulas::Tan>(kernels::tan);
  of_floats<formulas::Tanh>(kernels::tanh);
  of_floats<formulas::Erf>(kernels::erf);
  of_floats<formulas::Floor>(kernels::floor);
  of_floats<formulas::Ceil>(kernels::ceil);
  of_floats<formulas::Round>(kernels::round);
  of_floats<formulas::Trunc>(kernels::trunc);
  register_unary_predicate<formulas::IsNan>(kernels::isnan, kAllTypes);
  register_unary_predicate<formulas::IsFinite>(kernels::isfinite, kAllTypes);

  constexpr DeviceType kCpu = DeviceType::kCpu;
  set_kernel(kernels::clamp, kCpu, kNumberTypes,
             []<typename T>(Type<T>, const Tensor& x, Number min, Number max, Tensor& y) {
               using S = Compute<T>;
               map<T>(formulas::Clamp<S>{S(min.to<T>()), S(max.to<T>())}, y, x);
             });
  set_kernel(kernels::piecewise, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& dy, const Tensor& x, const kernels::Pieces& p,
                            Tensor& dx) {
               using S = Compute<T>;
               const auto bound = [](double value) { return S(convert<T>(value)); };
               map<T>(formulas::Piecewise<S>{bound(p.low), bound(p.high), S(p.below), S(p.between),
                                             S(p.above), p.closed},
                      dx, dy, x);
             });
  register_binary_formula<formulas::TanhBackward>(kernels::tanh_backward, kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
