#include <gtest/gtest.h>

#include <array>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/linear.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad {
namespace {

using Two = std::array<Activation, 2>;
constexpr Two kPairs[] = {{Activation::kGelu, Activation::kGelu},
                          {Activation::kRelu, Activation::kRelu},
                          {Activation::kGelu, Activation::kRelu},
                          {Activation::kRelu, Activation::kGelu}};

/// Three layers with an activation behind the first two.
Variable by_layers(const std::vector<Variable>& in, const Two& two) {
  const auto activate = [](const Variable& x, Activation activation) {
    return activation == Activation::kRelu ? relu(x) : gelu(x, Gelu::kTanh);
  };
  const Variable first = activate(linear(in[0], in[1], in[2]), two[0]);
  return linear(activate(linear(first, in[3], in[4]), two[1]), in[5]);
}
Variable joined(const std::vector<Variable>& in, const Two& two) {
  const Activated first = linear_joined({in[0]}, in[1], in[2], two[0]);
  const Activated second = linear_joined(first, in[3], in[4], two[1]);
  return linear_joined(second, in[5], {}, Activation::kNone).y;
}
/// The result of the first layer has a second use.
Variable joined_with_more(const std::vector<Variable>& in) {
  const Activated first = linear_joined({in[0]}, in[1], in[2], Activation::kGelu);
  return linear_joined(first, in[3], in[4], Activation::kNone).y + sum(square(first.y));
}
std::vector<Variable> three_layers(DType dtype) {
  manual_seed(21);
  std::vector<Variable> in;
  for (const Shape& shape : {Shape{2, 3, 4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}})
    in.push_back(randn(shape, {.dtype = dtype}).requires_grad_());
  return in;
}

TEST(LinearJoined, IsTheLayersToTheBit) {
  for (const DType dtype : {f64, f32, bf16, f16})
    for (const Two& two : kPairs) {
      const auto in = three_layers(dtype);
      const Variable a = by_layers(in, two), b = joined(in, two);
      EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>()) << dtype;
      const auto of_layers = grad(sum(square(a)), in), of_joined = grad(sum(square(b)), in);
      for (size_t i = 0; i < in.size(); ++i)
        EXPECT_EQ(of_layers[i].to_vector<double>(), of_joined[i].to_vector<double>())
            << dtype << ' ' << i;
      const NoGrad off;
      EXPECT_EQ(joined(in, two).to_vector<double>(), a.to_vector<double>()) << dtype;
    }
}

TEST(LinearJoined, IsDifferentiableTwice) {
  std::vector<Variable> in = three_layers(f64);
  for (const Two& two : kPairs) {
    const auto model = [&](const std::vector<Variable>& x) { return joined(x, two); };
    const GradcheckResult result = gradcheck(model, in, {.order = 2});
    EXPECT_TRUE(result) << result.message;
  }
  in.pop_back();
  const GradcheckResult with_more = gradcheck(joined_with_more, in, {.order = 2});
  EXPECT_TRUE(with_more) << with_more.message;
}

// A gradient that is recorded goes by other rules than one that is not.
TEST(LinearJoined, RecordedGradientsAreTheLayers) {
  for (const Two& two : kPairs) {
    const auto in = three_layers(f64);
    const auto gradients = [&](const Variable& y) {
      std::vector<Variable> first = grad(sum(square(y)), in, {}, {.create_graph = true});
      Variable all;
      for (const Variable& x : first) all = all.defined() ? all + sum(square(x)) : sum(square(x));
      for (const Variable& x : grad(all, in)) first.push_back(x);
      return first;
    };
    const auto got = gradients(joined(in, two)), expected = gradients(by_layers(in, two));
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LT(max(abs(got[i] - expected[i])).item(), 1e-12 * (1 + max(abs(expected[i])).item()))
          << i;
  }
}

TEST(LinearJoined, KnowsAboutWritesAndFrozenWeights) {
  auto in = three_layers(f32);
  Activated first = linear_joined({in[0]}, in[1], in[2], Activation::kGelu);
  const Variable y = linear_joined(first, in[3], in[4], Activation::kNone).y;
  add_(first.y, 1);
  EXPECT_THROW(sum(y).backward(), AutogradError);

  const Activated hidden =
      linear_joined({in[0]}, in[1].detach(), in[2].detach(), Activation::kGelu);
  const Variable z = linear_joined(hidden, in[3].detach(), {}, Activation::kNone).y;
  const Variable layers =
      linear(gelu(linear(in[0], in[1].detach(), in[2].detach()), Gelu::kTanh), in[3].detach());
  EXPECT_EQ(grad(sum(z), in[0]).to_vector<float>(), grad(sum(layers), in[0]).to_vector<float>());
  EXPECT_FALSE(linear_joined({in[0].detach()}, in[1].detach(), {}, Activation::kGelu).x.defined());
}

}  // namespace
}  // namespace tapegrad
