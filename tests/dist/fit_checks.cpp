// Checks of fit() on several ranks.
#include <cmath>
#include <csignal>

#include "dist/data_parallel.h"
#include "dist/internal/connection.h"
#include "dist/sharded_optimizer.h"
#include "ops/loss.h"
#include "optim/optimizers.h"
#include "tests/dist/fit_run.h"
#include "train/training_state.h"

namespace tapegrad::dist {
namespace {

void fit_equals_one_process(const Communicator& world) {
  for (const int64_t accumulate : {1, 2}) {
    nn::Sequential alone = net(), together = net();
    optim::Adam one(alone, 0.01), all(together, 0.01);
    DataLoader whole = loader_of({}), part = loader_of(world);
    FitOptions options = options_of({});
    options.accumulate = accumulate;
    const History expected = fit(alone, whole, one, options);
    options.world = world;
    const History got = fit(together, part, all, options);
    expect_close(alone, together, "the weights of one process");
    expect(got.epochs.size() == 2, "two epochs");
    for (size_t i = 0; i < 2; ++i)
      expect(
          std::abs(got.epochs[i].loss - expected.epochs[i].loss) < 1e-12 * expected.epochs[i].loss,
          "the loss of one process");
  }
}

void if_one_rank_stops_all_do(const Communicator& world) {
  nn::Sequential model = net();
  optim::SGD opt(model, 0.01);
  DataLoader part = loader_of(world);
  FitOptions options = options_of(world);
  options.epochs = 5;
  if (world.rank() == world.size() - 1)
    options.callbacks = {{.after_step = [](Training& run) {
      if (run.steps == 3) run.stop("enough");
    }}};
  const History history = fit(model, part, opt, options);
  expect(history.stopped_early && history.epochs.size() == 1, "all ranks stop soon after step 3");
  options.callbacks.clear();
  options.on_epoch = [&](const EpochResult& result) {
    return result.epoch < 2 || !world.is_first();
  };
  DataLoader again = loader_of(world);
  expect(fit(model, again, opt, options).epochs.size() == 2, "all ranks stop after an epoch");
}

/// SIGTERM to one process: all ranks stop after the next update.
void a_signal_to_one_rank_stops_all(const Communicator& world) {
  if (Connections::is_of_threads(world)) return;  // a signal is one to all threads
  nn::Sequential model = net();
  optim::SGD opt(model, 0.01);
  DataLoader part = loader_of(world);
  FitOptions options = options_of(world);
  options.epochs = 9;
  options.callbacks = {{.after_step = [&](Training& run) {
    if (run.steps == 3 && world.rank() == world.size() - 1) std::raise(SIGTERM);
  }}};
  const History history = fit(model, part, opt, options);
  expect(history.signal == SIGTERM && history.epochs.size() == 1, "all ranks know of the signal");
}

/// The ranks agree whether to stop without messages of their own.
void a_step_has_one_collective(const Communicator& world) {
  nn::Sequential model = net();
  optim::SGD opt(model, 0.01);
  DataLoader part = loader_of(world);
  FitOptions options = options_of(world);
  std::vector<uint64_t> counts;
  options.callbacks = {
      {.after_step = [&](Training&) { counts.push_back(Connections::count(world)); }}};
  fit(model, part, opt, options);
  const uint64_t expected = world.size() > 1 ? 1 : 0;  // the model has one bucket
  expect(
      counts.size() == 4 && counts[1] - counts[0] == expected && counts[3] - counts[2] == expected,
      "collectives of a step");
}

}  // namespace

const std::vector<Check>& fit_checks() {
  static const std::vector<Check> all = {
      {"fit equals one process", fit_equals_one_process},
      {"if one rank stops, all do", if_one_rank_stops_all_do},
      {"a signal to one rank stops all", a_signal_to_one_rank_stops_all},
      {"a step has one collective", a_step_has_one_collective}};
  return all;
}

void fit_with_checkpoint(const Communicator& world, const std::string& path, int64_t epochs,
                         nn::Sequential& model) {
  model = net();
  optim::Adam opt(model, 0.01);
  DataLoader part = loader_of(world);
  FitOptions options = options_of(world);
  options.epochs = epochs;
  options.checkpoint = path;
  fit(model, part, opt, options);
}

void train_sharded(const Communicator& world, const std::string& path, int stage, int64_t steps,
                   nn::Sequential& model) {
  model = net();
  const DataParallel parallel(
      model, world,
      {.bucket_bytes = 100, .first_bucket_bytes = 100, .shard_gradients = stage == 2});
  const optim::AdamWOptions options{.lr = 0.01};
  const auto train = [&](auto& opt) {
    DataLoader batches = loader_of(world);
    int64_t step = 0;
    TrainingState run;
    run("model", model)("optimizer", opt)("batches", batches)("step", step);
    run.resume(path);
    while (step < steps)
      for (const auto& [x, y] : batches) {
        opt.zero_grad();
        mse_loss(parallel(x), y).backward();
        opt.step();
        if (++step == steps) break;
      }
    run.save(path, world);
  };
  if (stage == 0) {
    optim::AdamW opt(model, options);
    train(opt);
  } else if (stage == 1) {
    ShardedOptimizer<optim::AdamW> opt(model, world, options);
    train(opt);
  } else {
    ShardedOptimizer<optim::AdamW> opt(parallel, options);
    train(opt);
  }
}

void expect_equal_weights(const nn::Sequential& a, const nn::Sequential& b) {
  expect_close(a, b, "the weights of a run that was not interrupted");
}

}  // namespace tapegrad::dist
