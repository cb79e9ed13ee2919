// Random numbers by Philox4x32-10, a counter-based generator. Element i of a draw depends only on
// the seed, the offset of the draw and i, so the numbers are equal for any number of threads and on
// every device.
//
//   manual_seed(42);
//   Variable x = randn({3, 4});
//   RandomState state = default_generator().state();   // later: set_state(state)
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/base/host_device.h"

namespace tapegrad {

/// Ten rounds of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
/// Returns four words for a 64-bit key and a 128-bit counter. The upper half of the counter is zero
/// except for per-element streams.
TG_HD inline std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter, uint64_t upper = 0) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32);
  uint32_t c2 = uint32_t(upper), c3 = uint32_t(upper >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
    c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    c1 = uint32_t(p1);
    c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// Position of a generator in its stream; also identifies the numbers of one draw.
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;  // next counter; each counter gives four words

  bool operator==(const RandomState&) const = default;
};

/// Word i of a draw is word i % 4 of counter offset + i / 4. A float in [0, 1) is the upper 24 bits
/// of word i; a double is the upper 53 bits of words 2i (high) and 2i + 1 (low).
TG_HD inline float uniform_float(uint32_t word) { return float(word >> 8) * 0x1p-24f; }
TG_HD inline double uniform_double(uint32_t high, uint32_t low) {
  return double((uint64_t(high) << 32 | low) >> 11) * 0x1p-53;
}

/// Observer of all draws on a thread. The observer may replace the state of a draw: when a
/// checkpoint recomputes a part (core/autograd/checkpoint.h), the part draws the same numbers
/// again.
class DrawObserver {
 public:
  /// Returns true if it has set `state`; the generator then does not advance.
  virtual bool repeat(RandomState& state) = 0;
  virtual void on_draw(RandomState state) = 0;

 protected:
  ~DrawObserver() = default;
};
/// Generator that hands out disjoint parts of one random stream. Thread-safe.
class RandomGenerator {
 public:
  explicit RandomGenerator(uint64_t seed = 0) : state_{seed, 0} {}
  ~RandomGenerator();  // notifies a captured step, which cannot repeat draws of its own generators

  /// Reserves `words` 32-bit words and returns the state at which they start.
  RandomState draw(uint64_t words);

  RandomState state() const;
  void set_state(RandomState state);
  void seed(uint64_t seed) { set_state({seed, 0}); }
  RandomGenerator& manual_seed(uint64_t seed) { return set_state({seed, 0}), *this; }

 private:
  class Lock;

  mutable std::atomic_flag busy_;  // not std::mutex, because every user would compile <mutex>
  RandomState state_;
};

/// Returns the generator that random ops use if none is given. Its seed is 0 unless manual_seed()
/// sets another.
RandomGenerator& default_generator();
void manual_seed(uint64_t seed);

}  // namespace tapegrad
