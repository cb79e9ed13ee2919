#include "ops/products.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(addr) addr{"addr"};

}  // namespace kernels

using namespace detail;

namespace {

/// Returns the dimensions of a tensor that are not in `named`.
Dims others(int rank, const Dims& named) {
  Dims rest;
  for (int i = 0; i < rank; ++i)
    if (std::find(named.begin(), named.end(), i) == named.end()) rest.push_back(i);
  return rest;
}

Dims joined(const Dims& a, const Dims& b) {
  Dims both = a;
  for (int64_t dim : b) both.push_back(dim);
  return both;
}

Shape sizes_of(const Variable& x, const Dims& dims) {
  Shape sizes;
  for (int64_t dim : dims) sizes.push_back(x.shape()[int(dim)]);
  return sizes;
}

Dims normalized(const Dims& dims, int rank) {
  Dims out;
  for (int64_t dim : dims) {
    out.push_back(normalize_dim("tensordot", dim, rank));
    if (std::count(out.begin(), out.end(), out[out.rank() - 1]) > 1)
      fail<ArgumentError>("tensordot: dim ", dim, " is named twice in ", dims);
  }
  return out;
}

void check_addend(std::string_view op, const Variable& input, const Shape& product) {
  if (broadcast(op, input.shape(), product) != product)
    fail<ShapeError>(op, ": ", input.shape(), " does not broadcast to ", product);
}

/// Returns beta input + alpha product, with the product's shape.
Variable plus(std::string_view op, const Variable& input, Variable product, AddOptions options,
              Where where) {
  check_addend(op, input, product.shape());
  const double alpha = options.alpha.real(), beta = options.beta.real();
  if (alpha != 1) product = mul({std::move(product), where}, {options.alpha, where});
  if (beta == 0) return product;
  if (beta == 1) return add({std::move(product), where}, {input, where});
  return add({std::move(product), where}, {mul({input, where}, {options.beta, where}), where});
}

/// Op that computes y = beta x + alpha a b^T. a is a column.
struct Addr {
  static constexpr std::string_view kName = "addr";
  double beta, alpha;
  SavedInput<1, /*for*/ 2> a{};
  SavedInput<2, /*for*/ 1> b{};
  Shape x_shape{};
  auto saved() { return std::tie(a, b); }

  Tensor forward(const Tensor& x, const Tensor& a, const Tensor& b) {
    check_same_device(kName, x, a, b);
    x_shape = x.shape();
    Tensor y = x.empty_like({a.numel(), b.numel()});
    kernels::addr(x, a, b, beta, alpha, y);
    return y;
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = sum_to(beta == 1 ? dy : dy * beta, x_shape);
    if (needs[1]) dx[1] = unsqueeze(alpha * mv(dy, b()), 1);
    if (needs[2]) dx[2] = alpha * mv(t(dy), squeeze(a(), 1));
    return dx;
  }
};

}  // namespace

Variable cross(const Variable& a, const Variable& b, std::optional<int> dim, Where where) {
  const ErrorLine line(where);
  const Shape shape = broadcast("cross", a.shape(), b.shape());
  const Variable x = expand(a, shape, where), y = expand(b, shape, where);
  int along = 0;
  if (dim)
    along = normalize_dim("cross", *dim, shape.rank());
  else
    while (along < shape.rank() && shape[along] != 3) ++along;
  if (along == shape.rank() || shape[along] != 3)
    fail<ShapeError>("cross: no dimension of size 3 in ", a.shape(), " and ", b.shape());
  if (along != 0) {  // whole planes are rolled faster
    const auto turned = [&](const Variable& v) {
      return transpose(v, 0, along, where).contiguous(where);
    };
    return turned(cross(turned(x), turned(y), 0, where));
  }
  const auto turned = [&](const Variable& v, int64_t by) { return roll(v, {-by}, {along}, where); };
  return sub({mul({turned(x, 1), where}, {turned(y, 2), where}), where},
             {mul({turned(x, 2), where}, {turned(y, 1), where}), where});
}

Variable kron(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  const int rank = std::max(a.rank(), b.rank());
  if (2 * rank > kMaxRank)
    fail<ShapeError>("kron: more than ", kMaxRank / 2, " dimensions: ", a.shape(), ", ", b.shape());
  Shape left, right, whole;
  for (int i = 0; i < rank; ++i) {
    const int at_a = i - rank + a.rank(), at_b = i - rank + b.rank();
    const int64_t m = at_a < 0 ? 1 : a.shape()[at_a], p = at_b < 0 ? 1 : b.shape()[at_b];
    left.push_back(m), left.push_back(1);
    right.push_back(1), right.push_back(p);
    whole.push_back(m * p);
  }
  return reshape(mul({reshape(a, left, where), where}, {reshape(b, right, where), where}), whole,
                 where);
}

Variable tensordot(const Variable& a, const Variable& b, int dims, Where where) {
  const ErrorLine line(where);
  if (dims < 0 || dims > a.rank() || dims > b.rank())
    fail<ArgumentError>("tensordot: no ", dims, " dimensions in ", a.shape(), " and ", b.shape());
  Dims last, first;
  for (int i = 0; i < dims; ++i) {
    last.push_back(a.rank() - dims + i);
    first.push_back(i);
  }
  return tensordot(a, b, last, first, where);
}

Variable tensordot(const Variable& a, const Variable& b, const Dims& dims_a, const Dims& dims_b,
                   Where where) {
  const ErrorLine line(where);
  const Dims summed_a = normalized(dims_a, a.rank()), summed_b = normalized(dims_b, b.rank());
  const Shape inner = sizes_of(a, summed_a);
  if (inner != sizes_of(b, summed_b))
    fail<ShapeError>("tensordot: sizes differ: dims ", dims_a, " of ", a.shape(), ", ", dims_b,
                     " of ", b.shape());
  const Dims rest_a = others(a.rank(), summed_a), rest_b = others(b.rank(), summed_b);
  const Shape rows = sizes_of(a, rest_a), columns = sizes_of(b, rest_b);
  const Variable left =
      reshape(permute(a, joined(rest_a, summed_a), where), {numel(rows), numel(inner)}, where);
  const Variable right =
      reshape(permute(b, joined(summed_b, rest_b), where), {numel(inner), numel(columns)}, where);
  return reshape(matmul(left, right, where), joined(rows, columns), where);
}

/// Type of addmm and similar ops, which are overloaded.
using SumOp = Variable(const Variable&, const Variable&, const Variable&, AddOptions, Where);

Variable addmm(const Variable& input, const Variable& a, const Variable& b, AddOptions options,
               Where where) {
  const ErrorLine line(where);
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(static_cast<SumOp*>(addmm), where, input, a, b, options);
  return plus("addmm", input, mm(a, b, where), options, where);
}
Variable addmv(const Variable& input, const Variable& a, const Variable& b, AddOptions options,
               Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(static_cast<SumOp*>(addmv), where, input, a, b, options);
  const ErrorLine line(where);
  if (a.rank() != 2 || b.rank() != 1)
    fail<ShapeError>("addmv: a matrix and a vector are wanted: ", a.shape(), " and ", b.shape());
  return plus("addmv", input, matmul(a, b, where), options, where);
}
Variable addr(const Variable& input, const Variable& a, const Variable& b, AddOptions options,
              Where where) {
  const ErrorLine line(where);
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(static_cast<SumOp*>(addr), where, input, a, b, options);
  const double beta = options.beta.real();
  const bool is_float_op =
      is_float(input.dtype()) && a.dtype() == input.dtype() && b.dtype() == input.dtype();
  if (a.rank() != 1 || b.rank() != 1 || beta == 0 || !is_float_op)
    return plus("addr", input, outer(a, b, where), options, where);
  check_addend("addr", input, {a.numel(), b.numel()});
  return apply(Addr{beta, options.alpha.real()}, where, input, unsqueeze(a, 1, where), b);
}
Variable baddbmm(const Variable& input, const Variable& a, const Variable& b, AddOptions options,
                 Where where) {
  const ErrorLine line(where);
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(static_cast<SumOp*>(baddbmm), where, input, a, b, options);
  return plus("baddbmm", input, bmm(a, b, where), options, where);
}

Variable addbmm(const Variable& input, const Variable& a, const Variable& b, AddOptions options,
                Where where) {
  const ErrorLine line(where);
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(static_cast<SumOp*>(addbmm), where, input, a, b, options);
  const Variable product = bmm(a, b, where);
  const Variable total = sum(product, {0}, false, where).to(product.dtype(), where);
  return plus("addbmm", input, total, options, where);
}

Variable mv(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  if (a.rank() != 2 || b.rank() != 1)
    fail<ShapeError>("mv: a matrix and a vector are wanted: ", a.shape(), " and ", b.shape());
  return matmul(a, b, where);
}
Variable inner(const Variable& a, const Variable& b, Where where) {
  if (a.rank() == 0 || b.rank() == 0) return mul({a, where}, {b, where});
  const ErrorLine line(where);
  return tensordot(a, b, Dims{-1}, Dims{-1}, where);
}

Variable bilinear(const Variable& x1, const Variable& x2, const Variable& weight,
                  const Variable& bias, Where where) {
  if (is_autocast_enabled()) [[unlikely]] {
    const auto op = [&](const auto& a, const auto& b, const auto& w, Where at) {
      return bilinear(a, b, w, bias, at);
    };
    return in_common_dtype(op, where, x1, x2, weight);
  }
  Variable y = einsum("...i,oij,...j->...o", {x1, weight, x2}, where);
  return bias.defined() ? add({y, where}, {bias, where}) : y;
}

void catalog_products(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr auto options = [](A a) {
    return AddOptions{a.number("beta"), a.number("alpha")};
  };
  catalog.add("cross(input, other, dim: int = none)", "input x other, vectors of 3", [](A a) {
    return cross(a[0], a[1], a.has("dim") ? std::optional<int>(a.int32("dim")) : std::nullopt);
  });
  catalog.add("kron(input, other)", "y[i p + k, j q + l] = input[i, j] other[k, l]",
              [](A a) { return kron(a[0], a[1]); });
  catalog.add("tensordot(a, b, dims: int = 2, dims_a: ints = none, dims_b: ints = none)",
              "the sum over pairs of dimensions", [](A a) {
                return a.has("dims_a") ? tensordot(a[0], a[1], a.dims("dims_a"), a.dims("dims_b"))
                                       : tensordot(a[0], a[1], a.int32("dims"));
              });
  catalog.add("einsum(operands*, equation: str)", "sums of products named by letters",
              [](A a) { return einsum(a.text("equation"), a.list); },
              {.example = [](DType dtype) -> Arguments {
                const Variable x(Tensor::full({2, 2}, 1, dtype));
                return {.list = {x, x}, .attributes = {{"equation", std::string("ij,jk->ik")}}};
              }});
  catalog.add("addmm(input, mat1, mat2, beta: number = 1, alpha: number = 1)",
              "beta input + alpha mat1 @ mat2",
              [](A a) { return addmm(a[0], a[1], a[2], options(a)); });
  catalog.add("addmv(input, mat, vec, beta: number = 1, alpha: number = 1)",
              "beta input + alpha mat @ vec",
              [](A a) { return addmv(a[0], a[1], a[2], options(a)); });
  catalog.add("addr(input, vec1, vec2, beta: number = 1, alpha: number = 1)",
              "beta input + alpha vec1 vec2^T",
              [](A a) { return addr(a[0], a[1], a[2], options(a)); });
  catalog.add("baddbmm(input, batch1, batch2, beta: number = 1, alpha: number = 1)",
              "beta input + alpha batch1[i] @ batch2[i]",
              [](A a) { return baddbmm(a[0], a[1], a[2], options(a)); });
  catalog.add("addbmm(input, batch1, batch2, beta: number = 1, alpha: number = 1)",
              "beta input + alpha sum of batch1[i] @ batch2[i]",
              [](A a) { return addbmm(a[0], a[1], a[2], options(a)); });
  catalog.add("mv(input, vec)", "input @ vec", [](A a) { return mv(a[0], a[1]); });
  catalog.add("inner(input, other)", "the sum over the last dimensions",
              [](A a) { return inner(a[0], a[1]); });
}

Variable tensordot(const Variable& a, const Variable& b, const std::pair<Dims, Dims>& dims,
                   Where where) {
  return tensordot(a, b, dims.first, dims.second, where);
}
}  // namespace tapegrad
