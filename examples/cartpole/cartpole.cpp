// Policy gradient balances a pole on a cart. See README.md beside this file.
#include <algorithm>
#include <iostream>
#include <string>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "cartpole/cart_pole.h"
#include "cartpole/policy.h"
#include "flags.h"

ABSL_FLAG(int64_t, episodes, 1500, "largest number of episodes");
ABSL_FLAG(double, solved, 475, "mean steps of 100 episodes at which the training ends");
ABSL_FLAG(int64_t, width, 128, "hidden units of the policy");
ABSL_FLAG(double, discount, 0.99, "factor of the reward of each later step");
ABSL_FLAG(double, lr, 5e-3, "learning rate of Adam");
ABSL_FLAG(uint64_t, seed, 1, "seed of weights, first states and actions");
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(std::string, out, "",
          "folder for policy.safetensors, steps.svg and the state of the run");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");

namespace tg = tapegrad;
namespace optim = tapegrad::optim;
using cartpole::CartPole;

namespace {

/// Steps of an episode in which the policy takes its more likely action.
int64_t steps_without_chance(const cartpole::Policy& policy, uint64_t seed) {
  const tg::NoGrad no_grad;
  CartPole task;
  task.reset(seed);
  while (task.push(tg::argmax(policy(cartpole::as_input(task.state()))).item() == 1)) continue;
  return task.steps();
}

bool is_solved(const tg::History& history) {
  return history.epochs.size() >= 100 &&
         history.epochs.back().value("mean") >= absl::GetFlag(FLAGS_solved);
}

/// Learns until the task is solved. Returns, for every episode, its steps and the mean steps of the
/// last hundred episodes. The state of the run is saved after every hundred episodes, if there is a
/// file for it.
tg::History learn(cartpole::Policy& policy, int64_t episodes, const std::string& file) {
  optim::Adam optimizer(policy, absl::GetFlag(FLAGS_lr));
  tg::History history;
  tg::TrainingState state;
  state("policy", policy)("optimizer", optimizer)("history", history);
  examples::resume_run(state, file, absl::GetFlag(FLAGS_resume));

  CartPole task;
  int64_t steps = 0;
  const double start = tg::steady_seconds();
  for (int64_t number = int64_t(history.epochs.size()) + 1;
       number <= episodes && !is_solved(history); ++number) {
    cartpole::Episode episode;
    task.reset(absl::GetFlag(FLAGS_seed) + uint64_t(number));
    while (task.push(cartpole::act(policy, task.state(), episode))) continue;
    optimizer.zero_grad();
    cartpole::loss_of(episode, absl::GetFlag(FLAGS_discount)).backward();
    optimizer.step();

    steps += task.steps();
    history.epochs.push_back({.epoch = number, .more = {{"steps", double(task.steps())}}});
    const int64_t count = std::min<int64_t>(number, 100);
    double sum = 0;
    for (auto each = history.epochs.end() - count; each != history.epochs.end(); ++each)
      sum += each->value("steps");
    history.epochs.back().more.emplace_back("mean", sum / double(count));
    if (number % 100 != 0 && !is_solved(history)) continue;
    std::cout << "episode " << number << ": mean of the last " << count << " episodes "
              << sum / double(count) << " steps" << std::endl;
    if (!file.empty()) state.save(file);
  }
  if (is_solved(history)) std::cout << "solved\n";
  const double seconds = tg::steady_seconds() - start;
  std::cout << steps << " steps in " << seconds << " s, "
            << seconds * 1e6 / double(std::max<int64_t>(1, steps))
            << " us per step with its part of the update\n";
  return history;
}

void run() {
  const int64_t episodes =
      examples::in_range("--episodes", absl::GetFlag(FLAGS_episodes), int64_t(0));
  const int64_t width = examples::in_range("--width", absl::GetFlag(FLAGS_width), int64_t(1));
  examples::in_range("--discount", absl::GetFlag(FLAGS_discount), 0.0, 1.0);
  examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  examples::in_range("--solved", absl::GetFlag(FLAGS_solved), 0.0);
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const std::string file = examples::run_file(out, absl::GetFlag(FLAGS_resume));
  examples::use_device(absl::GetFlag(FLAGS_device));
  tg::manual_seed(absl::GetFlag(FLAGS_seed));

  cartpole::Policy policy(width);
  policy.to(tg::default_device());
  const tg::History history = learn(policy, episodes, file);
  std::cout << "without chance: " << steps_without_chance(policy, absl::GetFlag(FLAGS_seed))
            << " of " << CartPole::kMostSteps << " steps\n";
  if (out.empty()) return;
  tg::save((out / "policy.safetensors").string(), policy);
  tg::save_line_chart((out / "steps.svg").string(),
                      {history.series("mean", "mean of 100 episodes")},
                      {.title = "Steps of an episode", .x_label = "episode"});
  std::cout << "written to " << out.string() << ": policy.safetensors, steps.svg\n";
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("cartpole", "Learns to balance a pole on a cart.", argc, argv, run);
}
