// Replaces the backend's header with this name where accesses are counted. A C++ compiler accesses
// the elements of a Pack one by one; this Pack reports each copy as one access, as on a GPU.
#pragma once

#include <cstring>

namespace coh {
/// Counts an access by the instruction at `pc`, if the memory is the device's or a block's.
void count_access(const void* p, unsigned bytes, bool is_store, const void* pc);
}  // namespace coh

// A copy is a function with one caller per instruction, in which nothing else is counted.
#define COH_COPY [[gnu::noinline, clang::no_sanitize("coverage")]]

namespace tapegrad::backends::cuda {

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T v[kCount];

  Pack() = default;
  COH_COPY Pack(const Pack& from) { copy(from, __builtin_return_address(0)); }
  COH_COPY Pack& operator=(const Pack& from) {
    copy(from, __builtin_return_address(0));
    return *this;
  }

 private:
  [[gnu::always_inline]] void copy(const Pack& from, const void* pc) {
    coh::count_access(&from, sizeof(Pack), /*is_store=*/false, pc);
    coh::count_access(this, sizeof(Pack), /*is_store=*/true, pc);
    std::memcpy(v, from.v, sizeof(v));
  }
};

}  // namespace tapegrad::backends::cuda

#undef COH_COPY
