#include "ops/special.h"

#include "backends/cpu/map.h"
#include "backends/cpu/register.h"
#include "backends/formulas_special.h"

namespace tapegrad::backends::cpu {
namespace {

template <double (*f)(double)>
void of_floats(Kernel<void(const Tensor&, Tensor&)>& kernel) {
  register_unary_formula<formulas::InDouble<f>>(kernel, kFloatTypes);
}

}  // namespace

void register_special() {
  of_floats<::sinh>(kernels::sinh);
  of_floats<::cosh>(kernels::cosh);
  of_floats<::asin>(kernels::asin);
  of_floats<::acos>(kernels::acos);
  of_floats<::atan>(kernels::atan);
  of_floats<::asinh>(kernels::asinh);
  of_floats<::acosh>(kernels::acosh);
  of_floats<::atanh>(kernels::atanh);
  of_floats<::erfc>(kernels::erfc);
  of_floats<formulas::special::erfinv>(kernels::erfinv);
  of_floats<formulas::special::log_gamma>(kernels::lgamma);
  of_floats<formulas::special::digamma>(kernels::digamma);
  of_floats<formulas::special::sinc>(kernels::sinc);

  constexpr DeviceType kCpu = DeviceType::kCpu;
  set_kernel(kernels::polygamma, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& x, int64_t n, Tensor& y) {
               map<T>(formulas::Polygamma(n), y, x);
             });
  set_kernel(kernels::nan_to_num, kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& x, double nan, double posinf, double neginf,
                            Tensor& y) {
               using S = Compute<T>;
               map<T>(formulas::NanToNum<S>{S(nan), S(posinf), S(neginf)}, y, x);
             });
}

}  // namespace tapegrad::backends::cpu
