// Fibers, and thread blocks made of them.
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

#include "state.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" {
extern char __start_coh_shared[] __attribute__((weak));
extern char __stop_coh_shared[] __attribute__((weak));
}

#if defined(__x86_64__)
// Saves the callee-saved registers on the old stack and switches to the new stack. (ucontext needs
// two system calls per switch.)
struct Context {
  void* sp;
};
extern "C" void coh_switch(Context* from, Context* to);
asm(R"(
.text
.globl coh_switch
.type coh_switch,@function
coh_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq (%rsi), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size coh_switch,.-coh_switch
)");
static void make_context(Context* c, char* stack, std::size_t size, void (*entry)()) {
  auto* top = reinterpret_cast<void**>(stack + size) - 2;  // rsp % 16 is 8 at function entry
  *top = reinterpret_cast<void*>(entry);
  c->sp = top - 6;  // six registers with any content
}
static void switch_context(Context* from, Context* to) { coh_switch(from, to); }
#else
using Context = ucontext_t;
static void make_context(Context* c, char* stack, std::size_t size, void (*entry)()) {
  getcontext(c);
  c->uc_stack.ss_sp = stack;
  c->uc_stack.ss_size = size;
  c->uc_link = nullptr;
  makecontext(c, entry, 0);
}
static void switch_context(Context* from, Context* to) { swapcontext(from, to); }
#endif

namespace coh {
namespace {

constexpr std::size_t kStack = 128 * 1024, kGuard = 4096;

struct Fiber {
  Context context;
  char* stack = nullptr;  // starts with the guard page
};
enum class State : std::uint8_t { kNew, kReady, kWaiting, kDone };
struct Thread {
  State state = State::kNew;
  long ready_sweep = 0;  // first sweep in which the thread may run again
  Fiber* fiber = nullptr;
  Exchange x;
};

struct Runner {
  std::vector<Thread> threads;
  std::vector<std::unique_ptr<Fiber>> all;
  std::vector<Fiber*> idle;
  std::vector<int> order;
  Context scheduler;
  std::size_t cursor = 0;  // position in order
  long sweep = 0;
  int current = -1, total = 0, alive = 0, at_barrier = 0, sum = 0, barrier_sum = 0;
  int waiting[32] = {};  // for each warp, the lanes in a collective of all lanes
  const std::function<void()>* body = nullptr;
  const char* name = "";
  bool running = false;
  std::vector<char> dynamic_shared;
  const void* host_stack = nullptr;
  std::size_t host_stack_size = 0;
};
Runner r;

enum class Order { kForward, kReverse, kRandom };
Order order_mode() {
  static const Order mode = [] {
    const char* text = std::getenv("COH_ORDER");
    if (text == nullptr) return Order::kForward;
    return !std::strncmp(text, "reverse", 7)  ? Order::kReverse
           : !std::strncmp(text, "random", 6) ? Order::kRandom
                                              : Order::kForward;
  }();
  return mode;
}
std::mt19937& engine() {
  static std::mt19937 bits = [] {
    const char* text = std::getenv("COH_ORDER");
    return std::mt19937(text && !std::strncmp(text, "random:", 7) ? unsigned(std::atoi(text + 7))
                                                                  : 1u);
  }();
  return bits;
}

// A released thread waits for the next sweep, so that "forward" and "reverse" are strict lockstep
// orders: a read that comes too early fails in one of the two orders.
void make_ready(Thread& t) {
  t.state = State::kReady;
  t.ready_sweep = r.sweep + 1;
}

void set_thread(int t) {
  r.current = t;
  threadIdx.x = unsigned(t) % blockDim.x;
  threadIdx.y = unsigned(t) / blockDim.x % blockDim.y;
  threadIdx.z = unsigned(t) / (blockDim.x * blockDim.y);
}

void switch_to(Context* from, Context* to, [[maybe_unused]] const void* stack,
               [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack, size);
  switch_context(from, to);
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
  switch_context(from, to);
#endif
}
void yield_to_scheduler() {
  switch_to(&r.threads[r.current].fiber->context, &r.scheduler, r.host_stack, r.host_stack_size);
}

void release_block_if_complete() {
  if (r.at_barrier == 0 || r.at_barrier < r.alive) return;
  r.barrier_sum = std::exchange(r.sum, 0);
  r.at_barrier = 0;
  for (Thread& t : r.threads)
    if (t.state == State::kWaiting && t.x.op == Op::kBlock) make_ready(t);
}

// A warp collective completes when every lane in its mask waits in it.
void release_warp_if_complete(int warp, unsigned mask) {
  const int base = warp * 32, lanes = std::min(32, r.total - base);
  if (mask == ~0u) {
    if (++r.waiting[warp] < lanes) return;
    r.waiting[warp] = 0;
  }
  unsigned ballot = 0;
  Op op = Op::kNone;
  for (int l = 0; l < lanes; ++l) {  // lanes missing from a partial last warp count as absent
    if (!(mask >> l & 1)) continue;
    Thread& t = r.threads[base + l];
    if (t.state == State::kDone) fail("a warp collective names a lane that has returned");
    if (t.state != State::kWaiting || t.x.op == Op::kBlock || t.x.mask != mask) return;
    if (op == Op::kNone) op = t.x.op;
    if (t.x.op != op) fail("lanes of one warp meet in different collectives");
    if (op == Op::kBallot && t.x.source) ballot |= 1u << l;
  }
  for (int l = 0; l < lanes; ++l) {
    if (!(mask >> l & 1)) continue;
    Thread& t = r.threads[base + l];
    t.x.result = ballot;
    if (op == Op::kShuffle) {
      if (t.x.source < 0 || t.x.source >= lanes || !(mask >> t.x.source & 1))
        poison(t.x.out, 16);  // reading an absent lane is undefined
      else
        std::memcpy(t.x.out, r.threads[base + t.x.source].x.in, 16);
    }
    make_ready(t);
  }
}

void fiber_main() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &r.host_stack, &r.host_stack_size);
#endif
  for (;;) {
    (*r.body)();
    Thread& t = r.threads[r.current];
    t.state = State::kDone;
    --r.alive;
    const int warp = r.current / 32;
    for (int i = warp * 32; i < std::min(r.total, warp * 32 + 32); ++i)
      if (r.threads[i].state == State::kWaiting && r.threads[i].x.op != Op::kBlock &&
          (r.threads[i].x.mask >> (r.current % 32) & 1))
        fail("a lane returned although a waiting warp collective names it");
    release_block_if_complete();
    // Runs the next new thread on this fiber, so that kernels without barriers run as a plain loop.
    if (r.cursor + 1 < r.order.size()) {
      const int next = r.order[r.cursor + 1];
      if (r.threads[next].state == State::kNew) {
        r.threads[next].fiber = std::exchange(t.fiber, nullptr);
        ++r.cursor;
        set_thread(next);
        continue;
      }
    }
    yield_to_scheduler();
  }
}

Fiber* take_fiber() {
  if (!r.idle.empty()) {
    Fiber* f = r.idle.back();
    r.idle.pop_back();
    return f;
  }
  auto f = std::make_unique<Fiber>();
  f->stack = static_cast<char*>(mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  mprotect(f->stack, kGuard, PROT_NONE);  // a stack overflow faults
  make_context(&f->context, f->stack + kGuard, kStack, fiber_main);
  r.all.push_back(std::move(f));
  return r.all.back().get();
}

void run_block() {
  // Observed kernels need no poison, and run in less time.
  if (__start_coh_shared && observer == nullptr)
    poison(__start_coh_shared, __stop_coh_shared - __start_coh_shared);
  if (!r.dynamic_shared.empty()) poison(r.dynamic_shared.data(), r.dynamic_shared.size());
  for (Thread& t : r.threads) {
    t.state = State::kNew;
    t.ready_sweep = 0;
  }
  r.alive = r.total;
  r.at_barrier = r.sum = 0;
  std::fill(std::begin(r.waiting), std::end(r.waiting), 0);
  std::uint32_t held = 0;
  int hold_sweeps = 0;
  for (r.sweep = 0; r.alive > 0; ++r.sweep) {
    bool progress = false;
    if (order_mode() == Order::kRandom) {
      std::shuffle(r.order.begin(), r.order.end(), engine());
      if (hold_sweeps-- <= 0) {  // warps drift apart: some pause for a while
        held = std::uint32_t(engine()());
        hold_sweeps = int(engine()() % 16);
      }
    }
    for (r.cursor = 0; r.cursor < r.order.size(); ++r.cursor) {
      const int i = r.order[r.cursor];
      Thread& t = r.threads[i];
      if (t.state != State::kNew && t.state != State::kReady) continue;
      progress = true;
      if (t.ready_sweep > r.sweep || (held >> (i / 32) & 1)) continue;
      if (t.state == State::kNew) t.fiber = take_fiber();
      set_thread(i);
      switch_to(&r.scheduler, &t.fiber->context, t.fiber->stack + kGuard, kStack);
      // may differ from t, if the fiber continued with other threads
      Thread& last = r.threads[r.current];
      if (last.state == State::kDone) r.idle.push_back(std::exchange(last.fiber, nullptr));
    }
    if (!progress) fail("deadlock: some threads wait at a barrier that others never reach");
  }
}

}  // namespace

void fail(const char* what) {
  std::fprintf(stderr, "cuda_on_host: %s (%s, block %u,%u,%u thread %u,%u,%u)\n", what, r.name,
               blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  std::abort();
}
void poison(void* p, std::size_t n) { std::memset(p, 0xFF, n); }
void* dynamic_shared_memory() { return r.dynamic_shared.data(); }
unsigned lane_id() { return unsigned(r.current) % 32; }

int block_barrier(int predicate) {
  Thread& t = r.threads[r.current];
  t.x.op = Op::kBlock;
  t.state = State::kWaiting;
  r.sum += predicate;
  ++r.at_barrier;
  release_block_if_complete();
  yield_to_scheduler();
  return r.barrier_sum;
}

Exchange& exchange(Op op, unsigned mask, int source, const void* in, unsigned size) {
  Thread& t = r.threads[r.current];
  if (!(mask >> lane_id() & 1)) fail("the calling lane is not in its own mask");
  t.x.op = op;
  t.x.mask = mask;
  t.x.source = source;
  t.x.size = size;
  if (size) std::memcpy(t.x.in, in, size);
  t.state = State::kWaiting;
  release_warp_if_complete(r.current / 32, mask);
  yield_to_scheduler();
  return t.x;
}

void run_grid(dim3 grid, dim3 block, std::size_t shared, const char* name,
              const std::function<void()>& body) {
  if (r.running) fail("a kernel inside a kernel");
  r.running = true;
  blockDim = block;
  gridDim = grid;
  r.body = &body;
  r.name = name;
  r.total = int(block.x * block.y * block.z);
  r.threads.resize(std::size_t(r.total));
  r.order.resize(std::size_t(r.total));
  for (int i = 0; i < r.total; ++i)
    r.order[std::size_t(i)] = order_mode() == Order::kReverse ? r.total - 1 - i : i;
  r.dynamic_shared.assign(shared, 0);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block();
  r.running = false;
}

}  // namespace coh
