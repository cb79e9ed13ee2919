// Helpers of the benchmark programs, including those of peers: medians, and lines that scripts
// parse.
//
//   keras_cnn.step	23.41	ms
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// Whether seconds() counts the time of the process on all processors instead of the clock's, for a
/// machine with other work.
inline bool uses_cpu_time = false;

inline double seconds() {
  if (uses_cpu_time) return double(std::clock()) / CLOCKS_PER_SEC;
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Reads the arguments [--cpu-time] [ROUNDS]. Returns the number of rounds.
inline int read_rounds(int argc, char** argv, int rounds) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--cpu-time")
      uses_cpu_time = true;
    else
      rounds = std::max(1, std::atoi(argv[i]));
  return rounds;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + int64_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline void print_line(const std::string& name, double value, const char* unit) {
  std::printf("%s\t%.6g\t%s\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

/// Returns the largest resident size of this process so far.
inline double peak_resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) / 1024;
}

/// Median seconds of a call, over at least 7 calls and 0.3 s, after 3 warm-up calls.
template <typename Call>
double time_of(Call&& call) {
  for (int i = 0; i < 3; ++i) call();
  std::vector<double> times;
  for (double total = 0; times.size() < 7 || total < 0.3; total += times.back()) {
    const double begin = seconds();
    call();
    times.push_back(seconds() - begin);
  }
  return median(std::move(times));
}

/// Times the phases of training steps: zero_grad(), loss(), backward(), step(), value(). A fifth of
/// `steps`, at least two, are warm-up steps.
template <typename Step>
void time_training(const std::string& name, int64_t steps, Step&& step) {
  std::vector<double> forward, backward, update, whole;
  const int64_t first = std::max<int64_t>(2, steps / 5);
  for (int64_t i = 0; i < first + steps; ++i) {
    const double begin = seconds();
    step.zero_grad();
    const double zeroed = seconds();
    step.loss();
    const double done = seconds();
    step.backward();
    const double differentiated = seconds();
    step.update();
    const double end = seconds();
    step.read();
    if (i < first) continue;
    forward.push_back((done - zeroed) * 1e3);
    backward.push_back((differentiated - done) * 1e3);
    update.push_back((end - differentiated + zeroed - begin) * 1e3);
    whole.push_back((end - begin) * 1e3);
  }
  print_line(name + ".forward", median(forward), "ms");
  print_line(name + ".backward", median(backward), "ms");
  print_line(name + ".update", median(update), "ms");
  print_line(name + ".step", median(whole), "ms");
  print_line(name + ".memory", peak_resident_mib(), "MiB");
}

}  // namespace bench
