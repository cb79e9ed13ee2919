// Members of Variable that are used less often than those of core/tape/variable_ops.h: questions
// about the tensor, further elementwise ops, and further writes in place. The headers of ops/
// describe the functions of the same names.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/base/number.h"
#include "core/tape/reduction_ops.h"
#include "core/tape/sections.h"

namespace tapegrad {

class VariableOps;
struct Operand;            // ops/binary.h: a variable or a number
struct ValueOption;        // ops/arithmetic.h
struct Frexp;              // ops/special_composed.h
struct IncludeSelfOption;  // ops/scatter.h

/// Base of VariableOps.
class FurtherOps : public ReductionOps {
 public:
  // Questions about the tensor.
  int ndimension() const;
  int64_t nbytes() const;
  bool is_floating_point() const;
  bool is_cpu() const;
  bool is_signed() const;  // whether the dtype has negative numbers
  /// Returns false: complex numbers are pairs of real numbers (ops/complex.h).
  bool is_complex() const;
  bool is_same_size(const Variable& other) const;
  int64_t itemsize() const;        // bytes of an element
  int64_t storage_offset() const;  // elements of the storage before the first element
  int64_t get_device() const;      // number of the GPU; -1 on the CPU

  /// Copies to pinned memory, and tells whether the memory is pinned (core/cuda.h). pin_memory()
  /// throws DeviceError without a GPU, as in PyTorch.
  Variable pin_memory(Where where = Where::current()) const;
  bool is_pinned() const;

  // Elementwise ops. PyTorch has most of the activations as functions only.
  Variable positive() const;
  Variable arcsinh(Where where = Where::current()) const;
  Variable arccosh(Where where = Where::current()) const;
  Variable arctanh(Where where = Where::current()) const;
  Variable i0(Where where = Where::current()) const;
  Variable polygamma(int64_t n, Where where = Where::current()) const;
  Variable mvlgamma(int64_t p, Where where = Where::current()) const;
  Variable heaviside(const Operand& values) const;
  Variable logaddexp2(const Operand& other) const;
  Variable nextafter(const Operand& other) const;
  Frexp frexp(Where where = Where::current()) const;
  Variable addcmul(const Variable& a, const Variable& b, Number value = 1,
                   Where where = Where::current()) const;
  Variable addcmul(const Variable& a, const Variable& b, ValueOption option,
                   Where where = Where::current()) const;
  Variable addcdiv(const Variable& a, const Variable& b, Number value = 1,
                   Where where = Where::current()) const;
  Variable addcdiv(const Variable& a, const Variable& b, ValueOption option,
                   Where where = Where::current()) const;
  Variable bitwise_left_shift(const Operand& other) const;
  Variable bitwise_right_shift(const Operand& other) const;
  Variable prelu(const Variable& weight, Where where = Where::current()) const;
  Variable hardshrink(double lambd = 0.5, Where where = Where::current()) const;
  Variable leaky_relu(double negative_slope = 0.01, Where where = Where::current()) const;
  Variable elu(double alpha = 1.0, Where where = Where::current()) const;
  Variable relu6(Where where = Where::current()) const;
  Variable gelu(Where where = Where::current()) const;
  Variable silu(Where where = Where::current()) const;
  Variable softplus(Where where = Where::current()) const;

  // Shapes, indexing and matrices.
  Variable H(Where where = Where::current()) const;  // the transpose of a matrix
  Variable adjoint(Where where = Where::current()) const;
  Variable ger(const Variable& other, Where where = Where::current()) const;
  Variable diagflat(int64_t offset = 0, Where where = Where::current()) const;
  Variable put(const Variable& index, const Variable& source, bool accumulate = false) const;
  Variable index_reduce(int dim, const Variable& index, const Variable& source,
                        std::string_view reduce, bool include_self = true,
                        Where where = Where::current()) const;
  Variable index_reduce(int dim, const Variable& index, const Variable& source,
                        std::string_view reduce, IncludeSelfOption option,
                        Where where = Where::current()) const;
  std::vector<Variable> dsplit(const Sections& sections, Where where = Where::current()) const;
  std::vector<Variable> split_with_sizes(const std::vector<int64_t>& sizes, int dim = 0,
                                         Where where = Where::current()) const;

  // In place. The result must have shape and dtype of this variable.
  Variable& tan_(Where where = Where::current());
  Variable& asin_(Where where = Where::current());
  Variable& acos_(Where where = Where::current());
  Variable& atan_(Where where = Where::current());
  Variable& sinh_(Where where = Where::current());
  Variable& cosh_(Where where = Where::current());
  Variable& exp2_(Where where = Where::current());
  Variable& erfc_(Where where = Where::current());
  Variable& erfinv_(Where where = Where::current());
  Variable& lgamma_(Where where = Where::current());
  Variable& digamma_(Where where = Where::current());
  Variable& negative_(Where where = Where::current());
  Variable& logit_(std::optional<double> eps = {}, Where where = Where::current());
  Variable& cumsum_(int dim, Where where = Where::current());
  Variable& cumprod_(int dim, Where where = Where::current());
  Variable& renorm_(double p, int dim, double maxnorm, Where where = Where::current());
  Variable& multiply_(const Operand& other);
  Variable& subtract_(const Operand& other);
  Variable& divide_(const Operand& other);
  Variable& true_divide_(const Operand& other);
  Variable& atan2_(const Operand& other);
  Variable& hypot_(const Operand& other);
  Variable& copysign_(const Operand& other);
  Variable& xlogy_(const Operand& other);
  Variable& bitwise_and_(const Operand& other);
  Variable& bitwise_or_(const Operand& other);
  Variable& bitwise_xor_(const Operand& other);
  Variable& addcmul_(const Variable& a, const Variable& b, Number value = 1,
                     Where where = Where::current());
  Variable& addcdiv_(const Variable& a, const Variable& b, Number value = 1,
                     Where where = Where::current());
  Variable& index_reduce_(int dim, const Variable& index, const Variable& source,
                          std::string_view reduce, bool include_self = true,
                          Where where = Where::current());
  Variable& index_reduce_(int dim, const Variable& index, const Variable& source,
                          std::string_view reduce, IncludeSelfOption option,
                          Where where = Where::current());
  Variable& addmv_(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                   Where where = Where::current());
  Variable& addr_(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                  Where where = Where::current());
  Variable& baddbmm_(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                     Where where = Where::current());
  Variable& addbmm_(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                    Where where = Where::current());
  /// Fills the variable with exp(z) of normal numbers z of this mean and deviation.
  Variable& log_normal_(double mean = 1.0, double std = 2.0, Where where = Where::current());
  /// Fills the variable with numbers of a Cauchy distribution. Throws ArgumentError unless sigma >
  /// 0.
  Variable& cauchy_(double median = 0.0, double sigma = 1.0, Where where = Where::current());
  /// Fills the variable with the number of trials up to the first success, 1, 2, ... Throws
  /// ArgumentError unless 0 < p < 1.
  Variable& geometric_(double p, Where where = Where::current());

 protected:
  FurtherOps() = default;
  /// Returns the operand of an op whose result is written over this variable: a copy if the op is
  /// recorded, since its rule may need the value.
  Variable before() const;
  /// Copies the result of an op over this variable. Throws DTypeError or ShapeError if the result
  /// has another dtype or shape.
  Variable& write(std::string_view op, const Variable& result, Where where);
  /// Write the result of a member over this variable. Functions of their own keep the code small.
  using OfOne = Variable (VariableOps::*)(Where) const;
  using OfTwo = Variable (VariableOps::*)(const Operand&) const;
  Variable& write(std::string_view op, OfOne member, Where where);
  Variable& write(std::string_view op, OfTwo member, const Operand& other);

 private:
  const Variable& self() const;
  Variable& self();
};

}  // namespace tapegrad
