#include "core/autograd/internal/segment_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/autograd/internal/lane_worker.h"
#include "core/autograd/internal/segment_buffers.h"
#include "core/base/error.h"
#include "core/dispatch/internal/tasks.h"

namespace tapegrad {
namespace {

constexpr int64_t kFewest = 4096;        // elements of a result for which a segment pays off
constexpr int64_t kWide = 32768;         // elements of an operand for which a segment pays off
constexpr int64_t kShared = 131072;      // elements of all calls for which a second thread does
constexpr int64_t kLarge = 2 << 20;      // elements of an operand that exceeds the caches
constexpr int64_t kSaved = 4 << 20;      // bytes that exceed the second-level cache
constexpr int64_t kFewestRows = 128;     // of a call that is divided into rows
constexpr int64_t kLargestUnit = 32768;  // elements of an operand in the smallest block
constexpr size_t kMostCalls = 64;        // of a segment
constexpr int kCandidates = 8;           // segments that a call may join, latest first

constexpr size_t kNear = 16;  // calls before a repeated call, one of which may begin a segment

/// An operand of a call, or several equal operands.
struct Access {
  const TensorStorage* storage;
  bool is_written;
  bool is_ordered;  // whether calls that use the storage must keep their order, as for a write
  OperandKind kind;
  int64_t base, span;  // of a full operand
  DType dtype;
};

struct CallInfo {
  std::vector<Access> accesses;
  int64_t rows = 0;       // into which the call can be divided; 0: not at all
  bool is_fixed = false;  // whether it must be divided into these or fewer rows
  bool is_sum = false;    // whether it is the sum of all elements
  bool is_elementwise = false;
  bool is_flat = false;   // whether it is elementwise, of contiguous operands
  bool is_small = false;  // whether it does not pay off to begin a segment
  int64_t group = 0;      // CallRows::group
  int64_t unit = 1;       // of rows if they are fixed, else of elements
  int64_t elements = 0;   // in all rows if they are not fixed
  std::vector<int64_t> starts;
  std::string alone;
};

CallInfo describe(const StepCall& step) {
  CallInfo info;
  RecordedCall& call = *step.call;
  const bool is_divided = call.parts() != Parts::kElements;
  const Tensor result = result_of(call);
  info.is_elementwise = !is_divided;
  info.is_small = !is_divided && (!result || result.numel() < kFewest);
  CallRows rows;
  if (!info.is_small || (result && result.numel() >= kFewestRows)) rows = rows_of(step);
  size_t next = 0;
  each_tensor(call, [&](Tensor& x, bool is_written) {
    // Another layout of an operand may change the order of a sum.
    const bool unpacks = std::ranges::find(step.unpacks, &x.storage()) != step.unpacks.end();
    info.accesses.push_back({&x.storage(), is_written, is_written || unpacks, OperandKind::kOther,
                             x.layout().offset, x.numel(), x.dtype()});
    if (rows.rows == 0) return;
    const RowOperand& operand = rows.operands[next++];
    Access& access = info.accesses.back();
    access.kind = operand.kind, access.base = operand.base, access.span = operand.span;
  });
  if (step.takes_packed || rows.rows == 0 || call.copy() == nullptr) {
    if (step.takes_packed)
      info.alone = is_divided ? "" : "its operands have a packed layout";
    else if (!is_divided && !info.is_small)
      info.alone = rows.rows > 0 ? "the arguments cannot be copied"
                                 : "an operand is strided otherwise than by rows";
    return info;
  }
  if (is_divided) {
    if (rows.rows < kFewestRows) return info;
    RowDivision division = call.divide_rows();
    info.elements = rows.rows;
    info.is_sum = rows.is_flat && division.sum_bytes > 0;
    info.unit = division.unit;
    info.starts = std::move(division.starts);
  } else {
    info.elements = rows.is_flat ? result.numel() : rows.rows;
    info.is_flat = rows.is_flat;
    struct Draws final : ArgumentVisitor {
      void on_tensor(Tensor&, bool) override {}
      void on_draw(RandomState&) override { unit = 4; }  // a counter makes four numbers
      int64_t unit = 1;
    } draws;
    call.visit(draws);
    info.unit = draws.unit;
  }
  info.rows = rows.rows;
  info.is_fixed = rows.is_fixed;
  info.group = rows.group;
  return info;
}

/// A set of small numbers.
class NumberSet {
 public:
  bool contains(size_t i) const { return i / 64 < words_.size() && words_[i / 64] >> i % 64 & 1; }
  void insert(size_t i) {
    if (i / 64 >= words_.size()) words_.resize(i / 64 + 1);
    words_[i / 64] |= uint64_t(1) << i % 64;
  }
  void insert(const NumberSet& other) {
    if (other.words_.size() > words_.size()) words_.resize(other.words_.size());
    for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  }

 private:
  std::vector<uint64_t> words_;
};

class SegmentPlanner {
 public:
  SegmentPlanner(const std::vector<StepCall>& calls,
                 const std::function<bool(const TensorStorage&)>& is_own, int64_t threads)
      : calls_(calls), is_own_(is_own), threads_(threads) {
    for (const StepCall& call : calls) {
      infos_.push_back(describe(call));
      is_repeated_.push_back(call.is_repeated);
      is_read_.push_back(call.is_read);
      is_lasting_.push_back(call.is_lasting);
    }
  }

  std::vector<StepGroup> run() {
    for (size_t i = 0; i < infos_.size(); ++i) {
      std::set<size_t> before = groups_before(i);
      if (last_read_ && (is_lasting_[i] || is_read_[i])) before.insert(*last_read_);
      size_t group = is_repeated_[i] ? segment_of_use(i, before) : groups_.size();
      if (group == groups_.size()) group = find_segment(i, before);
      if (group == groups_.size()) {
        const CallInfo& info = infos_[i];
        groups_.push_back(
            {{}, info.is_small ? 0 : info.rows, info.is_fixed, info.unit, info.starts, info.alone});
        direct_.emplace_back();
        depends_.emplace_back();
        segments_.emplace_back();
        widest_.push_back(0);
      }
      add(i, group, before);
      if (is_read_[i]) last_read_ = group;
    }
    return in_order();
  }

 private:
  /// Accesses of the groups to a storage.
  struct Uses {
    size_t writer = SIZE_MAX;     // group of the last call that wrote
    std::vector<size_t> readers;  // groups of the calls that read since
  };
  /// The accesses of a segment to one storage.
  struct SegmentUse {
    bool is_written = false;
    std::vector<Access> accesses;  // each once
  };

  /// Returns the segment that the use of a repeated call would join by its other operands, if the
  /// repeated call fits there; otherwise the number of groups.
  size_t segment_of_use(size_t call, const std::set<size_t>& before) const {
    size_t use = call;
    while (use < infos_.size() && is_repeated_[use]) ++use;
    if (use == infos_.size() || infos_[call].rows == 0) return groups_.size();
    const size_t group = find_segment(use, groups_before(use));
    const bool joins = group < groups_.size() && !is_cycle(group, before) &&
                       fits(infos_[call], group, /*must_share=*/false);
    return joins ? group : groups_.size();
  }

  std::set<size_t> groups_before(size_t call) const {
    std::set<size_t> before;
    for (const Access& access : infos_[call].accesses) {
      const auto found = uses_.find(access.storage);
      if (found == uses_.end()) continue;
      if (found->second.writer != SIZE_MAX) before.insert(found->second.writer);
      if (access.is_ordered)
        before.insert(found->second.readers.begin(), found->second.readers.end());
    }
    return before;
  }

  bool depends(size_t group, size_t on) const { return depends_[group].contains(on); }

  /// Returns the rows of the segment with the call; 0 if there is no common division. A sum over
  /// all elements would keep the gradients of narrow layers, whose parts begin at other rows, from
  /// joining the layers.
  static int64_t common_rows(const CallInfo& info, const StepGroup& group) {
    if (group.is_fixed && info.is_sum) return 0;
    const int64_t rows = std::gcd(info.rows, group.rows);
    if ((group.is_fixed || info.is_small) && rows != group.rows) return 0;
    if (info.is_fixed && rows != info.rows) return 0;
    return rows;
  }
  /// Returns the number of rows of which a block begins at a multiple.
  int64_t common_unit(const CallInfo& info, const StepGroup& group, int64_t rows) const {
    int64_t unit = unit_of(info, rows);
    for (const size_t call : group.calls) unit = std::lcm(unit, unit_of(infos_[call], rows));
    return unit;
  }
  static int64_t unit_of(const CallInfo& info, int64_t rows) {
    if (info.is_fixed || rows == 0) return info.unit;
    return info.unit / std::gcd(info.unit, info.elements / rows);
  }
  /// Returns whether blocks of rows can be within the groups of the call's rows.
  static bool keeps_groups(const CallInfo& info, int64_t rows, int64_t unit) {
    return info.group == 0 || info.group % (info.rows / rows * unit) == 0;
  }
  /// Returns the rows at which a thread may begin; nullopt if they are too few.
  std::optional<std::vector<int64_t>> common_starts(const CallInfo& info, const StepGroup& group,
                                                    int64_t rows, int64_t unit) const {
    std::vector<int64_t> common = info.starts.empty() ? group.starts : info.starts;
    const size_t most = std::max(info.starts.size(), group.starts.size());
    std::erase_if(common, [&](int64_t row) {
      return row % unit != 0 ||
             (!group.starts.empty() && !std::ranges::binary_search(group.starts, row));
    });
    if (most > 0 && int64_t(most) < threads_) return {};
    if (common.size() == most) return common;
    for (int64_t i = 1; i < threads_; ++i) {  // threads should have nearly the same number of rows
      const auto next = std::ranges::lower_bound(common, i * rows / threads_);
      if (next == common.end() || *next - i * rows / threads_ > rows / threads_ / 8) return {};
    }
    return common;
  }

  /// Returns whether the operands agree with those of the segment row by row, and, if
  /// `must_share`, one of them is an operand of the segment.
  bool fits(const CallInfo& info, size_t number, bool must_share = true) const {
    const StepGroup& group = groups_[number];
    if (group.calls.size() >= kMostCalls) return false;
    const int64_t rows = common_rows(info, group);
    if (rows == 0 || widest_[number] / rows > kLongestRow) return false;
    const int64_t unit = common_unit(info, group, rows);
    if (unit * (widest_[number] / rows) > kLargestUnit) return false;
    if (!common_starts(info, group, rows, unit)) return false;
    if (!keeps_groups(info, rows, unit)) return false;
    for (const size_t call : group.calls)
      if (!keeps_groups(infos_[call], rows, unit)) return false;
    bool shares = false;
    for (const Access& access : info.accesses) {
      const auto found = segments_[number].find(access.storage);
      if (found == segments_[number].end()) continue;
      const bool is_full = access.kind == OperandKind::kFull;
      if (is_full && access.span / rows > kLongestRow) return false;
      for (const Access& other : found->second.accesses) {
        const bool is_same = is_full && other.kind == OperandKind::kFull &&
                             access.span == other.span && access.base == other.base &&
                             access.dtype == other.dtype;
        shares |= is_same;
        if (!is_same && (access.is_written || found->second.is_written)) return false;
      }
    }
    return shares || !must_share;
  }

  /// Returns whether one of the groups that a call needs depends on the group.
  bool is_cycle(size_t group, const std::set<size_t>& before) const {
    return std::any_of(before.begin(), before.end(),
                       [&](size_t other) { return other != group && depends(other, group); });
  }

  size_t find_segment(size_t call, const std::set<size_t>& before) const {
    const CallInfo& info = infos_[call];
    if (info.rows == 0) return groups_.size();
    int tried = 0;
    for (size_t group = groups_.size(); group-- > 0 && tried < kCandidates;) {
      if (groups_[group].rows == 0) continue;
      if (is_repeated_[call] && groups_[group].calls.front() + kNear < call) break;
      ++tried;
      if (!fits(info, group)) continue;
      if (!is_cycle(group, before)) return group;
    }
    return groups_.size();
  }

  void add(size_t call, size_t group, const std::set<size_t>& before) {
    const CallInfo& info = infos_[call];
    StepGroup& to = groups_[group];
    to.rows = common_rows(info, to);
    to.unit = common_unit(info, to, to.rows);
    to.starts = common_starts(info, to, to.rows, to.unit).value_or(info.starts);
    to.is_fixed |= info.is_fixed;
    to.calls.push_back(call);
    NumberSet& needs = depends_[group];
    for (const size_t other : before) {
      if (other == group) continue;
      direct_[group].insert(other);
      needs.insert(other);
      needs.insert(depends_[other]);
    }
    if (groups_[group].calls.size() > 1)  // earlier groups may depend on this one
      for (NumberSet& others : depends_)
        if (others.contains(group)) others.insert(needs);
    for (const Access& access : info.accesses) {
      const auto [user, is_new] = user_.try_emplace(access.storage, group);
      if (!is_new && user->second != group) user->second = SIZE_MAX;
      Uses& uses = uses_[access.storage];
      if (access.is_ordered) {
        uses.writer = group;
        uses.readers.clear();
      } else if (uses.readers.empty() || uses.readers.back() != group) {
        uses.readers.push_back(group);
      }
      if (info.rows == 0) continue;
      if (access.kind == OperandKind::kFull) widest_[group] = std::max(widest_[group], access.span);
      SegmentUse& use = segments_[group][access.storage];
      use.is_written |= access.is_written;
      use.accesses.push_back(access);
    }
  }

  /// Calls are faster one after the other if their operands stay in the second-level cache anyway
  /// and there is not enough work for two threads, and so are two elementwise calls unless they are
  /// flat and their operands exceed all caches. Calls of one thread that keep less than their
  /// largest operand out of memory are slower as a segment: each block takes longer than reading
  /// values from the second-level cache.
  bool pays(size_t group) const {
    const std::vector<size_t>& calls = groups_[group].calls;
    if (groups_[group].is_fixed)
      return threads_ > 1 || widest_[group] < kWide || saves_memory(group);
    const bool is_flat =
        std::ranges::all_of(calls, [&](size_t call) { return infos_[call].is_flat; });
    const bool is_elementwise =
        std::ranges::all_of(calls, [&](size_t call) { return infos_[call].is_elementwise; });
    if (calls.size() == 2 && is_elementwise) return is_flat && widest_[group] >= kLarge;
    const int64_t elements = widest_[group] * int64_t(calls.size());
    if (threads_ > 1) return widest_[group] >= kWide || elements >= kShared;
    int64_t largest = 0;  // bytes
    for (const size_t call : calls)
      for (const Access& access : infos_[call].accesses)
        if (access.kind == OperandKind::kFull)
          largest = std::max(largest, access.span * int64_t(size_of(access.dtype)));
    return widest_[group] >= kWide && (largest >= kSaved || buffers_of(group).bytes() >= largest);
  }

  /// Returns the buffers of a segment.
  Buffers buffers_of(size_t group) const {
    return Buffers(calls_, groups_[group], [&](const TensorStorage& storage) {
      const auto user = user_.find(&storage);
      return user != user_.end() && user->second == group && is_own_(storage);
    });
  }

  /// Returns whether a segment with a narrow layer has rows in lanes, or keeps so many values out
  /// of memory that separate calls would read them from beyond the second-level cache. Otherwise
  /// the work for each block takes longer than reading values from that cache.
  bool saves_memory(size_t group) const {
    const Buffers buffers = buffers_of(group);
    return buffers.bytes() >= kSaved ||
           LaneWorker::lanes_of(calls_, groups_[group], buffers).lanes > 0;
  }

  /// Returns a topological order; among groups that may run, the one whose first call is the
  /// earliest.
  std::vector<StepGroup> in_order() {
    std::vector<std::vector<size_t>> after(groups_.size());
    std::vector<size_t> waiting(groups_.size());
    for (size_t group = 0; group < groups_.size(); ++group) {
      waiting[group] = direct_[group].size();
      for (const size_t other : direct_[group]) after[other].push_back(group);
    }
    std::map<size_t, size_t> ready;  // by the first call
    const auto add_ready = [&](size_t group) {
      ready.emplace(groups_[group].calls.front(), group);
    };
    for (size_t group = 0; group < groups_.size(); ++group)
      if (waiting[group] == 0) add_ready(group);
    std::vector<StepGroup> sorted;
    size_t planned = 0;
    for (; !ready.empty(); ++planned) {
      const size_t group = ready.begin()->second;
      ready.erase(ready.begin());
      for (const size_t next : after[group])
        if (--waiting[next] == 0) add_ready(next);
      if (pays(group)) {
        sorted.push_back(std::move(groups_[group]));
        continue;
      }
      for (const size_t call : groups_[group].calls) sorted.push_back({.calls = {call}});
    }
    if (planned != groups_.size()) fail<Error>("GraphedStep: the plan has a cycle");
    return sorted;
  }

  const std::vector<StepCall>& calls_;
  const std::function<bool(const TensorStorage&)>& is_own_;
  const int64_t threads_;
  std::vector<CallInfo> infos_;
  std::vector<bool> is_repeated_, is_read_, is_lasting_;  // by call
  std::optional<size_t> last_read_;  // its group; a run can be abandoned until then
  std::vector<StepGroup> groups_;
  std::vector<std::set<size_t>> direct_;  // for each group, the groups whose results it needs
  std::vector<NumberSet> depends_;        // for each group, all groups that must run before
  std::vector<int64_t> widest_;           // for each group, elements of the largest full operand
  std::vector<std::unordered_map<const TensorStorage*, SegmentUse>> segments_;
  std::unordered_map<const TensorStorage*, Uses> uses_;
  std::unordered_map<const TensorStorage*, size_t> user_;  // a group; SIZE_MAX: several groups
};

}  // namespace

std::vector<StepGroup> plan_groups(const std::vector<StepCall>& calls,
                                   const std::function<bool(const TensorStorage&)>& is_own) {
  return SegmentPlanner(calls, is_own, team_size()).run();
}

}  // namespace tapegrad
