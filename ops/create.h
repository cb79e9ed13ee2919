// New tensors. Where no dtype or device is given the defaults serve: default_dtype() (float32),
// default_device(); whole numbers make int64.
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

/// The values, of their own C++ type unless a dtype is given (double gives the default dtype, int
/// gives int64). ShapeError when their count is not the shape's.
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
/// One number: a tensor without dimensions.
Variable scalar(Number value, TensorOptions options = {});

/// The caller's memory, not copied: both see writes. It must outlive every view of the result, or
/// `release` must keep it alive until it is called.
template <typename T>
Variable from_blob(T* data, const Shape& shape, std::function<void()> release = {}) {
  return Variable(Tensor::wrap(data, shape, kDTypeOf<T>, cpu, std::move(release)));
}

Variable zeros(const Shape& shape, TensorOptions options = {});
Variable ones(const Shape& shape, TensorOptions options = {});
Variable full(const Shape& shape, Number value, TensorOptions options = {});
Variable empty(const Shape& shape, TensorOptions options = {});  // uninitialised
Variable zeros_like(const Variable& x);
Variable ones_like(const Variable& x);
Variable full_like(const Variable& x, Number value);
Variable empty_like(const Variable& x);

/// 0, 1, ... below end; or start, start + step, ... before end. int64 for whole numbers.
Variable arange(Number end, TensorOptions options = {});
Variable arange(Number start, Number end, Number step = 1, TensorOptions options = {});
/// `steps` numbers from start to end, both included.
Variable linspace(double start, double end, int64_t steps, TensorOptions options = {});
Variable eye(int64_t rows, std::optional<int64_t> columns = {}, TensorOptions options = {});

namespace kernels {
extern Kernel<void(Tensor& y, Number start, Number step)> arange;
extern Kernel<void(Tensor& y, double start, double end)> linspace;
}  // namespace kernels

}  // namespace tapegrad
