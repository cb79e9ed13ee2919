// Checks of fit() with sharded optimizers: the run of one process with a whole optimizer.
#include <cmath>
#include <optional>

#include "dist/data_parallel.h"
#include "dist/sharded_optimizer.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/dist/fit_run.h"
#include "tests/temp_dir.h"
#include "train/callback.h"
#include "train/weight_average.h"

namespace tapegrad::dist {
namespace {

/// A run with all features that depend on the division of the state: accumulation, clipping by the
/// norm of all gradients, a schedule and an average of the weights. Stage 0: a whole optimizer; 1
/// and 2: a sharded one, without and with sharded gradients. Returns the average.
TensorMap fit_all(const Communicator& world, int stage, nn::Sequential& model, FitOptions options) {
  options.accumulate = 2;
  options.clip_norm = 0.5;
  Ema average(model, {.decay = 0.7});
  options.average = &average;
  const optim::AdamWOptions adam{.lr = 0.01};
  DataLoader part = loader_of(world, 5 * kBatch);  // groups of two, two and one batch
  const auto run = [&](nn::Module& net, auto& opt, optim::Optimizer& local) {
    optim::CosineAnnealingLR schedule(local, 20);
    options.callbacks = {per_step(schedule)};
    fit(net, part, opt, options);
  };
  if (stage == 0) {
    optim::AdamW opt(model, adam);
    run(model, opt, opt);
  } else if (stage == 1) {
    ShardedOptimizer<optim::AdamW> opt(model, world, adam);
    run(model, opt, opt.local());
  } else {
    DataParallel net(model, world,
                     {.bucket_bytes = 100, .first_bucket_bytes = 100, .shard_gradients = true});
    ShardedOptimizer<optim::AdamW> opt(net, adam);
    run(net, opt, opt.local());
  }
  return average.state_dict();
}

void expect_close_averages(const TensorMap& a, const TensorMap& b) {
  for (const auto& [name, tensor] : a)
    for (int64_t i = 0; tensor.dtype() == f64 && i < tensor.numel(); ++i)
      expect(std::abs(tensor.data<double>()[i] - b.at(name).data<double>()[i]) <= 1e-12,
             "the average of " + name);
}

void sharded_fit_equals_one_process(const Communicator& world) {
  nn::Sequential alone = net();
  const TensorMap expected = fit_all({}, 0, alone, options_of({}));
  for (const int stage : {0, 1, 2}) {
    nn::Sequential together = net();
    const TensorMap got = fit_all(world, stage, together, options_of(world));
    expect_close(alone, together, "the weights of stage " + std::to_string(stage));
    expect_close_averages(expected, got);
  }
}

/// In float16, with a scale that overflows at first: all ranks skip the same steps, and the stages
/// make the same bits.
void sharded_fit_with_a_scaler(const Communicator& world) {
  std::optional<nn::Sequential> first;
  for (const int stage : {0, 1, 2}) {
    nn::Sequential model = net();
    model.to(f32);
    FitOptions options = options_of(world);
    options.amp = f16;
    options.scaler = {.init_scale = 1e9, .backoff_factor = 0.01};
    options.clip_norm = 1e6;  // unscales, and does not clip
    options.loss = [](const Variable& y, const Variable& target) {
      return mse_loss(y.to(f32), target.to(f32));
    };
    DataLoader part(
        TensorDataset(drawn(1, {kExamples, 4}).to(f32), drawn(2, {kExamples, 2}).to(f32)),
        {.batch_size = kBatch / world.size(), .shard = world});
    const optim::SGDOptions sgd{.lr = 0.1};
    if (stage == 0) {
      optim::SGD opt(model, sgd);
      fit(model, part, opt, options);
    } else if (stage == 1) {
      ShardedOptimizer<optim::SGD> opt(model, world, sgd);
      fit(model, part, opt, options);
    } else {
      DataParallel parallel(model, world, {.bucket_bytes = 100, .shard_gradients = true});
      ShardedOptimizer<optim::SGD> opt(parallel, sgd);
      fit(parallel, part, opt, options);
    }
    for (const Variable& each : model.parameters())
      expect(isfinite(each).all().item() != 0, "no infinity reached the weights");
    if (!first) {
      first = model;
      nn::Sequential start = net();
      const Variable moved = model.parameters()[0].to(f64) - start.parameters()[0];
      expect(moved.detach().norm().item() > 0, "steps were made");
      continue;
    }
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      const Variable a = first->parameters()[i], b = model.parameters()[i];
      expect(equal_bytes(a.value().storage().data(), b.value().storage().data(),
                         size_t(a.numel()) * 4),
             "the bits of stage " + std::to_string(stage));
    }
  }
}

/// Hand-written loop: scaler.step() of a whole optimizer, and step(scaler) of a sharded one.
void an_infinity_of_one_part_skips_the_step_of_all(const Communicator& world) {
  nn::Sequential model = net();
  ShardedOptimizer<optim::SGD> opt(model, world, optim::SGDOptions{.lr = 0.1});
  optim::GradScaler scaler({.init_scale = 8});
  const auto pass = [&](double factor) {
    opt.zero_grad();
    // The gradient of the last bias alone is infinite, and it is in the part of one rank.
    scaler.scale(sum(model.parameters().back()) * factor + sum(model(drawn(1, {2, 4})))).backward();
    const bool has_stepped = opt.step(scaler, 1e9);
    scaler.update();
    return has_stepped;
  };
  expect(!pass(1e308), "a step that is skipped");
  expect(scaler.get_scale() == 4, "the scale of all ranks");
  expect(pass(1), "a step that is made");
  for (const Variable& each : model.parameters()) {
    const Tensor all = world.all_gather(each);
    for (size_t r = 1; r < size_t(world.size()); ++r)
      expect(equal_bytes(all.storage().data(), all.storage().data() + r * size_t(each.numel()) * 8,
                         size_t(each.numel()) * 8),
             "equal parameters");
  }
}

void a_net_that_shards_must_be_the_model(const Communicator& world) {
  nn::Sequential model = net();
  const DataParallel parallel(model, world, {.shard_gradients = true});
  ShardedOptimizer<optim::SGD> opt(parallel, optim::SGDOptions{.lr = 0.1});
  DataLoader part = loader_of(world);
  std::string message;
  try {
    fit(model, part, opt, options_of(world));
  } catch (const ArgumentError& error) {
    message = error.what();
  }
  expect(message.find("pass that net as the model") != message.npos, "the message: " + message);
}

/// Options of DataParallel come to fit() with the net, which has the ranks, too.
void fit_of_a_net_uses_its_ranks(const Communicator& world) {
  nn::Sequential alone = net(), together = net();
  DataParallel parallel(together, world, {.bucket_bytes = 1, .first_bucket_bytes = 1});
  optim::SGD one(alone, 0.1), all(parallel, 0.1);
  DataLoader whole = loader_of({}), part = loader_of(world);
  fit(alone, whole, one, options_of({}));
  fit(parallel, part, all, options_of({}));
  expect_close(alone, together, "the weights of one process");
  expect(world.size() == 1 || parallel.stats().passes == 4, "the passes of the given net");
}

/// With .graph, the backward pass and the update are replayed, and the gradients sent in between.
void captured_fit_equals_one_process(const Communicator& world) {
  nn::Sequential alone = net(), together = net();
  optim::Adam one(alone, 0.01), all(together, 0.01);
  DataLoader whole = loader_of({}), part = loader_of(world);
  FitOptions options = options_of({});
  options.epochs = 4;
  options.clip_norm = 0.5;
  fit(alone, whole, one, options);
  options.world = world;
  options.graph = true;
  const History history = fit(together, part, all, options);
  expect_close(alone, together, "the weights of one process");
  expect(history.not_graphed.empty(), "the step is captured: " + history.not_graphed);
}

/// The last batch of an epoch is smaller and runs the pass without a recording, so its gradients
/// are other tensors than those that the captured update has read.
void captured_fit_with_a_short_batch(const Communicator& world) {
  const auto weights = [&](bool graph) {
    nn::Sequential model = net();
    optim::Adam opt(model, 0.01);
    DataLoader loader(data(), {.batch_size = 7, .shuffle = true, .seed = 4, .shard = world});
    FitOptions options = options_of(world);
    options.epochs = 5;
    options.clip_norm = 0.5;
    options.graph = graph;
    fit(model, loader, opt, options);
    return model;
  };
  nn::Sequential plain = weights(false), captured = weights(true);
  expect_close(plain, captured, "the weights without .graph");
}

}  // namespace

const std::vector<Check>& sharded_fit_checks() {
  static const std::vector<Check> all = {
      {"fit with a sharded optimizer equals one process", sharded_fit_equals_one_process},
      {"fit with a sharded optimizer and a scaler", sharded_fit_with_a_scaler},
      {"an infinity of one part skips the step of all",
       an_infinity_of_one_part_skips_the_step_of_all},
      {"a net that shards gradients must be the model of fit", a_net_that_shards_must_be_the_model},
      {"fit of a DataParallel uses its ranks", fit_of_a_net_uses_its_ranks},
      {"captured fit equals one process", captured_fit_equals_one_process},
      {"captured fit with a short batch", captured_fit_with_a_short_batch}};
  return all;
}

void fit_sharded(const Communicator& world, const std::string& path, int stage, int64_t epochs,
                 nn::Sequential& model) {
  model = net();
  FitOptions options = options_of(world);
  options.epochs = epochs;
  options.checkpoint = path;
  fit_all(world, stage, model, options);
}

}  // namespace tapegrad::dist
