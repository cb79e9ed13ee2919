// InferenceMode: no tape, no version counting, and errors when its tensors would enter a gradient.
#include "core/autograd/checkpoint.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "nn/linear.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

uint32_t version(const Variable& x) { return x.value().storage().version(); }

Variable made_in_inference_mode() {
  const InferenceMode mode;
  return make({1, 2, 3});
}

TEST(Inference, RecordsAndCountsNothing) {
  const Variable w = leaf({1, 2});
  const InferenceMode mode;
  EXPECT_TRUE(is_inference_mode());
  EXPECT_FALSE(is_recording());
  Variable y = exp(w * w);
  EXPECT_FALSE(y.requires_grad());
  y += 1.0;
  relu_(y);
  EXPECT_EQ(version(y), 0u);
  {
    const Recording on(true);
    EXPECT_FALSE((w * w).requires_grad()) << "recording cannot be turned on within";
  }
}

TEST(Inference, IsPerScopeAndSurvivesExceptions) {
  try {
    const InferenceMode mode;
    {
      const InferenceMode off(false);
      EXPECT_FALSE(is_inference_mode());
    }
    EXPECT_TRUE(is_inference_mode());
    add(make({1, 2}), make({1, 2, 3}));
    FAIL();
  } catch (const ShapeError&) {
  }
  EXPECT_FALSE(is_inference_mode());
  EXPECT_TRUE(is_recording());
  {
    const NoGrad off;
    const InferenceMode mode;
  }
  EXPECT_TRUE(is_recording());
}

TEST(Inference, OrdinaryTensorsAreStillCounted) {
  Variable x = make({1, 2});
  {
    const InferenceMode mode;
    x += 1.0;
  }
  EXPECT_EQ(version(x), 1u);
  const Variable w = leaf({3, 4}), y = exp(w);
  {
    const InferenceMode mode;
    Variable alias = y;
    alias += 1.0;
  }
  EXPECT_THROW(sum(y).backward(), AutogradError) << "the saved value was changed";
}

// The rules and messages are those of PyTorch's inference tensors.
TEST(Inference, SuchATensorCannotBeSaved) {
  const Variable x = made_in_inference_mode();
  const Variable w = leaf({4, 5, 6});
  expect_error<AutogradError>(
      [&] { w* x; }, {"inference mode", "saved for backward", "clone()", "inference_test.cpp"});
  expect_error<AutogradError>([&] { w* slice(x, 0, 0, 3); }, {"inference mode"});
  sum(w + x).backward();  // x is not saved
  EXPECT_EQ(values(w.grad()), (Values{1, 1, 1}));
  w.zero_grad();
  sum(w * clone(x)).backward();
  EXPECT_EQ(values(w.grad()), (Values{1, 2, 3}));
  EXPECT_NO_THROW(x * x) << "not recorded";
  EXPECT_THROW(checkpoint([](const Variable& a, const Variable& b) { return a * b; }, w, x),
               AutogradError);
}

TEST(Inference, SuchATensorIsNotWrittenOutside) {
  Variable x = made_in_inference_mode();
  expect_error<AutogradError>([&] { x += 1.0; }, {"add", "inference mode"});
  EXPECT_EQ(values(x), (Values{1, 2, 3}));
  const InferenceMode mode;
  x += 1.0;
  EXPECT_EQ(values(x), (Values{2, 3, 4}));
}

TEST(Inference, SuchATensorRequiresNoGradient) {
  Variable x = made_in_inference_mode();
  expect_error<AutogradError>([&] { x.requires_grad_(); }, {"inference mode"});
  Variable y = clone(x);
  EXPECT_NO_THROW(y.requires_grad_());
}

TEST(Inference, GivesTheSameValues) {
  nn::Linear layer({.in_features = 3, .out_features = 2});
  const Variable x = randn({4, 3});
  const auto plain = layer(x).to_vector<float>();
  const InferenceMode mode;
  EXPECT_EQ(layer(x).to_vector<float>(), plain);
}

}  // namespace
}  // namespace tapegrad::testing
