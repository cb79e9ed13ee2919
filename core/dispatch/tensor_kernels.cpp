// The methods of Tensor that run kernels.
#include "core/base/context.h"
#include "core/base/error.h"
#include "core/dispatch/internal/hold_number.h"
#include "core/dispatch/kernels.h"

namespace tapegrad {

Tensor Tensor::full(const Shape& shape, Number value, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  if (tensor.numel_ == 1 && device.type == DeviceType::kCpu &&
      detail::context.recorder == nullptr) {  // `x * 2` needs no kernel
    with_type(dtype, [&]<typename T>(TypeTag<T>) { *tensor.data<T>() = value.to<T>(); });
    return tensor;
  }
  kernels::fill(tensor, value);
  return tensor;
}

Tensor detail::number_operand(Number value, DType dtype, Device device) {
  if (device.type != DeviceType::kCuda) return Tensor::full({}, value, dtype, device);
  Tensor tensor = Tensor::empty({}, dtype, device);
  kernels::hold_number(tensor, value);
  return tensor;
}

Tensor Tensor::clone() const {
  Tensor copy = empty_like(shape());
  kernels::copy(*this, copy);
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  storage();  // an empty tensor is an error
  if (dtype == dtype_) return *this;
  Tensor converted = empty(shape(), dtype, device());
  kernels::copy(*this, converted);
  return converted;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  if (device.type == DeviceType::kCpu && device != cpu)
    fail<DeviceError>("to: ", device, ": ", why_unavailable(device));
  const Tensor source = contiguous();
  Tensor moved = empty(shape(), dtype_, device);
  const Device accelerator = device.type == DeviceType::kCpu ? this->device() : device;
  kernels::transfer.at(accelerator.type, dtype_)(source, moved);
  return moved;
}

}  // namespace tapegrad
