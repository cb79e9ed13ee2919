#include "core/base/generator.h"

#include <utility>

#include "core/autograd/internal/capture.h"

namespace tapegrad {
namespace {

constinit thread_local DrawObserver* draw_observer = nullptr;

}  // namespace

DrawObserver* set_draw_observer(DrawObserver* observer) {
  return std::exchange(draw_observer, observer);
}

class Generator::Lock {
 public:
  explicit Lock(std::atomic_flag& busy) : busy_(busy) {
    while (busy_.test_and_set(std::memory_order_acquire)) busy_.wait(true);
  }
  ~Lock() {
    busy_.clear(std::memory_order_release);
    busy_.notify_one();
  }

 private:
  std::atomic_flag& busy_;
};

RandomState Generator::draw(uint64_t words) {
  RandomState start;
  if (draw_observer != nullptr && draw_observer->repeat(start)) return start;
  {
    const Lock lock(busy_);
    start = state_;
    state_.offset += (words + 3) / 4;
  }
  if (Capture* capture = Capture::current()) [[unlikely]]
    capture->on_draw(*this, start, (words + 3) / 4);
  if (draw_observer != nullptr) draw_observer->on_draw(start);
  return start;
}

RandomState Generator::state() const {
  const Lock lock(busy_);
  return state_;
}

void Generator::set_state(RandomState state) {
  const Lock lock(busy_);
  state_ = state;
}

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator().seed(seed); }

}  // namespace tapegrad
