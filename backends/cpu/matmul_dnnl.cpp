#include "backends/cpu/matmul_dnnl.h"

#include <unordered_map>

#include <omp.h>

#include "backends/cpu/dnnl.h"

namespace tapegrad::backends::cpu {
namespace {

using dnnl::memory;

// With fewer rows the blocks are not worth their making; with more, sgemm has enough to cut.
constexpr int64_t kMinRows = 16, kMaxRows = 512;
// With fewer multiplications the call is not worth it: it takes 4 us.
constexpr int64_t kMinMultiplications = int64_t(1) << 16;
// Larger results leave the caches, and sgemm writes them faster.
constexpr int64_t kMaxResult = int64_t(1) << 20;

/// Everything a primitive depends on; also the key of the cache.
struct Problem {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;
  int64_t threads;
  bool bias;

  auto operator<=>(const Problem&) const = default;
};

/// A primitive for one problem. Shared by threads: it is not changed by being run.
struct Plan {
  memory::desc a, b, bias, c, scratch;
  dnnl::matmul primitive;
};

std::shared_ptr<const Plan> make_plan(const Problem& p) {
  auto plan = std::make_shared<Plan>();
  constexpr auto kFloat = memory::data_type::f32;
  plan->a = memory::desc({p.m, p.k}, kFloat, memory::dims{p.a_row, p.a_column});
  plan->b = memory::desc({p.k, p.n}, kFloat, memory::dims{p.b_row, p.b_column});
  plan->c = memory::desc({p.m, p.n}, kFloat, memory::dims{p.n, 1});
  if (p.bias) plan->bias = memory::desc({1, p.n}, kFloat, memory::dims{p.n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc description({plan->a, plan->b, plan->bias, plan->c},
                                                 attributes, dnnl_engine());
  plan->scratch = description.scratchpad_desc();
  plan->primitive = dnnl::matmul(description);
  return plan;
}

std::shared_ptr<const Plan> plan_for(const Problem& problem) {
  static PlanCache<Problem, Plan> cache;
  return cache.find(problem, make_plan);
}

memory memory_of(const memory::desc& desc, const float* data) {
  return memory(desc, dnnl_engine(), const_cast<float*>(data));
}

}  // namespace

bool suits_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b) {
  static const bool has_blocks =
      (int(dnnl::get_effective_cpu_isa()) & int(dnnl::cpu_isa::avx512_core)) ==
      int(dnnl::cpu_isa::avx512_core);
  return has_blocks && a.column == 1 && b.column != 1 && m >= kMinRows && m <= kMaxRows &&
         m * n <= kMaxResult && m * n * k >= kMinMultiplications;
}

void multiply_dnnl(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b,
                   const float* bias, float* c) {
  with_dnnl("matmul", [&] {
    const auto plan = plan_for(
        {m, n, k, a.row, a.column, b.row, b.column, omp_get_max_threads(), bias != nullptr});
    Tensor scratch;
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, memory_of(plan->a, a.data)},
        {DNNL_ARG_WEIGHTS, memory_of(plan->b, b.data)},
        {DNNL_ARG_DST, memory_of(plan->c, c)},
        {DNNL_ARG_SCRATCHPAD, scratch_memory(plan->scratch, scratch)}};
    if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory_of(plan->bias, bias));
    plan->primitive.execute(dnnl_stream(), arguments);
    dnnl_stream().wait();
  });
}

}  // namespace tapegrad::backends::cpu
