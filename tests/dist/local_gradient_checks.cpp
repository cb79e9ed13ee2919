// Checks of gradients that a rank has of its own when a pass communicates, and of parameters that
// ranks have frozen since the model was wrapped.
#include <string>

#include "dist/data_parallel.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "tests/dist/checks.h"
#include "train/graphed_step.h"

namespace tapegrad::dist {
namespace {

/// The gradient of parameter k is (k + 1) x.
struct Net : nn::Model<Net> {
  Variable parts[5];

  Net() {
    for (Variable& each : parts) each = full({2}, 1.0, {.dtype = f64}).requires_grad_();
  }
  void members(nn::Members& m) override {
    m("a", parts[0])("b", parts[1])("c", parts[2])("d", parts[3])("e", parts[4]);
  }
  Variable forward(const Variable& x) const {
    Variable y = x * parts[0];
    for (int k = 1; k < 5; ++k) y = y + x * parts[k] * (k + 1.0);
    return sum(y);
  }
};

/// The mean over the ranks is (n + 1) / 2.
Variable batch_of(const Communicator& world) {
  return full({2}, world.rank() + 1.0, {.dtype = f64});
}

/// Each gradient must be that of `passes` passes with the mean batch. The numbers are exact.
void expect_means(const Communicator& world, const Net& net, double passes, const char* what) {
  for (int k = 0; k < 5; ++k) {
    const double expected = passes * (k + 1) * (world.size() + 1) / 2;
    for (const double got : net.parts[k].grad().to_vector<double>())
      expect(got == expected, std::string(what) + ": " + std::to_string(got) + ", expected " +
                                  std::to_string(expected));
  }
}

void gradients_from_before_are_averaged(const Communicator& world) {
  for (const bool is_later : {false, true}) {
    Net net;
    net(batch_of(world)).backward();
    const DataParallel parallel(net, world);
    if (is_later)
      parallel.reduce_gradients();
    else
      parallel(batch_of(world)).backward();
    expect_means(world, net, is_later ? 1 : 2, "gradients from before the model was wrapped");
  }
}

/// Two replays of a captured pass in a no_sync() scope of its own, then a pass that communicates.
void captured_accumulation(const Communicator& world) {
  Net net;
  const DataParallel parallel(net, world);
  GraphedStep part([&](const Variable& x) {
    const auto silence = parallel.no_sync();
    const Variable loss = parallel(x);
    loss.backward();
    return loss;
  });
  for (int step = 0; step < 6; ++step) {
    net.zero_grad();
    part(batch_of(world));
    part(batch_of(world));
    parallel(batch_of(world)).backward();
    expect_means(world, net, 3, "captured accumulation");
  }
  expect(part.is_graphed(), "the pass is captured: " + part.reason());
}

/// A pass that was captured in a no_sync() scope around it must communicate outside of the scope.
void a_captured_pass_outside_of_its_scope(const Communicator& world) {
  Net net;
  const DataParallel parallel(net, world);
  GraphedStep pass([&](const Variable& x) {
    const Variable loss = parallel(x);
    loss.backward();
    return loss;
  });
  for (int step = 0; step < 6; ++step) {
    net.zero_grad();
    const auto silence = parallel.no_sync();
    pass(batch_of(world));
  }
  expect(pass.is_graphed(), "the pass is captured in the scope: " + pass.reason());
  net.zero_grad();
  pass(batch_of(world));
  expect_means(world, net, 1, "a captured pass outside of its scope");
}

/// The ranks have frozen different parameters of equal size, so their buckets have equal sizes.
void different_frozen_parameters(const Communicator& world) {
  if (world.size() == 1) return;
  for (const int count : {1, 2}) {
    Net net;
    const DataParallel parallel(net, world);
    if (count == 2) net.parts[1].requires_grad_(false);
    net.parts[world.is_first() ? 2 : 3].requires_grad_(false);
    std::string message;
    try {
      parallel(batch_of(world)).backward();
    } catch (const MismatchError& error) {
      message = error.what();
    }
    const auto has = [&](const char* text) {
      expect(message.find(text) != message.npos, "the frozen parameters: " + message);
    };
    has(count == 1 ? "gradients 1/1: e ... a, without c (" : "e ... a, without b and 1 more (");
    if (count == 1) has("gradients 1/1: e ... a, without d (");
  }
}

}  // namespace

const std::vector<Check>& local_gradient_checks() {
  static const std::vector<Check> all = {
      {"gradients from before are averaged", gradients_from_before_are_averaged},
      {"captured accumulation", captured_accumulation},
      {"a captured pass outside of its scope", a_captured_pass_outside_of_its_scope},
      {"different frozen parameters", different_frozen_parameters}};
  return all;
}

}  // namespace tapegrad::dist
