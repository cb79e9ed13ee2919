#include "backends/cuda/runtime/api.h"

#include <cstdlib>

#include "backends/cuda/runtime/allocator.h"
#include "core/autograd/internal/capture.h"
#include "core/base/error.h"
#include "core/cuda.h"

namespace tapegrad::backends::cuda {
namespace {

thread_local const KernelTable* running = nullptr;

bool is_blocking() {
  static const bool blocking = [] {
    const char* text = std::getenv("TAPEGRAD_CUDA_BLOCKING");
    return text != nullptr && *text == '1';
  }();
  return blocking;
}

}  // namespace

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clears a recoverable error, so that it is not reported twice
  fail<tapegrad::cuda::CudaError>(current_op(), ": ", call.substr(0, call.find('(')), ": ",
                                  cudaGetErrorString(status));
}

bool is_recording_graph() { return Capture::current() != nullptr; }

void stop_recording(std::string_view why) {
  if (Capture* capture = Capture::current()) [[unlikely]]
    capture->give_up(std::string(current_op()) + ": " + std::string(why));
}

/// A graph contains addresses and layouts. Operands that it did not make itself are unpacked before
/// it runs and never packed again.
void note_operand(const Tensor& x) {
  if (x && x.device().type == DeviceType::kCuda && !is_from_pool(pool_in_use(), x)) {
    x.storage().data();
    x.storage().keep_in_order();
  }
  // The recording ends if the host has to wait for the values of a packed layout.
  if (Capture* capture = Capture::current()) capture->on_operand(x);
}

int64_t* recorded_verdict() {
  Capture* capture = Capture::current();
  if (capture == nullptr) [[likely]]
    return nullptr;
  int64_t* words = capture->watch(current_op());
  if (words == nullptr) stop_recording("too many checks of values");
  return words;
}

const RandomState* live_base(RandomState state) {
  Capture* capture = Capture::current();
  return capture == nullptr ? nullptr : capture->base_of(state);
}

const void* live_value(const void* value, size_t bytes) {
  Capture* capture = Capture::current();
  return capture == nullptr ? nullptr : capture->live(value, bytes);
}
bool is_preparing_run() {
  Capture* capture = Capture::current();
  return capture != nullptr && capture->is_preparing();
}

bool is_in_kernel() { return running != nullptr; }
std::string_view current_op() { return running != nullptr ? running->name() : "cuda"; }

OpScope::OpScope(const KernelTable& kernel) : outer_(running) { running = &kernel; }
OpScope::~OpScope() { running = outer_; }

void OpScope::finish() {
  if (!is_blocking()) [[likely]]
    return;
  stop_recording("TAPEGRAD_CUDA_BLOCKING waits after every op");
  TG_CUDA(cudaDeviceSynchronize());
}

}  // namespace tapegrad::backends::cuda
