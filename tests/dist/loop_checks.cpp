// Checks of loops that differ from one pass per step: ranks with different numbers of batches,
// gradients that are sent later, captured steps, and the results of a profiler.
#include <cmath>
#include <sstream>

#include "core/inspect/profiler.h"
#include "dist/data_parallel.h"
#include "dist/sharded_optimizer.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/optimizers.h"
#include "tests/dist/checks.h"
#include "tests/temp_dir.h"
#include "train/graphed_step.h"

namespace tapegrad::dist {
namespace {

nn::Sequential net() {
  nn::Sequential made(nn::Linear(3, 6), nn::Tanh(), nn::Linear(6, 2));
  made.to(f64);
  uint64_t seed = 20;
  for (const Variable& each : made.parameters()) each.rebind(drawn(seed++, each.shape()).value());
  return made;
}

void expect_equal_on_ranks(const Communicator& world, const nn::Module& model) {
  for (const Variable& each : model.parameters()) {
    const Tensor all = world.all_gather(each);
    const size_t bytes = size_t(each.numel()) * 8;
    for (size_t r = 1; r < size_t(world.size()); ++r)
      expect(equal_bytes(all.storage().data(), all.storage().data() + r * bytes, bytes),
             "equal bits on all ranks");
  }
}

/// Rank r has r + 1 batches of two rows. Step k of one process has the batches number k of the
/// ranks that have so many.
void ranks_with_different_numbers_of_batches(const Communicator& world) {
  const int n = world.size();
  const auto batch = [](int rank, int step) { return drawn(uint64_t(100 * rank + step), {2, 3}); };
  for (const bool is_sharded : {false, true}) {
    nn::Sequential alone = net(), together = net();
    optim::SGD one(alone, {.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step < n; ++step) {
      one.zero_grad();
      for (int r = step; r < n; ++r)
        (mean(square(alone(batch(r, step)))) / double(n - step)).backward();
      one.step();
    }
    const DataParallel parallel(
        together, world,
        {.bucket_bytes = 100, .first_bucket_bytes = 100, .shard_gradients = is_sharded});
    const auto run = [&](auto& opt) {
      auto join = parallel.join();
      for (int step = 0; step <= world.rank(); ++step) {
        opt.zero_grad();
        mean(square(parallel(batch(world.rank(), step)))).backward();
        opt.step();
      }
      int64_t followed = 0;
      for (; join.follow(); ++followed) opt.step();
      expect(followed == n - 1 - world.rank(), "passes of other ranks");
    };
    const optim::SGDOptions options{.lr = 0.1, .momentum = 0.9};
    if (is_sharded) {
      ShardedOptimizer<optim::SGD> opt(parallel, options);
      run(opt);
    } else {
      optim::SGD opt(together, options);
      run(opt);
    }
    expect_close(alone, together, "steps of the ranks that have a batch");
    expect_equal_on_ranks(world, together);
  }
}

/// The buffers are those of the rank with the most batches.
void buffers_after_uneven_loops(const Communicator& world) {
  nn::Sequential model(nn::BatchNorm1d({.num_features = 3}));
  model.to(f64);
  const DataParallel parallel(model, world);
  auto join = parallel.join();
  for (int step = 0; step <= world.rank(); ++step)
    sum(square(parallel(drawn(uint64_t(step + 1), {4, 3})))).backward();
  while (join.follow()) {
  }
  nn::Sequential last(nn::BatchNorm1d({.num_features = 3}));
  last.to(f64);
  for (int step = 0; step < world.size(); ++step) last(drawn(uint64_t(step + 1), {4, 3}));
  for (size_t i = 0; i < 2; ++i) {
    const Variable a = model.buffers()[i], b = last.buffers()[i];
    expect((a - b).norm().item() <= 1e-14 * b.norm().item(), "buffers of the longest loop");
  }
}

/// Passes in no_sync() scopes and then reduce_gradients() give the gradients of one pass.
void gradients_may_be_sent_later(const Communicator& world) {
  nn::Sequential now = net(), later = net();
  const DataParallel first(now, world), second(later, world, {.bucket_bytes = 100});
  const Variable x = drawn(uint64_t(world.rank()), {4, 3});
  mean(square(first(x))).backward();
  {
    const auto silence = second.no_sync();
    mean(square(second(x))).backward();
  }
  const void* const memory = later.parameters()[0].grad().value().storage().data();
  second.reduce_gradients();
  for (size_t i = 0; i < now.parameters().size(); ++i) {
    const Variable a = now.parameters()[i].grad(), b = later.parameters()[i].grad();
    expect(
        equal_bytes(a.value().storage().data(), b.value().storage().data(), size_t(a.numel()) * 8),
        "the gradients of a pass that communicates");
  }
  expect(later.parameters()[0].grad().value().storage().data() == memory, "in place");
  later.zero_grad();
  std::string message;
  try {
    second.reduce_gradients();
  } catch (const AutogradError& error) {
    message = error.what();
  }
  expect(world.size() == 1 || message.find("0.weight") != message.npos,
         "a parameter without a gradient is named: " + message);
}

/// A captured pass and a captured update, with communication between them.
void captured_steps(const Communicator& world) {
  nn::Sequential eager = net(), captured = net();
  const DataParallel first(eager, world), second(captured, world, {.bucket_bytes = 100});
  optim::Adam one(eager, 0.01), two(captured, 0.01);
  GraphedStep pass([&](const Variable& x) {
    const auto silence = second.no_sync();
    two.zero_grad();
    const Variable loss = mean(square(second(x)));
    loss.backward();
    return loss;
  });
  GraphedStep update([&] { two.step(); });
  for (int step = 0; step < 8; ++step) {
    const Variable x = drawn(uint64_t(10 * step + world.rank()), {4, 3});
    one.zero_grad();
    const Variable expected = mean(square(first(x)));
    expected.backward();
    one.step();
    const Variable got = pass(x);
    second.reduce_gradients();
    update();
    expect(std::abs(got.item() - expected.item()) <= 1e-14, "the loss of a captured pass");
    expect_close(eager, captured, "captured steps");
  }
  expect(pass.is_graphed() && update.is_graphed(),
         "the steps are captured: " + pass.reason() + update.reason());
  expect_equal_on_ranks(world, captured);
}

/// A step that communicates is not captured, and says so.
void steps_that_communicate_are_not_captured(const Communicator& world) {
  if (world.size() == 1) return;
  nn::Sequential eager = net(), captured = net();
  const DataParallel first(eager, world), second(captured, world);
  optim::SGD one(eager, 0.1), two(captured, 0.1);
  const auto step = [](const DataParallel& model, optim::SGD& opt, const Variable& x) {
    opt.zero_grad();
    const Variable loss = mean(square(model(x)));
    loss.backward();
    opt.step();
    return loss;
  };
  GraphedStep graphed([&](const Variable& x) { return step(second, two, x); });
  for (int i = 0; i < 6; ++i) {
    const Variable x = drawn(uint64_t(10 * i + world.rank()), {4, 3});
    step(first, one, x);
    graphed(x);
    expect_close(eager, captured, "steps that are not captured");
  }
  expect(!graphed.is_graphed() && graphed.reason().find("other ranks") != std::string::npos,
         "the reason: " + graphed.reason());
}

/// Collectives are a row of the trace, inside of the backward pass, and a line of the table.
void a_profiler_sees_communication(const Communicator& world) {
  if (world.size() == 1) return;
  nn::Sequential model = net();
  const DataParallel parallel(model, world, {.bucket_bytes = 1, .first_bucket_bytes = 1});
  optim::SGD opt(parallel, 0.1);
  Profiler profiler;
  for (int step = 0; step < 2; ++step) {
    opt.zero_grad();
    mean(square(parallel(drawn(1, {4, 3})))).backward();
    opt.step();
  }
  profiler.stop();
  const CommunicationTime time = profiler.communication();
  const CommunicationStats stats = parallel.stats();
  expect(std::abs(time.busy - stats.busy) < 1e-9 && time.busy > 0, "the time of collectives");
  expect(time.exposed >= 0 && time.exposed <= stats.exposed, "the time of waiting for them");
  std::ostringstream table;
  profiler.print(table);
  expect(table.str().find("communication: ") != std::string::npos &&
             table.str().find("are exposed") != std::string::npos,
         "a line of the table: " + table.str());
  const testing::TempDir dir;
  profiler.save_trace(dir / "trace.json");
  const std::string trace = testing::contents(dir / "trace.json");
  expect(trace.find("\"thread_name\", \"args\": {\"name\": \"communication\"}") != trace.npos,
         "a row of its own: " + trace);
  size_t buckets = 0;
  for (size_t at = 0; (at = trace.find("\"tid\": 1, \"name\": \"all_reduce (mean) of gradients",
                                       at)) != trace.npos;
       ++at)
    ++buckets;
  expect(buckets == 8, "four buckets in two steps: " + trace);
}

}  // namespace

const std::vector<Check>& loop_checks() {
  static const std::vector<Check> all = {
      {"ranks with different numbers of batches", ranks_with_different_numbers_of_batches},
      {"buffers after uneven loops", buffers_after_uneven_loops},
      {"gradients may be sent later", gradients_may_be_sent_later},
      {"captured steps", captured_steps},
      {"steps that communicate are not captured", steps_that_communicate_are_not_captured},
      {"a profiler sees communication", a_profiler_sees_communication}};
  return all;
}

}  // namespace tapegrad::dist
