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
Variable eye(int64_t rows, std::optional<int64_t> columns = {}, TensorOptions options = {});

namespace kernels {
extern Kernel<void(Tensor& y, Number start, Number step)> arange;
extern Kernel<void(Tensor& y, double start, double end)> linspace;
}  // namespace kernels

}  // namespace tapegrad
