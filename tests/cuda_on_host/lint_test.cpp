// Rules that let one source serve nvcc, a plain C++ compiler and graph capture, checked on the
// files of backends/cuda/. docs/gpu.md explains them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

struct Rule {
  std::string text;             // forbidden text
  std::set<std::string> where;  // files in which it is allowed
};

const Rule kRules[] = {
    {"<<<", {}},
    {"extern __shared__", {}},
    {"__activemask", {}},
    {"__shfl(", {}},
    {"__shfl_down(", {}},
    {"__shfl_up(", {}},
    {"__shfl_xor(", {}},
    {"cooperative_groups", {}},
    {"__CUDA_ARCH__", {}},
    {"CUDA_ON_HOST", {}},
    {"__CUDACC__", {}},
    {"asm(", {}},
    {"asm volatile", {}},
    {"__constant__", {}},
    {"cudaMemcpyToSymbol", {}},
    {"tex1D", {}},
    {"printf", {}},
    {"malloc(", {}},
    {"thrust::",
     {"device/running_sums.cuh", "device/segments.cu", "device/thrust.cuh", "scan.cu", "scatter.cu",
      "sort.cu"}},
    {"thrust/",
     {"device/running_sums.cuh", "device/segments.cu", "device/thrust.cuh", "scan.cu", "scatter.cu",
      "sort.cu"}},
    {"curand", {}},
    {"use_fast_math", {}},
    {"__expf", {}},
    {"iostream", {}},
    {"absl/",
     {"blas/blas_lt.cpp", "cudnn/conv.cpp", "cudnn/graph.cpp", "cufft/transform.cpp",
      "runtime/allocator.cpp"}},
    {"gtest", {}},
    {"atomicAdd", {}},  // the order of sums would not be reproducible
    {"cub/", {"device/segments.cu"}},
    {"cudaLaunchKernel(", {"device/launch.cuh"}},
    {"cudaMalloc(", {"runtime/allocator.cpp"}},
    {"cudaFree(", {"runtime/allocator.cpp"}},
    {"cudaMallocAsync", {}},
    {"cudaMemcpy(", {}},
    {"cudaMemset(", {}},
    {"cudaDeviceSynchronize", {"runtime/allocator.cpp", "runtime/api.cpp", "runtime/stream.cpp"}},
    {"cudaStreamSynchronize",
     {"runtime/allocator.cpp", "runtime/copy.cpp", "runtime/graph.cpp", "runtime/pinned.cpp",
      "runtime/stream.cpp"}},
    {"cudaHostAlloc(", {"runtime/graph.cpp", "runtime/pinned.cpp"}},
    {"cudaSetDevice", {"runtime/stream.cpp"}},
};

std::string without_comments(const std::string& line) { return line.substr(0, line.find("//")); }

TEST(CudaSources, KeepTheRules) {
  int files = 0;
  const fs::path folder = fs::path(TAPEGRAD_SOURCE_DIR) / "backends/cuda";
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    ++files;
    const std::string name = entry.path().lexically_relative(folder);
    std::ifstream in(entry.path());
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      const std::string code = without_comments(line);
      for (const Rule& rule : kRules)
        if (code.find(rule.text) != code.npos && !rule.where.contains(name))
          ADD_FAILURE() << name << ':' << number << ": " << rule.text;
    }
  }
  EXPECT_GT(files, 20);
}

TEST(CudaSources, CallsAreChecked) {
  const std::set<std::string> free{"cudaGetLastError", "cudaGetErrorString"};
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(TAPEGRAD_SOURCE_DIR) / "backends/cuda")) {
    std::ifstream in(entry.path());
    int number = 0;
    std::string line, before;
    for (; std::getline(in, line); before = line) {
      ++number;
      // A call at the beginning of a statement drops its status; a call inside of an argument does
      // not.
      if (before.ends_with('(') || before.ends_with(',')) continue;
      const size_t first = line.find_first_not_of(' ');
      if (first == line.npos) continue;
      const std::string code = line.substr(first);
      if (!code.starts_with("cuda") && !code.starts_with("cublas")) continue;
      const std::string call = code.substr(0, code.find('('));
      if (code.find('(') == code.npos || call.find(' ') != call.npos || free.contains(call))
        continue;
      if (!std::isupper(static_cast<unsigned char>(call[call.starts_with("cuda") ? 4 : 6])))
        continue;
      EXPECT_NE(line.find("// errors are ignored"), line.npos)
          << entry.path().filename() << ':' << number << ": the status of " << call;
    }
  }
}

}  // namespace
