#include "ops/complex.h"

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/create.h"
#include "ops/internal/kernels/complex.h"
#include "ops/internal/operands.h"
#include "ops/internal/unbroadcast.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(complex_mul) complex_mul{"complex_mul"};

}  // namespace kernels

using namespace detail;

namespace {

const Variable& checked(std::string_view op, const Variable& z) {
  if (!z.defined() || z.rank() == 0 || z.shape()[z.rank() - 1] != 2)
    fail<ShapeError>(op, ": a complex tensor [..., 2] wanted, not ",
                     z.defined() ? z.shape() : Shape{0});
  return z;
}

Variable part(std::string_view op, const Variable& z, int64_t i) {
  return select(checked(op, z), -1, i);
}

Variable joined(const Variable& re, const Variable& im) {
  const Shape shape = broadcast("complex", re.shape(), im.shape());
  return stack({expand(re, shape), expand(im, shape)}, -1);
}

/// Op that computes a b, or a times the conjugate of b.
struct ComplexMul {
  static constexpr std::string_view kName = "complex_mul";
  bool conjugate;
  Unbroadcast<2> shapes{};
  SavedInput<0, /*for*/ 1> a{};
  SavedInput<1, /*for*/ 0> b{};
  auto saved() { return std::tie(a, b); }

  Tensor forward(const Tensor& a, const Tensor& b) {
    const Shape shape = broadcast(kName, a.shape(), b.shape());
    if (a.shape() != b.shape()) shapes.remember(shape, a, b);
    Tensor y = a.empty_like(shape);
    kernels::complex_mul(pairs(a), pairs(b), conjugate, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = shapes(0, apply(ComplexMul{!conjugate}, Where::current(), dy, b()));
    if (needs[1])
      dx[1] = shapes(1, conjugate ? apply(ComplexMul{true}, Where::current(), a(), dy)
                                  : apply(ComplexMul{true}, Where::current(), dy, a()));
    return dx;
  }

 private:
  /// Returns x, or a copy whose pairs are aligned elements of twice the size.
  static Tensor pairs(const Tensor& x) {
    const StridedLayout& layout = x.layout();
    // Only memory of the caller can be aligned to less than a pair.
    const bool is_aligned =
        !x.storage().is_wrapped() || reinterpret_cast<uintptr_t>(x.storage().data()) % 8 == 0;
    bool fits = is_aligned && layout.strides[x.rank() - 1] == 1 && layout.offset % 2 == 0;
    for (int i = 0; i + 1 < x.rank(); ++i) fits &= layout.strides[i] % 2 == 0;
    return fits ? x : x.clone();
  }
};

/// Returns the dtype of the result, if it has 16 bits: products of parts are then computed in
/// float32.
std::optional<DType> narrow_dtype(std::string_view op, const Variable& a, const Variable& b) {
  const DType dtype = common_dtype(op, checked(op, a), checked(op, b));
  return compute_dtype(dtype) != dtype ? std::optional(dtype) : std::nullopt;
}

/// Returns whether x broadcasts with the numbers of z, which has pairs.
bool are_numbers(const Variable& x, const Variable& z) {
  bool fits = x.rank() < z.rank();
  for (int i = 1; fits && i <= x.rank(); ++i)
    fits = x.size(-i) == 1 || z.size(-i - 1) == 1 || x.size(-i) == z.size(-i - 1);
  return fits;
}

/// Returns whether the kernel serves both operands.
bool in_one_pass(const Variable& a, const Variable& b) {
  return a.dtype() == b.dtype() && a.device() == b.device() && a.numel() > 0 && b.numel() > 0 &&
         kernels::complex_mul.has(a.device().type, a.dtype());
}

}  // namespace

ComplexPairs complex(const Variable& re, const Variable& im, Where where) {
  const CallLine line(where);
  return joined(re, im);
}

ComplexPairs polar(const Variable& magnitude, const Variable& phase, Where where) {
  const CallLine line(where);
  return joined(magnitude * cos(phase), magnitude * sin(phase));
}

Variable real(const Variable& z, Where where) {
  const CallLine line(where);
  return part("real", z, 0);
}

Variable imag(const Variable& z, Where where) {
  const CallLine line(where);
  return part("imag", z, 1);
}

Variable view_as_real(const Variable& z, Where where) {
  const CallLine line(where);
  return checked("view_as_real", z);
}

ComplexPairs view_as_complex(const Variable& x, Where where) {
  const CallLine line(where);
  return checked("view_as_complex", x);
}

ComplexPairs conj(const Variable& z, Where where) {
  const CallLine line(where);
  return joined(part("conj", z, 0), -part("conj", z, 1));
}

Variable complex_abs(const Variable& z, Where where) {
  const CallLine line(where);
  return hypot(part("complex_abs", z, 0), part("complex_abs", z, 1));
}

Variable angle(const Variable& z, Where where) {
  const CallLine line(where);
  return atan2(part("angle", z, 1), part("angle", z, 0));
}

ComplexPairs complex_mul(const Variable& a, const Variable& b, Where where) {
  const CallLine line(where);
  if (const auto dtype = narrow_dtype("complex_mul", a, b))
    return complex_mul(a.to(f32), b.to(f32), where).to(*dtype);
  if (in_one_pass(checked("complex_mul", a), checked("complex_mul", b)))
    return apply(ComplexMul{false}, where, a, b);
  const Variable x = part("complex_mul", a, 0), y = part("complex_mul", a, 1);
  const Variable u = part("complex_mul", b, 0), v = part("complex_mul", b, 1);
  return joined(x * u - y * v, x * v + y * u);
}

ComplexPairs complex_div(const Variable& a, const Variable& b, Where where) {
  const CallLine line(where);
  if (const auto narrow = narrow_dtype("complex_div", a, b))
    return complex_div(a.to(f32), b.to(f32), where).to(*narrow);
  const Variable x = part("complex_div", a, 0), y = part("complex_div", a, 1);
  const DType dtype = common_dtype("complex_div", a, b);
  const Variable u = part("complex_div", b, 0).to(dtype), v = part("complex_div", b, 1).to(dtype);
  // u and v are multiplied by a power of two, so that their squares are in range.
  const Variable exponent = -floor(log2(maximum(abs(u.detach()), abs(v.detach()))));
  const Variable shift = tapegrad::where(isfinite(exponent), exponent, 0);
  const Variable s = ldexp(u, shift), t = ldexp(v, shift), square = s * s + t * t;
  return joined(ldexp((x * s + y * t) / square, shift), ldexp((y * s - x * t) / square, shift));
}

void ComplexPairs::operator=(const ComplexPairs& z) && {
  static_cast<Variable&&>(*this) = Operand(z.pairs());
}
Variable ComplexPairs::abs(Where where) const { return complex_abs(*this, where); }
Variable ComplexPairs::angle(Where where) const { return tapegrad::angle(*this, where); }
Variable ComplexPairs::real(Where where) const { return tapegrad::real(*this, where); }
Variable ComplexPairs::imag(Where where) const { return tapegrad::imag(*this, where); }
ComplexPairs ComplexPairs::conj(Where where) const { return tapegrad::conj(*this, where); }
ComplexPairs ComplexPairs::operator-() const { return -pairs(); }
ComplexPairs ComplexPairs::plus(const ComplexPairs& other) const { return pairs() + other.pairs(); }
ComplexPairs ComplexPairs::minus(const ComplexPairs& other) const {
  return pairs() - other.pairs();
}
ComplexPairs ComplexPairs::times(const ComplexPairs& other) const {
  return complex_mul(*this, other, Where());
}
ComplexPairs ComplexPairs::over(const ComplexPairs& other) const {
  return complex_div(*this, other, Where());
}
ComplexPairs ComplexPairs::plus(double x) const { return joined(real() + x, imag()); }
ComplexPairs ComplexPairs::times(double x) const { return pairs() * x; }
ComplexPairs ComplexPairs::over(double x) const { return pairs() / x; }
ComplexPairs ComplexPairs::under(double x) const { return under(full_like(real(), x)); }
ComplexPairs ComplexPairs::plus(const Variable& x) const {
  return are_numbers(x, pairs()) ? ComplexPairs(joined(real() + x, imag())) : pairs() + x;
}
ComplexPairs ComplexPairs::minus(const Variable& x) const {
  return are_numbers(x, pairs()) ? ComplexPairs(joined(real() - x, imag())) : pairs() - x;
}
ComplexPairs ComplexPairs::times(const Variable& x) const {
  return pairs() * (are_numbers(x, pairs()) ? tapegrad::unsqueeze(x, -1) : x);
}
ComplexPairs ComplexPairs::over(const Variable& x) const {
  return pairs() / (are_numbers(x, pairs()) ? tapegrad::unsqueeze(x, -1) : x);
}
ComplexPairs ComplexPairs::under(const Variable& x) const {
  return are_numbers(x, pairs()) ? ComplexPairs(joined(x, zeros_like(x))).over(*this)
                                 : ComplexPairs(x / pairs());
}

ComplexPairs detail::cat_complex(std::initializer_list<ComplexPairs> parts, int dim, Where where) {
  const CallLine line(where);
  if (parts.size() == 0) fail<ArgumentError>("cat: no inputs");
  dim = normalize_dim("cat", dim, checked("cat", *parts.begin()).rank() - 1);
  return tapegrad::cat(std::vector<Variable>(parts.begin(), parts.end()), dim);
}
ComplexPairs detail::stack_complex(std::initializer_list<ComplexPairs> parts, int dim,
                                   Where where) {
  const CallLine line(where);
  if (parts.size() == 0) fail<ArgumentError>("stack: no inputs");
  dim = normalize_dim("stack", dim, checked("stack", *parts.begin()).rank());
  return tapegrad::stack(std::vector<Variable>(parts.begin(), parts.end()), dim);
}

/// Returns the dimension of the pairs for a dimension of the numbers, which have `more` dimensions
/// in addition to their own.
int ComplexPairs::dim_of(std::string_view op, int64_t dim, int more) const {
  return normalize_dim(op, dim, checked(op, pairs()).rank() - 1 + more);
}
/// All dimensions of the numbers if none is given.
Dims ComplexPairs::dims_of(std::string_view op, const Dims& dims) const {
  Dims all;
  if (dims.rank() == 0)
    for (int i = 0; i + 1 < checked(op, pairs()).rank(); ++i) all.push_back(i);
  for (const int64_t dim : dims) all.push_back(dim_of(op, dim));
  return all;
}
ComplexPairs& ComplexPairs::write(const ComplexPairs& values) {
  Variable::copy_(values.pairs());
  return *this;
}
ComplexPairs ComplexPairs::square(Where where) const { return complex_mul(*this, *this, where); }
ComplexPairs ComplexPairs::exp(Where where) const {
  const CallLine line(where);
  return polar(tapegrad::exp(real()), imag());
}
ComplexPairs ComplexPairs::sum(Where where) const { return sum(Dims(), false, where); }
ComplexPairs ComplexPairs::mean(Where where) const { return mean(Dims(), false, where); }
ComplexPairs ComplexPairs::sum(const Dims& dims, bool keepdim, Where where) const {
  const CallLine line(where);
  const Dims along = dims_of("sum", dims);
  return along.rank() == 0 ? pairs() : tapegrad::sum(pairs(), along, keepdim);
}
ComplexPairs ComplexPairs::mean(const Dims& dims, bool keepdim, Where where) const {
  const CallLine line(where);
  const Dims along = dims_of("mean", dims);
  return along.rank() == 0 ? pairs() : tapegrad::mean(pairs(), along, keepdim);
}
ComplexPairs ComplexPairs::operator[](const Slice& slice) const {
  return Variable::operator[](slice);
}
ComplexPairs ComplexPairs::index(std::vector<Subscript> subscripts, Where where) const {
  const CallLine line(where);
  checked("index", pairs());
  // Subscripts behind `...` count from the last dimension, which has the parts.
  subscripts.insert(subscripts.end(), Slice());
  return Variable::index(subscripts, where);
}
ComplexPairs ComplexPairs::select(int dim, int64_t index, Where where) const {
  const CallLine line(where);
  return Variable::select(dim_of("select", dim), index, where);
}
ComplexPairs ComplexPairs::slice(int dim, int64_t start, int64_t end, int64_t step,
                                 Where where) const {
  const CallLine line(where);
  return Variable::slice(dim_of("slice", dim), start, end, step, where);
}
ComplexPairs ComplexPairs::narrow(int dim, int64_t start, int64_t length, Where where) const {
  const CallLine line(where);
  return Variable::narrow(dim_of("narrow", dim), start, length, where);
}
ComplexPairs ComplexPairs::unsqueeze(int dim, Where where) const {
  const CallLine line(where);
  return Variable::unsqueeze(dim_of("unsqueeze", dim, 1), where);
}
ComplexPairs ComplexPairs::transpose(int dim0, int dim1, Where where) const {
  const CallLine line(where);
  return Variable::transpose(dim_of("transpose", dim0), dim_of("transpose", dim1), where);
}
ComplexPairs ComplexPairs::permute(const Dims& dims, Where where) const {
  const CallLine line(where);
  Dims all;
  for (const int64_t dim : dims) all.push_back(dim_of("permute", dim));
  all.push_back(checked("permute", pairs()).rank() - 1);
  return Variable::permute(all, where);
}
ComplexPairs ComplexPairs::reshape(const Shape& shape, Where where) const {
  const CallLine line(where);
  checked("reshape", pairs());
  Shape all = shape;
  all.push_back(2);
  return Variable::reshape(all, where);
}
ComplexPairs ComplexPairs::flatten(int start_dim, int end_dim, Where where) const {
  const CallLine line(where);
  if (checked("flatten", pairs()).rank() == 1) return reshape({1}, where);
  return Variable::flatten(dim_of("flatten", start_dim), dim_of("flatten", end_dim), where);
}
ComplexPairs ComplexPairs::contiguous(Where where) const { return Variable::contiguous(where); }
ComplexPairs ComplexPairs::clone(Where where) const { return Variable::clone(where); }
ComplexPairs ComplexPairs::detach() const { return Variable::detach(); }

ComplexPairs::ComplexPairs(Variable pairs) : Variable(std::move(pairs)) {}
ComplexPairs ComplexPairs::operator[](detail::IndexHere i) const {
  return select(0, i.index, i.where);
}
ComplexPairs ComplexPairs::minus(double x) const { return plus(-x); }

}  // namespace tapegrad
