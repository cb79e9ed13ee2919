// Tracked: base of objects that other objects can find after a move, as schedulers find their
// optimizer.
#pragma once

#include <memory>

namespace tapegrad::detail {

class Tracked {
 public:
  /// Holds the address of the object; null after the object is destroyed.
  using Handle = std::shared_ptr<Tracked*>;

  /// Null if the object was moved from.
  const Handle& handle() const { return handle_; }
  /// Returns the object, or null if it no longer exists.
  template <typename T>
  static T* find(const Handle& handle) {
    return static_cast<T*>(*handle);
  }

 protected:
  Tracked();
  ~Tracked();
  /// Handles of `other` refer to this object afterwards.
  Tracked(Tracked&& other) noexcept;
  /// Handles of `other` refer to this object afterwards; earlier handles of this object become
  /// null.
  Tracked& operator=(Tracked&& other) noexcept;

 private:
  Handle handle_;
};

}  // namespace tapegrad::detail
