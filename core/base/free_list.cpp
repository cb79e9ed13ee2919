#include "core/base/free_list.h"

#include "core/base/internal/sanitizer.h"

namespace tapegrad {
namespace detail {

constinit thread_local PoolList pool_lists[kPoolClasses];

}  // namespace detail

namespace {

// Maximum number of blocks that a thread keeps per class: at most 16 MiB in the largest class.
constexpr uint32_t kMaxKept = 16384;

// Under AddressSanitizer, recycled blocks would hide a use after free, and rounded sizes a write
// beyond the end.
constexpr bool kPooling = !kAddressSanitizer;

/// Opens the lists of a thread until the thread ends. Closed lists have no room, so that every
/// block returns to the system.
struct OpenUntilThreadEnd {
  OpenUntilThreadEnd() {
    for (detail::PoolList& list : detail::pool_lists) list.room = kMaxKept;
  }
  ~OpenUntilThreadEnd() {
    for (detail::PoolList& list : detail::pool_lists) {
      list.room = 0;
      while (detail::PoolBlock* block = list.head) {
        list.head = block->next;
        detail::pool_system_free(block);
      }
    }
  }
};

}  // namespace

void* detail::pool_system_allocate(size_t bytes) {
  if (kPooling) static thread_local OpenUntilThreadEnd opened;
  const size_t size = kPooling ? (pool_class(bytes) + 1) * kPoolAlignment : bytes;
  return ::operator new (size, std::align_val_t{kPoolAlignment});
}

void detail::pool_system_free(void* block) noexcept {
  ::operator delete (block, std::align_val_t{kPoolAlignment});
}

}  // namespace tapegrad
