// Milliseconds of a training step by phase: medians over the steps. The memory is the largest
// resident size of the process so far; run a single workload to get the memory of that workload.
//
//   training                      all workloads
//   training gpt resnet18         some workloads
//   training --steps=100 peaks    more steps
//   training --profile gpt        also profiles the ops
//   training --captured gpt       captured steps (train/graphed_step.h), without phases
//
// On a busy machine OpenMP's threads wait for each other: measure on an idle machine, or with
// OMP_NUM_THREADS=1.
#include <algorithm>
#include <iostream>
#include <string_view>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/workloads.h"
#include "core/base/generator.h"
#include "core/inspect/profiler.h"
#include "train/graphed_step.h"

namespace tapegrad::bench {
namespace {

struct Step {
  Workload& work;
  Variable value;

  void zero_grad() { work.optimizer->zero_grad(); }
  void loss() { value = work.loss(); }
  void backward() { value.backward(); }
  void update() { work.optimizer->step(); }
  void read() { value.item(); }
};

void run(const WorkloadInfo& info, int64_t steps, bool profiled) {
  manual_seed(1);
  Workload work = info.make();
  if (steps == 0) steps = work.steps;
  ::bench::time_training(info.name, steps, Step{work, {}});
  if (!profiled) return;
  Profiler profiler;
  ::bench::time_training(info.name + ".profiled", steps, Step{work, {}});
  profiler.stop();
  std::cout << profiler;
}

/// Prints the median time of a captured step, and why it could not be captured.
void run_captured(const WorkloadInfo& info, int64_t steps) {
  manual_seed(1);
  Workload work = info.make();
  if (steps == 0) steps = work.steps;
  GraphedStep step(
      [&] {
        work.optimizer->zero_grad();
        const Variable value = work.loss();
        value.backward();
        work.optimizer->step();
        return value;
      },
      {}, {.warmup = 1});
  for (int64_t i = 0; i < std::max<int64_t>(3, steps / 5); ++i) step().item();
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) {
    const double begin = ::bench::seconds();
    step().item();
    times.push_back((::bench::seconds() - begin) * 1e3);
  }
  if (!step.is_graphed()) std::cerr << info.name << ": " << step.reason() << '\n';
  ::bench::print_line(info.name + ".step", ::bench::median(times), "ms");
  ::bench::print_line(info.name + ".memory", ::bench::peak_resident_mib(), "MiB");
}

int usage() {
  std::cout << "training [--steps=N] [--profile | --captured] [workload...]\n\n";
  for (const WorkloadInfo& info : workloads())
    std::cout << "  " << info.name << ": " << info.description << '\n';
  return 2;
}

int run_all(int argc, char** argv) {
  int64_t steps = 0;
  bool profiled = false, captured = false;
  std::vector<const WorkloadInfo*> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--steps=")) {
      steps = std::atoll(argv[i] + 8);
      continue;
    }
    if (word == "--profile") {
      profiled = true;
      continue;
    }
    if (word == "--captured") {
      captured = true;
      continue;
    }
    const auto found = std::ranges::find(workloads(), word, &WorkloadInfo::name);
    if (found == workloads().end()) return usage();
    chosen.push_back(&*found);
  }
  if (chosen.empty())
    for (const WorkloadInfo& info : workloads()) chosen.push_back(&info);
  for (const WorkloadInfo* info : chosen) {
    if (captured)
      run_captured(*info, steps);
    else
      run(*info, steps, profiled);
  }
  return 0;
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) { return tapegrad::bench::run_all(argc, argv); }
