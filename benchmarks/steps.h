// Programs that time steps of networks on request, so that a driver (benchmarks/interleave.py) can
// alternate between processes of tapegrad and of PyTorch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tapegrad/tapegrad.h>

namespace tapegrad::bench {

/// Makes one step and returns its loss or another single number, for which the caller waits. An
/// empty result means that the step has waited.
using Step = std::function<Variable()>;

struct Network {
  std::string name, description;
  std::function<Step()> make;
};

/// Returns a training step on the default device (TAPEGRAD_DEVICE): clears the gradients, computes
/// loss(model), runs backward and the optimizer.
template <typename Optimizer = optim::SGD, typename Model, typename Loss>
Step training(Model model, Loss loss, double lr = 1e-3) {
  auto net = std::make_shared<Model>(std::move(model));
  net->to(default_device());
  auto optimizer = std::make_shared<Optimizer>(*net, lr);
  return [=] {
    optimizer->zero_grad();
    const Variable value = loss(*net);
    value.backward();
    optimizer->step();
    return value;
  };
}

/// Main function of such a program:
///   program                              lists the networks
///   program [--steps=N] [--profile] [--explain] NAME...
///   program --serve                      reads lines "NAME STEPS", answers with the milliseconds
/// --cpu-time counts the time of the process on all processors instead of the clock's. --captured
/// records each step and replays it (train/graphed_step.h); a server answers "failed" if the step
/// cannot be recorded. --explain prints the plan of a captured step.
int run_networks(const std::vector<Network>& networks, int argc, char** argv);

}  // namespace tapegrad::bench
