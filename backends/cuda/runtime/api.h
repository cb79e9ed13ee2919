// Calls of the CUDA libraries. Every one is checked; an error names the op and the call.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "core/base/generator.h"
#include "core/dispatch/dispatcher.h"

namespace tapegrad::backends::cuda {

/// CudaError, "softmax: cudaLaunchKernel: invalid configuration argument", unless it succeeded.
void check(cudaError_t status, std::string_view call);

#define TG_CUDA(call) ::tapegrad::backends::cuda::check((call), #call)

// While a graph is recorded (core/autograd/internal/capture.h, which nvcc is spared).

/// Whether this thread records, or prepares a run.
bool is_recording_graph();
/// For calls that wait for the device, or that it could not repeat: what is recorded by this thread
/// is executed instead, and the call can be made.
void stop_recording(std::string_view why);
void note_operand(const Tensor& x);
template <typename T>
void note_operand(const T&) {}
/// Where a check of values leaves its result in each run; null when none is recorded.
int64_t* recorded_verdict();
/// Capture::base_of(), or null.
const RandomState* live_base(RandomState state);
/// Capture::live(), or null; and whether nothing is to be launched: a run is prepared.
const void* live_value(const void* value, size_t bytes);
bool is_preparing_run();

/// The kernel that this thread is in, for messages; "cuda" outside of any.
std::string_view current_op();
bool is_in_kernel();

/// Names the kernel for as long as it lives. With TAPEGRAD_CUDA_BLOCKING=1 in the environment
/// finish() waits for the device, so that an error comes from the op that made it.
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

/// Fills the slots of a kernel for CUDA, as set_kernel() does.
template <auto& kKernel, typename... Ts, typename F>
void set(TypeList<Ts...> types, F) {
  set_kernel(kKernel, DeviceType::kCuda, types,
             []<typename T, typename... Arguments>(Type<T> type, Arguments&&... arguments) {
               OpScope scope(kKernel);
               if (is_recording_graph()) [[unlikely]]
                 (note_operand(arguments), ...);
               F{}(type, arguments...);
               scope.finish();
             });
}

}  // namespace tapegrad::backends::cuda
