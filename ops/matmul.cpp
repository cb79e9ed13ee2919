#include "ops/matmul.h"

#include <array>
#include <atomic>

#include "core/base/internal/shape_mismatch.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/matrix_views.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

static int64_t flops(const Tensor& a, const Tensor&, Tensor& y) {
  return 2 * y.numel() * a.shape()[a.rank() - 1];
}
constinit decltype(matmul) matmul{"matmul", flops};

}  // namespace kernels

using namespace detail;

namespace {

constinit std::atomic<MatmulPrecision> precision_now{MatmulPrecision::kHighest};

[[noreturn, gnu::cold]] void fail_inner(std::string_view op, const Shape& a, const Shape& b) {
  fail<ShapeError>(
      op, ": inner sizes differ: ", a, " x ", b,
      draw_mismatch({{"input", a, a.rank() - 1}, {"other", b, std::max(0, b.rank() - 2)}}));
}

/// Products of two batches of matrices with equal rank and equal leading dimensions.
struct Matmul {
  static constexpr std::string_view kName = "matmul";
  SavedInput<0, /*for*/ 1> a{};
  SavedInput<1, /*for*/ 0> b{};
  auto saved() { return std::tie(a, b); }

  Tensor forward(const Tensor& a, const Tensor& b) {
    const int r = a.rank();
    if (a.shape()[r - 1] != b.shape()[r - 2]) fail_inner(kName, a.shape(), b.shape());
    check_same_device(kName, a, b);
    check_same_dtype(kName, a, b);
    Shape shape = a.shape();
    shape[r - 1] = b.shape()[r - 1];
    Tensor y = a.empty_like(shape);
    kernels::matmul(a, b, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = matmul(dy, transpose(b(), -2, -1));
    if (needs[1]) dx[1] = matmul(transpose(a(), -2, -1), dy);
    return dx;
  }
};

void require_ranks(std::string_view op, const Variable& a, const Variable& b, int rank) {
  if (a.rank() != rank || b.rank() != rank)
    fail<ShapeError>(op, ": rank ", rank, " wanted: ", a.shape(), " x ", b.shape());
}

/// Products of batches whose leading dimensions broadcast. Both ranks are at least 2.
Variable batched(const Variable& a, const Variable& b, Where where) {
  const Shape& left = a.shape();
  const Shape& right = b.shape();
  const int64_t m = left[a.rank() - 2], k = left[a.rank() - 1], n = right[b.rank() - 1];
  if (k != right[b.rank() - 2]) fail_inner("matmul", left, right);
  if (b.rank() == 2) {  // one product of many rows
    Shape shape = left;
    shape[a.rank() - 1] = n;
    return reshape(apply(Matmul{}, where, as_matrix(a, where), b), shape, where);
  }
  Shape front_a, front_b;
  for (int i = 0; i + 2 < a.rank(); ++i) front_a.push_back(left[i]);
  for (int i = 0; i + 2 < b.rank(); ++i) front_b.push_back(right[i]);
  Shape to_a = front_a == front_b ? front_a : broadcast("matmul", front_a, front_b), to_b = to_a;
  to_a.push_back(m), to_a.push_back(k);
  to_b.push_back(k), to_b.push_back(n);
  return apply(Matmul{}, where, left == to_a ? a : expand(a, to_a, where),
               right == to_b ? b : expand(b, to_b, where));
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return matmul(a...); }, where, a, b);
  if (a.value(where).rank() == 2 && b.value(where).rank() == 2) return apply(Matmul{}, where, a, b);
  const ErrorLine line(where);
  if (a.rank() == 0 || b.rank() == 0)
    fail<ShapeError>("matmul: operands without dimensions: ", a.shape(), " x ", b.shape());
  if (a.rank() > 1 && b.rank() > 1) return batched(a, b, where);
  if (a.shape()[a.rank() - 1] != b.shape()[b.rank() == 1 ? 0 : b.rank() - 2])
    fail_inner("matmul", a.shape(), b.shape());
  // A vector is a row on the left and a column on the right; the added dimension is removed from
  // the result.
  const Variable left = a.rank() == 1 ? unsqueeze(a, 0, where) : a;
  const Variable right = b.rank() == 1 ? unsqueeze(b, 1, where) : b;
  Variable y = batched(left, right, where);
  if (b.rank() == 1) y = squeeze(y, -1, where);
  if (a.rank() == 1) y = squeeze(y, b.rank() == 1 ? -1 : -2, where);
  return y;
}

Variable mm(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  require_ranks("mm", a, b, 2);
  return matmul(a, b, where);
}

Variable bmm(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  require_ranks("bmm", a, b, 3);
  if (a.shape()[0] != b.shape()[0])
    fail<ShapeError>("bmm: batches differ: ", a.shape(), " x ", b.shape(),
                     draw_mismatch({{"input", a.shape(), 0}, {"mat2", b.shape(), 0}}));
  return matmul(a, b, where);
}

Variable dot(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  require_ranks("dot", a, b, 1);
  if (is_autocast_enabled()) [[unlikely]]
    return in_common_dtype([](const auto&... xs) { return dot(xs...); }, where, a, b);
  return matmul(a, b, where);
}

Variable outer(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  require_ranks("outer", a, b, 1);
  if (is_autocast_enabled()) [[unlikely]]
    return in_common_dtype([](const auto&... xs) { return outer(xs...); }, where, a, b);
  const Variable column = unsqueeze(a, 1, where), row = unsqueeze(b, 0, where);
  if (a.dtype() == boolean && b.dtype() == boolean) return mul({column, where}, {row, where});
  return matmul(column, row, where);
}

void set_matmul_precision(MatmulPrecision precision) { precision_now = precision; }
MatmulPrecision matmul_precision() { return precision_now; }

void catalog_matmul(Catalog& catalog) {
  catalog.add("matmul(input, other)", "input @ other, with NumPy's rules for vectors and batches",
              [](const Arguments& a) { return matmul(a[0], a[1]); });
  catalog.add("mm(input, mat2)", "input @ mat2 for matrices",
              [](const Arguments& a) { return mm(a[0], a[1]); });
  catalog.add("bmm(input, mat2)", "input[i] @ mat2[i] for each i",
              [](const Arguments& a) { return bmm(a[0], a[1]); });
  catalog.add("dot(input, tensor)", "sum(input * tensor) for vectors",
              [](const Arguments& a) { return dot(a[0], a[1]); });
  catalog.add("outer(input, vec2)", "input[i] * vec2[j]",
              [](const Arguments& a) { return outer(a[0], a[1]); });
}

}  // namespace tapegrad
