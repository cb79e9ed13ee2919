// Accessor: element access by x[i][j] for a strided array in CPU memory.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tapegrad {

namespace detail {
[[noreturn, gnu::cold]] void fail_accessor(int64_t index, int64_t size);
}  // namespace detail

template <typename T, size_t n>
class Accessor {
 public:
  Accessor(T* data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t i = 0; i < size_t(n); ++i) sizes_[i] = sizes[i], strides_[i] = strides[i];
  }

  int64_t size(size_t dim) const { return sizes_.at(dim); }
  int64_t stride(size_t dim) const { return strides_.at(dim); }
  T* data() const { return data_; }
  /// Returns an element, or an Accessor with one dimension less. Throws IndexError outside [0,
  /// size(0)).
  template <std::integral I>
  decltype(auto) operator[](I index) const {
    const auto i = int64_t(index);
    if (i < 0 || i >= sizes_[0]) [[unlikely]]
      detail::fail_accessor(i, sizes_[0]);
    T* const part = data_ + i * strides_[0];
    if constexpr (n == 1)
      return (*part);
    else
      return Accessor<T, n - 1>(part, sizes_.data() + 1, strides_.data() + 1);
  }

 private:
  static_assert(n > 0, "accessor<T, n>(): n is the rank, at least 1; x.item<T>() reads a scalar");
  T* data_;
  std::array<int64_t, n> sizes_, strides_;
};

}  // namespace tapegrad
