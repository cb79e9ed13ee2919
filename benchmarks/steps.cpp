#include "benchmarks/steps.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string_view>

#include "benchmarks/measure.h"

namespace tapegrad::bench {
namespace {

bool counts_cpu_time = false;

double seconds() {
  return counts_cpu_time ? double(std::clock()) / CLOCKS_PER_SEC : ::bench::seconds();
}

double milliseconds_of(const Step& step) {
  const double begin = seconds();
  step();
  return (seconds() - begin) * 1e3;
}

const Network* find(const std::vector<Network>& networks, std::string_view name) {
  const auto found = std::ranges::find(networks, name, &Network::name);
  return found == networks.end() ? nullptr : &*found;
}

int list(const std::vector<Network>& networks) {
  for (const Network& network : networks)
    std::cout << network.name << '\t' << network.description << '\n';
  return 0;
}

/// Keeps the network of the last line, so that further lines with its name go on with it.
int serve(const std::vector<Network>& networks) {
  std::string line, current;
  Step step;
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
      step = {};
      manual_seed(1);
      step = network->make();
      current = name;
    }
    for (int64_t i = 0; i < steps; ++i) std::cout << (i ? "\t" : "") << milliseconds_of(step);
    std::cout << std::endl;
  }
  return 0;
}

void run(const Network& network, int64_t steps, bool is_profiled) {
  manual_seed(1);
  const Step step = network.make();
  for (int i = 0; i < 3; ++i) step();
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) times.push_back(milliseconds_of(step));
  ::bench::print_line(network.name, ::bench::median(times), "ms");
  if (!is_profiled) return;
  Profiler profiler;
  for (int64_t i = 0; i < steps; ++i) step();
  profiler.stop();
  std::cout << profiler;
}

}  // namespace

int run_networks(const std::vector<Network>& networks, int argc, char** argv) {
  int64_t steps = 10;
  bool is_profiled = false;
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
  for (const Network* network : chosen) run(*network, steps, is_profiled);
  return 0;
}

}  // namespace tapegrad::bench
