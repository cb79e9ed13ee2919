#include "ops/noise.h"
#include "ops/arithmetic.h"

#include <cmath>

#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/internal/extent.h"
#include "ops/internal/value_checks.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(exponential) exponential{"exponential_"};
constinit decltype(poisson) poisson{"poisson"};
constinit decltype(multinomial) multinomial{"multinomial"};

}  // namespace kernels

using namespace detail;

namespace {

uint64_t words_of(const Tensor& x) { return uint64_t(x.numel()) * (x.dtype() == f64 ? 2 : 1); }

struct Exponential {
  static constexpr std::string_view kName = "exponential_";
  static constexpr bool kChecksFirst = true;
  double lambd;
  RandomState state;

  void write(const Tensor&, Tensor& y) const {
    if (y.is_contiguous()) return kernels::exponential(y, lambd, state);
    Tensor dense = y.empty_like(y.shape());
    kernels::exponential(dense, lambd, state);
    kernels::copy(dense, y);
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

void check_dropout(std::string_view op, const Variable& x, double p) {
  if (!(p >= 0.0 && p <= 1.0)) fail<ArgumentError>(op, ": p must be in [0, 1]: ", p);
  require_float(op, x.value());
}

/// Returns a dropout mask of the given shape: elements are 0 or 1 / (1 - p).
Variable mask(const Shape& shape, const Variable& like, double p, RandomGenerator& generator) {
  const NoGrad off;
  return dropout(ones(shape, {.dtype = like.dtype(), .device = like.device()}), p, true, generator);
}

/// Returns x's shape with size 1 for all dimensions after the channels.
Shape channels_of(const Variable& x, int channel_dim) {
  Shape shape = x.shape();
  for (int i = channel_dim + 1; i < shape.rank(); ++i) shape[i] = 1;
  return shape;
}

Variable channel_dropout(std::string_view op, int dims, const Variable& x, double p, bool training,
                         RandomGenerator& generator, Where where) {
  const CallLine line(where);
  check_dropout(op, x, p);
  const int channel_dim = x.rank() - dims - 1;
  if (channel_dim != 0 && channel_dim != 1)
    fail<ShapeError>(op, ": channels and ", dims, " dimension", dims > 1 ? "s" : "",
                     ", maybe a batch before them, wanted: ", x.shape());
  if (!training || p == 0.0) return x;
  const Variable kept = mask(channels_of(x, channel_dim), x, p, generator);
  return tapegrad::where(kept == 0, 0, x * kept);
}

Variable dropout_to_limit(const Shape& shape, const Variable& x, double p,
                          RandomGenerator& generator) {
  if (p == 1.0) return x * 0;
  constexpr double kLimit = 1.7580993408473766;  // -selu(-inf)
  const double scale = 1 / std::sqrt((kLimit * kLimit * p + 1) * (1 - p));
  return tapegrad::where(mask(shape, x, p, generator) == 0, kLimit * scale * (p - 1),
                         x * scale + kLimit * scale * p);
}

}  // namespace

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
  detail::check_writable("exponential_", x, x.requires_grad());
  apply_in_place(Exponential{lambd, generator.draw(words_of(x.value()))}, where, x);
  return x;
}

Variable poisson(const Variable& rate, RandomGenerator& generator, Where where) {
  return apply(Poisson{generator}, where, rate);
}

Variable multinomial(const Variable& weights, int64_t num_samples, bool replacement,
                     RandomGenerator& generator, Where where) {
  return apply(Multinomial{num_samples, replacement, generator}, where, weights);
}

Variable dropout1d(const Variable& x, double p, bool training, RandomGenerator& generator,
                   Where where) {
  return channel_dropout("dropout1d", 1, x, p, training, generator, where);
}
Variable dropout2d(const Variable& x, double p, bool training, RandomGenerator& generator,
                   Where where) {
  return channel_dropout("dropout2d", 2, x, p, training, generator, where);
}
Variable dropout3d(const Variable& x, double p, bool training, RandomGenerator& generator,
                   Where where) {
  return channel_dropout("dropout3d", 3, x, p, training, generator, where);
}

Variable alpha_dropout(const Variable& x, double p, bool training, RandomGenerator& generator,
                       Where where) {
  const CallLine line(where);
  check_dropout("alpha_dropout", x, p);
  if (!training || p == 0.0) return x;
  return dropout_to_limit(x.shape(), x, p, generator);
}
Variable feature_alpha_dropout(const Variable& x, double p, bool training,
                               RandomGenerator& generator, Where where) {
  const CallLine line(where);
  check_dropout("feature_alpha_dropout", x, p);
  if (x.rank() < 2)
    fail<ShapeError>("feature_alpha_dropout: channels are dimension 1, shape is ", x.shape());
  if (!training || p == 0.0) return x;
  return dropout_to_limit(channels_of(x, 1), x, p, generator);
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

void catalog_noise(Catalog& catalog) {
  using A = const Arguments&;
  constexpr OpTraits kNew{.max_order = 0, .random = true}, kNoise{.random = true};
  catalog.add(
      "normal(mean, std)", "mean + std * standard normal", [](A a) { return normal(a[0], a[1]); },
      kNew);
  catalog.add("uniform(low, high)", "uniform in [low, high)",
              [](A a) { return uniform(a[0], a[1]); },
              {.max_order = 0, .random = true, .example = [](DType dtype) -> Arguments {
                 return {.inputs = {Variable(Tensor::full({2}, 0, dtype)),
                                    Variable(Tensor::full({2}, 1, dtype))}};
               }});
  catalog.add("exponential_(input, lambd: float = 1.0)",
              "overwritten, exponential of mean 1 / lambd",
              [](A a) {
                Variable x = a[0];
                return exponential_(x, a.real("lambd"));
              },
              {.random = true, .inplace = true});
  catalog.add(
      "poisson(input)", "Poisson distributed with the rate input",
      [](A a) { return poisson(a[0]); }, kNew);
  catalog.add(
      "multinomial(input, num_samples: int, replacement: bool = false)",
      "class ids, with probabilities proportional to input",
      [](A a) { return multinomial(a[0], a.integer("num_samples"), a.flag("replacement")); }, kNew);
  catalog.add(
      "dropout1d(input, p: float = 0.5, training: bool = true)", "dropout of whole channels",
      [](A a) { return dropout1d(a[0], a.real("p"), a.flag("training")); }, kNoise);
  catalog.add(
      "dropout2d(input, p: float = 0.5, training: bool = true)", "dropout of whole channels",
      [](A a) { return dropout2d(a[0], a.real("p"), a.flag("training")); }, kNoise);
  catalog.add(
      "dropout3d(input, p: float = 0.5, training: bool = true)", "dropout of whole channels",
      [](A a) { return dropout3d(a[0], a.real("p"), a.flag("training")); }, kNoise);
  catalog.add(
      "alpha_dropout(input, p: float = 0.5, training: bool = true)",
      "dropout that keeps mean 0 and variance 1",
      [](A a) { return alpha_dropout(a[0], a.real("p"), a.flag("training")); }, kNoise);
  catalog.add(
      "feature_alpha_dropout(input, p: float = 0.5, training: bool = true)",
      "alpha_dropout of whole channels",
      [](A a) { return feature_alpha_dropout(a[0], a.real("p"), a.flag("training")); }, kNoise);
  catalog.add(
      "gumbel_softmax(logits, tau: float = 1.0, hard: bool = false, dim: int = -1)",
      "softmax((logits + g) / tau) with Gumbel noise g",
      [](A a) {
        return gumbel_softmax(
            a[0], {.tau = a.real("tau"), .hard = a.flag("hard"), .dim = a.int32("dim")});
      },
      kNoise);
}

}  // namespace tapegrad
