// Solvers of ops/linalg.h: LU, triangular and Cholesky.
#include "ops/linalg.h"

#include "core/base/internal/host_values.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/internal/linalg_parts.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(lu_factor) lu_factor{"linalg.lu_factor"};
constinit decltype(lu_solve) lu_solve{"linalg.lu_solve"};
constinit decltype(triangular_solve) triangular_solve{"linalg.solve_triangular"};
constinit decltype(cholesky) cholesky{"linalg.cholesky"};

}  // namespace kernels

namespace linalg {
namespace {

using namespace detail;

constexpr std::string_view kSingular = "the matrix is singular";

/// The factors of A = P L U, stored by columns.
struct Factors {
  Tensor lu{}, pivots{}, info{};

  Factors() {}
  explicit Factors(const Tensor& x) : lu(by_columns(x)), info(info_for(lu)) {
    pivots = Tensor::empty({lu.shape()[0], lu.shape()[1]}, i32, x.device());
    kernels::lu_factor(lu, pivots, info);
  }
  /// Returns A^-1 b, or A^-T b if transposed.
  Tensor solve(const Tensor& b, bool transposed) const {
    Tensor x = by_columns(b);
    kernels::lu_solve(lu, pivots, transposed, x);
    return by_rows(x, b.shape());
  }
  /// Returns A^-T of matrices of this shape.
  Variable inverse_transposed(const Shape& shape) const {
    const int64_t n = lu.shape()[1];
    const Variable identity = eye(n, n, {.dtype = lu.dtype(), .device = lu.device()});
    return Variable(solve(expand(identity, shape).value(), /*transposed=*/true));
  }
  Variable diagonal() const { return tapegrad::diagonal(Variable(lu), 0, 1, 2); }
  /// Returns the sign of the permutation: 1, or -1 after an odd number of exchanges.
  Variable parity() const {
    const Variable unmoved = arange(1, lu.shape()[1] + 1, 1, {.dtype = i32, .device = lu.device()});
    const Variable swaps = sum(ne(Variable(pivots), unmoved), {1});
    return (1 - 2 * bitwise_and(swaps, 1)).to(lu.dtype());
  }
};

struct Solve {
  static constexpr std::string_view kName = "linalg.solve";
  Factors factors{};
  SavedInput<0> a{};
  SavedOutput<> x{};
  auto saved() { return std::tie(a, x); }

  Tensor forward(const Tensor& a, const Tensor& b) {
    check_same_device(kName, a, b);
    check_same_dtype(kName, a, b);
    factors = Factors(a);
    check_info(kName, factors.info, kSingular);
    return factors.solve(b, /*transposed=*/false);
  }
  // dB = A^-T dX, dA = -dB X^T
  std::array<Variable, 2> backward(const Variable& dx, Needs needs) const {
    const Variable db = solve(mT(a()), dx);
    return {needs[0] ? -matmul(db, mT(x())) : Variable(), db};
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dx, Needs needs) const {
    const Variable db(factors.solve(dx, /*transposed=*/true));
    return {needs[0] ? (-matmul(db, mT(x()))).value() : Tensor(), db.value()};
  }
};

struct Inv {
  static constexpr std::string_view kName = "linalg.inv";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }

  Tensor forward(const Tensor& x) const {
    require_square(kName, x);
    const Factors factors(x);
    check_info(kName, factors.info, kSingular);
    const int64_t n = x.shape()[x.rank() - 1];
    const Variable identity = eye(n, n, {.dtype = x.dtype(), .device = x.device()});
    return factors.solve(expand(identity, x.shape()).value(), /*transposed=*/false);
  }
  // dA = -Y^T dY Y^T
  Variable backward(const Variable& dy) const {
    const Variable yt = mT(y());
    return -matmul(matmul(yt, dy), yt);
  }
};

struct Det {
  static constexpr std::string_view kName = "linalg.det";
  Factors factors{};
  SavedInput<0> x{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, y); }

  Tensor forward(const Tensor& x) {
    require_square(kName, x);
    const NoGrad off;
    factors = Factors(x);
    return reshape(prod(factors.diagonal(), 1) * factors.parity(), front_of(x.shape())).value();
  }
  // dA = dy times the cofactor matrix, which is y A^-T; for a singular A = U S V^T it is det(U)
  // det(V) U C V^T, where C contains the products of the other singular values.
  Variable backward(const Variable& dy) const {
    const Variable x = this->x(), y = this->y();
    if (!has_zero(y)) return as_scalar(dy * y) * mT(inv(x));
    const auto [u, s, vh] = svd(x, /*full_matrices=*/false);
    const Variable sign = (linalg::det(u) * linalg::det(vh)).detach();
    const Variable own = eye(s.size(-1), {}, {.dtype = boolean, .device = s.device()});
    const Variable others = prod(where(own, 1.0, as_row(s)), -1);
    return matmul(u * as_scalar(dy * sign) * as_row(others), vh);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    const Variable y = this->y();
    if (has_zero(y)) return backward(Variable(dy)).value();
    return (factors.inverse_transposed(x.value().shape()) * as_scalar(Variable(dy) * y)).value();
  }

 private:
  static bool has_zero(const Variable& y) { return host_number(any(eq(y, 0)).value()).to<bool>(); }
};

struct LogDet {
  static constexpr std::string_view kName = "linalg.slogdet";
  Factors factors{};
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  std::vector<Tensor> forward(const Tensor& x) {
    require_square(kName, x);
    const NoGrad off;
    factors = Factors(x);
    const Variable diagonal = factors.diagonal();
    const Shape front = front_of(x.shape());
    return {reshape(prod(sign(diagonal), 1) * factors.parity(), front).value(),
            reshape(sum(log(abs(diagonal)), {1}), front).value()};
  }
  Variable backward(std::span<const Variable> dy) const {
    return dy[1].defined() ? as_scalar(dy[1]) * mT(inv(x())) : Variable();
  }
  Tensor kernel_backward(std::span<const Tensor> dy) const {
    if (!dy[1]) return {};
    check_info(kName, factors.info, kSingular);
    return (factors.inverse_transposed(x.value().shape()) * as_scalar(Variable(dy[1]))).value();
  }
};

struct SolveTriangular {
  static constexpr std::string_view kName = "linalg.solve_triangular";
  bool upper, unit;
  SavedInput<0> a{};
  SavedOutput<> x{};
  auto saved() { return std::tie(a, x); }

  Tensor forward(const Tensor& a, const Tensor& b) const {
    check_same_device(kName, a, b);
    check_same_dtype(kName, a, b);
    Tensor x = by_columns(b);
    kernels::triangular_solve(by_columns(a), {upper, /*transposed=*/false, unit}, x);
    return by_rows(x, b.shape());
  }
  // dB = A^-T dX, dA = -dB X^T in the triangle of A that is read
  std::array<Variable, 2> backward(const Variable& dx, Needs needs) const {
    const Variable db = solve_triangular(mT(a()), dx, {.upper = !upper, .unitriangular = unit});
    if (!needs[0]) return {Variable(), db};
    const Variable da = -matmul(db, mT(x()));
    return {upper ? triu(da, unit) : tril(da, unit ? -1 : 0), db};
  }
};

struct Cholesky {
  static constexpr std::string_view kName = "linalg.cholesky";
  SavedOutput<> l{};
  auto saved() { return std::tie(l); }

  Tensor forward(const Tensor& x) const {
    require_square(kName, x);
    Tensor y = by_columns(x), info = info_for(y);
    kernels::cholesky(y, info);
    check_info(kName, info, "the matrix is not positive definite");
    return by_rows(y, x.shape());
  }
  // dA = (S + S^T) / 2 with S = L^-T P L^-1, where P is the lower triangle of L^T dL with half of
  // its diagonal (Murray 2016).
  Variable backward(const Variable& dl) const {
    const Variable l = this->l(), product = matmul(mT(l), dl);
    const Variable p = tril(product) - diag_embed(diagonal(product, 0, -2, -1)) * 0.5;
    const Variable left = solve_triangular(mT(l), p, {.upper = true});
    const Variable s = solve_triangular(l, left, {.upper = false, .left = false});
    return (s + mT(s)) * 0.5;
  }
};

void check_rows(std::string_view op, const Variable& a, const Variable& b, int rows_of_b) {
  if (a.size(-1) != b.size(rows_of_b))
    fail<ShapeError>(op, ": sizes differ: ", a.shape(), " and ", b.shape());
}

}  // namespace

Variable solve(const Variable& a, const Variable& b, bool left, Where where) {
  const CallLine line(where);
  require_square(Solve::kName, a.value());
  Shape vectors = front_of(a.shape());
  vectors.push_back(a.size(-1));
  if (b.rank() == 1 || b.shape() == vectors)
    return left ? squeeze(solve(a, unsqueeze(b, -1)), -1)
                : squeeze(solve(a, unsqueeze(b, -2), false), -2);
  require_matrix(Solve::kName, b.value());
  if (!left) return mT(solve(mT(a), mT(b)));
  check_rows(Solve::kName, a, b, -2);
  const auto [x, y] = broadcast_batches(Solve::kName, a, b);
  return apply(Solve{}, where, x, y);
}

Variable inv(const Variable& x, Where where) {
  const ErrorLine line(where);
  return apply(Inv{}, where, x);
}
Variable det(const Variable& x, Where where) {
  const ErrorLine line(where);
  return apply(Det{}, where, x);
}
Slogdet slogdet(const Variable& x, Where where) {
  const ErrorLine line(where);
  const std::vector<Variable> y = apply(LogDet{}, where, x);
  return {y[0], y[1]};
}

Variable solve_triangular(const Variable& a, const Variable& b, TriangularOptions options,
                          Where where) {
  const CallLine line(where);
  require_square(SolveTriangular::kName, a.value());
  require_matrix(SolveTriangular::kName, b.value());
  check_rows(SolveTriangular::kName, a, b, options.left ? -2 : -1);
  if (!options.left)
    return mT(solve_triangular(mT(a), mT(b),
                               {.upper = !options.upper, .unitriangular = options.unitriangular}));
  const auto [x, y] = broadcast_batches(SolveTriangular::kName, a, b);
  return apply(SolveTriangular{options.upper, options.unitriangular}, where, x, y);
}

Variable cholesky(const Variable& x, bool upper, Where where) {
  const ErrorLine error_line(where);
  if (!upper) return apply(Cholesky{}, where, x);
  const CallLine line(where);
  require_square(Cholesky::kName, x.value());
  return mT(cholesky(mT(x)));
}

}  // namespace linalg

Variable cholesky_solve(const Variable& b, const Variable& factor, bool upper, Where where) {
  const CallLine line(where);
  detail::require_square("cholesky_solve", factor.value());
  detail::require_matrix("cholesky_solve", b.value());
  linalg::check_rows("cholesky_solve", factor, b, -2);
  const Variable lower = upper ? detail::mT(factor) : factor;
  return linalg::solve_triangular(
      detail::mT(lower), linalg::solve_triangular(lower, b, {.upper = false}), {.upper = true});
}

Variable triangular_solve(const Variable& b, const Variable& a, TriangularSolveOptions options,
                          Where where) {
  const CallLine line(where);
  detail::require_square("triangular_solve", a.value());
  return linalg::solve_triangular(
      options.transpose ? detail::mT(a) : a, b,
      {.upper = options.upper != options.transpose, .unitriangular = options.unitriangular});
}

void catalog_linalg_factor(Catalog& catalog);
void catalog_linalg_composed(Catalog& catalog);
void catalog_linalg_lu(Catalog& catalog);

namespace {

/// Example arguments for ops that do not accept every matrix.
Variable example_matrix(DType dtype) { return Variable(eye(2, 2, {.dtype = dtype})); }
Arguments one_example(DType dtype) { return {.inputs = {example_matrix(dtype)}}; }
Arguments two_examples(DType dtype) {
  return {.inputs = {example_matrix(dtype), example_matrix(dtype)}};
}

}  // namespace

void catalog_linalg(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr OpTraits kOne{.example = one_example}, kTwo{.example = two_examples};
  catalog.add(
      "linalg.solve(A, B, left: bool = true)", "X with A X = B, or X A = B",
      [](A a) { return linalg::solve(a[0], a[1], a.flag("left")); }, kTwo);
  catalog.add(
      "linalg.inv(A)", "A^-1", [](A a) { return linalg::inv(a[0]); }, kOne);
  catalog.add(
      "linalg.det(A)", "the determinant", [](A a) { return linalg::det(a[0]); }, kOne);
  catalog.add(
      "linalg.slogdet(A)", "sign(det A) and log |det A|",
      [](A a) {
        const auto [sign, logabsdet] = linalg::slogdet(a[0]);
        return std::vector{sign, logabsdet};
      },
      kOne);
  catalog.add(
      "linalg.solve_triangular(A, B, upper: bool, left: bool = true, unitriangular: bool = false)",
      "X with A X = B, or X A = B, for a triangular A",
      [](A a) {
        return linalg::solve_triangular(a[0], a[1],
                                        {.upper = a.flag("upper"),
                                         .left = a.flag("left"),
                                         .unitriangular = a.flag("unitriangular")});
      },
      {.example = [](DType dtype) -> Arguments {
        Arguments arguments = two_examples(dtype);
        arguments.attributes = {{"upper", true}};
        return arguments;
      }});
  catalog.add(
      "linalg.cholesky(A, upper: bool = false)", "lower triangular L with A = L L^T",
      [](A a) { return linalg::cholesky(a[0], a.flag("upper")); }, kOne);
  catalog.add(
      "cholesky_solve(B, L, upper: bool = false)", "X with L L^T X = B",
      [](A a) { return cholesky_solve(a[0], a[1], a.flag("upper")); }, kTwo);
  catalog.add(
      "triangular_solve(b, A, upper: bool = true, transpose: bool = false, "
      "unitriangular: bool = false)",
      "X with A X = b for a triangular A",
      [](A a) {
        return triangular_solve(a[0], a[1],
                                {.upper = a.flag("upper"),
                                 .transpose = a.flag("transpose"),
                                 .unitriangular = a.flag("unitriangular")});
      },
      kTwo);
  catalog_linalg_factor(catalog);
  catalog_linalg_composed(catalog);
  catalog_linalg_lu(catalog);
}

}  // namespace tapegrad

namespace tapegrad::linalg {
Variable Slogdet::operator[](int part) const { return detail::part_at(*this, part); }
}  // namespace tapegrad::linalg
