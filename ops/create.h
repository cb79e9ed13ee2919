// Functions that create tensors. The default dtype is default_dtype() (float32), or int64 where the
// values are integers; the default device is default_device().
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct TensorOptions {
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
  bool requires_grad = false;
};

namespace detail {
[[noreturn, gnu::cold]] void fail_ragged(size_t expected, size_t found);
}  // namespace detail

/// Creates a tensor from values in row-major order. Unless a dtype is given, the result has the
/// dtype of the values' C++ type, except that double gives the default float dtype and int gives
/// int64. Throws ShapeError if the number of values does not match the shape.
///
///   Variable x = tensor({1.0, 2.0, 3.0});
///   Variable y = tensor(pixels, {28, 28});    // std::vector<float>
template <typename T>
Variable tensor(const std::vector<T>& values, const Shape& shape, TensorOptions options = {});
template <typename T>
Variable tensor(const std::vector<T>& values, TensorOptions options = {}) {
  return tensor(values, Shape{int64_t(values.size())}, options);
}
template <typename T>
Variable tensor(std::initializer_list<T> values, TensorOptions options = {}) {
  return tensor(std::vector<T>(values), options);
}
template <typename T>
Variable tensor(std::initializer_list<T> values, const Shape& shape, TensorOptions options = {}) {
  return tensor(std::vector<T>(values), shape, options);
}
/// Numbers nested in braces, of any depth: {{1, 2}, {3, 4}}. Fractions give the default float
/// dtype, whole numbers int64, and bools bool.
class NestedValues {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> NestedValues(T value) : value_(value), is_list_(false) {}
  NestedValues(std::initializer_list<NestedValues> list) : list_(list) {}

  Variable make(TensorOptions options) const;

 private:
  struct Reader;

  Number value_ = 0;
  std::initializer_list<NestedValues> list_ = {};
  bool is_list_ = true;
};
/// tensor(3.0) has rank 0, tensor({{1, 2}, {3, 4}}) has shape [2, 2]. Throws ShapeError if lists of
/// one level differ in length.
inline Variable tensor(NestedValues values, TensorOptions options = {}) {
  return values.make(options);
}
template <std::same_as<DType> D>
Variable tensor(NestedValues values, D dtype) {
  return values.make({.dtype = dtype});
}
template <typename T, std::same_as<DType> D>
Variable tensor(const std::vector<T>& values, D dtype) {
  return tensor(values, {.dtype = dtype});
}
/// Rows of equal length.
template <typename T>
Variable tensor(const std::vector<std::vector<T>>& rows, TensorOptions options = {}) {
  std::vector<T> values;
  const size_t columns = rows.empty() ? 0 : rows[0].size();
  for (const std::vector<T>& row : rows) {
    if (row.size() != columns) detail::fail_ragged(columns, row.size());
    values.insert(values.end(), row.begin(), row.end());
  }
  return tensor(values, {int64_t(rows.size()), int64_t(columns)}, options);
}
/// Creates a tensor of rank 0.
Variable scalar(Number value, TensorOptions options = {});

/// Wraps memory of the caller without copying; the tensor and the caller see each other's writes.
/// The memory must outlive every view of the result. If `release` is given, it is called when the
/// memory is no longer used.
template <typename T>
Variable from_blob(T* data, const Shape& shape, std::function<void()> release = {}) {
  return Variable(Tensor::wrap(data, shape, kDTypeOf<T>, cpu, std::move(release)));
}

Variable zeros(const Shape& shape, TensorOptions options = {});
Variable ones(const Shape& shape, TensorOptions options = {});
Variable full(const Shape& shape, Number value, TensorOptions options = {});
Variable empty(const Shape& shape, TensorOptions options = {});  // uninitialised
// A dtype in place of the options.
template <std::same_as<DType> D>
Variable zeros(const Shape& shape, D dtype) {
  return zeros(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Variable ones(const Shape& shape, D dtype) {
  return ones(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Variable empty(const Shape& shape, D dtype) {
  return empty(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Variable full(const Shape& shape, Number value, D dtype) {
  return full(shape, value, TensorOptions{.dtype = dtype});
}
// Sizes without braces: zeros(2, 3).
template <std::integral... N>
requires(sizeof...(N) > 1) Variable zeros(N... sizes) { return zeros(Dims::of(sizes...)); }
template <std::integral... N>
requires(sizeof...(N) > 1) Variable ones(N... sizes) { return ones(Dims::of(sizes...)); }
template <std::integral... N>
requires(sizeof...(N) > 1) Variable empty(N... sizes) { return empty(Dims::of(sizes...)); }

Variable zeros_like(const Variable& x);
Variable ones_like(const Variable& x);
Variable full_like(const Variable& x, Number value);
Variable empty_like(const Variable& x);

/// Returns 0, 1, ... up to but excluding end; or start, start + step, ... up to but excluding end.
/// Integer arguments give int64.
Variable arange(Number end, TensorOptions options = {});
Variable arange(Number start, Number end, Number step = 1, TensorOptions options = {});
/// `steps` evenly spaced numbers from start to end, both included.
Variable linspace(double start, double end, int64_t steps, TensorOptions options = {});
inline Variable arange(Number start, Number end, TensorOptions options) {
  return arange(start, end, 1, options);
}
template <std::same_as<DType> D>
Variable arange(Number end, D dtype) {
  return arange(end, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Variable arange(Number start, Number end, D dtype) {
  return arange(start, end, 1, TensorOptions{.dtype = dtype});
}
/// `steps` numbers base^start ... base^end, whose logarithms are evenly spaced.
Variable logspace(double start, double end, int64_t steps, double base = 10.0,
                  TensorOptions options = {});
Variable eye(int64_t rows, std::optional<int64_t> columns = {}, TensorOptions options = {});

namespace kernels {
extern Kernel<void(Tensor& y, Number start, Number step)> arange;
extern Kernel<void(Tensor& y, double start, double end)> linspace;
}  // namespace kernels

}  // namespace tapegrad
