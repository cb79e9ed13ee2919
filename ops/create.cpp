#include "ops/create.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/catalog.h"
#include "ops/internal/catalog_arguments.h"
#include "ops/internal/operands.h"

namespace tapegrad {

namespace kernels {
constinit decltype(arange) arange{"arange"};
constinit decltype(linspace) linspace{"linspace"};
}  // namespace kernels

namespace {

Device device_of(const TensorOptions& options) {
  const Device device = options.device ? *options.device : default_device();
  if (device.type == DeviceType::kCpu && device != cpu)
    fail<DeviceError>("device: ", device, ": ", why_unavailable(device));
  return device;
}

/// Allocates uninitialised memory as described by the options. Throws AutogradError before
/// allocating if the dtype cannot require a gradient.
Variable make(const Shape& shape, DType standard, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(standard);
  if (options.requires_grad && !is_float(dtype))
    fail<AutogradError>("requires_grad: only floats have gradients, not ", name(dtype));
  Variable y(Tensor::empty(shape, dtype, device_of(options)));
  if (options.requires_grad) y.requires_grad_();
  return y;
}

Variable make_full(const Shape& shape, Number value, DType standard, const TensorOptions& options) {
  detail::check_fits("full", value, options.dtype.value_or(standard));
  Variable y = make(shape, standard, options);
  kernels::fill(y.writable(), value);
  return y;
}

DType dtype_of(const Number& number) {
  return number.kind() == f64 ? default_dtype() : number.kind();
}

/// Throws ArgumentError for a value that the integer dtype cannot hold, and for NaN.
template <typename T>
void require_fit(const std::vector<T>& values, DType dtype) {
  using Wide = std::conditional_t<sizeof(T) == 2 && !std::integral<T>, float, T>;  // of float16
  for (const T value : values) detail::check_fits("tensor", Number(Wide(value)), dtype);
}

/// Copies the values to a CPU tensor of type `Stored`, which has their representation.
template <typename Stored, typename T>
Variable from_values(const std::vector<T>& values, const Shape& shape, DType standard,
                     const TensorOptions& options) {
  if (int64_t(values.size()) != numel(shape))
    fail<ShapeError>("tensor: ", values.size(), " values for shape ", shape);
  Tensor read;
  if constexpr (std::same_as<T, Stored> && !std::same_as<T, bool>) {
    read = Tensor::from<T>(std::span<const T>(values), shape);
  } else {
    const auto stored = std::make_unique<Stored[]>(values.size());
    std::copy(values.begin(), values.end(), stored.get());
    read = Tensor::from<Stored>(std::span<const Stored>(stored.get(), values.size()), shape);
  }
  const DType dtype = options.dtype.value_or(standard);
  if (is_integer(dtype) && dtype != read.dtype()) require_fit(values, dtype);
  if (is_integer(dtype) && dtype != read.dtype()) require_fit(values, dtype);
  if (options.requires_grad && !is_float(dtype))
    fail<AutogradError>("requires_grad: only floats have gradients, not ", name(dtype));
  Variable y(read.to(dtype).to(device_of(options)));
  if (options.requires_grad) y.requires_grad_();
  return y;
}

/// Returns the number of elements of start, start + step, ... before end.
int64_t count_of(Number start, Number end, Number step) {
  const auto refuse = [&](const char* why) {
    fail<ArgumentError>("arange: ", why, ": from ", start, " to ", end, " by ", step);
  };
  if (start.kind() == f64 || end.kind() == f64 || step.kind() == f64) {
    const double from = start.real(), to = end.real(), by = step.real();
    if (!std::isfinite(from) || !std::isfinite(to) || !std::isfinite(by)) refuse("not finite");
    if (by == 0) refuse("step is 0");
    if (from != to && (from < to) != (by > 0)) refuse("the step leads away from the end");
    const double count = std::ceil((to - from) / by);
    if (!(count < 0x1p62)) fail<ShapeError>("arange: too many elements: ", count);
    return int64_t(count);
  }
  const int64_t from = start.to<int64_t>(), to = end.to<int64_t>(), by = step.to<int64_t>();
  if (by == 0) refuse("step is 0");
  if (from == to) return 0;
  if ((from < to) != (by > 0)) refuse("the step leads away from the end");
  // Unsigned, because distances may be up to 2^64.
  const uint64_t distance = by > 0 ? uint64_t(to) - uint64_t(from) : uint64_t(from) - uint64_t(to);
  const uint64_t stride = by > 0 ? uint64_t(by) : 0 - uint64_t(by);
  const uint64_t count = (distance - 1) / stride + 1;
  if (count > uint64_t(INT64_MAX)) fail<ShapeError>("arange: too many elements: ", count);
  return int64_t(count);
}

/// Returns the dtype of a tensor of memory of the caller. Throws DTypeError if the elements have
/// another dtype, or none is known.
DType dtype_of_blob(std::optional<DType> elements, std::optional<DType> dtype) {
  if (!elements && !dtype)
    fail<DTypeError>("from_blob: a void* has no dtype; give one: from_blob(data, {2, 3}, f32)");
  if (elements && dtype.value_or(*elements) != *elements)
    fail<DTypeError>("from_blob: the memory holds ", name(*elements), ", not ", name(*dtype),
                     "; read it as it is, and convert it with .to()");
  return dtype ? *dtype : *elements;
}

}  // namespace

template <typename T>
Variable tensor(const std::vector<T>& values, const Shape& shape, TensorOptions options) {
  const ErrorLine line(options.where);
  if constexpr (std::same_as<T, double>)
    return from_values<double>(values, shape, default_dtype(), options);
  else if constexpr (std::same_as<T, int> || std::same_as<T, long> || std::same_as<T, long long>)
    return from_values<int64_t>(values, shape, i64, options);
  else
    return from_values<T>(values, shape, kDTypeOf<T>, options);
}

template Variable tensor(const std::vector<float16>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<bfloat16>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<float>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<double>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<int8_t>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<int16_t>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<int>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<long>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<long long>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<uint8_t>&, const Shape&, TensorOptions);
template Variable tensor(const std::vector<bool>&, const Shape&, TensorOptions);

Variable detail::blob(void* data, const Shape& shape, std::optional<DType> elements,
                      const TensorOptions& options, std::function<void()> release) {
  const ErrorLine line(options.where);
  if (options.device && *options.device != cpu)
    fail<ArgumentError>("from_blob: wraps memory of the CPU; write from_blob(data, shape).to(",
                        *options.device, ")");
  const DType dtype = dtype_of_blob(elements, options.dtype);
  if (data == nullptr && numel(shape) > 0)
    fail<ArgumentError>("from_blob: a null pointer for ", shape);
  Variable x(Tensor::wrap(data, shape, dtype, cpu, std::move(release)));
  return options.requires_grad ? x.requires_grad_() : x;
}

Variable detail::strided_blob(void* data, const Shape& shape, const Strides& strides,
                              std::optional<DType> elements, std::optional<DType> dtype,
                              Where where) {
  const ErrorLine line(where);
  if (shape.rank() != strides.rank())
    fail<ArgumentError>("from_blob: ", strides.rank(), " strides for shape ", shape);
  int64_t last = 0;  // the largest position of an element
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t span = 0;
    if (strides[i] < 0) fail<ArgumentError>("from_blob: a negative stride: ", strides);
    if (__builtin_mul_overflow(std::max<int64_t>(shape[i] - 1, 0), strides[i], &span) ||
        __builtin_add_overflow(last, span, &last) || last > INT64_MAX / 16)
      fail<ShapeError>("from_blob: ", shape, " with strides ", strides, " is too large");
  }
  const Variable all = blob(data, {numel(shape) == 0 ? 0 : last + 1}, elements,
                            {.dtype = dtype_of_blob(elements, dtype), .where = where});
  return Variable(all.value().with_layout({shape, strides, 0}));
}

Variable scalar(Number value, TensorOptions options) {
  const ErrorLine line(options.where);
  return make_full({}, value, dtype_of(value), options);
}

Variable zeros(const Shape& shape, TensorOptions options) {
  const ErrorLine line(options.where);
  return make_full(shape, 0, default_dtype(), options);
}
Variable ones(const Shape& shape, TensorOptions options) {
  const ErrorLine line(options.where);
  return make_full(shape, 1, default_dtype(), options);
}
Variable full(const Shape& shape, Number value, TensorOptions options) {
  const ErrorLine line(options.where);
  return make_full(shape, value, dtype_of(value), options);
}
Variable empty(const Shape& shape, TensorOptions options) {
  const ErrorLine line(options.where);
  return make(shape, default_dtype(), options);
}

Variable zeros_like(const Variable& x, TensorOptions options) { return full_like(x, 0, options); }
Variable ones_like(const Variable& x, TensorOptions options) { return full_like(x, 1, options); }
Variable full_like(const Variable& x, Number value, TensorOptions options) {
  const ErrorLine line(options.where);
  if (!options.device) options.device = x.device();
  return make_full(x.shape(), value, x.dtype(), options);
}
Variable empty_like(const Variable& x, TensorOptions options) {
  const ErrorLine line(options.where);
  if (!options.device) options.device = x.device();
  return make(x.shape(), x.dtype(), options);
}

Variable arange(Number end, TensorOptions options) {
  const ErrorLine line(options.where);
  return arange(0, end, 1, options);
}

Variable arange(Number start, Number end, Number step, TensorOptions options) {
  const ErrorLine line(options.where);
  const bool whole = start.kind() != f64 && end.kind() != f64 && step.kind() != f64;
  const int64_t count = count_of(start, end, step);
  Variable y = make({count}, whole ? i64 : default_dtype(), options);
  kernels::arange(y.writable(), start, step);
  return y;
}

Variable linspace(double start, double end, int64_t steps, TensorOptions options) {
  const ErrorLine line(options.where);
  if (steps < 0) fail<ArgumentError>("linspace: a negative number of steps: ", steps);
  Variable y = make({steps}, default_dtype(), options);
  kernels::linspace(y.writable(), start, end);
  return y;
}

Variable eye(int64_t rows, std::optional<int64_t> columns, TensorOptions options) {
  const ErrorLine line(options.where);
  const int64_t width = columns.value_or(rows);
  Variable y = make_full({rows, width}, 0, default_dtype(), options);
  if (y.numel() == 0) return y;  // no rows or no columns
  Tensor diagonal = y.value().with_layout({{std::min(rows, width)}, {width + 1}, 0});
  kernels::fill(diagonal, 1);
  return y;
}

void catalog_create(Catalog& catalog) {
  using detail::options_of;
  using A = const Arguments&;
  const OpTraits constant{.max_order = 0};
  catalog.add(
      "tensor(data: ints, dtype: dtype = none)", "the values",
      [](A a) { return tensor(a.integers("data"), options_of(a)); }, constant);
  catalog.add(
      "scalar(value: number, dtype: dtype = none)", "one number, without dimensions",
      [](A a) { return scalar(a.number("value"), options_of(a)); }, constant);
  catalog.add(
      "zeros(size: ints, dtype: dtype = none)", "0",
      [](A a) { return zeros(a.dims("size"), options_of(a)); }, constant);
  catalog.add(
      "ones(size: ints, dtype: dtype = none)", "1",
      [](A a) { return ones(a.dims("size"), options_of(a)); }, constant);
  catalog.add(
      "full(size: ints, fill_value: number, dtype: dtype = none)", "fill_value",
      [](A a) { return full(a.dims("size"), a.number("fill_value"), options_of(a)); }, constant);
  catalog.add(
      "empty(size: ints, dtype: dtype = none)", "uninitialised",
      [](A a) { return empty(a.dims("size"), options_of(a)); }, constant);
  catalog.add(
      "zeros_like(input)", "0", [](A a) { return zeros_like(a[0]); }, constant);
  catalog.add(
      "ones_like(input)", "1", [](A a) { return ones_like(a[0]); }, constant);
  catalog.add(
      "full_like(input, fill_value: number)", "fill_value",
      [](A a) { return full_like(a[0], a.number("fill_value")); }, constant);
  catalog.add(
      "empty_like(input)", "uninitialised", [](A a) { return empty_like(a[0]); }, constant);
  catalog.add(
      "arange(start: number, end: number, step: number = 1, dtype: dtype = none)",
      "start, start + step, ... before end",
      [](A a) {
        return arange(a.number("start"), a.number("end"), a.number("step"), options_of(a));
      },
      constant);
  catalog.add(
      "linspace(start: float, end: float, steps: int, dtype: dtype = none)",
      "start + i * (end - start) / (steps - 1)",
      [](A a) {
        return linspace(a.real("start"), a.real("end"), a.integer("steps"), options_of(a));
      },
      constant);
  catalog.add(
      "eye(n: int, m: int = none, dtype: dtype = none)", "1 where i = j, else 0",
      [](A a) {
        std::optional<int64_t> columns;
        if (a.has("m")) columns = a.integer("m");
        return eye(a.integer("n"), columns, options_of(a));
      },
      constant);
}

Variable tensor(NestedValues values, TensorOptions options) { return values.make(options); }
Variable arange(Number start, Number end, TensorOptions options) {
  return arange(start, end, 1, options);
}
Variable logspace(double start, double end, int64_t steps, TensorOptions options) {
  return logspace(start, end, steps, 10.0, options);
}
Variable eye(int64_t n, TensorOptions options) { return eye(n, n, options); }
}  // namespace tapegrad
