// Interrupt: lets a training loop check for SIGINT and SIGTERM between its steps.
//
//   const Interrupt interrupt;
//   for (auto& [x, y] : batches) {
//     ...
//     if (interrupt.signal() != 0) {
//       run.save("run.safetensors");
//       break;
//     }
//   }
#pragma once

#include <string>

namespace tapegrad {

/// Handles SIGINT and SIGTERM while at least one Interrupt exists. A second signal has its default
/// effect, so a loop that hangs can still be ended. A signal that the program handles itself or
/// ignores is not affected. Several objects may exist at once, in any threads; all of them report
/// the signal.
class [[nodiscard]] Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// Returns the number of the signal that arrived since the first of the existing objects was
  /// made; 0 if there was none.
  int signal() const;
};

/// Returns "SIGINT" or "SIGTERM"; "signal 10", for example, for other signals.
std::string signal_name(int signal);

}  // namespace tapegrad
