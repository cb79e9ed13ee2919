// Replaces functions of GNU's OpenMP library for callers in this program; those of libraries get
// the functions of the library. Each member of a team is a fiber with its own stack, which runs
// until it ends or waits for the others.
#include "tests/ops/team_order.h"

#include <dlfcn.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <omp.h>

namespace tapegrad::testing {
namespace {

constexpr size_t kStackBytes = size_t(4) << 20;

/// A loop whose iterations are handed out while it runs.
struct Loop {
  long next = 0, end = 0, step = 1, chunk = 1;
};

struct Member {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool is_done = false, waits = false;
  size_t loops = 0;  // that it has begun
};

struct Team {
  std::vector<Member> members;
  std::vector<Loop> loops;
  ucontext_t caller;
  void (*run)(void*);
  void* data;
};

TeamOrder order = TeamOrder::kThreads;
int64_t regions = 0;
Team* team = nullptr;  // that runs now, by the only thread that uses this file
int member = 0;

extern "C" char __executable_start, etext;
bool is_own(const void* code) { return code >= &__executable_start && code < &etext; }

template <typename Function>
Function* next_of(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

Member& current() { return team->members[size_t(member)]; }
void leave() { swapcontext(&current().context, &team->caller); }
void begin_member() {
  team->run(team->data);
  current().is_done = true;
  leave();
}

void run_team(void (*run)(void*), void* data, size_t count) {
  Team now;
  now.run = run, now.data = data;
  now.members.resize(count);
  for (Member& each : now.members) {
    each.stack = std::make_unique<char[]>(kStackBytes);
    getcontext(&each.context);
    each.context.uc_stack.ss_sp = each.stack.get();
    each.context.uc_stack.ss_size = kStackBytes;
    each.context.uc_link = nullptr;
    makecontext(&each.context, begin_member, 0);
  }
  team = &now;
  const auto is_done = [](const Member& each) { return each.is_done; };
  while (!std::ranges::all_of(now.members, is_done)) {
    for (size_t i = 0; i < count; ++i) {
      member = int(order == TeamOrder::kDescending ? count - 1 - i : i);
      if (!current().is_done && !current().waits) swapcontext(&now.caller, &current().context);
    }
    // Members wait at a barrier until all others do so or have ended.
    const auto waits = [](const Member& each) { return each.is_done || each.waits; };
    if (std::ranges::all_of(now.members, waits))
      for (Member& each : now.members) each.waits = false;
  }
  team = nullptr;
}

bool take(Loop& loop, long* first, long* last) {
  if (loop.next >= loop.end) return false;
  *first = loop.next;
  loop.next = *last = std::min(loop.end, loop.next + loop.chunk * loop.step);
  return true;
}

}  // namespace

void set_team_order(TeamOrder chosen) { order = chosen; }
int64_t regions_in_order() { return regions; }

}  // namespace tapegrad::testing

using namespace tapegrad::testing;

extern "C" {

void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned flags) {
  static const auto real = next_of(GOMP_parallel, "GOMP_parallel");
  if (team != nullptr) {  // a region in a region has one thread
    Team* const outer = std::exchange(team, nullptr);
    const TeamOrder before = std::exchange(order, TeamOrder::kThreads);
    real(run, data, 1, flags);
    team = outer, order = before;
    return;
  }
  const size_t count = threads != 0 ? threads : size_t(omp_get_max_threads());
  if (order == TeamOrder::kThreads || count == 1 || !is_own(__builtin_return_address(0)))
    return real(run, data, threads, flags);
  ++regions;
  run_team(run, data, count);
}

int omp_get_thread_num() {
  static const auto real = next_of(omp_get_thread_num, "omp_get_thread_num");
  return team != nullptr ? member : real();
}
int omp_get_num_threads() {
  static const auto real = next_of(omp_get_num_threads, "omp_get_num_threads");
  return team != nullptr ? int(team->members.size()) : real();
}
int omp_in_parallel() {
  static const auto real = next_of(omp_in_parallel, "omp_in_parallel");
  return team != nullptr ? 1 : real();
}

void GOMP_barrier() {
  static const auto real = next_of(GOMP_barrier, "GOMP_barrier");
  if (team == nullptr) return real();
  current().waits = true;
  leave();
}

bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk, long* first,
                                          long* last) {
  static const auto real =
      next_of(GOMP_loop_nonmonotonic_dynamic_start, "GOMP_loop_nonmonotonic_dynamic_start");
  if (team == nullptr) return real(start, end, step, chunk, first, last);
  leave();  // the members take turns
  if (current().loops == team->loops.size()) team->loops.push_back({start, end, step, chunk});
  return take(team->loops[current().loops++], first, last);
}
bool GOMP_loop_nonmonotonic_dynamic_next(long* first, long* last) {
  static const auto real =
      next_of(GOMP_loop_nonmonotonic_dynamic_next, "GOMP_loop_nonmonotonic_dynamic_next");
  if (team == nullptr) return real(first, last);
  leave();
  return take(team->loops[current().loops - 1], first, last);
}
void GOMP_loop_end_nowait() {
  static const auto real = next_of(GOMP_loop_end_nowait, "GOMP_loop_end_nowait");
  if (team == nullptr) real();
}
void GOMP_loop_end() {
  static const auto real = next_of(GOMP_loop_end, "GOMP_loop_end");
  team == nullptr ? real() : GOMP_barrier();
}

}  // extern "C"
