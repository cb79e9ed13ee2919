// Description of a captured step on the CPU.
#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "core/autograd/internal/recorded_step.h"
#include "core/dispatch/span.h"

namespace tapegrad {
namespace {

std::string megabytes(int64_t bytes) { return absl::StrFormat("%.1f MB", double(bytes) * 1e-6); }

/// "tanh (backward) at train.cpp:12"
std::string line_of(const CalledOp& op) {
  std::string text(op.name.empty() ? "a kernel" : op.name);
  if (op.pass == Pass::kBackward) text += " (backward)";
  if (op.where.line() != 0)
    absl::StrAppend(&text, " at ", op.where.file_name(), ":", op.where.line());
  return text;
}

}  // namespace

std::string RecordedStep::explain() const {
  std::string segments, alone;
  size_t count = 0, joined = 0;
  int64_t saved = 0;
  for (const Group& group : groups_) {
    const CalledOp& first = calls_[group.plan.calls.front()].op;
    if (!group.segment) {
      const std::string why =
          group.plan.rows > 0 ? "no segment uses its operands" : group.plan.alone;
      if (!why.empty()) absl::StrAppend(&alone, "  ", line_of(first), ": ", why, "\n");
      continue;
    }
    joined += group.plan.calls.size();
    saved += group.segment->saved_bytes();
    absl::StrAppend(&segments, "segment ", ++count, ": ", group.plan.calls.size(), " calls, ",
                    group.plan.rows, " rows, ", megabytes(group.segment->saved_bytes()),
                    " of values are never in memory",
                    group.segment->has_lanes() ? ", vectors along the rows\n" : "\n");
    std::string last;
    for (const size_t number : group.plan.calls)
      if (std::string line = line_of(calls_[number].op); line != last) {
        absl::StrAppend(&segments, "  ", line, "\n");
        last = std::move(line);
      }
  }
  std::string text =
      absl::StrCat(calls_.size(), " kernel calls; ", joined, " of them in ", count,
                   " segments, which save ", megabytes(saved), " of memory\n", segments);
  if (!absorbed_.empty()) text += "computed by the kernel of the layer before:\n";
  for (const auto [maker, activation] : absorbed_)
    absl::StrAppend(&text, "  ", line_of(calls_[activation].op), ", by ", line_of(calls_[maker].op),
                    "\n");
  if (!alone.empty()) absl::StrAppend(&text, "not joined:\n", alone);
  return text + explain_memory();
}

/// Describes the group during which the values of the step need the most memory.
std::string RecordedStep::explain_memory() const {
  constexpr size_t kNamed = 8;
  std::vector<int64_t> change(groups_.size() + 1);
  for (const Life& life : lives_) {
    if (life.is_inner) continue;
    change[life.first] += int64_t(life.storage->bytes());
    change[life.last + 1] -= int64_t(life.storage->bytes());
  }
  int64_t now = 0, most = 0;
  size_t peak = 0;
  for (size_t i = 0; i < groups_.size(); ++i)
    if (now += change[i]; now > most) {
      most = now;
      peak = i;
    }
  if (most == 0) return "";
  std::vector<std::pair<std::string, int64_t>> makers;  // of the values in memory, with bytes
  for (const Life& life : lives_) {
    if (life.is_inner || life.first > peak || life.last < peak) continue;
    const std::string line = line_of(calls_[life.maker].op);
    const auto found = std::ranges::find(makers, line, &std::pair<std::string, int64_t>::first);
    const auto maker = found != makers.end() ? found : makers.insert(makers.end(), {line, 0});
    maker->second += int64_t(life.storage->bytes());
  }
  std::ranges::stable_sort(makers, std::greater(), &std::pair<std::string, int64_t>::second);
  std::string text = absl::StrCat("at most ", megabytes(most), " of values at a time, during ",
                                  line_of(calls_[groups_[peak].plan.calls.front()].op), ":\n");
  for (size_t i = 0; i < std::min(kNamed, makers.size()); ++i)
    absl::StrAppend(&text, "  ", megabytes(makers[i].second), " by ", makers[i].first, "\n");
  return text;
}

}  // namespace tapegrad
