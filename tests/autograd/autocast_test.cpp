// Autocast: result types (torch.autocast's lists for CUDA), equality with explicit casts, and
// float32 gradients of float32 parameters.
#include "core/tape/autocast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "core/autograd/checkpoint.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/linalg.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/products.h"
#include "ops/random.h"
#include "ops/recurrent.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"

namespace tapegrad {
namespace {

Variable leaf(const Shape& shape, DType dtype = f32) {
  return randn(shape, {.dtype = dtype}).requires_grad_();
}

std::vector<double> values(const Variable& x) { return x.to_vector<double>(); }

TEST(Autocast, IsOfItsScopeAndThread) {
  EXPECT_FALSE(is_autocast_enabled());
  EXPECT_EQ(autocast_dtype(), f32);
  {
    const Autocast amp(bf16);
    EXPECT_TRUE(is_autocast_enabled());
    EXPECT_EQ(autocast_dtype(), bf16);
    {
      const Autocast half(f16);
      EXPECT_EQ(autocast_dtype(), f16);
      const Autocast off(bf16, false);
      EXPECT_FALSE(is_autocast_enabled());
    }
    EXPECT_EQ(autocast_dtype(), bf16);
    bool elsewhere = true;
    std::thread([&] { elsewhere = is_autocast_enabled(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(is_autocast_enabled());
  EXPECT_THROW((void)Autocast(f32), DTypeError);
  EXPECT_THROW((void)Autocast(i32), DTypeError);
  EXPECT_FALSE(is_autocast_enabled());
}

TEST(Autocast, GainingOpsTakeTheType) {
  manual_seed(1);
  const Variable x = leaf({2, 3, 4}), y = leaf({2, 4, 3}), m = leaf({3, 4}), n = leaf({4, 5});
  const Variable w = leaf({5, 4}), b = leaf({5}), v = leaf({4}), u = leaf({3});
  const Variable image = leaf({1, 2, 5, 5}), kernel = leaf({2, 2, 3, 3}), bias = leaf({2});
  const Variable signal = leaf({1, 2, 5}), short_kernel = leaf({2, 2, 3});
  const Variable volume = leaf({1, 2, 3, 4, 4}), cube = leaf({2, 2, 2, 2, 2});
  const Variable slope = leaf({1}), mask = leaf({3, 3});
  const std::vector<Variable> lstm_weights{leaf({8, 4}), leaf({8, 2}), leaf({8}), leaf({8})};
  const std::vector<Variable> gru_weights{leaf({6, 4}), leaf({6, 2}), leaf({6}), leaf({6})};
  const std::vector<Variable> rnn_weights{leaf({2, 4}), leaf({2, 2})};
  const std::vector<std::pair<const char*, std::function<Variable()>>> ops{
      {"matmul", [&] { return matmul(x, y); }},
      {"mm", [&] { return mm(m, n); }},
      {"bmm", [&] { return bmm(x, y); }},
      {"matmul, a vector", [&] { return matmul(m, v); }},
      {"linear", [&] { return linear(x, w, b); }},
      {"linear without bias", [&] { return linear(x, w, {}); }},
      {"addmm", [&] { return addmm(b, m, n); }},
      {"addmv", [&] { return addmv(u, m, v); }},
      {"addr", [&] { return addr(m, u, v); }},
      {"multi_dot",
       [&] {
         return linalg::multi_dot({m, n});
       }},
      {"baddbmm", [&] { return baddbmm(mask, x, y); }},
      {"conv1d", [&] { return conv1d(signal, short_kernel, bias); }},
      {"conv2d", [&] { return conv2d(image, kernel, bias); }},
      {"conv3d", [&] { return conv3d(volume, cube, bias); }},
      {"conv_transpose1d", [&] { return conv_transpose1d(signal, short_kernel, bias); }},
      {"conv_transpose2d", [&] { return conv_transpose2d(image, kernel, bias); }},
      {"conv_transpose3d", [&] { return conv_transpose3d(volume, cube, bias); }},
      {"attention", [&] { return scaled_dot_product_attention(x, x, x); }},
      {"attention, a mask",
       [&] { return scaled_dot_product_attention(x, x, x, {.attn_mask = mask}); }},
      {"prelu", [&] { return prelu(x, slope); }},
      {"lstm", [&] { return lstm(x, {}, {}, lstm_weights)[2]; }},
      {"gru", [&] { return gru(x, {}, gru_weights)[0]; }},
      {"rnn", [&] { return rnn_tanh(x, {}, rnn_weights)[0]; }},
  };
  for (const DType dtype : {bf16, f16})
    for (const auto& [name, op] : ops) {
      const Autocast amp(dtype);
      const Variable got = op();
      EXPECT_EQ(got.dtype(), dtype) << name;
      sum(got).backward();
    }
  for (const Variable& each : {x, y, m, n, w, b, v, u, image, kernel, bias, slope, mask}) {
    ASSERT_TRUE(each.grad().defined());
    EXPECT_EQ(each.grad().dtype(), f32);
  }
}

TEST(Autocast, OpsThatNeedRangeTakeFloat32) {
  manual_seed(2);
  const Variable x = leaf({3, 4}, bf16), target = leaf({3, 4}, bf16), ids = tensor({0, 1, 2});
  const Variable w = leaf({4}), unit = sigmoid(leaf({3, 4}, bf16)).detach();
  const std::vector<std::pair<const char*, std::function<Variable()>>> ops{
      {"softmax", [&] { return softmax(x, 1); }},
      {"log_softmax", [&] { return log_softmax(x, 1); }},
      {"softmin", [&] { return softmin(x, 1); }},
      {"cross_entropy", [&] { return cross_entropy(x, ids); }},
      {"nll_loss", [&] { return nll_loss(x, ids); }},
      {"mse_loss", [&] { return mse_loss(x, target); }},
      {"mse_loss, mixed", [&] { return mse_loss(x, target.to(f32)); }},
      {"l1_loss", [&] { return l1_loss(x, target); }},
      {"smooth_l1_loss", [&] { return smooth_l1_loss(x, target); }},
      {"binary_cross_entropy", [&] { return binary_cross_entropy(unit, unit.to(f32)); }},
      {"binary_cross_entropy_with_logits",
       [&] { return binary_cross_entropy_with_logits(x, unit.to(f32)); }},
      {"layer_norm", [&] { return layer_norm(x, {4}, w, w); }},
      {"group_norm", [&] { return group_norm(x, 2, w, w); }},
      {"rms_norm", [&] { return rms_norm(x, {4}, w); }},
      {"norm", [&] { return norm(x); }},
      {"norm of inf", [&] { return norm(x, INFINITY); }},
      {"normalize", [&] { return normalize(x); }},
      {"cosine_similarity", [&] { return cosine_similarity(x, target); }},
      {"cdist", [&] { return cdist(x, target); }},
      {"sum", [&] { return sum(x); }},
      {"prod", [&] { return prod(x); }},
      {"cumsum", [&] { return cumsum(x, 0); }},
      {"cumprod", [&] { return cumprod(x, 0); }},
      {"exp", [&] { return exp(x); }},
      {"log", [&] { return log(x); }},
      {"pow", [&] { return pow(x, 2.0); }},
      {"pow of two", [&] { return pow(x, target); }},
      {"pow of a number", [&] { return pow(2.0, x); }},
      {"rsqrt", [&] { return rsqrt(x); }},
      {"reciprocal", [&] { return reciprocal(x); }},
      {"softplus", [&] { return softplus(x); }},
  };
  for (const auto& [name, op] : ops) {
    const Autocast amp(bf16);
    EXPECT_EQ(op().dtype(), f32) << name;
  }
}

TEST(Autocast, OthersFollowTheirOperands) {
  const Variable x = leaf({2, 4}), half = leaf({2, 4}, bf16), wide = leaf({2, 4}, f64);
  const Variable w = leaf({2}), mean = zeros({2}), var = ones({2});
  const Autocast amp(bf16);
  EXPECT_EQ((x + half).dtype(), f32);
  EXPECT_EQ(relu(half).dtype(), bf16);
  EXPECT_EQ(tanh(x).dtype(), f32);
  // As in PyTorch 2.15 on both devices, although these are products.
  EXPECT_EQ(dot(x[0], x[1]).dtype(), f32);
  EXPECT_EQ(dot(half[0], half[1]).dtype(), bf16);
  EXPECT_EQ(dot(half[0], x[1]).dtype(), f32);
  EXPECT_EQ(outer(x[0], x[1]).dtype(), f32);
  EXPECT_EQ(bilinear(x, x, leaf({3, 4, 4})).dtype(), f32);
  EXPECT_EQ(tapegrad::mean(half).dtype(), bf16);
  const std::vector<Variable> both{half, x};
  EXPECT_EQ(cat(both, 0).dtype(), f32);
  EXPECT_EQ(stack(both, 0).dtype(), f32);
  EXPECT_EQ(matmul(wide, t(wide)).dtype(), f64);
  EXPECT_EQ(sum(wide).dtype(), f64);
  EXPECT_EQ(batch_norm(t(half), {}, {}, leaf({2}), leaf({2}), {.training = true}).dtype(), bf16);
  EXPECT_EQ(batch_norm(t(wide).to(f32), {}, {}, {}, leaf({2}).to(bf16), {.training = true}).dtype(),
            f32);
  const Variable images = t(half), bias = leaf({2});
  const int64_t live = TapeNode::live();
  const Variable y = batch_norm(images, mean, var, w, bias, {.training = true});
  EXPECT_EQ(TapeNode::live() - live, 1);  // float32 parameters are not cast
  // A composed op is one op: the ops inside it are not cast.
  EXPECT_EQ(linalg::matrix_power(matmul(wide, t(wide)).to(f32), 3).dtype(), f32);
}

TEST(Autocast, CastsAsOneWould) {
  manual_seed(3);
  const Variable x = randn({6, 5}), w = leaf({4, 5}), b = leaf({4}),
                 ids = tensor({0, 1, 2, 3, 0, 1});
  Variable loss;
  {
    const Autocast amp(bf16);
    loss = cross_entropy(relu(linear(x, w, b)), ids);
  }
  EXPECT_EQ(loss.dtype(), f32);
  loss.backward();
  const Variable dw = w.grad(), db = b.grad();
  w.zero_grad(), b.zero_grad();
  const Variable by_hand =
      cross_entropy(relu(linear(x.to(bf16), w.to(bf16), b.to(bf16))).to(f32), ids);
  by_hand.backward();
  EXPECT_EQ(values(loss), values(by_hand));
  EXPECT_EQ(values(dw), values(w.grad()));
  EXPECT_EQ(values(db), values(b.grad()));

  // A backward pass inside the scope gives equal gradients.
  w.zero_grad(), b.zero_grad();
  const Autocast amp(bf16);
  cross_entropy(relu(linear(x, w, b)), ids).backward();
  EXPECT_EQ(values(dw), values(w.grad()));
  EXPECT_EQ(values(db), values(b.grad()));
}

TEST(Autocast, CastsAParameterOnce) {
  manual_seed(4);
  const Variable x = randn({2, 3}), w = leaf({3, 3});
  const Autocast amp(bf16);
  const auto cast_of = [](const Variable& y) { return y.grad_fn()->edges()[1].node.get(); };
  const Variable first = linear(x, w, {}), second = linear(x, w, {});
  EXPECT_EQ(cast_of(first), cast_of(second));
  (sum(first) + sum(second)).backward();
  const std::vector<double> twice = values(w.grad());

  // The parameter is cast again after a backward pass has freed its cast, and after a write.
  w.zero_grad();
  sum(linear(x, w, {})).backward();
  const std::vector<double> once = values(w.grad());
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(2 * once[i], twice[i]);
  const Variable before = linear(x, w, {});
  {
    const NoGrad off;
    Variable same = w;
    same *= 0.0;
  }
  EXPECT_EQ(values(linear(x, w, {})), std::vector<double>(6, 0.0));
  {
    const NoGrad off;
    EXPECT_FALSE(linear(x, w, {}).requires_grad());
  }
  EXPECT_TRUE(linear(x, w, {}).requires_grad());
}

TEST(Autocast, HoldsForACheckpoint) {
  manual_seed(5);
  const Variable x = leaf({4, 3}), w = leaf({3, 3}), v = leaf({3, 3});
  const auto f = [&](const Variable& in) { return tanh(linear(tanh(linear(in, w, {})), v, {})); };
  const auto gradients = [&](auto run) {
    x.zero_grad(), w.zero_grad();
    Variable y;
    {
      const Autocast amp(bf16);
      y = run();
    }
    EXPECT_EQ(y.dtype(), bf16);
    sum(y).backward();
    return std::pair(values(x.grad()), values(w.grad()));
  };
  EXPECT_EQ(gradients([&] { return checkpoint(f, x); }), gradients([&] { return f(x); }));
}

TEST(Autocast, TrainsAsFloat32) {
  const auto train = [](bool on) {
    manual_seed(6);
    const Variable x = randn({64, 8}), y = tanh(matmul(x, randn({8, 2})));
    const auto scaled = [](const Shape& shape) {
      return (randn(shape) * 0.3).detach().requires_grad_();
    };
    const Variable w1 = scaled({16, 8}), b1 = scaled({16}), w2 = scaled({2, 16}), b2 = scaled({2});
    optim::Adam optimizer({w1, b1, w2, b2}, {.lr = 0.02});
    double last = 0;
    for (int step = 0; step < 200; ++step) {
      optimizer.zero_grad();
      Variable loss;
      {
        const Autocast amp(bf16, on);
        loss = mse_loss(linear(tanh(linear(x, w1, b1)), w2, b2), y);
      }
      loss.backward();
      optimizer.step();
      last = loss.item();
    }
    return last;
  };
  const double wide = train(false), mixed = train(true);
  EXPECT_LT(wide, 0.01);
  EXPECT_LT(mixed, 0.01);
}

}  // namespace
}  // namespace tapegrad
