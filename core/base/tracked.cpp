#include "core/base/tracked.h"

#include <utility>

namespace tapegrad::detail {

Tracked::Tracked() : handle_(std::make_shared<Tracked*>(this)) {}
Tracked::~Tracked() {
  if (handle_) *handle_ = nullptr;
}
Tracked::Tracked(Tracked&& other) noexcept : handle_(std::move(other.handle_)) {
  if (handle_) *handle_ = this;
}
Tracked& Tracked::operator=(Tracked&& other) noexcept {
  if (this == &other) return *this;
  if (handle_) *handle_ = nullptr;
  handle_ = std::move(other.handle_);
  if (handle_) *handle_ = this;
  return *this;
}

}  // namespace tapegrad::detail
