#include "core/dispatch/dispatcher.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "core/base/error.h"
#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/implementations.h"
#include "core/dispatch/internal/backends.h"

namespace tapegrad {

constinit std::atomic<const detail::OnlyOne*> detail::only_one = nullptr;
constinit std::atomic<int> detail::dispatch_watchers = 0;

namespace {

constinit std::atomic<void (*)()> loaders[kDeviceTypeCount] = {&backends::cpu::register_kernels,
                                                               &backends::cuda::register_kernels};

/// Implementations of one slot, in the order in which they are tried.
struct List {
  const KernelTable* kernel;
  DeviceType device;
  DType dtype;
  std::vector<std::string_view> names;
};

/// State of the cold paths. Never destroyed: kernels may run while the program ends.
struct Shared {
  std::recursive_mutex mutex;  // recursive: held while a loader registers kernels
  std::vector<std::atomic<KernelTable::AnyFunction>*> filled;  // slots that are not empty
  std::vector<DispatchLog*> logs;                              // live logs
  std::vector<List> lists;                                     // lists of slots that have one

  auto list_of(const KernelTable* kernel, DeviceType device, DType dtype) {
    return std::find_if(lists.begin(), lists.end(), [&](const List& list) {
      return list.kernel == kernel && list.device == device && list.dtype == dtype;
    });
  }
};

Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

std::string name_of(const KernelTable& kernel, DeviceType device, DType dtype) {
  std::string text(name(device));
  return text.append("/").append(name(dtype)).append("/").append(kernel.name());
}

/// If the environment sets TAPEGRAD_FAST_PATHS=0, only fallbacks run.
void read_environment() {
  static const detail::OnlyOne last{};
  [[maybe_unused]] static const bool read = [] {
    const char* text = std::getenv("TAPEGRAD_FAST_PATHS");
    if (text != nullptr && std::string_view(text) == "0") detail::only_one = &last;
    return true;
  }();
}

void load_backend(DeviceType device) {
  auto loader = loaders[int(device)].exchange(nullptr);
  if (loader == nullptr) return;
  read_environment();
  try {
    loader();
    backends::register_narrow_integers(device);
  } catch (...) {
    loaders[int(device)] = loader;  // so that the next call reports the error again
    throw;
  }
}

}  // namespace

void set_backend_loader(DeviceType device, void (*loader)()) { loaders[int(device)] = loader; }

void KernelTable::set(DeviceType device, DType dtype, AnyFunction function,
                      const SlotTraits& traits) {
  const std::lock_guard lock(shared().mutex);
  auto& lists = shared().lists;
  if (const auto old = shared().list_of(this, device, dtype); old != lists.end()) lists.erase(old);
  if (!traits.implementations.empty())
    lists.push_back({this, device, dtype, traits.implementations});
  takes_packed_[int(device)][int(dtype)] = traits.takes_packed;
  parts_[int(device)][int(dtype)] = traits.parts;
  accepts_[int(device)][int(dtype)] = traits.accepts;
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
  if (shared().list_of(this, device, dtype) == shared().lists.end())
    DispatchLog::note(name_of(*this, device, dtype));
  return function;
}

void detail::note_implementation(const KernelTable& kernel, DeviceType device, DType dtype,
                                 std::string_view name) {
  KernelSpan::note(kernel.name(), name);
  const std::lock_guard lock(shared().mutex);
  if (shared().logs.empty()) return;
  const std::string entry = name_of(kernel, device, dtype).append(":").append(name);
  DispatchLog::note(entry);
  if (name == kByCpu) DispatchLog::note_copied(entry);
}

void detail::fail_unaccepted(const KernelTable& kernel, DeviceType device, DType dtype) {
  fail<KernelError>(kernel.name(), ": no implementation for ", name(device), ' ', name(dtype),
                    " accepts the arguments");
}

std::vector<std::string> implementations() {
  const std::lock_guard lock(shared().mutex);
  std::vector<std::string> texts;
  for (const List& list : shared().lists)
    for (const std::string_view name : list.names)
      texts.push_back(name_of(*list.kernel, list.device, list.dtype).append(":").append(name));
  return texts;
}

bool only_fallbacks() {
  read_environment();
  const detail::OnlyOne* only = detail::only_one.load();
  return only != nullptr && only->kernel.empty() && only->implementation.empty();
}

OnlyImplementation::OnlyImplementation(std::string_view kernel, std::string_view name)
    : only_{std::string(kernel), std::string(name)} {
  read_environment();
  before_ = detail::only_one.exchange(&only_);
}

OnlyImplementation::~OnlyImplementation() { detail::only_one = before_; }

void DispatchLog::note(const std::string& entry) {
  for (DispatchLog* log : shared().logs) {
    const auto known = std::find_if(log->entries_.begin(), log->entries_.end(),
                                    [&](const auto& other) { return other.name == entry; });
    if (known == log->entries_.end())
      log->entries_.push_back({entry, 1});
    else
      ++known->calls;
  }
}

void DispatchLog::note_copied(const std::string& entry) {
  for (DispatchLog* log : shared().logs)
    for (Entry& known : log->entries_)
      if (known.name == entry) known.is_copied = true;
}

DispatchLog::DispatchLog() {
  const std::lock_guard lock(shared().mutex);
  shared().logs.push_back(this);
  ++detail::dispatch_watchers;
  for (auto* slot : shared().filled) slot->store(nullptr);
  shared().filled.clear();
}

DispatchLog::~DispatchLog() {
  const std::lock_guard lock(shared().mutex);
  std::erase(shared().logs, this);
  --detail::dispatch_watchers;
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
  for (const Entry& entry : entries_) {
    const std::string_view name = std::string_view(entry.name).substr(entry.name.rfind('/') + 1);
    if (name == kernel || name.substr(0, name.find(':')) == kernel) count += entry.calls;
  }
  return count;
}

int64_t DispatchLog::calls() const {
  const std::lock_guard lock(shared().mutex);
  int64_t count = 0;
  for (const Entry& entry : entries_) count += entry.calls;
  return count;
}

std::string DispatchLog::explain() const {
  const Device chosen = default_device();
  std::string on_cpu = "its operands are on the CPU";
  if (chosen != cpu)
    on_cpu += ", although the default device is " + to_string(chosen);
  else if (is_available(gpu))
    on_cpu += ", the default device; there is a GPU: see set_default_device() and to()";
  const std::lock_guard lock(shared().mutex);
  std::vector<std::array<std::string, 5>> rows{{"where", "kernel", "dtype", "calls", "why"}};
  for (const Entry& entry : entries_) {
    const size_t first = entry.name.find('/'), second = entry.name.find('/', first + 1);
    const std::string where = entry.name.substr(0, first);
    rows.push_back({where, entry.name.substr(second + 1),
                    entry.name.substr(first + 1, second - first - 1), std::to_string(entry.calls),
                    entry.is_copied  ? "copied to the CPU and back: no kernel for a GPU"
                    : where == "cpu" ? on_cpu
                                     : "its operands are there"});
  }
  std::array<size_t, 5> widths{};
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      text += (i == 3 ? gap + row[i] : row[i] + gap) + "  ";
    }
    text += row.back() + '\n';
  }
  return text;
}

}  // namespace tapegrad
