// T12: integers, masks and second results that a rule reads again are guarded like operands: after
// a write to them the gradient is the same, or there is an error.
#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/embedding_bag.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/margin_loss.h"
#include "ops/pool.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/subscript.h"
#include "ops/view.h"

namespace tapegrad::testing {
namespace {

using Variables = std::vector<Variable>;
using Values = std::vector<double>;

Variable ids(const std::vector<int64_t>& values, const Shape& shape) {
  return Variable(Tensor::from<int64_t>(values, shape));
}
/// Notes the indices, which will be written, and returns the values.
Variable values_of(const ValuesIndices& result, Variables& written) {
  written = {result.indices};
  return result.values;
}

struct Call {
  const char* name;
  /// Computes a result of x [2, 4] and lists the operands that the test writes afterwards.
  std::function<Variable(const Variable& x, Variables& written)> run;
};

const std::vector<Call>& calls() {
  using V = Variable;
  using Vs = Variables;
  static const std::vector<Call> all = {
      {"cross_entropy",
       [](const V& x, Vs& w) {
         w = {ids({0, 1}, {2})};
         return cross_entropy(x, w[0]);
       }},
      {"weights of cross_entropy",
       [](const V& x, Vs& w) {
         w = {tensor({1.0, 2.0, 3.0, 4.0}, {.dtype = f64})};
         return cross_entropy(x, ids({0, 1}, {2}), {.weight = w[0]});
       }},
      {"nll_loss",
       [](const V& x, Vs& w) {
         w = {ids({0, 1}, {2})};
         return nll_loss(x, w[0]);
       }},
      {"multi_margin_loss",
       [](const V& x, Vs& w) {
         w = {ids({0, 1}, {2})};
         return multi_margin_loss(x, w[0]);
       }},
      {"embedding",
       [](const V& x, Vs& w) {
         w = {ids({0, 0, 1}, {3})};
         return embedding(w[0], x);
       }},
      {"embedding_bag",
       [](const V& x, Vs& w) {
         w = {ids({1, 0, 1}, {3})};
         return embedding_bag(w[0], x, ids({0, 2}, {2}));
       }},
      {"gather",
       [](const V& x, Vs& w) {
         w = {ids({0, 1, 1, 0}, {2, 2})};
         return gather(x, 1, w[0]);
       }},
      {"index_select",
       [](const V& x, Vs& w) {
         w = {ids({0, 0, 1}, {3})};
         return index_select(x, 0, w[0]);
       }},
      {"x[index]",
       [](const V& x, Vs& w) {
         w = {ids({0, 0, 1}, {3})};
         return V(x[w[0]]);
       }},
      {"x[mask]",
       [](const V& x, Vs& w) {
         w = {x.detach() > 0.5};
         return V(x[w[0]]);
       }},
      {"masked_fill",
       [](const V& x, Vs& w) {
         w = {x.detach() > 0.5};
         return masked_fill(x, w[0], 2.0);
       }},
      {"where",
       [](const V& x, Vs& w) {
         w = {x.detach() > 0.5};
         return where(w[0], x, x * x);
       }},
      {"scatter",
       [](const V& x, Vs& w) {
         w = {ids({0, 1, 1, 0}, {2, 2})};
         return scatter(x, 1, w[0], x * x);
       }},
      {"index_add",
       [](const V& x, Vs& w) {
         w = {ids({0, 0}, {2})};
         return index_add(x, 0, w[0], x * x);
       }},
      {"sort", [](const V& x, Vs& w) { return values_of(sort(x, 1), w); }},
      {"topk", [](const V& x, Vs& w) { return values_of(topk(x, 2, 1), w); }},
      {"kthvalue", [](const V& x, Vs& w) { return values_of(kthvalue(x, 2, 1), w); }},
      {"median", [](const V& x, Vs& w) { return values_of(median(x, 1), w); }},
      {"max", [](const V& x, Vs& w) { return values_of(max(x, 1), w); }},
      {"max_pool2d",
       [](const V& x, Vs& w) {
         return values_of(max_pool2d_with_indices(reshape(x, {1, 1, 2, 4}), {.kernel_size = 2}), w);
       }},
  };
  return all;
}

/// Returns the gradient of the sum of squares, or nothing after an error.
std::optional<Values> gradient(const Call& call, bool writes) {
  const Values values = {0.3, -1.2, 2.1, 0.7, 1.5, -0.4, 0.2, 0.9};
  const Variable x = Variable(Tensor::from<double>(values, {2, 4})).requires_grad_();
  Variables written;
  const Variable y = call.run(x, written);
  const NoGrad no_grad;
  for (Variable& each : written) {
    if (!writes) continue;
    if (each.dtype() == boolean)
      copy_(each, logical_not(each));
    else
      copy_(each, (each == 0).to(each.dtype()));
  }
  const Recording records(true);
  try {
    sum(y * y).backward();
  } catch (const AutogradError&) {
    return {};
  }
  return x.grad().to_vector<double>();
}

TEST(HostileReadAgain, T12_WhatIsWrittenAfterTheCall) {
  for (const Call& call : calls()) {
    const std::optional<Values> expected = gradient(call, false), got = gradient(call, true);
    ASSERT_TRUE(expected) << call.name;
    EXPECT_EQ(got.value_or(*expected), *expected) << call.name;
  }
}

}  // namespace
}  // namespace tapegrad::testing
