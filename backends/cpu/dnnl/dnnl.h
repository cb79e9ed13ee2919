// What every use of oneDNN shares.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include <oneapi/dnnl/dnnl.hpp>

#include "backends/cpu/tools/threads.h"
#include "core/base/error.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

const dnnl::engine& dnnl_engine();
dnnl::stream& dnnl_stream();  // of this thread

/// Whether the processor has all that this level of oneDNN needs.
bool has(dnnl::cpu_isa level);
/// Whether it multiplies bfloat16 faster than float32. Always when TAPEGRAD_CPU_BFLOAT16=1, which
/// is for tests: any processor can, most of them slowly.
bool multiplies_bfloat16();

/// What a primitive works in while it runs. The owner keeps it.
dnnl::memory scratch_memory(const dnnl::memory::desc& desc, Tensor& owner);

/// Runs f for the op of this name; oneDNN's exceptions become the library's.
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

/// Primitives with what is known of them, by the problem they solve: to make one takes longer than
/// to run it. For all threads; when there are too many, the one not used for longest goes first.
template <typename Problem, typename Plan>
class PlanCache {
 public:
  /// make(problem) gives the plan of a problem that was not seen before.
  template <typename Make>
  std::shared_ptr<const Plan> find(const Problem& problem, Make make) {
    const std::lock_guard lock(mutex_);
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

  std::mutex mutex_;
  std::list<std::pair<Problem, std::shared_ptr<const Plan>>> order_;
  std::map<Problem, typename decltype(order_)::iterator> by_problem_;
};

}  // namespace tapegrad::backends::cpu
