// Overloads of functions with options by name:
//
//   leaky_relu(x, {.negative_slope = 0.1});
//   layer_norm(x, {64}, {.eps = 1e-6});
//
// The headers of the functions describe the options.
#pragma once

#include "core/base/by_name.h"
#include "ops/activation.h"
#include "ops/activation_composed.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/norm.h"
#include "ops/rearrange.h"
#include "ops/resample.h"
#include "ops/softmax.h"

namespace tapegrad {

// `inplace` has no effect: an activation overwrites its operand if nothing else needs the operand.
struct LeakyReLUOptions {
  ByName by_name = {};
  double negative_slope = 0.01;
  bool inplace = false;
};
Variable leaky_relu(Variable x, LeakyReLUOptions options, Where where = Where::current());

/// Options of elu() and celu().
struct ELUOptions {
  ByName by_name = {};
  double alpha = 1.0;
  bool inplace = false;
};
Variable elu(Variable x, ELUOptions options, Where where = Where::current());
Variable celu(const Variable& x, ELUOptions options, Where where = Where::current());

struct SoftplusOptions {
  ByName by_name = {};
  double beta = 1.0;
  double threshold = 20.0;
};
Variable softplus(Variable x, SoftplusOptions options, Where where = Where::current());

struct HardtanhOptions {
  ByName by_name = {};
  double min_val = -1.0;
  double max_val = 1.0;
  bool inplace = false;
};
Variable hardtanh(Variable x, HardtanhOptions options, Where where = Where::current());

struct ThresholdOptions {
  ByName by_name = {};
  double threshold;
  double value;
  bool inplace = false;
};
Variable threshold(const Variable& x, ThresholdOptions options, Where where = Where::current());

/// Options of softshrink() and hardshrink().
struct ShrinkOptions {
  ByName by_name = {};
  double lambd = 0.5;
};
Variable softshrink(const Variable& x, ShrinkOptions options, Where where = Where::current());
Variable hardshrink(const Variable& x, ShrinkOptions options, Where where = Where::current());

struct RReLUOptions {
  ByName by_name = {};
  double lower = 1.0 / 8;
  double upper = 1.0 / 3;
  bool training = false;
  bool inplace = false;
};
Variable rrelu(const Variable& x, RReLUOptions options, Where where = Where::current());

/// Options of glu() and softmin().
struct DimOptions {
  ByName by_name = {};
  int dim = -1;
};
Variable glu(const Variable& x, DimOptions options, Where where = Where::current());
Variable softmin(const Variable& x, DimOptions options, Where where = Where::current());

/// Options of cat() and stack().
struct DimOption {
  ByName by_name = {};
  int dim;
};
Variable cat(VariableList inputs, DimOption option, Where where = Where::current());
Variable stack(VariableList inputs, DimOption option, Where where = Where::current());

/// Option of meshgrid().
struct IndexingOption {
  ByName by_name = {};
  std::string_view indexing;
};
std::vector<Variable> meshgrid(VariableList inputs, IndexingOption option,
                               Where where = Where::current());
std::array<Variable, 2> meshgrid(const Variable& a, const Variable& b, IndexingOption option,
                                 Where where = Where::current());

struct CombinationsOptions {
  ByName by_name = {};
  int64_t r = 2;
  bool with_replacement = false;
};
Variable combinations(const Variable& x, CombinationsOptions options,
                      Where where = Where::current());

struct AlignCornersOption {
  ByName by_name = {};
  bool align_corners = false;
};
Variable affine_grid(const Variable& theta, const Shape& size, AlignCornersOption option,
                     Where where = Where::current());

struct StepsOption {
  ByName by_name = {};
  int64_t steps;
  decltype(TensorOptions::dtype) dtype = {};
};
Variable linspace(double start, double end, StepsOption option);

struct PairwiseDistanceOptions {
  ByName by_name = {};
  double p = 2.0;
  double eps = 1e-6;
  bool keepdim = false;
};
Variable pairwise_distance(const Variable& a, const Variable& b, PairwiseDistanceOptions options,
                           Where where = Where::current());

struct CosineSimilarityOptions {
  ByName by_name = {};
  int dim = 1;
  double eps = 1e-8;
};
Variable cosine_similarity(const Variable& a, const Variable& b, CosineSimilarityOptions options,
                           Where where = Where::current());

/// Options of distance(), cdist() and pdist().
struct DistanceOptions {
  ByName by_name = {};
  double p = 2.0;
};
Variable distance(const Variable& a, const Variable& b, DistanceOptions options,
                  Where where = Where::current());
Variable cdist(const Variable& a, const Variable& b, DistanceOptions options,
               Where where = Where::current());
Variable pdist(const Variable& x, DistanceOptions options, Where where = Where::current());

struct OneHotOptions {
  ByName by_name = {};
  int64_t num_classes = -1;
};
Variable one_hot(const Variable& ids, OneHotOptions options, Where where = Where::current());

/// Options of layer_norm() and group_norm(). The overloads are templates, so that {} is an empty
/// weight.
struct AffineOptions {
  ByName by_name = {};
  Variable weight = {}, bias = {};
  double eps = 1e-5;
};
template <typename = void>
Variable layer_norm(const Variable& x, const Shape& normalized_shape, const AffineOptions& options,
                    Where where = Where::current()) {
  return layer_norm(x, normalized_shape, options.weight, options.bias, options.eps, where);
}
template <typename = void>
Variable group_norm(const Variable& x, int64_t num_groups, const AffineOptions& options,
                    Where where = Where::current()) {
  return group_norm(x, num_groups, options.weight, options.bias, options.eps, where);
}

/// Options of batch_norm(x, mean, var, {.weight = w, .training = true}).
struct BatchNormSettings {
  ByName by_name = {};
  Variable weight = {}, bias = {};
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
};
template <typename = void>
Variable batch_norm(const Variable& x, const Variable& running_mean, const Variable& running_var,
                    const BatchNormSettings& options, Where where = Where::current()) {
  return batch_norm(x, running_mean, running_var, options.weight, options.bias,
                    BatchNormOptions{options.training, options.momentum, options.eps}, where);
}

}  // namespace tapegrad
