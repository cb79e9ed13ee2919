#include "nn/init.h"

#include <cmath>

#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "nn/option_checks.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/sort.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::nn::init {

Fans fans(const Shape& weight) {
  if (weight.rank() < 2)
    fail<ShapeError>("fans: a weight has at least two dimensions, not ", weight);
  int64_t field = 1;
  for (int i = 2; i < weight.rank(); ++i) field *= weight[i];
  return {weight[1] * field, weight[0] * field};
}

Variable constant_(const Variable& x, double value, Where where) {
  const ErrorLine line(where);
  const NoGrad no_grad;
  Variable handle = x;
  return fill_(handle, value, where);
}
Variable zeros_(const Variable& x, Where where) { return constant_(x, 0.0, where); }
Variable ones_(const Variable& x, Where where) { return constant_(x, 1.0, where); }

Variable uniform_(const Variable& x, double low, double high, RandomGenerator& generator,
                  Where where) {
  const ErrorLine line(where);
  const NoGrad no_grad;
  Variable handle = x;
  return tapegrad::uniform_(handle, low, high, generator, where);
}
Variable normal_(const Variable& x, double mean, double std, RandomGenerator& generator,
                 Where where) {
  const ErrorLine line(where);
  const NoGrad no_grad;
  Variable handle = x;
  return tapegrad::normal_(handle, mean, std, generator, where);
}

Variable xavier_uniform_(const Variable& x, double gain, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  const Fans fan = fans(x.shape());
  const double bound = gain * std::sqrt(6.0 / double(fan.in + fan.out));
  return init::uniform_(x, -bound, bound, generator, where);
}
Variable xavier_normal_(const Variable& x, double gain, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  const Fans fan = fans(x.shape());
  return init::normal_(x, 0.0, gain * std::sqrt(2.0 / double(fan.in + fan.out)), generator, where);
}

namespace {
double kaiming_std(const Shape& shape, KaimingOptions options) {
  const Fans fan = fans(shape);
  if (!options.nonlinearity.empty())
    options.gain = calculate_gain(options.nonlinearity, options.a);
  else if (options.a != 0)
    options.gain = leaky_relu_gain(options.a);
  return options.gain / std::sqrt(double(options.mode == FanMode::kFanIn ? fan.in : fan.out));
}
}  // namespace

Variable kaiming_uniform_(const Variable& x, KaimingOptions options, RandomGenerator& generator,
                          Where where) {
  const ErrorLine line(where);
  const double bound = std::sqrt(3.0) * kaiming_std(x.shape(), options);
  return init::uniform_(x, -bound, bound, generator, where);
}
Variable kaiming_normal_(const Variable& x, KaimingOptions options, RandomGenerator& generator,
                         Where where) {
  const ErrorLine line(where);
  return init::normal_(x, 0.0, kaiming_std(x.shape(), options), generator, where);
}
KaimingOptions kaiming_options(double a, std::string_view mode, std::string_view nonlinearity,
                               Where where) {
  const ErrorLine line(where);
  if (mode != "fan_in" && mode != "fan_out")
    fail<ArgumentError>("kaiming: mode is \"", mode, "\", not \"fan_in\" or \"fan_out\"");
  return {.gain = calculate_gain(nonlinearity, a),
          .mode = mode == "fan_in" ? FanMode::kFanIn : FanMode::kFanOut};
}
double calculate_gain(std::string_view nonlinearity, double param, Where where) {
  const ErrorLine line(where);
  if (nonlinearity == "linear" || nonlinearity == "sigmoid" || nonlinearity.starts_with("conv"))
    return 1;
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "leaky_relu") return leaky_relu_gain(param);
  if (nonlinearity == "selu") return 0.75;
  fail<ArgumentError>("calculate_gain: \"", nonlinearity,
                      "\" is not linear, sigmoid, tanh, relu, leaky_relu, selu or a convolution");
}

Variable trunc_normal_(const Variable& x, double mean, double std, double a, double b,
                       RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  if (!(a < b)) fail<ArgumentError>("trunc_normal_: a = ", a, " is not below b = ", b);
  if (!(std > 0)) fail<ArgumentError>("trunc_normal_: std is ", std, ", not > 0");
  // The inverse of the distribution function, on the part of its values between a and b.
  const auto share = [&](double at) { return std::erf((at - mean) / (std * std::sqrt(2.0))); };
  const NoGrad no_grad;
  Variable draw = empty(x.shape(), {.dtype = f64, .device = x.device()});
  tapegrad::uniform_(draw, share(a), share(b), generator);
  const Variable y = clamp(erfinv(draw) * (std * std::sqrt(2.0)) + mean, a, b);
  Variable handle = x;
  return copy_(handle, y.to(x.dtype()));
}

Variable uniform_(const Variable& x, UniformOptions options, Where where) {
  return uniform_(x, options.a, options.b, default_generator(), where);
}
Variable normal_(const Variable& x, NormalOptions options, Where where) {
  return normal_(x, options.mean, options.std, default_generator(), where);
}
Variable xavier_uniform_(const Variable& x, GainOptions options, Where where) {
  return xavier_uniform_(x, options.gain, default_generator(), where);
}
Variable xavier_normal_(const Variable& x, GainOptions options, Where where) {
  return xavier_normal_(x, options.gain, default_generator(), where);
}
Variable orthogonal_(const Variable& x, GainOptions options, Where where) {
  return orthogonal_(x, options.gain, default_generator(), where);
}
Variable trunc_normal_(const Variable& x, TruncNormalOptions options, Where where) {
  return trunc_normal_(x, options.mean, options.std, options.a, options.b, default_generator(),
                       where);
}

Variable dirac_(const Variable& x, int64_t groups, Where where) {
  const ErrorLine line(where);
  if (x.rank() < 3 || x.rank() > 5)
    fail<ShapeError>("dirac_: the weight of a convolution, not ", x.shape());
  if (groups < 1 || x.size(0) % groups != 0)
    fail<ArgumentError>("dirac_: ", groups, " groups of ", x.size(0), " outputs");
  const NoGrad no_grad;
  const int64_t outputs = x.size(0) / groups;
  Tensor values = Tensor::full(x.shape(), 0, f64);
  int64_t middle = 0, inner = 1;
  for (int dim = x.rank() - 1; dim >= 2; --dim) {
    middle += x.size(dim) / 2 * inner;
    inner *= x.size(dim);
  }
  for (int64_t o = 0; o < x.size(0) && inner > 0; ++o)
    if (o % outputs < x.size(1))
      values.data<double>()[(o * x.size(1) + o % outputs) * inner + middle] = 1;
  Variable handle = x;
  return copy_(handle, Variable(values).to(x.dtype()).to(x.device()));
}

Variable eye_(const Variable& x, Where where) {
  const ErrorLine line(where);
  if (x.rank() != 2) fail<ShapeError>("eye_: a matrix, not ", x.shape());
  const NoGrad no_grad;
  Variable handle = x;
  return copy_(handle, eye(x.size(0), x.size(1), {.dtype = x.dtype(), .device = x.device()}));
}

Variable sparse_(const Variable& x, double sparsity, double std, RandomGenerator& generator,
                 Where where) {
  const ErrorLine line(where);
  if (x.rank() != 2) fail<ShapeError>("sparse_: a matrix, not ", x.shape());
  require_share("sparse_", "sparsity", sparsity);
  const NoGrad no_grad;
  const double zeros = std::ceil(sparsity * double(x.size(0)));
  const Variable order = argsort(rand(x.shape(), {.device = x.device()}, generator), 0);
  normal_(x, 0.0, std, generator);
  Variable handle = x;
  return handle.masked_fill_(order < zeros, 0.0);
}

double leaky_relu_gain(double slope) { return std::sqrt(2.0 / (1.0 + slope * slope)); }

Variable orthogonal_(const Variable& x, double gain, RandomGenerator& generator, Where where) {
  const ErrorLine line(where);
  if (x.rank() < 2)
    fail<ShapeError>("orthogonal_: a weight has at least two dimensions, not ", x.shape());
  if (x.numel() == 0) return x;
  const int64_t rows = x.size(0), columns = x.numel() / rows;
  const int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  // `count` normal vectors, made orthonormal by modified Gram-Schmidt. Two passes are enough
  // (Kahan).
  std::vector<double> v =
      randn({count, length}, {.dtype = f64, .device = cpu}, generator).to_vector<double>();
  const auto dot = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += v[a * length + i] * v[b * length + i];
    return sum;
  };
  for (int64_t row = 0; row < count; ++row) {
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t before = 0; before < row; ++before) {
        const double along = dot(row, before);
        for (int64_t i = 0; i < length; ++i) v[row * length + i] -= along * v[before * length + i];
      }
    const double scale = 1.0 / std::sqrt(dot(row, row));
    for (int64_t i = 0; i < length; ++i) v[row * length + i] *= scale;
  }
  for (double& element : v) element *= gain;
  Tensor q = Tensor::from<double>(v, {count, length});
  if (rows > columns) q = q.with_layout({{rows, columns}, {1, length}, 0}).clone();
  const NoGrad no_grad;
  Variable handle = x;
  return copy_(
      handle,
      Variable(q.with_layout({x.shape(), contiguous_strides(x.shape()), 0})).to(x.device()));
}

void torch(Variable& weight, Variable& bias) {
  const double bound = 1.0 / std::sqrt(double(std::max<int64_t>(1, fans(weight.shape()).in)));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}
void keras(Variable& weight, Variable& bias) {
  xavier_uniform_(weight);
  if (bias.defined()) zeros_(bias);
}
Init uniform_range(double range) {
  return [range](Variable& weight, Variable& bias) {
    init::uniform_(weight, -range, range);
    if (bias.defined()) zeros_(bias);
  };
}

}  // namespace tapegrad::nn::init

namespace tapegrad::nn {

void initialize(Module& model, const Init& init) {
  struct Initialize final : MemberVisitor {
    explicit Initialize(const Init& init) : init(init) {}
    void on_module(const std::string&, Module& module) override { module.initialize(init); }
    const Init& init;
  } visitor(init);
  model.visit(visitor);
}
void initialize(Module& model, void (*init)(Variable& weight, Variable& bias)) {
  initialize(model, Init(init));
}

}  // namespace tapegrad::nn
