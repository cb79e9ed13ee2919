// Transforms of vectors and matrices, and transforms made of other transforms. A transform without
// a density throws ArgumentError from log_abs_det_jacobian(); its samples have no log_prob().
#pragma once

#include "nn/distributions/transforms.h"

namespace tapegrad::distributions {

/// Computes y = |x|. inv() returns the number that is not negative. Has no density.
struct AbsTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
};
/// Computes y = softmax(x) along the last dimension. Has no density.
struct SoftmaxTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  int domain_rank() const override { return 1; }
};
/// Maps vectors of n numbers to the simplex of n + 1 numbers: each element takes a share of
/// the remainder that the elements before it left.
struct StickBreakingTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  int domain_rank() const override { return 1; }
};
/// Maps vectors of d (d - 1) / 2 numbers to the Cholesky factors [d, d] of correlation matrices.
struct CorrCholeskyTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  int domain_rank() const override { return 1; }
  int codomain_rank() const override { return 2; }
};
/// Maps matrices to lower triangular matrices with a positive diagonal. Has no density.
struct LowerCholeskyTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  int domain_rank() const override { return 2; }
};
/// Maps matrices to positive definite matrices. Has no density.
struct PositiveDefiniteTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  int domain_rank() const override { return 2; }
};
/// Computes y = cdf(x) of a distribution.
struct CumulativeDistributionTransform final : Transform {
  template <std::derived_from<Distribution> D>
  explicit CumulativeDistributionTransform(const D& of) : distribution(std::make_shared<D>(of)) {}
  std::shared_ptr<const Distribution> distribution;
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
};
/// Treats the last dimensions of the values of a transform as dimensions of one value, over which
/// log_abs_det_jacobian() sums.
struct IndependentTransform final : Transform {
  IndependentTransform(const Transforms& base, int reinterpreted_batch_ndims,
                       Where where = Where::current());
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  Variable sign() const override;
  int domain_rank() const override;
  int codomain_rank() const override;

 private:
  ComposeTransform base_;
  int ndims_;
};
/// Changes the shape of values from in_shape to out_shape, which have as many elements.
struct ReshapeTransform final : Transform {
  ReshapeTransform(const Shape& in_shape, const Shape& out_shape, Where where = Where::current());
  Shape in_shape, out_shape;
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  int domain_rank() const override;
  int codomain_rank() const override;
};
/// Applies the i-th of `parts` to the i-th slice along dim, of size lengths[i]. Each length is 1
/// unless given.
struct CatTransform final : Transform {
  explicit CatTransform(const Transforms& parts, int dim = 0, const Shape& lengths = {},
                        Where where = Where::current());
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  int domain_rank() const override;

 private:
  template <typename F>
  std::vector<Variable> map(const Variable& x, const F& f) const;
  Transforms parts_;
  int dim_;
  Shape lengths_;
};
/// Applies the i-th of `parts` to the i-th element along dim.
struct StackTransform final : Transform {
  explicit StackTransform(const Transforms& parts, int dim = 0);
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  int domain_rank() const override;

 private:
  template <typename F>
  Variable map(const Variable& x, const F& f) const;
  Transforms parts_;
  int dim_;
};

}  // namespace tapegrad::distributions
