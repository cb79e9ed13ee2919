#include "ops/linalg_factor.h"

#include <limits>

#include "core/base/internal/host_values.h"
#include "core/tape/autocast.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/internal/is_recorded.h"
#include "ops/internal/linalg_parts.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(qr_factor) qr_factor{"linalg.qr"};
constinit decltype(qr_form) qr_form{"linalg.qr"};
constinit decltype(svd) svd{"linalg.svd"};
constinit decltype(eigh) eigh{"linalg.eigh"};

}  // namespace kernels

namespace linalg {
namespace {

using namespace detail;

constexpr std::string_view kNoConvergence = "a value is not finite, or no convergence";

/// Returns the diagonal of a square matrix, as a mask.
Variable diagonal_mask(int64_t n, Device device) {
  return eye(n, n, {.dtype = boolean, .device = device});
}

/// Returns v_j - v_i, with 1 on the diagonal.
Variable gaps(const Variable& v) {
  return where(diagonal_mask(v.size(-1), v.device()), 1.0, as_row(v) - as_column(v));
}

Variable skew(const Variable& x) { return x - mT(x); }

/// Returns the sum, where an empty operand counts as zero.
Variable plus(const Variable& a, const Variable& b) {
  return !a.defined() ? b : !b.defined() ? a : a + b;
}

struct QrFactors {
  static constexpr std::string_view kName = "linalg.qr";
  QrMode mode;
  SavedInput<0> x{};
  SavedOutput<0> q{};
  SavedOutput<1> r{};
  auto saved() { return std::tie(x, q, r); }

  std::vector<Tensor> forward(const Tensor& x) const {
    require_matrix(kName, x);
    const NoGrad off;
    const int64_t m = x.shape()[x.rank() - 2], n = x.shape()[x.rank() - 1], k = std::min(m, n);
    Tensor a = by_columns(x);
    const int64_t batch = a.shape()[0], width = mode == QrMode::kComplete ? m : k;
    Tensor scales = a.empty_like({batch, k});
    kernels::qr_factor(a, scales);
    const Variable factors(a), top = mT(narrow(factors, 2, 0, width));
    const Tensor r = reshape(triu(top), with_matrix(x.shape(), width, n)).value();
    if (mode == QrMode::kR) return {x.empty_like({0}), r};
    const int64_t given = std::min(n, width);
    const Variable rest =
        zeros({batch, width - given, m}, {.dtype = x.dtype(), .device = x.device()});
    Tensor q = cat({narrow(factors, 1, 0, given), rest}, 1).value();
    kernels::qr_form(q, scales);
    return {by_rows(q, with_matrix(x.shape(), m, width)), r};
  }
  // For a wide A = [X Y] with X = Q U and R = [U V]: V = Q^T Y first contributes to dQ.
  Variable backward(std::span<const Variable> dy) const {
    const Variable q = this->q(), r = this->r();
    const int64_t rows = r.size(-2), n = r.size(-1);
    if (n == 0) return Variable();
    if (mode == QrMode::kR || rows > n)
      fail<AutogradError>("linalg.qr: no gradient with mode ",
                          mode == QrMode::kR ? "r: Q is not computed"
                                             : "complete of a matrix with more rows than columns");
    const auto &dq = dy[0], &dr = dy[1];
    if (rows == n) return backward_tall(q, r, dq, dr);
    const auto part = [&](const Variable& x, int64_t start, int64_t end) {
      return x.defined() ? narrow(x, -1, start, end - start) : x;
    };
    const Variable u = part(r, 0, rows), du = part(dr, 0, rows), dv = part(dr, rows, n);
    if (!dv.defined()) return pad(backward_tall(q, u, dq, du), {0, n - rows});
    const Variable from_v = matmul(part(x(), rows, n), mT(dv));
    return cat({backward_tall(q, u, plus(dq, from_v), du), matmul(q, dv)}, -1);
  }
  // dA = (dQ + Q S) R^-T, where S is symmetric with the lower triangle of R dR^T - dQ^T Q (Walter
  // and Lehmann 2010).
  static Variable backward_tall(const Variable& q, const Variable& r, const Variable& dq,
                                const Variable& dr) {
    const Variable m =
        plus(dr.defined() ? matmul(r, mT(dr)) : dr, dq.defined() ? -matmul(mT(dq), q) : dq);
    const Variable s = matmul(q, tril(m) + mT(tril(m, -1)));
    return solve_triangular(mT(r), plus(dq, s), {.upper = false, .left = false});
  }
};

struct SvdFactors {
  static constexpr std::string_view kName = "linalg.svd";
  bool full;
  SavedOutput<0> u{};
  SavedOutput<1> s{};
  SavedOutput<2> vh{};
  auto saved() { return std::tie(u, s, vh); }

  std::vector<Tensor> forward(const Tensor& x) const {
    require_matrix(kName, x);
    const int64_t m = x.shape()[x.rank() - 2], n = x.shape()[x.rank() - 1], k = std::min(m, n);
    Tensor a = by_columns(x), info = info_for(a);
    const int64_t batch = a.shape()[0], width = full ? m : k, height = full ? n : k;
    Tensor u = a.empty_like({batch, width, m}), vh = a.empty_like({batch, n, height});
    Tensor s = a.empty_like({batch, k});
    kernels::svd(a, u, s, vh, info);
    check_info(kName, info, kNoConvergence);
    Shape values = front_of(x.shape());
    values.push_back(k);
    return {by_rows(u, with_matrix(x.shape(), m, width)), reshape(Variable(s), values).value(),
            by_rows(vh, with_matrix(x.shape(), height, n))};
  }
  // dA = U (diag(dS) + P / E S + S Q / E) V^T, where P = skew(U^T dU), Q = skew(V^T dV) and
  // E_ij = s_j^2 - s_i^2. The space outside of U's columns adds (1 - U U^T) dU S^-1 V^T; V's is
  // analogous (Townsend 2016).
  Variable backward(std::span<const Variable> dy) const {
    const Variable s = this->s();
    const int64_t k = s.size(-1);
    const auto first = [&](const Variable& x, int dim) {  // further vectors are an arbitrary basis
      return x.defined() && x.size(dim) > k ? narrow(x, dim, 0, k) : x;
    };
    const Variable u = first(this->u(), -1), vh = first(this->vh(), -2);
    const Variable du = first(dy[0], -1), dvh = first(dy[2], -2);
    Variable inner = dy[1].defined() ? diag_embed(dy[1]) : Variable();
    const Variable e =
        du.defined() || dvh.defined() ? gaps(s) * (as_row(s) + as_column(s)) : Variable();
    if (du.defined()) inner = plus(inner, skew(matmul(mT(u), du)) / e * as_row(s));
    if (dvh.defined()) inner = plus(inner, as_column(s) * (skew(matmul(vh, mT(dvh))) / e));
    Variable dx = matmul(matmul(u, inner), vh);
    if (du.defined() && u.size(-2) > k)
      dx = dx + matmul((du - matmul(u, matmul(mT(u), du))) / as_row(s), vh);
    if (dvh.defined() && vh.size(-1) > k)
      dx = dx + matmul(u, (dvh - matmul(matmul(dvh, mT(vh)), vh)) / as_column(s));
    return dx;
  }
};

struct SingularValues {
  static constexpr std::string_view kName = "linalg.svdvals";
  static constexpr bool kDifferentiable = false;

  Tensor forward(const Tensor& x) const {
    require_matrix(kName, x);
    Tensor a = by_columns(x), info = info_for(a), none;
    Shape values = front_of(x.shape());
    values.push_back(std::min(a.shape()[1], a.shape()[2]));
    Tensor s = a.empty_like({a.shape()[0], values[values.rank() - 1]});
    kernels::svd(a, none, s, none, info);
    check_info(kName, info, kNoConvergence);
    return reshape(Variable(s), values).value();
  }
};

/// Returns the eigenvalues and, if requested, the eigenvectors.
std::vector<Tensor> symmetric(std::string_view op, const Tensor& x, bool upper, bool vectors) {
  require_square(op, x);
  Tensor a = by_columns(upper ? mT(Variable(x)).value() : x), info = info_for(a);
  Tensor values = a.empty_like({a.shape()[0], a.shape()[1]});
  kernels::eigh(a, vectors, values, info);
  check_info(op, info, kNoConvergence);
  Shape shape = front_of(x.shape());
  shape.push_back(a.shape()[1]);
  std::vector<Tensor> found{reshape(Variable(values), shape).value()};
  if (vectors) found.push_back(by_rows(a, x.shape()));
  return found;
}

struct EighFactors {
  static constexpr std::string_view kName = "linalg.eigh";
  bool upper;
  SavedOutput<0> values{};
  SavedOutput<1> vectors{};
  auto saved() { return std::tie(values, vectors); }

  std::vector<Tensor> forward(const Tensor& x) const { return symmetric(kName, x, upper, true); }
  // dA = V (diag(dl) + skew(V^T dV) / (2 E)) V^T with E_ij = l_j - l_i
  Variable backward(std::span<const Variable> dy) const {
    const Variable v = vectors();
    Variable inner = dy[0].defined() ? diag_embed(dy[0]) : Variable();
    if (dy[1].defined()) inner = plus(inner, skew(matmul(mT(v), dy[1])) / (gaps(values()) * 2));
    return matmul(matmul(v, inner), mT(v));
  }
};

struct Eigenvalues {
  static constexpr std::string_view kName = "linalg.eigvalsh";
  static constexpr bool kDifferentiable = false;
  bool upper;

  Tensor forward(const Tensor& x) const { return symmetric(kName, x, upper, false)[0]; }
};

/// The singular value decomposition of a matrix, with small singular values treated as zero.
struct Spectrum {
  Svd factors;
  Variable kept;     // whether each singular value is nonzero, [..., k]
  Variable inverse;  // 1 / s, or 0 for zero singular values

  Spectrum(const Tensor& x, double atol, std::optional<double> rtol) {
    const NoGrad off;
    factors = svd(Variable(x), /*full_matrices=*/false);
    const Variable& s = factors.s;
    const double eps = x.dtype() == f32 ? std::numeric_limits<float>::epsilon()
                                        : std::numeric_limits<double>::epsilon();
    const double largest_size = double(std::max(x.shape()[x.rank() - 1], x.shape()[x.rank() - 2]));
    const double relative = rtol.value_or(atol > 0 ? 0 : largest_size * eps);
    kept = s.size(-1) == 0 ? gt(s, 0) : gt(s, maximum(amax(s, {-1}, true) * relative, atol));
    inverse = where(kept, 1 / s, 0.0);
  }
};

/// Returns the gradient of the pseudoinverse Y of A at constant rank, from
///   dY = -Y dA Y + Y Y^T dA^T (1 - A Y) + (1 - Y A) dA^T Y^T Y.
Variable pinv_gradient(const Variable& a, const Variable& y, const Variable& dy) {
  const Variable yt = mT(y), dyt = mT(dy);
  const Variable left = matmul(dyt, matmul(y, yt)), right = matmul(matmul(yt, y), dyt);
  return left - matmul(a, matmul(y, left)) + right - matmul(matmul(right, y), a) -
         matmul(matmul(yt, dy), yt);
}

struct Pinv {
  static constexpr std::string_view kName = "linalg.pinv";
  PinvOptions options;
  SavedInput<0> x{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, y); }

  Tensor forward(const Tensor& x) const {
    require_matrix(kName, x);
    const NoGrad off;
    const AutocastOff as_called;
    const Spectrum of(x, options.atol, options.rtol);
    return matmul(mT(of.factors.vh) * as_row(of.inverse), mT(of.factors.u)).value();
  }
  Variable backward(const Variable& dy) const { return pinv_gradient(x(), y(), dy); }
};

struct Lstsq {
  static constexpr std::string_view kName = "linalg.lstsq";
  std::optional<double> rcond;
  std::optional<Spectrum> spectrum;  // of a, until it is used
  SavedInput<0> a{};
  SavedInput<1, /*for*/ 0> b{};
  auto saved() { return std::tie(a, b); }

  Tensor forward(const Tensor&, const Tensor& b) {
    const NoGrad off;
    const AutocastOff as_called;
    const Svd& factors = spectrum->factors;
    const Variable along = matmul(mT(factors.u), Variable(b)) * as_column(spectrum->inverse);
    const Tensor x = matmul(mT(factors.vh), along).value();
    spectrum.reset();
    return x;
  }
  // X = A^+ B
  std::array<Variable, 2> backward(const Variable& dx, Needs needs) const {
    const Variable a = this->a(), y = pinv(a, {.rtol = rcond});
    return {needs[0] ? pinv_gradient(a, y, matmul(dx, mT(b()))) : Variable(), matmul(mT(y), dx)};
  }
};

}  // namespace

Qr qr(const Variable& x, Choice<QrMode> mode, Where where) {
  const ErrorLine line(where);
  const std::vector<Variable> y = apply(QrFactors{mode}, where, x);
  return {y[0], y[1]};
}

Svd svd(const Variable& x, bool full_matrices, Where where) {
  const ErrorLine line(where);
  const std::vector<Variable> y = apply(SvdFactors{full_matrices}, where, x);
  return {y[0], y[1], y[2]};
}
Variable svdvals(const Variable& x, Where where) {
  const ErrorLine line(where);
  return is_recorded(x) ? svd(x, /*full_matrices=*/false, where).s
                        : apply(SingularValues{}, where, x);
}

Eigh eigh(const Variable& x, bool upper, Where where) {
  const ErrorLine line(where);
  const std::vector<Variable> y = apply(EighFactors{upper}, where, x);
  return {y[0], y[1]};
}
Variable eigvalsh(const Variable& x, bool upper, Where where) {
  const ErrorLine line(where);
  return is_recorded(x) ? eigh(x, upper, where).eigenvalues : apply(Eigenvalues{upper}, where, x);
}

Variable pinv(const Variable& x, PinvOptions options, Where where) {
  const ErrorLine line(where);
  return apply(Pinv{options}, where, x);
}

LeastSquares lstsq(const Variable& a, const Variable& b, std::optional<double> rcond, Where where) {
  const CallLine line(where);
  require_matrix(Lstsq::kName, a.value());
  Shape vectors = front_of(a.shape());
  vectors.push_back(a.size(-2));
  if (b.shape() == vectors) {
    LeastSquares y = lstsq(a, unsqueeze(b, -1), rcond);
    y.solution = squeeze(y.solution, -1);
    if (y.residuals.rank() > 1) y.residuals = squeeze(y.residuals, -1);
    return y;
  }
  require_matrix(Lstsq::kName, b.value());
  check_same_device(Lstsq::kName, a.value(), b.value());
  check_same_dtype(Lstsq::kName, a.value(), b.value());
  if (a.size(-2) != b.size(-2))
    fail<ShapeError>(Lstsq::kName, ": sizes differ: ", a.shape(), " and ", b.shape());
  const auto [left, right] = broadcast_batches(Lstsq::kName, a, b);
  const Spectrum spectrum(left.value(), 0, rcond);
  LeastSquares y;
  y.solution = apply(Lstsq{rcond, spectrum}, where, left, right);
  y.singular_values = spectrum.factors.s;
  y.rank = sum(spectrum.kept, {-1});
  if (a.size(-2) > a.size(-1) && host_number(all(spectrum.kept).value()).to<bool>()) {
    const Variable error = matmul(left, y.solution) - right;
    y.residuals = sum(error * error, {-2});
  } else {
    y.residuals = zeros({0}, {.dtype = a.dtype(), .device = a.device()});
  }
  return y;
}

}  // namespace linalg

namespace {

bool is_upper(const Arguments& a) {
  const std::string side = a.text("UPLO");
  if (side != "L" && side != "U") fail<ArgumentError>("linalg.eigh: UPLO: L or U, not ", side);
  return side == "U";
}

}  // namespace

void catalog_linalg_factor(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("linalg.qr(A, mode: str = reduced)", "A = Q R", [](A a) {
    const auto [q, r] = linalg::qr(a[0], a.text("mode"));
    return std::vector{q, r};
  });
  catalog.add("linalg.svd(A, full_matrices: bool = true)", "A = U diag(S) V^T", [](A a) {
    const auto [u, s, vh] = linalg::svd(a[0], a.flag("full_matrices"));
    return std::vector{u, s, vh};
  });
  catalog.add("linalg.svdvals(A)", "S of A = U diag(S) V^T",
              [](A a) { return linalg::svdvals(a[0]); });
  catalog.add("linalg.eigh(A, UPLO: str = L)", "A = V diag(l) V^T for a symmetric A", [](A a) {
    const auto [values, vectors] = linalg::eigh(a[0], is_upper(a));
    return std::vector{values, vectors};
  });
  catalog.add("linalg.eigvalsh(A, UPLO: str = L)", "l of A = V diag(l) V^T",
              [](A a) { return linalg::eigvalsh(a[0], is_upper(a)); });
  catalog.add("linalg.pinv(A, atol: float = 0.0, rtol: float = none)", "the pseudoinverse A^+",
              [](A a) {
                linalg::PinvOptions options{.atol = a.real("atol")};
                if (a.has("rtol")) options.rtol = a.real("rtol");
                return linalg::pinv(a[0], options);
              });
  catalog.add("linalg.lstsq(A, B, rcond: float = none)",
              "the X of least |A X - B|; residuals, rank, singular values", [](A a) {
                std::optional<double> rcond;
                if (a.has("rcond")) rcond = a.real("rcond");
                const linalg::LeastSquares y = linalg::lstsq(a[0], a[1], rcond);
                return std::vector{y.solution, y.residuals, y.rank, y.singular_values};
              });
}

}  // namespace tapegrad

namespace tapegrad::linalg {
Variable Qr::operator[](int part) const { return detail::part_at(*this, part); }
Variable Svd::operator[](int part) const { return detail::part_at(*this, part); }
Svd svd(const Variable& x, SvdOptions options, Where where) {
  return svd(x, options.full_matrices, where);
}
Variable Eigh::operator[](int part) const { return detail::part_at(*this, part); }
}  // namespace tapegrad::linalg
