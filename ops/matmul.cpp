#include "ops/matmul.h"

#include <atomic>

#include "core/autocast_operand.h"
#include "core/call_line.h"
#include "core/clash.h"
#include "core/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/extent.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit Kernel<void(const Tensor&, const Tensor&, Tensor&)> matmul{
    "matmul", [](const Tensor& a, const Tensor&, Tensor& y) {
      return 2 * y.numel() * a.shape()[a.rank() - 1];
    }};
constinit Kernel<void(const Tensor&, const Tensor&, const Tensor&, bool, Tensor&)> linear{
    "linear", [](const Tensor&, const Tensor& weight, const Tensor&, bool, Tensor& y) {
      return 2 * y.numel() * weight.shape()[1];
    }};
constinit Kernel<void(const Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&)> linear_gelu{
    "linear_gelu", [](const Tensor&, const Tensor& weight, const Tensor&, Tensor& y, Tensor&) {
      return 2 * y.numel() * weight.shape()[1];
    }};
using LinearBackward = Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   Tensor&, Tensor&, Tensor&)>;
static int64_t flops_of_backward(const Tensor& dy, const Tensor&, const Tensor&, const Tensor&,
                                 Tensor& dx, Tensor& dw, Tensor&) {
  return 2 * dx.numel() * dy.shape()[1] + 2 * dw.numel() * dy.shape()[0];
}
constinit LinearBackward linear_backward{"linear_backward", flops_of_backward};
constinit LinearBackward gelu_linear_backward{"gelu_linear_backward", flops_of_backward};

}  // namespace kernels

using namespace detail;

namespace {

constinit std::atomic<MatmulPrecision> precision_now{MatmulPrecision::kHighest};

[[noreturn, gnu::cold]] void fail_inner(std::string_view op, const Shape& a, const Shape& b) {
  fail<ShapeError>(
      op, ": inner sizes differ: ", a, " x ", b,
      draw_clash({{"input", a, a.rank() - 1}, {"other", b, std::max(0, b.rank() - 2)}}));
}

Tensor transposed(const Tensor& x) {
  Layout layout = x.layout();
  const int r = x.rank();
  std::swap(layout.shape[r - 2], layout.shape[r - 1]);
  std::swap(layout.strides[r - 2], layout.strides[r - 1]);
  return x.with_layout(layout);
}

/// [..., n] as [rows, n]; [n] as [1, n].
Tensor as_matrix(const Tensor& x) {
  if (x.rank() == 2) return x;
  const int64_t columns = x.shape()[x.rank() - 1];
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.shape()[i];
  const Tensor source = x.contiguous();
  return source.with_layout({{rows, columns}, {columns, 1}, source.layout().offset});
}
Variable as_matrix(const Variable& x, Where where = Where::current()) {
  if (x.rank() == 2) return x;
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.shape()[i];
  return reshape(x, {rows, x.shape()[x.rank() - 1]}, where);
}

/// Products of two batches of matrices of the same rank and with the same dimensions in front.
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

struct Linear {
  static constexpr std::string_view kName = "linear";
  SavedInput<0, /*for*/ 1> x{};
  SavedInput<1, /*for*/ 0> weight{};
  Shape shape{};  // of x
  auto saved() { return std::tie(x, weight); }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    check(kName, x, weight, bias);
    return run(x, weight, bias, /*relu=*/false);
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    return is_recording() ? compose(dy, x, needs) : compute(dy, x, needs);
  }

 protected:
  Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
    shape = x.shape();
    const Tensor rows = as_matrix(x);
    const int64_t out = weight.shape()[0];
    Tensor y = x.empty_like({rows.shape()[0], out});
    kernels::linear(rows, weight, bias, relu, y);
    return x.rank() == 2 ? y : of_input(y);
  }
  /// [rows, out] as results lie.
  Tensor of_input(const Tensor& y) const {
    Shape to = shape;
    to[to.rank() - 1] = y.shape()[1];
    return y.with_layout({to, contiguous_strides(to), 0});
  }

  // dx = dy W, dW = dy^T x, db = the sum of dy's rows.
  template <typename Saved>
  std::array<Variable, 3> compose(const Variable& dy, const Saved& x, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = matmul(dy, weight());
    if (needs[1]) dx[1] = matmul(t(as_matrix(dy)), as_matrix(x()));
    if (needs[2]) dx[2] = sum_to(dy, {dy.size(-1)});
    return dx;
  }
  /// The same by one kernel. y is the result of a ReLU behind, z what x is the GELU of, or empty.
  template <typename Saved>
  std::array<Variable, 3> compute(const Variable& dy, const Saved& x, Needs needs,
                                  const Variable& y = {}, const Variable& z = {}) const {
    const Tensor rows = as_matrix(y ? to_overwrite(dy) : dy.value());
    Tensor from_x, from_weight, dx, dw, db;
    if (needs[0]) {
      from_weight = weight().value();
      dx = rows.empty_like({rows.shape()[0], from_weight.shape()[1]});
    }
    if (needs[1]) {
      from_x = as_matrix(x().value());
      dw = rows.empty_like({rows.shape()[1], from_x.shape()[1]});
    }
    if (needs[2]) db = rows.empty_like({rows.shape()[1]});
    const auto run = [&](const auto& kernel, const Variable& other) {
      kernel(rows, other ? as_matrix(other.value()) : Tensor(), from_x, from_weight, dx, dw, db);
    };
    z ? run(kernels::gelu_linear_backward, z) : run(kernels::linear_backward, y);
    if (dx) dx = dx.with_layout({shape, contiguous_strides(shape), 0});
    const auto wrap = [](Tensor& t) { return t ? Variable(std::move(t)) : Variable(); };
    return {wrap(dx), wrap(dw), wrap(db)};
  }

  static void check(std::string_view op, const Tensor& x, const Tensor& weight,
                    const Tensor& bias) {
    if (x.rank() < 1 || weight.rank() != 2)
      fail<ShapeError>(op, ": input [..., in] and weight [out, in] wanted: ", x.shape(), " and ",
                       weight.shape());
    if (x.shape()[x.rank() - 1] != weight.shape()[1])
      fail<ShapeError>(
          op, ": inner sizes differ: input ", x.shape(), ", weight ", weight.shape(),
          draw_clash({{"input", x.shape(), x.rank() - 1}, {"weight", weight.shape(), 1}}));
    if (bias && bias.shape() != Shape{weight.shape()[0]})
      fail<ShapeError>(op, ": bias ", bias.shape(), " does not fit weight ", weight.shape(),
                       draw_clash({{"weight", weight.shape(), 0}, {"bias", bias.shape(), 0}}));
    check_same_device(op, x, weight, bias);
    check_same_dtype(op, x, weight, bias);
  }
};

/// max(linear, 0): what a ReLU behind would give, without its passes over the rows.
struct LinearRelu : Linear {
  static constexpr std::string_view kName = "linear_relu";
  SavedOutput<> y{};
  auto saved() { return std::tie(x, weight, y); }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    check(kName, x, weight, bias);
    return run(x, weight, bias, /*relu=*/true);
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    return is_recording() ? compose(relu_gradient(dy, y()), x, needs) : compute(dy, x, needs, y());
  }
};

/// linear with a tanh GELU in front, behind, or both. Inputs are x, weight, bias and, with one in
/// front, h = gelu(x), which no gradient goes to: x gets it all. With one behind, the results are
/// gelu(z) and z = linear; the gradient of the first is joined with that of the second.
template <bool kFront, bool kBehind>
struct LinearGelu : Linear {
  static constexpr std::string_view kName = kBehind ? "linear_gelu" : "linear";
  SavedInput<0, /*for*/ 0> before{};  // x, for the GELU in front
  SavedInput<3, /*for*/ 1> h{};
  SavedOutput<1> z{};
  auto saved() {
    if constexpr (kFront && kBehind) return std::tie(weight, before, h, z);
    if constexpr (kFront && !kBehind) return std::tie(weight, before, h);
    if constexpr (!kFront && kBehind) return std::tie(weight, x, z);
  }

  std::vector<Tensor> forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const Tensor& h) {
    require_float(kName, x);
    check(kName, x, weight, bias);
    if constexpr (!kBehind) return {run(h, weight, bias, /*relu=*/false)};
    shape = x.shape();
    const Tensor rows = as_matrix(kFront ? h : x);
    Tensor y = x.empty_like({rows.shape()[0], weight.shape()[0]}), z = y.empty_like();
    kernels::linear_gelu(rows, weight, bias, y, z);
    return {of_input(y), of_input(z)};
  }

  std::vector<Variable> backward(std::span<const Variable> dy, Needs needs) const {
    Variable dz = dy[0];
    if constexpr (kBehind) {
      if (dz) dz = gelu_tanh_gradient(dz, z());
      if (dy[1]) dz = dz ? dz + dy[1] : dy[1];
    }
    const auto [dx, dw, db] = to_inputs(dz, needs);
    return {dx, dw, db, {}};
  }

 private:
  std::array<Variable, 3> to_inputs(const Variable& dz, Needs needs) const {
    if constexpr (!kFront)
      return is_recording() ? compose(dz, x, needs) : compute(dz, x, needs);
    else if (!is_recording())
      return compute(dz, h, needs, {}, needs[0] ? before() : Variable());
    auto dx = compose(
        dz, [&] { return gelu(before(), Gelu::kTanh); }, needs);
    if (needs[0]) dx[0] = gelu_tanh_gradient(dx[0], before());
    return dx;
  }
};

/// linear_gelu where no gradient will be asked for.
struct OnlyGelu : Linear {
  static constexpr std::string_view kName = "linear_gelu";
  static constexpr bool kDifferentiable = false;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    require_float(kName, x);
    check(kName, x, weight, bias);
    shape = x.shape();
    const Tensor rows = as_matrix(x);
    Tensor y = x.empty_like({rows.shape()[0], weight.shape()[0]}), none;
    kernels::linear_gelu(rows, weight, bias, y, none);
    return of_input(y);
  }
};

void require_ranks(std::string_view op, const Variable& a, const Variable& b, int rank) {
  if (a.rank() != rank || b.rank() != rank)
    fail<ShapeError>(op, ": rank ", rank, " wanted: ", a.shape(), " x ", b.shape());
}

/// Batches of any dimensions in front, which broadcast. Both ranks are at least 2.
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
    return in_low_precision(matmul, where, a, b);
  if (a.rank() == 2 && b.rank() == 2) return apply(Matmul{}, where, a, b);
  const ErrorLine line(where);
  if (a.rank() == 0 || b.rank() == 0)
    fail<ShapeError>("matmul: operands without dimensions: ", a.shape(), " x ", b.shape());
  if (a.rank() > 1 && b.rank() > 1) return batched(a, b, where);
  if (a.shape()[a.rank() - 1] != b.shape()[b.rank() == 1 ? 0 : b.rank() - 2])
    fail_inner("matmul", a.shape(), b.shape());
  // A vector is a row at the left, a column at the right; that dimension is dropped again.
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
                     draw_clash({{"input", a.shape(), 0}, {"mat2", b.shape(), 0}}));
  return matmul(a, b, where);
}

Variable dot(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  require_ranks("dot", a, b, 1);
  return matmul(a, b, where);
}

Variable outer(const Variable& a, const Variable& b, Where where) {
  const ErrorLine line(where);
  require_ranks("outer", a, b, 1);
  return matmul(unsqueeze(a, 1, where), unsqueeze(b, 0, where), where);
}

Variable linear(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(linear, where, x, weight, bias);
  return apply(Linear{}, where, x, weight, bias);
}

Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(linear_relu, where, x, weight, bias);
  return apply(LinearRelu{}, where, x, weight, bias);
}

Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
  return linear_gelued({x, {}}, weight, bias, /*gelu=*/true, where).y;
}

Gelued linear_gelued(const Gelued& from, const Variable& weight, const Variable& bias, bool gelu,
                     Where where) {
  const auto& [y, x] = from;
  if (is_autocast_enabled()) [[unlikely]] {
    const Gelued operand{low(y, where), x ? low(x, where) : x};
    const Variable w = low(weight, where), b = low(bias, where);
    const AutocastOff off;
    return linear_gelued(operand, w, b, gelu, where);
  }
  const bool records =
      is_recording() && (y.requires_grad() || weight.requires_grad() || bias.requires_grad());
  const auto both = [](const std::vector<Variable>& results) {
    return Gelued{results[0], results[1]};
  };
  if (!gelu && (!x || !records)) return {linear(y, weight, bias, where), {}};
  if (!records) return {apply(OnlyGelu{}, where, y, weight, bias), {}};
  if (!x) return both(apply(LinearGelu<false, true>{}, where, y, weight, bias, Variable()));
  if (gelu) return both(apply(LinearGelu<true, true>{}, where, x, weight, bias, y));
  return {apply(LinearGelu<true, false>{}, where, x, weight, bias, y)[0], {}};
}

void set_matmul_precision(MatmulPrecision precision) { precision_now = precision; }
MatmulPrecision matmul_precision() { return precision_now; }

void kernels::linear_gelu_by_parts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   Tensor& y, Tensor& z) {
  Tensor& sums = z ? z : y;
  linear(x, weight, bias, /*relu=*/false, sums);
  gelu_tanh(sums, y);
}

void kernels::gelu_linear_backward_by_parts(const Tensor& dy, const Tensor& z, const Tensor& x,
                                            const Tensor& weight, Tensor& dx, Tensor& dw,
                                            Tensor& db) {
  linear_backward(dy, Tensor(), x, weight, dx, dw, db);
  if (dx) gelu_tanh_backward(dx, z, dx);
}

void kernels::linear_backward_by_products(const Tensor& dy, const Tensor& y, const Tensor& x,
                                          const Tensor& weight, Tensor& dx, Tensor& dw,
                                          Tensor& db) {
  Tensor dz = dy;
  if (y) relu_backward(dy, y, dz);
  if (dx) matmul(dz, weight, dx);
  if (dw) matmul(transposed(dz), x, dw);
  if (!db) return;
  Tensor row = db.with_layout({{1, db.shape()[0]}, {db.shape()[0], 1}, 0});
  sum(dz, 1.0, row);
}

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
  catalog.add("linear(input, weight, bias?)", "input @ weight^T + bias",
              [](const Arguments& a) { return linear(a[0], a[1], a[2]); });
  catalog.add("linear_relu(input, weight, bias?)", "max(input @ weight^T + bias, 0)",
              [](const Arguments& a) { return linear_relu(a[0], a[1], a[2]); });
  catalog.add("linear_gelu(input, weight, bias?)",
              "gelu(input @ weight^T + bias), by its tanh formula",
              [](const Arguments& a) { return linear_gelu(a[0], a[1], a[2]); });
}

}  // namespace tapegrad
