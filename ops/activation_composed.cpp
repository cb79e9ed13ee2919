#include "ops/activation_composed.h"

#include "core/base/error.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

static void check_floats(std::string_view op, const Variable& x) {
  if (!is_float(x.dtype())) [[unlikely]]
    fail<DTypeError>(op, ": floats only, not ", x.dtype());
}

Variable prelu(const Variable& x, const Variable& weight, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(prelu, where, x, weight);
  const CallLine line(where);
  check_floats("prelu", x);
  const int64_t channels = x.rank() < 2 ? 1 : x.shape()[1];
  if (weight.rank() > 1 || (weight.numel() != 1 && weight.numel() != channels))
    fail<ShapeError>("prelu: weight ", weight.shape(), " is not one for each of the ", channels,
                     " channels of ", x.shape());
  Shape along = Dims::filled(x.rank(), 1);
  if (weight.numel() != 1) along[1] = channels;
  return tapegrad::where(x > 0, x, reshape(weight, along) * x);
}

Variable celu(const Variable& x, double alpha, Where where) {
  const CallLine line(where);
  check_floats("celu", x);
  if (alpha == 0 || !(alpha == alpha)) fail<ArgumentError>("celu: alpha must not be ", alpha);
  const Variable curve = expm1(clamp(x, {.max = 0.0}) / alpha) * alpha;
  return tapegrad::where(x > 0, x, curve);
}

Variable threshold(const Variable& x, double threshold, double value, Where where) {
  const CallLine line(where);
  check_floats("threshold", x);
  return tapegrad::where(x <= threshold, value, x);
}

Variable softshrink(const Variable& x, double lambd, Where where) {
  const CallLine line(where);
  check_floats("softshrink", x);
  if (!(lambd >= 0)) fail<ArgumentError>("softshrink: lambd is negative: ", lambd);
  return x - clamp(x, {.min = -lambd, .max = lambd});
}

Variable hardshrink(const Variable& x, double lambd, Where where) {
  const CallLine line(where);
  check_floats("hardshrink", x);
  return tapegrad::where(abs(x) <= lambd, 0, x);
}

Variable tanhshrink(const Variable& x, Where where) {
  const CallLine line(where);
  check_floats("tanhshrink", x);
  return x - tanh(x);
}

Variable softsign(const Variable& x, Where where) {
  check_floats("softsign", x);
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
  return narrow(x, dim, 0, half) * sigmoid(narrow(x, dim, half, half));
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
