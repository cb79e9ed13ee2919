// Checked calls of the CUDA libraries. Errors name the op and the call.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "core/base/generator.h"
#include "core/dispatch/implementations.h"

namespace tapegrad::backends::cuda {

/// Throws CudaError, for example "softmax: cudaLaunchKernel: invalid configuration argument",
/// unless the call succeeded.
void check(cudaError_t status, std::string_view call);

#define TG_CUDA(call) ::tapegrad::backends::cuda::check((call), #call)

// Graph recording. core/autograd/internal/capture.h has the interface, which nvcc need not compile.

/// Returns whether this thread records a graph or prepares a run.
bool is_recording_graph();
/// Executes the work that this thread has recorded so far and ends the recording. Must be called
/// before a wait for the device and before a call that a graph cannot repeat.
void stop_recording(std::string_view why);
void note_operand(const Tensor& x);
template <typename T>
void note_operand(const T&) {}
/// Returns the address to which a check of values writes its result in each run; null if no graph
/// is recorded.
int64_t* recorded_verdict();
/// Returns Capture::base_of(); null if no graph is recorded.
const RandomState* live_base(RandomState state);
/// Returns Capture::live(); null if no graph is recorded.
const void* live_value(const void* value, size_t bytes);
/// Returns whether this thread prepares a run, in which nothing must be launched.
bool is_preparing_run();

/// Returns the name of the kernel that this thread runs, for messages; "cuda" outside of kernels.
std::string_view current_op();
bool is_in_kernel();

/// Sets the name of the running kernel for the lifetime of the object. With
/// TAPEGRAD_CUDA_BLOCKING=1, finish() waits for the device, so that an error is reported by the op
/// that caused it.
class OpScope {
 public:
  explicit OpScope(const KernelTable& kernel);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  void finish();

 private:
  const KernelTable* outer_;
};

/// Fills the CUDA slots of a kernel, as set_kernel() does.
template <auto& kKernel, typename... Ts, typename F>
void set(TypeList<Ts...> types, F, const SlotTraits& traits = {}) {
  set_kernel(
      kKernel, DeviceType::kCuda, types,
      []<typename T, typename... Arguments>(TypeTag<T> type, Arguments&&... arguments) {
        OpScope scope(kKernel);
        if (is_recording_graph()) [[unlikely]]
          (note_operand(arguments), ...);
        F{}(type, arguments...);
        scope.finish();
      },
      traits);
}

/// Registers implementations of a kernel for CUDA, as tapegrad::set_implementations() does.
template <auto& kKernel, typename... Implementations, typename... Ts>
void set_implementations(TypeList<Ts...>) {
  using List = ImplementationList<kKernel, Implementations...>;
  static_assert(List::template all_serve<Ts...>(), "an implementation takes none of the dtypes");
  (set<kKernel>(TypeList<Ts>{}, List{}, List::template traits<Ts>()), ...);
}

}  // namespace tapegrad::backends::cuda
