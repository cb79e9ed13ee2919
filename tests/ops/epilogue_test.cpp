#include "ops/epilogue.h"

#include <gtest/gtest.h>

#include <array>

#include "core/autograd/anomaly.h"
#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Two = std::array<Activation, 2>;
constexpr Two kPairs[] = {{Activation::kGelu, Activation::kGelu},
                          {Activation::kRelu, Activation::kRelu},
                          {Activation::kGelu, Activation::kRelu},
                          {Activation::kRelu, Activation::kGelu}};

Variable activate(Variable x, Activation activation) {
  return activation == Activation::kRelu ? relu(std::move(x)) : gelu(std::move(x), Gelu::kTanh);
}

/// Three layers with an activation after the first two. Each result has another handle, so that
/// every op writes to separate memory and has a separate node.
Variable apart(const std::vector<Variable>& in, const Two& two) {
  const Variable a = linear(in[0], in[1], in[2]), b = activate(a, two[0]);
  const Variable c = linear(b, in[3], in[4]), d = activate(c, two[1]);
  return linear(d, in[5]);
}
/// Computes the layers of `two` as nested expressions.
Variable nested(const std::vector<Variable>& in, const Two& two) {
  return linear(
      activate(linear(activate(linear(in[0], in[1], in[2]), two[0]), in[3], in[4]), two[1]), in[5]);
}
/// Computes the layers of `two` with the activation passed by name.
Variable asked(const std::vector<Variable>& in, const Two& two) {
  return linear(linear(linear(in[0], in[1], in[2], {two[0]}), in[3], in[4], {two[1]}), in[5]);
}
constexpr auto kForms = {nested, asked};

std::vector<Variable> three_layers(DType dtype) {
  manual_seed(21);
  std::vector<Variable> in;
  for (const Shape& shape : {Shape{2, 3, 4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}})
    in.push_back(randn(shape, {.dtype = dtype}).requires_grad_());
  return in;
}

TEST(Epilogue, LayersAreTheSameToTheBit) {
  for (const DType dtype : {f64, f32, bf16, f16})
    for (const Two& two : kPairs)
      for (const auto form : kForms) {
        const auto in = three_layers(dtype);
        const Variable a = apart(in, two), b = form(in, two);
        EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>()) << dtype;
        const auto expected = grad(sum(square(a)), in), got = grad(sum(square(b)), in);
        for (size_t i = 0; i < in.size(); ++i)
          EXPECT_EQ(got[i].to_vector<double>(), expected[i].to_vector<double>()) << dtype << i;
        const NoGrad off;
        EXPECT_EQ(form(in, two).to_vector<double>(), a.to_vector<double>()) << dtype;
      }
}

TEST(Epilogue, IsDifferentiableTwice) {
  const std::vector<Variable> in = three_layers(f64);
  for (const Two& two : kPairs)
    for (const auto form : kForms) {
      const auto model = [&](const std::vector<Variable>& x) { return form(x, two); };
      const GradcheckResult result = gradcheck(model, in, {.order = 2});
      EXPECT_TRUE(result) << result.message;
    }
}

// Recorded gradients are computed by other rules than gradients that are not recorded.
TEST(Epilogue, RecordedGradientsAreTheLayers) {
  for (const Two& two : kPairs)
    for (const auto form : kForms) {
      const auto in = three_layers(f64);
      const auto gradients = [&](const Variable& y) {
        std::vector<Variable> first = grad(sum(square(y)), in, {}, {.create_graph = true});
        Variable all;
        for (const Variable& x : first) all = all.defined() ? all + sum(square(x)) : sum(square(x));
        for (const Variable& x : grad(all, in)) first.push_back(x);
        return first;
      };
      const auto got = gradients(form(in, two)), expected = gradients(apart(in, two));
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(max(abs(got[i] - expected[i])).item(), 1e-12 * (1 + max(abs(expected[i])).item()))
            << i;
    }
}

TEST(Epilogue, KnowsAboutWritesAndFrozenWeights) {
  auto in = three_layers(f32);
  for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
    Variable hidden = linear(in[0], in[1], in[2], {activation});
    const Variable y = linear(hidden, in[3], in[4]);
    add_(hidden, 1);
    EXPECT_THROW(sum(y).backward(), AutogradError);

    const auto frozen = [&](const auto& layer) {
      const Variable y = linear(layer(in[0], in[1].detach(), in[2].detach()), in[3].detach());
      const Variable dx = grad(sum(y), in[0]);
      return dx.to_vector<float>();
    };
    EXPECT_EQ(frozen([&](auto... x) { return linear(x..., {activation}); }), frozen([&](auto... x) {
                const Variable z = linear(x...);
                return activate(z, activation);
              }));
  }
}

TEST(Epilogue, OfAConvolution) {
  manual_seed(5);
  for (const DType dtype : {f64, f32, bf16}) {
    const TensorOptions options{.dtype = dtype};
    const std::vector<Variable> in{randn({2, 3, 6, 6}, options).requires_grad_(),
                                   randn({4, 3, 3, 3}, options).requires_grad_(),
                                   randn({4}, options).requires_grad_()};
    for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
      const Variable z = conv2d(in[0], in[1], in[2], {.padding = 1});
      const Variable expected = activate(z, activation);
      const auto of_expected = grad(sum(square(expected)), in);
      for (const Variable& y :
           {conv2d(in[0], in[1], in[2], {.padding = 1}, {activation}),
            activate(conv2d(in[0], in[1], in[2], {.padding = 1}), activation)}) {
        EXPECT_EQ(y.to_vector<double>(), expected.to_vector<double>());
        const auto got = grad(sum(square(y)), in);
        for (size_t i = 0; i < in.size(); ++i)
          EXPECT_EQ(got[i].to_vector<double>(), of_expected[i].to_vector<double>()) << dtype << i;
      }
    }
  }
}

const void* address(const Variable& x) { return x.value().data<float>(); }

TEST(WritesOver, WhatNobodyElseCanSee) {
  const Variable x = randn({3, 4}), w = randn({5, 4}).requires_grad_();
  Variable z = linear(x, w);
  const void* at = address(z);
  const Variable y = relu(std::move(z));
  EXPECT_EQ(address(y), at);
  EXPECT_EQ(std::string(y.grad_fn()->name()), "linear_relu");

  Variable sum = x + x;  // no history
  at = address(sum);
  EXPECT_EQ(address(gelu(std::move(sum))), at);
  Variable product = w * 2.0;
  at = address(product);
  const Variable s = sigmoid(std::move(product));
  EXPECT_EQ(address(s), at);
  EXPECT_EQ(std::string(s.grad_fn()->name()), "sigmoid");

  const nn::Sigmoid layer;
  Variable difference = w - 1.0;
  at = address(difference);
  EXPECT_EQ(address(layer(std::move(difference))), at);
}

TEST(WritesOver, NothingThatSomebodySees) {
  const Variable w = randn({4, 4}).requires_grad_();
  const auto writes_over = [](Variable x) {
    const void* at = address(x);
    return address(relu(std::move(x))) == at;
  };
  EXPECT_TRUE(writes_over(w * 1.0));
  {
    Variable x = w * 1.0;
    const Variable handle = x;
    EXPECT_FALSE(writes_over(std::move(x))) << "another handle";
  }
  {
    Variable x = w * 1.0;
    const Variable constant = x.detach();
    EXPECT_FALSE(writes_over(std::move(x))) << "detached";
  }
  {
    Variable x = w * 1.0;
    const Variable view = narrow(x, 0, 1, 2);
    EXPECT_FALSE(writes_over(std::move(x))) << "a view of it";
  }
  {
    const Variable x = w * 1.0;
    EXPECT_FALSE(writes_over(narrow(x, 0, 1, 2))) << "a view";
    EXPECT_FALSE(writes_over(t(w * 1.0))) << "not contiguous";
  }
  {
    Variable x = exp(w);
    EXPECT_FALSE(writes_over(std::move(x))) << "saved by its own node";
    Variable y = w * 1.0;
    const Variable other = y * w;
    EXPECT_FALSE(writes_over(std::move(y))) << "saved by another";
  }
  {
    Variable x = w * 1.0;
    x.retain_grad();
    EXPECT_FALSE(writes_over(std::move(x))) << "retains its gradient";
  }
  {
    Variable leaf = randn({3}).requires_grad_();
    EXPECT_FALSE(writes_over(std::move(leaf))) << "a leaf";
  }
  {
    float values[] = {-1, 2, -3};
    EXPECT_FALSE(writes_over(Variable(Tensor::wrap(values, {3}, f32)))) << "the user's memory";
    EXPECT_EQ(values[0], -1);
  }
  {
    Variable x;
    {
      const InferenceMode on;
      x = randn({3});
    }
    EXPECT_FALSE(writes_over(std::move(x))) << "made in inference mode";
  }
  {
    const AnomalyMode on;
    EXPECT_FALSE(writes_over(w * 1.0));
  }
}

TEST(WritesOver, HooksKeepTheirNodes) {
  const Variable x = randn({3, 4}), w = randn({5, 4}).requires_grad_();
  Variable z = linear(x, w);
  std::vector<float> seen;
  z.register_hook([&](const Variable& dz) {
    seen = dz.to_vector<float>();
    return Variable();
  });
  const Variable y = relu(std::move(z));
  EXPECT_EQ(std::string(y.grad_fn()->name()), "relu");
  sum(y).backward();
  std::vector<float> slope;
  for (const float value : y.to_vector<float>()) slope.push_back(value > 0);
  EXPECT_EQ(seen, slope);
}

}  // namespace
}  // namespace tapegrad
