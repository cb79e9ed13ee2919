// Kernels give the same bits in whatever order the threads of a team run, on drawn sizes. Whole
// numbers: sums are exact, so that one thread gives these bits, too.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "core/base/generator.h"
#include "ops/activation.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/settings.h"
#include "ops/view.h"
#include "tests/ops/team_order.h"

namespace tapegrad::testing {
namespace {

/// Sizes around those at which kernels change their algorithm.
constexpr int64_t kFew[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 28, 31, 33};
constexpr int64_t kMany[] = {48, 63, 64, 65, 127, 129, 255, 257, 300, 513, 777, 1025, 2049, 4097};

struct Draw {
  std::mt19937_64 bits;

  int64_t few() { return kFew[bits() % std::size(kFew)]; }
  int64_t any() { return bits() % 2 == 0 ? few() : kMany[bits() % std::size(kMany)]; }
  Variable whole(const Shape& shape, DType dtype) {
    RandomGenerator generator(bits());
    return randint(-2, 3, shape, {.dtype = dtype}, generator).requires_grad_();
  }
};

struct Call {
  std::vector<Variable> operands;
  std::function<Variable(const std::vector<Variable>&)> run;
};

Call draw_product(Draw& draw) {
  const int64_t m = draw.any(), k = draw.any(), n = draw.few();
  const DType dtype = draw.bits() % 3 == 0 ? f64 : f32;
  if (draw.bits() % 2 == 0)
    return {{draw.whole({m, k}, dtype), draw.whole({n, k}, dtype), draw.whole({n}, dtype)},
            [](auto& x) { return relu(linear(x[0], x[1], x[2])); }};
  return {{draw.whole({n, k}, dtype), draw.whole({k, m}, dtype)},
          [](auto& x) { return matmul(x[0], x[1]); }};
}
Call draw_convolution(Draw& draw) {
  const int64_t size = draw.bits() % 2 == 0 ? 1 : 3;
  const bool is_long = size == 1 && draw.bits() % 2 == 0;  // few results of long sums
  const int64_t groups = !is_long && draw.bits() % 3 == 0 ? 2 : 1;
  const int64_t in = is_long ? 300 : groups * draw.few();
  const int64_t out = is_long ? 1 + int64_t(draw.bits() % 7) : groups * draw.few();
  const Shape image{2, in, is_long ? 17 : draw.few(), 19};
  return {
      {draw.whole(image, f32), draw.whole({out, in / groups, size, size}, f32),
       draw.whole({out}, f32)},
      [=](auto& x) { return conv2d(x[0], x[1], x[2], {.padding = size / 2, .groups = groups}); }};
}
Call draw_reduction(Draw& draw) {
  const DType dtype = draw.bits() % 2 == 0 ? f64 : f32;
  const Variable x = draw.whole({draw.any(), draw.few(), draw.few()}, dtype);
  const int dim = int(draw.bits() % 3);
  switch (draw.bits() % 4) {
    case 0:
      return {{x}, [=](auto& x) { return sum(x[0], {dim}); }};
    case 1:
      return {{x}, [=](auto& x) { return amax(x[0], {dim}); }};
    case 2:
      return {{x}, [=](auto& x) { return cumsum(x[0], dim); }};
    default:
      return {{x}, [=](auto& x) { return clone(transpose(x[0], 0, dim)); }};
  }
}
Call draw_index(Draw& draw) {
  const int64_t rows = draw.few();
  RandomGenerator generator(draw.bits());
  const Variable ids = randint(0, rows, {4097}, {}, generator);
  return {{draw.whole({rows, draw.few()}, f32)},
          [=](auto& x) { return index_select(x[0], 0, ids); }};
}

/// Returns the values and the gradients of their sum with fixed factors.
std::vector<double> results_of(const Call& call) {
  std::vector<double> all;
  std::vector<Variable> operands;
  for (const Variable& x : call.operands) operands.push_back(x.detach().requires_grad_());
  const Variable y = call.run(operands);
  RandomGenerator generator(7);
  y.backward(randint(-2, 3, y.shape(), {.dtype = y.dtype()}, generator));
  for (const double value : y.to_vector<double>()) all.push_back(value);
  for (const Variable& x : operands)
    for (const double value : x.grad().template to_vector<double>()) all.push_back(value);
  return all;
}

TEST(TeamOrder, ChangesNoResult) {
  const char* more = std::getenv("TAPEGRAD_TEAM_ORDER_CASES");
  const uint64_t cases = more != nullptr ? std::stoull(more) : 80;
  const int64_t threads = get_num_threads();
  set_conv_algorithm(ConvAlgorithm::kDirect);
  for (uint64_t seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw{std::mt19937_64(seed)};
    constexpr Call (*kDraws[])(Draw&) = {draw_product, draw_convolution, draw_reduction,
                                         draw_index};
    const Call call = kDraws[seed % std::size(kDraws)](draw);
    set_num_threads(1);
    const std::vector<double> expected = results_of(call);
    set_num_threads(2 + int64_t(draw.bits() % 7));
    for (const TeamOrder order : {TeamOrder::kAscending, TeamOrder::kDescending}) {
      set_team_order(order);
      const std::vector<double> got = results_of(call);
      set_team_order(TeamOrder::kThreads);
      EXPECT_TRUE(got == expected) << get_num_threads() << " threads, order " << int(order);
    }
  }
  set_conv_algorithm(ConvAlgorithm::kAuto);
  set_num_threads(threads);
  EXPECT_GT(regions_in_order(), int64_t(cases / 4));
}

}  // namespace
}  // namespace tapegrad::testing
