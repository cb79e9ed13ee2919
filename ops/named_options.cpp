#include "ops/named_options.h"

namespace tapegrad {
Variable leaky_relu(Variable x, LeakyReLUOptions options, Where where) {
  return leaky_relu(std::move(x), options.negative_slope, where);
}
Variable elu(Variable x, ELUOptions options, Where where) {
  return elu(std::move(x), options.alpha, where);
}
Variable celu(const Variable& x, ELUOptions options, Where where) {
  return celu(x, options.alpha, where);
}
Variable softplus(Variable x, SoftplusOptions options, Where where) {
  return softplus(std::move(x), options.beta, options.threshold, where);
}
Variable hardtanh(Variable x, HardtanhOptions options, Where where) {
  return hardtanh(std::move(x), options.min_val, options.max_val, where);
}
Variable threshold(const Variable& x, ThresholdOptions options, Where where) {
  return threshold(x, options.threshold, options.value, where);
}
Variable softshrink(const Variable& x, ShrinkOptions options, Where where) {
  return softshrink(x, options.lambd, where);
}
Variable hardshrink(const Variable& x, ShrinkOptions options, Where where) {
  return hardshrink(x, options.lambd, where);
}
Variable rrelu(const Variable& x, RReLUOptions options, Where where) {
  return rrelu(x, options.lower, options.upper, options.training, default_generator(), where);
}
Variable glu(const Variable& x, DimOptions options, Where where) {
  return glu(x, options.dim, where);
}
Variable softmin(const Variable& x, DimOptions options, Where where) {
  return softmin(x, options.dim, where);
}
Variable cat(VariableList inputs, DimOption option, Where where) {
  return cat(inputs, option.dim, where);
}
Variable stack(VariableList inputs, DimOption option, Where where) {
  return stack(inputs, option.dim, where);
}
std::vector<Variable> meshgrid(VariableList inputs, IndexingOption option, Where where) {
  return meshgrid(inputs, option.indexing, where);
}
std::array<Variable, 2> meshgrid(const Variable& a, const Variable& b, IndexingOption option,
                                 Where where) {
  return meshgrid(a, b, option.indexing, where);
}
Variable combinations(const Variable& x, CombinationsOptions options, Where where) {
  return combinations(x, options.r, options.with_replacement, where);
}
Variable affine_grid(const Variable& theta, const Shape& size, AlignCornersOption option,
                     Where where) {
  return affine_grid(theta, size, option.align_corners, where);
}
Variable linspace(double start, double end, StepsOption option) {
  return linspace(start, end, option.steps, TensorOptions{.dtype = option.dtype});
}
Variable pairwise_distance(const Variable& a, const Variable& b, PairwiseDistanceOptions options,
                           Where where) {
  return pairwise_distance(a, b, options.p, options.eps, options.keepdim, where);
}
Variable cosine_similarity(const Variable& a, const Variable& b, CosineSimilarityOptions options,
                           Where where) {
  return cosine_similarity(a, b, options.dim, options.eps, where);
}
Variable distance(const Variable& a, const Variable& b, DistanceOptions options, Where where) {
  return distance(a, b, options.p, where);
}
Variable cdist(const Variable& a, const Variable& b, DistanceOptions options, Where where) {
  return cdist(a, b, options.p, where);
}
Variable pdist(const Variable& x, DistanceOptions options, Where where) {
  return pdist(x, options.p, where);
}
Variable one_hot(const Variable& ids, OneHotOptions options, Where where) {
  return one_hot(ids, options.num_classes, where);
}
}  // namespace tapegrad
