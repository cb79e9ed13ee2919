#include "ops/linalg_lu.h"

#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/index.h"
#include "ops/internal/exchanged_rows.h"
#include "ops/internal/linalg_parts.h"
#include "ops/internal/value_checks.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(exchanged_rows) exchanged_rows{"exchanged_rows"};

}  // namespace kernels

namespace linalg {
namespace {

using namespace detail;

Variable lower_of(const Variable& lu) { return tril(lu, -1) + identity_like(lu); }

/// Returns the permutation matrices P of A = P L U.
Variable permutation(const Variable& pivots, DType dtype) {
  const int64_t n = pivots.size(-1);
  const Tensor with = (pivots.to(i64) - 1).value().contiguous();
  Tensor rows = with.empty_like();
  kernels::exchanged_rows(with, rows);
  const Variable places = arange(0, n, 1, {.dtype = i64, .device = pivots.device()});
  return eq(unsqueeze(places, -1), unsqueeze(Variable(rows), -2)).to(dtype);
}

/// Throws IndexError, naming the first invalid pivot, unless all pivots of n rows are in [1, n].
void check_pivots(const Variable& pivots, int64_t n) {
  check_values((pivots.to(i64) - 1).value().contiguous(), [n](const Tensor& with) {
    kernels::IndexScan scan;
    kernels::scan_index(with, n, scan);
    if (scan.outside < 0) return;
    const auto pivot = int64_t(uint64_t(scan.value) + 1);  // the least number wrapped around
    fail<IndexError>("linalg.lu_solve: the pivot ", pivot, " is outside [1, ", n, "]");
  });
}

struct Factorize {
  static constexpr std::string_view kName = "linalg.lu_factor";
  SavedOutput<0> lu{};
  SavedOutput<1> pivots{};
  auto saved() { return std::tie(lu, pivots); }

  std::vector<Tensor> forward(const Tensor& x) const {
    require_square(kName, x);
    Tensor columns = by_columns(x), info = info_for(columns);
    Tensor swaps = Tensor::empty({columns.shape()[0], columns.shape()[1]}, i32, x.device());
    kernels::lu_factor(columns, swaps, info);
    Shape rows = front_of(x.shape());
    rows.push_back(x.shape()[-1]);
    return {by_rows(columns, x.shape()), reshape(Variable(swaps), rows).value()};
  }
  bool is_differentiable(size_t output) const { return output == 0; }
  // dA = P L^-T (tril(L^T dL, -1) + triu(dU U^T)) U^-T
  std::vector<Variable> backward(std::span<const Variable> dy) const {
    const Variable all = lu(), l = lower_of(all), u = triu(all);
    const Variable inner =
        tril(matmul(mT(l), tril(dy[0], -1)), -1) + triu(matmul(triu(dy[0]), mT(u)));
    const Variable left = solve_triangular(mT(l), inner, {.upper = true, .unitriangular = true});
    const Variable both = solve_triangular(mT(u), left, {.upper = false, .left = false});
    return {matmul(permutation(pivots(), all.dtype()), both)};
  }
};

}  // namespace

LuFactor lu_factor(const Variable& x, Where where) {
  const std::vector<Variable> y = apply(Factorize{}, where, x);
  return {y[0], y[1]};
}

Lu lu(const Variable& x, Where where) {
  const CallLine line(where);
  const auto [lu, pivots] = lu_factor(x, where);
  return {permutation(pivots, x.dtype()), lower_of(lu), triu(lu)};
}

Variable lu_solve(const Variable& lu, const Variable& pivots, const Variable& b, bool left,
                  Where where) {
  const CallLine line(where);
  require_square("linalg.lu_solve", lu.value());
  require_matrix("linalg.lu_solve", b.value());
  Shape rows = front_of(lu.shape());
  rows.push_back(lu.size(-1));
  if (pivots.shape() != rows || !is_integer(pivots.dtype()))
    fail<ShapeError>("linalg.lu_solve: integer pivots of ", rows, " wanted, not ", pivots.dtype(),
                     ' ', pivots.shape());
  check_pivots(pivots, lu.size(-1));
  const Variable p = permutation(pivots, lu.dtype());
  if (left) {
    const Variable y =
        solve_triangular(lu, matmul(mT(p), b), {.upper = false, .unitriangular = true});
    return solve_triangular(lu, y, {.upper = true});
  }
  const Variable y = solve_triangular(lu, b, {.upper = true, .left = false});
  return matmul(solve_triangular(lu, y, {.upper = false, .left = false, .unitriangular = true}),
                mT(p));
}

}  // namespace linalg

void catalog_linalg_lu(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr auto example = [](DType dtype) -> Arguments {
    return {.inputs = {eye(2, 2, {.dtype = dtype})}};
  };
  static constexpr auto example_solve = [](DType dtype) -> Arguments {
    const Variable identity = eye(2, 2, {.dtype = dtype});
    return {.inputs = {identity, tensor({1, 2}, i32), identity}};
  };
  catalog.add("linalg.lu(A)", "P, L and U with A = P L U",
              [](A a) {
                const auto [p, l, u] = linalg::lu(a[0]);
                return std::vector{p, l, u};
              },
              {.example = example});
  catalog.add("linalg.lu_factor(A)", "L and U in one matrix, and the exchanged rows",
              [](A a) {
                const auto [lu, pivots] = linalg::lu_factor(a[0]);
                return std::vector{lu, pivots};
              },
              {.example = example});
  catalog.add("linalg.lu_solve(LU, pivots, B, left: bool = true)", "X with A X = B, or X A = B",
              [](A a) { return linalg::lu_solve(a[0], a[1], a[2], a.flag("left")); },
              {.example = example_solve});
}

}  // namespace tapegrad

namespace tapegrad::linalg {
Variable Lu::operator[](int part) const { return detail::part_at(*this, part); }
Variable LuFactor::operator[](int part) const { return detail::part_at(*this, part); }
}  // namespace tapegrad::linalg
