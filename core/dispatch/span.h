// Spans: measured intervals of ops, rules, optimizer steps and kernels, which a profiler
// (core/inspect/profiler.h) observes. Without an observer a span costs one predicted branch. The
// recorder of a captured step also gets the names of ops from spans.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/context.h"
#include "core/base/where.h"

namespace tapegrad {

enum class Pass { kForward, kBackward, kUpdate };
inline constexpr std::string_view kPassNames[] = {"forward", "backward", "update"};

/// Work of kernels.
struct KernelWork {
  int64_t flops = 0;  // floating-point operations
  int64_t bytes = 0;  // bytes read and written
};

/// A measured interval, from construction to destruction. Spans inside a rule are not counted.
class [[nodiscard]] OpSpan {
 public:
  explicit OpSpan(std::string_view op, Pass pass = Pass::kForward,
                  const std::string* part = nullptr, const Where& where = {}) {
    if (detail::context.is_observed) [[unlikely]]
      begin(op, pass, part, where);
  }
  ~OpSpan() {
    if (is_open_) [[unlikely]]
      end();
  }
  OpSpan(const OpSpan&) = delete;
  OpSpan& operator=(const OpSpan&) = delete;

 private:
  [[gnu::cold]] void begin(std::string_view op, Pass pass, const std::string* part,
                           const Where& where);
  [[gnu::cold]] void end();

  bool is_open_ = false;
  void* record_;            // the observing record; null for none
  CallRecorder* recorder_;  // the observing recorder; null for none
};

/// A kernel call under observation, whose work is added to the open span. Kernels called by other
/// kernels are not counted again.
class [[nodiscard]] KernelSpan {
 public:
  [[gnu::cold]] explicit KernelSpan(const KernelWork& work);
  [[gnu::cold]] ~KernelSpan();
  /// Adds the name of the implementation that runs to the open span. For kernels with several
  /// implementations.
  [[gnu::cold]] static void note(std::string_view kernel, std::string_view implementation);
  KernelSpan(const KernelSpan&) = delete;
  KernelSpan& operator=(const KernelSpan&) = delete;

 private:
  void* record_;
};

}  // namespace tapegrad
