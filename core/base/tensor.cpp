#include "core/base/tensor.h"

#include <cstring>

#include "core/base/error.h"
#include "core/base/internal/call_recorder.h"
#include "core/base/internal/step_observer.h"

namespace tapegrad {
namespace {

int64_t byte_size(int64_t numel, const Shape& shape, DType dtype) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(numel, size_of(dtype), &bytes)) [[unlikely]]
    fail<ShapeError>("empty: too many bytes: ", shape, " of ", name(dtype));
  return bytes;
}

/// Written in place to avoid copying a temporary.
void set_contiguous(StridedLayout& layout, const Shape& shape) {
  layout.shape = shape;
  layout.strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    layout.strides[i] = step;
    step *= shape[i];
  }
}

}  // namespace

void Tensor::fail_empty() { fail<ArgumentError>("tensor: empty; it was never given a value"); }

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor tensor;
  tensor.numel_ = tapegrad::numel(shape);
  tensor.storage_ = TensorStorage::create(size_t(byte_size(tensor.numel_, shape, dtype)), device);
  tensor.dtype_ = dtype;
  set_contiguous(tensor.layout_, shape);
  return tensor;
}

Tensor Tensor::empty_like() const {
  Tensor tensor;
  tensor.numel_ = numel_;  // checked when *this was made
  tensor.storage_ = TensorStorage::create(size_t(byte_size(numel_, shape(), dtype_)), device());
  tensor.dtype_ = dtype_;
  set_contiguous(tensor.layout_, shape());
  return tensor;
}

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype) {
  if (CallRecorder* recorder = detail::context.recorder) [[unlikely]]
    if (bytes.size() == size_t(byte_size(tapegrad::numel(shape), shape, dtype)))
      if (Tensor copied = recorder->copy_from_host(bytes, shape, dtype)) return copied;
  Tensor tensor = empty(shape, dtype);
  if (bytes.size() != tensor.storage_->bytes())
    fail<ShapeError>("from: ", bytes.size() / size_of(dtype), " values for shape ", shape);
  if (!bytes.empty()) std::memcpy(tensor.storage_->data(), bytes.data(), bytes.size());
  return tensor;
}

Tensor Tensor::hand_over() const {
  Tensor values = *this;
  values.storage_ = storage().hand_over();
  return values;
}

Tensor Tensor::with_layout(const StridedLayout& layout) const {
  storage();  // an empty tensor is an error
  Tensor view;
  view.storage_ = storage_;
  view.numel_ = tapegrad::numel(layout.shape);
  view.dtype_ = dtype_;
  view.contiguous_ = tapegrad::is_contiguous(layout);
  view.layout_ = layout;
  return view;
}

Tensor Tensor::contiguous() const { return contiguous_ ? *this : clone(); }

Tensor Tensor::wrap(void* data, const Shape& shape, DType dtype, Device device,
                    std::function<void()> release) {
  Tensor tensor;
  tensor.numel_ = tapegrad::numel(shape);
  if (data == nullptr && tensor.numel_ > 0) fail<ArgumentError>("wrap: no data for ", shape);
  tensor.storage_ = TensorStorage::wrap(data, size_t(byte_size(tensor.numel_, shape, dtype)),
                                        device, std::move(release));
  tensor.dtype_ = dtype;
  tensor.layout_.shape = shape;
  tensor.layout_.strides = contiguous_strides(shape);
  return tensor;
}

Number Tensor::number() const {
  if (numel_ != 1) fail<ShapeError>("item: one element wanted, shape is ", shape());
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->on_read(*this, "item()");
  const Tensor here = to(cpu);
  return with_type(dtype_, [&]<typename T>(TypeTag<T>) -> Number {
    return static_cast<Compute<T>>(*here.data<T>());
  });
}

Tensor Tensor::on_host(DType dtype, const char* function) const {
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->on_read(*this, function);
  return to(cpu).to(dtype).contiguous();
}

double Tensor::item() const { return number().real(); }

}  // namespace tapegrad
