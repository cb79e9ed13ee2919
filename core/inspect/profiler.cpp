#include "core/inspect/profiler.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <iomanip>
#include <locale>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "core/base/error.h"
#include "core/base/internal/call_recorder.h"
#include "core/base/internal/clock.h"
#include "core/base/internal/escaped_text.h"
#include "core/base/internal/scope.h"
#include "core/dispatch/implementations.h"
#include "core/inspect/moment.h"

namespace tapegrad {

namespace {

/// A finished span. The names live as long as the program.
struct Event {
  std::string_view op;
  const std::string* part;
  Pass pass;
  double begin = 0, end = 0;  // seconds since the profiler began
  KernelWork work = {};
  const std::string* implementations = nullptr;  // "conv2d:dnnl, ..."
};

/// A collective that another thread has run.
struct Collective {
  std::string name;
  double begin, end;  // seconds since the profiler began
};

struct Open {
  Event event;
  Moment begin;
  std::vector<std::string> implementations = {};
};

/// A span to whose end the device may still have to come.
struct Finished {
  Open span;
  Moment end;
  size_t depth;  // number of spans around it
};

void add(const std::string& name, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}
void add(const KernelWork& work, KernelWork& sum) {
  sum.flops += work.flops;
  sum.bytes += work.bytes;
}
void add(const ProfileEntry& entry, ProfileEntry& sum) {
  sum.calls += entry.calls;
  sum.seconds += entry.seconds;
  add(entry.work, sum.work);
  for (const std::string& name : entry.implementations) add(name, sum.implementations);
}

/// The entries of a module and their sum.
struct Part {
  ProfileEntry sum;
  std::vector<ProfileEntry> entries;
};

/// Groups entries by module; modules and their entries stay ordered by time.
std::vector<Part> by_part(const std::vector<ProfileEntry>& entries) {
  std::vector<Part> parts;
  for (const ProfileEntry& entry : entries) {
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const Part& p) { return p.sum.part == entry.part; });
    if (part == parts.end()) part = parts.insert(part, Part{{.part = entry.part}, {}});
    add(entry, part->sum);
    part->entries.push_back(entry);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.sum.seconds > b.sum.seconds; });
  return parts;
}

}  // namespace

struct Profiler::Record {
  ProfilerOptions options;
  void* before = nullptr;
  bool watching = true;
  Moment origin = Moment(options.device);
  double host_origin = detail::steady_seconds();
  std::vector<Open> open = {};
  std::deque<Finished> finished = {};
  std::vector<double> inner = {};  // by depth: seconds of added spans whose outer span is not added
  int kernels = 0;                 // number of nested kernels that are running
  std::vector<Event> events = {};
  std::vector<Collective> collectives = {};
  CommunicationTime communication = {};
  std::map<std::tuple<const std::string*, std::string_view, Pass>, ProfileEntry> sums = {};

  /// Returns whether nested spans are ignored: rules and updates are measured as a whole.
  bool is_closed() const { return !open.empty() && open.back().event.pass != Pass::kForward; }
  void finish() {
    finished.push_back({std::move(open.back()), Moment(options.device), open.size() - 1});
    open.pop_back();
    while (!finished.empty() && finished.front().end.query()) add_first();
  }
  /// Adds the finished span that ended first, and thus after the spans in it.
  void add_first() {
    auto& [span, end, depth] = finished.front();
    span.event.begin = span.begin.seconds_since(origin);
    const double whole = end.seconds_since(span.begin);
    span.event.end = span.event.begin + whole;
    inner.resize(std::max(inner.size(), depth + 2));
    if (!span.implementations.empty())
      span.event.implementations = intern_scope(absl::StrJoin(span.implementations, ", "));
    add({.calls = 1,
         .seconds = whole - std::exchange(inner[depth + 1], 0),
         .work = span.event.work,
         .implementations = span.implementations},
        sums[{span.event.part, span.event.op, span.event.pass}]);
    inner[depth] += whole;
    if (int64_t(events.size()) < options.max_events) events.push_back(span.event);
    finished.pop_front();
  }
  void settle() {
    while (!finished.empty()) add_first();
  }
};

Profiler::Profiler(ProfilerOptions options)
    : record_(new Record{.options = options, .before = detail::context.profile}) {
  detail::context.profile = record_;
  detail::update_observed();
  ++detail::dispatch_watchers;
}

Profiler::~Profiler() {
  stop();
  delete record_;
}

void Profiler::stop() {
  if (!std::exchange(record_->watching, false)) return;
  while (!record_->open.empty()) record_->finish();
  detail::context.profile = record_->before;
  detail::update_observed();
  --detail::dispatch_watchers;
}

void OpSpan::begin(std::string_view op, Pass pass, const std::string* part, const Where& where) {
  is_open_ = true;
  record_ = nullptr;
  recorder_ = detail::context.recorder;
  if (recorder_ != nullptr)
    recorder_->begin_op({op, pass, part != nullptr ? part : current_scope(), where});
  if (detail::context.profile == nullptr) return;
  auto& record = *static_cast<Profiler::Record*>(detail::context.profile);
  if (record.is_closed()) return;
  if (part == nullptr) part = current_scope();
  if (pass == Pass::kUpdate)
    op = *intern_scope(op);  // copied, because the optimizer may be
                             // destroyed earlier
  record.open.push_back({{.op = op, .part = part, .pass = pass}, Moment(record.options.device)});
  record_ = &record;
}

void OpSpan::end() {
  // The observer may have been stopped, or another one started, while the op ran.
  if (recorder_ != nullptr && recorder_ == detail::context.recorder) recorder_->end_op();
  if (record_ == nullptr) return;
  auto* record = static_cast<Profiler::Record*>(record_);
  if (detail::context.profile == record_ && !record->open.empty()) record->finish();
}

KernelSpan::KernelSpan(const KernelWork& work) : record_(detail::context.profile) {
  auto& record = *static_cast<Profiler::Record*>(record_);
  if (record.kernels++ == 0 && !record.open.empty()) add(work, record.open.back().event.work);
}

KernelSpan::~KernelSpan() { --static_cast<Profiler::Record*>(record_)->kernels; }

void KernelSpan::note(std::string_view kernel, std::string_view implementation) {
  auto* record = static_cast<Profiler::Record*>(detail::context.profile);
  if (record == nullptr || record->open.empty()) return;
  add(std::string(kernel).append(":").append(implementation), record->open.back().implementations);
}

void note_communication(std::string_view name, double begin, double end, double waited) {
  auto* record = static_cast<Profiler::Record*>(detail::context.profile);
  if (record == nullptr) return;
  record->communication.busy += end - begin;
  record->communication.exposed += waited;
  if (int64_t(record->collectives.size()) < record->options.max_events)
    record->collectives.push_back(
        {std::string(name), begin - record->host_origin, end - record->host_origin});
}

CommunicationTime Profiler::communication() const { return record_->communication; }

std::vector<ProfileEntry> Profiler::entries() const {
  record_->settle();
  // Equal names may be different strings.
  std::map<std::tuple<std::string, std::string, Pass>, ProfileEntry> merged;
  for (const auto& [key, sum] : record_->sums) {
    const auto& [part, op, pass] = key;
    add(sum, merged[{part == nullptr ? std::string() : *part, std::string(op), pass}]);
  }
  std::vector<ProfileEntry> entries;
  for (const auto& [key, sum] : merged) {
    entries.push_back(sum);
    std::tie(entries.back().part, entries.back().op, entries.back().pass) = key;
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return entries;
}

double Profiler::seconds(Pass pass) const {
  record_->settle();
  double total = 0;
  for (const auto& [key, sum] : record_->sums)
    if (std::get<Pass>(key) == pass) total += sum.seconds;
  return total;
}

int64_t Profiler::steps() const {
  record_->settle();
  int64_t most = 0;
  for (const auto& [key, sum] : record_->sums)
    if (std::get<Pass>(key) == Pass::kUpdate) most = std::max(most, sum.calls);
  return most;
}

void Profiler::print(std::ostream& out, ProfileTable table) const {
  std::vector<ProfileEntry> entries = this->entries();
  if (table.pass)
    std::erase_if(entries, [&](const ProfileEntry& entry) { return entry.pass != *table.pass; });
  ProfileEntry all;
  for (const ProfileEntry& entry : entries) add(entry, all);
  const auto is_shown = [&](const ProfileEntry& entry) {
    return entry.seconds * 1000 >= all.seconds;
  };
  int width = 28;
  for (const ProfileEntry& entry : entries)
    if (is_shown(entry))
      width = std::max({width, int(entry.part.size()), 2 + int(entry.op.size())});

  const int64_t steps = this->steps(), divisor = std::max<int64_t>(1, steps);
  const auto row = [&](const std::string& name, std::string_view pass, const ProfileEntry& entry) {
    const auto rate = [](bool is_known, double value) {
      return is_known ? absl::StrFormat("%.1f", value) : "";
    };
    out << absl::StreamFormat("%-*s  %-8s%10s%11.3f%7.1f%%%10s%9s", width, name, pass,
                              entry.op.empty() ? "" : std::to_string(entry.calls),
                              entry.seconds * 1e3 / double(divisor),
                              all.seconds > 0 ? 100 * entry.seconds / all.seconds : 0.0,
                              rate(entry.work.flops > 0, entry.gflops_per_second()),
                              rate(entry.work.bytes > 0, entry.gbytes_per_second()));
    if (!entry.op.empty() && !entry.implementations.empty())
      out << "  " << absl::StrJoin(entry.implementations, ", ");
    out << '\n';
  };
  out << absl::StreamFormat("%-*s  %-8s%10s%11s%8s%10s%9s\n", width, "part, op", "pass", "calls",
                            steps > 0 ? "ms/step" : "ms", "share", "GFLOP/s", "GB/s");
  for (const Part& part : by_part(entries)) {
    if (!is_shown(part.sum)) continue;
    row(part.sum.part.empty() ? "(outside of modules)" : part.sum.part, "", part.sum);
    for (const ProfileEntry& entry : part.entries)
      if (is_shown(entry)) row("  " + entry.op, kPassNames[int(entry.pass)], entry);
  }
  for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kUpdate}) {
    ProfileEntry sum;
    for (const ProfileEntry& entry : entries)
      if (entry.pass == pass) add(entry, sum);
    if (sum.calls > 0) row("all", kPassNames[int(pass)], sum);
  }
  if (const CommunicationTime& time = record_->communication; time.busy > 0 && !table.pass)
    out << absl::StreamFormat(
        "communication: %.3f %s, of which %.3f are exposed (%.1f%% of the time)\n",
        time.busy * 1e3 / double(divisor), steps > 0 ? "ms/step" : "ms",
        time.exposed * 1e3 / double(divisor),
        all.seconds > 0 ? 100 * time.exposed / all.seconds : 0.0);
  if (table.steps_per_epoch > 0 && steps > 0 && !table.pass)
    out << absl::StreamFormat("an epoch of %d steps at %.3f ms: %.2f s\n", table.steps_per_epoch,
                              all.seconds * 1e3 / double(steps),
                              all.seconds * double(table.steps_per_epoch) / double(steps));
}

std::ostream& operator<<(std::ostream& out, const Profiler& profiler) {
  profiler.print(out);
  return out;
}

void Profiler::save_trace(const std::string& path) const {
  record_->settle();
  std::ofstream out(path);
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(3) << "{\"traceEvents\": [";
  const char* separator = "\n";
  const double origin = record_->events.empty() ? 0 : record_->events.front().begin;
  for (const Event& event : record_->events) {
    out << separator << "{\"ph\": \"X\", \"pid\": 0, \"tid\": 0, \"name\": \""
        << json_escape(event.op) << "\", \"cat\": \"" << kPassNames[int(event.pass)]
        << "\", \"ts\": " << (event.begin - origin) * 1e6
        << ", \"dur\": " << (event.end - event.begin) * 1e6 << ", \"args\": {\"part\": \""
        << json_escape(event.part == nullptr ? std::string_view() : *event.part)
        << "\", \"flops\": " << event.work.flops << ", \"bytes\": " << event.work.bytes << "}}";
    separator = ",\n";
  }
  if (!record_->collectives.empty()) {
    out << separator
        << "{\"ph\": \"M\", \"pid\": 0, \"tid\": 1, \"name\": \"thread_name\", \"args\": "
           "{\"name\": "
           "\"communication\"}}";
    for (const Collective& each : record_->collectives)
      out << ",\n{\"ph\": \"X\", \"pid\": 0, \"tid\": 1, \"name\": \"" << json_escape(each.name)
          << "\", \"cat\": \"communication\", \"ts\": " << (each.begin - origin) * 1e6
          << ", \"dur\": " << (each.end - each.begin) * 1e6 << "}";
  }
  out << "\n]}\n";
  out.close();
  if (!out) fail<IoError>("save_trace: cannot write ", path);
}

}  // namespace tapegrad
