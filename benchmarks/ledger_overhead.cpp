// Cost of a RunLedger: a training step alone, with the results of its ops recorded, and with the
// weights after it recorded too. Rounds alternate between the three; prints medians and ratios.
//
//   ledger_overhead [--cpu-time] [ROUNDS]    by default 21 rounds of the clock
//
// --cpu-time counts the time of the process on all processors, for a machine with other work.
#include <algorithm>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "benchmarks/measure.h"
#include "char_gpt/model.h"

namespace tapegrad::bench {
namespace {

/// Returns the seconds of a step. Ends a step with after_step(model).
template <typename Model, typename Loss, typename After>
double time_steps(const Model& model, optim::Optimizer& optimizer, int steps, const Loss& loss,
                  const After& after_step) {
  const double begin = ::bench::seconds();
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    loss(model).backward();
    optimizer.step();
    after_step(model);
  }
  return (::bench::seconds() - begin) / steps;
}

template <typename Model, typename Loss>
void compare(const std::string& name, Model model, int steps, int rounds, const Loss& loss) {
  optim::Adam optimizer(model);
  std::vector<double> alone, ops, weights;
  int64_t entries = 0;
  const auto record = [&](const auto& end_step) {
    RunLedger ledger;
    const double time = time_steps(model, optimizer, steps, loss,
                                   [&](const Model& trained) { end_step(ledger, trained); });
    entries = ledger.size() / steps;
    return time;
  };
  for (int round = 0; round <= rounds; ++round) {
    alone.push_back(time_steps(model, optimizer, steps, loss, [](const Model&) {}));
    ops.push_back(record([](RunLedger& ledger, const Model&) { ledger.end_step(); }));
    weights.push_back(
        record([](RunLedger& ledger, const Model& trained) { ledger.note(trained); }));
    if (round == 0) alone.clear(), ops.clear(), weights.clear();  // fills caches
  }
  const auto print = [&](const std::string& what, const std::vector<double>& times) {
    const double least = std::ranges::min(times), median = ::bench::median(times);
    ::bench::print_line(name + '.' + what, median * 1e6, "us/step");
    ::bench::print_line(name + '.' + what + ".overhead",
                        (median / ::bench::median(alone) - 1) * 100, "%");
    ::bench::print_line(name + '.' + what + ".overhead of the fastest rounds",
                        (least / std::ranges::min(alone) - 1) * 100, "%");
  };
  ::bench::print_line(name + ".alone", ::bench::median(alone) * 1e6, "us/step");
  print("ops", ops);
  print("ops and weights", weights);
  ::bench::print_line(name + ".entries", double(entries), "/step");
}

void run(int rounds) {
  manual_seed(1);
  const Variable images = rand({8, 1, 28, 28}), classes = randint(0, 10, {8});
  compare("article_cnn.batch8",
          nn::Sequential(
              {nn::Conv2d({.in_channels = 1, .out_channels = 10, .kernel_size = 3, .padding = 1}),
               nn::ReLU(), nn::MaxPool2d({.kernel_size = 2}), nn::Flatten(),
               nn::Linear({.in_features = 1960, .out_features = 100}), nn::ReLU(),
               nn::Linear({.in_features = 100, .out_features = 10})}),
          50, rounds, [&](const auto& net) { return cross_entropy(net(images), classes); });
  const Variable rows = rand({40'000, 2}), heights = rand({40'000, 1});
  compare("peaks",
          nn::Sequential({nn::Linear({.in_features = 2, .out_features = 20}), nn::ReLU(),
                          nn::Linear({.in_features = 20, .out_features = 5}), nn::ReLU(),
                          nn::Linear({.in_features = 5, .out_features = 1})}),
          20, rounds, [&](const auto& net) { return mse_loss(net(rows), heights); });
  const Variable text = randint(0, 86, {16, 129});
  const Variable x = narrow(text, 1, 0, 128), y = flatten(narrow(text, 1, 1, 128));
  compare("char_gpt", char_gpt::Gpt({.letters = 86}), 1, std::max(1, rounds / 3),
          [&](const auto& net) { return cross_entropy(flatten(net(x), 0, 1), y); });
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) { tapegrad::bench::run(bench::read_rounds(argc, argv, 21)); }
