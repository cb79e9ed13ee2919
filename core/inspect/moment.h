// Moment: a point in the work of a device, to measure how long the device works.
//
//   const Moment begin(gpu);
//   ... ops ...
//   const Moment end(gpu);
//   end.seconds_since(begin);   // waits until the device has reached `end`
//
// On a GPU a moment is an event in the current stream of the thread: making a moment neither waits
// for the device nor depends on how far the host is ahead. On the CPU a moment is a reading of the
// clock.
#pragma once

#include <memory>

#include "core/base/device.h"

namespace tapegrad {

namespace cuda {
class Event;
}

class Moment {
 public:
  /// Makes a moment of the present. While a step is captured (train/graphed_step.h) the device does
  /// no work, and the moment is a reading of the host's clock. Throws DeviceError if the device
  /// does not exist.
  explicit Moment(Device device = cpu);

  /// Returns whether the device has reached this moment. Does not wait.
  bool query() const;
  /// Returns the time between two moments; waits for the device. If either moment is a reading of
  /// the host's clock, returns the host's time between the calls that made them.
  double seconds_since(const Moment& earlier) const;

 private:
  double host_;                               // seconds of a steady clock
  std::shared_ptr<const cuda::Event> event_;  // null on the CPU
};

}  // namespace tapegrad
