// Checks of DataParallel and of training: the gradients of several ranks are those of one process.
#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "core/inspect/profiler.h"
#include "core/tape/recording.h"
#include "dist/data_parallel.h"
#include "dist/internal/connection.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/optimizers.h"
#include "tests/dist/checks.h"
#include "tests/temp_dir.h"

namespace tapegrad::dist {
namespace {

/// Parameters of two dtypes, one without elements, and one that is not always used.
struct Net : nn::Model<Net> {
  Variable a, b, empty, c, spare;
  bool uses_spare = true;

  explicit Net(DType dtype = f64, int64_t width = 5, DType dtype_of_b = f32) {
    const auto numbers = [](const Shape& shape, DType type, int64_t modulus) {
      std::vector<double> values;
      for (int64_t i = 0; i < numel_of(shape); ++i) values.push_back(double(i % modulus - 1));
      return Variable(Tensor::from<double>(values, shape).to(type)).requires_grad_();
    };
    a = numbers({3, width}, dtype, 3);
    b = numbers({width}, dtype_of_b, 4);
    empty = Variable(Tensor::empty({0, 4}, f32)).requires_grad_();
    c = numbers({width, 2}, dtype, 3);
    spare = numbers({2}, dtype, 2);
  }
  static int64_t numel_of(const Shape& shape) {
    int64_t n = 1;
    for (const int64_t each : shape) n *= each;
    return n;
  }
  void members(nn::Members& m) override {
    m("a", a)("b", b)("empty", empty)("c", c)("spare", spare);
  }
  Variable forward(const Variable& x) const {
    const Variable y = matmul(relu(matmul(x, a) + b.to(a.dtype())), c);
    return (uses_spare ? y + spare : y) + sum(empty).to(a.dtype());
  }
};

/// Small integers: rows first ... first + count of a batch.
Variable rows(int64_t first, int64_t count, DType dtype) {
  std::vector<double> values;
  for (int64_t i = first * 3; i < (first + count) * 3; ++i) values.push_back(double(i * 7 % 5 - 2));
  return Variable(Tensor::from<double>(values, {count, 3}).to(dtype));
}

std::vector<Tensor> gradients_of(const nn::Module& net) {
  std::vector<Tensor> all;
  for (const Variable& each : net.parameters())
    all.push_back(each.grad().defined() ? each.grad().value() : Tensor());
  return all;
}

bool equal_bits(const Tensor& a, const Tensor& b) {
  if (!a || !b) return !a && !b;
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         equal_bytes(a.storage().data() + a.layout().offset * size_of(a.dtype()),
                     b.storage().data() + b.layout().offset * size_of(b.dtype()),
                     size_t(a.numel() * size_of(a.dtype())));
}

/// Throws unless all ranks have the same bits.
void expect_equal_on_ranks(const Communicator& world, const nn::Module& net) {
  for (const auto& [name, variable] : net.named_parameters()) {
    const Tensor all = world.all_gather(variable.value(), name);
    const size_t bytes = size_t(variable.numel() * size_of(variable.dtype()));
    for (int r = 1; r < world.size(); ++r)
      expect(equal_bytes(all.storage().data(), all.storage().data() + size_t(r) * bytes, bytes),
             name + " has equal bits on all ranks");
  }
}

void gradients_of_integers_are_exact(const Communicator& world) {
  const int64_t n = world.size(), batch = 4;
  for (const DType dtype : {f32, f64})
    for (const int64_t bytes : {int64_t(1), int64_t(64), int64_t(25) << 20}) {
      Net alone(dtype), net(dtype);
      sum(alone(rows(0, n * batch, dtype))).backward();
      DataParallel parallel(net, world, {.bucket_bytes = bytes, .first_bucket_bytes = bytes});
      sum(parallel(rows(world.rank() * batch, batch, dtype))).backward();
      const auto expected = gradients_of(alone), got = gradients_of(net);
      for (size_t i = 0; i < got.size(); ++i) {
        if (expected[i].numel() == 0) continue;
        const Tensor mean = (Variable(expected[i]) / double(n)).value();
        expect(equal_bits(mean, got[i]), "gradient " + std::to_string(i) + " is exact");
      }
    }
}

void training_equals_one_process(const Communicator& world) {
  const int64_t n = world.size(), batch = 6;
  Net alone(f64, 33, f64), net = alone.clone();
  const Variable x = drawn(7, {n * batch, 3}), y = drawn(8, {n * batch, 2});
  optim::SGD one(alone, {.lr = 0.01, .momentum = 0.9}), all(net, {.lr = 0.01, .momentum = 0.9});
  DataParallel parallel(net, world, {.bucket_bytes = 300, .first_bucket_bytes = 10});
  for (int step = 0; step < 5; ++step) {
    one.zero_grad();
    mean(square(alone(x) - y)).backward();
    one.step();
    all.zero_grad();
    const int64_t first = world.rank() * batch;
    mean(square(parallel(x.narrow(0, first, batch)) - y.narrow(0, first, batch))).backward();
    all.step();
  }
  for (size_t i = 0; i < net.parameters().size(); ++i) {
    const Variable a = alone.parameters()[i], b = net.parameters()[i];
    if (a.numel() == 0) continue;
    const double error = (a.detach() - b.detach()).norm().item() / a.detach().norm().item();
    expect(error <= 1e-14, "parameter " + std::to_string(i) + " differs by " +
                               std::to_string(error * 1e15) + "e-15");
  }
  expect_equal_on_ranks(world, net);
}

void ranks_stay_equal(const Communicator& world) {
  for (const bool compress : {false, true})
    for (const int64_t bytes : {1, 1000}) {
      Net net(f32, 40);
      net.a = drawn(uint64_t(world.rank()), {3, 40}).to(f32).requires_grad_();  // of its own
      DataParallel parallel(net, world,
                            {.bucket_bytes = bytes, .first_bucket_bytes = 1, .compress = compress});
      optim::Adam opt(parallel);
      for (int step = 0; step < 4; ++step) {
        opt.zero_grad();
        mean(square(parallel(drawn(uint64_t(10 * step + world.rank()), {9, 3}).to(f32))))
            .backward();
        opt.step();
      }
      expect_equal_on_ranks(world, net);
    }
}

void no_sync_accumulates(const Communicator& world) {
  Net net, reference;
  DataParallel parallel(net, world);
  {
    const auto silence = parallel.no_sync();
    sum(parallel(rows(world.rank(), 2, f64))).backward();
  }
  sum(parallel(rows(world.rank() + 5, 3, f64))).backward();
  for (int r = 0; r < world.size(); ++r) {
    sum(reference(rows(r, 2, f64))).backward();
    sum(reference(rows(r + 5, 3, f64))).backward();
  }
  const auto expected = gradients_of(reference), got = gradients_of(net);
  for (size_t i = 0; i < got.size(); ++i)
    if (expected[i].numel() > 0)
      expect(equal_bits((Variable(expected[i]) / double(world.size())).value(), got[i]),
             "a gradient of two passes");
  // Another pass with communication adds its mean to the gradient.
  const Variable before = net.a.grad().clone();
  sum(parallel(rows(0, 1, f64))).backward();
  Net once;
  sum(once(rows(0, 1, f64))).backward();
  expect(equal_bits((before + once.a.grad()).value(), net.a.grad().value()),
         "a gradient of three passes");
}

void unused_parameters(const Communicator& world) {
  if (world.size() == 1) return;
  Net net;
  net.uses_spare = false;
  std::string message;
  {
    DataParallel strict(net, world);
    try {
      sum(strict(rows(0, 1, f64))).backward();
    } catch (const AutogradError& error) {
      message = error.what();
    }
    expect(message.find("spare") != message.npos, "the unused parameter is named: " + message);
    expect(!net.a.grad().defined(), "after an error no gradient has changed");
  }
  DataParallel loose(net, world, {.bucket_bytes = 1, .find_unused_parameters = true});
  sum(loose(rows(0, 1, f64))).backward();
  expect(!net.spare.grad().defined(), "unused on all ranks: no gradient");
  net.zero_grad();
  net.uses_spare = world.rank() == world.size() - 1;
  sum(net(rows(0, 1, f64))).backward();
  expect(net.spare.grad().value().data<double>()[0] == 1.0 / world.size(), "used on one rank");
}

/// Returns the message of the error that all ranks throw if the last one has a model of its own.
std::string difference(const Communicator& world, const nn::Module& usual,
                       const nn::Module& of_the_last) {
  try {
    const DataParallel parallel(world.rank() == world.size() - 1 ? of_the_last : usual, world);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no error";
}

/// A linear layer under two names, and a counter.
struct Named : nn::Model<Named> {
  std::vector<std::string> names;
  nn::Linear layer{2, 2};
  Variable steps;

  Named(std::vector<std::string> in_order, DType dtype, const Shape& steps_shape)
      : names(std::move(in_order)), steps(Tensor::full(steps_shape, 0, dtype)) {}
  void members(nn::Members& m) override {
    for (const std::string& name : names) {
      if (name == "steps")
        m.buffer(name, steps);
      else
        m(name, name == "weight" ? layer.weight : layer.bias);
    }
  }
  Variable forward(const Variable& x) const { return layer(x); }
};

/// Names, shapes, dtypes and the order are compared, of parameters and of buffers.
void models_that_differ(const Communicator& world) {
  if (world.size() == 1) return;
  const auto expect_named = [&](const nn::Module& usual, const nn::Module& of_the_last,
                                const std::string& a, const std::string& b) {
    const std::string message = difference(world, usual, of_the_last);
    expect(message.find("rank 0 has " + a + "; rank " + std::to_string(world.size() - 1) + " has " +
                        b) != message.npos,
           "the first that differs is named: " + message);
  };
  const Net usual(f64, 5);
  expect_named(usual, Net(f64, 6), "parameter a, float64 [3, 5]", "parameter a, float64 [3, 6]");
  expect_named(usual, Net(f64, 5, f64), "parameter b, float32 [5]", "parameter b, float64 [5]");
  const Named named({"weight", "bias", "steps"}, f32, {2});
  expect_named(named, Named({"bias", "weight", "steps"}, f32, {2}),
               "parameter weight, float32 [2, 2]", "parameter bias, float32 [2]");
  expect_named(named, Named({"weight", "offset", "steps"}, f32, {2}), "parameter bias, float32 [2]",
               "parameter offset, float32 [2]");
  const std::string steps = "buffer steps, float32 [2], without gradient";
  expect_named(named, Named({"weight", "bias", "steps"}, f32, {3}), steps,
               "buffer steps, float32 [3], without gradient");
  expect_named(named, Named({"weight", "bias", "steps"}, f64, {2}), steps,
               "buffer steps, float64 [2], without gradient");
  expect_named(named, Named({"weight", "bias"}, f32, {2}), steps, "nothing more");
}

struct Normed : nn::Model<Normed> {
  nn::BatchNorm1d norm{{.num_features = 3}};
  void members(nn::Members& m) override { m("norm", norm); }
  Variable forward(const Variable& x) const { return norm(x); }
};

void buffers_are_those_of_rank_0(const Communicator& world) {
  Normed net;
  DataParallel parallel(net, world);
  for (int step = 0; step < 3; ++step) {
    const Variable x =
        full({4, 3}, 0.0) + arange(12).reshape({4, 3}).to(f32) * (world.rank() + 1.0);
    sum(square(parallel(x))).backward();
  }
  // Two broadcasts later only the last batch is a rank's own.
  Normed first;
  for (int step = 0; step < 3; ++step) {
    const double factor = step == 2 ? world.rank() + 1.0 : 1.0;
    first(full({4, 3}, 0.0) + arange(12).reshape({4, 3}).to(f32) * factor);
  }
  expect(equal_bits(net.norm.running_mean.value(), first.norm.running_mean.value()),
         "the running mean");
}

void buffers_stay_apart_without_broadcasts(const Communicator& world) {
  Normed net, alone;
  DataParallel parallel(net, world, {.broadcast_buffers = false});
  for (int step = 0; step < 3; ++step) {
    const Variable x = arange(12).reshape({4, 3}).to(f32) * (world.rank() + 1.0);
    parallel(x);
    alone(x);
  }
  expect(equal_bits(net.norm.running_mean.value(), alone.norm.running_mean.value()),
         "the running mean of one rank");
}

void hooks_and_frozen_parameters(const Communicator& world) {
  Net net, reference;
  for (Net* each : {&net, &reference}) {
    each->a.requires_grad_(false);
    each->c.register_hook([](const Variable& g) { return g * 2.0; });
  }
  DataParallel parallel(net, world);
  sum(parallel(rows(0, 2, f64))).backward();
  sum(reference(rows(0, 2, f64))).backward();
  expect(equal_bits(net.c.grad().value(), reference.c.grad().value()), "a hook runs once");
  net.a.requires_grad_(true);
  reference.a.requires_grad_(true);
  sum(parallel(rows(1, 2, f64))).backward();
  sum(reference(rows(1, 2, f64))).backward();
  expect(equal_bits(net.a.grad().value(), reference.a.grad().value()), "a parameter that thawed");
}

/// Buckets are sent in the reverse order of registration, a small one first.
void buckets_are_in_reverse_order(const Communicator& world) {
  if (world.size() == 1) return;
  nn::Sequential net;  // 12, 24, 36 and 48 bytes
  for (const int64_t width : {3, 6, 9, 12})
    net.push_back(nn::Linear({.in_features = width, .out_features = 1, .bias = false}));
  const auto sizes = [&](int64_t first, int64_t others) {
    const DataParallel parallel(net, world, {.bucket_bytes = others, .first_bucket_bytes = first});
    Variable total = full({}, 0.0);
    for (const Variable& each : net.parameters()) total = total + sum(each);
    total.backward();
    std::vector<int64_t> bytes;
    for (const BucketTimes& each : parallel.stats().last) bytes.push_back(each.bytes);
    return bytes;
  };
  expect(sizes(1, 1) == std::vector<int64_t>{48, 36, 24, 12}, "a bucket for each parameter");
  expect(sizes(48, 100) == std::vector<int64_t>{48, 72}, "a small bucket first");
  expect(sizes(84, 24) == std::vector<int64_t>{84, 24, 12}, "a large bucket first");
  const DataParallelOptions usual;
  expect(usual.first_bucket_bytes < usual.bucket_bytes, "the first bucket is small");
}

void communication_overlaps(const Communicator& world) {
  if (world.size() == 1) return;
  nn::Linear first(3, 64), second(64, 2);
  nn::Sequential net(first, second);
  DataParallel parallel(net, world, {.bucket_bytes = 1, .first_bucket_bytes = 1});
  Profiler profiler;
  const Variable hidden = first(drawn(1, {4, 3}).to(f32));
  hidden.register_hook([](const Variable&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return Variable();
  });
  sum(second(hidden)).backward();
  profiler.stop();
  const CommunicationStats stats = parallel.stats();
  expect(stats.passes == 1 && stats.buckets == 4, "one pass in four buckets");
  expect(stats.early >= 2, "the gradients of the second layer were sent before those of the first");
  expect(stats.bytes == 4 * (3 * 64 + 64 + 64 * 2 + 2), "all bytes are counted");
  // In the trace, the row of the communication thread has a bucket that ended before the rules did.
  const testing::TempDir dir;
  profiler.save_trace(dir / "trace.json");
  std::istringstream trace(testing::contents(dir / "trace.json"));
  double first_end = 1e300, last_rule = 0;
  for (std::string line; std::getline(trace, line);) {
    const size_t at = line.find("\"ts\": "), length = line.find("\"dur\": ");
    if (at == line.npos || length == line.npos) continue;
    const double end = std::stod(line.substr(at + 6)) + std::stod(line.substr(length + 7));
    if (line.find("of gradients") != line.npos) first_end = std::min(first_end, end);
    if (line.find("\"linear\", \"cat\": \"backward\"") != line.npos)
      last_rule = std::max(last_rule, end);
  }
  expect(first_end < last_rule, "a bucket is inside of the backward pass of the trace");
}

/// Initial weights are common, and random numbers of training are a rank's own.
void dropout_differs_between_ranks(const Communicator& world) {
  if (world.size() == 1 || Connections::is_of_threads(world)) return;  // threads share a generator
  manual_seed(3);
  nn::Sequential net(nn::Linear(20, 30), nn::Dropout(0.5));
  const auto are_equal = [&](const Variable& x) {
    const Tensor all = world.all_gather(x);
    const size_t bytes = size_t(x.numel()) * 4;
    int count = 0;
    for (int r = 0; r < world.size(); ++r)
      count +=
          equal_bytes(all.storage().data() + size_t(r) * bytes, x.value().storage().data(), bytes);
    return count;
  };
  expect(are_equal(net.parameters()[0]) == world.size(), "the seed makes common weights");
  const DataParallel parallel(net, world);
  const Variable y = parallel(ones({8, 20})).detach();
  expect(are_equal(y) == 1, "another mask on each rank");
  manual_seed(4);
}

}  // namespace

const std::vector<Check>& training_checks() {
  static const std::vector<Check> all = {
      {"gradients of integers are exact", gradients_of_integers_are_exact},
      {"training equals one process", training_equals_one_process},
      {"ranks stay equal", ranks_stay_equal},
      {"no_sync accumulates", no_sync_accumulates},
      {"unused parameters", unused_parameters},
      {"models that differ", models_that_differ},
      {"buffers are those of rank 0", buffers_are_those_of_rank_0},
      {"buffers stay apart without broadcasts", buffers_stay_apart_without_broadcasts},
      {"hooks and frozen parameters", hooks_and_frozen_parameters},
      {"buckets are in reverse order", buckets_are_in_reverse_order},
      {"communication overlaps", communication_overlaps},
      {"dropout differs between ranks", dropout_differs_between_ranks}};
  return all;
}

}  // namespace tapegrad::dist
