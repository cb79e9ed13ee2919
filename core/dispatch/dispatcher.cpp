#include "core/dispatch/dispatcher.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "core/base/error.h"
#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/internal/backends.h"

namespace tapegrad {

namespace {

constinit std::atomic<void (*)()> loaders[kDeviceTypeCount] = {&backends::cpu::register_kernels,
                                                               &backends::cuda::register_kernels};

/// State of the cold paths. Never destroyed: kernels may run while the program ends.
struct Shared {
  std::recursive_mutex mutex;  // recursive: held while a loader registers kernels
  std::vector<std::atomic<KernelTable::AnyFunction>*> filled;  // slots that are not empty
  std::vector<DispatchLog*> logs;                              // those that live
};

Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

void load_backend(DeviceType device) {
  auto loader = loaders[int(device)].exchange(nullptr);
  if (loader == nullptr) return;
  try {
    loader();
  } catch (...) {
    loaders[int(device)] = loader;  // so that the next call reports the error again
    throw;
  }
}

}  // namespace

void set_backend_loader(DeviceType device, void (*loader)()) { loaders[int(device)] = loader; }

void KernelTable::set(DeviceType device, DType dtype, AnyFunction function) {
  const std::lock_guard lock(shared().mutex);
  std::atomic_ref(registered_[int(device)][int(dtype)]).store(function, std::memory_order_release);
  slots_[int(device)][int(dtype)] = nullptr;
}

// Does not lock, because ops call it on their hot path.
bool KernelTable::has(DeviceType device, DType dtype) const {
  auto& function = const_cast<AnyFunction&>(registered_[int(device)][int(dtype)]);
  return std::atomic_ref(function).load(std::memory_order_acquire) != nullptr;
}

int64_t KernelTable::bytes_of(const Tensor& x) {
  int64_t count = x ? 1 : 0;
  for (int dim = 0; dim < x.rank(); ++dim)
    if (x.strides()[dim] != 0 || x.shape()[dim] == 0) count *= x.shape()[dim];
  return count * size_of(x.dtype());
}

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

KernelTable::AnyFunction KernelTable::find_registered(DeviceType device, DType dtype) const {
  const std::lock_guard lock(shared().mutex);
  load_backend(device);
  const AnyFunction function = registered_[int(device)][int(dtype)];
  if (function == nullptr)
    fail<KernelError>(name_, ": no kernel for ", tapegrad::name(device), ' ', tapegrad::name(dtype),
                      "; registered: ", registered());
  auto& slot = slots_[int(device)][int(dtype)];
  if (shared().logs.empty()) {
    shared().filled.push_back(&slot);
    slot.store(function, std::memory_order_release);
    return function;
  }
  std::string entry(tapegrad::name(device));
  entry.append("/").append(tapegrad::name(dtype)).append("/").append(name_);
  for (DispatchLog* log : shared().logs) {
    const auto known = std::find_if(log->entries_.begin(), log->entries_.end(),
                                    [&](const auto& other) { return other.name == entry; });
    if (known == log->entries_.end())
      log->entries_.push_back({entry, 1});
    else
      ++known->calls;
  }
  return function;
}

DispatchLog::DispatchLog() {
  const std::lock_guard lock(shared().mutex);
  shared().logs.push_back(this);
  for (auto* slot : shared().filled) slot->store(nullptr);
  shared().filled.clear();
}

DispatchLog::~DispatchLog() {
  const std::lock_guard lock(shared().mutex);
  std::erase(shared().logs, this);
}

std::vector<std::string> DispatchLog::kernels() const {
  const std::lock_guard lock(shared().mutex);
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

int64_t DispatchLog::calls(std::string_view kernel) const {
  const std::lock_guard lock(shared().mutex);
  int64_t count = 0;
  for (const Entry& entry : entries_)
    if (entry.name.substr(entry.name.rfind('/') + 1) == kernel) count += entry.calls;
  return count;
}

int64_t DispatchLog::calls() const {
  const std::lock_guard lock(shared().mutex);
  int64_t count = 0;
  for (const Entry& entry : entries_) count += entry.calls;
  return count;
}

}  // namespace tapegrad
