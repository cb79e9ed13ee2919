// Milliseconds of a training step, by phase: medians over the steps, and the fastest whole step.
// MiB is the largest resident size of the process so far: run one workload alone for its own.
//
//   training                      all workloads
//   training gpt resnet18         some
//   training --steps=100 peaks    more of them
//
// Beside other work OpenMP's threads wait for one another: measure on a quiet machine, or with
// OMP_NUM_THREADS=1.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <iostream>

#include "benchmarks/workloads.h"
#include "core/random.h"
#include "train/timer.h"

namespace tapegrad::bench {
namespace {

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + int64_t(values.size() / 2));
  return values[values.size() / 2];
}

double peak_resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) / 1024;
}

void run(const WorkloadInfo& info, int64_t steps) {
  manual_seed(1);
  Workload work = info.make();
  if (steps <= 0) steps = work.steps;
  std::vector<double> forward, backward, update, whole;
  double loss = 0;
  const int64_t warm_up = std::max<int64_t>(2, steps / 10);
  for (int64_t i = 0; i < warm_up + steps; ++i) {
    const double begin = steady_seconds();
    work.optimizer->zero_grad();
    const double zeroed = steady_seconds();
    const Variable value = work.loss();
    const double done = steady_seconds();
    value.backward();
    const double differentiated = steady_seconds();
    work.optimizer->step();
    const double end = steady_seconds();
    loss = value.item();
    if (i < warm_up) continue;
    forward.push_back(done - zeroed);
    backward.push_back(differentiated - done);
    update.push_back(end - differentiated + zeroed - begin);
    whole.push_back(end - begin);
  }
  std::cout << std::left << std::setw(16) << work.name << std::right << std::fixed
            << std::setprecision(3);
  const double step = median(whole);
  for (const double seconds :
       {median(forward), median(backward), median(update), step, *std::ranges::min_element(whole)})
    std::cout << std::setw(10) << seconds * 1e3;
  std::cout << std::setprecision(0) << std::setw(10) << double(work.items) / step << ' '
            << std::left << std::setw(7) << work.unit << std::right << std::setw(6)
            << peak_resident_mib() << std::setprecision(3) << std::setw(10) << loss << std::endl;
}

int usage() {
  std::cout << "training [--steps=N] [workload...]\n\n";
  for (const WorkloadInfo& info : workloads())
    std::cout << "  " << std::left << std::setw(16) << info.name << info.description << '\n';
  return 2;
}

int run_all(int argc, char** argv) {
  int64_t steps = 0;
  std::vector<const WorkloadInfo*> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--steps=")) {
      steps = std::atoll(argv[i] + 8);
      continue;
    }
    const auto found = std::ranges::find(workloads(), word, &WorkloadInfo::name);
    if (found == workloads().end()) return usage();
    chosen.push_back(&*found);
  }
  if (chosen.empty())
    for (const WorkloadInfo& info : workloads()) chosen.push_back(&info);
  std::cout << "workload            forward  backward    update      step   fastest   items/s"
               "           MiB      loss\n";
  for (const WorkloadInfo* info : chosen) run(*info, steps);
  return 0;
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) { return tapegrad::bench::run_all(argc, argv); }
