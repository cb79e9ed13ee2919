// A reference-counted buffer. Its version counts in-place writes, so that autograd can detect
// whether a saved tensor was modified.
//
// A kernel may store a large result in a packed layout if the next kernel can read it. The first
// call of data() converts it to row-major order, so all other code ignores packed layouts.
//
// A storage created while a step is recorded (core/base/internal/call_recorder.h) is deferred: it
// has no memory until the recorded calls run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "core/base/device.h"
#include "core/base/ref.h"

namespace tapegrad {

class TensorStorage;

/// A packed layout: [batch, channels / block, size, block] instead of [batch, channels, size]. A
/// single block of all channels is the channels-last layout.
struct Packing {
  int64_t batch, channels, size, block;
  /// Returns all values in row-major order, in new memory from the device's allocator.
  std::byte* (*unpack)(const Packing& packing, const TensorStorage& packed);

  bool operator==(const Packing&) const = default;
};

class alignas(64) TensorStorage final : public Counted {
 public:
  /// Allocates uninitialised memory, aligned to 64 bytes. A CPU buffer of less than a kilobyte
  /// shares one block of the small-object pool with its header; other buffers come from the
  /// device's allocator.
  static RefPtr<TensorStorage> create(size_t bytes, Device device);
  /// Wraps external memory, which `release` keeps alive. The last owner calls `release`.
  static RefPtr<TensorStorage> wrap(void* data, size_t bytes, Device device,
                                    std::function<void()> release);
  static void destroy(TensorStorage* storage);

  /// Returns the values in row-major order. Converts a packed layout first, which may throw
  /// OutOfMemory.
  std::byte* data() const {
    std::byte* data = data_.load(std::memory_order_acquire);
    return data != nullptr ? data : make_data();
  }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_wrapped() const { return wrapped_; }
  /// Returns whether header and buffer share one block.
  bool is_inline() const {
    return data_.load(std::memory_order_relaxed) == reinterpret_cast<const std::byte*>(this + 1);
  }

  bool is_packed() const { return data_.load(std::memory_order_relaxed) == nullptr && bytes_ > 0; }
  bool can_be_packed() const {
    return !is_wrapped() && !is_inline() && !is_packed() && !stays_in_order() && !is_small_;
  }
  bool stays_in_order() const { return stays_in_order_.load(std::memory_order_relaxed); }
  /// Forbids packed layouts of this storage: a recorded CUDA graph or the program uses the address.
  void keep_in_order() { stays_in_order_.store(true, std::memory_order_relaxed); }
  /// Returns whether the program may write to the memory through an address, which version() does
  /// not count.
  bool is_exposed() const { return wrapped_ || stays_in_order(); }
  /// Declares that the buffer holds values in this packed layout. The values must be new: no other
  /// thread may have access to the storage.
  void set_packed(const Packing& packing);
  /// The values in their packed layout; nullopt if they are in row-major order.
  struct PackedValues {
    RefPtr<TensorStorage> buffer;  // keeps the packed values alive even if another thread unpacks
                                   // the storage
    Packing packing;
  };
  std::optional<PackedValues> packed() const;
  /// Converts packed storages outside the CPU to row-major order if is_chosen() returns true.
  static void unpack_all(const std::function<bool(const TensorStorage& packed)>& is_chosen);

  /// Returns whether the recorder decides when the storage has memory.
  bool is_deferred() const { return is_deferred_; }
  bool has_memory() const {
    return data_.load(std::memory_order_relaxed) != nullptr || packed_ != nullptr;
  }
  /// Gives a deferred storage uninitialised memory, unless it has memory. Only for the recorder.
  void give_memory();
  /// Lets a deferred storage use memory of the recorder in place of its own. Only for the recorder.
  void place(std::byte* memory) {
    if (!is_placed_ || data_.load(std::memory_order_relaxed) != memory) move_to(memory);
  }
  /// Returns whether the values, in any layout, are in memory of the recorder.
  bool is_placed() const { return is_placed_; }
  /// Takes the memory of a deferred storage away, if it has any. Only for the recorder.
  void take_memory();
  /// Turns a deferred storage into an ordinary one. Only for the recorder.
  void settle();
  /// Moves the values of a deferred storage, in row-major order, to a new ordinary storage, and
  /// leaves the deferred one without memory. The memory must not belong to the recorder. Only for
  /// the recorder.
  RefPtr<TensorStorage> hand_over();
  /// Adds to the number of owners that are recorded calls; has_one_owner() ignores these owners.
  void lend(int calls) { lent_.fetch_add(uint32_t(calls), std::memory_order_relaxed); }
  bool has_one_owner() const { return owners() == 1 + lent_.load(std::memory_order_relaxed); }
  bool is_only_lent() const { return owners() == lent_.load(std::memory_order_relaxed); }

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() {
    if (!inference_) version_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Returns whether the storage was created in InferenceMode (core/tape/recording.h); its writes
  /// are not counted.
  bool is_inference() const { return inference_; }

 private:
  TensorStorage(std::byte* data, size_t bytes, Device device);
  [[gnu::cold]] static RefPtr<TensorStorage> create_deferred(size_t bytes, Device device);
  [[gnu::cold]] std::byte* make_data() const;
  void move_to(std::byte* memory);
  void forget_packed() const;  // requires the lock of storage.cpp

  std::atomic<uint32_t> version_{0};
  Device device_;
  bool wrapped_ = false;
  std::atomic<bool> stays_in_order_{false};  // any thread may take the address
  bool is_deferred_ = false;
  bool is_small_ = false;  // deferred and small enough to be inline
  mutable bool is_placed_ = false;
  std::atomic<uint32_t> lent_{0};
  const bool inference_;
  size_t bytes_;
  mutable std::atomic<std::byte*> data_;
  mutable PackedValues* packed_ = nullptr;
  std::function<void()>* release_ = nullptr;
};

}  // namespace tapegrad
