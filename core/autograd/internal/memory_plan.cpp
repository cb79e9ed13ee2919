#include "core/autograd/internal/memory_plan.h"

#include <algorithm>
#include <map>

namespace tapegrad {
namespace {

constexpr size_t kSmallValue = 1024;  // most bytes of a small value
// Places of values of at least kWideValue bytes have the alignment of such blocks of memory
// (core/base/allocator.cpp).
constexpr size_t kPlaceAlign = 64, kWideAlign = 512, kWideValue = 8192;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
size_t aligned(size_t bytes) {
  return round_up(bytes, bytes < kWideValue ? kPlaceAlign : kWideAlign);
}

/// Returns the largest number of bytes needed in one step.
size_t most_at_once(const std::vector<PlannedValue>& values) {
  size_t steps = 0;
  for (const PlannedValue& value : values) steps = std::max(steps, value.last + 2);
  std::vector<std::ptrdiff_t> change(steps);
  for (const PlannedValue& value : values) {
    change[value.first] += std::ptrdiff_t(aligned(value.bytes));
    change[value.last + 1] -= std::ptrdiff_t(aligned(value.bytes));
  }
  std::ptrdiff_t sum = 0, most = 0;
  for (const std::ptrdiff_t bytes : change) most = std::max(most, sum += bytes);
  return size_t(most);
}

}  // namespace

MemoryPlan plan_memory(const std::vector<PlannedValue>& values) {
  MemoryPlan plan;
  plan.offsets.resize(values.size());
  plan.least = most_at_once(values);

  std::vector<size_t> small, large;
  for (size_t i = 0; i < values.size(); ++i)
    (values[i].bytes <= kSmallValue ? small : large).push_back(i);
  std::ranges::stable_sort(large, std::greater(), [&](size_t i) { return values[i].bytes; });
  std::vector<size_t> placed;  // in the order of their offsets
  for (const size_t i : large) {
    const size_t bytes = aligned(values[i].bytes);
    size_t offset = 0;
    for (const size_t other : placed) {
      if (values[other].last < values[i].first || values[other].first > values[i].last) continue;
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + aligned(values[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.insert(
        std::ranges::upper_bound(placed, offset, {}, [&](size_t k) { return plan.offsets[k]; }), i);
  }

  std::ranges::stable_sort(small, {}, [&](size_t i) { return values[i].first; });
  std::map<size_t, std::multimap<size_t, size_t>> slots;  // by size: last step of use -> offset
  for (const size_t i : small) {
    const size_t bytes = aligned(values[i].bytes);
    auto& used = slots[bytes];
    // The slot that became free last is the most likely one to be in the cache.
    auto slot = used.lower_bound(values[i].first);
    size_t offset = plan.bytes;
    if (slot != used.begin()) {
      offset = (--slot)->second;
      used.erase(slot);
    } else {
      plan.bytes += bytes;
    }
    used.emplace(values[i].last, offset);
    plan.offsets[i] = offset;
  }
  return plan;
}

}  // namespace tapegrad
