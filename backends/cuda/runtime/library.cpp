#include "backends/cuda/runtime/library.h"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cuda.h"

namespace tapegrad::backends::cuda {
namespace {

/// Opens the first available version of a library, from the system's search path and the default
/// toolkit folder. Returns null, with the system's message, if there is none.
void* open_library(const std::string& name, const std::vector<std::string>& versions,
                   std::string* why = nullptr) {
  for (const std::string& version : versions)
    for (const char* folder : {"", "/usr/local/cuda/lib64/"}) {
      const std::string file = folder + name + ".so." + version;
      if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      if (why != nullptr && why->empty()) *why = dlerror();
    }
  return nullptr;
}

/// Returns the version that this file was compiled with, then others with the same functions.
std::vector<std::string> versions_of_cublas() {
  return {std::to_string(CUBLAS_VER_MAJOR), "13", "12"};
}

void* open_cublas() {
  std::string why;
  void* library = open_library("libcublas", versions_of_cublas(), &why);
  if (library == nullptr)
    fail<tapegrad::cuda::CudaError>("cuBLAS could not be opened: ", why,
                                    "; LD_LIBRARY_PATH names folders to look in");
  return library;
}

/// Returns the versions of the toolkit's other libraries: one less than that of cuBLAS.
std::vector<std::string> versions_beside_cublas() {
  return CUBLAS_VER_MAJOR >= 13 ? std::vector<std::string>{"12", "11"}
                                : std::vector<std::string>{"11", "12"};
}

/// Returns null if the library was not found.
void* find_in_optional(void* library, const char* name, const char* function) {
  if (library == nullptr) return nullptr;
  void* address = dlsym(library, function);
  if (address == nullptr) fail<tapegrad::cuda::CudaError>(name, " has no ", function);
  return address;
}

}  // namespace

void* find_in_cublas(const char* function) {
  static void* const library = open_cublas();
  void* address = dlsym(library, function);
  if (address == nullptr) fail<tapegrad::cuda::CudaError>("cuBLAS has no ", function);
  return address;
}

void* find_in_cublas_lt(const char* function) {
  static void* const library = open_library("libcublasLt", versions_of_cublas());
  return library != nullptr ? dlsym(library, function) : nullptr;
}

void* find_in_cudnn(const char* function) {
  static void* const library = open_library("libcudnn", {"9"});
  return find_in_optional(library, "cuDNN", function);
}

void* find_in_cusolver(const char* function) {
  static void* const library = open_library("libcusolver", versions_beside_cublas());
  return find_in_optional(library, "cuSOLVER", function);
}

void* find_in_cufft(const char* function) {
  static void* const library = open_library("libcufft", versions_beside_cublas());
  return find_in_optional(library, "cuFFT", function);
}

}  // namespace tapegrad::backends::cuda
