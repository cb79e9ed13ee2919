#include "core/autograd/internal/repetition_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tapegrad {
namespace {

constexpr size_t kFewestBytes = size_t(64) << 10;  // of a value that is worth a repetition
constexpr size_t kMostRepeated = 3;                // that compute one value

// Of a value of which a segment computes another copy instead of reading it: its bytes, and the
// largest share of them that the operands have, if they are read for the copy only, and if they
// have to remain in memory longer.
constexpr size_t kFewestRecomputed = size_t(256) << 10;
constexpr size_t kShareRead = 2, kShareKept = 8;

/// Elementwise kernels that take less time than writing their result beyond the first-level cache
/// and reading it again.
constexpr std::string_view kFew[] = {"add", "sub",  "mul",        "neg",
                                     "abs", "relu", "leaky_relu", "square"};

/// Kernels, besides elementwise kernels, that take little more time than reading their operands.
constexpr std::string_view kCheap[] = {"batch_norm", "layer_norm"};

/// Returns whether the sums of the kernel have another order if an operand has another layout in
/// memory. Any use of the operand may change the layout.
bool depends_on_layout(const RecordedCall& call) {
  return call.name() == "batch_norm" && call.parts() != Parts::kElements;
}

bool is_cheap(const RecordedCall& call) {
  return call.parts() == Parts::kElements ||
         std::ranges::find(kCheap, call.name()) != std::end(kCheap);
}

bool has_few_operations(const StepCall& step) {
  return step.call->parts() == Parts::kElements && step.packed.empty() &&
         std::ranges::find(kFew, step.call->name()) != std::end(kFew);
}

/// Accesses of the calls to a storage.
struct Value {
  TensorStorage* storage;
  bool is_temporary;
  std::vector<size_t> uses, writes;  // calls, ascending
  std::vector<size_t> makers = {};   // the calls that compute the value, if they can be repeated
  size_t split = SIZE_MAX;           // the use before which they are repeated

  /// Returns whether the value is in memory when the call begins.
  bool is_there(size_t call) const {
    if (!is_temporary) return true;
    if (call < uses.front() || call > uses.back()) return false;
    return split == SIZE_MAX || call >= split || call <= last_before(split);
  }
  size_t last_before(size_t use) const { return *std::prev(std::ranges::lower_bound(uses, use)); }
  bool is_written(size_t after, size_t before) const {
    return std::ranges::any_of(writes, [&](size_t i) { return i > after && i < before; });
  }
  bool is_used(size_t after, size_t before) const {
    return std::ranges::any_of(uses, [&](size_t i) { return i > after && i < before; });
  }
};

class RepetitionPlanner {
 public:
  RepetitionPlanner(const std::vector<StepCall>& calls,
                    const std::function<bool(const TensorStorage&)>& is_temporary)
      : calls_(calls), operands_(calls.size()) {
    for (size_t i = 0; i < calls.size(); ++i)
      each_tensor(*calls[i].call, [&](Tensor& x, bool is_written) {
        const auto [found, is_new] = numbers_.try_emplace(&x.storage(), values_.size());
        if (is_new) values_.push_back({&x.storage(), is_temporary(x.storage()), {}, {}});
        Value& value = values_[found->second];
        if (value.uses.empty() || value.uses.back() != i) {
          value.uses.push_back(i);
          operands_[i].push_back(found->second);
        }
        if (is_written && (value.writes.empty() || value.writes.back() != i))
          value.writes.push_back(i);
      });
    for (Value& value : values_) find_makers(value);
  }

  std::vector<Repetition> run(double share) {
    const auto goal = size_t(double(peak().bytes) * share);
    for (Peak now = peak(); now.bytes > goal; now = peak())
      if (!split_at(now.call)) break;
    return plan();
  }

  std::vector<Repetition> run(const std::vector<StepGroup>& groups) {
    constexpr size_t kNone = SIZE_MAX;
    std::vector<size_t> segment(calls_.size(), kNone);  // of each call
    for (size_t i = 0; i < groups.size(); ++i)
      if (groups[i].calls.size() > 1)
        for (const size_t call : groups[i].calls) segment[call] = i;
    for (Value& value : values_) {
      if (value.makers.empty() || value.storage->bytes() < kFewestRecomputed) continue;
      const size_t home = segment[value.makers[0]];
      const auto is_home = [&](size_t call) { return segment[call] == home; };
      const auto next = std::ranges::find_if_not(value.uses, is_home);
      if (home == kNone || next == value.uses.end() || segment[*next] == kNone) continue;
      const bool moves = std::all_of(next, value.uses.end(),
                                     [&](size_t use) { return segment[use] == segment[*next]; });
      const bool has_few = std::ranges::all_of(value.makers, [&](size_t maker) {
        return is_home(maker) && has_few_operations(calls_[maker]);
      });
      if (moves && has_few && is_cheaper(value, *next, segment)) value.split = *next;
    }
    return plan();
  }

 private:
  struct Peak {
    size_t call, bytes;
  };

  std::vector<Repetition> plan() const {
    std::vector<Repetition> plan;
    for (const Value& value : values_)
      if (value.split != SIZE_MAX) plan.push_back({value.storage, value.makers, value.split});
    std::ranges::sort(plan, {},
                      [](const Repetition& r) { return std::pair(r.before, r.calls[0]); });
    return plan;
  }

  /// Returns whether the segment of the use can compute the value with less traffic of memory than
  /// by reading it. `segment` has the segments of the calls.
  bool is_cheaper(const Value& value, size_t use, const std::vector<size_t>& segment) const {
    const size_t bytes = value.storage->bytes();
    size_t read = 0, kept = 0;
    for (const size_t maker : value.makers)
      for (const size_t number : operands_[maker]) {
        const Value& operand = values_[number];
        if (&operand == &value) continue;
        if (operand.is_written(maker, use) || std::ranges::binary_search(operand.writes, maker))
          return false;
        if (operand.split != SIZE_MAX) {  // it is computed again as well, if in the same segment
          if (operand.split > use || segment[operand.split] != segment[use]) return false;
          continue;
        }
        const size_t size = operand.storage->bytes();
        if (!operand.is_there(use)) kept += size;
        const bool is_read = std::ranges::any_of(
            operand.uses, [&](size_t call) { return segment[call] == segment[use]; });
        if (!is_read) read += size;
      }
    return read <= bytes / kShareRead && kept <= bytes / kShareKept;
  }

  /// The calls that write the value must be its first uses, and must be cheap.
  void find_makers(Value& value) const {
    if (!value.is_temporary || value.storage->bytes() < kFewestBytes || value.writes.empty() ||
        value.writes.size() > kMostRepeated || value.uses.size() <= value.writes.size())
      return;
    for (size_t i = 0; i < value.writes.size(); ++i)
      if (value.uses[i] != value.writes[i] || !is_cheap(*calls_[value.writes[i]].call)) return;
    for (const size_t maker : value.writes)
      if (calls_[maker].call->copy() == nullptr) return;
    if (!is_of_one_dtype(value)) return;
    value.makers = value.writes;
  }
  bool is_of_one_dtype(const Value& value) const {
    bool is_equal = true;
    std::optional<DType> dtype;
    for (const size_t use : value.uses)
      each_tensor(*calls_[use].call, [&](Tensor& x, bool) {
        if (&x.storage() != value.storage) return;
        is_equal &= !dtype || *dtype == x.dtype();
        dtype = x.dtype();
      });
    return is_equal;
  }

  Peak peak() const {
    std::vector<std::ptrdiff_t> change(calls_.size() + 1);
    const auto add = [&](const Value& value, size_t first, size_t last) {
      change[first] += std::ptrdiff_t(value.storage->bytes());
      change[last + 1] -= std::ptrdiff_t(value.storage->bytes());
    };
    for (const Value& value : values_) {
      if (!value.is_temporary) continue;
      if (value.split == SIZE_MAX) {
        add(value, value.uses.front(), value.uses.back());
      } else {
        add(value, value.uses.front(), value.last_before(value.split));
        add(value, value.split, value.uses.back());
      }
    }
    Peak peak{0, 0};
    std::ptrdiff_t sum = 0;
    for (size_t i = 0; i < calls_.size(); ++i)
      if (sum += change[i]; size_t(sum) > peak.bytes) peak = {i, size_t(sum)};
    return peak;
  }

  /// Lets the largest value that is in memory at the call, but not used by it, be computed again
  /// afterwards. Returns false if there is none.
  bool split_at(size_t call) {
    Value* best = nullptr;
    size_t best_use = 0;
    for (Value& value : values_) {
      if (value.makers.empty() || value.split != SIZE_MAX || value.makers.back() >= call) continue;
      const auto next = std::ranges::lower_bound(value.uses, call);
      if (next == value.uses.end() || *next == call) continue;
      if (best != nullptr && value.storage->bytes() <= best->storage->bytes()) continue;
      if (!can_repeat(value, *next) || is_needed_between(value, *next)) continue;
      best = &value;
      best_use = *next;
    }
    if (best != nullptr) best->split = best_use;
    return best != nullptr;
  }

  /// Returns whether the operands of the makers have the same values before the use. Operands that
  /// are computed again themselves must be so before an earlier use.
  bool can_repeat(const Value& value, size_t use) const {
    for (const size_t maker : value.makers)
      for (const size_t number : operands_[maker]) {
        const Value& operand = values_[number];
        if (&operand == &value) continue;
        const bool is_result = std::ranges::binary_search(operand.writes, maker);
        if (is_result) {
          if (!operand.is_temporary || calls_[maker].call->parts() == Parts::kElements)
            return false;
          continue;
        }
        if (operand.split == use || !operand.is_there(use) || operand.is_written(maker, use))
          return false;
        if (depends_on_layout(*calls_[maker].call) && operand.is_temporary &&
            operand.is_used(maker, use))
          return false;
      }
    return true;
  }

  /// Returns whether a repetition of other calls needs the value where the split takes it away.
  bool is_needed_between(const Value& value, size_t split) const {
    return std::ranges::any_of(values_, [&](const Value& other) {
      return other.split != SIZE_MAX && other.split > value.last_before(split) &&
             other.split <= split && std::ranges::any_of(other.makers, [&](size_t maker) {
               return std::ranges::binary_search(value.uses, maker);
             });
    });
  }

  const std::vector<StepCall>& calls_;
  std::vector<Value> values_;
  std::vector<std::vector<size_t>> operands_;  // values of each call
  std::unordered_map<const TensorStorage*, size_t> numbers_;
};

}  // namespace

std::vector<Repetition> plan_repetitions(
    const std::vector<StepCall>& calls, double share,
    const std::function<bool(const TensorStorage& storage)>& is_temporary) {
  return RepetitionPlanner(calls, is_temporary).run(share);
}

std::vector<Repetition> plan_recomputations(
    const std::vector<StepCall>& calls, const std::vector<StepGroup>& groups,
    const std::function<bool(const TensorStorage& storage)>& is_temporary) {
  return RepetitionPlanner(calls, is_temporary).run(groups);
}

}  // namespace tapegrad
