// AddressSanitizer annotations. Memory without an owner (the tail of a rounded block, and cached
// blocks) is poisoned, so that accesses are reported. The functions do nothing in other builds.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAPEGRAD_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define TAPEGRAD_ADDRESS_SANITIZER 1
#endif

#ifdef TAPEGRAD_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace tapegrad {

#ifdef TAPEGRAD_ADDRESS_SANITIZER

inline constexpr bool kAddressSanitizer = true;

inline void forbid_access(const void* begin, size_t bytes) noexcept {
  __asan_poison_memory_region(begin, bytes);
}
inline void allow_access(const void* begin, size_t bytes) noexcept {
  __asan_unpoison_memory_region(begin, bytes);
}

#else

inline constexpr bool kAddressSanitizer = false;

inline void forbid_access(const void*, size_t) noexcept {}
inline void allow_access(const void*, size_t) noexcept {}

#endif

}  // namespace tapegrad
