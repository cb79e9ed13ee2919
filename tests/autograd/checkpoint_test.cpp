// checkpoint(): equal values, gradients of every order and random numbers, with less memory.
#include "core/autograd/checkpoint.h"

#include "core/autograd/gradcheck.h"
#include "core/base/allocator.h"
#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

Variable block(const Variable& x) { return tanh(exp(sin(x) * x) * 0.5); }

TEST(Checkpoint, GradientsAreEqual) {
  const Variable x = leaf({0.3, -0.7, 1.1});
  sum(block(x)).backward();
  const Values plain = values(x.grad());
  x.zero_grad();
  const Variable y = checkpoint(block, x);
  EXPECT_EQ(values(y), values(block(x)));
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), plain);
  EXPECT_EQ(values(grad(sum(checkpoint(block, x)), x)), plain) << "grad() too";
}

TEST(Checkpoint, ToAnyOrder) {
  const auto checked = gradcheck([](const auto& in) { return checkpoint(block, in[0]); },
                                 {leaf({0.3, -0.7, 1.1})}, {.order = 2});
  EXPECT_TRUE(checked) << checked.message;
  const Variable x = leaf({3});
  const auto cube = [](const Variable& x) { return x * x * x; };
  const Variable first = grad(checkpoint(cube, x), x, {.create_graph = true});
  const Variable second = grad(first, x, {.create_graph = true});
  EXPECT_EQ(first.item(), 27);
  EXPECT_EQ(second.item(), 18);
  EXPECT_EQ(grad(second, x).item(), 6);
}

TEST(Checkpoint, ParametersOfTheFunctionGetTheirGradients) {
  nn::Linear layer({.in_features = 4, .out_features = 4});
  const Variable x = randn({2, 4}).requires_grad_();
  const auto f = [layer](const Variable& x) { return tanh(layer(tanh(layer(x)))); };
  sum(f(x)).backward();
  const auto dw = layer.weight.grad().to_vector<float>(), dx = x.grad().to_vector<float>();
  layer.zero_grad(), x.zero_grad();
  sum(checkpoint(f, x)).backward();
  EXPECT_EQ(layer.weight.grad().to_vector<float>(), dw);
  EXPECT_EQ(x.grad().to_vector<float>(), dx);
  layer.zero_grad();
  sum(checkpoint(f, x.detach())).backward();  // an input that requires no gradient
  EXPECT_EQ(layer.weight.grad().to_vector<float>(), dw);
}

TEST(Checkpoint, TheSameRandomNumbers) {
  const Variable x = make(Values(1000, 1.0)).requires_grad_();
  const auto noisy = [](const Variable& x) { return dropout(exp(dropout(x, 0.5)), 0.3) * x; };
  manual_seed(7);
  const Variable plain = noisy(x);
  sum(plain).backward();
  const Values gradient = values(x.grad());
  x.zero_grad();
  manual_seed(7);
  const Variable y = checkpoint(noisy, x);
  EXPECT_EQ(values(y), values(plain));
  const RandomState before = default_generator().state();
  randn({3});  // other code draws random numbers between forward and backward
  const RandomState after = default_generator().state();
  const Variable dx = grad(sum(y), x, {.create_graph = true});
  EXPECT_EQ(values(dx), gradient);
  EXPECT_NE(before, after);
  EXPECT_EQ(default_generator().state(), after) << "running again moves no generator";
  manual_seed(7);
  const Variable dx2 = grad(sum(grad(sum(noisy(x)), x, {.create_graph = true})), x);
  EXPECT_EQ(values(grad(sum(dx), x)), values(dx2)) << "order 2";
}

TEST(Checkpoint, KeepsLessMemory) {
  const int64_t n = 1 << 18;  // a megabyte per tensor
  const Variable x = Variable(Tensor::full({n}, 0.5, f32)).requires_grad_();
  const auto segment = [](const Variable& x) {
    Variable y = x;
    for (int i = 0; i < 8; ++i) y = sin(y);  // each op saves its input
    return y;
  };
  struct Memory {
    int64_t kept, peak;
  };
  const auto measure = [&](auto run) {
    x.zero_grad();
    const int64_t before = memory_stats().in_use;
    reset_peak_memory();
    Variable y = x;
    for (int i = 0; i < 4; ++i) y = run(y);
    const int64_t kept = memory_stats().in_use - before;
    sum(y).backward();
    return Memory{kept, memory_stats().peak - before};
  };
  const Memory plain = measure(segment);
  const Values gradient = values(x.grad());
  const Memory less = measure([&](const Variable& y) { return checkpoint(segment, y); });
  EXPECT_EQ(values(x.grad()), gradient);
  const int64_t one = n * 4;
  EXPECT_GE(plain.kept, 32 * one);
  EXPECT_LE(less.kept, 5 * one) << "an input for each of four segments";
  EXPECT_GE(plain.peak, 32 * one);
  EXPECT_LE(less.peak, 18 * one) << "and in backward the values of one segment";
}

TEST(Checkpoint, ReleasesWhatItComputedAgain) {
  const Variable x = Variable(Tensor::full({1 << 16}, 0.5, f32)).requires_grad_();
  sum(checkpoint(block, x)).backward();
  x.zero_grad();
  const int64_t before = memory_stats().in_use, live = [&] { return TapeNode::live(); }();
  {
    const Variable y = sum(checkpoint(block, x));
    y.backward();
    x.zero_grad();
  }
  EXPECT_EQ(memory_stats().in_use, before);
  EXPECT_EQ(TapeNode::live(), live);
}

TEST(Checkpoint, Nested) {
  const auto inner = [](const Variable& x) { return dropout(exp(x), 0.5) * x; };
  const auto outer = [&](const Variable& x) {
    return tanh(checkpoint(inner, checkpoint(inner, x * 0.1)));
  };
  const auto plain = [&](const Variable& x) { return tanh(inner(inner(x * 0.1))); };
  const Variable x = leaf({0.3, 0.5, 0.7, 0.9, 1.1});
  manual_seed(3);
  sum(plain(x)).backward();
  const Values gradient = values(x.grad());
  x.zero_grad();
  manual_seed(3);
  const Variable y = checkpoint(outer, x);
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), gradient);
}

TEST(Checkpoint, SeveralInputsAndResults) {
  const Variable a = leaf({2, 3}), b = leaf({4, 5});
  const auto f = [](const Variable& a, const Variable& b) {
    return std::vector<Variable>{a * b, exp(a) * 0.0 + b * b};
  };
  const auto ys = checkpoint(f, a, b);
  sum(ys[0] + ys[1]).backward();
  EXPECT_EQ(values(a.grad()), (Values{4, 5}));
  EXPECT_EQ(values(b.grad()), (Values{2 + 8, 3 + 10}));
  const auto list = [](const std::vector<Variable>& in) { return in[0] * in[1] * in[1]; };
  a.zero_grad();
  sum(checkpoint(list, std::vector{a, b})).backward();
  EXPECT_EQ(values(a.grad()), (Values{16, 25}));
}

TEST(Checkpoint, WithoutRecordingItIsACall) {
  const NoGrad off;
  const Variable x = leaf({1});
  EXPECT_FALSE(checkpoint(block, x).requires_grad());
}

TEST(Checkpoint, BatchNormCountsABatchOnce) {
  nn::BatchNorm1d once({.num_features = 2}), twice({.num_features = 2});
  const Variable x = make<float>({1, 2, 3, 5, 8, 13}, {3, 2}).requires_grad_();
  const auto f = [](nn::BatchNorm1d& layer) {
    return [layer](const Variable& x) { return exp(layer(x)); };
  };
  sum(f(once)(x)).backward();
  sum(checkpoint(f(twice), x)).backward();
  EXPECT_EQ(twice.running_mean.to_vector<float>(), once.running_mean.to_vector<float>());
  EXPECT_EQ(twice.running_var.to_vector<float>(), once.running_var.to_vector<float>());
  EXPECT_EQ(twice.num_batches_tracked.item(), 1);
}

TEST(Checkpoint, T12_WhatChangedInBetweenIsAnError) {
  Variable x = make({1, 2});
  const Variable w = leaf({3, 4});
  const auto f = [&](const Variable& x) { return exp(x * w); };
  Variable y = checkpoint(f, x);
  x += 1.0;
  expect_error<AutogradError>([&] { sum(y).backward(); }, {"changed in place"});
  x = make({1, 2});
  y = checkpoint(f, x);
  {
    const NoGrad off;
    Variable parameter = w;
    parameter -= 1.0;
  }
  expect_error<AutogradError>([&] { sum(y).backward(); }, {"changed in place", "[2]"});
  EXPECT_FALSE(w.grad().defined());
}

TEST(Checkpoint, T12_ABiasThatChangedInBetweenIsAnErrorToo) {
  const Variable x = leaf({1, 2});
  Variable bias = leaf({3, 4});  // captured, but not saved by any op
  const Variable y = checkpoint([&](const Variable& x) { return exp(x + bias); }, x);
  {
    const NoGrad off;
    bias -= 1.0;
  }
  expect_error<AutogradError>([&] { sum(y).backward(); }, {"checkpoint", "changed in place"});
}

TEST(Checkpoint, AFunctionThatIsNotTheSameIsAnError) {
  const Variable x = leaf({1, 2});
  int runs = 0;
  const auto f = [&](const Variable& x) { return ++runs == 1 ? exp(x) : exp(exp(x)); };
  const Variable y = checkpoint(f, x);
  expect_error<AutogradError>([&] { sum(y).backward(); },
                              {"checkpoint: run again, the function has more ops"});
  runs = 0;
  const auto g = [&](const Variable& x) { return ++runs == 1 ? exp(exp(x)) : exp(x); };
  const Variable z = checkpoint(g, x);
  expect_error<AutogradError>([&] { sum(z).backward(); }, {"checkpoint", "1 values", "2"});
  runs = 0;
  const auto h = [&](const Variable& x) { return ++runs == 1 ? exp(x) : exp(dropout(x, 0.5)); };
  const Variable u = checkpoint(h, x);
  expect_error<AutogradError>([&] { sum(u).backward(); }, {"more random numbers"});
}

TEST(Checkpoint, OtherOpsOfTheSameShapesAreAnError) {
  const Variable x = leaf({1, 2});
  int runs = 0;
  const auto f = [&](const Variable& x) { return ++runs == 1 ? exp(x) : sin(x); };
  const Variable y = checkpoint(f, x);
  expect_error<AutogradError>([&] { sum(y).backward(); }, {"calls sin in place of exp"});
  EXPECT_FALSE(x.grad().defined());
  runs = 0;
  const auto g = [&](const Variable& x) { return ++runs == 1 ? exp(x) + x : exp(x); };
  const Variable z = checkpoint(g, x);
  expect_error<AutogradError>([&] { sum(z).backward(); }, {"does not call add"});
  runs = 0;
  const auto h = [&](const Variable& x) { return ++runs == 1 ? exp(x) + rand({2}) : exp(x) + 1.0; };
  const Variable u = checkpoint(h, x);
  EXPECT_THROW(sum(u).backward(), AutogradError);
}

TEST(Checkpoint, AModuleThatChangesItsModeInBetweenIsAnError) {
  nn::Dropout dropout(0.5);
  const Variable x = leaf({1, 2, 3, 4});
  const Variable y = checkpoint([&](const Variable& x) { return dropout(x) * x; }, x);
  dropout.eval();
  EXPECT_THROW(sum(y).backward(), AutogradError);
  EXPECT_FALSE(x.grad().defined());
  dropout.train();
  sum(y).backward();
  const Values mask = values(y.detach() / (x.detach() * x.detach()));
  for (size_t i = 0; i < mask.size(); ++i)
    EXPECT_NEAR(values(x.grad())[i], 2 * mask[i] * double(i + 1), 1e-12);
}

TEST(Checkpoint, AValueWrittenInPlaceWithinIsAnError) {
  const Variable x = leaf({1, 2});
  const auto f = [](const Variable& x) {
    Variable y = exp(x);
    y += 1.0;
    return y;
  };
  const Variable y = checkpoint(f, x);
  expect_error<AutogradError>([&] { sum(y).backward(); }, {"exp", "changed in place"});
}

TEST(Checkpoint, AnErrorInTheFunctionLeavesNothingBehind) {
  const Variable x = leaf({1, 2});
  EXPECT_THROW(checkpoint(
                   [](const Variable& x) {
                     return exp(x) + make({1, 2, 3});
                   },
                   x),
               ShapeError);
  const Variable y = sum(exp(x));
  y.backward();  // the nodes have freed their saved tensors
  EXPECT_THROW(y.backward(), AutogradError);
}

}  // namespace
}  // namespace tapegrad::testing
