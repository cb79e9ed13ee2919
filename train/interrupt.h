// Interrupt: turns SIGINT and SIGTERM into a question that a training loop asks between its steps.
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

/// Handles SIGINT and SIGTERM while at least one Interrupt lives. A second signal has its default
/// effect, so a loop that hangs can still be ended. A signal for which the program has its own
/// handler, or which it ignores, is left alone. Several objects may live at once, in any threads;
/// all see the signal.
class [[nodiscard]] Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// The number of the signal that arrived since the first of the living objects was made; 0 if
  /// none did.
  int signal() const;
};

/// "SIGINT", "SIGTERM"; "signal 10" for others.
std::string signal_name(int signal);

}  // namespace tapegrad
