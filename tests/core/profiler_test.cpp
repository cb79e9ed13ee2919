#include "core/inspect/profiler.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/dispatch/implementations.h"
#include "core/tape/op.h"
#include "nn/linear.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/temp_dir.h"

namespace tapegrad::testing {
namespace {

struct Net : nn::Model<Net> {
  nn::Linear fc1{{.in_features = 3, .out_features = 4}};
  nn::Linear fc2{{.in_features = 4, .out_features = 2}};
  void members(nn::Members& m) override { m("fc1", fc1)("fc2", fc2); }
  Variable forward(const Variable& x) const { return fc2(relu(fc1(x))); }
};

void step(Net& net, optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  mse_loss(net(ones({5, 3})), zeros({5, 2})).backward();
  optimizer.step();
}

const ProfileEntry* find(const std::vector<ProfileEntry>& entries, std::string_view part,
                         std::string_view op, Pass pass) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const ProfileEntry& entry) {
    return entry.part == part && entry.op == op && entry.pass == pass;
  });
  return found == entries.end() ? nullptr : &*found;
}

TEST(Profiler, SeesOpsRulesAndUpdatesByPart) {
  Net net;
  std::optional<optim::SGD> sgd(std::in_place, net, 0.1);
  Profiler profiler;
  for (int i = 0; i < 3; ++i) step(net, *sgd);
  profiler.stop();
  step(net, *sgd);  // before the profiler starts
  sgd.reset();
  const std::vector<ProfileEntry> entries = profiler.entries();
  for (const auto& [part, op, pass] : std::vector<std::tuple<const char*, const char*, Pass>>{
           {"Net.fc1", "linear", Pass::kForward},
           {"Net.fc2", "linear", Pass::kForward},
           {"Net", "relu", Pass::kForward},
           {"Net.fc1", "linear_relu", Pass::kBackward},  // the node of fc1 absorbed the ReLU
           {"Net.fc2", "linear", Pass::kBackward},
           {"", "mean", Pass::kBackward},
           {"", "SGD", Pass::kUpdate}}) {
    const ProfileEntry* entry = find(entries, part, op, pass);
    ASSERT_NE(entry, nullptr) << part << ' ' << op << ' ' << kPassNames[int(pass)];
    EXPECT_EQ(entry->calls, 3) << part << ' ' << op;
    EXPECT_GT(entry->seconds, 0);
  }
  for (size_t i = 1; i < entries.size(); ++i) EXPECT_GE(entries[i - 1].seconds, entries[i].seconds);
  double backward = 0;
  for (const ProfileEntry& entry : entries)
    if (entry.pass == Pass::kBackward) backward += entry.seconds;
  EXPECT_DOUBLE_EQ(profiler.seconds(Pass::kBackward), backward);
}

/// A composed op.
struct Outer {
  static constexpr std::string_view kName = "outer";
  static constexpr bool kDifferentiable = false;
  Tensor forward(const Tensor& x) const {
    Variable y(x);
    for (int i = 0; i < 200; ++i) y = y * 1.5;
    return y.value();
  }
};

TEST(Profiler, InnerOpsAreNotCountedTwice) {
  using Clock = std::chrono::steady_clock;
  const Variable x = ones({4000});
  Profiler profiler;
  const Clock::time_point begin = Clock::now();
  apply(Outer(), Where::current(), x);
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  profiler.stop();
  const auto entries = profiler.entries();
  const ProfileEntry* outer = find(entries, "", "outer", Pass::kForward);
  const ProfileEntry* inner = find(entries, "", "mul", Pass::kForward);
  ASSERT_TRUE(outer != nullptr && inner != nullptr);
  EXPECT_EQ(outer->calls, 1);
  EXPECT_EQ(inner->calls, 200);
  // however long the thread was descheduled
  EXPECT_LE(outer->seconds + inner->seconds, 1.1 * elapsed);
}

/// Returns the work of an op while `run` ran, in one pass.
KernelWork work_of(std::string_view op, Pass pass, const std::function<void()>& run) {
  Profiler profiler;
  run();
  profiler.stop();
  const auto entries = profiler.entries();
  const ProfileEntry* entry = find(entries, "", op, pass);
  return entry == nullptr ? KernelWork{-1, -1} : entry->work;
}

TEST(Profiler, CountsTheWorkOfProducts) {
  const Variable x = ones({5, 3}, {.requires_grad = true}), w = ones({4, 3}), b = ones({4});
  const auto forward = [&] { linear(x, w, b); };
  EXPECT_EQ(work_of("linear", Pass::kForward, forward).flops, 2 * 5 * 3 * 4);
  EXPECT_EQ(work_of("linear", Pass::kForward, forward).bytes, 4 * (5 * 3 + 4 * 3 + 4 + 5 * 4));
  const auto backward = [&](const Variable& weight) {
    return [x, weight, b] { sum(linear(x, weight, b)).backward(); };
  };
  EXPECT_EQ(work_of("linear", Pass::kBackward, backward(w)).flops, 2 * 5 * 3 * 4) << "dx";
  // The kernel of linear's rule calls other kernels, which must not be counted again.
  const Variable trained = ones({4, 3}, {.requires_grad = true});
  EXPECT_EQ(work_of("linear", Pass::kBackward, backward(trained)).flops, 2 * 2 * 5 * 3 * 4);
  EXPECT_EQ(work_of("matmul", Pass::kForward,
                    [] {
                      matmul(ones({7, 2, 3}), ones({7, 3, 4}));
                    })
                .flops,
            7 * 2 * 2 * 3 * 4);
}

TEST(Profiler, CountsTheWorkOfConvolutions) {
  const Variable x = ones({2, 6, 8, 8}), w = ones({4, 3, 3, 3}, {.requires_grad = true});
  const auto forward = [&](const Variable& x) {
    return conv2d(x, w, {}, {.stride = 2, .padding = 1, .groups = 2});
  };
  constexpr int64_t kFlops = 2 * (2 * 4 * 4 * 4) * (3 * 3 * 3);
  EXPECT_EQ(work_of("conv2d", Pass::kForward, [&] { forward(x); }).flops, kFlops);
  const auto backward = [&](const Variable& x) { return [=] { sum(forward(x)).backward(); }; };
  EXPECT_EQ(work_of("conv2d", Pass::kBackward, backward(x)).flops, kFlops) << "dw alone";
  const Variable wanted = ones({2, 6, 8, 8}, {.requires_grad = true});
  EXPECT_EQ(work_of("conv2d", Pass::kBackward, backward(wanted)).flops, 2 * kFlops);
}

TEST(Profiler, CountsBytesOfWhatKernelsSee) {
  const auto add = [](const Variable& a, const Variable& b) {
    return work_of("add", Pass::kForward, [&] { a + b; });
  };
  const KernelWork plain = add(ones({3, 4}), ones({3, 4}, {.dtype = f32}));
  EXPECT_EQ(plain.flops, 0);
  EXPECT_EQ(plain.bytes, 4 * 3 * 12);
  EXPECT_EQ(add(ones({3, 4}), ones({4})).bytes, 4 * (12 + 4 + 12));
  EXPECT_EQ(add(ones({3, 4}), expand(ones({3, 1}), {3, 4})).bytes, 4 * (12 + 3 + 12));
  EXPECT_EQ(add(ones({0, 4}), ones({4})).bytes, 4 * 4);
  EXPECT_EQ(add(ones({8}, {.dtype = f64}), ones({8}, {.dtype = f64})).bytes, 8 * 3 * 8);
}

TEST(Profiler, CountsBytesOfAnUpdate) {
  const Variable w = ones({100}, {.requires_grad = true});
  sum(w * w).backward();
  optim::SGD sgd({w}, 0.1);
  EXPECT_EQ(work_of("SGD", Pass::kUpdate, [&] { sgd.step(); }).bytes, 4 * 100 * 2);
  optim::Adam adam({w}, 0.1);
  adam.step();  // allocates its state
  EXPECT_EQ(work_of("Adam", Pass::kUpdate, [&] { adam.step(); }).bytes, 4 * 100 * 4);
}

TEST(Profiler, GoesOnAfterAnErrorAndBesideAnother) {
  Profiler outer;
  {
    Profiler inner;
    EXPECT_THROW(ones({2}) + ones({3}), ShapeError);
    ones({2}) + ones({2});
    EXPECT_EQ(find(inner.entries(), "", "add", Pass::kForward)->calls, 2);
  }
  ones({2}) + ones({2});
  outer.stop();
  outer.stop();
  EXPECT_EQ(find(outer.entries(), "", "add", Pass::kForward)->calls, 1);
}

TEST(Profiler, WritesATraceAndATable) {
  const TempDir dir;
  Net net;
  optim::SGD sgd(net, 0.1);
  Profiler profiler({.max_events = 5});
  step(net, sgd);
  step(net, sgd);
  profiler.stop();
  const std::string path = dir.path() / "trace.json";
  profiler.save_trace(path);
  const auto trace = nlohmann::json::parse(std::ifstream(path))["traceEvents"];
  ASSERT_EQ(trace.size(), 5u);
  double end = -1;
  for (const auto& event : trace) {
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["dur"].get<double>(), 0);
    EXPECT_GE(event["ts"].get<double>() + event["dur"].get<double>(), end);
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_THROW(profiler.save_trace(dir.path() / "no" / "trace.json"), IoError);
  std::ostringstream table;
  table << profiler;
  for (const char* word : {"Net.fc1", "linear", "backward", "SGD", "share", "GFLOP/s", "ms/step"})
    EXPECT_NE(table.str().find(word), std::string::npos) << table.str();
}

TEST(Profiler, S321_ForetellsAnEpoch) {
  Net net;
  optim::SGD sgd(net, 0.1);
  Profiler profiler;
  for (int i = 0; i < 4; ++i) step(net, sgd);
  profiler.stop();
  EXPECT_EQ(profiler.steps(), 4);
  std::ostringstream out;
  profiler.print(out, {.steps_per_epoch = 7500});
  const std::string text = out.str(), line = "an epoch of 7500 steps at ";
  const size_t at = text.rfind(line);
  ASSERT_NE(at, std::string::npos) << text;
  const double all = profiler.seconds(Pass::kForward) + profiler.seconds(Pass::kBackward) +
                     profiler.seconds(Pass::kUpdate);
  EXPECT_NEAR(std::stod(text.substr(at + line.size())), all / 4 * 1e3, 1e-3);
  EXPECT_NEAR(std::stod(text.substr(text.rfind(": ") + 2)), all / 4 * 7500, 1e-2);
}

TEST(Profiler, S322_PrintsOnePassAlone) {
  Net net;
  optim::SGD sgd(net, 0.1);
  Profiler profiler;
  step(net, sgd);
  profiler.stop();
  std::ostringstream out;
  profiler.print(out, {.pass = Pass::kBackward, .steps_per_epoch = 10});
  for (const char* word : {" forward", "SGD", "an epoch"})
    EXPECT_EQ(out.str().find(word), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("all                           backward"), std::string::npos)
      << out.str();
  EXPECT_NE(out.str().find("100.0%"), std::string::npos) << out.str();
}

TEST(Profiler, NamesTheImplementationsThatRan) {
  const Variable x = ones({1, 1, 4, 16}), w = ones({3, 1, 3, 3});
  Profiler profiler;
  conv2d(x, w);
  {
    const OnlyImplementation fallback("conv2d", "");
    conv2d(x, w);
    conv2d(x, w);
  }
  relu(x);
  profiler.stop();
  conv2d(x, w);
  const std::vector<ProfileEntry> entries = profiler.entries();
  EXPECT_EQ(find(entries, "", "conv2d", Pass::kForward)->implementations,
            (std::vector<std::string>{"conv2d:small", "conv2d:columns"}));
  EXPECT_TRUE(find(entries, "", "relu", Pass::kForward)->implementations.empty());
  std::ostringstream table;
  table << profiler;
  EXPECT_NE(table.str().find("  conv2d:small, conv2d:columns\n"), std::string::npos) << table.str();
}

TEST(Profiler, OfNothingIsAnEmptyTable) {
  Profiler profiler;
  profiler.stop();
  std::ostringstream out;
  profiler.print(out, {.steps_per_epoch = 10});
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

}  // namespace
}  // namespace tapegrad::testing
