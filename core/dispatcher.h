// The dispatcher: a kernel is a table of function pointers, device x dtype.
//
//   extern Kernel<void(const Tensor& x, int dim, Tensor& y)> softmax;      // ops/softmax.h
//   constinit Kernel<void(const Tensor&, int, Tensor&)> softmax{"softmax"};  // ops/softmax.cpp
//
//   set_kernel(kernels::softmax, DeviceType::kCpu, kFloatTypes,    // backends/cpu/softmax.cpp
//              []<typename T>(Type<T>, const Tensor& x, int dim, Tensor& y) { ... });
//
// A backend's kernels are registered by plain calls when its first empty slot is met: nothing runs
// before main, and nothing is lost from a static library.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "core/tensor.h"

namespace tapegrad {

/// What a Kernel is without its signature.
class KernelTable {
 public:
  using AnyFunction = void (*)();

  constexpr explicit KernelTable(std::string_view name) : name_(name) {}
  std::string_view name() const { return name_; }

  void set(DeviceType device, DType dtype, AnyFunction function) {
    slots_[int(device)][int(dtype)].store(function, std::memory_order_release);
  }
  bool has(DeviceType device, DType dtype) const {
    return slots_[int(device)][int(dtype)].load(std::memory_order_acquire) != nullptr;
  }
  std::string registered() const;  // "cpu {float32, float64}", or "none"

 protected:
  AnyFunction find(DeviceType device, DType dtype) const {
    AnyFunction function = slots_[int(device)][int(dtype)].load(std::memory_order_acquire);
    return function != nullptr ? function : load_backend_and_find(device, dtype);
  }

 private:
  [[gnu::cold, gnu::noinline]] AnyFunction load_backend_and_find(DeviceType, DType) const;

  std::string_view name_;
  std::array<std::array<std::atomic<AnyFunction>, kDTypeCount>, kDeviceTypeCount> slots_{};
};

template <typename Signature>
class Kernel;

/// The first argument, a tensor, chooses the slot.
template <typename First, typename... Rest>
class Kernel<void(First, Rest...)> : public KernelTable {
 public:
  using Function = void (*)(First, Rest...);
  using KernelTable::KernelTable;

  void operator()(First first, Rest... rest) const {
    reinterpret_cast<Function>(find(first.device().type, first.dtype()))(first, rest...);
  }

  /// The function in a slot, for the few callers whose first argument does not choose the device.
  Function at(DeviceType device, DType dtype) const {
    return reinterpret_cast<Function>(find(device, dtype));
  }

  /// Fills one slot with a stateless callable that takes Type<T> first.
  template <typename T, typename F>
  void set_for(DeviceType device, F) {
    const Function function = [](First first, Rest... rest) { F{}(Type<T>{}, first, rest...); };
    set(device, kDTypeOf<T>, reinterpret_cast<AnyFunction>(function));
  }
};

/// Fills a slot for every type of the list.
template <typename Signature, typename... Ts, typename F>
void set_kernel(Kernel<Signature>& kernel, DeviceType device, TypeList<Ts...>, F function) {
  (kernel.template set_for<Ts>(device, function), ...);
}

/// Names the function that registers a backend's kernels; for devices from outside the library.
void set_backend_loader(DeviceType device, void (*loader)());

}  // namespace tapegrad
