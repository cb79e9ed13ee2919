// Fourier transforms by cuFFT, else by the CPU.
#include "ops/fft.h"

#include "backends/cuda/cufft/transform.h"
#include "backends/cuda/device/spectra.h"
#include "backends/cuda/register.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/by_cpu.h"

namespace tapegrad::backends::cuda {
namespace {

using cufft::Kind;
using Real = OneOf<float, double>;

bool scaled(Kind kind, const Tensor& x, double factor, Tensor& y) {
  if (!cufft::transform(kind, x, y)) return false;
  if (factor != 1) scale(y, factor);
  return true;
}

struct ComplexByCufft {
  static constexpr std::string_view kName = "cufft";
  static bool accepts(const Tensor&, bool, double, Tensor&) { return true; }
  static bool run(Real, const Tensor& x, bool inverse, double factor, Tensor& y) {
    return scaled(inverse ? Kind::kInverse : Kind::kForward, x, factor, y);
  }
};

struct ToComplexByCufft {
  static constexpr std::string_view kName = "cufft";
  static bool accepts(const Tensor&, double, double, Tensor&) { return true; }
  static bool run(Real, const Tensor& x, double factor, double ends, Tensor& y) {
    if (ends == 1) return scaled(Kind::kRealToComplex, x, factor, y);
    if (!cufft::transform(Kind::kRealToComplex, x, y)) return false;
    scale_spectra(y, x.shape()[1], factor, ends);
    return true;
  }
};

struct ToRealByCufft {
  static constexpr std::string_view kName = "cufft";
  static bool accepts(const Tensor&, double, double, Tensor&) { return true; }
  static bool run(Real, const Tensor& x, double factor, double ends, Tensor& y) {
    return cufft::transform(Kind::kComplexToReal, with_real_ends(x, y.shape()[1], factor, ends), y);
  }
};

}  // namespace

void register_fft() {
  constexpr TypeList<float, double> kReals{};
  set_implementations<kernels::fft, ComplexByCufft, ByCpu<kernels::fft>>(kReals);
  set_implementations<kernels::rfft, ToComplexByCufft, ByCpu<kernels::rfft>>(kReals);
  set_implementations<kernels::irfft, ToRealByCufft, ByCpu<kernels::irfft>>(kReals);
}

}  // namespace tapegrad::backends::cuda
