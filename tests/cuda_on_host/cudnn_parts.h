// Shared by the parts of the cuDNN stand-in.
#pragma once

#include <cudnn.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "blas_numbers.h"

namespace coh {

struct CudnnHandle {
  cudaStream_t stream = nullptr;
};
inline cudaStream_t stream_of(cudnnHandle_t handle) {
  return reinterpret_cast<CudnnHandle*>(handle)->stream;
}

inline bool is_float(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 || type == CUDNN_DATA_FLOAT ||
         type == CUDNN_DATA_DOUBLE;
}
inline cudaDataType of_cuda(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return CUDA_R_16F;
    case CUDNN_DATA_BFLOAT16:
      return CUDA_R_16BF;
    case CUDNN_DATA_FLOAT:
      return CUDA_R_32F;
    default:
      return CUDA_R_64F;
  }
}
inline std::int64_t size_of(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}
/// Aborts unless the whole operand is in device memory, or the operand is null.
inline void check_operand(const void* p, std::int64_t bytes, const char* what) {
  for (const char* end : {static_cast<const char*>(p), static_cast<const char*>(p) + bytes})
    check_argument(&end, sizeof(end), what);
}

// ---------------------------------------------------------------------------------------- graphs

/// A descriptor of the graph interface with its attributes.
struct Bag {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    std::vector<std::byte> bytes;
    std::vector<std::shared_ptr<const Bag>> parts;  // of type CUDNN_TYPE_BACKEND_DESCRIPTOR
  };
  cudnnBackendDescriptorType_t type;
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) != 0; }
  template <typename T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto& bytes = attributes.at(name).bytes;
    const T* first = reinterpret_cast<const T*>(bytes.data());
    return std::vector<T>(first, first + bytes.size() / sizeof(T));
  }
  template <typename T>
  T get(cudnnBackendAttributeName_t name) const {
    return all<T>(name).at(0);
  }
  const Bag& part(cudnnBackendAttributeName_t name) const {
    return *attributes.at(name).parts.at(0);
  }
};

/// A tensor descriptor.
struct TensorForm {
  std::int64_t id;
  cudnnDataType_t type;
  std::array<std::int64_t, 4> sizes, steps;
  bool is_stored, is_number;

  explicit TensorForm(const Bag& tensor);
  std::int64_t numel() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  /// Distance in memory from the first element to the last.
  std::int64_t extent() const;
  // position of element `index`, counted in the order of the dimensions
  std::int64_t place(std::int64_t index) const;
};

/// Values of a graph's tensors by the tensors' numbers.
using GraphValues = std::map<std::int64_t, std::vector<double>>;

/// Checks an operation and its operands. Returns null, or why cuDNN would reject the operation.
const char* why_not(const Bag& operation);
/// Computes a valid operation. Returns the tensors that received values.
std::vector<std::int64_t> run_operation(const Bag& operation, GraphValues& values);
/// The same functions for operations on images (cudnn_images.cpp) and for descriptors of windows.
const char* why_not_of_images(const Bag& operation);
std::vector<std::int64_t> run_of_images(const Bag& operation, GraphValues& values);
const char* why_not_resampling(const Bag& resampling);
/// Rounds to the tensor type.
double rounded(double value, cudnnDataType_t type);

}  // namespace coh
