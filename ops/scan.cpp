#include "ops/scan.h"

#include <limits>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/catalog_arguments.h"
#include "ops/internal/extent.h"
#include "ops/internal/kernels/running_extreme.h"
#include "ops/internal/scalar_dimension.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(cumsum) cumsum{"cumsum"};
constinit decltype(cumprod) cumprod{"cumprod"}, logcumsumexp{"logcumsumexp"};
constinit decltype(running_extreme) running_extreme{"cummax"};
constinit decltype(running_values) running_values{"cummax"};
constinit decltype(recurrence) recurrence{"recurrence"};

}  // namespace kernels

using namespace detail;

namespace {

/// Shifts x by one along dim: y[i] = x[i - 1] if forward, else x[i + 1]; `edge` where there is no
/// element.
Variable shifted(const Variable& x, int dim, bool forward, double edge) {
  const int64_t n = x.size(dim);
  if (n == 0) return x;
  Shape one = x.shape();
  one[dim] = 1;
  const Variable end = full(one, edge, {.dtype = x.dtype(), .device = x.device()});
  return forward ? cat({end, narrow(x, dim, 0, n - 1)}, dim)
                 : cat({narrow(x, dim, 1, n - 1), end}, dim);
}

/// Op that computes y[i] = a[i] y[i + 1] + b[i] if reversed, else a[i] y[i - 1] + b[i]. The
/// gradients of cumulative products are composed of this recurrence, and so is its own gradient.
struct Recurrence {
  static constexpr std::string_view kName = "recurrence";
  int dim;
  bool reversed;
  SavedInput<1, /*for*/ 0, 1> a{};
  SavedOutput<> y{};
  auto saved() { return std::tie(a, y); }

  Tensor forward(const Tensor& b, const Tensor& a) const {
    Tensor y = b.empty_like(b.shape());
    Tensor rows = around(y, dim);
    kernels::recurrence(around(b, dim), around(a, dim), reversed, rows);
    return y;
  }
  // For the forward recurrence: db[i] = dy[i] + a[i + 1] db[i + 1], da[i] = db[i] y[i - 1].
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    const Variable factor = shifted(a(), dim, reversed, 0.0);
    const Variable db = apply(Recurrence{dim, !reversed}, Where::current(), dy, factor);
    std::array<Variable, 2> dx{db, Variable()};
    if (needs[1]) dx[1] = db * shifted(y(), dim, !reversed, 0.0);
    return dx;
  }
};

/// Sixteen-bit floats are computed in float32, because the sums have many terms.
Variable reversed_recurrence(const Variable& b, const Variable& a, int dim) {
  const DType dtype = size_of(b.dtype()) == 2 ? f32 : b.dtype();
  return apply(Recurrence{dim, /*reversed=*/true}, Where::current(), b.to(dtype), a.to(dtype));
}

struct CumSum {
  static constexpr std::string_view kName = "cumsum";
  int dim;

  Tensor forward(const Tensor& x) {
    dim = normalize_dim(kName, dim, x.rank());
    Tensor y = Tensor::empty(x.shape(), is_float(x.dtype()) ? x.dtype() : i64, x.device());
    Tensor rows = around(y, dim);
    kernels::cumsum(around(x, dim), rows);
    return y;
  }
  // Each element contributes to all sums from its own position on.
  Variable backward(const Variable& dy) const { return flip(cumsum(flip(dy, {dim}), dim), {dim}); }
};

struct CumProd {
  static constexpr std::string_view kName = "cumprod";
  int dim;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  Tensor forward(const Tensor& x) {
    dim = normalize_dim(kName, dim, x.rank());
    Tensor y = Tensor::empty(x.shape(), is_float(x.dtype()) ? x.dtype() : i64, x.device());
    Tensor rows = around(y, dim);
    kernels::cumprod(around(x, dim), rows);
    return y;
  }
  // dx[i] = y[i - 1] r[i] with r[i] = dy[i] + x[i + 1] r[i + 1]. There is no division, so zeros are
  // exact.
  Variable backward(const Variable& dy) const {
    const DType dtype = size_of(dy.dtype()) == 2 ? f32 : dy.dtype();
    const Variable x = this->x().to(dtype);
    const Variable before = shifted(cumprod(x, dim), dim, /*forward=*/true, 1.0);
    const Variable after = shifted(x, dim, /*forward=*/false, 0.0);
    return (before * reversed_recurrence(dy.to(dtype), after, dim)).to(dy.dtype());
  }
};

struct LogCumSumExp {
  static constexpr std::string_view kName = "logcumsumexp";
  int dim;
  SavedInput<0> x{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, y); }

  Tensor forward(const Tensor& x) {
    require_float(kName, x);
    dim = normalize_dim(kName, dim, x.rank());
    Tensor y = x.empty_like(x.shape());
    Tensor rows = around(y, dim);
    kernels::logcumsumexp(around(x, dim), rows);
    return y;
  }
  // dx[i] = sum over j >= i of dy[j] exp(x[i] - y[j]) = exp(x[i] - y[i]) r[i] with r[i] = dy[i] +
  // exp(y[i] - y[i + 1]) r[i + 1], whose factors are at most 1.
  Variable backward(const Variable& dy) const {
    const DType dtype = size_of(dy.dtype()) == 2 ? f32 : dy.dtype();
    const Variable x = this->x().to(dtype);
    const Variable y = dtype == dy.dtype() ? this->y() : logcumsumexp(x, dim);
    const Variable finite = where(eq(y, -std::numeric_limits<double>::infinity()), 0.0, y);
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const Variable factor = exp(y - shifted(finite, dim, /*forward=*/false, kInf));
    return (exp(x - finite) * reversed_recurrence(dy.to(dtype), factor, dim)).to(dy.dtype());
  }
};

struct RunningExtreme {
  static constexpr std::string_view kName = "cummax";
  std::string_view name;  // cummax or cummin
  int dim;
  Shape from{};
  SavedOutput<1> indices{};
  auto saved() { return std::tie(indices); }

  std::vector<Tensor> forward(const Tensor& x) {
    from = x.shape();
    const bool largest = name == kName;
    Tensor values = Tensor::empty(from, x.dtype(), x.device());
    Tensor indices = Tensor::empty(from, i64, x.device());
    Tensor each_value = around(values, dim), each_index = around(indices, dim);
    if (kernels::running_values.has(x.device().type, x.dtype())) {
      kernels::running_values(around(x, dim), largest, each_value, each_index);
    } else {
      kernels::running_extreme(around(x, dim), largest, each_index);
      if (x.numel() > 0) kernels::gather(x, indices, dim, values);
    }
    return {values, indices};
  }
  // Each element receives the gradients of all positions at which it is the extreme.
  Variable backward(std::span<const Variable> dy) const {
    if (!dy[0].defined()) return {};
    const Variable zeros(Tensor::full(from, 0.0, dy[0].dtype(), dy[0].device()));
    return scatter_add(zeros, dim, indices().detach(), dy[0]);
  }
};

ValuesIndices running_extreme(std::string_view name, const Variable& x, int dim, Where where) {
  dim = normalize_dim(name, dim, x.rank());
  const std::vector<Variable> both = apply(RunningExtreme{name, dim}, where, x);
  return {both[0], both[1]};
}

}  // namespace

Variable cumsum(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return cumsum(v, dim); });
  return apply_wide(CumSum{dim}, where, x);
}
Variable cumprod(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return cumprod(v, dim); });
  return apply_wide(CumProd{dim}, where, x);
}
Variable logcumsumexp(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return logcumsumexp(v, dim); });
  return apply_wide(LogCumSumExp{dim}, where, x);
}
ValuesIndices cummax(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return cummax(v, dim); });
  return running_extreme("cummax", x, dim, where);
}
ValuesIndices cummin(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return cummin(v, dim); });
  return running_extreme("cummin", x, dim, where);
}

Variable diff(const Variable& x, int64_t n, int dim, const Variable& prepend,
              const Variable& append, Where where) {
  const ErrorLine line(where);
  dim = normalize_dim("diff", dim, x.rank());
  if (n < 0) fail<ArgumentError>("diff: n is ", n);
  if (n == 0) return x;
  std::vector<Variable> parts;
  for (const Variable& part : {prepend, x, append})
    if (part.defined()) parts.push_back(part);
  Variable y = parts.size() > 1 ? cat(parts, dim, where) : x;
  for (int64_t i = 0; i < n && y.size(dim) > 0; ++i) {
    const int64_t size = y.size(dim) - 1;
    const Variable later = narrow(y, dim, 1, size, where), earlier = narrow(y, dim, 0, size, where);
    y = y.dtype() == boolean ? ne({later, where}, {earlier, where})
                             : sub({later, where}, {earlier, where});
  }
  return y;
}

void catalog_scan(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr auto both = [](const ValuesIndices& y) {
    return std::vector{y.values, y.indices};
  };
  catalog.add("cumsum(input, dim: int, dtype: dtype = none)",
              "sums up to and including each element along dim",
              [](A a) { return cumsum(input_in_dtype(a), a.int32("dim")); });
  catalog.add("cumprod(input, dim: int, dtype: dtype = none)",
              "products up to and including each element along dim",
              [](A a) { return cumprod(input_in_dtype(a), a.int32("dim")); });
  catalog.add("cummax(input, dim: int)", "the largest so far along dim",
              [](A a) { return both(cummax(a[0], a.int32("dim"))); });
  catalog.add("cummin(input, dim: int)", "the smallest so far along dim",
              [](A a) { return both(cummin(a[0], a.int32("dim"))); });
  catalog.add("logcumsumexp(input, dim: int)", "log of sums of exp(x) along dim",
              [](A a) { return logcumsumexp(a[0], a.int32("dim")); });
  catalog.add("diff(input, prepend?, append?, n: int = 1, dim: int = -1)",
              "x[i + 1] - x[i] along dim",
              [](A a) { return diff(a[0], a.integer("n"), a.int32("dim"), a[1], a[2]); });
}

Variable cumsum(const Variable& x, int dim, DTypeOption option, Where where) {
  return cumsum(x.to(option.dtype, where), dim, where);
}
Variable cumprod(const Variable& x, int dim, DTypeOption option, Where where) {
  return cumprod(x.to(option.dtype, where), dim, where);
}
Variable diff(const Variable& x, const DiffOptions& options, Where where) {
  return diff(x, options.n, options.dim, options.prepend, options.append, where);
}
}  // namespace tapegrad
