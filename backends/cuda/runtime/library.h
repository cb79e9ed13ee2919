// CUDA libraries that are loaded at their first use. If they were linked, every program would load
// them, which takes 50 ms or more, even without a GPU.
#pragma once

#include <string_view>

namespace tapegrad::backends::cuda {

/// Returns the address of a cuBLAS function. Throws CudaError if the library or the function does
/// not exist.
void* find_in_cublas(const char* function);
/// Returns the address of a cuBLASLt function; null if the function does not exist.
void* find_in_cublas_lt(const char* function);
/// Returns the address of a cuDNN 9 function; null if the function does not exist.
void* find_in_cudnn(const char* function);
/// Return the address of a function of cuSOLVER or cuFFT; null if the library does not exist. Throw
/// CudaError if the library does not have the function.
void* find_in_cusolver(const char* function);
void* find_in_cufft(const char* function);

/// A loaded function with the prototype of its header.
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
