// A program for mpirun: `checks` runs all checks; `fault KIND RANK STEP FILE` lets one rank fail
// while all train and save to the file, which `read FILE` reads; `train FILE STAGE` trains with a
// checkpoint, which `continue FILE STAGE` continues and compares with one process; `init` and
// `alone` print the size of the world.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dist/data_parallel.h"
#include "dist/init.h"
#include "dist/sharded_optimizer.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/optimizers.h"
#include "tests/dist/checks.h"
#include "train/training_state.h"

namespace tapegrad::dist {
namespace {

/// A host numbers its ranks from 0 in the order of the world.
void check_local_rank(const Communicator& world) {
  char name[HOST_NAME_MAX + 1] = {};
  expect(gethostname(name, sizeof(name)) == 0, "the name of the host");
  const std::vector<std::string> hosts = world.all_gather_text(name);
  const auto own = hosts.begin() + world.rank();
  expect(local_rank() == std::count(hosts.begin(), own, *own),
         "the number of the rank on its host");
  if (world.is_first())
    std::cout << std::set<std::string>(hosts.begin(), hosts.end()).size() << " hosts" << std::endl;
}

void run_checks(const Communicator& world) {
  check_local_rank(world);
  const char* seconds = std::getenv("TAPEGRAD_DIST_TIMEOUT");
  if (world.size() > 1) {
    expect(world.timeout() == (seconds == nullptr ? 300 : std::atof(seconds)), "the timeout");
    const std::string line = "rank " + std::to_string(world.rank()) + " of " +
                             std::to_string(world.size()) + ": no such file";
    expect(with_rank("no such file") == line && with_rank(line) == line, "the rank of an error");
  }
  for (const Check& check : all_checks()) {
    try {
      check.run(world);
    } catch (const Error& error) {
      throw Error("check \"" + check.name + "\": " + error.what());
    }
    if (world.is_first() && std::getenv("TAPEGRAD_SHOW_CHECKS") != nullptr)
      std::cout << check.name << std::endl;
  }
}

/// Makes the rank's fault at the step; returns the number of elements of an all_reduce. The time of
/// the file "FILE.fault" is that of the fault.
int64_t fail_as(const std::string& kind, const Communicator& world, const std::string& file) {
  std::ofstream(file + ".fault") << kind;
  if (kind == "kill") kill(getpid(), SIGKILL);
  if (kind == "stop") kill(getpid(), SIGSTOP);
  if (kind == "throw" || kind == "uncaught") throw Error("drawn error");
  if (kind == "exit") std::exit(0);
  if (kind == "quit") _exit(0);
  if (kind == "segv") raise(SIGSEGV);
  if (kind == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  if (kind == "cut")  // the host of this rank, which hosts.sh has made
    expect(std::system("ip link set dev eth0 down") == 0, "no link to cut");
  if (kind == "disk") {  // a full one: this rank can write no file of more than 100 bytes
    const rlimit small{100, 100};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  if (kind == "order") world.barrier("another order");
  return kind == "shape" ? 9 : 8;
}

/// The program of the faults: its model, sharded optimizer and checkpoint.
struct Program {
  nn::Sequential net{nn::Linear(20, 30), nn::ReLU(), nn::Linear(30, 5)};
  DataParallel parallel;
  ShardedOptimizer<optim::AdamW> opt;
  int64_t saved = 0;
  TrainingState state;

  explicit Program(const Communicator& world)
      : parallel(net, world,
                 {.bucket_bytes = 1000, .first_bucket_bytes = 1, .shard_gradients = true}),
        opt(parallel, optim::AdamWOptions{.lr = 0.01}) {
    state("net", net)("opt", opt)("saved", saved);
  }
};

void train(const Communicator& world, const std::string& kind, int rank, int step,
           const std::string& file) {
  manual_seed(1);
  Program program(world);
  auto& [net, parallel, opt, saved, state] = program;
  for (int i = 0; i < 20; ++i) {
    opt.zero_grad();
    const Variable loss = mean(square(parallel(randn({16, 20}))));
    loss.backward();
    opt.step();
    saved = i;
    if (i == step) state.save(file, world);
    int64_t count = 8;
    if (i == step && world.rank() == rank) {
      count = fail_as(kind, world, file);
      if (kind == "return") return;
      if (kind == "batches") continue;
    }
    if (i == step && kind == "disk") state.save(file, world);
    world.all_reduce(Tensor::full({count}, 1, f32), {.name = "the loss"});
  }
}

/// The checkpoint that remains after a fault must be complete.
void read(const std::string& file) {
  Program program({});
  program.state.load(file);
  std::cout << "read: " << program.saved << std::endl;
}

void train_in_parts(const Communicator& world, const std::string& mode, const std::string& file,
                    const std::string& stage) {
  const auto run = [&](const Communicator& ranks, const std::string& path, bool is_first_part) {
    nn::Sequential model;
    if (stage.starts_with("fit"))
      fit_sharded(ranks, path, stage.back() - '0', is_first_part ? 1 : 3, model);
    else
      train_sharded(ranks, path, std::stoi(stage), is_first_part ? 3 : 7, model);
    return model;
  };
  if (mode == "train") {
    run(world, file, true);
    return;
  }
  const nn::Sequential model = run(world, file, false);
  expect_equal_weights(run({}, file + ".alone" + std::to_string(world.rank()), false), model);
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const Communicator world = init();
  if (mode == "checks") run_checks(world);
  if (mode == "fault" && argc == 6)
    train(world, argv[2], std::atoi(argv[3]), std::atoi(argv[4]), argv[5]);
  if (mode == "read" && argc == 3) read(argv[2]);
  if ((mode == "train" || mode == "continue") && argc == 4)
    train_in_parts(world, mode, argv[2], argv[3]);
  if (world.is_first()) std::cout << mode << ": " << world.size() << " ranks" << std::endl;
  return 0;
}

}  // namespace
}  // namespace tapegrad::dist

/// Like the examples, prints an error of the library and leaves main().
int main(int argc, char** argv) {
  const char* uncaught = std::getenv("TAPEGRAD_UNCAUGHT");
  if (uncaught != nullptr && *uncaught != '\0') return tapegrad::dist::run(argc, argv);
  try {
    return tapegrad::dist::run(argc, argv);
  } catch (const tapegrad::Error& error) {
    const std::string line = tapegrad::dist::with_rank(error.what()) + '\n';
    std::fputs(line.c_str(), stderr);
    return 1;
  }
}
