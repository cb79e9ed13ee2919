#include "core/dispatcher.h"

#include <mutex>

#include "core/error.h"

namespace tapegrad {

// Defined in backends/cpu/register.cpp; this reference is what pulls the backend out of an archive.
namespace backends::cpu {
void register_kernels();
}

namespace {

constinit std::atomic<void (*)()> loaders[kDeviceTypeCount] = {&backends::cpu::register_kernels};

void load_backend(DeviceType device) {
  static std::recursive_mutex mutex;
  std::lock_guard lock(mutex);
  if (auto loader = loaders[int(device)].exchange(nullptr)) loader();
}

}  // namespace

void set_backend_loader(DeviceType device, void (*loader)()) { loaders[int(device)] = loader; }

std::string KernelTable::registered() const {
  std::string text;
  for (int device = 0; device < kDeviceTypeCount; ++device) {
    std::string types;
    for (int dtype = 0; dtype < kDTypeCount; ++dtype)
      if (has(DeviceType(device), DType(dtype)))
        types.append(types.empty() ? "" : ", ").append(kDTypeNames[dtype]);
    if (types.empty()) continue;
    text.append(text.empty() ? "" : ", ").append(kDeviceTypeNames[device]);
    text.append(" {").append(types).append("}");
  }
  return text.empty() ? "none" : text;
}

KernelTable::AnyFunction KernelTable::load_backend_and_find(DeviceType device, DType dtype) const {
  load_backend(device);
  AnyFunction function = slots_[int(device)][int(dtype)].load(std::memory_order_acquire);
  if (function == nullptr)
    fail<KernelError>(name_, ": no kernel for ", tapegrad::name(device), ' ', tapegrad::name(dtype),
                      "; registered: ", registered());
  return function;
}

}  // namespace tapegrad
