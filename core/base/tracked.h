// Tracked: base of objects that others find again after a move, such as an optimizer by its
// schedulers.
#pragma once

#include <memory>

namespace tapegrad::detail {

class Tracked {
 public:
  /// Holds where the object is; null when it is destroyed.
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
  /// The handles of `other` follow this object.
  Tracked(Tracked&& other) noexcept;
  /// Those of this object find nothing any more.
  Tracked& operator=(Tracked&& other) noexcept;

 private:
  Handle handle_;
};

}  // namespace tapegrad::detail
