// Products of complex numbers. A pair of floats is one element of 64 bits of an elementwise kernel.
#include "ops/internal/kernels/complex.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/map.h"

namespace tapegrad::backends::cpu {
namespace {

template <bool kConjugate>
struct ProductOfPairs {
  using Pairs = Batch<double>;
  static constexpr int kFloats = int(kLanes<float>);
  using Floats [[gnu::vector_size(4 * kFloats)]] = float;
  using Lanes = std::make_integer_sequence<int, kFloats>;

  template <int... i>
  static Floats product(Floats a, Floats b, std::integer_sequence<int, i...>) {
    const Floats re = __builtin_shufflevector(a, a, (i / 2 * 2)...);
    const Floats im = __builtin_shufflevector(a, a, (i / 2 * 2 + 1)...);
    const Floats swapped = __builtin_shufflevector(b, b, (i ^ 1)...);
    // (x + iy)(u + iv) = (xu - yv) + i(xv + yu), (x + iy)(u - iv) = (xu + yv) + i(yu - xv)
    const Floats sign = {(i % 2 == (kConjugate ? 1 : 0) ? -1.0F : 1.0F)...};
    return kConjugate ? im * swapped + re * b * sign : re * b + im * swapped * sign;
  }
  Pairs operator()(Pairs a, Pairs b) const {
    using Register = decltype(a.data);  // casts of vectors keep the bits
    return Pairs(Register(product(Floats(a.data), Floats(b.data), Lanes())));
  }
};

/// Returns the pairs of x [..., 2] as elements of 64 bits, which map() only moves.
Tensor pairs_of(const Tensor& x) {
  StridedLayout layout{{}, {}, x.layout().offset / 2};
  for (int i = 0; i + 1 < x.rank(); ++i) {
    layout.shape.push_back(x.shape()[i]);
    layout.strides.push_back(x.strides()[i] / 2);
  }
  const int64_t all = int64_t(x.storage().bytes() / sizeof(double));
  return Tensor::wrap(x.storage().data(), {all}, f64).with_layout(layout);
}

void complex_mul(const Tensor& a, const Tensor& b, bool conjugate, Tensor& y) {
  Tensor to = pairs_of(y);
  if (conjugate)
    map<double>(ProductOfPairs<true>(), to, pairs_of(a), pairs_of(b));
  else
    map<double>(ProductOfPairs<false>(), to, pairs_of(a), pairs_of(b));
}

}  // namespace

void register_complex() {
  set<kernels::complex_mul>(TypeList<float>(),
                            [](TypeTag<float>, auto&... a) { complex_mul(a...); });
}

}  // namespace tapegrad::backends::cpu
