#include "core/random.h"

namespace tapegrad {

RandomState Generator::draw(uint64_t words) {
  std::lock_guard lock(mutex_);
  const RandomState start = state_;
  state_.offset += (words + 3) / 4;
  return start;
}

RandomState Generator::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(RandomState state) {
  std::lock_guard lock(mutex_);
  state_ = state;
}

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator().seed(seed); }

}  // namespace tapegrad
