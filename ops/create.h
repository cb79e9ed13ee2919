// Functions that create tensors. The default dtype is default_dtype() (float32), or int64 where the
// values are integers; the default device is default_device().
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

namespace detail {
/// An option that must be named: {.dtype = f64}. libtorch's call gives a compile error that
/// explains this.
template <typename T>
struct Option : std::optional<T> {
  using std::optional<T>::optional;
  /// The name of a device.
  template <std::convertible_to<std::string_view> Name>
  requires std::same_as<T, Device> Option(const Name& name, Where where = Where::current())
      : std::optional<T>(Device::parse(name, where)) {}
  template <typename V>
  auto operator()(const V&) const {
    static_assert(kNever<V>,
                  "TensorOptions().dtype(f64): type {.dtype = f64}, {.requires_grad = true}, or "
                  "torch::TensorOptions().dtype(f64)");
  }
};
}  // namespace detail

struct TensorOptions {
  detail::Option<DType> dtype = {};
  detail::Option<Device> device = {};
  bool requires_grad = false;
  Where where = Where::current();  // line of the call, for errors
};

namespace torch {
enum Layout { kStrided };  // the only layout
/// libtorch's chained options: torch::dtype(torch::kFloat64).requires_grad(true), x.options().
struct TensorOptions : ::tapegrad::TensorOptions {
  using Plain = ::tapegrad::TensorOptions;
  TensorOptions() = default;
  TensorOptions(DType type) { dtype(type); }
  TensorOptions(Device on) { device(on); }
  TensorOptions& dtype(DType type) { return Plain::dtype = type, *this; }
  TensorOptions& device(Device on) { return Plain::device = on, *this; }
  TensorOptions& requires_grad(bool on = true) { return Plain::requires_grad = on, *this; }
  template <std::convertible_to<Device> D>
  TensorOptions& device(const D& on, int index) {
    Device of = on;
    of.index = decltype(of.index)(index);
    return device(of);
  }
  TensorOptions& layout(Layout) { return *this; }
};
}  // namespace torch

/// A dtype or a device in place of the options: zeros({2}, f64), randn({2}, x.device()).
template <typename T>
concept OneOption = std::same_as<T, DType> || std::same_as<T, Device>;

namespace detail {
[[noreturn, gnu::cold]] void fail_ragged(size_t expected, size_t found);
/// The dtype of the memory of from_blob(); none for void*.
template <typename T>
constexpr std::optional<DType> elements_of() {
  static_assert(kIsElement<T> || std::is_void_v<T>,
                "from_blob: no dtype has elements of this type");
  if constexpr (!std::is_void_v<T>) return kDTypeOf<T>;
  return {};
}
Variable blob(void* data, const Shape& shape, std::optional<DType> elements,
              const TensorOptions& options, std::function<void()> release = {});
Variable strided_blob(void* data, const Shape& shape, const Strides& strides,
                      std::optional<DType> elements, std::optional<DType> dtype, Where where);
inline TensorOptions only(DType dtype) { return {.dtype = dtype}; }
inline TensorOptions only(Device device) { return {.device = device}; }
inline TensorOptions both(DType dtype, Device device) { return {.dtype = dtype, .device = device}; }
inline TensorOptions both(Device device, DType dtype) { return both(dtype, device); }
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
/// Creates a tensor from nested values: tensor(3.0) has rank 0, tensor({{1, 2}, {3, 4}}) has shape
/// [2, 2]. Throws ShapeError if lists of one level differ in length.
Variable tensor(NestedValues values, TensorOptions options = {});
template <OneOption O>
Variable tensor(NestedValues values, O option) {
  return values.make(detail::only(option));
}
template <typename T, OneOption O>
Variable tensor(const std::vector<T>& values, O option) {
  return tensor(values, detail::only(option));
}
template <typename T, size_t n>
Variable tensor(const std::array<T, n>& values, TensorOptions options = {}) {
  return tensor(std::vector<T>(values.begin(), values.end()), options);
}
/// Overload for an array, `int m[2][3]`; numbers in braces are NestedValues.
template <typename A>
requires(std::is_arithmetic_v<std::remove_all_extents_t<A>>&& std::is_array_v<A>) Variable
    tensor(const A& values, TensorOptions options = {}) {
  using T = std::remove_all_extents_t<A>;
  const T* const first = reinterpret_cast<const T*>(&values);
  const std::vector<T> all(first, first + sizeof(A) / sizeof(T));
  const Shape shape = []<size_t... dim>(std::index_sequence<dim...>) {
    return Shape{int64_t(std::extent_v<A, dim>)...};
  }
  (std::make_index_sequence<std::rank_v<A>>());
  return reshape(tensor(all, options), shape);
}
template <typename T>
Variable tensor(std::span<T> values, TensorOptions options = {}) {
  return tensor(std::vector<std::remove_const_t<T>>(values.begin(), values.end()), options);
}
/// Overload for other integer types, such as size_t, which become int64.
template <std::integral T>
requires(!kIsElement<T> && !std::same_as<T, long long>) Variable
    tensor(const std::vector<T>& values, TensorOptions options = {}) {
  std::vector<int64_t> whole;
  for (const T value : values) whole.push_back(Number(value).to<int64_t>());
  return tensor(whole, options);
}
/// Overload for rows, which must have equal length.
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
template <typename T, size_t rows, size_t columns>
Variable tensor(const std::array<std::array<T, columns>, rows>& values,
                TensorOptions options = {}) {
  std::vector<std::vector<T>> lists;
  for (const std::array<T, columns>& row : values) lists.emplace_back(row.begin(), row.end());
  return tensor(lists, options);
}
/// Creates a tensor of rank 0.
Variable scalar(Number value, TensorOptions options = {});

/// Wraps memory of the caller without copying; the tensor and the caller see each other's writes.
/// The memory must outlive every view of the result.
template <typename T>
Variable from_blob(T* data, const Shape& shape, Where where = Where::current()) {
  return detail::blob(data, shape, detail::elements_of<T>(), {.where = where});
}
/// Overload with a function that is called when the memory is no longer used.
template <typename T, std::invocable F>
Variable from_blob(T* data, const Shape& shape, F release, Where where = Where::current()) {
  return detail::blob(data, shape, detail::elements_of<T>(), {.where = where}, std::move(release));
}
/// Overload with options: from_blob(data, {2, 3}, {.dtype = f64}), or libtorch's
/// torch::dtype(torch::kInt). Throws DTypeError unless the dtype is that of the elements, or the
/// elements are void, and ArgumentError if the device is not the CPU.
template <typename T>
Variable from_blob(T* data, const Shape& shape, const TensorOptions& options) {
  return detail::blob(data, shape, detail::elements_of<T>(), options);
}
/// libtorch's form with a dtype. Throws like the overload with options.
template <typename T, std::same_as<DType> D>
Variable from_blob(T* data, const Shape& shape, D dtype, Where where = Where::current()) {
  return detail::blob(data, shape, detail::elements_of<T>(), {.dtype = dtype, .where = where});
}

/// Overload with strides, in elements. Throws ArgumentError for a negative stride.
template <typename T>
Variable from_blob(T* data, const Shape& shape, const Strides& strides,
                   Where where = Where::current()) {
  return detail::strided_blob(data, shape, strides, detail::elements_of<T>(), {}, where);
}
template <typename T, std::same_as<DType> D>
Variable from_blob(T* data, const Shape& shape, const Strides& strides, D dtype,
                   Where where = Where::current()) {
  return detail::strided_blob(data, shape, strides, detail::elements_of<T>(), dtype, where);
}

Variable zeros(const Shape& shape, TensorOptions options = {});
Variable ones(const Shape& shape, TensorOptions options = {});
Variable full(const Shape& shape, Number value, TensorOptions options = {});
Variable empty(const Shape& shape, TensorOptions options = {});  // uninitialised
// Overloads with a dtype or a device in place of the options.
template <OneOption O>
Variable zeros(const Shape& shape, O option) {
  return zeros(shape, detail::only(option));
}
template <OneOption O>
Variable ones(const Shape& shape, O option) {
  return ones(shape, detail::only(option));
}
template <OneOption O>
Variable empty(const Shape& shape, O option) {
  return empty(shape, detail::only(option));
}
template <OneOption O>
Variable full(const Shape& shape, Number value, O option) {
  return full(shape, value, detail::only(option));
}
/// Preferred to std::empty(), which argument-dependent lookup finds for a std::vector in a call
/// without `tapegrad::`.
template <std::same_as<std::vector<int64_t>> V>
Variable empty(const V& shape) {
  return empty(Shape(shape));
}
/// A dtype and a device, in any order: zeros({2}, gpu, f64).
template <OneOption A, OneOption B>
Variable zeros(const Shape& shape, A one, B other) {
  return zeros(shape, detail::both(one, other));
}
template <OneOption A, OneOption B>
Variable ones(const Shape& shape, A one, B other) {
  return ones(shape, detail::both(one, other));
}
template <OneOption A, OneOption B>
Variable empty(const Shape& shape, A one, B other) {
  return empty(shape, detail::both(one, other));
}
template <OneOption A, OneOption B>
Variable full(const Shape& shape, Number value, A one, B other) {
  return full(shape, value, detail::both(one, other));
}
// Overloads with sizes without braces: zeros(2, 3).
template <std::integral... N>
requires(sizeof...(N) > 1) Variable zeros(N... sizes) { return zeros(Dims::of(sizes...)); }
template <std::integral... N>
requires(sizeof...(N) > 1) Variable ones(N... sizes) { return ones(Dims::of(sizes...)); }
template <std::integral... N>
requires(sizeof...(N) > 1) Variable empty(N... sizes) { return empty(Dims::of(sizes...)); }

// Create tensors with the shape of x, and with its dtype and device unless the options set others.
Variable zeros_like(const Variable& x, TensorOptions options = {});
Variable ones_like(const Variable& x, TensorOptions options = {});
Variable full_like(const Variable& x, Number value, TensorOptions options = {});
Variable empty_like(const Variable& x, TensorOptions options = {});
template <OneOption O>
Variable zeros_like(const Variable& x, O option) {
  return zeros_like(x, detail::only(option));
}
template <OneOption O>
Variable ones_like(const Variable& x, O option) {
  return ones_like(x, detail::only(option));
}
template <OneOption O>
Variable full_like(const Variable& x, Number value, O option) {
  return full_like(x, value, detail::only(option));
}

/// Returns 0, 1, ... up to but excluding end; or start, start + step, ... up to but excluding end.
/// Integer arguments give int64.
Variable arange(Number end, TensorOptions options = {});
Variable arange(Number start, Number end, Number step = 1, TensorOptions options = {});
/// Returns `steps` evenly spaced numbers from start to end, both included.
Variable linspace(double start, double end, int64_t steps, TensorOptions options = {});
Variable arange(Number start, Number end, TensorOptions options);
template <OneOption O>
Variable arange(Number end, O option) {
  return arange(end, detail::only(option));
}
template <OneOption O>
Variable linspace(double start, double end, int64_t steps, O option) {
  return linspace(start, end, steps, detail::only(option));
}
template <std::same_as<DType> D>
Variable arange(Number start, Number end, D dtype) {
  return arange(start, end, 1, TensorOptions{.dtype = dtype});
}
template <OneOption O>
Variable arange(Number start, Number end, Number step, O option) {
  return arange(start, end, step, detail::only(option));
}
/// Returns `steps` numbers base^start ... base^end, whose logarithms are evenly spaced.
Variable logspace(double start, double end, int64_t steps, double base = 10.0,
                  TensorOptions options = {});
Variable logspace(double start, double end, int64_t steps, TensorOptions options);
/// Returns the identity matrix with the given number of rows, or a rectangular matrix with ones on
/// its diagonal.
Variable eye(int64_t rows, std::optional<int64_t> columns, TensorOptions options);
Variable eye(int64_t n, TensorOptions options = {});
template <std::integral N>
Variable eye(int64_t rows, N columns) {
  return eye(rows, std::optional<int64_t>(columns), {});
}
template <OneOption O>
Variable eye(int64_t n, O option) {
  return eye(n, n, detail::only(option));
}

namespace kernels {
extern Kernel<void(Tensor& y, Number start, Number step)> arange;
extern Kernel<void(Tensor& y, double start, double end)> linspace;
}  // namespace kernels

}  // namespace tapegrad
