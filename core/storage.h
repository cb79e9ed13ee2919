// A reference-counted buffer. Its version counts the writes in place, so that autograd can tell
// whether a value it saved is still what it was.
#pragma once

#include <cstddef>
#include <functional>

#include "core/device.h"
#include "core/ref.h"

namespace tapegrad {

class alignas(64) Storage final : public Counted {
 public:
  /// Uninitialised, 64-byte aligned. On the CPU a buffer of less than a kilobyte is one block with
  /// its header, from the small-object pool; others come from the device's allocator.
  static Ref<Storage> create(size_t bytes, Device device);
  /// Memory of somebody else, kept alive by whatever `release` holds; called with the last owner.
  static Ref<Storage> wrap(void* data, size_t bytes, Device device, std::function<void()> release);
  static void destroy(Storage* storage);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_wrapped() const { return wrapped_; }

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() {
    if (!inference_) version_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Made in InferenceMode (core/tape.h): its writes are not counted.
  bool is_inference() const { return inference_; }

 private:
  Storage(std::byte* data, size_t bytes, Device device);
  bool is_inline() const { return data_ == reinterpret_cast<const std::byte*>(this + 1); }

  std::atomic<uint32_t> version_{0};
  Device device_;
  bool wrapped_ = false;
  const bool inference_;
  size_t bytes_;
  std::byte* data_;
  std::function<void()>* release_ = nullptr;
};

}  // namespace tapegrad
