#include "core/profiler.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/op.h"
#include "nn/linear.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
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
  step(net, *sgd);  // unseen
  sgd.reset();
  const std::vector<ProfileEntry> entries = profiler.entries();
  for (const auto& [part, op, pass] : std::vector<std::tuple<const char*, const char*, Pass>>{
           {"Net.fc1", "linear", Pass::kForward},
           {"Net.fc2", "linear", Pass::kForward},
           {"Net", "relu", Pass::kForward},
           {"Net.fc1", "linear", Pass::kBackward},
           {"Net", "relu", Pass::kBackward},
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

/// An op that is made of others.
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
  Profiler profiler;
  apply(Outer(), Where::current(), ones({4000}));
  profiler.stop();
  const auto entries = profiler.entries();
  const ProfileEntry* outer = find(entries, "", "outer", Pass::kForward);
  const ProfileEntry* inner = find(entries, "", "mul", Pass::kForward);
  ASSERT_TRUE(outer != nullptr && inner != nullptr);
  EXPECT_EQ(outer->calls, 1);
  EXPECT_EQ(inner->calls, 200);
  EXPECT_LT(outer->seconds, inner->seconds);
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
  for (const char* word : {"Net.fc1", "linear", "backward", "SGD", "share"})
    EXPECT_NE(table.str().find(word), std::string::npos) << table.str();
}

}  // namespace
}  // namespace tapegrad::testing
