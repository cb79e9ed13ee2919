// Alternative names of ops that no other test calls. The expected values are NumPy's definitions of
// the names.
#include "ops/aliases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/create.h"
#include "tests/expect_near.h"

namespace tapegrad {
namespace {

using testing::expect_near;

Variable t(const std::vector<double>& values) { return tensor(values, {.dtype = f64}); }

TEST(Aliases, InverseHyperbolicFunctions) {
  expect_near(arcsinh(t({-2, 0.5})), {std::asinh(-2), std::asinh(0.5)});
  expect_near(arccosh(t({1, 3})), {0, std::acosh(3)});
  expect_near(arctanh(t({-0.5, 0.25})), {std::atanh(-0.5), std::atanh(0.25)});
}

TEST(Aliases, Products) {
  const Variable x = t({1, 2}), y = t({3, 4, 5});
  expect_near(ger(x, y), {3, 4, 5, 6, 8, 10});
  const Variable a = tensor({{1.0, 2.0}}, {.dtype = f64}), b = t({3, 4});
  expect_near(chain_matmul({a, unsqueeze(b, 1), t({2}).unsqueeze(0)}), {22});
}

TEST(Aliases, Shapes) {
  expect_near(diagflat(t({1, 2}), 1), {0, 1, 0, 0, 0, 2, 0, 0, 0});
  const Variable rows = row_stack({t({1, 2}), t({3, 4})});
  EXPECT_EQ(rows.shape(), Shape({2, 2}));
  expect_near(rows, {1, 2, 3, 4});
  const std::vector<Variable> parts = dsplit(arange(8).to(f64).view({1, 2, 4}), 2);
  ASSERT_EQ(parts.size(), 2u);
  expect_near(parts[1], {2, 3, 6, 7});
}

}  // namespace
}  // namespace tapegrad
