// One training step of the CNN of examples/mnist_cnn (--net=keras, batch of 128) on made-up images,
// by phase, and evaluation of a batch: `keras_cnn [steps]`. Beside other work OpenMP's threads wait
// for one another: measure with OMP_NUM_THREADS=1 then, or at least OMP_WAIT_POLICY=passive.
#include <cstdlib>
#include <functional>
#include <iostream>

#include "core/random.h"
#include "core/tape.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "optim/optimizers.h"
#include "train/timer.h"

namespace tapegrad {
namespace {

constexpr int64_t kBatch = 128;

double milliseconds_of(int steps, const std::function<void()>& call) {
  call();
  const TimeReport report = time_calls(call, steps);
  return 1e3 * report.seconds / steps;
}

void run(int steps) {
  manual_seed(1);
  nn::Sequential model({nn::Conv2d({.out_channels = 32, .kernel_size = 3}), nn::ReLU(),
                        nn::Conv2d({.out_channels = 64, .kernel_size = 3}), nn::ReLU(),
                        nn::MaxPool2d({.kernel_size = 2}), nn::Dropout(0.25), nn::Flatten(),
                        nn::Linear({.out_features = 128}), nn::ReLU(), nn::Dropout(0.5),
                        nn::Linear({.out_features = 10})},
                       {.input_shape = {{1, 28, 28}}, .init = nn::init::keras});
  optim::Adam optimizer(model);
  const Variable x = rand({kBatch, 1, 28, 28});
  const Variable target = randint(0, 10, {kBatch});
  model.train();
  const auto step = [&](StepTimer& timer) {
    optimizer.zero_grad();
    timer.mark(Phase::kUpdate);
    const Variable loss = cross_entropy(model.forward(x), target);
    timer.mark(Phase::kForward);
    loss.backward();
    timer.mark(Phase::kBackward);
    optimizer.step();
    timer.mark(Phase::kUpdate);
    timer.end_step();
  };
  StepTimer warm;
  for (int i = 0; i < 3; ++i) step(warm);
  StepTimer timer;
  for (int i = 0; i < steps; ++i) step(timer);
  timer.print();

  model.eval();
  const NoGrad no_grad;
  std::cout << "evaluate " << milliseconds_of(steps, [&] { model.forward(x); }) << " ms\n";
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) { tapegrad::run(argc > 1 ? std::atoi(argv[1]) : 20); }
