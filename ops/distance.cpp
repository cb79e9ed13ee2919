#include "ops/distance.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/internal/clash.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

Variable distance(const Variable& a, const Variable& b, double p, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32(distance, where, a, b, p);
  return norm(sub({a, where}, {b, where}), p, where);
}

Variable cdist(const Variable& a, const Variable& b, double p, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32(cdist, where, a, b, p);
  const ErrorLine line(where);
  if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-1))
    fail<ShapeError>(
        "cdist: rows of one length are wanted: ", a.shape(), " and ", b.shape(),
        draw_clash({{"x1", a.shape(), a.rank() - 1}, {"x2", b.shape(), b.rank() - 1}}));
  if (!(p >= 0)) fail<ArgumentError>("cdist: p is ", p);
  const Variable rows = unsqueeze(a, -2, where), columns = unsqueeze(b, -3, where);
  const Variable difference = sub({rows, where}, {columns, where});
  if (difference.size(-1) == 0) return sum(difference, {-1}, false, where);
  return norm(difference, p, {-1}, false, where);
}

Variable pairwise_distance(const Variable& a, const Variable& b, double p, double eps, bool keepdim,
                           Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32(pairwise_distance, where, a, b, p, eps, keepdim);
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
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32(cosine_similarity, where, a, b, dim, eps);
  const auto [u, v] = aligned(a, b, dim, where);
  const Variable product =
      mul({normalize(u, 2.0, dim, eps, where), where}, {normalize(v, 2.0, dim, eps, where), where});
  return sum(product, {dim}, false, where);
}

Variable normalize(const Variable& x, double p, int dim, double eps, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32(normalize, where, x, p, dim, eps);
  const Variable length = clamp(norm(x, p, {dim}, /*keepdim=*/true, where), {.min = eps}, where);
  return div({x, where}, {length, where});
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
