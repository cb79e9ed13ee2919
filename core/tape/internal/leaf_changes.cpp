#include "core/tape/internal/leaf_changes.h"

#include <array>
#include <atomic>

namespace tapegrad::detail {
namespace {

constexpr uint64_t kRemembered = 256;

constinit std::atomic<uint64_t> count{0};
constinit std::array<std::atomic<const TensorStorage*>, kRemembered> last{};

}  // namespace

void note_leaf_change(const TensorStorage& storage) {
  last[count.load(std::memory_order_relaxed) % kRemembered].store(&storage,
                                                                  std::memory_order_relaxed);
  count.fetch_add(1, std::memory_order_release);
}

uint64_t leaf_change_count() { return count.load(std::memory_order_acquire); }

bool any_leaf_change(uint64_t seen, const std::function<bool(const TensorStorage*)>& of) {
  const uint64_t now = leaf_change_count();
  if (now - seen > kRemembered) return true;
  for (; seen < now; ++seen)
    if (of(last[seen % kRemembered].load(std::memory_order_relaxed))) return true;
  return false;
}

}  // namespace tapegrad::detail
