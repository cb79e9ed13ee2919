#include "train/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/base/tensor.h"
#include "train/timer.h"

namespace tapegrad {
namespace {

const NamedValues kValues{
    {"loss", 0.53112}, {"accuracy", 0.81231}, {"val_loss", 0.37109}, {"val_accuracy", 0.8642}};

TEST(Progress, S317_TheLineOfAnEpoch) {
  std::ostringstream out;
  const Progress progress(469, {.out = &out});
  EXPECT_FALSE(progress.is_live()) << "a string is no terminal";
  EXPECT_EQ(progress.line(469, kValues, 11.725, true),
            "469/469 ━━━━━━━━━━━━━━━━━━━━ 12s 25ms/step - loss: 0.5311 - accuracy: 0.8123 - "
            "val_loss: 0.3711 - val_accuracy: 0.8642");
  EXPECT_EQ(progress.line(469, {{"loss", 0.00012345}}, 0.02, true),
            "469/469 ━━━━━━━━━━━━━━━━━━━━ 0s 43us/step - loss: 1.2345e-04");
}

TEST(Progress, TimeLeftWhileItRuns) {
  std::ostringstream out;
  const Progress progress(469, {.out = &out, .live = true});
  // 100 of 469 steps took 20 s, so the other 369 take 73.8 s.
  const std::string line = progress.line(100, {{"loss", 0.5}}, 20.0, false);
  EXPECT_EQ(line,
            "100/469 \x1b[32m━━━━\x1b[37m━━━━━━━━━━━━━━━━\x1b[0m 1:14 200ms/step - loss: 0.5000");
  EXPECT_EQ(duration_text(3725), "1:02:05");
  EXPECT_EQ(step_time_text(3.2), "3s");
}

TEST(Progress, S308_FiftyMarks) {
  std::ostringstream out;
  const Progress progress(200, {.style = ProgressStyle::kMarks, .out = &out});
  EXPECT_EQ(progress.line(50, {{"loss", 0.25}}, 3.2, false),
            "[" + std::string(12, '#') + std::string(38, '.') + "] 3.2/12.8 s - loss: 0.2500");
  EXPECT_EQ(progress.line(200, {}, 12.34, true), "[" + std::string(50, '#') + "] 12.3/12.3 s");
}

TEST(Progress, OneLinePerEpochWithoutATerminal) {
  std::ostringstream out;
  Progress progress(3, {.out = &out});
  for (int step = 1; step <= 3; ++step) progress.update(step, {{"loss", 1.0}});
  EXPECT_EQ(out.str(), "");
  progress.finish(3, {{"loss", 1.0}});
  const std::string text = out.str();
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Progress, RedrawsTenTimesASecondAtMost) {
  std::ostringstream out;
  Progress progress(1'000'000, {.out = &out, .live = true});
  const auto start = std::chrono::steady_clock::now();
  int64_t step = 0;
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(550))
    progress.update(++step, {{"loss", 1.0}});
  const std::string text = out.str();
  const auto redraws = std::count(text.begin(), text.end(), '\r');
  EXPECT_GE(redraws, 2);
  EXPECT_LE(redraws, 6);
  progress.finish(step, {});
  EXPECT_EQ(out.str().back(), '\n');
}

TEST(Progress, ALiveLineFitsTheTerminal) {
  std::ostringstream out;
  const Progress progress(469, {.out = &out, .live = true, .columns = 60});
  const std::string live = progress.line(100, kValues, 20.0, false);
  EXPECT_NE(live.find("loss: 0.5311"), std::string::npos);
  EXPECT_EQ(live.find("accuracy"), std::string::npos);
  EXPECT_NE(progress.line(469, kValues, 20.0, true).find("val_accuracy"), std::string::npos);
}

TEST(Progress, RateAndMemory) {
  std::ostringstream out;
  Progress progress(469, {.out = &out});
  progress.note(60'000, 64 << 20);
  EXPECT_EQ(progress.line(469, {{"loss", 0.5}}, 12.0, true),
            "469/469 ━━━━━━━━━━━━━━━━━━━━ 12s 26ms/step 5.0k/s 64 MiB - loss: 0.5000");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1.25e6), "1.2M");
}

TEST(Progress, AResumedEpochCountsItsOwnSteps) {
  std::ostringstream out;
  const Progress progress(400, {.out = &out, .live = true, .color = false}, /*first=*/100);
  // 100 of the remaining 300 steps took 20 s.
  EXPECT_EQ(progress.line(200, {}, 20.0, false), "200/400 ━━━━━━━━━━           40s 200ms/step");
}

TEST(Progress, ANarrowTerminalHasNoBar) {
  std::ostringstream out;
  const Progress progress(469, {.out = &out, .live = true, .columns = 30});
  EXPECT_EQ(progress.line(100, kValues, 20.0, false), "100/469 1:14 200ms/step");
}

TEST(Progress, NoColorIsRespected) {
  std::ostringstream out;
  const auto has_colors = [&] {
    return Progress(9, {.out = &out, .live = true}).line(3, {}, 1.0, false).find('\x1b') !=
           std::string::npos;
  };
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(has_colors());
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(has_colors());
  unsetenv("NO_COLOR");
  EXPECT_TRUE(has_colors());
}

TEST(Progress, SilentWhenAsked) {
  std::ostringstream out;
  Progress progress(3, {.style = ProgressStyle::kNone, .out = &out, .live = true});
  progress.update(1, kValues);
  progress.finish(3, kValues);
  EXPECT_EQ(out.str(), "");
}

TEST(StepTimer, S321_AddsUpAndProjects) {
  StepTimer timer;
  for (int step = 0; step < 2; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    timer.mark(StepPhase::kData);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    timer.mark(StepPhase::kForward);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    timer.skip();
    timer.mark(StepPhase::kBackward);
    timer.end_step();
  }
  EXPECT_GE(timer.seconds(StepPhase::kData), 0.004);
  EXPECT_GE(timer.seconds(StepPhase::kForward), 0.020);
  EXPECT_LT(timer.seconds(StepPhase::kBackward), 0.010) << "what was skipped is nobody's";
  std::ostringstream out;
  timer.print(out, 1000);
  for (const char* part :
       {"data", "forward", "backward", "update", "total", "100.0 %", "an epoch of 1000 steps at "})
    EXPECT_NE(out.str().find(part), std::string::npos) << out.str();
}

TEST(TimeReport, S509_CountsWhatACallTakes) {
  int call = 0;
  const TimeReport report = time_calls(
      [&] {
        const Tensor one = Tensor::empty({1'000'000}, f32), two = Tensor::empty({500'000}, f32);
        if (call++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      },
      3);
  EXPECT_EQ(report.calls, 3);
  EXPECT_EQ(report.allocations, 6);
  EXPECT_GE(report.peak_bytes, 6'000'000);
  EXPECT_LT(report.peak_bytes, 9'000'000);
  EXPECT_GT(report.first_share(), 0.5);
  std::ostringstream out;
  out << report;
  EXPECT_NE(out.str().find("3 calls, 6 allocations"), std::string::npos) << out.str();
  EXPECT_THROW(time_calls([] {}, 0), ArgumentError);
}

TEST(Timeit, S319_FindsAsManyLoopsAsTakeAWhile) {
  int64_t calls = 0;
  const Timing timing = timeit(
      [&] {
        ++calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      {.runs = 3, .min_seconds = 0.004});
  EXPECT_TRUE(timing.loops >= 1 && timing.loops <= 5) << timing.loops;
  EXPECT_EQ(timing.runs, 3);
  EXPECT_GE(timing.seconds, 1e-3);
  EXPECT_GE(calls, 1 + 3 * timing.loops);
}

TEST(Timeit, TakesTheLoopsItIsTold) {
  int64_t calls = 0;
  EXPECT_EQ(timeit([&] { ++calls; }, {.runs = 2, .loops = 7}).loops, 7);
  EXPECT_EQ(calls, 14);
  EXPECT_THROW(timeit([] {}, {.runs = 0}), ArgumentError);
  EXPECT_THROW(timeit([] {}, {.loops = -1}), ArgumentError);
}

TEST(Timeit, Prints) {
  const auto text = [](const Timing& timing) {
    std::ostringstream out;
    out << timing;
    return out.str();
  };
  EXPECT_EQ(text({.seconds = 1.234e-6, .loops = 1000, .runs = 5}),
            "1000 loops, best of 5: 1.234 us per loop");
  EXPECT_EQ(text({.seconds = 2.5, .loops = 1, .runs = 3}), "1 loop, best of 3: 2.5 s per loop");
  EXPECT_EQ(text({.seconds = 3e-9, .loops = 2, .runs = 1}), "2 loops, best of 1: 3 ns per loop");
}

}  // namespace
}  // namespace tapegrad
