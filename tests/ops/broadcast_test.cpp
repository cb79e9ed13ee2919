// Elementwise ops on operands that broadcast, and on parts of longer rows.
#include <cmath>

#include <gtest/gtest.h>

#include "core/tape/view.h"
#include "ops/activation.h"
#include "ops/activation_composed.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Doubles = std::vector<double>;

Doubles values(const Variable& x) { return x.to_vector<double>(); }

/// Different numbers, which every dtype holds exactly.
Variable numbers(const Shape& shape, DType dtype, int64_t seed = 0) {
  Doubles made(size_t(numel(shape)));
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = double((int64_t(i) * 37 + seed * 11) % 113) / (is_float(dtype) ? 8 : 1);
  return tensor(made, shape, {.dtype = dtype});
}

struct Pair {
  Shape a, b;
};

/// Row lengths around those of a vector, of a buffer and of a task.
std::vector<Pair> pairs() {
  std::vector<Pair> found;
  for (int64_t n : {7, 15, 16, 17, 31, 33, 64, 100, 255, 256, 257, 1000})
    found.insert(found.end(), {
                                  {{5, 1, n}, {1, 7, n}},
                                  {{3, 9, 1}, {3, 1, n}},
                                  {{40, 1}, {1, n}},
                                  {{n, 1, 3}, {1, n % 19 + 1, 3}},
                                  {{2, 3, 1, n}, {2, 1, 5, 1}},
                                  {{4, 1, n}, {n}},
                                  {{1, 6, n}, {2, 1, 1}},
                              });
  found.push_back({{3, 1}, {1, 16384 * 2 + 5}});
  found.push_back({{2, 16384 + 17}, {2, 1}});
  found.push_back({{3, 0, 40}, {1, 1, 40}});
  return found;
}

Variable spread_to(const Variable& x, const Shape& shape) { return x.expand(shape).contiguous(); }

/// Results equal those of contiguous operands, bit for bit, for one and for two threads.
TEST(Broadcast, EqualsContiguousOperands) {
  for (const Pair& pair : pairs())
    for (DType dtype : {f32, f64, bf16, i32, u8}) {
      const Variable a = numbers(pair.a, dtype), b = numbers(pair.b, dtype, 3);
      const Variable product = a * b;
      const Variable wide_a = spread_to(a, product.shape()), wide_b = spread_to(b, product.shape());
      ASSERT_EQ(values(product), values(wide_a * wide_b)) << a.shape() << b.shape() << dtype;
      ASSERT_EQ(values(b - a), values(wide_b - wide_a)) << a.shape() << b.shape() << dtype;
      ASSERT_EQ(values(a < b), values(wide_a < wide_b)) << a.shape() << b.shape() << dtype;
      ASSERT_EQ(values(where(a < b, a, b)), values(where(wide_a < wide_b, wide_a, wide_b)))
          << a.shape() << b.shape() << dtype;
    }
}

/// The gradient of a broadcast factor is a sum of products (kernels::sum_of_products). The numbers
/// are such that all sums are exact.
TEST(Broadcast, GradientsOfFactorsAreSumsOfProducts) {
  std::vector<Pair> of_factors = pairs();
  of_factors.insert(of_factors.end(), {
                                          {{4, 6, 9, 11}, {6, 1, 1}},
                                          {{4, 6, 9, 11}, {4, 6, 1, 1}},
                                          {{4, 6, 40}, {4, 1, 40}},
                                          {{700, 24}, {24}},
                                          {{300, 64}, {300, 1}},
                                          {{5000}, {}},
                                      });
  for (const Pair& pair : of_factors)
    for (DType dtype : {f32, f64, bf16, f16}) {
      const Variable a = numbers(pair.a, dtype).requires_grad_();
      const Variable b = numbers(pair.b, dtype, 3).requires_grad_();
      const Variable y = a * b, dy = numbers(y.shape(), dtype, 5);
      y.backward(dy);
      const Variable da = sum_to(dy * spread_to(b.detach(), y.shape()), a.shape());
      const Variable db = sum_to(dy * spread_to(a.detach(), y.shape()), b.shape());
      ASSERT_EQ(values(a.grad()), values(da)) << a.shape() << b.shape() << dtype;
      ASSERT_EQ(values(b.grad()), values(db)) << a.shape() << b.shape() << dtype;
    }
}

/// In float32 the sums of products have the bits of sums of the products, for any numbers, also if
/// the gradient of the result is broadcast.
TEST(Broadcast, GradientsOfFactorsHaveTheBitsOfSums) {
  struct Case {
    Shape dy, a, b;
  };
  std::vector<Case> cases = {{{1600, 1, 40}, {1600, 7, 40}, {7, 40}},
                             {{900, 4, 1}, {900, 4, 16}, {4, 16}},
                             {{9000, 24}, {9000, 24}, {24}},
                             {{600, 1100}, {600, 1100}, {1100}},
                             {{1, 3, 9, 1}, {2, 3, 9, 33}, {2, 1, 9, 33}}};
  for (int64_t n : {15, 16, 17, 40, 81, 256, 257, 1025})
    for (int64_t m : {1, 5, 300})
      cases.insert(cases.end(), {{{3, m, n}, {3, m, n}, {3, 1, n}},
                                 {{3, m, n}, {3, m, n}, {3, m, 1}},
                                 {{3, 1, n}, {3, m, n}, {m, 1}},
                                 {{3, m, 1}, {3, m, n}, {3, 1, n}},
                                 {{3, m, n}, {3, m, 1}, {1, n}}});
  const int64_t threads = get_num_threads();
  manual_seed(1);
  for (const Case& c : cases)
    for (int64_t count : {1, 2}) {
      set_num_threads(count);
      const Variable a = randn(c.a).requires_grad_(), b = randn(c.b).requires_grad_();
      const Variable y = a * b, dy = randn(c.dy).expand(y.shape());
      y.backward(dy);
      const Variable all_a = spread_to(a.detach(), y.shape()), all = dy.contiguous();
      const Variable all_b = spread_to(b.detach(), y.shape());
      ASSERT_EQ(values(a.grad()), values(sum_to(all * all_b, c.a))) << c.dy << c.a << c.b << count;
      ASSERT_EQ(values(b.grad()), values(sum_to(all * all_a, c.b))) << c.dy << c.a << c.b << count;
    }
  set_num_threads(threads);
}

/// An infinite factor does not reach the sums of other rows or the ends of vectors.
TEST(Broadcast, InfiniteFactorOfShortRows) {
  const Variable a = ones({2, 19}).requires_grad_(), b = ones({2, 1}).requires_grad_();
  (a * b).backward(tensor({HUGE_VAL, 1.0}, {2, 1}, {.dtype = f32}).expand({2, 19}));
  EXPECT_EQ(values(b.grad()), (Doubles{HUGE_VAL, 19}));
}

TEST(Broadcast, ThreadsChangeNothing) {
  const int64_t threads = get_num_threads();
  for (const Pair& pair : pairs()) {
    const Variable a = numbers(pair.a, f32), b = numbers(pair.b, f32, 3);
    set_num_threads(1);
    const Variable one = exp(-a * 0.01) * b;
    set_num_threads(2);
    EXPECT_EQ(values(exp(-a * 0.01) * b), values(one)) << a.shape() << b.shape();
  }
  set_num_threads(threads);
}

/// Operands and results that are parts of longer rows.
TEST(Broadcast, PartsOfRows) {
  for (int64_t n : {5, 15, 16, 17, 40, 300})
    for (DType dtype : {f32, f64, f16, i64}) {
      const Variable all = numbers({70, 2 * n + 3}, dtype), column = narrow(all, 1, 2 * n, 1);
      const Variable left = narrow(all, 1, 1, n), right = narrow(all, 1, n + 1, n);
      const Variable wanted = left.contiguous() * right.contiguous() - column.contiguous();
      ASSERT_EQ(values(left * right - column), values(wanted)) << n << dtype;
      Variable target = all.clone();
      narrow(target, 1, 2, n).copy_(left * right);
      narrow(target, 1, 2, n) -= column;
      ASSERT_EQ(values(narrow(target, 1, 2, n)), values(wanted)) << n << dtype;
      ASSERT_EQ(values(narrow(target, 1, 2 + n, n + 1)), values(narrow(all, 1, 2 + n, n + 1)));
      ASSERT_EQ(values(narrow(target, 1, 0, 2)), values(narrow(all, 1, 0, 2)));
    }
}

/// A row or a column beside every second element of longer rows.
TEST(Broadcast, StepsBesideRows) {
  for (int64_t n : {15, 16, 40, 300})
    for (DType dtype : {f32, i64}) {
      const Variable apart = slice(numbers({20, 2 * n}, dtype), 1, 0, kEnd, 2);
      const Variable whole = apart.contiguous();
      for (const Shape& shape : {Shape{20, 1}, Shape{1, n}}) {
        const Variable b = numbers(shape, dtype, 3), wide = spread_to(b, {20, n});
        ASSERT_EQ(values(apart - b), values(whole - wide)) << n << shape;
        ASSERT_EQ(values(b - apart), values(wide - whole)) << n << shape;
      }
      Variable target = numbers({20, n + 2}, dtype, 7);
      narrow(target, 1, 1, n).copy_(apart);
      ASSERT_EQ(values(narrow(target, 1, 1, n)), values(whole)) << n;
    }
}

/// Rows of few elements, more than a buffer holds, are copied together.
TEST(Broadcast, ShortRowsOfStridedOperands) {
  for (int64_t n = 1; n <= 6; ++n)
    for (int64_t rows : {3, 300, 1000})
      for (DType dtype : {u8, bf16, f32, f64}) {
        const Variable a = numbers({5, rows, 1, n}, dtype), b = numbers({5, 1, 7, n}, dtype, 1);
        const Variable shape = expand(a, {5, rows, 7, n}), x = reshape(a, {5 * rows, n});
        EXPECT_EQ(values(a + b),
                  values(shape.contiguous() + expand(b, shape.shape()).contiguous()));
        const Variable other = numbers({5 * rows, 2}, dtype, 2);
        const Doubles all = values(cat({x, other, x}, 1)), first = values(x),
                      second = values(other);
        const int64_t width = 2 * n + 2;
        for (int64_t r = 0; r < 5 * rows; ++r)
          for (int64_t i = 0; i < width; ++i) {
            const bool is_other = i >= n && i < n + 2;
            const double wanted =
                is_other ? second[size_t(r * 2 + i - n)] : first[size_t(r * n + i % (n + 2))];
            ASSERT_EQ(all[size_t(r * width + i)], wanted) << n << " x " << rows;
          }
      }
}

TEST(Broadcast, GluOfRows) {
  for (int64_t n : {3, 16, 21, 64, 300}) {
    const Variable x = (numbers({9, 2 * n}, f32) - 5).requires_grad_();
    const Variable y = glu(x, 1), dy = numbers({9, n}, f32, 5);
    const Variable a = narrow(x, 1, 0, n).detach().contiguous(),
                   gate = sigmoid(narrow(x, 1, n, n).detach().contiguous());
    const Doubles found = values(y), wanted = values(a * gate);
    const Doubles dx = values(grad(y, x, dy)),
                  slope = values(cat({dy * gate, dy * a * (gate * (1 - gate))}, 1));
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-6) << n;
    for (size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], slope[i], 1e-5) << n;
  }
}

}  // namespace
}  // namespace tapegrad
