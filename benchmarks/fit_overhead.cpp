// Compares fit() with a loop written by hand that computes the same: mean loss, and accuracy of
// classes. Prints the medians of rounds that alternate between both, and the ratio.
//
//   fit_overhead [--cpu-time] [ROUNDS]    by default 21 rounds of the clock
//
// --cpu-time counts the time of the process on all processors, for a machine with other work.
#include <algorithm>
#include <cstdlib>

#include "benchmarks/measure.h"
#include "core/base/generator.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/image.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "optim/optimizers.h"
#include "train/fit.h"

namespace tapegrad::bench {
namespace {

struct Task {
  const char* name;
  nn::Sequential (*make_model)();
  TensorDataset data;
  int64_t batch_size, epochs;
  LossFn loss;
  bool accuracy;
};

double by_hand(const Task& task) {
  manual_seed(1);
  nn::Sequential model = task.make_model();
  optim::Adam adam(model);
  DeviceLoader batches(task.data, {.batch_size = task.batch_size});
  const double begin = ::bench::seconds();
  for (int64_t epoch = 0; epoch < task.epochs; ++epoch) {
    RunningMean mean, accuracy;
    for (auto& [x, y] : batches) {
      adam.zero_grad();
      const Variable output = model(x);
      const Variable loss = task.loss(output, y);
      loss.backward();
      adam.step();
      const auto n = double(x.size(0));
      mean.add(loss, n);
      if (task.accuracy) accuracy.add(count_correct(output, y).to(f64) / n, n);
    }
    if (!(mean.value() >= 0)) std::abort();
  }
  return (::bench::seconds() - begin) / double(task.epochs * batches.size());
}

double by_fit(const Task& task) {
  manual_seed(1);
  nn::Sequential model = task.make_model();
  optim::Adam adam(model);
  DeviceLoader batches(task.data, {.batch_size = task.batch_size});
  const double begin = ::bench::seconds();
  fit(model, batches, adam,
      {.epochs = task.epochs,
       .loss = task.loss,
       .accuracy = task.accuracy,
       .stop_below = -1,
       .progress = {.style = ProgressStyle::kNone}});
  return (::bench::seconds() - begin) / double(task.epochs * batches.size());
}

void compare(const Task& task, int rounds) {
  std::vector<double> hand, fitted;
  by_hand(task);
  for (int round = 0; round < rounds; ++round) {
    hand.push_back(by_hand(task));
    fitted.push_back(by_fit(task));
  }
  const double a = ::bench::median(hand), b = ::bench::median(fitted);
  ::bench::print_line(std::string(task.name) + ".hand", a * 1e6, "us/step");
  ::bench::print_line(std::string(task.name) + ".fit", b * 1e6, "us/step");
  ::bench::print_line(std::string(task.name) + ".overhead", (b / a - 1) * 100, "%");
  ::bench::print_line(
      std::string(task.name) + ".overhead of the fastest rounds",
      (*std::ranges::min_element(fitted) / *std::ranges::min_element(hand) - 1) * 100, "%");
}

nn::Sequential article_cnn() {
  return nn::Sequential(
      {nn::Conv2d({.in_channels = 1, .out_channels = 10, .kernel_size = 3, .padding = 1}),
       nn::ReLU(), nn::MaxPool2d({.kernel_size = 2}), nn::Flatten(),
       nn::Linear({.in_features = 1960, .out_features = 100}), nn::ReLU(),
       nn::Linear({.in_features = 100, .out_features = 10})});
}

nn::Sequential peaks_net() {
  return nn::Sequential({nn::Linear({.in_features = 2, .out_features = 20}), nn::ReLU(),
                         nn::Linear({.in_features = 20, .out_features = 5}), nn::ReLU(),
                         nn::Linear({.in_features = 5, .out_features = 1})});
}

int run(int rounds) {
  const TensorDataset images(rand({800, 1, 28, 28}), randint(0, 10, {800}));
  const TensorDataset rows(rand({40'000, 2}), rand({40'000, 1}));
  const LossFn entropy = [](const Variable& x, const Variable& y) { return cross_entropy(x, y); };
  const LossFn squares = [](const Variable& x, const Variable& y) { return mse_loss(x, y); };
  compare({"article_cnn.batch8", article_cnn, images, 8, 2, entropy, true}, rounds);
  compare({"peaks", peaks_net, rows, 40'000, 20, squares, false}, rounds);
  compare({"peaks.batch100", peaks_net, rows, 100, 1, squares, false}, rounds);
  return 0;
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) { return tapegrad::bench::run(bench::read_rounds(argc, argv, 21)); }
