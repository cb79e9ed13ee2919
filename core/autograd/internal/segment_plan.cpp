#include "core/autograd/internal/segment_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "core/base/error.h"

namespace tapegrad {
namespace {

constexpr int64_t kFewest = 4096;      // elements of a result for which a segment pays off
constexpr int64_t kLongestRow = 8192;  // elements of a row that is repeated
constexpr size_t kMostCalls = 256;     // of a segment
constexpr int kCandidates = 8;         // segments that a call may join, latest first

/// An operand, or several equal ones, of a call.
struct Access {
  const Storage* storage;
  bool is_written;
  OperandKind kind;
  int64_t offset, row;
  DType dtype;
};

struct CallInfo {
  std::vector<Access> accesses;
  int64_t count = 0;  // elements of the result of an elementwise call; 0 for other calls
  std::string alone;
};

CallInfo describe(const StepCall& step) {
  CallInfo info;
  RecordedCall& call = *step.call;
  Tensor result;
  each_tensor(call, [&](Tensor& x, bool is_written) {
    info.accesses.push_back(
        {&x.storage(), is_written, OperandKind::kOther, x.layout().offset, 0, x.dtype()});
    if (is_written) result = x;
  });
  if (call.parts() != Parts::kElements) return info;
  const auto refuse = [&](const char* why) {
    if (result && result.numel() >= kFewest) info.alone = why;
    return info;
  };
  if (!result || result.numel() < kFewest) return info;
  if (!result.is_contiguous()) return refuse("the result is not contiguous");
  size_t next = 0;
  bool is_plain = true;
  each_tensor(call, [&](Tensor& x, bool is_written) {
    const OperandShape shape = shape_of_operand(x, result.shape());
    Access& access = info.accesses[next++];
    access.kind = shape.kind;
    access.row = shape.row;
    is_plain &= shape.kind != OperandKind::kOther;
    is_plain &= !is_written || shape.kind == OperandKind::kFull;
  });
  if (!is_plain) return refuse("an operand is strided, or repeated otherwise than by rows");
  if (call.copy() == nullptr) return refuse("the arguments cannot be copied");
  info.count = result.numel();
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

class Planner {
 public:
  explicit Planner(const std::vector<StepCall>& calls) {
    for (const StepCall& call : calls) infos_.push_back(describe(call));
  }

  std::vector<StepGroup> run() {
    for (size_t i = 0; i < infos_.size(); ++i) {
      const std::set<size_t> before = groups_before(i);
      size_t group = find_segment(i, before);
      if (group == groups_.size()) {
        groups_.push_back({{}, infos_[i].count, 0, infos_[i].alone});
        direct_.emplace_back();
        depends_.emplace_back();
        segments_.emplace_back();
      }
      add(i, group, before);
    }
    return in_order();
  }

 private:
  /// What the groups do with a storage.
  struct Uses {
    size_t writer = SIZE_MAX;     // group of the last call that wrote
    std::vector<size_t> readers;  // groups of the calls that read since
  };
  /// The accesses of a segment to one storage.
  struct SegmentUse {
    bool is_written = false;
    std::vector<Access> accesses;  // different ones
  };

  std::set<size_t> groups_before(size_t call) const {
    std::set<size_t> before;
    for (const Access& access : infos_[call].accesses) {
      const auto found = uses_.find(access.storage);
      if (found == uses_.end()) continue;
      if (found->second.writer != SIZE_MAX) before.insert(found->second.writer);
      if (access.is_written)
        before.insert(found->second.readers.begin(), found->second.readers.end());
    }
    return before;
  }

  bool depends(size_t group, size_t on) const { return depends_[group].contains(on); }

  /// Whether the operands agree with those of the segment element by element.
  bool fits(const CallInfo& info, size_t group) const {
    if (groups_[group].count != info.count || groups_[group].calls.size() >= kMostCalls)
      return false;
    bool shares = false;
    int64_t row = groups_[group].row;
    for (const Access& access : info.accesses) {
      if (access.kind == OperandKind::kRow) {
        if (row != 0 && row != access.row) return false;
        row = access.row;
      }
      const auto found = segments_[group].find(access.storage);
      if (found == segments_[group].end()) continue;
      shares |= access.kind == OperandKind::kFull;
      if (!access.is_written && !found->second.is_written) continue;
      for (const Access& other : found->second.accesses)
        if (access.kind != OperandKind::kFull || other.kind != OperandKind::kFull ||
            access.offset != other.offset || access.dtype != other.dtype)
          return false;
    }
    return shares;
  }

  size_t find_segment(size_t call, const std::set<size_t>& before) const {
    const CallInfo& info = infos_[call];
    if (info.count == 0) return groups_.size();
    int tried = 0;
    for (size_t group = groups_.size(); group-- > 0 && tried < kCandidates;) {
      if (groups_[group].count == 0) continue;
      ++tried;
      if (!fits(info, group)) continue;
      const bool is_cycle = std::any_of(before.begin(), before.end(), [&](size_t other) {
        return other != group && depends(other, group);
      });
      if (!is_cycle) return group;
    }
    return groups_.size();
  }

  void add(size_t call, size_t group, const std::set<size_t>& before) {
    groups_[group].calls.push_back(call);
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
    for (const Access& access : infos_[call].accesses) {
      Uses& uses = uses_[access.storage];
      if (access.is_written) {
        uses.writer = group;
        uses.readers.clear();
      } else if (uses.readers.empty() || uses.readers.back() != group) {
        uses.readers.push_back(group);
      }
      if (infos_[call].count == 0) continue;
      if (access.kind == OperandKind::kRow) groups_[group].row = access.row;
      SegmentUse& use = segments_[group][access.storage];
      use.is_written |= access.is_written;
      use.accesses.push_back(access);
    }
  }

  /// A topological order; among groups that may run, the one whose first call is the earliest.
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
    while (!ready.empty()) {
      const size_t group = ready.begin()->second;
      ready.erase(ready.begin());
      for (const size_t next : after[group])
        if (--waiting[next] == 0) add_ready(next);
      sorted.push_back(std::move(groups_[group]));
    }
    if (sorted.size() != groups_.size()) fail<Error>("GraphedStep: the plan has a cycle");
    return sorted;
  }

  std::vector<CallInfo> infos_;
  std::vector<StepGroup> groups_;
  std::vector<std::set<size_t>> direct_;  // for each group, those whose results it needs
  std::vector<NumberSet> depends_;        // for each group, all that must run before
  std::vector<std::unordered_map<const Storage*, SegmentUse>> segments_;
  std::unordered_map<const Storage*, Uses> uses_;
};

}  // namespace

OperandShape shape_of_operand(const Tensor& x, const Shape& result) {
  const int64_t count = numel(result);
  if (x.is_contiguous() && x.numel() == count) return {OperandKind::kFull};
  if (x.rank() > result.rank()) return {};
  for (int i = 1; i <= x.rank(); ++i) {
    const int64_t size = x.shape()[x.rank() - i];
    if (size != 1 && size != result[result.rank() - i]) return {};
  }
  const Strides strides = broadcast_strides(x.layout(), result);
  int dim = 0;  // the first dimension that is not repeated
  while (dim < result.rank() && (strides[dim] == 0 || result[dim] == 1)) ++dim;
  if (dim == result.rank()) return {OperandKind::kSingle};
  int64_t row = 1;
  for (int i = result.rank() - 1; i >= dim; --i) {
    if (result[i] != 1 && strides[i] != row) return {};
    row *= result[i];
  }
  return row <= kLongestRow ? OperandShape{OperandKind::kRow, row} : OperandShape{};
}

std::vector<StepGroup> plan_groups(const std::vector<StepCall>& calls) {
  return Planner(calls).run();
}

}  // namespace tapegrad
