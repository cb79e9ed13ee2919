// Hooks on variables, nodes, leaves (after accumulation) and modules.
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/margin_loss.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/error_message.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

using testing::message_of;

constexpr BackwardOptions kRetain{.retain_graph = true};

TEST(Hooks, AreTakenOff) {
  const Variable x = leaf({2});
  int first = 0, second = 0;
  HookHandle handle = x.register_hook([&](const Variable&) { return ++first, Variable(); });
  x.register_hook([&](const Variable&) { return ++second, Variable(); });
  (x * x).backward();
  handle.remove();
  handle.remove();
  (x * x).backward();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  HookHandle outlives;
  {
    const Variable y = leaf({1});
    outlives = y.register_hook([](const Variable&) { return Variable(); });
  }
  outlives.remove();
}

TEST(Hooks, MayTakeThemselvesOff) {
  const Variable x = leaf({2});
  int calls = 0;
  HookHandle handle;
  handle = x.register_hook([&](const Variable&) {
    ++calls;
    handle.remove();
    return Variable();
  });
  (x * x).backward();
  (x * x).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Hooks, OfANodeSeeBothSides) {
  const Variable x = leaf({2}), w = leaf({5}), y = x * w;
  EXPECT_EQ(x.grad_fn(), nullptr);
  ASSERT_NE(y.grad_fn(), nullptr);
  EXPECT_EQ(y.grad_fn()->name(), "mul");
  std::vector<double> before, inputs, outputs;
  y.grad_fn()->register_prehook([&](std::span<Variable> dy) {
    before.push_back(dy[0].item());
    dy[0] = dy[0] * 10.0;
  });
  HookHandle after =
      y.grad_fn()->register_hook([&](std::span<Variable> dx, std::span<const Variable> dy) {
        for (const Variable& d : dx) inputs.push_back(d.item());
        for (const Variable& d : dy) outputs.push_back(d.item());
        dx[0] = dx[0] + 1.0;
      });
  y.backward(kRetain);
  EXPECT_EQ(before, std::vector<double>{1});
  EXPECT_EQ(outputs, std::vector<double>{10}) << "what the prehook made of it";
  EXPECT_EQ(inputs, (std::vector<double>{50, 20}));
  EXPECT_EQ(x.grad().item(), 51);
  EXPECT_EQ(w.grad().item(), 20);
  after.remove();
  y.backward();
  EXPECT_EQ(x.grad().item(), 51 + 50);
}

TEST(Hooks, OfANodeMayBeDifferentiated) {
  const Variable x = leaf({3}), y = x * x;
  y.grad_fn()->register_prehook([](std::span<Variable> dy) { dy[0] = dy[0] * dy[0]; });
  const Variable dx = grad(y, x, {.create_graph = true});
  EXPECT_EQ(dx.item(), 6);
  EXPECT_EQ(grad(dx, x).item(), 2);
}

TEST(Hooks, AfterAccumulation) {
  const Variable x = leaf({2}), w = leaf({1});
  std::vector<double> seen;
  x.register_post_accumulate_grad_hook([&](const Variable& g) { seen.push_back(g.item()); });
  (x * x).backward();
  (x * 3.0).backward();
  EXPECT_EQ(seen, (std::vector<double>{4, 7})) << "the sum so far";
  grad(x * x, x);
  EXPECT_EQ(seen.size(), 2u) << "grad() accumulates nothing";
  EXPECT_THROW((x * x).register_post_accumulate_grad_hook([](const Variable&) {}), AutogradError);
  EXPECT_THROW(make({1}).register_post_accumulate_grad_hook([](const Variable&) {}), AutogradError);

  // Steps the optimizer inside the backward pass, so that only one gradient exists at a time.
  Variable p = leaf({10});
  p.register_post_accumulate_grad_hook([&p](const Variable& g) {
    const NoGrad off;
    p -= 0.1 * g;
    p.zero_grad();
  });
  (p * 5.0).backward();
  EXPECT_EQ(p.item(), 9.5);
  EXPECT_FALSE(p.grad().defined());
}

struct Net : nn::Model<Net> {
  nn::Linear fc1{{.in_features = 2, .out_features = 3}};
  nn::Linear fc2{{.in_features = 3, .out_features = 1}};
  void members(nn::Members& m) override { m("fc1", fc1)("fc2", fc2); }
  Variable forward(const Variable& x) const { return fc2(tanh(fc1(x))); }
};

TEST(ModuleHooks, Forward) {
  Net net;
  const Variable x = make<float>({1, 2, 3, 4}, {2, 2});
  const Values plain = net(x).to_vector<double>();
  std::vector<std::string> order;
  HookHandle pre = net.fc1.register_forward_pre_hook([&](nn::Module& m, std::span<Variable> in) {
    order.push_back("pre " + m.kind());
    EXPECT_EQ(in.size(), 1u);
    in[0] = in[0] * 2.0;
  });
  HookHandle post = net.fc1.register_forward_hook(
      [&](nn::Module& m, std::span<const Variable> in, std::span<Variable> out) {
        order.push_back("post " + m.kind());
        EXPECT_EQ(in[0].to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
        EXPECT_EQ(out[0].shape(), (Shape{2, 3}));
        out[0] = out[0] * 0.0;
      });
  const Variable y = net(x);
  EXPECT_EQ(order, (std::vector<std::string>{"pre Linear", "post Linear"}));
  EXPECT_EQ(y.to_vector<float>()[0], net.fc2.bias.to_vector<float>()[0]);
  Net other = net.clone();
  other(x);
  EXPECT_EQ(order.size(), 2u) << "a clone has none";
  pre.remove();
  post.remove();
  EXPECT_EQ(net(x).to_vector<double>(), plain);
}

TEST(ModuleHooks, AHandleIsTheSameModule) {
  nn::Sequential model({nn::Linear({.in_features = 2, .out_features = 2}), nn::ReLU()});
  int calls = 0;
  model[0].register_forward_hook(
      [&](nn::Module&, std::span<const Variable>, std::span<Variable>) { ++calls; });
  model(make<float>({1, 2}, {1, 2}));
  EXPECT_EQ(calls, 1);
}

TEST(ModuleHooks, SeveralResults) {
  nn::RNN rnn({.input_size = 2, .hidden_size = 3});
  size_t results = 0;
  rnn.register_forward_hook([&](nn::Module&, std::span<const Variable>, std::span<Variable> out) {
    results = out.size();
    out[1] = out[1] * 0.0;
  });
  const auto y = rnn(make<float>({1, 2, 3, 4}, {2, 1, 2}));
  EXPECT_EQ(results, 2u);
  EXPECT_EQ(sum(y[1]).item(), 0);
}

/// Modules with three and five arguments, of which not all are Variables.
struct Sum : nn::Stateless<Sum> {
  Variable forward(const Variable& a, const Variable& b, double c) const { return a + b + c; }
  Variable forward(const Variable& a, const Variable& b, const Variable& c, double d, int e) const {
    return a + b + c + d + double(e);
  }
};

TEST(ModuleHooks, SeeAllVariables) {
  const Sum sum;
  const nn::MSELoss loss;
  const nn::TripletMarginLoss triplet;
  nn::MultiheadAttention attention({.embed_dim = 2, .num_heads = 1});
  attention.to(f64);
  std::vector<size_t> seen;
  const auto count = [&](nn::Module&, std::span<Variable> in) { seen.push_back(in.size()); };
  nn::Module* modules[] = {const_cast<Sum*>(&sum), const_cast<nn::MSELoss*>(&loss),
                           const_cast<nn::TripletMarginLoss*>(&triplet), &attention};
  for (nn::Module* module : modules) module->register_forward_pre_hook(count);
  const Variable x = leaf({1, 2}), y = leaf({3, 5});
  EXPECT_EQ(sum(x, y, 1.0).numel(), 2);
  sum(x, y, x, 1.0, 2);
  EXPECT_EQ(loss(x, y).item(), 6.5);
  triplet(view(x, {1, 2}), view(y, {1, 2}), view(y, {1, 2}));
  const Variable q = view(x, {1, 1, 2});
  attention(q, q, q);
  EXPECT_EQ(seen, (std::vector<size_t>{2, 3, 2, 3, 3}));
}

TEST(ModuleHooks, ErrorsNameTheCallersLine) {
  const nn::MSELoss loss;
  const nn::MultiheadAttention attention({.embed_dim = 2, .num_heads = 1});
  const std::string of_two = message_of([&] { loss(leaf({1, 2}), leaf({1, 2, 3})); });
  EXPECT_NE(of_two.find("hooks_test.cpp"), of_two.npos) << of_two;
  EXPECT_NE(of_two.find("MSELoss"), of_two.npos) << of_two;
  const std::string of_three = message_of([&] { attention(leaf({1}), leaf({1}), leaf({1})); });
  EXPECT_NE(of_three.find("hooks_test.cpp"), of_three.npos) << of_three;
  EXPECT_NE(of_three.find("MultiheadAttention"), of_three.npos) << of_three;
}

TEST(ModuleHooks, FullBackward) {
  Net net;
  const Variable x = make<float>({1, 2, 3, 4}, {2, 2}).requires_grad_();
  sum(net(x)).backward();
  const auto dx = x.grad().to_vector<float>();
  const auto dw = net.fc1.weight.grad().to_vector<float>();
  x.zero_grad(), net.zero_grad();

  int calls = 0;
  HookHandle handle = net.fc2.register_full_backward_hook(
      [&](nn::Module& m, std::span<Variable> grad_in, std::span<const Variable> grad_out) {
        ++calls;
        EXPECT_EQ(m.kind(), "Linear");
        EXPECT_EQ(grad_in.size(), 1u);
        EXPECT_EQ(grad_in[0].shape(), (Shape{2, 3}));
        EXPECT_EQ(grad_out[0].to_vector<float>(), (std::vector<float>{1, 1}));
        grad_in[0] = grad_in[0] * 2.0;
      });
  const Variable y = sum(net(x));
  y.backward(kRetain);
  EXPECT_EQ(calls, 1);
  for (size_t i = 0; i < dx.size(); ++i) EXPECT_FLOAT_EQ(x.grad().to_vector<float>()[i], 2 * dx[i]);
  for (size_t i = 0; i < dw.size(); ++i)
    EXPECT_FLOAT_EQ(net.fc1.weight.grad().to_vector<float>()[i], 2 * dw[i]);
  y.backward();
  EXPECT_EQ(calls, 2) << "once a pass";
  handle.remove();
  sum(net(x)).backward();
  EXPECT_EQ(calls, 2);
}

TEST(ModuleHooks, FullBackwardOfTheFirstLayer) {
  Net net;
  int calls = 0;
  net.fc1.register_full_backward_hook(
      [&](nn::Module&, std::span<Variable> grad_in, std::span<const Variable> grad_out) {
        ++calls;
        EXPECT_FALSE(grad_in[0].defined()) << "the data want no gradient";
        EXPECT_EQ(grad_out[0].shape(), (Shape{1, 3}));
      });
  sum(net(make<float>({1, 2}, {1, 2}))).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(net.fc1.weight.grad().defined());
  const NoGrad off;
  net(make<float>({1, 2}, {1, 2}));
}

TEST(ModuleHooks, FullBackwardAtOrderTwo) {
  Net net;
  net.to(f64);
  const Variable x = make({0.3, -0.2}, {1, 2}).requires_grad_();
  const auto second = [&] {
    const Variable dx = grad(sum(net(x)), x, {.create_graph = true});
    return values(grad(sum(dx * dx), x));
  };
  const Values plain = second();
  net.fc1.register_full_backward_hook(
      [](nn::Module&, std::span<Variable>, std::span<const Variable>) {});
  EXPECT_EQ(second(), plain);
}

}  // namespace
}  // namespace tapegrad::testing
