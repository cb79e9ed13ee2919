#include "ops/dropout.h"

#include <cmath>

#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/internal/extent.h"

namespace tapegrad {

namespace kernels {

constinit decltype(dropout) dropout{"dropout"};
constinit decltype(dropout_add) dropout_add{"dropout_add"};

}  // namespace kernels

using namespace detail;

namespace {

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

/// Returns whether elements may be dropped. Otherwise, x may have any dtype.
bool drops(std::string_view op, const Variable& x, double p, bool training) {
  if (!(p >= 0.0 && p <= 1.0)) fail<ArgumentError>(op, ": p must be in [0, 1]: ", p);
  const Tensor& value = x.value();
  if (!training || p == 0.0) return false;
  require_float(op, value);
  return true;
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
  const bool changes = drops(op, x, p, training);
  const int channel_dim = x.rank() - dims - 1;
  if (channel_dim != 0 && channel_dim != 1)
    fail<ShapeError>(op, ": channels and ", dims, " dimension", dims > 1 ? "s" : "",
                     ", maybe a batch before them, wanted: ", x.shape());
  if (!changes) return x;
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

Variable dropout(Variable x, double p, bool training, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  if (!drops("dropout", x, p, training)) return x;
  return apply_over(Dropout{p, generator.draw(uint64_t(x.numel()))}, where, {std::move(x)});
}

Variable dropout_add(Variable x, Variable residual, double p, bool training,
                     RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  const bool drops_some = drops("dropout_add", x, p, training) && p < 1.0;
  if (!drops_some || x.shape() != residual.shape() || x.dtype() != residual.dtype())
    return add({std::move(residual), where},
               {dropout(std::move(x), p, training, generator, where), where});
  return apply_over(DropoutAdd{p, generator.draw(uint64_t(x.numel()))}, where,
                    {std::move(x), std::move(residual)});
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
  if (!drops("alpha_dropout", x, p, training)) return x;
  return dropout_to_limit(x.shape(), x, p, generator);
}

Variable feature_alpha_dropout(const Variable& x, double p, bool training,
                               RandomGenerator& generator, Where where) {
  const CallLine line(where);
  const bool changes = drops("feature_alpha_dropout", x, p, training);
  if (x.rank() < 2)
    fail<ShapeError>("feature_alpha_dropout: channels are dimension 1, shape is ", x.shape());
  if (!changes) return x;
  return dropout_to_limit(channels_of(x, 1), x, p, generator);
}

void catalog_dropout(Catalog& catalog) {
  using A = const Arguments&;
  constexpr OpTraits kRandom{.random = true};
  catalog.add(
      "dropout(input, p: float = 0.5, training: bool = true)",
      "0 with probability p, else input / (1 - p)",
      [](A a) { return dropout(a[0], a.real("p"), a.flag("training")); }, kRandom);
  catalog.add(
      "dropout_add(input, residual, p: float = 0.5, training: bool = true)",
      "residual + dropout(input, p)",
      [](A a) { return dropout_add(a[0], a[1], a.real("p"), a.flag("training")); }, kRandom);
  catalog.add(
      "dropout1d(input, p: float = 0.5, training: bool = true)", "dropout of whole channels",
      [](A a) { return dropout1d(a[0], a.real("p"), a.flag("training")); }, kRandom);
  catalog.add(
      "dropout2d(input, p: float = 0.5, training: bool = true)", "dropout of whole channels",
      [](A a) { return dropout2d(a[0], a.real("p"), a.flag("training")); }, kRandom);
  catalog.add(
      "dropout3d(input, p: float = 0.5, training: bool = true)", "dropout of whole channels",
      [](A a) { return dropout3d(a[0], a.real("p"), a.flag("training")); }, kRandom);
  catalog.add(
      "alpha_dropout(input, p: float = 0.5, training: bool = true)",
      "dropout that keeps mean 0 and variance 1",
      [](A a) { return alpha_dropout(a[0], a.real("p"), a.flag("training")); }, kRandom);
  catalog.add(
      "feature_alpha_dropout(input, p: float = 0.5, training: bool = true)",
      "alpha_dropout of whole channels",
      [](A a) { return feature_alpha_dropout(a[0], a.real("p"), a.flag("training")); }, kRandom);
}

}  // namespace tapegrad
