// Ops computed by Thrust and CUB: each calls one of these libraries, and has the CPU's results.
#include <gtest/gtest.h>

#include <functional>

#include "core/base/device.h"
#include "core/base/generator.h"
#include "core/dispatch/dispatch_log.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/statistics.h"
#include "ops/statistics_composed.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "state.h"

namespace tapegrad {
namespace {

/// Counts the calls of libraries.
struct LibraryCalls : coh::Observer {
  int count = 0;
  LibraryCalls() { coh::observer = this; }
  ~LibraryCalls() { coh::observer = nullptr; }
  void begin_kernel(void (*)(), dim3, dim3, std::size_t) override {}
  void end_kernel() override {}
  void on_library_call() override { ++count; }
  void on_copy(std::size_t) override {}
  void on_wait() override {}
};

using Results = std::vector<Variable>;

Results all(const ValuesIndices& x) { return {x.values, x.indices}; }
Results all(const Unique& x) { return {x.values, x.inverse, x.counts}; }
/// Returns the gradient of f(x), weighted by whole numbers, whose sums are exact in any order.
Results gradient(const Variable& x, const std::function<Variable(const Variable&)>& f) {
  const Variable leaf = x.detach().requires_grad_();
  const Variable y = f(leaf);
  const Variable weights =
      remainder(arange(y.numel(), {.dtype = y.dtype(), .device = x.device()}), 5);
  sum(flatten(y) * weights).backward();
  return {leaf.grad()};
}

/// x: [60, 50] of few distinct values; ids: [300] from 0 to 39.
struct Family {
  const char* name;
  Results (*run)(const Variable& x, const Variable& ids);
};
const Family kFamilies[] = {
    {"sort", [](const Variable& x, const Variable&) { return all(sort(x, 1, true)); }},
    {"argsort", [](const Variable& x, const Variable&) { return Results{argsort(x, 0)}; }},
    {"topk", [](const Variable& x, const Variable&) { return all(topk(x, 7, 1)); }},
    {"kthvalue", [](const Variable& x, const Variable&) { return all(kthvalue(x, 9, 1)); }},
    {"median", [](const Variable& x, const Variable&) { return all(median(x, 1)); }},
    {"mode", [](const Variable& x, const Variable&) { return all(mode(x, 1)); }},
    {"unique", [](const Variable& x, const Variable&) { return all(unique(x)); }},
    {"unique_consecutive",
     [](const Variable&, const Variable& ids) { return all(unique_consecutive(ids)); }},
    {"searchsorted",
     [](const Variable& x, const Variable&) {
       return Results{searchsorted(sort(x, 1).values, x), searchsorted(sort(x, 1).values, x, true)};
     }},
    {"bucketize",
     [](const Variable& x, const Variable&) {
       const Variable boundaries =
           tensor({-1.0, -0.5, 0.0, 0.25, 3.0}, {.dtype = f32, .device = x.device()});
       return Results{bucketize(x, boundaries), bucketize(x, boundaries, true)};
     }},
    {"nonzero", [](const Variable& x, const Variable&) { return Results{nonzero(x)}; }},
    {"masked_select",
     [](const Variable& x, const Variable&) { return Results{masked_select(x, x > 0)}; }},
    {"bincount", [](const Variable&, const Variable& ids) { return Results{bincount(ids)}; }},
    {"histc", [](const Variable& x, const Variable&) { return Results{histc(x, 11, -2, 2)}; }},
    {"cumsum", [](const Variable&, const Variable& ids) { return Results{cumsum(ids, 0)}; }},
    {"scatter_add",
     [](const Variable&, const Variable& ids) {
       const Variable zero = zeros({40}, {.dtype = i64, .device = ids.device()});
       return Results{scatter_add(zero, 0, ids, ids)};
     }},
    {"index_add",
     [](const Variable& x, const Variable& ids) {
       return Results{index_add(zeros_like(x), 0, ids, ones({300, 50}, {.device = x.device()}))};
     }},
    {"gradient of embedding",
     [](const Variable& x, const Variable& ids) {
       return gradient(x, [&](const Variable& table) { return embedding(ids, table); });
     }},
    {"gradient of gather",
     [](const Variable& x, const Variable& ids) {
       const Variable rows = reshape(ids, {6, 50});
       return gradient(x, [&](const Variable& y) { return gather(y, 0, rows); });
     }},
    {"randperm",
     [](const Variable& x, const Variable&) {
       manual_seed(3);
       return Results{randperm(500, {.device = x.device()})};
     }},
};

TEST(CudaFamilies, AreComputedByThrustAndCub) {
  manual_seed(2);
  const Variable x = floor(randn({60, 50}, {.device = cpu}) * 2) / 2;
  const Variable ids = randint(0, 40, {300}, {.dtype = i64, .device = cpu});
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    const Results expected = family.run(x, ids);
    const Variable gpu_x = x.to(gpu), gpu_ids = ids.to(gpu);
    LibraryCalls calls;
    const DispatchLog log;
    const Results results = family.run(gpu_x, gpu_ids);
    EXPECT_GT(calls.count, 0);
    for (const std::string& kernel : log.kernels())
      EXPECT_FALSE(kernel.ends_with(":by_cpu")) << kernel;
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(results[i].device(), gpu);
      EXPECT_EQ(results[i].shape(), expected[i].shape()) << i;
      EXPECT_EQ(results[i].to(f64).to_vector<double>(), expected[i].to(f64).to_vector<double>())
          << i;
    }
    std::printf("%-22s %d calls of Thrust and CUB\n", family.name, calls.count);
  }
}

}  // namespace
}  // namespace tapegrad
