#include "core/base/storage.h"

#include <memory>
#include <mutex>
#include <new>
#include <unordered_set>

#include "core/base/allocator.h"
#include "core/base/context.h"
#include "core/base/free_list.h"
#include "core/base/internal/call_recorder.h"

namespace tapegrad {
namespace {

constexpr size_t kInlineBytes = 1024 - sizeof(TensorStorage);

// One lock for all storages, because unpacking is rare. Held while memory is allocated for
// unpacking, which may end a recording (core/autograd/internal/capture.h) and thereby unpack
// further storages.
constinit std::recursive_mutex packing;

/// Returns the packed storages of all devices except the CPU. Never destroyed: tensors may outlive
/// the set.
std::unordered_set<const TensorStorage*>& packed_elsewhere() {
  static auto& storages = *new std::unordered_set<const TensorStorage*>;
  return storages;
}

}  // namespace

inline TensorStorage::TensorStorage(std::byte* data, size_t bytes, Device device)
    : device_(device), inference_(detail::context.is_inference), bytes_(bytes), data_(data) {}

RefPtr<TensorStorage> TensorStorage::create(size_t bytes, Device device) {
  if (detail::context.recorder != nullptr) [[unlikely]]
    if (RefPtr<TensorStorage> storage = create_deferred(bytes, device)) return storage;
  if (device.type == DeviceType::kCpu && bytes <= kInlineBytes) [[likely]] {
    void* block = pool_allocate(sizeof(TensorStorage) + bytes);
    auto* data = static_cast<std::byte*>(block) + sizeof(TensorStorage);
    return RefPtr<TensorStorage>::adopt(new (block) TensorStorage(data, bytes, device));
  }
  void* header = pool_allocate(sizeof(TensorStorage));
  std::byte* data = nullptr;
  try {
    data = static_cast<std::byte*>(allocator(device.type).allocate(bytes, device));
  } catch (...) {
    pool_free(header, sizeof(TensorStorage));
    throw;
  }
  return RefPtr<TensorStorage>::adopt(new (header) TensorStorage(data, bytes, device));
}

RefPtr<TensorStorage> TensorStorage::create_deferred(size_t bytes, Device device) {
  if (device.type != DeviceType::kCpu || bytes == 0 || !detail::context.recorder->is_capturing())
    return {};
  auto* storage = new (pool_allocate(sizeof(TensorStorage))) TensorStorage(nullptr, bytes, device);
  storage->is_deferred_ = true;
  storage->is_small_ = bytes <= kInlineBytes;
  return RefPtr<TensorStorage>::adopt(storage);
}

void TensorStorage::give_memory() {
  if (!has_memory())
    data_.store(static_cast<std::byte*>(allocator(device_.type).allocate(bytes_, device_)),
                std::memory_order_release);
}

void TensorStorage::move_to(std::byte* memory) {
  take_memory();
  data_.store(memory, std::memory_order_release);
  is_placed_ = true;
}

void TensorStorage::take_memory() {
  std::byte* data = nullptr;
  if (packed_ != nullptr)
    forget_packed();
  else
    data = data_.exchange(nullptr, std::memory_order_relaxed);
  if (data != nullptr && !is_placed_) allocator(device_.type).deallocate(data, bytes_, device_);
  is_placed_ = false;
}

void TensorStorage::settle() {
  give_memory();
  is_deferred_ = false;
}

RefPtr<TensorStorage> TensorStorage::hand_over() {
  std::byte* values = data();
  void* header = pool_allocate(sizeof(TensorStorage));
  data_.store(nullptr, std::memory_order_relaxed);
  return RefPtr<TensorStorage>::adopt(new (header) TensorStorage(values, bytes_, device_));
}

RefPtr<TensorStorage> TensorStorage::wrap(void* data, size_t bytes, Device device,
                                          std::function<void()> release) {
  auto hook = release ? std::make_unique<std::function<void()>>(std::move(release)) : nullptr;
  void* header = pool_allocate(sizeof(TensorStorage));
  auto* storage = new (header) TensorStorage(static_cast<std::byte*>(data), bytes, device);
  storage->wrapped_ = true;
  storage->release_ = hook.release();
  return RefPtr<TensorStorage>::adopt(storage);
}

void TensorStorage::set_packed(const Packing& order) {
  void* header = pool_allocate(sizeof(TensorStorage));
  std::byte* data = data_.load(std::memory_order_relaxed);
  try {
    packed_ = new PackedValues{
        RefPtr<TensorStorage>::adopt(new (header) TensorStorage(data, bytes_, device_)), order};
    packed_->buffer->wrapped_ = is_placed_;
  } catch (...) {
    pool_free(header, sizeof(TensorStorage));
    throw;
  }
  const std::lock_guard lock(packing);  // guards packed_elsewhere()
  if (device_.type != DeviceType::kCpu) packed_elsewhere().insert(this);
  data_.store(nullptr, std::memory_order_release);
}

std::optional<TensorStorage::PackedValues> TensorStorage::packed() const {
  if (!is_packed()) return {};
  const std::lock_guard lock(packing);
  return packed_ != nullptr ? std::optional(*packed_) : std::nullopt;
}

std::byte* TensorStorage::make_data() const {
  if (is_deferred_ && !has_memory()) {
    auto& self = const_cast<TensorStorage&>(*this);
    if (CallRecorder* recorder = detail::context.recorder) recorder->on_access(self);
    self.give_memory();
  }
  const std::lock_guard lock(packing);
  if (packed_ == nullptr) return data_.load(std::memory_order_acquire);
  std::byte* plain = packed_->packing.unpack(packed_->packing, *packed_->buffer);
  forget_packed();
  is_placed_ = false;
  data_.store(plain, std::memory_order_release);
  return plain;
}

void TensorStorage::unpack_all(const std::function<bool(const TensorStorage& packed)>& is_chosen) {
  const std::lock_guard lock(packing);
  const std::unordered_set<const TensorStorage*> all = packed_elsewhere();
  for (const TensorStorage* storage : all)
    if (packed_elsewhere().contains(storage) && is_chosen(*storage->packed_->buffer))
      storage->make_data();
}

void TensorStorage::forget_packed() const {
  if (device_.type != DeviceType::kCpu) packed_elsewhere().erase(this);
  delete std::exchange(packed_, nullptr);
}

void TensorStorage::destroy(TensorStorage* storage) {
  if (storage->is_inline()) [[likely]] {
    const size_t bytes = sizeof(TensorStorage) + storage->bytes_;
    storage->~TensorStorage();
    return pool_free(storage, bytes);
  }
  if (storage->is_packed()) {
    const std::lock_guard lock(packing);  // another thread's unpack_all() may use this storage
    if (storage->packed_ != nullptr) storage->forget_packed();
  }
  if (storage->wrapped_) {
    const std::unique_ptr<std::function<void()>> release(storage->release_);
    if (release) (*release)();
  } else if (std::byte* data = storage->data_.load(std::memory_order_relaxed);
             data != nullptr && !storage->is_placed_) {
    allocator(storage->device_.type).deallocate(data, storage->bytes_, storage->device_);
  }
  storage->~TensorStorage();
  pool_free(storage, sizeof(TensorStorage));
}

}  // namespace tapegrad
