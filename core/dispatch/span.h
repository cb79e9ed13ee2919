// Spans: measured intervals of ops, rules, optimizer steps and kernels, which a profiler
// (core/inspect/profiler.h) observes. Without a profiler, a span costs a predicted branch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/context.h"

namespace tapegrad {

enum class Pass { kForward, kBackward, kUpdate };
inline constexpr std::string_view kPassNames[] = {"forward", "backward", "update"};

/// Work of kernels.
struct KernelWork {
  int64_t flops = 0;  // floating-point operations
  int64_t bytes = 0;  // bytes read and written
};

/// A measured interval, from construction to destruction. Inside a rule no other span is counted.
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

  void* record_ = nullptr;  // the observing record
};

/// A kernel call under observation: adds its work to the open span. Kernels called by other kernels
/// are not counted again.
class [[nodiscard]] KernelSpan {
 public:
  [[gnu::cold]] explicit KernelSpan(const KernelWork& work);
  [[gnu::cold]] ~KernelSpan();
  /// Adds the implementation that runs, of a kernel that has several, to the open span.
  [[gnu::cold]] static void note(std::string_view kernel, std::string_view implementation);
  KernelSpan(const KernelSpan&) = delete;
  KernelSpan& operator=(const KernelSpan&) = delete;

 private:
  void* record_;
};

}  // namespace tapegrad
