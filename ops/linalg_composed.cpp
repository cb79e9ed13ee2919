#include "ops/linalg_composed.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "core/base/internal/host_values.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/extremes.h"
#include "ops/internal/extent.h"
#include "ops/internal/linalg_parts.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace linalg {
namespace {

using namespace detail;

/// The coefficients of the [q/q] Pade approximant of exp, scaled so that the last one is 1, and the
/// 1-norm up to which the approximant has the accuracy of the dtype (Higham 2005, table 2.3).
struct Pade {
  std::array<double, 14> b;
  int degree;
  double theta;
};
constexpr Pade kDouble{
    {64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
     10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1},
    13,
    5.371920351148152};
constexpr Pade kSingle{
    {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}, 7, 3.925724783138660};

/// The number of halvings after which the approximant holds for each matrix; [..., 1, 1].
struct Halvings {
  Variable times, scale;
  int64_t most = 0;

  Halvings(const Variable& x, double theta) {
    const NoGrad off;
    const Variable norm = amax(sum(abs(x.detach()), {-2}), {-1});
    const Variable wanted = clamp(ceil(log2(norm / theta)), {.min = 0.0});
    times = as_scalar(where(isfinite(norm), wanted, 0.0));
    scale = ones_like(times);
    most = host_number(amax(times).value()).to<int64_t>();
    for (int64_t i = 0; i < most; ++i) scale = where(gt(times, double(i)), scale * 0.5, scale);
  }
};

/// (V + U) / (V - U), where U and V are the sums of the odd and even powers.
Variable approximant(const Variable& x, const Pade& pade) {
  const Variable identity = identity_like(x), square = matmul(x, x);
  Variable power, odd = identity * pade.b[1], even = identity * pade.b[0];
  for (int k = 2; k < pade.degree; k += 2) {
    power = power.defined() ? matmul(power, square) : square;
    even = even + power * pade.b[size_t(k)];
    odd = odd + power * pade.b[size_t(k) + 1];
  }
  odd = matmul(x, odd);
  return solve(even - odd, even + odd);
}

/// The cheapest order for a chain of matrices sizes[i] x sizes[i + 1]; split[i][j] is for factors
/// i..j.
class Chain {
 public:
  Chain(std::span<const Variable> factors) : factors_(factors), n_(factors.size()) {
    std::vector<std::vector<double>> cost(n_, std::vector<double>(n_, 0));
    split_.assign(n_, std::vector<size_t>(n_, 0));
    const auto size = [&](size_t i) {
      return double(i < n_ ? factors[i].size(0) : factors[n_ - 1].size(1));
    };
    for (size_t length = 1; length < n_; ++length)
      for (size_t i = 0; i + length < n_; ++i) {
        const size_t j = i + length;
        for (size_t k = i; k < j; ++k) {
          const double here = cost[i][k] + cost[k + 1][j] + size(i) * size(k + 1) * size(j + 1);
          if (k > i && here >= cost[i][j]) continue;
          cost[i][j] = here;
          split_[i][j] = k;
        }
      }
  }
  Variable product() const { return product(0, n_ - 1); }

 private:
  Variable product(size_t i, size_t j) const {
    if (i == j) return factors_[i];
    return matmul(product(i, split_[i][j]), product(split_[i][j] + 1, j));
  }

  std::span<const Variable> factors_;
  size_t n_;
  std::vector<std::vector<size_t>> split_;
};

/// The two dimensions of a matrix norm, as nonnegative numbers.
struct Plane {
  int rows, columns;

  Plane(const Variable& x, const Dims& dims) {
    constexpr std::string_view kName = "linalg.matrix_norm";
    require_float(kName, x.value());
    if (dims.rank() != 2) fail<ArgumentError>(kName, ": two dims are wanted, not ", dims);
    rows = normalize_dim(kName, dims[0], x.rank());
    columns = normalize_dim(kName, dims[1], x.rank());
    if (rows == columns) fail<ArgumentError>(kName, ": dim ", dims[0], " is named twice");
  }
  /// Inserts dimensions of size 1 into the norms [...] if keepdim.
  Variable keep(const Variable& y, bool keepdim) const {
    if (!keepdim) return y;
    return unsqueeze(unsqueeze(y, std::min(rows, columns)), std::max(rows, columns));
  }
};

/// Returns the singular values of each matrix of the plane, [..., k].
Variable values_of(const Variable& x, const Plane& plane) {
  Dims order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != plane.rows && i != plane.columns) order.push_back(i);
  order.push_back(plane.rows), order.push_back(plane.columns);
  return svdvals(permute(x, order));
}

}  // namespace

Variable matrix_power(const Variable& x, int64_t n, Where where) {
  const CallLine line(where);
  const bool counts = n >= 0 && is_integer(x.dtype());  // such as paths of a graph
  if (!counts || x.rank() < 2 || x.size(-1) != x.size(-2))
    require_square("linalg.matrix_power", x.value());
  if (n == 0) return clone(identity_like(x));
  Variable square = n < 0 ? inv(x) : x, power;
  for (uint64_t rest = n < 0 ? -uint64_t(n) : uint64_t(n);;) {
    if (rest & 1) power = power.defined() ? matmul(power, square) : square;
    if ((rest >>= 1) == 0) break;
    square = matmul(square, square);
  }
  return n == 1 ? clone(power) : power;
}

Variable matrix_exp(const Variable& x, Where where) {
  const CallLine line(where);
  require_square("linalg.matrix_exp", x.value());
  if (x.numel() == 0) return clone(x);
  const Pade& pade = x.dtype() == f32 ? kSingle : kDouble;
  const Halvings halvings(x, pade.theta);
  Variable y = approximant(x * halvings.scale, pade);
  for (int64_t i = 0; i < halvings.most; ++i) {
    // A finished matrix is excluded from the product, where it could overflow.
    const Variable goes_on = gt(halvings.times, double(i));
    const Variable factor = tapegrad::where(goes_on, y, 0.0);
    y = tapegrad::where(goes_on, matmul(factor, factor), y);
  }
  return y;
}

Variable multi_dot(std::span<const Variable> factors, Where where) {
  if (is_autocast_enabled()) [[unlikely]] {
    const std::vector<Variable> low_factors = low(factors, where);
    const AutocastOff off;
    return multi_dot(low_factors, where);
  }
  const CallLine line(where);
  constexpr std::string_view kName = "linalg.multi_dot";
  const size_t n = factors.size();
  if (n < 2) fail<ArgumentError>(kName, ": two factors or more are wanted, not ", n);
  std::vector<Variable> matrices(factors.begin(), factors.end());
  const bool row = matrices[0].rank() == 1, column = matrices[n - 1].rank() == 1;
  if (row) matrices[0] = unsqueeze(matrices[0], 0);
  if (column) matrices[n - 1] = unsqueeze(matrices[n - 1], 1);
  for (size_t i = 0; i < n; ++i) {
    if (matrices[i].rank() != 2)
      fail<ShapeError>(kName, ": factor ", i, " is no matrix: ", factors[i].shape());
    if (i > 0 && matrices[i - 1].size(1) != matrices[i].size(0))
      fail<ShapeError>(kName, ": inner sizes differ: ", factors[i - 1].shape(), " x ",
                       factors[i].shape());
  }
  Variable y = Chain(matrices).product();
  if (row) y = squeeze(y, 0);
  if (column) y = squeeze(y, -1);
  return y;
}

Variable vector_norm(const Variable& x, double ord, const Dims& dims, bool keepdim, Where where) {
  return tapegrad::norm(x, ord, dims, keepdim, where);
}

Variable vector_norm(const Variable& x, const VectorNormOptions& options, Where where) {
  return vector_norm(x, options.ord, options.dim, options.keepdim, where);
}
Variable matrix_norm(const Variable& x, std::string_view ord, const Dims& dims, bool keepdim,
                     Where where) {
  const CallLine line(where);
  const Plane plane(x, dims);
  if (ord == "fro") return tapegrad::norm(x, 2.0, dims, keepdim);
  if (ord == "nuc") return plane.keep(sum(values_of(x, plane), {-1}), keepdim);
  fail<ArgumentError>("linalg.matrix_norm: ord: fro, nuc, 1, -1, 2, -2, inf or -inf, not ", ord);
}

Variable matrix_norm(const Variable& x, double ord, const Dims& dims, bool keepdim, Where where) {
  const CallLine line(where);
  const Plane plane(x, dims);
  const auto extreme = [&](const Variable& y, int dim) {  // the largest of no values is 0
    if (ord > 0) return y.size(dim) == 0 ? sum(y, {dim}) : amax(y, {dim});
    return amin(y, {dim});
  };
  if (std::abs(ord) == 2) return plane.keep(extreme(values_of(x, plane), -1), keepdim);
  if (std::abs(ord) != 1 && !std::isinf(ord))
    fail<ArgumentError>("linalg.matrix_norm: ord: fro, nuc, 1, -1, 2, -2, inf or -inf, not ", ord);
  const bool of_columns = std::abs(ord) == 1;  // column norms
  const int summed = of_columns ? plane.rows : plane.columns;
  const int chosen = of_columns ? plane.columns : plane.rows;
  const Variable sums = sum(abs(x), {summed}, /*keepdim=*/true);
  return plane.keep(squeeze(extreme(sums, chosen), chosen < summed ? summed - 1 : summed), keepdim);
}

}  // namespace linalg

namespace {

Dims norm_dims(const Arguments& a) { return a.has("dim") ? a.dims("dim") : Dims{}; }

Variable norm_by_name(const Arguments& a) {
  const std::string ord = a.text("ord");
  double number = 0;
  const auto [end, error] = std::from_chars(ord.data(), ord.data() + ord.size(), number);
  const bool is_number = error == std::errc() && end == ord.data() + ord.size();
  const Dims dims = a.dims("dim");
  return is_number ? linalg::matrix_norm(a[0], number, dims, a.flag("keepdim"))
                   : linalg::matrix_norm(a[0], ord, dims, a.flag("keepdim"));
}

}  // namespace

Variable linalg::vecdot(const Variable& a, const Variable& b, int dim, Where where) {
  return sum(mul({a, where}, {b, where}), dim, false, where);
}
Variable linalg::cond(const Variable& x, double p, Where where) {
  const CallLine line(where);
  if (p == 2) return cond(x);
  if (p == -2) return reciprocal(cond(x));
  return matrix_norm(x, p) * matrix_norm(inv(x), p);
}
Variable linalg::householder_product(const Variable& x, const Variable& tau, Where where) {
  const CallLine line(where);
  const int64_t k = tau.rank() > 0 ? tau.size(-1) : -1;
  if (x.rank() < 2 || tau.rank() != x.rank() - 1 || x.size(-2) < x.size(-1) || k < 0 ||
      k > x.size(-1))
    fail<ShapeError>(
        "linalg.householder_product: [..., m, n] with m >= n and [..., k] with k <= n "
        "wanted, not ",
        x.shape(), " and ", tau.shape());
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  const Variable unit = eye(x.size(-2), x.size(-1), like);
  const Variable vectors = tril(x, -1) + unit;
  Variable product = expand(unit, x.shape());
  for (int64_t i = k - 1; i >= 0; --i) {
    const Variable v = slice(vectors, -1, i, i + 1);
    const Variable row = slice(tau, -1, i, i + 1).unsqueeze(-1) * matmul(v.mT(), product);
    product = product - matmul(v, row);
  }
  return product;
}
Variable linalg::cond(const Variable& x, Where where) {
  const Variable s = linalg::svdvals(x, where);
  return amax(s, -1, false, where) / amin(s, -1, false, where);
}
Variable linalg::tensorsolve(const Variable& a, const Variable& b, const Dims& dims, Where where) {
  const ErrorLine line(where);
  Dims ends;
  for (int i = 0; i < dims.rank(); ++i) ends.push_back(i - dims.rank());
  const Variable moved = dims.empty() ? a : movedim(a, dims, ends);
  const Shape sizes = moved.shape();
  const int split = std::min(b.rank(), sizes.rank());
  if (numel(sizes, 0, split) != b.numel() || numel(sizes, split, sizes.rank()) != b.numel())
    fail<ShapeError>("tensorsolve: ", sizes, " is not a square matrix for ", b.shape());
  Shape of_x;
  for (int i = split; i < sizes.rank(); ++i) of_x.push_back(sizes[i]);
  const Variable matrix = reshape(moved, {b.numel(), b.numel()});
  return reshape(solve(matrix, reshape(b, {b.numel()}), true, where), of_x);
}
Variable linalg::tensorinv(const Variable& x, int ind, Where where) {
  const ErrorLine line(where);
  if (ind < 1 || ind >= x.rank())
    fail<ArgumentError>("tensorinv: ind is ", ind, ", not in [1, ", x.rank() - 1, "]");
  const int64_t rows = numel(x.shape(), 0, ind), columns = numel(x.shape(), ind, x.rank());
  if (rows != columns)
    fail<ShapeError>("tensorinv: ", x.shape(), " is a matrix of ", rows, " rows and ", columns,
                     " columns");
  Shape turned;
  for (int i = 0; i < x.rank(); ++i) turned.push_back(x.size((ind + i) % x.rank()));
  return reshape(inv(reshape(x, {rows, rows}), where), turned);
}
Variable linalg::matrix_rank(const Variable& x, std::optional<double> rtol, Where where) {
  const Variable s = linalg::svdvals(x.detach(), where);
  if (s.size(-1) == 0) return sum(s.to(i64), -1, false, where);
  const double share =
      rtol.value_or(finfo(x.dtype()).eps * double(std::max(x.size(-1), x.size(-2))));
  return sum((s > amax(s, -1, true, where) * share).to(i64), -1, false, where);
}

Variable cholesky_inverse(const Variable& factor, bool upper, Where where) {
  if (factor.rank() < 2 || factor.size(-1) != factor.size(-2))
    fail<ShapeError>("cholesky_inverse: square matrices, not ", factor.shape());
  const Variable l = upper ? transpose(triu(factor), -2, -1, where) : tril(factor);
  const Variable inverse = linalg::inv(l, where);
  return matmul(transpose(inverse, -2, -1, where), inverse, where);
}

PcaLowrank pca_lowrank(const Variable& x, std::optional<int64_t> q, bool center, Where where) {
  const CallLine line(where);
  if (x.rank() != 2) fail<ShapeError>("pca_lowrank: a matrix wanted, not ", x.shape());
  const int64_t most = std::min(x.size(0), x.size(1)),
                wanted = q.value_or(std::min(most, int64_t(6)));
  if (wanted < 0 || wanted > most)
    fail<ArgumentError>("pca_lowrank: q is ", wanted, ", not from 0 to ", most);
  const auto [u, s, vh] = linalg::svd(center ? x - mean(x, 0, /*keepdim=*/true) : x, false);
  return {narrow(u, 1, 0, wanted), narrow(s, 0, 0, wanted), t(narrow(vh, 0, 0, wanted))};
}

void catalog_linalg_composed(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr OpTraits square{.example = [](DType dtype) -> Arguments {
    return {.inputs = {Variable(Tensor::full({2, 2}, 1, dtype))}, .attributes = {}};
  }};
  catalog.add("linalg.matrix_power(A, n: int)", "A A ... A",
              [](A a) { return linalg::matrix_power(a[0], a.integer("n")); },
              {.example = [](DType dtype) -> Arguments {
                return {.inputs = {Variable(Tensor::full({2, 2}, 1, dtype))},
                        .attributes = {{"n", int64_t(2)}}};
              }});
  catalog.add(
      "linalg.matrix_exp(A)", "the sum of A^k / k!", [](A a) { return linalg::matrix_exp(a[0]); },
      square);
  catalog.add("linalg.multi_dot(tensors*)", "the product of matrices in the cheapest order",
              [](A a) { return linalg::multi_dot(a.list); },
              {.example = [](DType dtype) -> Arguments {
                const Variable x(Tensor::full({2, 2}, 1, dtype));
                return {.list = {x, x}};
              }});
  catalog.add("linalg.vector_norm(x, ord: float = 2.0, dim: ints = none, keepdim: bool = false)",
              "(sum |x|^ord)^(1/ord)", [](A a) {
                return linalg::vector_norm(a[0], a.real("ord"), norm_dims(a), a.flag("keepdim"));
              });
  catalog.add("linalg.matrix_norm(A, ord: str = fro, dim: ints = [-2, -1], keepdim: bool = false)",
              "of sums of magnitudes (1, inf), of singular values (2, nuc), or of squares (fro)",
              [](A a) { return norm_by_name(a); });
}

}  // namespace tapegrad

namespace tapegrad::linalg {
Variable multi_dot(std::initializer_list<Variable> factors, Where where) {
  return multi_dot(std::span<const Variable>(factors.begin(), factors.size()), where);
}
}  // namespace tapegrad::linalg

namespace tapegrad {
Variable PcaLowrank::operator[](int part) const { return detail::part_at(*this, part); }
}  // namespace tapegrad
