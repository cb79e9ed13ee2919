#include "core/profiler.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iomanip>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/scope.h"

namespace tapegrad {

constinit thread_local void* detail::profile = nullptr;

namespace {

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// The names live as long as the program.
struct Event {
  std::string_view op;
  const std::string* part;
  Pass pass;
  double begin = 0, end = 0;
};

struct Open {
  Event event;
  double inner = 0;  // seconds of the spans inside
};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

struct Profiler::Record {
  struct Sum {
    int64_t calls = 0;
    double seconds = 0;
  };

  ProfilerOptions options;
  void* before = nullptr;
  bool watching = true;
  std::vector<Open> open = {};
  std::vector<Event> events = {};
  std::map<std::tuple<const std::string*, std::string_view, Pass>, Sum> sums = {};

  /// Rules and updates are seen as a whole.
  bool is_closed() const { return !open.empty() && open.back().event.pass != Pass::kForward; }
  void finish() {
    Open done = open.back();
    open.pop_back();
    done.event.end = now();
    const double whole = done.event.end - done.event.begin;
    if (!open.empty()) open.back().inner += whole;
    Sum& sum = sums[{done.event.part, done.event.op, done.event.pass}];
    ++sum.calls;
    sum.seconds += whole - done.inner;
    if (int64_t(events.size()) < options.max_events) events.push_back(done.event);
  }
};

Profiler::Profiler(ProfilerOptions options)
    : record_(new Record{.options = options, .before = detail::profile}) {
  detail::profile = record_;
}

Profiler::~Profiler() {
  stop();
  delete record_;
}

void Profiler::stop() {
  if (!std::exchange(record_->watching, false)) return;
  while (!record_->open.empty()) record_->finish();
  detail::profile = record_->before;
}

void OpSpan::begin(std::string_view op, Pass pass, const std::string* part) {
  auto& record = *static_cast<Profiler::Record*>(detail::profile);
  if (record.is_closed()) return;
  if (part == nullptr) part = current_scope();
  if (pass == Pass::kUpdate) op = *intern_scope(op);  // the optimizer may be gone by then
  record.open.push_back({{.op = op, .part = part, .pass = pass, .begin = now()}});
  record_ = &record;
}

void OpSpan::end() {
  // The profiler may have been stopped, or another begun, while the op ran.
  auto* record = static_cast<Profiler::Record*>(record_);
  if (detail::profile == record_ && !record->open.empty()) record->finish();
}

std::vector<ProfileEntry> Profiler::entries() const {
  // Equal names need not be one string.
  std::map<std::tuple<std::string, std::string, Pass>, Record::Sum> merged;
  for (const auto& [key, sum] : record_->sums) {
    const auto& [part, op, pass] = key;
    Record::Sum& to = merged[{part == nullptr ? std::string() : *part, std::string(op), pass}];
    to.calls += sum.calls;
    to.seconds += sum.seconds;
  }
  std::vector<ProfileEntry> entries;
  for (const auto& [key, sum] : merged) {
    const auto& [part, op, pass] = key;
    entries.push_back({part, op, pass, sum.calls, sum.seconds});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return entries;
}

double Profiler::seconds(Pass pass) const {
  double total = 0;
  for (const auto& [key, sum] : record_->sums)
    if (std::get<Pass>(key) == pass) total += sum.seconds;
  return total;
}

void Profiler::save_trace(const std::string& path) const {
  std::ofstream out(path);
  out << std::fixed << std::setprecision(3) << "{\"traceEvents\": [";
  const char* separator = "\n";
  const double origin = record_->events.empty() ? 0 : record_->events.front().begin;
  for (const Event& event : record_->events) {
    out << separator << "{\"ph\": \"X\", \"pid\": 0, \"tid\": 0, \"name\": \"" << escaped(event.op)
        << "\", \"cat\": \"" << kPassNames[int(event.pass)]
        << "\", \"ts\": " << (event.begin - origin) * 1e6
        << ", \"dur\": " << (event.end - event.begin) * 1e6 << ", \"args\": {\"part\": \""
        << escaped(event.part == nullptr ? std::string_view() : *event.part) << "\"}}";
    separator = ",\n";
  }
  out << "\n]}\n";
  out.close();
  if (!out) fail<IoError>("save_trace: cannot write ", path);
}

std::ostream& operator<<(std::ostream& out, const Profiler& profiler) {
  const std::vector<ProfileEntry> entries = profiler.entries();
  double total = 0;
  size_t width = 4;
  for (const ProfileEntry& entry : entries) total += entry.seconds;
  const auto is_shown = [&](const ProfileEntry& entry) { return entry.seconds * 1000 >= total; };
  for (const ProfileEntry& entry : entries)
    if (is_shown(entry)) width = std::max(width, entry.part.size());
  std::ios before(nullptr);
  before.copyfmt(out);
  const auto row = [&](std::string_view part, std::string_view op, std::string_view pass) {
    out << std::left << std::setw(int(width) + 2) << part << std::setw(26) << op << std::setw(10)
        << pass << std::right;
  };
  row("part", "op", "pass");
  out << "     calls         ms  share\n" << std::fixed;
  const auto numbers = [&](double seconds) {
    out << std::setw(11) << std::setprecision(3) << seconds * 1e3 << std::setw(6)
        << std::setprecision(1) << (total > 0 ? 100 * seconds / total : 0.0) << "%\n";
  };
  for (const ProfileEntry& entry : entries) {
    if (!is_shown(entry)) continue;
    row(entry.part, entry.op, kPassNames[int(entry.pass)]);
    out << std::setw(10) << entry.calls;
    numbers(entry.seconds);
  }
  for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kUpdate}) {
    row("", "all", kPassNames[int(pass)]);
    out << std::setw(10) << "";
    numbers(profiler.seconds(pass));
  }
  out.copyfmt(before);
  return out;
}

}  // namespace tapegrad
