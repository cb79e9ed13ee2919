// Tensor: data without history, a typed and strided view of a Storage. Kernels, optimizers and
// files use it; models are written with Variable.
#pragma once

#include <span>

#include "core/base/dtype.h"
#include "core/base/number.h"
#include "core/base/shape.h"
#include "core/base/storage.h"

namespace tapegrad {

class Tensor {
 public:
  Tensor() {}  // no value

  static Tensor empty(const Shape& shape, DType dtype, Device device = cpu);
  static Tensor full(const Shape& shape, Number value, DType dtype, Device device = cpu);
  /// A copy of the values on the CPU. ShapeError when their count is not the shape's.
  template <typename T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    return from_bytes(std::as_bytes(values), shape, kDTypeOf<T>);
  }
  /// The caller's memory, not copied; `release` is called when the last tensor lets go of it.
  static Tensor wrap(void* data, const Shape& shape, DType dtype, Device device = cpu,
                     std::function<void()> release = {});

  /// Uninitialised, of the same type and device.
  Tensor empty_like(const Shape& shape) const { return empty(shape, dtype_, device()); }
  Tensor empty_like() const;  // of the same shape too

  /// The same storage seen through another layout; the caller vouches that it lies inside.
  Tensor with_layout(const Layout& layout) const;
  Tensor clone() const;            // a contiguous copy
  Tensor contiguous() const;       // itself when it is contiguous, else a copy
  Tensor to(DType dtype) const;    // itself when it has the dtype, else a converted copy
  Tensor to(Device device) const;  // itself when it is there, else a contiguous copy

  explicit operator bool() const { return bool(storage_); }
  const Layout& layout() const { return layout_; }
  const Shape& shape() const { return layout_.shape; }
  const Strides& strides() const { return layout_.strides; }
  int rank() const { return layout_.shape.rank(); }
  int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  bool is_contiguous() const { return contiguous_; }
  Storage& storage() const { return *storage_; }
  bool shares_storage(const Tensor& other) const { return storage_ == other.storage_; }

  /// The first element. T must be the dtype; kernels know it from the dispatch table.
  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(storage_->data()) + layout_.offset;
  }
  /// The only element; ShapeError otherwise.
  double item() const;
  Number number() const;  // the same, integers exact

 private:
  static Tensor from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype);

  Ref<Storage> storage_;
  int64_t numel_ = 0;
  DType dtype_ = DType::kFloat32;
  bool contiguous_ = true;
  Layout layout_;
};

}  // namespace tapegrad
