// Last implementation of a kernel that a library computes on the GPU. If the library is missing or
// rejects the operands, the operands are copied to the CPU, and the results of the CPU's kernel are
// copied back.
#pragma once

#include <string_view>
#include <tuple>

#include "core/dispatch/implementations.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cuda {

/// Prints a notice that a kernel runs on the CPU, once per kernel and source line.
void announce_cpu(std::string_view kernel);

/// Argument of the CPU's kernel. Arguments that are not tensors are passed on.
template <typename A>
struct OnCpu {
  A value;
  A get() { return value; }
  void give_back() {}
};
template <>
struct OnCpu<const Tensor&> {
  Tensor host;
  explicit OnCpu(const Tensor& x) : host(x ? x.to(cpu) : x) {}
  const Tensor& get() { return host; }
  void give_back() {}
};
/// Output, which is copied in both directions because many kernels work in place.
template <>
struct OnCpu<Tensor&> {
  Tensor& device;
  Tensor host;
  explicit OnCpu(Tensor& y) : device(y), host(y ? y.to(cpu) : y) {}
  Tensor& get() { return host; }
  void give_back() {
    if (device) kernels::copy(host.to(device.device()), device);
  }
};

template <auto& kKernel, typename Signature = std::remove_cvref_t<decltype(kKernel)>>
struct ByCpu;
template <auto& kKernel, typename... Arguments>
struct ByCpu<kKernel, Kernel<void(Arguments...)>> {
  static constexpr std::string_view kName = detail::kByCpu;

  template <typename T>
  static void run(TypeTag<T>, Arguments... arguments) {
    announce_cpu(kKernel.name());
    std::tuple<OnCpu<Arguments>...> on_cpu{OnCpu<Arguments>{arguments}...};
    std::apply(
        [](auto&... each) {
          kKernel.at(DeviceType::kCpu, kDTypeOf<T>)(each.get()...);
          (each.give_back(), ...);
        },
        on_cpu);
  }
};

}  // namespace tapegrad::backends::cuda
