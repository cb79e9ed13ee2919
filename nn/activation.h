// Activations as layers, for Sequential, and other layers without parameters: Flatten, Identity and
// Lambda. The formulas are in ops/activation.h.
#pragma once

#include "nn/function_layer.h"
#include "ops/activation.h"
#include "ops/named_options.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::nn {

using tapegrad::DimOptions, tapegrad::ELUOptions, tapegrad::HardtanhOptions,
    tapegrad::LeakyReLUOptions, tapegrad::ShrinkOptions, tapegrad::SoftplusOptions;

/// Types of the overloads that layers call.
using OfNumber = Variable (*)(Variable, double, Where);
using OfConstAndNumber = Variable (*)(const Variable&, double, Where);
using OfDim = Variable (*)(const Variable&, int, Where);
using OfTwoNumbers = Variable (*)(Variable, double, double, Where);
using OfValue = Variable (*)(const Variable&, double, double, Where);

// `inplace` has no effect: an activation overwrites its operand if nothing else needs the operand.

struct InplaceOptions {
  ByName by_name = {};
  bool inplace = false;
};
struct ReLU final : Function<ReLU, relu> {
  explicit ReLU(bool inplace = false);
  explicit ReLU(InplaceOptions options);
};
struct ReLU6 final : Function<ReLU6, relu6> {
  explicit ReLU6(bool inplace = false);
  explicit ReLU6(InplaceOptions options);
};
struct SELU final : Function<SELU, selu> {};
struct SiLU final : Function<SiLU, silu> {
  explicit SiLU(bool inplace = false);
  explicit SiLU(InplaceOptions options);
};
struct Mish final : Function<Mish, mish> {};
struct Sigmoid final : Function<Sigmoid, sigmoid> {};
struct LogSigmoid final : Function<LogSigmoid, logsigmoid> {};
struct Hardsigmoid final : Function<Hardsigmoid, hardsigmoid> {};
struct Hardswish final : Function<Hardswish, hardswish> {
  explicit Hardswish(bool inplace = false);
  explicit Hardswish(InplaceOptions options);
};
struct Tanh final : Function<Tanh, tapegrad::tanh> {};
struct Tanhshrink final : Function<Tanhshrink, tanhshrink> {};
struct Softsign final : Function<Softsign, softsign> {};
/// Returns 1 where x > 0, else 0. Its gradient is 0.
struct Step final : Function<Step, step> {};

struct LeakyReLU final : Function<LeakyReLU, static_cast<OfNumber>(leaky_relu), double> {
  explicit LeakyReLU(double negative_slope = 0.01, bool inplace = false);
  explicit LeakyReLU(LeakyReLUOptions options);
};
struct ELU final : Function<ELU, static_cast<OfNumber>(elu), double> {
  explicit ELU(double alpha = 1.0, bool inplace = false);
  explicit ELU(ELUOptions options);
};
struct CELU final : Function<CELU, static_cast<OfConstAndNumber>(celu), double> {
  explicit CELU(double alpha = 1.0, Where where = Where::current());
  explicit CELU(ELUOptions options);
};
struct GELU final
    : Function<GELU, static_cast<Variable (*)(Variable, Choice<Gelu>, Where)>(gelu), Choice<Gelu>> {
  explicit GELU(Choice<Gelu> approximate = Gelu::kErf);
  explicit GELU(GeluOptions options);
  Gelu approximate() const { return kept_.first; }
};
struct Softplus final : Function<Softplus, static_cast<OfTwoNumbers>(softplus), double, double> {
  explicit Softplus(double beta = 1.0, double threshold = 20.0, Where where = Where::current());
  explicit Softplus(SoftplusOptions options);
};
struct Hardtanh final : Function<Hardtanh, static_cast<OfTwoNumbers>(hardtanh), double, double> {
  explicit Hardtanh(double min_val = -1.0, double max_val = 1.0, Where where = Where::current());
  explicit Hardtanh(HardtanhOptions options);
};
struct Softshrink final : Function<Softshrink, static_cast<OfConstAndNumber>(softshrink), double> {
  explicit Softshrink(double lambd = 0.5, Where where = Where::current());
  explicit Softshrink(ShrinkOptions options);
};
struct Hardshrink final : Function<Hardshrink, static_cast<OfConstAndNumber>(hardshrink), double> {
  explicit Hardshrink(double lambd = 0.5);
  explicit Hardshrink(ShrinkOptions options);
};
struct Threshold final
    : Function<Threshold, static_cast<OfValue>(tapegrad::threshold), double, double> {
  Threshold(double threshold, double value);
};
struct GLU final : Function<GLU, static_cast<OfDim>(glu), int> {
  explicit GLU(int dim = -1);
  explicit GLU(DimOptions options);
};
struct Softmax final : Function<Softmax, static_cast<OfDim>(softmax), int> {
  explicit Softmax(int dim = -1);
  explicit Softmax(DimOptions options);
};
struct LogSoftmax final : Function<LogSoftmax, static_cast<OfDim>(log_softmax), int> {
  explicit LogSoftmax(int dim = -1);
  explicit LogSoftmax(DimOptions options);
};
/// Softmax over the channels of [n, c, h, w] or [c, h, w].
struct Softmax2d final : Stateless<Softmax2d> {
  Variable forward(const Variable& x, Where where = Where::current()) const;
};
struct Softmin final : Function<Softmin, static_cast<OfDim>(softmin), int> {
  explicit Softmin(int dim = -1);
  explicit Softmin(DimOptions options);
};

/// Computes max(x, 0) + weight * min(x, 0), with one learned slope, or one learned slope per
/// channel.
struct PReLU final : Model<PReLU> {
  Parameter weight;  // [num_parameters]
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25, Where where = Where::current());
  void members(Members& m) override;
  Variable forward(const Variable& x, Where where = Where::current()) const;
};

/// LeakyReLU whose slope is random in training; see rrelu().
class RReLU final : public Model<RReLU> {
 public:
  static constexpr std::string_view kName = "RReLU";
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, bool inplace = false,
                 Where where = Where::current());
  void members(Members&) override {}
  Variable forward(const Variable& x, Where where = Where::current()) const;
  std::string options() const override;

 private:
  double lower_, upper_;
};

struct FlattenOptions {
  ByName by_name = {};
  int start_dim = 1;
  int end_dim = -1;
};
using OfDims = Variable (*)(const Variable&, int, int, Where);
/// Flattens dimensions start_dim..end_dim into one; by default, all except the batch.
struct Flatten final : Function<Flatten, static_cast<OfDims>(flatten), int, int> {
  explicit Flatten(int start_dim = 1, int end_dim = -1);
  explicit Flatten(FlattenOptions options);
};
/// Splits dimension `dim` into unflattened_size, in which one size may be -1.
struct Unflatten final : Stateless<Unflatten> {
  int dim;
  Shape unflattened_size;
  Unflatten(int dim, const Shape& unflattened_size);
  Variable forward(const Variable& x, Where where = Where::current()) const;
};
struct Identity final : Stateless<Identity> {
  Variable forward(const Variable& x) const { return x; }
};
/// Layer that calls a function: `nn::Lambda([](const Variable& x) { return 2 * x; })`.
struct Lambda final : Stateless<Lambda> {
  std::function<Variable(const Variable&)> function;
  explicit Lambda(std::function<Variable(const Variable&)> function);
  Variable forward(const Variable& x) const;  // throws ArgumentError if `function` is empty
};

// Programs do not compile the virtual functions of these layers.
extern template class Model<ReLU, Module, false>;

}  // namespace tapegrad::nn
