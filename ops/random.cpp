#include "ops/random.h"

#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/dtype_argument.h"

namespace tapegrad {

namespace kernels {
constinit decltype(uniform) uniform{"uniform"};
constinit decltype(normal) normal{"normal"};
constinit decltype(random_integers) random_integers{"randint"};
constinit decltype(bernoulli) bernoulli{"bernoulli"};
constinit decltype(dropout) dropout{"dropout"};
constinit decltype(dropout_add) dropout_add{"dropout_add"};
constinit decltype(permutation) permutation{"randperm"};
}  // namespace kernels

namespace {

void check_float(std::string_view op, DType dtype) {
  if (!is_float(dtype)) [[unlikely]]
    fail<DTypeError>(op, ": floats only, not ", dtype);
}

/// Returns the number of random words for the elements of a float draw.
uint64_t float_words(int64_t numel, DType dtype) {
  return uint64_t(numel) * (dtype == f64 ? 2 : 1);
}

Tensor make(const Shape& shape, const TensorOptions& options, DType dtype) {
  return Tensor::empty(shape, dtype, options.device.value_or(default_device()));
}

Variable finish(Tensor&& value, const TensorOptions& options) {
  Variable result(std::move(value));
  if (options.requires_grad) result.requires_grad_();
  return result;
}

/// Runs draw(y) for a contiguous y of x's shape, and copies the numbers to x.
template <typename Draw>
void draw_into(Tensor& x, Draw draw) {
  if (x.is_contiguous()) return draw(x);
  Tensor y = x.empty_like(x.shape());
  draw(y);
  kernels::copy(y, x);
}

/// Overwrites x with numbers that do not depend on x.
struct Uniform {
  static constexpr std::string_view kName = "uniform_";
  static constexpr bool kChecksFirst = true;
  double low, high;
  RandomState state;

  void write(const Tensor&, Tensor& y) const {
    draw_into(y, [&](Tensor& to) { kernels::uniform(to, low, high, state); });
  }
  Variable backward(const Variable&) const { return {}; }
};

struct Normal {
  static constexpr std::string_view kName = "normal_";
  static constexpr bool kChecksFirst = true;
  double mean, std;
  RandomState state;

  void write(const Tensor&, Tensor& y) const {
    draw_into(y, [&](Tensor& to) { kernels::normal(to, mean, std, state); });
  }
  Variable backward(const Variable&) const { return {}; }
};

struct Bernoulli {
  static constexpr std::string_view kName = "bernoulli";
  static constexpr bool kDifferentiable = false;
  RandomGenerator& generator;

  Tensor forward(const Tensor& p) const {
    check_float(kName, p.dtype());
    Tensor y = p.empty_like(p.shape());
    kernels::bernoulli(p.contiguous(), y, generator.draw(float_words(p.numel(), p.dtype())));
    return y;
  }
};

/// Linear in x; the gradient applies the same mask and scale to dy.
struct Dropout {
  static constexpr std::string_view kName = "dropout";
  double p;
  RandomState state;

  void write(const Tensor& x, Tensor& y) const {
    if (p == 1.0) return kernels::fill(y, 0.0);
    kernels::dropout(x.contiguous(), p, state, y);
  }
  Variable backward(const Variable& dy) const { return apply(*this, Where::current(), dy); }
};

struct DropoutAdd {
  static constexpr std::string_view kName = "dropout_add";
  double p;
  RandomState state;

  void write(const Tensor& x, const Tensor& residual, Tensor& y) const {
    check_same_device(kName, x, residual);
    kernels::dropout_add(x.contiguous(), residual.contiguous(), p, state, y);
  }
  static bool fits(const Tensor& x, const Tensor& other) { return x.device() == other.device(); }
  std::vector<Variable> backward(const Variable& dy, Needs needs) const {
    return {needs[0] ? apply(Dropout{p, state}, Where::current(), dy) : Variable(), dy};
  }
};

void check_dropout(std::string_view op, const Variable& x, double p) {
  if (!(p >= 0.0 && p <= 1.0)) [[unlikely]]
    fail<ArgumentError>(op, ": p must be in [0, 1]: ", p);
  check_float(op, x.dtype());
}

}  // namespace

Variable rand(const Shape& shape, TensorOptions options, RandomGenerator& generator) {
  const ErrorLine line(options.where);
  const DType dtype = options.dtype.value_or(default_dtype());
  check_float("rand", dtype);
  Tensor y = make(shape, options, dtype);
  kernels::uniform(y, 0.0, 1.0, generator.draw(float_words(y.numel(), dtype)));
  return finish(std::move(y), options);
}

Variable randn(const Shape& shape, TensorOptions options, RandomGenerator& generator) {
  const ErrorLine line(options.where);
  const DType dtype = options.dtype.value_or(default_dtype());
  check_float("randn", dtype);
  Tensor y = make(shape, options, dtype);
  kernels::normal(y, 0.0, 1.0, generator.draw(float_words(y.numel(), dtype)));
  return finish(std::move(y), options);
}

/// Returns whether the dtype represents every integer from low to high.
static bool holds(DType dtype, int64_t low, int64_t high) {
  return with_type(dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      return low >= int64_t(Limits::min()) && high <= int64_t(Limits::max());
    } else {
      constexpr int kDigits = std::is_same_v<T, double>    ? 53
                              : std::is_same_v<T, float>   ? 24
                              : std::is_same_v<T, float16> ? 11
                                                           : 8;
      return low >= -(int64_t(1) << kDigits) && high <= int64_t(1) << kDigits;
    }
  });
}

static double largest(DType dtype) {
  return dtype == f16    ? 65504.0
         : dtype == bf16 ? 0x1.fep127
         : dtype == f32  ? 0x1.fffffep127
                         : std::numeric_limits<double>::max();
}

Variable randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options,
                 RandomGenerator& generator) {
  const ErrorLine line(options.where);
  const DType dtype = options.dtype.value_or(i64);
  if (low >= high) [[unlikely]]
    fail<ArgumentError>("randint: no whole number in [", low, ", ", high, ")");
  if (!holds(dtype, low, high - 1)) [[unlikely]]
    fail<ArgumentError>("randint: ", dtype, " does not hold all of [", low, ", ", high, ")");
  Tensor y = make(shape, options, dtype);
  kernels::random_integers(y, low, uint64_t(high) - uint64_t(low),
                           generator.draw(2 * uint64_t(y.numel())));
  return finish(std::move(y), options);
}

Variable randperm(int64_t n, TensorOptions options, RandomGenerator& generator) {
  const ErrorLine line(options.where);
  const DType dtype = options.dtype.value_or(i64);
  if (n < 0) [[unlikely]]
    fail<ArgumentError>("randperm: n is negative: ", n);
  if (n > 0 && !holds(dtype, 0, n - 1)) [[unlikely]]
    fail<ArgumentError>("randperm: ", dtype, " does not hold all of [0, ", n, ")");
  Tensor y = make({n}, options, i64);
  kernels::permutation(y, generator.draw(2 * uint64_t(n)));
  return finish(y.to(dtype), options);
}

Variable bernoulli(const Variable& p, RandomGenerator& generator, Where where) {
  return apply(Bernoulli{generator}, where, p);
}

Variable& uniform_(Variable& x, double low, double high, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  check_float("uniform_", x.dtype());
  const double most = largest(x.dtype());
  if (!(low <= high && low >= -most && high <= most && high - low <= most)) [[unlikely]]
    fail<ArgumentError>("uniform_: not an interval of ", x.dtype(), ": [", low, ", ", high, ")");
  detail::check_writable("uniform_", x, x.requires_grad());
  const RandomState state = generator.draw(float_words(x.numel(), x.dtype()));
  apply_in_place(Uniform{low, high, state}, where, x);
  return x;
}

Variable& normal_(Variable& x, double mean, double std, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  check_float("normal_", x.dtype());
  if (!(std >= 0.0)) [[unlikely]]
    fail<ArgumentError>("normal_: std is negative: ", std);
  detail::check_writable("normal_", x, x.requires_grad());
  const RandomState state = generator.draw(float_words(x.numel(), x.dtype()));
  apply_in_place(Normal{mean, std, state}, where, x);
  return x;
}

Variable dropout(Variable x, double p, bool training, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  check_dropout("dropout", x, p);
  if (!training || p == 0.0) return x;
  return apply_over(Dropout{p, generator.draw(uint64_t(x.numel()))}, where, {std::move(x)});
}

Variable dropout_add(Variable x, Variable residual, double p, bool training,
                     RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  check_dropout("dropout_add", x, p);
  const bool drops_some = training && p > 0.0 && p < 1.0;
  if (!drops_some || x.shape() != residual.shape() || x.dtype() != residual.dtype())
    return add({std::move(residual), where},
               {dropout(std::move(x), p, training, generator, where), where});
  return apply_over(DropoutAdd{p, generator.draw(uint64_t(x.numel()))}, where,
                    {std::move(x), std::move(residual)});
}

void catalog_random(Catalog& catalog) {
  using detail::options_of;
  constexpr OpTraits kNew{.max_order = 0, .random = true};
  constexpr OpTraits kOver{.random = true, .inplace = true};
  catalog.add(
      "rand(size: ints, dtype: dtype = none)", "uniform in [0, 1)",
      [](const Arguments& a) { return rand(a.dims("size"), options_of(a)); }, kNew);
  catalog.add(
      "randn(size: ints, dtype: dtype = none)", "standard normal",
      [](const Arguments& a) { return randn(a.dims("size"), options_of(a)); }, kNew);
  catalog.add(
      "randint(low: int, high: int, size: ints, dtype: dtype = none)",
      "whole numbers in [low, high)",
      [](const Arguments& a) {
        return randint(a.integer("low"), a.integer("high"), a.dims("size"), options_of(a));
      },
      kNew);
  catalog.add(
      "randperm(n: int, dtype: dtype = none)", "0 ... n - 1 in random order",
      [](const Arguments& a) { return randperm(a.integer("n"), options_of(a)); }, kNew);
  catalog.add(
      "bernoulli(input)", "1 with probability input, else 0",
      [](const Arguments& a) { return bernoulli(a[0]); }, kNew);
  catalog.add(
      "uniform_(input, from: float = 0, to: float = 1)", "overwritten, uniform in [from, to)",
      [](const Arguments& a) {
        Variable x = a[0];
        return uniform_(x, a.real("from"), a.real("to"));
      },
      kOver);
  catalog.add(
      "normal_(input, mean: float = 0, std: float = 1)", "overwritten, mean + std * normal",
      [](const Arguments& a) {
        Variable x = a[0];
        return normal_(x, a.real("mean"), a.real("std"));
      },
      kOver);
  catalog.add("dropout(input, p: float = 0.5, training: bool = true)",
              "0 with probability p, else input / (1 - p)",
              [](const Arguments& a) { return dropout(a[0], a.real("p"), a.flag("training")); },
              {.random = true});
  catalog.add(
      "dropout_add(input, residual, p: float = 0.5, training: bool = true)",
      "residual + dropout(input, p)",
      [](const Arguments& a) { return dropout_add(a[0], a[1], a.real("p"), a.flag("training")); },
      {.random = true});
}

Variable rand(const Shape& shape, GeneratorOption option) {
  return rand(shape, TensorOptions(), option.generator);
}
Variable randn(const Shape& shape, GeneratorOption option) {
  return randn(shape, TensorOptions(), option.generator);
}
Variable rand(const Shape& shape, RandomGenerator& generator) { return rand(shape, {}, generator); }
Variable randn(const Shape& shape, RandomGenerator& generator) {
  return randn(shape, {}, generator);
}
Variable randint(int64_t high, const Shape& shape, TensorOptions options) {
  return randint(0, high, shape, options);
}
Variable randint(int64_t low, int64_t high, const Shape& shape, RandomGenerator& generator) {
  return randint(low, high, shape, {}, generator);
}
Variable randperm(int64_t n, RandomGenerator& generator) { return randperm(n, {}, generator); }
}  // namespace tapegrad
