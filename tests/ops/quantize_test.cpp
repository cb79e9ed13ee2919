// Rounding to few bits with a gradient. The values are those of PyTorch 2.15.
#include "ops/quantize.h"

#include "core/base/error.h"
#include "ops/aliases.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using namespace testing;

TEST(FakeQuantize, ValuesAndGradients) {
  const Variable x = leaf<float>({-20, -1.26f, -0.04f, 0.05f, 0.15f, 0.249f, 1.26f, 30});
  const Variable y = fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7);
  EXPECT_TRUE(equal(y, make<float>({-1.1f, -1.1f, 0, 0, 0.2f, 0.2f, 0.4f, 0.4f})));
  sum(y).backward();
  EXPECT_TRUE(equal(x.grad(), make<float>({0, 0, 1, 1, 1, 1, 0, 0})));
}

TEST(FakeQuantize, Errors) {
  EXPECT_THROW(fake_quantize_per_tensor_affine(tensor({1, 2}), 0.1, 0, -8, 7), DTypeError);
  EXPECT_THROW(fake_quantize_per_tensor_affine(ones({2}), 0.0, 0, -8, 7), ArgumentError);
  EXPECT_THROW(fake_quantize_per_tensor_affine(ones({2}), 0.1, 8, -8, 7), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
