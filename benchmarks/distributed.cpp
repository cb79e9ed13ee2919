// Time of a training step of the Keras CNN on several ranks, with random images:
//
//   mpirun -n 2 build/benchmarks/distributed --batch=64 --steps=40
//
// Prints one line: ranks, the median and the fastest step of rank 0 in ms, and the share of the
// time in which rank 0 only waited for gradients. benchmarks/peers/torch_distributed.py is the same
// with PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "dist/data_parallel.h"
#include "dist/init.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "optim/optimizers.h"

using namespace tapegrad;

static int option(int argc, char** argv, const char* name, int fallback) {
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], name, std::strlen(name)) == 0)
      return std::atoi(argv[i] + std::strlen(name));
  return fallback;
}

int main(int argc, char** argv) {
  const int batch = option(argc, argv, "--batch=", 64), steps = option(argc, argv, "--steps=", 40);
  const auto world = dist::init();
  manual_seed(1);
  nn::Sequential model(nn::Conv2d(1, 32, 3), nn::ReLU(), nn::Conv2d(32, 64, 3), nn::ReLU(),
                       nn::MaxPool2d(2), nn::Dropout(0.25), nn::Flatten(), nn::Linear(9216, 128),
                       nn::ReLU(), nn::Dropout(0.5), nn::Linear(128, 10));
  dist::DataParallel net(model, world);
  optim::Adam opt(net, 1e-3);
  const Variable x = randn({batch, 1, 28, 28}), y = randint(0, 10, {batch});
  std::vector<double> times;
  double exposed = 0;
  for (int i = -5; i < steps; ++i) {
    if (i == 0) exposed = net.stats().exposed;
    const auto begin = std::chrono::steady_clock::now();
    opt.zero_grad();
    cross_entropy(net(x), y).backward();
    opt.step();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (i >= 0) times.push_back(time.count());
  }
  exposed = net.stats().exposed - exposed;
  double total = 0;
  for (const double each : times) total += each;
  std::ranges::sort(times);
  if (world.is_first())
    std::printf("tapegrad %d ranks: median %.2f ms, fastest %.2f ms, exposed %.1f %%\n",
                world.size(), 1e3 * times[times.size() / 2], 1e3 * times[0], 100 * exposed / total);
}
