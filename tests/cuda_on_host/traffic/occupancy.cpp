// Prints the occupancy of kernels by the toolkit's calculator: the warps that a multiprocessor
// holds, in percent of its maximum. Reads lines "MAJOR REGISTERS STATIC_SHARED DYNAMIC_SHARED
// THREADS".
#include <cuda_occupancy.h>

#include <cstddef>
#include <iostream>

namespace {

/// Limits of compute capability 8.0, 9.0 and 10.0 (CUDA C++ programming guide, technical
/// specifications).
cudaOccDeviceProp device(int major) {
  cudaOccDeviceProp p;
  p.computeMajor = major;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = 2048;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerMultiprocessor = std::size_t(major == 8 ? 164 : 228) << 10;
  p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor - 1024;
  p.reservedSharedMemPerBlock = 1024;
  p.numSms = 132;
  return p;
}

}  // namespace

int main() {
  int major = 0, threads = 0;
  std::size_t dynamic = 0;
  cudaOccFuncAttributes kernel;
  kernel.maxThreadsPerBlock = 1024;
  kernel.numBlockBarriers = 1;
  while (std::cin >> major >> kernel.numRegs >> kernel.sharedSizeBytes >> dynamic >> threads) {
    const cudaOccDeviceProp properties = device(major);
    const cudaOccDeviceState state;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &kernel, &state, threads,
                                                dynamic) != CUDA_OCC_SUCCESS)
      return 1;
    const int warps = result.activeBlocksPerMultiprocessor * ((threads + 31) / 32);
    std::cout << 100 * warps / (properties.maxThreadsPerMultiprocessor / 32) << '\n';
  }
}
