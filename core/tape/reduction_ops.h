// The reductions that are members of Variable: x.sum(1) is sum(x, 1).
//
// Dims is one dimension or a list of dimensions; an empty list means all. Options have names:
// x.sum(1, {.keepdim = true}), x.sum({.dim = {0, 1}}). core/tape/variable_ops.h has the other
// members.
#pragma once

#include <concepts>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/base/where.h"

namespace tapegrad {

class Variable;
struct ReduceOptions;  // ops/extremes.h
struct AlongOptions;
struct Keepdim;
struct ValuesIndices;
struct VarOptions;  // ops/reduce.h
struct NormOptions;
struct MinMax;  // ops/statistics.h

namespace detail {
/// A whole number passed where a bool is required.
template <typename I>
concept NumberForFlag = std::integral<I> && !std::same_as<I, bool>;
template <typename I>
constexpr bool refuse_second_dim() {
  static_assert(sizeof(I) == 0,
                "x.mean(2, 3): type x.mean({2, 3}); the second argument is keepdim, true or false");
  return true;
}
/// The name of a norm. A number does not convert to it.
struct MatrixNormName {
  template <std::convertible_to<std::string_view> Name>
  MatrixNormName(const Name& by_name) : name(by_name) {}
  std::string_view name;
};
}  // namespace detail

/// Base of VariableOps. The members that take either Dims or options are templates, because g++ 12
/// otherwise takes {.dim = 1} for Dims.
class ReductionOps {
 public:
  Variable sum(Where where = Where::current()) const;
  template <typename = void>
  Variable sum(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  template <typename = void>
  Variable sum(const Dims& dims, Keepdim keep, Where where = Where::current()) const;
  Variable sum(ReduceOptions options, Where where = Where::current()) const;
  /// Overload that first converts the elements to another dtype.
  template <std::same_as<DType> D>
  Variable sum(D dtype, Where where = Where::current()) const;
  template <detail::NumberForFlag I>
  auto sum(const Dims&, I) const {
    static_assert(detail::refuse_second_dim<I>());
  }
  Variable mean(Where where = Where::current()) const;
  template <typename = void>
  Variable mean(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  template <typename = void>
  Variable mean(const Dims& dims, Keepdim keep, Where where = Where::current()) const;
  Variable mean(ReduceOptions options, Where where = Where::current()) const;
  template <std::same_as<DType> D>
  Variable mean(D dtype, Where where = Where::current()) const;
  template <detail::NumberForFlag I>
  auto mean(const Dims&, I) const {
    static_assert(detail::refuse_second_dim<I>());
  }
  Variable nansum(const Dims& dims = {}, bool keepdim = false,
                  Where where = Where::current()) const;
  Variable nanmean(const Dims& dims = {}, bool keepdim = false,
                   Where where = Where::current()) const;
  Variable prod(Where where = Where::current()) const;
  Variable prod(int dim, bool keepdim = false, Where where = Where::current()) const;
  Variable prod(int dim, Keepdim keep, Where where = Where::current()) const;
  Variable prod(AlongOptions options, Where where = Where::current()) const;
  Variable std(Where where = Where::current()) const;
  template <typename = void>
  Variable std(const Dims& dims, bool unbiased = true, bool keepdim = false,
               Where where = Where::current()) const;
  template <typename = void>
  Variable std(const Dims& dims, VarOptions options, Where where = Where::current()) const;
  Variable std(VarOptions options, Where where = Where::current()) const;
  /// x.std(false) divides by n instead of n - 1.
  template <std::same_as<bool> B>
  auto std(B unbiased, Where where = Where::current()) const {
    return std(Dims(), unbiased, false, where);
  }
  template <std::same_as<bool> B>
  auto var(B unbiased, Where where = Where::current()) const {
    return var(Dims(), unbiased, false, where);
  }
  Variable var(Where where = Where::current()) const;
  template <typename = void>
  Variable var(const Dims& dims, bool unbiased = true, bool keepdim = false,
               Where where = Where::current()) const;
  template <typename = void>
  Variable var(const Dims& dims, VarOptions options, Where where = Where::current()) const;
  Variable var(VarOptions options, Where where = Where::current()) const;
  Variable norm(double p = 2.0, Where where = Where::current()) const;
  Variable norm(double p, const Dims& dims, bool keepdim = false,
                Where where = Where::current()) const;
  Variable norm(double p, const Dims& dims, Keepdim keep, Where where = Where::current()) const;
  Variable norm(NormOptions options, Where where = Where::current()) const;
  /// The norm of a matrix: x.norm("fro"), x.norm("nuc").
  Variable norm(detail::MatrixNormName ord, Where where = Where::current()) const;
  Variable dist(const Variable& other, double p = 2.0, Where where = Where::current()) const;
  template <typename = void>
  Variable logsumexp(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  template <typename = void>
  Variable logsumexp(const Dims& dims, Keepdim keep, Where where = Where::current()) const;
  Variable logsumexp(ReduceOptions options, Where where = Where::current()) const;
  template <detail::NumberForFlag I>
  auto logsumexp(const Dims&, I) const {
    static_assert(detail::refuse_second_dim<I>());
  }
  Variable max(Where where = Where::current()) const;
  ValuesIndices max(int dim, bool keepdim = false, Where where = Where::current()) const;
  ValuesIndices max(int dim, Keepdim keep, Where where = Where::current()) const;
  ValuesIndices max(AlongOptions options, Where where = Where::current()) const;
  Variable max(const Variable& other, Where where = Where::current()) const;
  Variable min(Where where = Where::current()) const;
  ValuesIndices min(int dim, bool keepdim = false, Where where = Where::current()) const;
  ValuesIndices min(int dim, Keepdim keep, Where where = Where::current()) const;
  ValuesIndices min(AlongOptions options, Where where = Where::current()) const;
  Variable min(const Variable& other, Where where = Where::current()) const;
  Variable amax(Where where = Where::current()) const;
  template <typename = void>
  Variable amax(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  template <typename = void>
  Variable amax(const Dims& dims, Keepdim keep, Where where = Where::current()) const;
  Variable amax(ReduceOptions options, Where where = Where::current()) const;
  template <detail::NumberForFlag I>
  auto amax(const Dims&, I) const {
    static_assert(detail::refuse_second_dim<I>());
  }
  Variable amin(Where where = Where::current()) const;
  template <typename = void>
  Variable amin(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  template <typename = void>
  Variable amin(const Dims& dims, Keepdim keep, Where where = Where::current()) const;
  Variable amin(ReduceOptions options, Where where = Where::current()) const;
  template <detail::NumberForFlag I>
  auto amin(const Dims&, I) const {
    static_assert(detail::refuse_second_dim<I>());
  }
  Variable any(Where where = Where::current()) const;
  template <typename = void>
  Variable any(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  template <typename = void>
  Variable any(const Dims& dims, Keepdim keep, Where where = Where::current()) const;
  Variable any(ReduceOptions options, Where where = Where::current()) const;
  template <detail::NumberForFlag I>
  auto any(const Dims&, I) const {
    static_assert(detail::refuse_second_dim<I>());
  }
  Variable all(Where where = Where::current()) const;
  template <typename = void>
  Variable all(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  template <typename = void>
  Variable all(const Dims& dims, Keepdim keep, Where where = Where::current()) const;
  Variable all(ReduceOptions options, Where where = Where::current()) const;
  template <detail::NumberForFlag I>
  auto all(const Dims&, I) const {
    static_assert(detail::refuse_second_dim<I>());
  }
  MinMax aminmax(Where where = Where::current()) const;
  MinMax aminmax(int dim, bool keepdim = false, Where where = Where::current()) const;
  MinMax aminmax(AlongOptions options, Where where = Where::current()) const;
  Variable argmax(Where where = Where::current()) const;
  Variable argmax(int dim, bool keepdim = false, Where where = Where::current()) const;
  Variable argmax(int dim, Keepdim keep, Where where = Where::current()) const;
  Variable argmax(AlongOptions options, Where where = Where::current()) const;
  Variable argmin(Where where = Where::current()) const;
  Variable argmin(int dim, bool keepdim = false, Where where = Where::current()) const;
  Variable argmin(int dim, Keepdim keep, Where where = Where::current()) const;
  Variable argmin(AlongOptions options, Where where = Where::current()) const;
  Variable median(Where where = Where::current()) const;
  ValuesIndices median(int dim, bool keepdim = false, Where where = Where::current()) const;
  Variable nanmedian(Where where = Where::current()) const;
  ValuesIndices nanmedian(int dim, bool keepdim = false, Where where = Where::current()) const;
  Variable quantile(double q, Where where = Where::current()) const;
  Variable quantile(const Variable& q, std::optional<int> dim = {}, bool keepdim = false,
                    Where where = Where::current()) const;
  Variable quantile(double q, int dim, bool keepdim = false, Where where = Where::current()) const;
  ValuesIndices kthvalue(int64_t k, int dim = -1, bool keepdim = false,
                         Where where = Where::current()) const;
  Variable count_nonzero(const Dims& dims = {}, Where where = Where::current()) const;
  Variable bincount(const Variable& weights, int64_t minlength = 0,
                    Where where = Where::current()) const;
  Variable bincount(Where where = Where::current()) const;
  Variable histc(int64_t bins = 100, double min = 0, double max = 0,
                 Where where = Where::current()) const;
  Variable trace(Where where = Where::current()) const;
  Variable cov(Where where = Where::current()) const;
  Variable corrcoef(Where where = Where::current()) const;

 protected:
  ReductionOps() = default;

 private:
  const Variable& self() const;
};

}  // namespace tapegrad
