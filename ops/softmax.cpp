#include "ops/softmax.h"

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/catalog_arguments.h"
#include "ops/internal/extent.h"
#include "ops/internal/scalar_dimension.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad {
namespace kernels {

constinit decltype(softmax) softmax{"softmax"}, log_softmax{"log_softmax"};
constinit decltype(softmax_backward) softmax_backward{"softmax_backward"},
    log_softmax_backward{"log_softmax_backward"};

}  // namespace kernels

using namespace detail;

namespace {

template <typename Run>
Tensor run_along(const Tensor& shaped, int dim, Run run) {
  Tensor y = shaped.empty_like(shaped.shape());
  Tensor rows = around(y, dim);
  run(rows);
  return y;
}

struct Softmax {
  static constexpr std::string_view kName = "softmax";
  int dim;
  SavedOutput<> y{};  // the gradient needs the output, not the input
  auto saved() { return std::tie(y); }

  Tensor forward(const Tensor& x) {
    require_float(kName, x);
    dim = normalize_dim(kName, dim, x.rank());
    return run_along(x, dim, [&](Tensor& y) { kernels::softmax(around(x, dim), y); });
  }
  // dx = y * (dy - sum(y * dy)), with the sum along dim.
  Variable backward(const Variable& dy) const {
    const Variable y = this->y();
    return y * (dy - sum(y * dy, {dim}, /*keepdim=*/true));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return run_along(y.value(), dim, [&](Tensor& dx) {
      kernels::softmax_backward(around(y.value(), dim), around(dy, dim), dx);
    });
  }
};

struct LogSoftmax {
  static constexpr std::string_view kName = "log_softmax";
  int dim;
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }

  Tensor forward(const Tensor& x) {
    require_float(kName, x);
    dim = normalize_dim(kName, dim, x.rank());
    return run_along(x, dim, [&](Tensor& y) { kernels::log_softmax(around(x, dim), y); });
  }
  // dx = dy - exp(y) * sum(dy), with the sum along dim.
  Variable backward(const Variable& dy) const {
    return dy - exp(y()) * sum(dy, {dim}, /*keepdim=*/true);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return run_along(y.value(), dim, [&](Tensor& dx) {
      kernels::log_softmax_backward(around(y.value(), dim), around(dy, dim), dx);
    });
  }
};

}  // namespace

Variable softmax(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return softmax(v, dim); });
  return apply_wide(Softmax{dim}, where, x);
}
Variable softmax(const Variable& x, SoftmaxOptions options, Where where) {
  return softmax(options.dtype ? x.to(*options.dtype, where) : x, options.dim, where);
}
Variable log_softmax(const Variable& x, int dim, Where where) {
  const ErrorLine line(where);
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return log_softmax(v, dim); });
  return apply_wide(LogSoftmax{dim}, where, x);
}
Variable log_softmax(const Variable& x, SoftmaxOptions options, Where where) {
  return log_softmax(options.dtype ? x.to(*options.dtype, where) : x, options.dim, where);
}
Variable softmin(const Variable& x, int dim, Where where) {
  if (is_scalar(x)) [[unlikely]]
    return as_vector(x, where, [&](const Variable& v) { return softmin(v, dim); });
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return softmin(a...); }, where, x, dim);
  const CallLine line(where);
  require_float("softmin", x.value());
  return softmax(-x, dim);
}

void catalog_softmax(Catalog& catalog) {
  catalog.add("softmax(input, dim: int, dtype: dtype = none)", "exp(x) / sum(exp(x)) along dim",
              [](const Arguments& a) { return softmax(input_in_dtype(a), a.int32("dim")); });
  catalog.add("log_softmax(input, dim: int, dtype: dtype = none)", "x - log(sum(exp(x))) along dim",
              [](const Arguments& a) { return log_softmax(input_in_dtype(a), a.int32("dim")); });
  catalog.add("softmin(input, dim: int, dtype: dtype = none)", "exp(-x) / sum(exp(-x)) along dim",
              [](const Arguments& a) { return softmin(input_in_dtype(a), a.int32("dim")); });
}

}  // namespace tapegrad
