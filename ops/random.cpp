#include "ops/random.h"

#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/catalog_arguments.h"
#include "ops/internal/extent.h"
#include "ops/internal/operands.h"
#include "ops/internal/value_checks.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {

constinit decltype(uniform) uniform{"uniform"};
constinit decltype(normal) normal{"normal"};
constinit decltype(random_integers) random_integers{"randint"};
constinit decltype(bernoulli) bernoulli{"bernoulli"};
constinit decltype(permutation) permutation{"randperm"};
constinit decltype(exponential) exponential{"exponential_"};
constinit decltype(poisson) poisson{"poisson"};
constinit decltype(multinomial) multinomial{"multinomial"};

}  // namespace kernels

using namespace detail;

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

struct Exponential {
  static constexpr std::string_view kName = "exponential_";
  static constexpr bool kChecksFirst = true;
  double lambd;
  RandomState state;

  void write(const Tensor&, Tensor& y) const {
    draw_into(y, [&](Tensor& to) { kernels::exponential(to, lambd, state); });
  }
  Variable backward(const Variable&) const { return {}; }
};

struct Poisson {
  static constexpr std::string_view kName = "poisson";
  static constexpr bool kDifferentiable = false;
  RandomGenerator& generator;

  Tensor forward(const Tensor& rate) const {
    require_float(kName, rate);
    Tensor y = rate.empty_like(rate.shape());
    kernels::poisson(rate.contiguous(), generator.draw(4), y);
    return y;
  }
};

struct Multinomial {
  static constexpr std::string_view kName = "multinomial";
  static constexpr bool kDifferentiable = false;
  int64_t samples;
  bool replacement;
  RandomGenerator& generator;

  Tensor forward(const Tensor& weights) const {
    require_float(kName, weights);
    const int rank = weights.rank();
    if (rank < 1 || rank > 2)
      fail<ShapeError>(kName, ": weights [rows, classes] or [classes] wanted: ", weights.shape());
    const int64_t rows = rank == 1 ? 1 : weights.shape()[0], classes = weights.shape()[rank - 1];
    if (samples < 1) fail<ArgumentError>(kName, ": num_samples must be positive: ", samples);
    if (!replacement && samples > classes)
      fail<ArgumentError>(kName, ": ", samples, " different ones of ", classes, " classes");
    const Tensor dense = weights.contiguous();
    Tensor y = Tensor::empty({rows, samples}, i64, weights.device());
    kernels::multinomial(dense.with_layout({{rows, classes}, {classes, 1}, dense.layout().offset}),
                         replacement, generator.draw(2 * uint64_t(y.numel())), y);
    return rank == 1 ? y.with_layout({{samples}, {1}, 0}) : y;
  }
};

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
  const double most = finfo(x.dtype()).max;
  if (!(low <= high && low >= -most && high <= most && high - low <= most)) [[unlikely]]
    fail<ArgumentError>("uniform_: not an interval of ", x.dtype(), ": [", low, ", ", high, ")");
  check_writable("uniform_", x, x.requires_grad());
  const RandomState state = generator.draw(float_words(x.numel(), x.dtype()));
  apply_in_place(Uniform{low, high, state}, where, x);
  return x;
}

Variable& normal_(Variable& x, double mean, double std, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  check_float("normal_", x.dtype());
  if (!(std >= 0.0)) [[unlikely]]
    fail<ArgumentError>("normal_: std is negative: ", std);
  check_writable("normal_", x, x.requires_grad());
  const RandomState state = generator.draw(float_words(x.numel(), x.dtype()));
  apply_in_place(Normal{mean, std, state}, where, x);
  return x;
}

Variable normal(const Variable& mean, const Variable& std, RandomGenerator& generator,
                Where where) {
  const ErrorLine line(where);
  require_float("normal", mean.value());
  check_same_device("normal", mean.value(), std.value());
  check_same_dtype("normal", mean.value(), std.value());
  const NoGrad off;
  require_value(!any(std < 0), "normal: std has a negative element");
  const Shape shape = broadcast("normal", mean.shape(), std.shape());
  const Variable z = randn(shape, {.dtype = mean.dtype(), .device = mean.device()}, generator);
  return mean + std * z;
}

Variable uniform(const Variable& low, const Variable& high, RandomGenerator& generator,
                 Where where) {
  const ErrorLine line(where);
  require_float("uniform", low.value());
  check_same_device("uniform", low.value(), high.value());
  check_same_dtype("uniform", low.value(), high.value());
  const NoGrad off;
  require_value(all(low <= high), "uniform: a low is above its high");
  const Shape shape = broadcast("uniform", low.shape(), high.shape());
  const Variable u = rand(shape, {.dtype = low.dtype(), .device = low.device()}, generator);
  const Variable y = lerp(low, high, u);
  return tapegrad::where(y < high, y, low);  // the sum may have been rounded up to high
}

Variable& exponential_(Variable& x, double lambd, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  require_float("exponential_", x.value());
  if (!(lambd > 0.0)) fail<ArgumentError>("exponential_: lambd must be positive: ", lambd);
  check_writable("exponential_", x, x.requires_grad());
  const RandomState state = generator.draw(float_words(x.numel(), x.dtype()));
  apply_in_place(Exponential{lambd, state}, where, x);
  return x;
}

Variable poisson(const Variable& rate, RandomGenerator& generator, Where where) {
  return apply(Poisson{generator}, where, rate);
}

Variable multinomial(const Variable& weights, int64_t num_samples, bool replacement,
                     RandomGenerator& generator, Where where) {
  return apply(Multinomial{num_samples, replacement, generator}, where, weights);
}

Variable gumbel_softmax(const Variable& logits, GumbelSoftmaxOptions options,
                        RandomGenerator& generator, Where where) {
  const CallLine line(where);
  constexpr std::string_view kName = "gumbel_softmax";
  require_float(kName, logits.value());
  if (!(options.tau > 0)) fail<ArgumentError>(kName, ": tau must be positive: ", options.tau);
  const int dim = normalize_dim(kName, options.dim, logits.rank());
  Variable noise = empty(logits.shape(), {.dtype = f64, .device = logits.device()});
  exponential_(noise, 1.0, generator);
  const Variable soft = softmax((logits - log(noise).to(logits.dtype())) / options.tau, dim);
  if (!options.hard) return soft;
  Shape along = Dims::filled(logits.rank(), 1);
  along[dim] = logits.shape()[dim];
  const Variable ids = reshape(arange(along[dim]).to(logits.device()), along);
  const Variable largest = argmax(soft.detach(), dim, /*keepdim=*/true);
  return (ids == largest).to(soft.dtype()) + (soft - soft.detach());
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

void catalog_random(Catalog& catalog) {
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
  catalog.add(
      "normal(mean, std)", "mean + std * standard normal",
      [](const Arguments& a) { return normal(a[0], a[1]); }, kNew);
  catalog.add("uniform(low, high)", "uniform in [low, high)",
              [](const Arguments& a) { return uniform(a[0], a[1]); },
              {.max_order = 0, .random = true, .example = [](DType dtype) -> Arguments {
                 return {.inputs = {Variable(Tensor::full({2}, 0, dtype)),
                                    Variable(Tensor::full({2}, 1, dtype))}};
               }});
  catalog.add(
      "exponential_(input, lambd: float = 1.0)", "overwritten, exponential of mean 1 / lambd",
      [](const Arguments& a) {
        Variable x = a[0];
        return exponential_(x, a.real("lambd"));
      },
      kOver);
  catalog.add(
      "poisson(input)", "Poisson distributed with the rate input",
      [](const Arguments& a) { return poisson(a[0]); }, kNew);
  catalog.add(
      "multinomial(input, num_samples: int, replacement: bool = false)",
      "class ids, with probabilities proportional to input",
      [](const Arguments& a) {
        return multinomial(a[0], a.integer("num_samples"), a.flag("replacement"));
      },
      kNew);
  catalog.add("gumbel_softmax(logits, tau: float = 1.0, hard: bool = false, dim: int = -1)",
              "softmax((logits + g) / tau) with Gumbel noise g",
              [](const Arguments& a) {
                return gumbel_softmax(
                    a[0], {.tau = a.real("tau"), .hard = a.flag("hard"), .dim = a.int32("dim")});
              },
              {.random = true});
}

}  // namespace tapegrad
