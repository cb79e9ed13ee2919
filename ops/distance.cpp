#include "ops/distance.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/autograd/derivatives.h"
#include "core/base/error.h"
#include "core/base/internal/shape_mismatch.h"
#include "core/base/internal/step_constant.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/kernels/cdist.h"
#include "ops/internal/matrix_views.h"
#include "ops/internal/operands.h"
#include "ops/option_checks.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {
constinit decltype(cdist) cdist{"cdist"};
constinit decltype(cdist_backward) cdist_backward{"cdist_backward"};
}  // namespace kernels

using namespace detail;

Variable distance(const Variable& a, const Variable& b, double p, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return distance(a...); }, where, a, b, p);
  return norm(sub({a, where}, {b, where}), p, where);
}

namespace {

/// cdist by stored differences.
Variable cdist_by_ops(const Variable& a, const Variable& b, double p) {
  const Variable difference = sub(unsqueeze(a, -2), unsqueeze(b, -3));
  return difference.size(-1) == 0 ? sum(difference, {-1}) : norm(difference, p, {-1});
}

/// cdist of [batch, m, d] and [batch, n, d] by a kernel.
struct Cdist {
  static constexpr std::string_view kName = "cdist";
  double p;
  SavedInput<0> a{};
  SavedInput<1> b{};
  SavedOutput<> y{};
  auto saved() { return std::tie(a, b, y); }

  Tensor forward(const Tensor& a, const Tensor& b) const {
    Tensor y = a.empty_like({a.shape()[0], a.shape()[1], b.shape()[1]});
    kernels::cdist(a.contiguous(), b.contiguous(), p, y);
    return y;
  }
  std::vector<Variable> backward(const Variable& dy) const {
    return products(dy, /*create_graph=*/true);
  }
  std::vector<Tensor> kernel_backward(const Tensor& dy, Needs needs) const {
    if (p != 1 && p != 2) {
      const std::vector<Variable> dx = products(Variable(dy), /*create_graph=*/false);
      return {dx[0].value_or_empty(), dx[1].value_or_empty()};
    }
    const Tensor x1 = a.value().contiguous(), x2 = b.value().contiguous(), length = y.value();
    std::vector<Tensor> dx(2);
    if (needs[0]) {
      dx[0] = x1.empty_like(x1.shape());
      kernels::cdist_backward(dy, x1, x2, length, p, dx[0]);
    }
    if (needs[1]) {
      dx[1] = x2.empty_like(x2.shape());
      kernels::cdist_backward(transposed(dy), x2, x1, transposed(length), p, dx[1]);
    }
    return dx;
  }

 private:
  std::vector<Variable> products(const Variable& dy, bool create_graph) const {
    return vjp(
               [&](const std::vector<Variable>& xs) -> std::vector<Variable> {
                 return {cdist_by_ops(xs[0], xs[1], p)};
               },
               std::vector<Variable>{a(), b()}, std::vector<Variable>{dy},
               {.create_graph = create_graph})
        .products;
  }
};

/// Returns the distances, or an empty variable if no kernel takes the operands.
Variable cdist_by_kernel(const Variable& a, const Variable& b, double p, Where where) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if ((p != 1 && p != 2 && p != kInf) || a.dtype() != b.dtype() || a.device() != b.device() ||
      a.numel() == 0 || b.numel() == 0 || !kernels::cdist.has(a.device().type, a.dtype()))
    return {};
  Shape batch_a, batch_b;
  for (int i = 0; i + 2 < a.rank(); ++i) batch_a.push_back(a.size(i));
  for (int i = 0; i + 2 < b.rank(); ++i) batch_b.push_back(b.size(i));
  Shape batch = broadcast("cdist", batch_a, batch_b), of_a = batch, of_b = batch;
  for (const int i : {-2, -1}) of_a.push_back(a.size(i)), of_b.push_back(b.size(i));
  const int64_t count = numel(batch);
  const auto flat = [&](const Variable& x, const Shape& shape) {
    return reshape(expand(x, shape, where), {count, x.size(-2), x.size(-1)}, where);
  };
  const Variable y = apply(Cdist{p}, where, flat(a, of_a), flat(b, of_b));
  batch.push_back(a.size(-2)), batch.push_back(b.size(-2));
  return reshape(y, batch, where);
}

}  // namespace

Variable cdist(const Variable& a, const Variable& b, double p, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return cdist(a...); }, where, a, b, p);
  const ErrorLine line(where);
  if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-1))
    fail<ShapeError>(
        "cdist: rows of one length are wanted: ", a.shape(), " and ", b.shape(),
        draw_mismatch({{"x1", a.shape(), a.rank() - 1}, {"x2", b.shape(), b.rank() - 1}}));
  if (!(p >= 0)) fail<ArgumentError>("cdist: p is ", p);
  if (const Variable y = cdist_by_kernel(a, b, p, where); y.defined()) return y;
  const CallLine parts(where);
  return cdist_by_ops(a, b, p);
}

Variable pairwise_distance(const Variable& a, const Variable& b, double p, double eps, bool keepdim,
                           Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return pairwise_distance(a...); }, where, a, b, p, eps,
                      keepdim);
  const ErrorLine line(where);
  detail::require_number("pairwise_distance", "eps", eps);
  return norm(sub({a, where}, {b, where}) + eps, p, {-1}, keepdim, where);
}

namespace {

/// Returns a and b with one rank and, where they broadcast along dim, one size of dim. Other
/// dimensions of size 1 stay, so each vector is normalized once.
std::pair<Variable, Variable> aligned(Variable a, Variable b, int dim, Where where) {
  const ErrorLine line(where);
  const int rank = std::max(a.rank(), b.rank());
  dim = normalize_dim("cosine_similarity", dim, rank);
  for (Variable* x : {&a, &b})
    while (x->rank() < rank) *x = unsqueeze(*x, 0, where);
  for (auto [narrow, wide] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (narrow->size(dim) != 1 || wide->size(dim) == 1) continue;
    Shape shape = narrow->shape();
    shape[dim] = wide->size(dim);
    *narrow = expand(*narrow, shape, where);
  }
  return {a, b};
}

}  // namespace

Variable cosine_similarity(const Variable& a, const Variable& b, int dim, double eps, Where where) {
  const ErrorLine line(where);
  detail::require_not_negative("cosine_similarity", "eps", eps);
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return cosine_similarity(a...); }, where, a, b, dim,
                      eps);
  if (const DType dtype = common_dtype("cosine_similarity", a, b), wide = compute_dtype(dtype);
      wide != dtype)
    return cosine_similarity(a.to(wide, where), b.to(wide, where), dim, eps, where)
        .to(dtype, where);
  const auto [u, v] = aligned(a, b, dim, where);
  const Variable product =
      mul({normalize(u, 2.0, dim, eps, where), where}, {normalize(v, 2.0, dim, eps, where), where});
  return sum(product, {dim}, false, where);
}

Variable normalize(const Variable& x, double p, int dim, double eps, Where where) {
  const ErrorLine line(where);
  detail::require_number("normalize", "eps", eps);
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return normalize(a...); }, where, x, p, dim, eps);
  if (const DType wide = compute_dtype(x.dtype()); wide != x.dtype())
    return normalize(x.to(wide, where), p, dim, eps, where).to(x.dtype(), where);
  const Variable length = clamp(norm(x, p, {dim}, /*keepdim=*/true, where), {.min = eps}, where);
  return div({x, where}, {length, where});
}

Variable pdist(const Variable& x, double p, Where where) {
  if (x.rank() != 2) fail<ShapeError>("pdist: a matrix of rows, not ", x.shape());
  const int64_t n = x.size(0);
  const auto constant = [&](const std::vector<int64_t>& indices) {
    return Variable(detail::step_constant([&] { return tensor(indices).to(x.device()).value(); }));
  };
  if (p == 1 || p == 2 || p == std::numeric_limits<double>::infinity()) {  // cdist has kernels
    std::vector<int64_t> pairs;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = i + 1; k < n; ++k) pairs.push_back(i * n + k);
    const Variable all = reshape(cdist(x, x, p, where), {n * n}, where);
    return index_select(all, 0, constant(pairs), where);
  }
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = i + 1; k < n; ++k) {
      first.push_back(i);
      second.push_back(k);
    }
  const auto rows = [&](const std::vector<int64_t>& indices) {
    return index_select(x, 0, constant(indices), where);
  };
  return norm(rows(first) - rows(second), p, -1, false, where);
}

void catalog_distance(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("dist(input, other, p: float = 2.0)", "norm(input - other); distance() in C++",
              [](A a) { return distance(a[0], a[1], a.real("p")); });
  catalog.add("cdist(x1, x2, p: float = 2.0)", "y[i, j] = norm(x1[i] - x2[j])",
              [](A a) { return cdist(a[0], a[1], a.real("p")); });
  catalog.add("pairwise_distance(x1, x2, p: float = 2.0, eps: float = 1e-6, keepdim: bool = false)",
              "norm(x1 - x2 + eps) along the last dimension", [](A a) {
                return pairwise_distance(a[0], a[1], a.real("p"), a.real("eps"), a.flag("keepdim"));
              });
  catalog.add("cosine_similarity(x1, x2, dim: int = 1, eps: float = 1e-8)",
              "x1 . x2 / (|x1| |x2|) along dim",
              [](A a) { return cosine_similarity(a[0], a[1], a.int32("dim"), a.real("eps")); });
  catalog.add("normalize(input, p: float = 2.0, dim: int = 1, eps: float = 1e-12)",
              "x / max(norm(x), eps) along dim",
              [](A a) { return normalize(a[0], a.real("p"), a.int32("dim"), a.real("eps")); });
}

}  // namespace tapegrad
