#include "ops/activation_composed.h"

#include "core/base/error.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/limits.h"
#include "ops/internal/operands.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {
constinit decltype(threshold) threshold{"threshold"};
constinit decltype(hardshrink) hardshrink{"hardshrink"}, softshrink{"softshrink"};
constinit decltype(shrink_backward) shrink_backward{"shrink_backward"};
constinit decltype(celu) celu{"celu"};
constinit decltype(celu_backward) celu_backward{"celu_backward"};
constinit Binary prelu{"prelu"}, glu{"glu"};
constinit decltype(prelu_backward) prelu_backward{"prelu_backward"};
constinit decltype(prelu_backward_weight) prelu_backward_weight{"prelu_backward"};
constinit decltype(glu_backward) glu_backward{"glu_backward"};
constinit decltype(glu_backward_gate) glu_backward_gate{"glu_backward"};
}  // namespace kernels

using namespace detail;

namespace {

struct Threshold {
  static constexpr std::string_view kName = "threshold";
  double threshold, value;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::threshold(x, threshold, value, y); }
  Variable backward(const Variable& dy) const {
    return piecewise(dy, x(), {threshold, kInfinity, 0.0, 1.0, 1.0});
  }
};

/// Op that computes dx = 0 where |x| <= lambd, else dy; linear in dy.
struct ShrinkBackward {
  static constexpr std::string_view kName = "shrink_backward";
  double lambd;
  SavedInput<1, /*for*/ 0> x{};
  auto saved() { return std::tie(x); }

  Tensor forward(const Tensor& dy, const Tensor& x) const {
    Tensor dx = x.empty_like(x.shape());
    kernels::shrink_backward(dy, x, lambd, dx);
    return dx;
  }
  std::array<Variable, 2> backward(const Variable& ddx, Needs needs) const {
    return {needs[0] ? apply(ShrinkBackward{lambd}, Where::current(), ddx, x()) : Variable(),
            Variable()};
  }
};

template <const auto& kernel, Literal name>
struct Shrink {
  static constexpr std::string_view kName = name.text;
  double lambd;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernel(x, lambd, y); }
  Variable backward(const Variable& dy) const {
    return apply(ShrinkBackward{lambd}, Where::current(), dy, x());
  }
};

struct Celu {
  static constexpr std::string_view kName = "celu";
  double alpha;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::celu(x, alpha, y); }
  Variable backward(const Variable& dy) const {
    const Variable in = x();
    const Variable curve = exp(clamp(in, {.max = 0.0}) / alpha);
    return piecewise(dy, in, {0.0, kInfinity, 0.0, 1.0, 1.0}) +
           piecewise(dy, in, {0.0, kInfinity, 1.0, 0.0, 0.0}) * curve;
  }
  Tensor kernel_backward(const Tensor& dy) const {
    Tensor dx = result_over(dy);
    kernels::celu_backward(dy, x.value(), alpha, dx);
    return dx;
  }
};

/// The weight broadcasts to x.
struct Prelu : BinaryOp<kernels::prelu> {
  static constexpr std::string_view kName = "prelu";
  static constexpr bool kTakesWideNumber = false;
  SavedInput<0> x{};
  SavedInput<1> weight{};
  auto saved() { return std::tie(x, weight); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    const Variable in = x(), positive = in > 0;
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, where(positive, dy, weight() * dy));
    if (needs[1]) dx[1] = reduce(1, where(positive, 0, in * dy));
    return dx;
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dy, Needs needs) const {
    std::array<Tensor, 2> dx;
    const auto all = [&] { return dy.empty_like(dy.shape()); };
    if (needs[1]) {
      Tensor each = all();
      kernels::prelu_backward_weight(dy, x.value(), each);
      dx[1] = reduce(1, std::move(each));
    }
    if (needs[0]) {
      dx[0] = all();
      kernels::prelu_backward(dy, x.value(), weight.value(), dx[0]);
      dx[0] = reduce(0, std::move(dx[0]));
    }
    return dx;
  }
};

struct Glu {
  static constexpr std::string_view kName = "glu";
  int dim;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  /// Returns the first or the second half of x along dim.
  Tensor half(const Tensor& x, int64_t which) const {
    StridedLayout layout = x.layout();
    layout.shape[dim] /= 2;
    layout.offset += which * layout.shape[dim] * layout.strides[dim];
    return x.with_layout(layout);
  }
  Tensor forward(const Tensor& x) const {
    const Tensor a = half(x, 0);
    Tensor y = x.empty_like(a.shape());
    kernels::glu(a, half(x, 1), y);
    return y;
  }
  Variable backward(const Variable& dy) const {
    const Variable in = x();
    const int64_t size = in.size(dim) / 2;
    const Variable a = narrow(in, dim, 0, size), s = sigmoid(narrow(in, dim, size, size));
    return cat({dy * s, dy * a * (s * (1 - s))}, dim);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    const Tensor x = this->x.value(), a = half(x, 0), gate = half(x, 1);
    Tensor dx = dy.empty_like(x.shape()), da = half(dx, 0), dgate = half(dx, 1);
    kernels::glu_backward(dy, gate, da);
    kernels::glu_backward_gate(dy, a, gate, dgate);
    return dx;
  }
};

}  // namespace

Variable prelu(const Variable& x, const Variable& weight, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return prelu(a...); }, where, x, weight);
  const CallLine line(where);
  check_floats("prelu", x);
  const int64_t channels = x.rank() < 2 ? 1 : x.shape()[1];
  if (weight.rank() > 1 || (weight.numel() != 1 && weight.numel() != channels))
    fail<ShapeError>("prelu: weight ", weight.shape(), " is not one for each of the ", channels,
                     " channels of ", x.shape());
  Shape along = Dims::filled(x.rank(), 1);
  if (weight.numel() != 1) along[1] = channels;
  return run<Prelu>({x, where}, {reshape(weight, along), where});
}

Variable celu(const Variable& x, double alpha, Where where) {
  const CallLine line(where);
  check_floats("celu", x);
  if (alpha == 0 || !(alpha == alpha)) fail<ArgumentError>("celu: alpha must not be ", alpha);
  return apply(Celu{alpha}, where, x);
}

Variable threshold(const Variable& x, double threshold, double value, Where where) {
  const CallLine line(where);
  if (is_integer(x.dtype())) {
    const auto whole = [](double number) { return Number(number).saturated<int64_t>(); };
    return tapegrad::where(x > whole(threshold), {x, where}, whole(value));
  }
  check_floats("threshold", x);
  return apply(Threshold{threshold, value}, where, x);
}

Variable softshrink(const Variable& x, double lambd, Where where) {
  const CallLine line(where);
  check_floats("softshrink", x);
  if (!(lambd >= 0)) fail<ArgumentError>("softshrink: lambd is negative: ", lambd);
  return apply(Shrink<kernels::softshrink, "softshrink">{lambd}, where, x);
}

Variable hardshrink(const Variable& x, double lambd, Where where) {
  const CallLine line(where);
  check_floats("hardshrink", x);
  return apply(Shrink<kernels::hardshrink, "hardshrink">{lambd}, where, x);
}

Variable tanhshrink(const Variable& x, Where where) {
  const CallLine line(where);
  return x - tanh(x);
}

Variable softsign(const Variable& x, Where where) {
  const CallLine line(where);
  return x / (1 + abs(x));
}

Variable glu(const Variable& x, int dim, Where where) {
  const CallLine line(where);
  check_floats("glu", x);
  dim = normalize_dim("glu", dim, x.rank());
  const int64_t half = x.shape()[dim] / 2;
  if (x.shape()[dim] != 2 * half)
    fail<ShapeError>("glu: an odd size along dim ", dim, ": ", x.shape());
  return apply(Glu{dim}, where, x);
}

Variable rrelu(const Variable& x, double lower, double upper, bool training,
               RandomGenerator& generator, Where where) {
  if (!(lower <= upper))
    fail<ArgumentError>("rrelu: lower ", lower, " is not at most upper ", upper);
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  const Variable slope = training ? lower + (upper - lower) * rand(x.shape(), like, generator)
                                  : full({}, (lower + upper) / 2, like);
  return tapegrad::where(x > 0, {x, where}, x * slope);
}

void catalog_activation_composed(Catalog& catalog) {
  catalog.add("prelu(input, weight)", "x where x > 0, else weight * x",
              [](const Arguments& a) { return prelu(a[0], a[1]); });
  catalog.add("celu(input, alpha: float = 1.0)", "x where x > 0, else alpha * (exp(x / alpha) - 1)",
              [](const Arguments& a) { return celu(a[0], a.real("alpha")); });
  catalog.add(
      "threshold(input, threshold: float, value: float)", "x where x > threshold, else value",
      [](const Arguments& a) { return threshold(a[0], a.real("threshold"), a.real("value")); });
  catalog.add("softshrink(input, lambd: float = 0.5)", "x - clamp(x, -lambd, lambd)",
              [](const Arguments& a) { return softshrink(a[0], a.real("lambd")); });
  catalog.add("hardshrink(input, lambd: float = 0.5)", "x where |x| > lambd, else 0",
              [](const Arguments& a) { return hardshrink(a[0], a.real("lambd")); });
  catalog.add("tanhshrink(input)", "x - tanh(x)",
              [](const Arguments& a) { return tanhshrink(a[0]); });
  catalog.add("softsign(input)", "x / (1 + |x|)",
              [](const Arguments& a) { return softsign(a[0]); });
  catalog.add("glu(input, dim: int = -1)", "a * sigmoid(b) for the halves a and b along dim",
              [](const Arguments& a) { return glu(a[0], a.int32("dim")); },
              {.example = [](DType dtype) -> Arguments {
                return {.inputs = {Variable(Tensor::full({2, 2}, 1, dtype))}};
              }});
}

}  // namespace tapegrad
