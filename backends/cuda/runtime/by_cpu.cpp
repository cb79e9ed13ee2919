// Kernels that run on the CPU: operands are copied to the host, and results back, around the CPU's
// kernel. Used for work that is rare in a training step (matrix factorizations, Fourier
// transforms).
#include <atomic>
#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>

#include "backends/cuda/register.h"
#include "backends/cuda/runtime/api.h"
#include "core/dispatch/implementations.h"
#include "core/dispatch/kernels.h"
#include "ops/fft.h"
#include "ops/linalg.h"

namespace tapegrad::backends::cuda {
namespace {

/// Prints one line, the first time that a kernel runs on the CPU.
void say_once(std::atomic<bool>& said, std::string_view kernel) {
  if (said.exchange(true, std::memory_order_relaxed)) return;
  const std::string line = "tapegrad: cuda: " + std::string(kernel) +
                           " has no kernel for a GPU: its operands are copied to the CPU\n";
  std::fputs(line.c_str(), stderr);
}

/// An argument for the CPU's kernel: itself, unless it is a tensor.
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
/// Copied in both directions, because many kernels work in place.
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

template <auto& kKernel, typename Signature>
struct ByCpu;
template <auto& kKernel, typename... Arguments>
struct ByCpu<kKernel, Kernel<void(Arguments...)>> {
  inline static constinit std::atomic<bool> said{false};

  template <typename T>
  static void set() {
    kKernel.template set_for<T>(DeviceType::kCuda, [](Type<T>, Arguments... arguments) {
      const OpScope scope(kKernel);
      say_once(said, kKernel.name());
      if (detail::dispatch_watchers.load(std::memory_order_relaxed) != 0)
        detail::note_implementation(kKernel, DeviceType::kCuda, kDTypeOf<T>, detail::kByCpu);
      std::tuple<OnCpu<Arguments>...> on_cpu{OnCpu<Arguments>{arguments}...};
      std::apply(
          [](auto&... each) {
            kKernel.at(DeviceType::kCpu, kDTypeOf<T>)(each.get()...);
            (each.give_back(), ...);
          },
          on_cpu);
    });
  }
};

template <auto& kKernel, typename... Ts>
void set_by_cpu(TypeList<Ts...>) {
  (ByCpu<kKernel, std::remove_cvref_t<decltype(kKernel)>>::template set<Ts>(), ...);
}

}  // namespace

void register_by_cpu() {
  constexpr TypeList<float, double> kReals{};
  set_by_cpu<kernels::lu_factor>(kReals);
  set_by_cpu<kernels::lu_solve>(kReals);
  set_by_cpu<kernels::triangular_solve>(kReals);
  set_by_cpu<kernels::cholesky>(kReals);
  set_by_cpu<kernels::qr_factor>(kReals);
  set_by_cpu<kernels::qr_form>(kReals);
  set_by_cpu<kernels::svd>(kReals);
  set_by_cpu<kernels::eigh>(kReals);
  set_by_cpu<kernels::fft>(kReals);
  set_by_cpu<kernels::rfft>(kReals);
  set_by_cpu<kernels::irfft>(kReals);
}

}  // namespace tapegrad::backends::cuda
