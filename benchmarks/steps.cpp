#include "benchmarks/steps.h"

#include <algorithm>
#include <ctime>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>

#include "benchmarks/measure.h"

namespace tapegrad::bench {
namespace {

bool counts_cpu_time = false;
bool is_captured = false;

double seconds() {
  return counts_cpu_time ? double(std::clock()) / CLOCKS_PER_SEC : ::bench::seconds();
}

/// The step of a network, as a function or captured.
class TimedStep {
 public:
  explicit TimedStep(const Network& network) : step_(network.make()) {
    if (is_captured) captured_.emplace(step_, std::vector<Variable>(), kOptions);
  }

  /// Returns the time until the result of a step is there.
  double milliseconds() {
    const double begin = seconds();
    const Variable result = captured_ ? (*captured_)() : step_();
    if (result.defined()) result.item();
    return (seconds() - begin) * 1e3;
  }
  /// Returns why the step is not captured, although it should be; empty otherwise.
  std::string complaint() const { return captured_ ? captured_->reason() : ""; }
  std::string explain() const { return captured_ ? captured_->explain() : ""; }

 private:
  static constexpr GraphedStepOptions kOptions{.warmup = 1};
  Step step_;
  std::optional<GraphedStep> captured_;
};

const Network* find(const std::vector<Network>& networks, std::string_view name) {
  const auto found = std::ranges::find(networks, name, &Network::name);
  return found == networks.end() ? nullptr : &*found;
}

int list(const std::vector<Network>& networks) {
  for (const Network& network : networks)
    std::cout << network.name << '\t' << network.description << '\n';
  return 0;
}

/// Keeps the network of the last line, so that further lines with the same name continue with it.
int serve(const std::vector<Network>& networks) {
  std::string line, current;
  std::optional<TimedStep> step;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string name;
    int64_t steps = 0;
    words >> name >> steps;
    const Network* network = find(networks, name);
    if (network == nullptr) {
      std::cout << "unknown" << std::endl;
      continue;
    }
    if (name != current) {
      step.reset();
      manual_seed(1);
      step.emplace(*network);
      current = name;
    }
    std::vector<double> times;
    for (int64_t i = 0; i < steps; ++i) times.push_back(step->milliseconds());
    if (const std::string complaint = step->complaint(); !complaint.empty()) {
      std::cerr << name << ": " << complaint << '\n';
      std::cout << "failed" << std::endl;
      continue;
    }
    for (size_t i = 0; i < times.size(); ++i) std::cout << (i ? "\t" : "") << times[i];
    std::cout << std::endl;
  }
  return 0;
}

void run(const Network& network, int64_t steps, bool is_profiled, bool is_explained) {
  manual_seed(1);
  TimedStep step(network);
  for (int i = 0; i < 3; ++i) step.milliseconds();
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) times.push_back(step.milliseconds());
  if (const std::string complaint = step.complaint(); !complaint.empty())
    std::cerr << network.name << ": " << complaint << '\n';
  ::bench::print_line(network.name + (is_captured ? " captured" : ""), ::bench::median(times),
                      "ms");
  if (is_explained) std::cout << step.explain();
  if (!is_profiled) return;
  Profiler profiler;
  for (int64_t i = 0; i < steps; ++i) step.milliseconds();
  profiler.stop();
  std::cout << profiler;
}

}  // namespace

int run_networks(const std::vector<Network>& networks, int argc, char** argv) {
  int64_t steps = 10;
  bool is_profiled = false, is_explained = false;
  std::vector<const Network*> chosen;
  bool is_server = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--serve") {
      is_server = true;
      continue;
    }
    if (word == "--cpu-time") {
      counts_cpu_time = true;
    } else if (word == "--captured") {
      is_captured = true;
    } else if (word == "--explain") {
      is_explained = true;
    } else if (word == "--profile") {
      is_profiled = true;
    } else if (word.starts_with("--steps=")) {
      steps = std::max(1ll, std::atoll(argv[i] + 8));
    } else if (const Network* network = find(networks, word)) {
      chosen.push_back(network);
    } else {
      std::cerr << "unknown network: " << word << '\n';
      return 2;
    }
  }
  if (is_server) return serve(networks);
  if (chosen.empty()) return list(networks);
  for (const Network* network : chosen) run(*network, steps, is_profiled, is_explained);
  return 0;
}

}  // namespace tapegrad::bench
