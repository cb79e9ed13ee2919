#include "core/tape/internal/leaf_observer.h"

#include <atomic>
#include <mutex>

namespace tapegrad {
namespace {

constinit std::atomic<bool> has_observers = false;

struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<LeafObserver>> observers;
};
Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

bool has_leaf_observers() { return has_observers.load(std::memory_order_relaxed); }

void add_leaf_observer(const std::shared_ptr<LeafObserver>& observer) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.observers.push_back(observer);
  has_observers = true;
}

/// Removes observers that were destroyed.
std::vector<std::shared_ptr<LeafObserver>> leaf_observers() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::shared_ptr<LeafObserver>> living;
  std::erase_if(all.observers, [](const auto& each) { return each.expired(); });
  for (const auto& each : all.observers)
    if (auto observer = each.lock()) living.push_back(std::move(observer));
  if (all.observers.empty()) has_observers = false;
  return living;
}

}  // namespace tapegrad
