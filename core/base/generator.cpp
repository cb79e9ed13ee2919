#include "core/base/generator.h"

#include "core/base/context.h"
#include "core/base/internal/step_observer.h"

namespace tapegrad {

class RandomGenerator::Lock {
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

RandomGenerator::~RandomGenerator() {
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->on_end(*this);
}

RandomState RandomGenerator::draw(uint64_t words) {
  RandomState start;
  DrawObserver* observer = detail::context.draw_observer;
  if (observer != nullptr && observer->repeat(start)) return start;
  {
    const Lock lock(busy_);
    start = state_;
    state_.offset += (words + 3) / 4;
  }
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->on_draw(*this, start, (words + 3) / 4);
  if (observer != nullptr) observer->on_draw(start);
  return start;
}

RandomState RandomGenerator::state() const {
  const Lock lock(busy_);
  return state_;
}

void RandomGenerator::set_state(RandomState state) {
  if (StepObserver* step = StepObserver::current()) [[unlikely]] {
    const auto is_here = [this, state] {
      const RandomState now = this->state();
      return now.seed == state.seed && now.offset == state.offset;
    };
    // Setting the generator to its current state has no effect, as long as a step begins with this
    // state. Only the default generator certainly exists when a later step checks this.
    if (this == &default_generator() && is_here())
      step->on_setting(is_here);
    else
      step->on_host_change("sets the seed of a generator");
  }
  const Lock lock(busy_);
  state_ = state;
}

RandomGenerator& default_generator() {
  static RandomGenerator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator().seed(seed); }

}  // namespace tapegrad
