// The cart-pole task: a pole stands on a cart, and pushes to the left or right keep it upright. The
// equations of motion are those of Barto, Sutton and Anderson, "Neuronlike adaptive elements that
// can solve difficult learning control problems", IEEE Transactions on Systems, Man, and
// Cybernetics 13(5), 1983, without friction.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>

namespace cartpole {

class CartPole {
 public:
  static constexpr double kGravity = 9.8;     // m/s^2
  static constexpr double kCart = 1.0;        // kg
  static constexpr double kPole = 0.1;        // kg
  static constexpr double kHalfLength = 0.5;  // of the pole, m
  static constexpr double kForce = 10.0;      // N
  static constexpr double kSeconds = 0.02;    // of a step
  static constexpr double kTrack = 2.4;       // largest distance from the middle, m
  static constexpr double kTilt = M_PI / 15;  // largest angle, 12 degrees
  static constexpr int64_t kMostSteps = 500;  // of an episode

  /// Position (m), velocity, angle (radians) and angular velocity.
  using State = std::array<double, 4>;

  const State& state() const { return state_; }
  int64_t steps() const { return steps_; }

  /// Begins an episode in a state near the equilibrium, which is drawn by the seed.
  const State& reset(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> near(-0.05, 0.05);
    for (double& value : state_) value = near(random);
    steps_ = 0;
    return state_;
  }
  /// Pushes the cart to the right or left for one step of Euler's method. Returns whether the
  /// episode goes on.
  bool push(bool to_the_right) {
    auto& [x, v, angle, turn] = state_;
    const double force = to_the_right ? kForce : -kForce;
    const double sine = std::sin(angle), cosine = std::cos(angle), mass = kCart + kPole;
    const double share = (force + kPole * kHalfLength * turn * turn * sine) / mass;
    const double turning = (kGravity * sine - cosine * share) /
                           (kHalfLength * (4.0 / 3.0 - kPole * cosine * cosine / mass));
    const double pushing = share - kPole * kHalfLength * turning * cosine / mass;
    x += kSeconds * v;
    v += kSeconds * pushing;
    angle += kSeconds * turn;
    turn += kSeconds * turning;
    ++steps_;
    return std::abs(x) <= kTrack && std::abs(angle) <= kTilt && steps_ < kMostSteps;
  }

 private:
  State state_ = {};
  int64_t steps_ = 0;
};

}  // namespace cartpole
