#include "ledger.h"

#include <link.h>

#include <algorithm>
#include <cstdio>

#include "core/base/device.h"

namespace coh {
namespace {

using tapegrad::Device;
using tapegrad::DeviceType;
using tapegrad::KernelWork;

Ledger* ledger = nullptr;

/// Returns the address at which the program is loaded.
std::uintptr_t base_of_program() {
  std::uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
        return 1;  // the program is the first object
      },
      &base);
  return base;
}

std::string text_of(const Accesses& a) {
  std::string text;
  for (const std::int64_t number : {a.count, a.lanes, a.units, a.fewest})
    text.append("\t").append(std::to_string(number));
  return text;
}

void add(const Traffic& traffic, Traffic& sum) {
  sum.device += traffic.device;
  sum.shared += traffic.shared;
  sum.read += traffic.read;
  sum.written += traffic.written;
  for (const InstructionTraffic& each : traffic.instructions) {
    const auto known = std::find_if(sum.instructions.begin(), sum.instructions.end(),
                                    [&](const InstructionTraffic& other) {
                                      return other.pc == each.pc && other.is_store == each.is_store;
                                    });
    if (known == sum.instructions.end())
      sum.instructions.push_back(each);
    else
      known->accesses += each.accesses;
  }
}

}  // namespace

struct Ledger::CountingAllocator final : tapegrad::Allocator {
  tapegrad::Allocator& inner = tapegrad::allocator(DeviceType::kCuda);
  std::int64_t count = 0, bytes = 0;

  void* allocate(size_t size, Device device) override {
    ++count;
    bytes += std::int64_t(size);
    return inner.allocate(size, device);
  }
  void deallocate(void* block, size_t size, Device device) noexcept override {
    inner.deallocate(block, size, device);
  }
  tapegrad::MemoryStats stats(Device device) const override { return inner.stats(device); }
  void reset_peak(Device device) override { inner.reset_peak(device); }
  void set_limit(int64_t limit, Device device) override { inner.set_limit(limit, device); }
  void empty_cache(Device device) override { inner.empty_cache(device); }
};

Ledger::Ledger() : allocator_(new CountingAllocator) {
  tapegrad::set_allocator(DeviceType::kCuda, allocator_);
  ledger = this;
  observer = this;
}

Ledger::~Ledger() {
  observer = nullptr;
  ledger = nullptr;
  tapegrad::set_allocator(DeviceType::kCuda, &allocator_->inner);
  delete allocator_;
}

void Ledger::begin_call(const KernelWork& work) {
  if (open_.empty()) call_ = {.calls = 1, .work = work};
  open_.emplace_back();
}

void Ledger::end_call() {
  // A log has the entries of inner calls, too, possibly before that of its own call.
  const Open ended = std::move(open_.back());
  open_.pop_back();
  std::string name = "?";
  for (const std::string& entry : ended.log->kernels()) {
    const std::string kernel = entry.substr(entry.rfind('/') + 1);
    const std::int64_t calls = ended.log->calls(kernel);
    const auto inner = ended.inner.find(kernel);
    if (name == "?" && calls > (inner != ended.inner.end() ? inner->second : 0)) name = entry;
    if (!open_.empty()) open_.back().inner[kernel] += calls;
  }
  if (!open_.empty() || name.starts_with("cpu/")) return;
  name.erase(0, name.find('/') + 1);
  CallRow& sum = calls_[name];
  sum.calls += call_.calls;
  sum.launches += call_.launches;
  sum.library_calls += call_.library_calls;
  sum.work.bytes += call_.work.bytes;
  sum.work.flops += call_.work.flops;
  for (const Launch& launch : launches_) {
    sum.moved += launch.traffic.read + launch.traffic.written;
    add(name, launch);
  }
  launches_.clear();
}

void Ledger::add(const std::string& call, const Launch& launch) {
  KernelRow& row = kernels_[{call, launch.kernel}];
  ++row.launches;
  row.threads = std::max(row.threads, launch.threads);
  row.shared = std::max(row.shared, launch.shared);
  coh::add(launch.traffic, row.traffic);
}

void Ledger::begin_kernel(void (*kernel)(), dim3, dim3 block, std::size_t shared) {
  is_idle_ = false;
  ++call().launches;
  running_ = {kernel, std::int64_t{block.x} * block.y * block.z, std::int64_t(shared), {}};
  begin_counting(shared);
}

void Ledger::end_kernel() {
  running_.traffic = end_counting();
  if (!open_.empty())
    launches_.push_back(std::move(running_));
  else
    add("-", running_);
}

void Ledger::on_library_call() {
  is_idle_ = false;
  ++call().library_calls;
}

void Ledger::on_copy(std::size_t bytes) {
  is_idle_ = false;
  ++copies_;
  copied_ += std::int64_t(bytes);
}

void Ledger::on_wait() { waits_ += !std::exchange(is_idle_, true); }

void Ledger::print(const std::string& name) const {
  CallRow all = outside_;
  for (const auto& [call, row] : calls_) {
    all.launches += row.launches;
    all.library_calls += row.library_calls;
  }
  const std::int64_t step[] = {all.launches, all.library_calls, waits_,           copies_,
                               copied_,      allocator_->count, allocator_->bytes};
  std::string text = "step\t" + name;
  for (const std::int64_t number : step) text.append("\t").append(std::to_string(number));
  std::puts(text.c_str());
  for (const auto& [call, row] : calls_) {
    text = "call\t" + name + "\t" + call;
    for (const std::int64_t number :
         {row.calls, row.launches, row.library_calls, row.work.bytes, row.work.flops, row.moved})
      text.append("\t").append(std::to_string(number));
    std::puts(text.c_str());
  }
  const std::uintptr_t base = base_of_program();
  const auto place = [&](auto* address) {
    return reinterpret_cast<std::uintptr_t>(address) - base;
  };
  for (const auto& [key, row] : kernels_) {
    const void* worst = nullptr;
    std::int64_t most = 0;
    for (const InstructionTraffic& each : row.traffic.instructions)
      if (!each.is_shared && each.accesses.units - each.accesses.fewest > most) {
        most = each.accesses.units - each.accesses.fewest;
        worst = each.pc;
      }
    std::printf("kernel\t%s\t%s\t%zx\t%lld\t%lld\t%lld%s%s\t%lld\t%lld\t%zx\n", name.c_str(),
                key.first.c_str(), std::size_t(place(key.second)), (long long)row.launches,
                (long long)row.threads, (long long)row.shared, text_of(row.traffic.device).c_str(),
                text_of(row.traffic.shared).c_str(), (long long)row.traffic.read,
                (long long)row.traffic.written, worst != nullptr ? std::size_t(place(worst)) : 0);
  }
  std::fflush(stdout);
}

}  // namespace coh

// The linker replaces the calls of KernelSpan's constructor and destructor, which every observed
// kernel call makes, by these functions (--wrap).
extern "C" {
void __real__ZN8tapegrad10KernelSpanC1ERKNS_10KernelWorkE(void* span,
                                                          const tapegrad::KernelWork& work);
void __real__ZN8tapegrad10KernelSpanD1Ev(void* span);

void __wrap__ZN8tapegrad10KernelSpanC1ERKNS_10KernelWorkE(void* span,
                                                          const tapegrad::KernelWork& work) {
  __real__ZN8tapegrad10KernelSpanC1ERKNS_10KernelWorkE(span, work);
  if (coh::ledger != nullptr) coh::ledger->begin_call(work);
}
void __wrap__ZN8tapegrad10KernelSpanD1Ev(void* span) {
  if (coh::ledger != nullptr) coh::ledger->end_call();
  __real__ZN8tapegrad10KernelSpanD1Ev(span);
}
}
