// Checks of layers and optimizers that exchange values: SyncBatchNorm, split Linear layers,
// ShardedOptimizer. Each compares with one process.
#include <cmath>

#include "core/base/allocator.h"
#include "dist/collective_ops.h"
#include "dist/data_parallel.h"
#include "dist/internal/connection.h"
#include "dist/sharded_optimizer.h"
#include "dist/sync_batch_norm.h"
#include "dist/tensor_parallel.h"
#include "nn/activation.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "tests/dist/checks.h"

namespace tapegrad::dist {
namespace {

double relative_error(const Variable& a, const Variable& b) {
  return (a.detach() - b.detach()).norm().item() / (a.detach().norm().item() + 1e-300);
}
void expect_close(const Variable& a, const Variable& b, double bound, const std::string& what) {
  expect(a.shape() == b.shape(), "the shape of " + what);
  const double error = relative_error(a, b);
  expect(error <= bound, what + " differs by " + std::to_string(error * 1e15) + "e-15");
}

void sync_batch_norm_equals_the_whole_batch(const Communicator& world) {
  const int64_t n = 4, ranks = world.size();
  for (const Shape& rest : {Shape{}, Shape{5, 3}}) {
    Shape shape{n * ranks, 6};
    for (const int64_t each : rest) shape.push_back(each);
    Variable x = drawn(1, shape), whole_x = x.clone().requires_grad_();
    const Variable dy = drawn(2, shape), weights = drawn(3, {6});
    SyncBatchNorm norm({.num_features = 6}, world);
    norm.to(f64);
    norm.weight.rebind(weights.value().clone());
    Variable mean = zeros({6}, {.dtype = f64}), var = ones({6}, {.dtype = f64});
    Variable w = weights.clone().requires_grad_(), b = zeros({6}, {.dtype = f64}).requires_grad_();
    const Variable y = batch_norm(whole_x, mean, var, w, b, {.training = true});
    y.backward(dy);
    const int64_t first = world.rank() * n;
    Variable own = x.narrow(0, first, n).clone().requires_grad_();
    const Variable own_y = norm(own);
    own_y.backward(dy.narrow(0, first, n).clone());
    expect_close(own_y, y.narrow(0, first, n), 1e-12, "SyncBatchNorm");
    expect_close(own.grad(), whole_x.grad().narrow(0, first, n), 1e-11, "its gradient");
    const Tensor total = norm.weight.grad().value().clone();
    world.all_reduce(total);
    expect_close(Variable(total), w.grad(), 1e-11, "the gradient of its weight");
    expect_close(norm.running_mean, mean, 1e-12, "its running mean");
    expect_close(norm.running_var, var, 1e-12, "its running variance");
    norm.eval();
    expect_close(norm(x), batch_norm(x, mean, var, w, b), 1e-12, "SyncBatchNorm after eval()");
  }
}

void layers_refuse_sizes_that_do_not_fit(const Communicator& world) {
  const auto expect_refused = [](const std::string& what, const auto& make) {
    try {
      make();
    } catch (const ArgumentError&) {
      return;
    }
    expect(false, what);
  };
  expect_refused("SyncBatchNorm of no features",
                 [&] { SyncBatchNorm({.num_features = 0}, world); });
  if (world.size() == 1) return;
  const nn::Linear uneven({.in_features = world.size() + 1, .out_features = world.size() + 1});
  expect_refused("ColumnLinear of uneven parts", [&] { ColumnLinear(uneven, world); });
  expect_refused("RowLinear of uneven parts", [&] { RowLinear(uneven, world); });
}

void split_linear_layers_equal_one_process(const Communicator& world) {
  const int64_t hidden = 12 * world.size();
  nn::Linear up({.in_features = 7, .out_features = hidden});
  nn::Linear down({.in_features = hidden, .out_features = 4});
  for (nn::Linear* each : {&up, &down}) make_equal(each->to(f64), world);
  ColumnLinear column(up, world);
  RowLinear row(down, world);
  Variable x = drawn(6, {3, 7}).requires_grad_(), other = x.detach().clone().requires_grad_();
  const Variable y = down(gelu(up(x))), split = row(gelu(column(other)));
  expect_close(y, split, 1e-12, "a split pair");
  sum(square(y)).backward();
  sum(square(split)).backward();
  expect_close(x.grad(), other.grad(), 1e-12, "the gradient of x");
  const int64_t length = hidden / world.size(), first = world.rank() * length;
  expect_close(up.weight.grad().narrow(0, first, length), column.weight.grad(), 1e-12, "of up");
  expect_close(down.weight.grad().narrow(1, first, length), row.weight.grad(), 1e-12, "of down");
  expect_close(down.bias.grad(), row.bias.grad(), 1e-12, "of the bias");
}

void split_attention_heads_equal_one_process(const Communicator& world) {
  const int64_t heads = 2 * world.size(), size = 3, width = heads * size, tokens = 5;
  nn::Linear q({.in_features = 4, .out_features = width}), k(4, width), v(4, width);
  nn::Linear out({.in_features = width, .out_features = 4});
  for (nn::Linear* each : {&q, &k, &v, &out}) make_equal(each->to(f64), world);
  const auto attend = [&](int64_t count, const auto& q, const auto& k, const auto& v,
                          const auto& out, const Variable& x) {
    const auto split = [&](const Variable& y) {
      return y.reshape({2, tokens, count, size}).transpose(1, 2);
    };
    const Variable y = scaled_dot_product_attention(split(q(x)), split(k(x)), split(v(x)));
    return out(y.transpose(1, 2).reshape({2, tokens, count * size}));
  };
  Variable x = drawn(8, {2, tokens, 4}).requires_grad_(), other = x.detach().clone();
  other.requires_grad_();
  const Variable y = attend(heads, q, k, v, out, x);
  const Variable split = attend(2, ColumnLinear(q, world), ColumnLinear(k, world),
                                ColumnLinear(v, world), RowLinear(out, world), other);
  expect_close(y, split, 1e-12, "attention with split heads");
  sum(square(y)).backward();
  sum(square(split)).backward();
  expect_close(x.grad(), other.grad(), 1e-12, "its gradient");
}

void all_reduce_has_a_gradient(const Communicator& world) {
  Variable x = full({3}, world.rank() + 1.0, {.dtype = f64}).requires_grad_();
  sum(all_reduce(x, world) * (world.rank() + 1.0)).backward();
  const double total = world.size() * (world.size() + 1) / 2;
  expect(x.grad().value().data<double>()[0] == total, "the gradient is the sum of the ranks'");
}

void expect_equal(const nn::Module& a, const nn::Module& b) {
  const auto left = a.named_parameters(), right = b.named_parameters();
  for (size_t i = 0; i < left.size(); ++i)
    expect(
        equal_bytes(left[i].variable.value().data<float>(), right[i].variable.value().data<float>(),
                    size_t(left[i].variable.numel()) * 4),
        left[i].name + " has the bits of the unsharded optimizer");
}

void sharded_optimizers_equal_whole_ones(const Communicator& world) {
  nn::Sequential net(nn::Linear(5, 11), nn::ReLU(), nn::Linear(11, 3));
  make_equal(net, world);
  nn::Sequential whole = net.clone();
  ShardedOptimizer<optim::AdamW> sharded(net, world, optim::AdamWOptions{.lr = 0.01});
  optim::AdamW opt(whole, optim::AdamWOptions{.lr = 0.01});
  const auto step = [&](auto& optimizer, nn::Sequential& model, uint64_t seed) {
    optimizer.zero_grad();
    sum(square(model(drawn(seed, {8, 5}).to(f32)))).backward();
    optimizer.step();
  };
  for (uint64_t i = 0; i < 4; ++i) {
    step(sharded, net, i);
    step(opt, whole, i);
  }
  expect_equal(net, whole);
  // The state of each rank: two rows of as many numbers as its part has, and the steps.
  int64_t own = 0, all = 0;
  for (const Tensor& each : sharded.local().state()) own += each.numel();
  for (const Tensor& each : opt.state()) all += each.numel();
  expect(own <= (all + world.size() - 1) / world.size() + 2 * world.size() && own > 0,
         "the state is divided by the ranks");
  // Another optimizer continues from the whole state.
  const TensorMap state = sharded.state_dict();
  ShardedOptimizer<optim::AdamW> resumed(net, world, optim::AdamWOptions{.lr = 0.5});
  resumed.load_state_dict(state);
  step(resumed, net, 9);
  step(opt, whole, 9);
  expect_equal(net, whole);
  nn::Sequential other(nn::Linear(2, 2));
  ShardedOptimizer<optim::AdamW> wrong(other, world, optim::AdamWOptions{});
  bool is_refused = false;
  try {
    wrong.load_state_dict(state);
  } catch (const ArgumentError&) {
    is_refused = true;
  }
  expect(is_refused, "the state of another model");
}

/// Stage 2: a rank has a part of the mean gradients, and the bits of a whole optimizer come out.
void sharded_gradients_equal_whole_ones(const Communicator& world) {
  for (const int64_t bytes : {int64_t(1), int64_t(300), int64_t(25) << 20})
    for (const bool compress : {false, true}) {
      nn::Sequential net(nn::Linear(5, 11), nn::ReLU(), nn::Linear(11, 3));
      make_equal(net, world);
      nn::Sequential whole = net.clone();
      DataParallelOptions options{.bucket_bytes = bytes, .first_bucket_bytes = bytes};
      options.compress = compress;
      const DataParallel means(whole, world, options);
      options.shard_gradients = true;
      const DataParallel shards(net, world, options);
      optim::AdamW opt(whole, {.lr = 0.01});
      ShardedOptimizer<optim::AdamW> sharded(shards, optim::AdamWOptions{.lr = 0.01});
      const auto step = [&](const DataParallel& model, auto& optimizer, uint64_t seed) {
        const auto pass = [&](uint64_t more) {
          const uint64_t own = seed + more + uint64_t(world.rank());
          sum(square(model(drawn(own, {8, 5}).to(f32)))).backward();
        };
        optimizer.zero_grad();
        if (seed == 200) {
          const auto silence = model.no_sync();
          pass(20);
        }
        pass(0);
        if (seed == 300) pass(40);  // adds to the gradients
        optimizer.step();
      };
      for (uint64_t i = 1; i < 5; ++i) {
        step(means, opt, 100 * i);
        step(shards, sharded, 100 * i);
        expect(!net.parameters()[0].grad().defined(), "a parameter has no gradient of its own");
      }
      expect_equal(net, whole);
      // The state is that of the whole optimizer, which continues from it.
      optim::AdamW resumed(net, {.lr = 0.5});
      resumed.load_state_dict(sharded.state_dict());
      for (const auto& [name, tensor] : opt.state_dict())
        expect(equal_bytes(tensor.storage().data(), resumed.state_dict().at(name).storage().data(),
                           size_t(tensor.numel() * size_of(tensor.dtype()))),
               name + " is that of the whole optimizer");
      bool is_refused = false;
      try {
        sharded.step();
      } catch (const AutogradError&) {
        is_refused = true;
      }
      expect(is_refused, "step() uses the gradients up");
    }
}

void clipping_equals_the_whole_gradient(const Communicator& world) {
  for (const bool is_sharded : {false, true}) {
    nn::Sequential net(nn::Linear(5, 11), nn::ReLU(), nn::Linear(11, 3));
    make_equal(net.to(f64), world);
    nn::Sequential whole = net.clone();
    const DataParallel means(whole, world);
    const DataParallel parallel(net, world,
                                {.first_bucket_bytes = 100, .shard_gradients = is_sharded});
    optim::SGD opt(whole, 0.1);
    using Sharded = ShardedOptimizer<optim::SGD>;
    Sharded sharded = is_sharded ? Sharded(parallel, 0.1) : Sharded(net, world, 0.1);
    const Variable x = drawn(uint64_t(world.rank()), {8, 5});
    for (const double max_norm : {0.01, 1e9}) {
      sum(square(means(x))).backward();
      sum(square(parallel(x))).backward();
      const double norm = optim::clip_grad_norm_(whole, max_norm);
      opt.step();
      expect(std::abs(sharded.clip_and_step(max_norm) - norm) <= 1e-12 * norm, "the norm");
      for (size_t i = 0; i < net.parameters().size(); ++i)
        expect_close(net.parameters()[i], whole.parameters()[i], 1e-13, "a clipped step");
      opt.zero_grad();
      sharded.zero_grad();
    }
  }
}

/// The state of 32 layers takes 1 / n of the memory of a whole optimizer's, within 5 %.
void sharded_state_saves_memory(const Communicator& world) {
  constexpr int64_t kWidth = 128, kLayers = 32, kState = 2 * kLayers * kWidth * kWidth * 4;
  nn::Sequential net;
  for (int64_t i = 0; i < kLayers; ++i)
    net.push_back(nn::Linear({.in_features = kWidth, .out_features = kWidth, .bias = false}));
  make_equal(net, world);
  ShardedOptimizer<optim::AdamW> opt(net, world, optim::AdamWOptions{.lr = 0.01});
  sum(square(net(drawn(1, {2, kWidth}).to(f32)))).backward();
  opt.step();
  int64_t bytes = 0;
  for (const Tensor& each : opt.local().state()) bytes += each.numel() * size_of(each.dtype());
  const int64_t part = kState / world.size();
  expect(bytes >= part && bytes <= part + part / 20,
         "the state: " + std::to_string(bytes) + " of " + std::to_string(part) + " bytes");
}

/// The gradients of 32 layers take 1 / n of their memory after a pass, and during the pass a few
/// buckets more.
void sharded_gradients_save_memory(const Communicator& world) {
  if (Connections::is_of_threads(world)) return;  // threads have one allocator
  constexpr int64_t kWidth = 128, kLayers = 32, kBytes = kLayers * kWidth * kWidth * 4;
  nn::Sequential net;
  for (int64_t i = 0; i < kLayers; ++i)
    net.push_back(nn::Linear({.in_features = kWidth, .out_features = kWidth, .bias = false}));
  const DataParallel parallel(
      net, world, {.bucket_bytes = 1, .first_bucket_bytes = 1, .shard_gradients = true});
  ShardedOptimizer<optim::SGD> opt(parallel, optim::SGDOptions{.lr = 0.01});
  const Variable x = drawn(1, {2, kWidth}).to(f32);
  const auto pass = [&] { sum(square(parallel(x))).backward(); };
  pass();
  opt.step();
  const int64_t before = memory_stats().in_use;
  reset_peak_memory();
  pass();
  const int64_t after = memory_stats().in_use - before, peak = memory_stats().peak - before;
  const int64_t part = kBytes / world.size();
  const auto text = [&](int64_t bytes) {
    return std::to_string(bytes) + " of " + std::to_string(part) + " bytes";
  };
  expect(after >= part && after <= part + part / 20, "gradients after the pass: " + text(after));
  expect(peak <= part + kBytes / 4, "gradients during the pass: " + text(peak));
}

}  // namespace

const std::vector<Check>& model_checks() {
  static const std::vector<Check> all = {
      {"SyncBatchNorm equals the whole batch", sync_batch_norm_equals_the_whole_batch},
      {"layers refuse sizes that do not fit", layers_refuse_sizes_that_do_not_fit},
      {"split Linear layers equal one process", split_linear_layers_equal_one_process},
      {"split attention heads equal one process", split_attention_heads_equal_one_process},
      {"all_reduce has a gradient", all_reduce_has_a_gradient},
      {"sharded optimizers equal whole ones", sharded_optimizers_equal_whole_ones},
      {"sharded gradients equal whole ones", sharded_gradients_equal_whole_ones},
      {"clipping equals the whole gradient", clipping_equals_the_whole_gradient},
      {"sharded state saves memory", sharded_state_saves_memory},
      {"sharded gradients save memory", sharded_gradients_save_memory}};
  return all;
}

}  // namespace tapegrad::dist
