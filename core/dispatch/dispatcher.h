// The dispatcher. A kernel is a table of function pointers, indexed by device and dtype.
//
//   extern Kernel<void(const Tensor& x, int dim, Tensor& y)> softmax;      // ops/softmax.h
//   constinit decltype(softmax) softmax{"softmax"};                        // ops/softmax.cpp
//
//   set_kernel(kernels::softmax, DeviceType::kCpu, kFloatTypes,    // backends/cpu/softmax.cpp
//              []<typename T>(TypeTag<T>, const Tensor& x, int dim, Tensor& y) { ... });
//
// A backend registers its kernels by plain function calls when one of its slots is first found
// empty. Nothing runs before main(), and a static library loses no kernels.
// core/dispatch/dispatch_log.h records which kernels ran.
//
// A slot may hold several implementations, which are tried in order
// (core/dispatch/implementations.h).
//
// Before a kernel runs, its operands are converted from packed layouts (core/base/storage.h) to
// row-major order, unless SlotTraits::takes_packed is set.
//
// While a step is recorded on the CPU, a call is passed to the recorder instead of the kernel
// (core/dispatch/recorded_call.h).
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/tensor.h"
#include "core/dispatch/recorded_call.h"
#include "core/dispatch/span.h"

namespace tapegrad {

/// Properties of the function in a slot.
struct SlotTraits {
  bool takes_packed = false;  // if false, the dispatcher unpacks packed operands before the call
  Parts parts = Parts::kWhole;
  /// Names of the implementations that the function tries, in order; empty if there is only one.
  /// The names are string literals.
  std::vector<std::string_view> implementations = {};
  /// Function of type bool(arguments of the kernel) that returns whether an implementation accepts
  /// the arguments. Set for a list of implementations without a fallback.
  void (*accepts)() = nullptr;
};

/// Properties of a kernel that do not depend on device and dtype.
struct KernelTraits {
  bool overwrites_first = false;  // the first operand may be overwritten, although it is const
};

/// The part of Kernel that does not depend on the signature.
class KernelTable {
 public:
  using AnyFunction = void (*)();

  constexpr explicit KernelTable(std::string_view name, KernelTraits traits = {})
      : name_(name), traits_(traits) {}
  std::string_view name() const { return name_; }
  bool overwrites_first() const { return traits_.overwrites_first; }

  void set(DeviceType device, DType dtype, AnyFunction function, const SlotTraits& traits = {});
  bool has(DeviceType device, DType dtype) const;
  std::string registered() const;  // "cpu {float32, float64}", or "none"

  Parts parts(DeviceType device, DType dtype) const { return parts_[int(device)][int(dtype)]; }

  static bool is_packed(const Tensor& x) { return x && x.storage().is_packed(); }
  template <typename T>
  static bool is_packed(const T&) {
    return false;
  }
  /// Unpacks the tensors among the arguments, before the kernel starts its threads.
  template <typename... Arguments>
  [[gnu::cold]] static void unpack(const Arguments&... arguments) {
    (unpack_one(arguments), ...);
  }

 protected:
  AnyFunction find(DeviceType device, DType dtype) const {
    AnyFunction function = slots_[int(device)][int(dtype)].load(std::memory_order_acquire);
    return function != nullptr ? function : find_registered(device, dtype);
  }

  bool takes_packed(DeviceType device, DType dtype) const {
    return takes_packed_[int(device)][int(dtype)];
  }
  AnyFunction accepts_function(DeviceType device, DType dtype) const {
    return accepts_[int(device)][int(dtype)];
  }

  /// Returns the bytes of the elements that a kernel reads; an element of an expanded tensor counts
  /// once. An argument that holds tensors may provide bytes().
  static int64_t bytes_of(const Tensor& x);
  template <typename T>
  static int64_t bytes_of(const T& argument) {
    if constexpr (requires { argument.bytes(); })
      return argument.bytes();
    else
      return 0;
  }

 private:
  template <typename T>
  using PerSlot = T[kDeviceTypeCount][kDTypeCount];

  /// Loads the backend if necessary and fills the slot. While dispatches are logged, slots stay
  /// empty, so that a log sees every call and a dispatch without a log pays nothing.
  [[gnu::cold, gnu::noinline]] AnyFunction find_registered(DeviceType, DType) const;

  static void unpack_one(const Tensor& x) {
    if (x) x.storage().data();
  }
  template <typename T>
  static void unpack_one(const T&) {}

  std::string_view name_;
  KernelTraits traits_;
  mutable PerSlot<std::atomic<AnyFunction>> slots_{};
  PerSlot<AnyFunction> registered_{};  // guarded by the lock of dispatcher.cpp
  PerSlot<bool> takes_packed_{};
  PerSlot<Parts> parts_{};
  PerSlot<AnyFunction> accepts_{};  // SlotTraits::accepts

 protected:
  PerSlot<const void*> row_functions_{};
};

template <typename Signature>
class Kernel;

/// The first argument, a Tensor, selects the slot.
template <typename First, typename... Rest>
class Kernel<void(First, Rest...)> : public KernelTable {
 public:
  using Function = void (*)(First, Rest...);
  using Flops = int64_t (*)(First, Rest...);

  /// `flops` returns the number of floating-point operations of a call, for the profiler; a
  /// multiply-add counts as two.
  constexpr explicit Kernel(std::string_view name, Flops flops = nullptr, KernelTraits traits = {})
      : KernelTable(name, traits), flops_(flops) {}

  void operator()(First first, Rest... rest) const {
    if (detail::context.is_observed) [[unlikely]]
      return run_observed(first, rest...);
    prepare(first, rest...);
    run(first, rest...);
  }

  /// Returns whether the device has an implementation that accepts these arguments. For kernels
  /// without a fallback (core/dispatch/implementations.h), which an op replaces by other kernels if
  /// this function returns false.
  bool accepts(First first, Rest... rest) const {
    const DeviceType device = first.device().type;
    if (!has(device, first.dtype())) return false;
    const AnyFunction ask = accepts_function(device, first.dtype());
    return ask == nullptr || reinterpret_cast<bool (*)(First, Rest...)>(ask)(first, rest...);
  }

  /// Returns the function of a slot, for callers whose first argument does not select the device.
  Function at(DeviceType device, DType dtype) const {
    return reinterpret_cast<Function>(find(device, dtype));
  }

  /// Sets the functions of a slot that compute blocks of rows. `functions` must outlive the kernel.
  void set_rows(DeviceType device, DType dtype, const RowFunctions<First, Rest...>& functions) {
    row_functions_[int(device)][int(dtype)] = &functions;
  }
  /// Returns null if the slot has no such functions.
  const RowFunctions<First, Rest...>* row_functions(DeviceType device, DType dtype) const {
    return static_cast<const RowFunctions<First, Rest...>*>(
        row_functions_[int(device)][int(dtype)]);
  }

  /// Fills one slot with a stateless callable that takes TypeTag<T> first.
  template <typename T, typename F>
  void set_for(DeviceType device, F, const SlotTraits& traits = {}) {
    const Function function = [](First first, Rest... rest) { F{}(TypeTag<T>{}, first, rest...); };
    set(device, kDTypeOf<T>, reinterpret_cast<AnyFunction>(function), traits);
  }

 private:
  void prepare(First first, Rest... rest) const {
    if ((is_packed(first) || ... || is_packed(rest))) [[unlikely]]
      if (!takes_packed(first.device().type, first.dtype())) unpack(first, rest...);
  }
  void run(First first, Rest... rest) const {
    reinterpret_cast<Function>(find(first.device().type, first.dtype()))(first, rest...);
  }
  [[gnu::cold, gnu::noinline]] void run_observed(First first, Rest... rest) const {
    using Call = detail::RecordedCallOf<void(First, Rest...)>;
    if (detail::context.recorder != nullptr) {
      if (RecordedCall* call = detail::call_to_update(*this))
        return static_cast<Call*>(call)->take_numbers(first, rest...);
      if (detail::record_call(std::make_unique<Call>(*this, first, rest...))) return;
    }
    prepare(first, rest...);
    if (detail::context.profile == nullptr) return run(first, rest...);
    const KernelSpan span({.flops = flops_ != nullptr ? flops_(first, rest...) : 0,
                           .bytes = (bytes_of(first) + ... + bytes_of(rest))});
    run(first, rest...);
  }

  Flops flops_;
};

/// Fills a slot for every type of the list.
template <typename Signature, typename... Ts, typename F>
void set_kernel(Kernel<Signature>& kernel, DeviceType device, TypeList<Ts...>, F function,
                const SlotTraits& traits = {}) {
  (kernel.template set_for<Ts>(device, function, traits), ...);
}

/// Sets the function that registers the kernels of a device type from outside the library.
void set_backend_loader(DeviceType device, void (*loader)());

}  // namespace tapegrad
