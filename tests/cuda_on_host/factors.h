// Shared by the stand-ins of cuSOLVER and of the factorizations of cuBLAS: matrices in device
// memory, for the kernels of the CPU, which compute the result.
#pragma once

#include <cublas_v2.h>

#include <algorithm>
#include <string>

#include "core/base/tensor.h"
#include "library_calls.h"
#include "state.h"

namespace coh {

using tapegrad::DeviceType;
using tapegrad::kDTypeOf;
using tapegrad::Shape;
using tapegrad::Tensor;

/// A copy of a matrix stored by columns, of any leading dimension, as a batch of one matrix.
template <typename T>
class Matrix {
 public:
  Matrix(const T* from, std::int64_t rows, std::int64_t columns, std::int64_t ld)
      : rows_(rows), columns_(columns), ld_(ld) {
    tensor = Tensor::empty({1, columns, rows}, kDTypeOf<T>);
    for (std::int64_t j = 0; j < columns && from != nullptr; ++j)
      std::copy_n(from + j * ld, rows, tensor.data<T>() + j * rows);
  }
  void store(T* to) const {
    for (std::int64_t j = 0; j < columns_ && to != nullptr; ++j)
      std::copy_n(tensor.data<T>() + j * rows_, rows_, to + j * ld_);
  }
  /// Stores elements on and below the diagonal only.
  void store_lower(T* to) const {
    for (std::int64_t j = 0; j < columns_; ++j)
      std::copy(tensor.data<T>() + j * rows_ + j, tensor.data<T>() + (j + 1) * rows_,
                to + j * ld_ + j);
  }

  Tensor tensor;

 private:
  std::int64_t rows_, columns_, ld_;
};

inline Tensor vector_of(void* data, std::int64_t size, tapegrad::DType dtype) {
  return Tensor::wrap(data, {1, size}, dtype);
}
/// Info of one matrix; 0 before the kernel runs, which stores errors only.
inline Tensor info_of(int* info) {
  *info = 0;
  return Tensor::wrap(info, {1}, tapegrad::i32);
}

/// Aborts if an address is not of this device's memory.
template <typename... Pointers>
void require_device(Pointers... pointers) {
  for (const void* p : {static_cast<const void*>(pointers)...}) {
    if (p == nullptr) continue;
    check_argument(&p, sizeof(p), "an operand of a library");
    if (device_of(p) < 0) fail("an operand of a library is not in device memory");
  }
}

template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  const auto add = [&](const auto& part) {
    if constexpr (requires { text += part; } && !std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      text += part;
    else
      text += std::to_string(part);
  };
  (add(parts), ...);
  return text;
}

}  // namespace coh
