// Tensor: data without history. A typed, strided view of a TensorStorage. Kernels, optimizers and
// files use Tensor; models are written with Variable.
#pragma once

#include <initializer_list>
#include <span>

#include "core/base/dtype.h"
#include "core/base/number.h"
#include "core/base/shape.h"
#include "core/base/storage.h"

namespace tapegrad {

class Variable;

namespace detail {
/// False. For a static_assert that fails only if its template is used.
template <typename...>
inline constexpr bool kNever = false;
/// Fails to compile. Used in a noexcept(), which the compiler evaluates where a function is called,
/// so that the message is the first error. Tests of convertibility also report the message as an
/// error.
template <typename... V>
constexpr bool refuse_tensor() {
  static_assert(kNever<V...>,
                "type Variable instead of Tensor; x.value() is the Tensor of a Variable, and "
                "Variable(t) is a Variable of a Tensor");
  return true;
}
/// A method of Variable that Tensor does not have. The deduced return type makes the message the
/// first error of the compiler.
struct VariableMethod {
  template <typename... X>
  auto operator()(const X&...) const {
    static_assert(refuse_tensor<X...>());
  }
  template <typename... X>
  auto operator()(std::initializer_list<int64_t>, const X&...) const {
    static_assert(refuse_tensor<X...>());
  }
};
}  // namespace detail

class Tensor {
 public:
  Tensor() {}  // an empty handle without storage
  template <std::same_as<Variable> V>
  Tensor(const V&) {
    static_assert(detail::refuse_tensor<V>());
  }
  template <std::same_as<Variable> V>
  auto operator=(const V&) {
    static_assert(detail::refuse_tensor<V>());
  }
  template <typename V>
  auto operator[](const V&) const {
    static_assert(detail::refuse_tensor<V>());
  }
  template <std::integral V>
  auto size(V) const {
    static_assert(detail::refuse_tensor<V>());
  }
  static constexpr detail::VariableMethod abs{}, add{}, add_{}, argmax{}, backward{}, clamp{},
      detach{}, dim{}, div{}, div_{}, exp{}, fill_{}, flatten{}, grad{}, lerp{}, lerp_{}, log{},
      matmul{}, max{}, mean{}, min{}, mm{}, mul{}, mul_{}, norm{}, permute{}, pow{}, relu{},
      requires_grad_{}, reshape{}, select{}, sigmoid{}, slice{}, softmax{}, sqrt{}, squeeze{},
      sub{}, sub_{}, sum{}, tanh{}, transpose{}, unsqueeze{}, view{}, zero_{};
  /// Copies the values of a Tensor or Variable, which broadcast, into this tensor:
  /// `model.state_dict()["fc.bias"].copy_(x)` changes the model.
  template <typename X>
  const Tensor& copy_(const X& values) const;

  static Tensor empty(const Shape& shape, DType dtype, Device device = cpu);
  static Tensor full(const Shape& shape, Number value, DType dtype, Device device = cpu);
  /// Copies the values to the CPU. Throws ShapeError if their number does not match the shape.
  template <typename T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    static_assert(kIsElement<T>, "Tensor::from: no dtype has elements of this type");
    return from_bytes(std::as_bytes(values), shape, kDTypeOf<T>);
  }
  /// Wraps memory of the caller without copying. `release` is called when the last tensor that uses
  /// the memory is destroyed.
  static Tensor wrap(void* data, const Shape& shape, DType dtype, Device device = cpu,
                     std::function<void()> release = {});

  /// Allocates an uninitialised tensor of the same dtype and device.
  Tensor empty_like(const Shape& shape) const { return empty(shape, dtype_, device()); }
  Tensor empty_like() const;  // of the same shape, too

  /// Views the same storage through another layout. The caller guarantees that the layout is in
  /// bounds.
  Tensor with_layout(const StridedLayout& layout) const;
  Tensor clone() const;            // a contiguous copy
  Tensor contiguous() const;       // returns *this if contiguous, else a copy
  Tensor to(DType dtype) const;    // returns *this if the dtype matches, else a converted copy
  Tensor to(Device device) const;  // returns *this if the device matches, else a contiguous copy

  explicit operator bool() const { return bool(storage_); }
  const StridedLayout& layout() const { return layout_; }
  const Shape& shape() const { return layout_.shape; }
  const Shape& sizes() const { return layout_.shape; }
  const Strides& strides() const { return layout_.strides; }
  int rank() const { return layout_.shape.rank(); }
  int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  /// Throws ArgumentError for a tensor without a value, as do all functions of this class that read
  /// the value.
  Device device() const { return storage().device(); }
  bool is_contiguous() const { return contiguous_; }
  TensorStorage& storage() const {
    if (!storage_) [[unlikely]]
      fail_empty();
    return *storage_;
  }
  bool shares_storage(const Tensor& other) const { return storage_ == other.storage_; }
  /// Returns whether this tensor is the only owner of the storage and covers all of it.
  bool is_sole_owner() const {
    return storage_ && storage_->has_one_owner() && contiguous_ &&
           size_t(numel_ * size_of(dtype_)) == storage_->bytes();
  }

  /// Returns a pointer to the first element. T must match the dtype; kernels get T from the
  /// dispatch table.
  template <typename T>
  [[gnu::always_inline]] T* data() const {
    return reinterpret_cast<T*>(storage().data()) + layout_.offset;
  }
  /// Returns the only element. Throws ShapeError if there is not exactly one.
  double item() const;
  Number number() const;  // like item(), but exact for integers
  template <typename T>
  T item() const {
    return number().to<T>();
  }
  /// Returns a contiguous tensor of the values on the CPU, for a function that reads them there.
  Tensor on_host(DType dtype, const char* function) const;

  /// Returns a tensor with the values and the memory of this one, which has no memory afterwards
  /// (TensorStorage::hand_over()). For captured steps.
  Tensor hand_over() const;
  /// Sets the offset of the first element. For kernels that are called for parts of their operands.
  void set_offset(int64_t offset) { layout_.offset = offset; }

 private:
  [[noreturn, gnu::cold]] static void fail_empty();
  static Tensor from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype);

  RefPtr<TensorStorage> storage_;
  int64_t numel_ = 0;
  DType dtype_ = DType::kFloat32;
  bool contiguous_ = true;
  StridedLayout layout_;
};

}  // namespace tapegrad
