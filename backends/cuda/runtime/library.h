// Libraries of CUDA that are opened at their first use: linked, they would be loaded by every
// program, for 50 ms and more, also where there is no GPU.
#pragma once

#include <string_view>

namespace tapegrad::backends::cuda {

/// The address of a function of cuBLAS. CudaError when there is no such library or function.
void* find_in_cublas(const char* function);
/// The same of cuBLASLt; null where it is not there.
void* find_in_cublas_lt(const char* function);
/// The same of cuDNN 9.
void* find_in_cudnn(const char* function);

/// A function that was found, with the prototype of its header.
template <typename F>
class Found {
 public:
  explicit Found(void* address) : address_(reinterpret_cast<F*>(address)) {}
  explicit operator bool() const { return address_ != nullptr; }
  template <typename... Arguments>
  auto operator()(Arguments... arguments) const {
    return address_(arguments...);
  }

 private:
  F* address_;
};

}  // namespace tapegrad::backends::cuda
