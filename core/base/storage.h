// A reference-counted buffer. Its version counts the writes in place, so that autograd can tell
// whether a value it saved is still what it was.
//
// A kernel may leave large results in another order, which the next one can do with; the first who
// asks for data() has them put in order. Nobody else needs to know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "core/base/device.h"
#include "core/base/ref.h"

namespace tapegrad {

class Storage;

/// [batch, channels / block, size, block] in place of [batch, channels, size]: with one block of
/// all channels, these lie last.
struct Packing {
  int64_t batch, channels, size, block;
  /// All values in order, in new memory of the device's allocator.
  std::byte* (*unpack)(const Packing& packing, const Storage& packed);

  bool operator==(const Packing&) const = default;
};

class alignas(64) Storage final : public Counted {
 public:
  /// Uninitialised, 64-byte aligned. On the CPU a buffer of less than a kilobyte is one block with
  /// its header, from the small-object pool; others come from the device's allocator.
  static Ref<Storage> create(size_t bytes, Device device);
  /// Memory of somebody else, kept alive by whatever `release` holds; called with the last owner.
  static Ref<Storage> wrap(void* data, size_t bytes, Device device, std::function<void()> release);
  static void destroy(Storage* storage);

  /// In order. May throw OutOfMemory where they are to be put in order first.
  std::byte* data() const {
    std::byte* data = data_.load(std::memory_order_acquire);
    return data != nullptr ? data : unpack();
  }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_wrapped() const { return wrapped_; }
  /// In one block with its header.
  bool is_inline() const {
    return data_.load(std::memory_order_relaxed) == reinterpret_cast<const std::byte*>(this + 1);
  }

  bool is_packed() const { return data_.load(std::memory_order_relaxed) == nullptr && bytes_ > 0; }
  bool can_be_packed() const {
    return !is_wrapped() && !is_inline() && !is_packed() && !stays_in_order_;
  }
  /// They are in order and stay so: a recorded graph knows where they lie.
  void keep_in_order() { stays_in_order_ = true; }
  /// The values that lie in the buffer are in this order. They are new: no other thread knows them.
  void set_packed(const Packing& packing);
  /// The values as they lie, and their order; nothing if that is the plain one.
  struct PackedValues {
    Ref<Storage> buffer;  // keeps them, also when another thread has them put in order
    Packing packing;
  };
  std::optional<PackedValues> packed() const;
  /// Puts in order all that are not the CPU's and whose packed values are chosen.
  static void unpack_all(const std::function<bool(const Storage& packed)>& is_chosen);

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() {
    if (!inference_) version_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Made in InferenceMode (core/tape/recording.h): its writes are not counted.
  bool is_inference() const { return inference_; }

 private:
  Storage(std::byte* data, size_t bytes, Device device);
  [[gnu::cold]] std::byte* unpack() const;
  void forget_packed() const;  // under the lock of storage.cpp

  std::atomic<uint32_t> version_{0};
  Device device_;
  bool wrapped_ = false, stays_in_order_ = false;
  const bool inference_;
  size_t bytes_;
  mutable std::atomic<std::byte*> data_;
  mutable PackedValues* packed_ = nullptr;
  std::function<void()>* release_ = nullptr;
};

}  // namespace tapegrad
