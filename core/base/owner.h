// Owner<T>: a std::unique_ptr that compiles faster, for members of public classes whose type the
// header only declares. (std::unique_ptr<T> makes about forty classes for each T.)
#pragma once

#include <utility>

namespace tapegrad::detail {

/// Pointer to an object that the Owner deletes. T must be complete where the destructor is used.
template <typename T>
class Owner {
 public:
  Owner() = default;
  explicit Owner(T* object) : object_(object) {}
  Owner(Owner&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    delete std::exchange(object_, std::exchange(other.object_, nullptr));
    return *this;
  }
  ~Owner() { delete object_; }

  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  T* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace tapegrad::detail
