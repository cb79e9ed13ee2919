// Moment: a point in the work of a device, to measure how long the device works.
//
//   const Moment begin(gpu);
//   ... ops ...
//   const Moment end(gpu);
//   end.seconds_since(begin);   // waits until the device has come to `end`
//
// On a GPU a moment is an event in the current stream of the thread: making one neither waits for
// the device nor depends on how far the host is ahead. On the CPU a moment is the time of day.
#pragma once

#include <memory>

#include "core/base/device.h"

namespace tapegrad {

namespace cuda {
class Event;
}

class Moment {
 public:
  /// The present. While a step is captured (train/graphed_step.h) the device does no work, and the
  /// moment is one of the host. Throws DeviceError if the device does not exist.
  explicit Moment(Device device = cpu);

  /// Whether the device has come to this moment. Does not wait.
  bool has_come() const;
  /// Waits for the device. If one of the moments is of the host, returns the host's time between
  /// the calls that made them.
  double seconds_since(const Moment& earlier) const;

 private:
  double host_;                               // seconds of a steady clock
  std::shared_ptr<const cuda::Event> event_;  // null on the CPU
};

}  // namespace tapegrad
