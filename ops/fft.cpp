#include "ops/fft.h"

#include <cmath>

#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/complex.h"
#include "ops/create.h"
#include "ops/internal/extent.h"
#include "ops/internal/operands.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(fft) fft{"fft"};
constinit decltype(rfft) rfft{"rfft"}, irfft{"irfft"};

}  // namespace kernels

namespace fft {
namespace {

using namespace detail;

// The transforms are linear and adjoint to each other: the adjoint of a complex transform has the
// opposite sign of the exponent; the adjoint of rfft is irfft, except for the weight of the
// frequencies that irfft counts twice, as themselves and as their conjugates.

struct Complex {
  static constexpr std::string_view kName = "fft";
  int dim;
  bool inverse;
  double scale;

  Tensor forward(const Tensor& x) const {
    Tensor y = x.empty_like(x.shape()), lines = around(y, dim);
    if (y.numel() > 0) kernels::fft(around(x, dim), inverse, scale, lines);
    return y;
  }
  Variable backward(const Variable& dy) const {
    return apply(Complex{dim, !inverse, scale}, Where::current(), dy);
  }
};

Variable to_real(const Variable& x, int dim, int64_t n, double scale, double ends);

struct ToComplex {
  static constexpr std::string_view kName = "rfft";
  int dim;
  double scale, ends = 1;
  int64_t n = 0;

  Tensor forward(const Tensor& x) {
    n = x.shape()[dim];
    Shape shape = x.shape();
    shape[dim] = n / 2 + 1;
    shape.push_back(2);
    Tensor y = x.empty_like(shape), lines = around(y, dim);
    if (y.numel() > 0) kernels::rfft(around(x, dim), scale, ends, lines);
    return y;
  }
  Variable backward(const Variable& dy) const { return to_real(dy, dim, n, 0.5 * scale, 2 * ends); }
};

struct ToReal {
  static constexpr std::string_view kName = "irfft";
  int dim;
  int64_t n;
  double scale, ends = 1;

  Tensor forward(const Tensor& x) const {
    Shape shape;
    for (int i = 0; i + 1 < x.rank(); ++i) shape.push_back(i == dim ? n : x.shape()[i]);
    Tensor y = x.empty_like(shape), lines = around(y, dim);
    if (y.numel() > 0) kernels::irfft(around(x, dim), scale, ends, lines);
    return y;
  }
  Variable backward(const Variable& dy) const {
    return apply(ToComplex{dim, 2 * scale, 0.5 * ends}, Where::current(), dy);
  }
};

Variable to_real(const Variable& x, int dim, int64_t n, double scale, double ends) {
  return apply(ToReal{dim, n, scale, ends}, Where::current(), x);
}

void require_pairs(std::string_view op, const Variable& x) {
  if (x.rank() < 2 || x.size(-1) != 2)
    fail<ShapeError>(op, ": complex numbers are pairs, [..., n, 2], not ", x.shape(),
                     op.starts_with("fft.fft") ? "; for real numbers write fft::r" : "",
                     op.starts_with("fft.fft") ? op.substr(4) : "");
}

/// Converts x to a float dtype and checks its shape.
Variable checked(std::string_view op, const Variable& x, bool is_complex) {
  if (is_complex) require_pairs(op, x);
  if (x.rank() == 0) fail<ShapeError>(op, ": a number has no dimension to transform along");
  if (x.dtype() == f16 || x.dtype() == bf16)
    fail<DTypeError>(op, ": float32 or float64 is wanted, not ", x.dtype());
  return as_float(x, Where::current());
}

/// Truncates or zero-pads x to n entries along dim.
Variable with_length(std::string_view op, const Variable& x, int dim, int64_t n) {
  if (n < 1) fail<ArgumentError>(op, ": a length of 1 or more is wanted, not ", n);
  if (n < x.size(dim)) return narrow(x, dim, 0, n);
  if (n == x.size(dim)) return x;
  std::vector<int64_t> amounts(size_t(2 * (x.rank() - dim)));
  amounts.back() = n - x.size(dim);
  return pad(x, amounts);
}

double scale_of(Norm norm, int64_t n, bool inverse) {
  if (norm == Norm::kOrtho) return 1 / std::sqrt(double(n));
  return (norm == Norm::kBackward) == inverse ? 1 / double(n) : 1;
}

Variable complex_transform(std::string_view op, const Variable& input, Options options,
                           bool inverse, Where where) {
  const CallLine line(where);
  const Variable x = checked(op, input, /*is_complex=*/true);
  const int dim = normalize_dim(op, options.dim, x.rank() - 1);
  const int64_t n = options.n.value_or(x.size(dim));
  const Variable sized = with_length(op, x, dim, n);
  return apply(Complex{dim, inverse, scale_of(options.norm, n, inverse)}, where, sized);
}

/// The dimensions and lengths of a multidimensional transform of a complex or real x.
struct Axes {
  std::vector<Options> each;

  Axes(std::string_view op, const Variable& x, const Options2d& options, bool is_complex) {
    if (is_complex) require_pairs(op, x);
    const Dims& dims = options.dim;
    if (dims.rank() == 0) fail<ArgumentError>(op, ": no dim is named");
    if (options.s.rank() != 0 && options.s.rank() != dims.rank())
      fail<ArgumentError>(op, ": s names ", options.s.rank(), " lengths for ", dims.rank(),
                          " dims");
    const int rank = x.rank() - (is_complex ? 1 : 0);
    Dims seen = Dims::filled(rank, 0);
    for (int i = 0; i < dims.rank(); ++i) {
      const int dim = normalize_dim(op, dims[i], rank);
      if (seen[dim]++) fail<ArgumentError>(op, ": dim ", dims[i], " is named twice in ", dims);
      Options axis{.dim = dim, .norm = options.norm};
      if (options.s.rank() > 0) axis.n = options.s[i];
      each.push_back(axis);
    }
  }
};

/// Rolls x along the dimensions by its size / 2, rounded up or down.
Variable rolled(const Variable& x, const Dims& dims, bool up, Where where) {
  Dims all = dims, shifts;
  if (dims.rank() == 0)
    for (int i = 0; i < x.rank(); ++i) all.push_back(i);
  for (int64_t dim : all) shifts.push_back((x.size(int(dim)) + (up ? 1 : 0)) / 2);
  return roll(x, shifts, all, where);
}
ComplexPairs rolled_numbers(const ComplexPairs& z, const Dims& dims, bool up, Where where) {
  const int rank = z.rank() - 1;  // without the pairs
  Dims all;
  for (const int64_t dim : dims) all.push_back(normalize_dim("fftshift", dim, rank));
  for (int i = 0; dims.rank() == 0 && i < rank; ++i) all.push_back(i);
  return all.rank() == 0 ? z : ComplexPairs(rolled(z, all, up, where));
}

}  // namespace

ComplexPairs fft(const Variable& x, Options options, Where where) {
  return complex_transform("fft.fft", x, options, /*inverse=*/false, where);
}
ComplexPairs ifft(const Variable& x, Options options, Where where) {
  return complex_transform("fft.ifft", x, options, /*inverse=*/true, where);
}

ComplexPairs rfft(const Variable& input, Options options, Where where) {
  constexpr std::string_view kName = "fft.rfft";
  const CallLine line(where);
  const Variable x = checked(kName, input, /*is_complex=*/false);
  const int dim = normalize_dim(kName, options.dim, x.rank());
  const int64_t n = options.n.value_or(x.size(dim));
  const Variable sized = with_length(kName, x, dim, n);
  return apply(ToComplex{dim, scale_of(options.norm, n, /*inverse=*/false)}, where, sized);
}

Variable irfft(const Variable& input, Options options, Where where) {
  constexpr std::string_view kName = "fft.irfft";
  const CallLine line(where);
  const Variable x = checked(kName, input, /*is_complex=*/true);
  const int dim = normalize_dim(kName, options.dim, x.rank() - 1);
  const int64_t n = options.n.value_or(2 * (x.size(dim) - 1));
  if (n < 1) fail<ArgumentError>(kName, ": a length of 1 or more is wanted, not ", n);
  const Variable sized = with_length(kName, x, dim, n / 2 + 1);
  return apply(ToReal{dim, n, scale_of(options.norm, n, /*inverse=*/true)}, where, sized);
}

namespace {
/// The norm whose forward transform has the scale of the inverse of this norm.
Norm opposite(Norm norm) {
  return norm == Norm::kBackward ? Norm::kForward : norm == Norm::kForward ? Norm::kBackward : norm;
}
}  // namespace

Variable hfft(const Variable& x, Options options, Where where) {
  const CallLine line(where);
  options.norm = opposite(options.norm);
  return irfft(conj(x), options, where);
}
ComplexPairs ihfft(const Variable& x, Options options, Where where) {
  const CallLine line(where);
  options.norm = opposite(options.norm);
  return conj(rfft(x, options, where));
}

ComplexPairs fft2(const Variable& x, Options2d options, Where where) {
  const CallLine line(where);
  Variable y = x;
  for (const Options& axis : Axes("fft.fft2", x, options, /*is_complex=*/true).each)
    y = fft(y, axis);
  return y;
}
ComplexPairs ifft2(const Variable& x, Options2d options, Where where) {
  const CallLine line(where);
  Variable y = x;
  for (const Options& axis : Axes("fft.ifft2", x, options, /*is_complex=*/true).each)
    y = ifft(y, axis);
  return y;
}
ComplexPairs rfft2(const Variable& x, Options2d options, Where where) {
  const CallLine line(where);
  std::vector<Options> axes = Axes("fft.rfft2", x, options, /*is_complex=*/false).each;
  Variable y = rfft(x, axes.back());
  axes.pop_back();
  for (const Options& axis : axes) y = fft(y, axis);
  return y;
}
Variable irfft2(const Variable& x, Options2d options, Where where) {
  const CallLine line(where);
  std::vector<Options> axes = Axes("fft.irfft2", x, options, /*is_complex=*/true).each;
  const Options last = axes.back();
  axes.pop_back();
  Variable y = x;
  for (const Options& axis : axes) y = ifft(y, axis);
  return irfft(y, last);
}

namespace {

/// Options of a transform over the dimensions of a complex or real x.
Options2d plane_of(const Variable& x, const OptionsNd& options, bool is_complex) {
  Options2d plane{.s = options.s, .dim = options.dim, .norm = options.norm};
  const int rank = x.rank() - (is_complex ? 1 : 0);
  if (plane.dim.rank() > 0) return plane;
  for (int i = options.s.rank() > 0 ? options.s.rank() : rank; i > 0; --i) plane.dim.push_back(-i);
  return plane;
}

}  // namespace

ComplexPairs fftn(const Variable& x, OptionsNd options, Where where) {
  return fft2(x, plane_of(x, options, /*is_complex=*/true), where);
}
ComplexPairs ifftn(const Variable& x, OptionsNd options, Where where) {
  return ifft2(x, plane_of(x, options, /*is_complex=*/true), where);
}
ComplexPairs rfftn(const Variable& x, OptionsNd options, Where where) {
  return rfft2(x, plane_of(x, options, /*is_complex=*/false), where);
}
Variable irfftn(const Variable& x, OptionsNd options, Where where) {
  return irfft2(x, plane_of(x, options, /*is_complex=*/true), where);
}

ComplexPairs fftshift(const ComplexPairs& z, const Dims& dims, Where where) {
  const CallLine line(where);
  return rolled_numbers(z, dims, /*up=*/false, where);
}
ComplexPairs ifftshift(const ComplexPairs& z, const Dims& dims, Where where) {
  const CallLine line(where);
  return rolled_numbers(z, dims, /*up=*/true, where);
}
Variable fftshift(const Variable& x, const Dims& dims, Where where) {
  return rolled(x, dims, /*up=*/false, where);
}
Variable ifftshift(const Variable& x, const Dims& dims, Where where) {
  return rolled(x, dims, /*up=*/true, where);
}

}  // namespace fft

namespace {

fft::Options line_options(const Arguments& a) {
  fft::Options options{.dim = a.int32("dim"), .norm = a.text("norm")};
  if (a.has("n")) options.n = a.integer("n");
  return options;
}

fft::Options2d plane_options(const Arguments& a) {
  return {.s = a.has("s") ? a.dims("s") : Dims{}, .dim = a.dims("dim"), .norm = a.text("norm")};
}

Dims shift_dims(const Arguments& a) { return a.has("dim") ? a.dims("dim") : Dims{}; }

}  // namespace

void catalog_fft(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr OpTraits kPairs{.example = [](DType dtype) -> Arguments {
    return {.inputs = {Variable(Tensor::full({2, 3, 2}, 1, dtype))}, .attributes = {}};
  }};
  catalog.add(
      "fft.fft(input, n: int = none, dim: int = -1, norm: str = backward)",
      "sum of x[j] exp(-2 pi i j k / n), of pairs",
      [](A a) -> Variable { return fft::fft(a[0], line_options(a)); }, kPairs);
  catalog.add(
      "fft.ifft(input, n: int = none, dim: int = -1, norm: str = backward)",
      "sum of x[j] exp(2 pi i j k / n) / n, of pairs",
      [](A a) -> Variable { return fft::ifft(a[0], line_options(a)); }, kPairs);
  catalog.add("fft.rfft(input, n: int = none, dim: int = -1, norm: str = backward)",
              "fft of reals, its n / 2 + 1 first frequencies",
              [](A a) -> Variable { return fft::rfft(a[0], line_options(a)); });
  catalog.add(
      "fft.irfft(input, n: int = none, dim: int = -1, norm: str = backward)",
      "n reals of n / 2 + 1 frequencies",
      [](A a) -> Variable { return fft::irfft(a[0], line_options(a)); }, kPairs);
  catalog.add(
      "fft.fft2(input, s: ints = none, dim: ints = [-2, -1], norm: str = backward)",
      "fft over two dimensions", [](A a) -> Variable { return fft::fft2(a[0], plane_options(a)); },
      kPairs);
  catalog.add(
      "fft.ifft2(input, s: ints = none, dim: ints = [-2, -1], norm: str = backward)",
      "ifft over two dimensions",
      [](A a) -> Variable { return fft::ifft2(a[0], plane_options(a)); }, kPairs);
  catalog.add("fft.rfft2(input, s: ints = none, dim: ints = [-2, -1], norm: str = backward)",
              "rfft over the last dimension, then fft",
              [](A a) -> Variable { return fft::rfft2(a[0], plane_options(a)); });
  catalog.add(
      "fft.irfft2(input, s: ints = none, dim: ints = [-2, -1], norm: str = backward)",
      "ifft, then irfft over the last dimension",
      [](A a) -> Variable { return fft::irfft2(a[0], plane_options(a)); }, kPairs);
  catalog.add("fft.fftshift(input, dim: ints = none)", "rolled by size / 2, rounded down",
              [](A a) -> Variable { return fft::fftshift(a[0], shift_dims(a)); });
  catalog.add("fft.ifftshift(input, dim: ints = none)", "rolled by size / 2, rounded up",
              [](A a) -> Variable { return fft::ifftshift(a[0], shift_dims(a)); });
}

}  // namespace tapegrad
