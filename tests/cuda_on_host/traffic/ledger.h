// Ledger: work that a program requests from the device, by kernel call of the dispatcher and by
// CUDA kernel.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/allocator.h"
#include "core/dispatch/dispatch_log.h"
#include "core/dispatch/span.h"
#include "core/inspect/profiler.h"
#include "counter.h"

namespace coh {

/// Launches of one CUDA kernel by one kernel of the dispatcher.
struct KernelRow {
  std::int64_t launches = 0;
  std::int64_t threads = 0, shared = 0;  // of the largest block; bytes of dynamic shared memory
  Traffic traffic;
};

/// Calls of a kernel of the dispatcher, "float32/softmax".
struct CallRow {
  std::int64_t calls = 0, launches = 0, library_calls = 0;
  std::int64_t moved = 0;  // bytes of distinct sectors, a sum over launches
  tapegrad::KernelWork work = {};
};

/// Observes the work of this thread from construction to destruction; one at a time.
class Ledger final : public Observer {
 public:
  Ledger();
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Prints one line for the sums, one for each CallRow and one for each KernelRow. Fields are
  /// separated by tabs: counts.py reads them. Addresses are relative to the program.
  void print(const std::string& name) const;

  void begin_call(const tapegrad::KernelWork& work);
  void end_call();

  void begin_kernel(void (*kernel)(), dim3 grid, dim3 block, std::size_t shared) override;
  void end_kernel() override;
  void on_library_call() override;
  void on_copy(std::size_t bytes) override;
  void on_wait() override;

 private:
  /// Forwards to the device's allocator.
  struct CountingAllocator;
  struct Launch {
    void (*kernel)();
    std::int64_t threads, shared;
    Traffic traffic;
  };

  /// A kernel call that has begun.
  struct Open {
    std::unique_ptr<tapegrad::DispatchLog> log = std::make_unique<tapegrad::DispatchLog>();
    std::map<std::string, std::int64_t> inner =
        {};  // entries of the log by calls inside of this one
  };

  CallRow& call() { return open_.empty() ? outside_ : call_; }
  void add(const std::string& call, const Launch& launch);

  CountingAllocator* allocator_;
  tapegrad::Profiler profiler_{{.device = tapegrad::cpu}};  // makes kernels report their work
  std::map<std::string, CallRow> calls_;
  std::map<std::pair<std::string, void (*)()>, KernelRow> kernels_;
  std::vector<Open> open_;  // kernels may call kernels; the first one is counted
  CallRow call_, outside_;
  std::vector<Launch> launches_;  // of the first open call
  Launch running_;
  std::int64_t waits_ = 0, copies_ = 0, copied_ = 0;
  bool is_idle_ = true;  // nothing was enqueued since the last wait
};

}  // namespace coh
