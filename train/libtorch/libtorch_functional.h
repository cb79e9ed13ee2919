// Options of libtorch's torch::nn::functional for functions of ops/ that take numbers:
//
//   namespace F = torch::nn::functional;
//   F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(0.2));
//   F::dropout(x, F::DropoutFuncOptions().p(0.5).training(is_training()));
//
// The functions are templates so that a program that calls none of them compiles none of them.
#pragma once

#include <concepts>

#include "core/base/chained.h"
#include "nn/activation.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/random.h"

namespace tapegrad::torch::nn::functional {

using AdaptiveAvgPool1dFuncOptions = int64_t;
using AdaptiveAvgPool2dFuncOptions = Size2d;
using AdaptiveAvgPool3dFuncOptions = Size3d;
using AdaptiveMaxPool1dFuncOptions = int64_t;
using AdaptiveMaxPool2dFuncOptions = Size2d;
using AdaptiveMaxPool3dFuncOptions = Size3d;

using LeakyReLUFuncOptions = Chained<::tapegrad::nn::LeakyReLUOptions>;
using ::tapegrad::leaky_relu;
template <std::same_as<LeakyReLUFuncOptions> O>
Variable leaky_relu(const Variable& x, const O& options, Where where = Where::current()) {
  return leaky_relu(x, static_cast<const ::tapegrad::nn::LeakyReLUOptions&>(options).negative_slope,
                    where);
}
using ELUFuncOptions = Chained<::tapegrad::nn::ELUOptions>;
using ::tapegrad::elu;
template <std::same_as<ELUFuncOptions> O>
Variable elu(const Variable& x, const O& options, Where where = Where::current()) {
  return elu(x, static_cast<const ::tapegrad::nn::ELUOptions&>(options).alpha, where);
}
struct HardtanhOptions {
  double min_val = -1.0, max_val = 1.0;
};
using HardtanhFuncOptions = Chained<HardtanhOptions>;
using ::tapegrad::hardtanh;
template <std::same_as<HardtanhFuncOptions> O>
Variable hardtanh(const Variable& x, const O& options, Where where = Where::current()) {
  const HardtanhOptions& of = options;
  return hardtanh(x, of.min_val, of.max_val, where);
}
struct SoftplusOptions {
  double beta = 1.0, threshold = 20.0;
};
using SoftplusFuncOptions = Chained<SoftplusOptions>;
using ::tapegrad::softplus;
template <std::same_as<SoftplusFuncOptions> O>
Variable softplus(const Variable& x, const O& options, Where where = Where::current()) {
  const SoftplusOptions& of = options;
  return softplus(x, of.beta, of.threshold, where);
}
using GELUFuncOptions = Chained<GeluOptions>;
struct DropoutFunctionOptions {
  double p = 0.5;
  bool training = true;
  bool inplace = false;  // has no effect
};
using DropoutFuncOptions = Chained<DropoutFunctionOptions, &DropoutFunctionOptions::p>;
using ::tapegrad::dropout;
template <std::same_as<DropoutFuncOptions> O>
Variable dropout(const Variable& x, const O& options, Where where = Where::current()) {
  const DropoutFunctionOptions& of = options;
  return dropout(x, of.p, of.training, default_generator(), where);
}
struct BatchNormFunctionOptions {
  Variable weight = {}, bias = {};
  bool training = false;
  double momentum = 0.1, eps = 1e-5;
};
using BatchNormFuncOptions = Chained<BatchNormFunctionOptions>;
using ::tapegrad::batch_norm;
template <std::same_as<BatchNormFuncOptions> O>
Variable batch_norm(const Variable& x, const Variable& running_mean, const Variable& running_var,
                    const O& options, Where where = Where::current()) {
  const BatchNormFunctionOptions& of = options;
  return batch_norm(x, running_mean, running_var, of.weight, of.bias,
                    ::tapegrad::BatchNormOptions{of.training, of.momentum, of.eps}, where);
}
struct GroupNormFunctionOptions {
  int64_t num_groups = 0;  // required
  Variable weight = {}, bias = {};
  double eps = 1e-5;
};
using GroupNormFuncOptions =
    Chained<GroupNormFunctionOptions, &GroupNormFunctionOptions::num_groups>;
using ::tapegrad::group_norm;
template <std::same_as<GroupNormFuncOptions> O>
Variable group_norm(const Variable& x, const O& options, Where where = Where::current()) {
  const GroupNormFunctionOptions& of = options;
  return group_norm(x, of.num_groups, of.weight, of.bias, of.eps, where);
}
using UnfoldFuncOptions = Chained<UnfoldOptions, &UnfoldOptions::kernel_size>;
struct FoldOptions : UnfoldOptions {
  Size2d output_size = 0;  // required
};
using FoldFuncOptions = Chained<FoldOptions, &FoldOptions::output_size, &FoldOptions::kernel_size>;
using ::tapegrad::fold;
template <std::same_as<FoldFuncOptions> O>
Variable fold(const Variable& columns, const O& options, Where where = Where::current()) {
  return fold(columns, options.output_size, static_cast<const UnfoldOptions&>(options), where);
}
struct EmbeddingBagFunctionOptions : ::tapegrad::EmbeddingBagOptions {
  Variable offsets = {};
};
using EmbeddingBagFuncOptions = Chained<EmbeddingBagFunctionOptions>;
using ::tapegrad::embedding_bag;
template <std::same_as<EmbeddingBagFuncOptions> O>
Variable embedding_bag(const Variable& indices, const Variable& weight, const O& options,
                       Where where = Where::current()) {
  const EmbeddingBagFunctionOptions& of = options;
  return embedding_bag(indices, weight, of.offsets,
                       static_cast<const ::tapegrad::EmbeddingBagOptions&>(of), where);
}

}  // namespace tapegrad::torch::nn::functional
