// Policy gradient balances a pole on a cart. See README.md beside this file.
#include <algorithm>
#include <deque>
#include <iostream>
#include <numeric>
#include <string>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "cartpole/cart_pole.h"
#include "cartpole/policy.h"
#include "flags.h"

ABSL_FLAG(int64_t, episodes, 1500, "episodes to learn from, unless the task is solved before");
ABSL_FLAG(double, solved, 475, "stop when the mean of 100 episodes has so many steps");
ABSL_FLAG(int64_t, width, 128, "hidden units of the policy");
ABSL_FLAG(double, discount, 0.99, "of later steps");
ABSL_FLAG(double, lr, 5e-3, "learning rate of Adam");
ABSL_FLAG(uint64_t, seed, 1, "of weights, first states and actions");
ABSL_FLAG(std::string, device, "", "cpu or cuda; empty takes TAPEGRAD_DEVICE, or else the CPU");
ABSL_FLAG(std::string, out, "", "folder for policy.safetensors and steps.svg");

namespace tg = tapegrad;
namespace optim = tapegrad::optim;
using cartpole::CartPole;

namespace {

/// Steps of an episode in which the policy takes its more likely action.
int64_t steps_without_chance(const cartpole::Policy& policy, CartPole& task) {
  const tg::NoGrad no_grad;
  task.reset();
  while (task.push(tg::argmax(policy(cartpole::as_input(task.state()))).item() == 1)) continue;
  return task.steps();
}

void run() {
  const int64_t episodes =
      examples::in_range("--episodes", absl::GetFlag(FLAGS_episodes), int64_t(0));
  const int64_t width = examples::in_range("--width", absl::GetFlag(FLAGS_width), int64_t(1));
  const double discount = examples::in_range("--discount", absl::GetFlag(FLAGS_discount), 0.0, 1.0);
  const double lr = examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  examples::use_device(absl::GetFlag(FLAGS_device));
  tg::manual_seed(absl::GetFlag(FLAGS_seed));

  CartPole task(absl::GetFlag(FLAGS_seed));
  cartpole::Policy policy(width);
  policy.to(tg::default_device());
  optim::Adam optimizer(policy, lr);
  tg::Series curve{"mean of 100 episodes", {}, {}};
  std::deque<int64_t> last;
  int64_t all_steps = 0;
  const double start = tg::steady_seconds();
  for (int64_t number = 1; number <= episodes; ++number) {
    cartpole::Episode episode;
    task.reset();
    while (task.push(cartpole::act(policy, task.state(), episode))) continue;
    optimizer.zero_grad();
    cartpole::loss_of(episode, discount).backward();
    optimizer.step();

    all_steps += task.steps();
    last.push_back(task.steps());
    if (last.size() > 100) last.pop_front();
    const double mean =
        double(std::accumulate(last.begin(), last.end(), int64_t(0))) / double(last.size());
    const bool is_solved = last.size() == 100 && mean >= absl::GetFlag(FLAGS_solved);
    if (number % 10 == 0) {
      curve.x.push_back(double(number));
      curve.y.push_back(mean);
    }
    if (number % 100 == 0 || is_solved)
      std::cout << "episode " << number << ": mean of the last " << last.size() << " episodes "
                << mean << " steps" << std::endl;
    if (is_solved) {
      std::cout << "solved\n";
      break;
    }
  }
  const double seconds = tg::steady_seconds() - start;
  std::cout << all_steps << " steps in " << seconds << " s, "
            << seconds * 1e6 / double(std::max<int64_t>(1, all_steps))
            << " us per step with its part of the update\n"
            << "without chance: " << steps_without_chance(policy, task) << " of "
            << CartPole::kMostSteps << " steps\n";
  if (out.empty()) return;
  tg::save((out / "policy.safetensors").string(), policy);
  tg::save_line_chart((out / "steps.svg").string(), {curve},
                      {.title = "Steps of an episode", .x_label = "episode"});
  std::cout << "written to " << out.string() << ": policy.safetensors, steps.svg\n";
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("cartpole", "Learns to balance a pole on a cart.", argc, argv, run);
}
