// Profiler: where the time goes, by op and by part of the model.
//
//   Profiler profiler;                    // watches this thread
//   for (int i = 0; i < 20; ++i) step();
//   profiler.stop();
//   std::cout << profiler;                // part, op, pass, calls, milliseconds, share
//   profiler.save_trace("step.json");     // for chrome://tracing and ui.perfetto.dev
//
// An op of the forward pass has its own time, without that of ops it is composed of; a rule of the
// backward pass has all of its time; a step of an optimizer is one entry. On a GPU these are the
// times that the calls take, unless TAPEGRAD_CUDA_BLOCKING=1. Off, it costs two predicted branches
// an op.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad {

enum class Pass { kForward, kBackward, kUpdate };
inline constexpr std::string_view kPassNames[] = {"forward", "backward", "update"};

struct ProfileEntry {
  std::string part;  // "Net.fc1"; empty outside of modules
  std::string op;    // as in docs/ops.md, or the optimizer's name
  Pass pass = Pass::kForward;
  int64_t calls = 0;
  double seconds = 0;
};

struct ProfilerOptions {
  int64_t max_events = 1'000'000;  // of the trace; later ones count in the entries only
};

class Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// It sees nothing more; one that was watching before goes on. A second call does nothing.
  void stop();

  /// One for each part, op and pass, the longest time first.
  std::vector<ProfileEntry> entries() const;
  double seconds(Pass pass) const;
  /// The format of Chrome's trace viewer. IoError when the file cannot be written.
  void save_trace(const std::string& path) const;

 private:
  friend class OpSpan;
  struct Record;
  Record* record_;
};

/// The entries that have at least a thousandth of the time, and the sums of the passes.
std::ostream& operator<<(std::ostream& out, const Profiler& profiler);

namespace detail {
/// What watches this thread, or null.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local void* profile;
}  // namespace detail

/// What a Profiler sees: from construction to destruction. Inside a rule nothing else counts.
class [[nodiscard]] OpSpan {
 public:
  explicit OpSpan(std::string_view op, Pass pass = Pass::kForward,
                  const std::string* part = nullptr) {
    if (detail::profile != nullptr) [[unlikely]]
      begin(op, pass, part);
  }
  ~OpSpan() {
    if (record_ != nullptr) [[unlikely]]
      end();
  }
  OpSpan(const OpSpan&) = delete;
  OpSpan& operator=(const OpSpan&) = delete;

 private:
  [[gnu::cold]] void begin(std::string_view op, Pass pass, const std::string* part);
  [[gnu::cold]] void end();

  void* record_ = nullptr;  // that sees it
};

}  // namespace tapegrad
