// Operands of an elementwise kernel: strided tensors of one shape.
#pragma once

#include <array>
#include <cstring>

#include "backends/cuda/layout/pack.h"
#include "core/base/host_device.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Division of n < 2^31 by a divisor known at launch (Granlund and Montgomery 1994).
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(uint32_t by);
  TG_HD uint32_t quotient(uint32_t n) const {
    return (uint32_t(uint64_t(n) * multiplier_ >> 32) + n) >> shift_;
  }
  TG_HD uint32_t divisor() const { return by_; }

 private:
  uint32_t by_ = 1, shift_ = 0, multiplier_ = 1;
};

enum class Access : uint8_t {
  kPacked,   // contiguous, and aligned for Packs
  kLinear,   // contiguous
  kSingle,   // one element, repeated
  kNumber,   // one element, repeated, which is in `data` itself
  kRow,      // one row of whole Packs, repeated
  kStrided,  // at an offset computed from the index
};

/// The operands of a map; operand 0 is y.
template <size_t N>
struct Operands {
  int64_t count = 0;
  int rank = 0;
  bool packed = true;    // no operand is accessed element by element
  bool strided = false;  // some operand is kStrided or kRow
  Access access[N] = {};
  Divisor sizes[kMaxRank] = {};
  int64_t strides[N][kMaxRank] = {};
  void* data[N] = {};  // addresses, or kNumber

  TG_HD int64_t offset(int operand, int64_t index) const {
    if (access[operand] == Access::kSingle) return 0;
    if (access[operand] <= Access::kLinear) return index;
    uint32_t rest = uint32_t(index);
    int64_t at = 0;
    for (int d = rank - 1; d > 0; --d) {
      const uint32_t outer = sizes[d].quotient(rest);
      at += int64_t(rest - outer * sizes[d].divisor()) * strides[operand][d];
      rest = outer;
    }
    return at + int64_t(rest) * strides[operand][0];
  }

  template <typename T>
  TG_HD T& element(int operand, int64_t index) const {
    return static_cast<T*>(data[operand])[offset(operand, index)];
  }
  /// Returns the element of an operand that is not written.
  template <typename T>
  TG_HD T value(int operand, int64_t index) const {
    return access[operand] == Access::kNumber ? number<T>(operand)
                                              : element<const T>(operand, index);
  }
  template <typename T>
  TG_HD T number(int operand) const {
    T value;
    std::memcpy(&value, &data[operand], sizeof(T));
    return value;
  }
  template <typename T, int kPack>
  TG_HD Pack<T, kPack> pack(int operand, int64_t index) const {
    const T* from = static_cast<const T*>(data[operand]);
    if (access[operand] == Access::kRow) {
      const Divisor& row = sizes[rank - 1];
      index = uint32_t(index) - row.quotient(uint32_t(index)) * row.divisor();
    }
    if (access[operand] != Access::kSingle && access[operand] != Access::kNumber)
      return *reinterpret_cast<const Pack<T, kPack>*>(from + index);
    const T single = access[operand] == Access::kNumber ? number<T>(operand) : *from;
    Pack<T, kPack> repeated;
    for (int k = 0; k < kPack; ++k) repeated.v[k] = single;
    return repeated;
  }
};

/// Calls run(formula, operands, y) for pieces of fewer than 2^31 elements, so that 32-bit indices
/// suffice for strided operands; work without strided operands is one piece. Operand 0 is y; the
/// others broadcast to its shape. element[i] is the element size of operand i; `pack` is the number
/// of elements of a Pack.
///
/// Separate from map(), which is compiled for every formula and type.
template <size_t N>
void for_each_piece(const std::array<const Tensor*, N>& operands,
                    const std::array<int64_t, N>& element, int pack, const void* formula,
                    void (*run)(const void* formula, const Operands<N>& o, const Tensor& y));

}  // namespace tapegrad::backends::cuda
