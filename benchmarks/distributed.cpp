// Time of a training step on several ranks, of models of workloads.h. Each rank has a whole batch.
//
//   mpirun -n 2 build/benchmarks/distributed [--steps=N] [--zero=0|1|2] [--bucket=BYTES] [--alone]
//   NAME mpirun -n 2 build/benchmarks/distributed --engine
//
// Rank 0 prints a line: name, ranks, the median and the fastest step in ms, the share of the time
// in which it only waited for gradients, its largest memory in MiB, and its memory between steps.
// --zero takes AdamW as the optimizer; with 1 its state is divided by the ranks, and with 2 the
// gradients are, too. With --alone the ranks do not communicate, which shows how much ranks on one
// machine slow each other down. --schedule, for one rank, adds a line that scale_model.py reads:
// seconds of the fastest step and backward pass, and for each bucket the bytes and the seconds from
// the beginning of the pass to its last gradient. --engine prints lines of ranks, bytes, and
// seconds of the fastest all-reduce. distributed.py compares with PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/workloads.h"
#include "core/base/allocator.h"
#include "dist/data_parallel.h"
#include "dist/init.h"
#include "dist/sharded_optimizer.h"
#include "ops/random.h"
#include "optim/optimizers.h"

using namespace tapegrad;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int fail_usage() {
  std::fprintf(
      stderr,
      "distributed [--steps=N] [--zero=0|1|2] [--bucket=BYTES] [--alone] [--schedule] NAME | "
      "--engine\n");
  return 2;
}

void time_engine(const dist::Communicator& world) {
  for (int64_t bytes = 4; bytes <= 16 << 20; bytes *= 4) {
    const Tensor x = Tensor::full({bytes / 4}, 1, f32);
    double fastest = 1e9;
    for (int i = 0; i < 30; ++i) {
      world.barrier();
      const double begin = now();
      world.all_reduce(x, {.op = dist::ReduceOp::kMean});
      fastest = std::min(fastest, now() - begin);
    }
    if (world.is_first())
      std::printf("engine\t%d\t%lld\t%.3g\n", world.size(), static_cast<long long>(bytes), fastest);
  }
}

/// Passes of one rank, in buckets as if there were more.
void print_schedule(const std::string& name, const bench::Workload& work, double step) {
  const dist::DataParallel net(*work.model, {}, {.shard_gradients = true});
  dist::CommunicationStats fastest;
  for (int i = 0; i < 10; ++i) {
    work.loss().backward();
    const dist::CommunicationStats stats = net.stats();
    if (i == 0 || stats.backward < fastest.backward) fastest = stats;
  }
  std::printf("schedule\t%s\t%.6f\t%.6f", name.c_str(), step, fastest.backward);
  for (const dist::BucketTimes& bucket : fastest.last)
    std::printf("\t%lld:%.6f", static_cast<long long>(bucket.bytes), bucket.ready);
  std::printf("\n");
}

struct Options {
  int steps = 0, zero = -1, bucket = 0;
  bool alone = false, schedule = false;
};

void time_steps(const dist::Communicator& world, const bench::WorkloadInfo& info,
                const Options& options) {
  manual_seed(1);
  bench::Workload work = info.make();
  dist::DataParallelOptions how{.shard_gradients = options.zero == 2};
  if (options.bucket > 0) how.bucket_bytes = options.bucket;
  dist::DataParallel net(*work.model, options.alone ? dist::Communicator() : world, how);
  // In a comparison of memory, all stages have the same optimizer.
  std::unique_ptr<dist::ShardedOptimizer<optim::AdamW>> sharded;
  using Sharded = dist::ShardedOptimizer<optim::AdamW>;
  if (options.zero == 1) sharded = std::make_unique<Sharded>(*work.model, world, 1e-3);
  if (options.zero == 2) sharded = std::make_unique<Sharded>(net, 1e-3);
  if (options.zero > 0) work.optimizer.reset();
  if (options.zero == 0) work.optimizer = std::make_unique<optim::AdamW>(*work.model, 1e-3);
  const auto step = [&] {
    sharded ? sharded->zero_grad() : work.optimizer->zero_grad();
    work.loss().backward();
    sharded ? sharded->step() : work.optimizer->step();
  };
  const int64_t steps = options.steps > 0 ? options.steps : work.steps;
  for (int i = 0; i < 3; ++i) step();
  reset_peak_memory();
  world.barrier("warm");
  const double exposed_before = net.stats().exposed;
  std::vector<double> times;
  double total = 0;
  for (int64_t i = 0; i < steps; ++i) {
    const double begin = now();
    step();
    times.push_back(now() - begin);
    total += times.back();
  }
  const dist::CommunicationStats stats = net.stats();
  std::ranges::sort(times);
  if (!world.is_first()) return;
  const MemoryStats memory = memory_stats();
  std::printf("%s\t%s\t%d\t%.2f\t%.2f\t%.1f %%\t%.1f MiB\t%.1f MiB\n",
              options.alone ? "alone" : "tapegrad", info.name.c_str(), world.size(),
              1e3 * times[times.size() / 2], 1e3 * times[0],
              100 * (stats.exposed - exposed_before) / total, double(memory.peak) / (1 << 20),
              double(memory.in_use) / (1 << 20));
  if (options.schedule && world.size() == 1) print_schedule(info.name, work, times[0]);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string name;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--steps="))
      options.steps = std::atoi(word.c_str() + 8);
    else if (word.starts_with("--zero="))
      options.zero = std::atoi(word.c_str() + 7);
    else if (word.starts_with("--bucket="))
      options.bucket = std::atoi(word.c_str() + 9);
    else if (word == "--alone")
      options.alone = true;
    else if (word == "--schedule")
      options.schedule = true;
    else
      name = word;
  }
  const auto world = dist::init();
  if (name == "--engine") {
    time_engine(world);
    return 0;
  }
  for (const bench::WorkloadInfo& info : bench::workloads())
    if (info.name == name) {
      time_steps(world, info, options);
      return 0;
    }
  return fail_usage();
}
