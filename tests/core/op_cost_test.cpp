// Cost of an op in addition to its arithmetic, in instructions, which do not depend on the load of
// the machine. The parent process single-steps a child (ptrace) and counts the steps.
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "core/base/internal/sanitizer.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = kAddressSanitizer;
#endif

/// Returns the steps of a process between its two stops, or -1 if tracing is not permitted.
int64_t steps_of(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    work();
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return -1;
  int64_t steps = 0;
  do {
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) return -1;
    waitpid(child, &status, 0);
    ++steps;
  } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return steps;
}

/// Returns the instructions per op of the chain y = y * a + b: the difference of 40 ops and 20 ops,
/// divided by 20, which cancels constant costs. A longer chain first fills the memory caches.
double instructions_per_op(const std::function<void(int links)>& chain) {
  chain(40);
  const int64_t longer = steps_of([&] { chain(20); }), shorter = steps_of([&] { chain(10); });
  return longer < 0 || shorter < 0 ? -1 : double(longer - shorter) / 20;
}

struct OpCost : ::testing::Test {
  Variable x = ones({1}), a = full({1}, 0.999), b = full({1}, 0.001);

  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer adds instructions of its own";
  }
  Variable run(int links) const {
    Variable y = x;
    for (int i = 0; i < links; ++i) y = y * a + b;
    return y;
  }
  /// Each limit is a fifth above the count of g++ 12.
  void check(double limit, const std::function<void(int links)>& chain) {
    const double count = instructions_per_op(chain);
    if (count < 0) GTEST_SKIP() << "this process may not trace another";
    RecordProperty("instructions", std::to_string(count));
    EXPECT_LE(count, limit);
    EXPECT_GT(count, 20);  // otherwise nothing was counted
  }
};

TEST_F(OpCost, Forward) {
  const NoGrad no_grad;
  check(620, [&](int links) { run(links); });
}
TEST_F(OpCost, Recorded) {
  x.requires_grad_();
  check(1100, [&](int links) { run(links); });
}
TEST_F(OpCost, ForwardAndBackward) {
  x.requires_grad_();
  check(1850, [&](int links) { run(links).backward(); });
}

}  // namespace
}  // namespace tapegrad::testing
