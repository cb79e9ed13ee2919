#include "core/inspect/moment.h"

#include "core/base/context.h"
#include "core/base/internal/clock.h"
#include "core/cuda.h"

namespace tapegrad {

Moment::Moment(Device device) : host_(detail::steady_seconds()) {
  if (device.type != DeviceType::kCuda || detail::context.step_observer != nullptr) return;
  const auto event = std::make_shared<cuda::Event>(device);
  event->record();
  event_ = event;
}

bool Moment::query() const { return event_ == nullptr || event_->query(); }

double Moment::seconds_since(const Moment& earlier) const {
  if (event_ == nullptr || earlier.event_ == nullptr) return host_ - earlier.host_;
  return double(earlier.event_->elapsed_ms(*event_)) * 1e-3;
}

}  // namespace tapegrad
