#include "backends/cuda/api.h"

#include <cstdlib>

#include "core/cuda.h"
#include "core/error.h"

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
  cudaGetLastError();  // an error that can be recovered from is not to be met twice
  fail<tapegrad::cuda::CudaError>(current_op(), ": ", call.substr(0, call.find('(')), ": ",
                                  cudaGetErrorString(status));
}

std::string_view current_op() { return running != nullptr ? running->name() : "cuda"; }

OpScope::OpScope(const KernelTable& kernel) : outer_(running) { running = &kernel; }
OpScope::~OpScope() { running = outer_; }

void OpScope::finish() {
  if (is_blocking()) [[unlikely]]
    TG_CUDA(cudaDeviceSynchronize());
}

}  // namespace tapegrad::backends::cuda
