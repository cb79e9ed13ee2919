// Trains one epoch of Fashion-MNIST; prints its time and the accuracy on the test set.
// peers/torch_epoch.cpp does the same with libtorch.
//
//   epoch [directory of the data]
#include <iostream>

#include "benchmarks/measure.h"
#include "benchmarks/workloads.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "optim/optimizers.h"
#include "train/fit.h"

namespace tapegrad::bench {
namespace {

void run(const std::string& directory) {
  const auto [train, test] = load_mnist(directory);
  manual_seed(1);
  nn::Sequential net = keras_net();
  optim::Adadelta optimizer(net, 1.0);
  DeviceLoader batches(train, {.batch_size = 128, .shuffle = true});
  DeviceLoader test_batches(test, {.batch_size = 500});
  const History history =
      fit(net, batches, optimizer, {.progress = {.style = ProgressStyle::kNone}});
  ::bench::print_line("fashion_epoch", history.epochs.front().seconds, "s");
  ::bench::print_line("fashion_accuracy", evaluate(net, test_batches).accuracy * 100, "%");
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) {
  try {
    tapegrad::bench::run(argc > 1 ? argv[1] : tapegrad::kFashionMnistDir);
  } catch (const tapegrad::Error& error) {
    std::cerr << "epoch: " << error.what() << '\n';
    return 1;
  }
}
