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
#include "ops/conv.h"
#include "ops/dropout.h"
#include "ops/embedding_bag.h"
#include "ops/named_options.h"
#include "ops/norm.h"
#include "ops/pool.h"

namespace tapegrad::torch::nn::functional {

using AdaptiveAvgPool1dFuncOptions = int64_t;
using AdaptiveAvgPool2dFuncOptions = Size2d;
using AdaptiveAvgPool3dFuncOptions = Size3d;
using AdaptiveMaxPool1dFuncOptions = int64_t;
using AdaptiveMaxPool2dFuncOptions = Size2d;
using AdaptiveMaxPool3dFuncOptions = Size3d;

using LeakyReLUFuncOptions = Chained<LeakyReLUOptions>;
using ELUFuncOptions = Chained<ELUOptions>;
using HardtanhFuncOptions = Chained<HardtanhOptions>;
using SoftplusFuncOptions = Chained<SoftplusOptions>;
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
using BatchNormFuncOptions = Chained<BatchNormSettings>;
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
