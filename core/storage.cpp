#include "core/storage.h"

#include <memory>
#include <new>

#include "core/allocator.h"
#include "core/pool.h"
#include "core/tape.h"

namespace tapegrad {
namespace {

constexpr size_t kInlineBytes = 1024 - sizeof(Storage);

}  // namespace

inline Storage::Storage(std::byte* data, size_t bytes, Device device)
    : device_(device), inference_(is_inference_mode()), bytes_(bytes), data_(data) {}

Ref<Storage> Storage::create(size_t bytes, Device device) {
  if (device.type == DeviceType::kCpu && bytes <= kInlineBytes) [[likely]] {
    void* block = pool_allocate(sizeof(Storage) + bytes);
    auto* data = static_cast<std::byte*>(block) + sizeof(Storage);
    return Ref<Storage>::adopt(new (block) Storage(data, bytes, device));
  }
  void* header = pool_allocate(sizeof(Storage));
  std::byte* data = nullptr;
  try {
    data = static_cast<std::byte*>(allocator(device.type).allocate(bytes, device));
  } catch (...) {
    pool_free(header, sizeof(Storage));
    throw;
  }
  return Ref<Storage>::adopt(new (header) Storage(data, bytes, device));
}

Ref<Storage> Storage::wrap(void* data, size_t bytes, Device device, std::function<void()> release) {
  auto hook = release ? std::make_unique<std::function<void()>>(std::move(release)) : nullptr;
  void* header = pool_allocate(sizeof(Storage));
  auto* storage = new (header) Storage(static_cast<std::byte*>(data), bytes, device);
  storage->wrapped_ = true;
  storage->release_ = hook.release();
  return Ref<Storage>::adopt(storage);
}

void Storage::destroy(Storage* storage) {
  if (storage->is_inline()) [[likely]] {
    const size_t bytes = sizeof(Storage) + storage->bytes_;
    storage->~Storage();
    return pool_free(storage, bytes);
  }
  if (storage->wrapped_) {
    const std::unique_ptr<std::function<void()>> release(storage->release_);
    if (release) (*release)();
  } else {
    allocator(storage->device_.type).deallocate(storage->data_, storage->bytes_, storage->device_);
  }
  storage->~Storage();
  pool_free(storage, sizeof(Storage));
}

}  // namespace tapegrad
