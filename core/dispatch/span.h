// Spans: what ops, rules, optimizers and kernels tell the profiler that watches this thread
// (core/inspect/profiler.h). Without one a span costs a predicted branch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/context.h"

namespace tapegrad {

enum class Pass { kForward, kBackward, kUpdate };
inline constexpr std::string_view kPassNames[] = {"forward", "backward", "update"};

/// What kernels do.
struct KernelWork {
  int64_t flops = 0;  // floating-point operations
  int64_t bytes = 0;  // read and written
};

/// What a Profiler sees: from construction to destruction. Inside a rule nothing else counts.
class [[nodiscard]] OpSpan {
 public:
  explicit OpSpan(std::string_view op, Pass pass = Pass::kForward,
                  const std::string* part = nullptr) {
    if (detail::context.profile != nullptr) [[unlikely]]
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

/// A call of a kernel, while something watches this thread: its work goes to the span that is open.
/// What it has other kernels do is counted already.
class [[nodiscard]] KernelSpan {
 public:
  [[gnu::cold]] explicit KernelSpan(const KernelWork& work);
  [[gnu::cold]] ~KernelSpan();
  KernelSpan(const KernelSpan&) = delete;
  KernelSpan& operator=(const KernelSpan&) = delete;

 private:
  void* record_;
};

}  // namespace tapegrad
