// Shared infrastructure for oneDNN.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string_view>

#include <oneapi/dnnl/dnnl.hpp>

#include "backends/cpu/tools/threads.h"
#include "core/base/error.h"
#include "core/base/internal/mutex.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

const dnnl::engine& dnnl_engine();
dnnl::stream& dnnl_stream();  // the stream of this thread

/// Returns whether the processor has all instructions of this oneDNN ISA level.
bool has(dnnl::cpu_isa level);
/// Returns whether oneDNN computes in bfloat16: by default, if the processor has bfloat16
/// instructions. For tests and measurements, TAPEGRAD_CPU_BFLOAT16=1 requires only AVX-512, on
/// which oneDNN emulates these instructions slowly, and TAPEGRAD_CPU_BFLOAT16=0 forces false.
/// Without AVX-512, oneDNN has neither products nor convolutions of bfloat16.
bool multiplies_bfloat16();

/// Returns a workspace for a primitive; `owner` owns the memory.
dnnl::memory scratch_memory(const dnnl::memory::desc& desc, Tensor& owner);

/// Runs f for the named op and translates oneDNN's exceptions to those of the library.
template <typename F>
auto with_dnnl(std::string_view op, F f) {
  respect_thread_limit();
  try {
    return f();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) fail<OutOfMemory>(op, ": oneDNN is out of memory");
    fail<Error>(op, ": oneDNN: ", error.what(), " (status ", int(error.status), ")");
  }
}

/// LRU cache of primitives and their descriptions, keyed by the problem that they solve. Creating a
/// primitive takes longer than running it. Thread-safe.
template <typename Problem, typename Plan>
class PlanCache {
 public:
  /// Returns the cached plan of a problem, or make(problem) if there is none.
  template <typename Make>
  std::shared_ptr<const Plan> find(const Problem& problem, Make make) {
    const MutexLock lock(mutex_);
    if (const auto found = by_problem_.find(problem); found != by_problem_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    order_.emplace_front(problem, make(problem));
    by_problem_[problem] = order_.begin();
    if (order_.size() > kCapacity) {
      by_problem_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }

 private:
  static constexpr size_t kCapacity = 512;

  using Order = std::list<std::pair<Problem, std::shared_ptr<const Plan>>>;
  Mutex mutex_;
  Order order_ ABSL_GUARDED_BY(mutex_);
  std::map<Problem, typename Order::iterator> by_problem_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tapegrad::backends::cpu
