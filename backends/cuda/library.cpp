#include "backends/cuda/library.h"

#include <cublas_api.h>
#include <dlfcn.h>

#include <string>
#include <vector>

#include "core/cuda.h"
#include "core/error.h"

namespace tapegrad::backends::cuda {
namespace {

/// The version that this was compiled with, then others with the same functions: from where the
/// system looks, and from where a toolkit is by default.
void* open_cublas() {
  std::string tried;
  for (const std::string& version :
       {std::to_string(CUBLAS_VER_MAJOR), std::string("13"), std::string("12")})
    for (const char* folder : {"", "/usr/local/cuda/lib64/"}) {
      const std::string name = folder + ("libcublas.so." + version);
      if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      if (tried.empty()) tried = dlerror();
    }
  fail<tapegrad::cuda::CudaError>("cuBLAS could not be opened: ", tried,
                                  "; LD_LIBRARY_PATH names folders to look in");
}

}  // namespace

void* find_in_cublas(const char* function) {
  static void* const library = open_cublas();
  void* address = dlsym(library, function);
  if (address == nullptr) fail<tapegrad::cuda::CudaError>("cuBLAS has no ", function);
  return address;
}

}  // namespace tapegrad::backends::cuda
