// Times measured on a device are those of its work, whenever the host enqueued it. Every kernel and
// copy takes a time that the test sets, and the clock of the device stands still otherwise.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "core/cuda.h"
#include "core/inspect/moment.h"
#include "core/inspect/profiler.h"
#include "data/loader.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/optimizers.h"
#include "tests/cuda_on_host/state.h"
#include "train/fit.h"
#include "train/timer.h"

namespace tapegrad {
namespace {

/// Work costs so many seconds in the lifetime of the object.
class Cost {
 public:
  explicit Cost(double seconds) {
    cuda::synchronize();
    coh::set_cost_of_work(seconds);
  }
  ~Cost() {
    cuda::synchronize();
    coh::set_cost_of_work({});
  }
};

class CudaClock : public ::testing::Test {
 protected:
  void SetUp() override { set_default_device(gpu); }
  void TearDown() override { set_default_device(cpu); }
};

TEST_F(CudaClock, MomentsMeasureTheWorkBetweenThem) {
  const Variable x = randn({4});
  const Cost cost(0.5);
  const Moment begin(gpu);
  const Variable y = exp(x);
  const Moment middle(gpu);
  exp(exp(y));
  const Moment end(gpu);
  EXPECT_DOUBLE_EQ(middle.seconds_since(begin), 0.5);
  EXPECT_DOUBLE_EQ(end.seconds_since(middle), 1.0);
  EXPECT_TRUE(end.query());
}

TEST_F(CudaClock, PhasesAreBilledToTheirWork) {
  const Variable x = randn({4});
  const Cost cost(1.0);
  StepTimer timer(gpu);
  for (int step = 0; step < 3; ++step) {
    Variable y = exp(x);
    timer.mark(StepPhase::kForward);
    y = exp(exp(y));
    timer.mark(StepPhase::kBackward);
    y = exp(y);
    timer.skip();
    timer.mark(StepPhase::kUpdate);
    timer.end_step();
  }
  EXPECT_DOUBLE_EQ(timer.seconds(StepPhase::kForward), 3);
  EXPECT_DOUBLE_EQ(timer.seconds(StepPhase::kBackward), 6);
  EXPECT_DOUBLE_EQ(timer.seconds(StepPhase::kUpdate), 0) << "skipped";
  EXPECT_DOUBLE_EQ(timer.total(), 9);
}

TEST_F(CudaClock, OpsAreBilledToTheirKernels) {
  const Variable x = randn({4});
  Profiler profiler;
  {
    const Cost cheap(1.0);
    tanh(x);
  }
  {
    const Cost dear(100.0);
    exp(x);
  }
  {
    const Cost cheap(1.0);
    tanh(x);
  }
  profiler.stop();
  const std::vector<ProfileEntry> entries = profiler.entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].op, "exp");
  EXPECT_DOUBLE_EQ(entries[0].seconds, 100);
  EXPECT_EQ(entries[1].op, "tanh");
  EXPECT_DOUBLE_EQ(entries[1].seconds, 2);
}

TEST_F(CudaClock, TheTimeOfInnerOpsIsTheirOwn) {
  nn::Linear layer({.in_features = 4, .out_features = 4});
  const Variable x = randn({2, 4});
  const Cost cost(1.0);
  Profiler profiler;
  sum(layer(x)).backward();
  profiler.stop();
  double sum_of_entries = 0;
  for (const ProfileEntry& entry : profiler.entries()) {
    EXPECT_GE(entry.seconds, 0) << entry.op;
    sum_of_entries += entry.seconds;
  }
  EXPECT_DOUBLE_EQ(sum_of_entries,
                   profiler.seconds(Pass::kForward) + profiler.seconds(Pass::kBackward));
  EXPECT_GT(profiler.seconds(Pass::kBackward), 0);
}

TEST_F(CudaClock, CallsTakeUntilTheDeviceHasFinished) {
  const Variable x = randn({4});
  const Cost cost(1.0);
  const TimeReport report = time_calls([&] { exp(x); }, 5);
  EXPECT_DOUBLE_EQ(report.seconds, 5);
  EXPECT_DOUBLE_EQ(report.first_seconds, 1);
}

TEST_F(CudaClock, FitMeasuresPhasesOnTheDevice) {
  nn::Sequential net({nn::Linear({.in_features = 4, .out_features = 2})});
  optim::SGD sgd(net, 0.1);
  DeviceLoader batches(TensorDataset(randn({16, 4}), randint(0, 2, {16})), {.batch_size = 4});
  const Cost cost(1.0);
  std::ostringstream out;
  const History history =
      fit(net, batches, sgd, {.epochs = 2, .progress = {.out = &out, .live = true}});
  // Each kernel of the eight steps takes a second, and the host no time.
  for (const StepPhase phase : {StepPhase::kForward, StepPhase::kBackward, StepPhase::kUpdate}) {
    const double seconds = history.times.seconds(phase);
    EXPECT_GE(seconds, 8) << kPhaseNames[size_t(phase)];
    EXPECT_DOUBLE_EQ(seconds, std::round(seconds)) << kPhaseNames[size_t(phase)];
  }
}

}  // namespace
}  // namespace tapegrad
