// Hooks: user functions registered on a gradient, a node or a module, and their removal.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tapegrad {

/// Handle of a registered hook. Destroying the handle does not remove the hook. The handle may
/// outlive the object that has the hook.
class HookHandle {
 public:
  HookHandle() = default;
  /// Unregisters the hook. A second call has no effect.
  void remove() {
    if (const auto list = list_.lock()) erase_(list.get(), id_);
    list_.reset();
  }

 private:
  template <typename Hook>
  friend class HookList;
  std::weak_ptr<void> list_;
  void (*erase_)(void* list, uint64_t id) = nullptr;
  uint64_t id_ = 0;
};
using RemovableHandle = HookHandle;  // PyTorch's name

/// Hooks in the order of registration.
template <typename Hook>
class HookList {
 public:
  HookHandle add(Hook hook) {
    if (!entries_) entries_ = std::make_shared<Entries>();
    entries_->list.push_back({++entries_->last_id, std::move(hook)});
    HookHandle handle;
    handle.list_ = entries_;
    handle.erase_ = [](void* list, uint64_t id) {
      std::erase_if(static_cast<Entries*>(list)->list,
                    [&](const Entry& entry) { return entry.id == id; });
    };
    handle.id_ = entries_->last_id;
    return handle;
  }

  bool empty() const { return !entries_ || entries_->list.empty(); }

  /// Calls visit(hook) for a snapshot of the hooks, because a hook may remove itself or add others.
  template <typename Visit>
  void each(Visit visit) const {
    if (empty()) return;
    const std::vector<Entry> now = entries_->list;
    for (const Entry& entry : now) visit(entry.hook);
  }

 private:
  struct Entry {
    uint64_t id;
    Hook hook;
  };
  struct Entries {
    std::vector<Entry> list;
    uint64_t last_id = 0;
  };
  std::shared_ptr<Entries> entries_;
};

}  // namespace tapegrad
