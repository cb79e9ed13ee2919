// tapegrad op bench: measures the time of the cases.
#include <time.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include <tapegrad/core/dispatch_log.h>
#include <tapegrad/core/error.h>
#include <tapegrad/core/generator.h>
#include <tapegrad/core/recording.h>

#include "tools/commands.h"
#include "tools/run_case.h"
#include "tools/selection.h"

namespace tapegrad::tools {
namespace {

constexpr int kRounds = 10;

struct Timing {
  int64_t iterations = 0;  // in all rounds
  double ns = 0;           // per iteration, in the median round
  double ns_min = 0;       // per iteration, in the fastest round
};

/// Nanoseconds on the clock, or of processor time.
double now(bool cpu_time) {
  timespec time;
  clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) * 1e9 + double(time.tv_nsec);
}

/// Runs `body` in rounds of equal length for about `seconds`.
template <typename Body>
Timing measure(double seconds, bool cpu_time, Body body) {
  const auto time_of = [&](int64_t count) {
    const double start = now(cpu_time);
    for (int64_t i = 0; i < count; ++i) body();
    return now(cpu_time) - start;
  };
  const double round = seconds * 1e9 / kRounds;
  int64_t count = 1;
  for (double took = time_of(1); took < round / 2; took = time_of(count))
    count = std::max(count * 2, int64_t(double(count) * std::min(100.0, 0.6 * round / took)));
  std::vector<double> rounds;
  double total = 0;
  for (int i = 0; i < kRounds && (i == 0 || total < seconds * 1.5e9); ++i) {
    const double took = time_of(count);
    total += took;
    rounds.push_back(took / double(count));
  }
  std::sort(rounds.begin(), rounds.end());
  return {count * int64_t(rounds.size()), rounds[rounds.size() / 2], rounds[0]};
}

}  // namespace

ExitStatus bench_cases(const OpOptions& options) {
  const Device device = parse_device(options.device);
  const Selection selection = select_cases(options);
  Tally tally;
  for (const CaseLine& line : selection.cases) {
    Outcome outcome{.id = line.id};
    nlohmann::ordered_json timing = nlohmann::ordered_json::object();
    guard(outcome, [&] {
      expected_error(line);
      const Case c = parse_case(line);
      InputMaker maker(selection.tensors, {.device = device});
      InputMaker seed_maker(selection.tensors, {.device = device});
      const CaseInputs inputs = maker.make(c);
      const auto seeds = seed_maker.make_seeds(c.seeds), seeds2 = seed_maker.make_seeds(c.seeds2);
      const int order = order_of(c, options.order, 0);
      manual_seed(c.rng_seed);
      const auto body = [&] {
        std::optional<NoGrad> off;  // a forward pass alone is not recorded
        if (order == 0) off.emplace();
        differentiate(c, inputs, seeds, seeds2, order);
      };
      {
        const DispatchLog log;
        body();
        outcome.kernels = log.kernels();
      }
      const Timing time = measure(options.min_time, options.cpu_time, body);
      timing = {{"op", c.op->name},
                {"order", order},
                {"iterations", time.iterations},
                {"ns", time.ns},
                {"ns_min", time.ns_min}};
    });
    nlohmann::ordered_json printed = {{"id", outcome.id},
                                      {"status", outcome.status},
                                      {"kind", outcome.kind},
                                      {"message", outcome.message},
                                      {"kernels", outcome.kernels}};
    printed.update(timing);
    std::cout << to_line(printed) << std::endl;
    tally.add(line, outcome);
  }
  return tally.finish();
}

}  // namespace tapegrad::tools
