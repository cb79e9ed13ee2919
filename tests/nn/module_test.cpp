#include "nn/module.h"

#include <cmath>
#include <thread>

#include <gtest/gtest.h>

#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/linear.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/optimizers.h"
#include "tests/error_message.h"

namespace tapegrad::nn {
namespace {

using testing::message_of;

struct Block : Model<Block> {
  Linear inner{{.in_features = 3, .out_features = 3}};
  std::vector<Linear> more{Linear({.in_features = 3, .out_features = 3, .bias = false}),
                           Linear({.in_features = 3, .out_features = 3, .bias = false})};
  Dropout dropout{0.5};

  void members(Members& m) override { m("inner", inner)("more", more)("dropout", dropout); }
  Variable forward(const Variable& x) const { return dropout(more[1](more[0](inner(x)))); }
};

struct Net : Model<Net> {
  Linear fc1{{.in_features = 4, .out_features = 3}};
  Block block;
  Variable scale = ones({3}, {.requires_grad = true});
  Variable seen = zeros({}, {.dtype = i64});

  void members(Members& m) override {
    m("fc1", fc1)("block", block)("scale", scale).buffer("seen", seen);
  }
  Variable forward(const Variable& x) const { return block(relu(fc1(x))) * scale; }
};

std::vector<std::string> names(const std::vector<NamedVariable>& list) {
  std::vector<std::string> result;
  for (const NamedVariable& named : list) result.push_back(named.name);
  return result;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

TEST(Module, NamesParametersInOrder) {
  const Net net;
  EXPECT_EQ(
      names(net.named_parameters()),
      (std::vector<std::string>{"fc1.weight", "fc1.bias", "block.inner.weight", "block.inner.bias",
                                "block.more.0.weight", "block.more.1.weight", "scale"}));
  EXPECT_EQ(names(net.named_buffers()), std::vector<std::string>{"seen"});
  EXPECT_EQ(net.parameter_count(), 4 * 3 + 3 + 3 * 3 + 3 + 9 + 9 + 3);
  EXPECT_TRUE(net.named_parameters()[0].variable.is_same(net.fc1.weight));
  EXPECT_THROW(net.named_parameters()[7], IndexError);
  EXPECT_THROW(net.named_parameters()["fc9.weight"], ArgumentError);
}

TEST(Module, EmptyHooksAreErrors) {
  Linear layer(2, 1);
  testing::expect_error<ArgumentError>("register_forward_pre_hook: the hook is an empty function",
                                       [&] { layer.register_forward_pre_hook(ForwardPreHook()); });
  testing::expect_error<ArgumentError>("register_forward_hook: the hook is an empty function",
                                       [&] { layer.register_forward_hook(ForwardHook()); });
  testing::expect_error<ArgumentError>("register_full_backward_hook: the hook is an empty function",
                                       [&] { layer.register_full_backward_hook(BackwardHook()); });
}

TEST(Module, ModeReachesAllWithinAndCopies) {
  Net net;
  const Dropout handle = net.block.dropout;
  EXPECT_TRUE(handle.is_training());
  net.eval();
  EXPECT_FALSE(handle.is_training());
  net.train();
  EXPECT_TRUE(net.block.dropout.is_training());
}

TEST(Module, CopiesShareAndClonesDoNot) {
  Net net;
  const Net handle = net;
  Net copy = net.clone();
  EXPECT_TRUE(handle.fc1.weight.is_same(net.fc1.weight));
  EXPECT_FALSE(copy.fc1.weight.is_same(net.fc1.weight));
  EXPECT_EQ(names(copy.named_parameters()), names(net.named_parameters()));
  for (size_t i = 0; i < net.parameters().size(); ++i) {
    const Variable a = net.parameters()[i], b = copy.parameters()[i];
    EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
    EXPECT_FALSE(a.value().shares_storage(b.value()));
    EXPECT_TRUE(b.requires_grad());
  }
  copy.eval();
  EXPECT_TRUE(net.block.dropout.is_training());
  EXPECT_FALSE(copy.block.dropout.is_training());
  const auto before = copy.fc1.weight.to_vector<float>();
  net.eval();
  sum(net(ones({2, 4}))).backward();
  EXPECT_FALSE(copy.fc1.weight.grad().defined());
  optim::SGD(net, 0.5).step();
  EXPECT_EQ(copy.fc1.weight.to_vector<float>(), before);
  EXPECT_NE(net.fc1.weight.to_vector<float>(), before);
}

struct Tied : Model<Tied> {
  Embedding embedding{{.num_embeddings = 5, .embedding_dim = 3}};
  Linear head{{.in_features = 3, .out_features = 5, .bias = false}};
  Tied() { head.weight = embedding.weight; }

  void members(Members& m) override { m("embedding", embedding)("head", head); }
  Variable forward(const Variable& ids) const { return head(embedding(ids)); }
};

TEST(Module, TiedWeightsAreOneParameter) {
  Tied model;
  EXPECT_EQ(names(model.named_parameters()), std::vector<std::string>{"embedding.weight"});
  EXPECT_EQ(model.parameter_count(), 15);
  const Variable ids = tensor({0, 3, 3}, {.dtype = i64});
  sum(square(model(ids))).backward();
  // The expected gradient: two separate weights, whose gradients are added.
  const Variable e(model.embedding.weight.value().clone()), h(e.value().clone());
  Variable(e).requires_grad_(), Variable(h).requires_grad_();
  sum(square(linear(embedding(ids, e), h))).backward();
  const auto merged = model.embedding.weight.grad().to_vector<double>();
  const auto a = e.grad().to_vector<double>(), b = h.grad().to_vector<double>();
  for (int i = 0; i < 15; ++i)
    EXPECT_NEAR(merged[i], a[i] + b[i], 1e-4 * (1 + std::abs(merged[i])));

  Tied copy = model.clone();
  EXPECT_TRUE(copy.head.weight.is_same(copy.embedding.weight));
  EXPECT_FALSE(copy.head.weight.is_same(model.head.weight));
  model.to(f64);
  EXPECT_TRUE(model.head.weight.is_same(model.embedding.weight));
  EXPECT_EQ(model.head.weight.dtype(), f64);
  EXPECT_EQ(copy.head.weight.dtype(), f32);
}

TEST(Module, ConvertsUnderTheSameHandles) {
  Net net;
  const Variable weight = net.fc1.weight;
  optim::Adam optimizer(net, 0.1);
  net.to(f64);
  EXPECT_EQ(weight.dtype(), f64);
  EXPECT_EQ(net.seen.dtype(), i64);
  net.eval();
  sum(net(ones({2, 4}, {.dtype = f64}))).backward();
  const auto before = weight.to_vector<double>();
  optimizer.step();
  EXPECT_NE(weight.to_vector<double>(), before);
  EXPECT_THROW(net.to(i64), DTypeError);
  EXPECT_TRUE((net | cpu).fc1.weight.is_same(weight));
}

TEST(Module, LoadsWhatFitsAndListsAllThatDoesNot) {
  Net net, other;
  other.load_state_dict(net.state_dict());
  EXPECT_EQ(other.fc1.weight.to_vector<float>(), net.fc1.weight.to_vector<float>());
  EXPECT_FALSE(other.fc1.weight.value().shares_storage(net.fc1.weight.value()));

  TensorMap state = Net().state_dict();
  state.erase("fc1.bias");
  state["block.inner.weight"] = Tensor::full({2, 2}, 0.0, f32);
  state["scale"] = Tensor::full({3}, 0, i64);
  state["stranger"] = Tensor::full({3}, 0.0, f32);
  const auto before = other.fc1.weight.to_vector<float>();
  const std::string text = message_of<ArgumentError>([&] { other.load_state_dict(state); });
  EXPECT_TRUE(contains(text, "missing: fc1.bias")) << text;
  EXPECT_TRUE(contains(text, "shape: block.inner.weight is [3, 3], given [2, 2]")) << text;
  EXPECT_TRUE(contains(text, "dtype: scale is float32, given int64")) << text;
  EXPECT_TRUE(contains(text, "unknown: stranger")) << text;
  EXPECT_EQ(other.fc1.weight.to_vector<float>(), before);
}

TEST(Module, LoadsFloatsOfAnotherDtype) {
  Net net, other;
  TensorMap state = net.state_dict();
  for (auto& [name, value] : state)
    if (is_float(value.dtype())) value = value.to(f64);
  other.load_state_dict(state);
  EXPECT_EQ(other.fc1.weight.dtype(), f32);
  EXPECT_EQ(other.fc1.weight.to_vector<float>(), net.fc1.weight.to_vector<float>());
}

struct Ring : Model<Ring> {
  Variable weight = ones({2});
  std::shared_ptr<Ring> next;
  void members(Members& m) override { m("weight", weight)("next", next); }
};
TEST(Module, ModuleThatContainsItself) {
  const auto ring = std::make_shared<Ring>();
  ring->next = ring;
  EXPECT_TRUE(
      contains(message_of<ArgumentError>([&] { ring->parameters(); }), "a module contains itself"));
  ring->next = nullptr;
  EXPECT_EQ(ring->parameters().size(), 1u);
}

TEST(Module, MissingOptionsAreNamed) {
  EXPECT_TRUE(contains(message_of<ArgumentError>([] { Linear({.in_features = 3}); }),
                       ".out_features is missing"));
  EXPECT_TRUE(
      contains(message_of<ArgumentError>([] { Conv2d({.in_channels = 1, .kernel_size = 3}); }),
               ".out_channels is missing"));
  EXPECT_TRUE(
      contains(message_of<ArgumentError>([] { Conv2d({.in_channels = 1, .out_channels = 3}); }),
               ".kernel_size is missing"));
  EXPECT_THROW(Linear({.out_features = -3}), ArgumentError);
  EXPECT_THROW(Conv2d({.out_channels = 3, .kernel_size = 3, .groups = 2}), ArgumentError);
  EXPECT_THROW(LayerNorm({}), ArgumentError);
  EXPECT_THROW(Embedding({.embedding_dim = 3}), ArgumentError);
  EXPECT_THROW(Dropout(1.5), ArgumentError);
}

TEST(Module, BadMemberNames) {
  struct Dotted : Model<Dotted> {
    Linear a{{.in_features = 1, .out_features = 1}};
    void members(Members& m) override { m("a.b", a); }
    Variable forward(const Variable& x) const { return a(x); }
  } dotted;
  EXPECT_THROW(dotted.parameters(), ArgumentError);
  struct Twice : Model<Twice> {
    Linear a{{.in_features = 1, .out_features = 1}}, b{{.in_features = 1, .out_features = 1}};
    void members(Members& m) override { m("a", a)("a", b); }
    Variable forward(const Variable& x) const { return b(a(x)); }
  } twice;
  EXPECT_THROW(twice.parameters(), ArgumentError);
}

TEST(Module, SeveralInputs) {
  struct Sum : Model<Sum> {
    Linear a{{.in_features = 2, .out_features = 1}};
    void members(Members& m) override { m("a", a); }
    Variable forward(const Variable& x, const Variable& y) const { return a(x + y); }
  } model;
  EXPECT_EQ(model(ones({3, 2}), ones({3, 2})).shape(), (Shape{3, 1}));
  Module& base = model;
  EXPECT_THROW(base.call(ones({3, 2}), Where::current()), ArgumentError);
}

TEST(Module, ErrorsAndHistoryPointAtTheCallersLine) {
  const Linear layer({.in_features = 2, .out_features = 1});
  const auto line = std::source_location::current().line() + 1;
  const Variable y = layer(ones({3, 2}));
  EXPECT_EQ(y.edge().node->where().line(), line);
}

TEST(Sequential, MoveLeavesNoEmptySequential) {
  Sequential net(Linear(2, 3));
  const Sequential moved = std::move(net);
  const Variable x = ones({1, 2});
  EXPECT_EQ(net(x).to_vector<float>(), moved(x).to_vector<float>());
}

TEST(Sequential, InfersSizesFromAnInputShape) {
  Sequential model({Conv2d({.out_channels = 4, .kernel_size = 3}), BatchNorm2d(), ReLU(),
                    MaxPool2d(2), Flatten(), Linear({.out_features = 10})},
                   {.input_shape = Shape{1, 8, 8}});
  EXPECT_EQ(model[0].out_shape(), (Shape{4, 6, 6}));
  EXPECT_EQ(model[-1].out_shape(), Shape{10});
  EXPECT_EQ(model[-1].as<Linear>().weight.shape(), (Shape{10, 36}));
  EXPECT_EQ(model.parameter_count(), 4 * 9 + 4 + 4 + 4 + 360 + 10);
  EXPECT_EQ(names(model.named_parameters())[2], "1.weight");
  EXPECT_TRUE(model.is_training());
  EXPECT_EQ(model[1].as<BatchNorm2d>().num_batches_tracked.item(), 0);
  EXPECT_EQ(model[1].as<BatchNorm2d>().running_var.to_vector<float>(), std::vector<float>(4, 1.f));
  EXPECT_THROW(model[6], IndexError);
  EXPECT_THROW(model[0].as<Linear>(), ArgumentError);
}

TEST(Sequential, InfersSizesAtTheFirstForward) {
  Sequential model{Linear({.out_features = 3}), ReLU(), Linear({.out_features = 2})};
  const std::string text = message_of<ArgumentError>([&] { optim::SGD(model, 0.1); });
  EXPECT_TRUE(contains(text, "0 (Linear)")) << text;
  EXPECT_THROW(model.parameter_count(), ArgumentError);
  model.to(f64);
  const Variable handle = model[0].as<Linear>().weight;
  EXPECT_EQ(model(ones({4, 7}, {.dtype = f64})).shape(), (Shape{4, 2}));
  EXPECT_EQ(handle.shape(), (Shape{3, 7}));
  EXPECT_TRUE(handle.requires_grad());
  EXPECT_EQ(model.parameter_count(), 21 + 3 + 6 + 2);
  optim::SGD(model, 0.1);
}

// A ReLU after a Linear or a Conv2d is computed by the kernel of that layer.
TEST(Sequential, MakesOneOpOfALayerAndItsRelu) {
  manual_seed(3);
  const Sequential model{Conv2d({.in_channels = 1, .out_channels = 3, .kernel_size = 3}), ReLU(),
                         Flatten(), Linear({.in_features = 3 * 16, .out_features = 7}), ReLU()};
  const Variable x = randn({5, 1, 6, 6});
  Variable y = x;
  for (int i = 0; i < model.size(); ++i) y = model[i].call(y, Where::current());
  const Variable fused = model(x);
  EXPECT_EQ(fused.to_vector<float>(), y.to_vector<float>());
  EXPECT_EQ(std::string(fused.grad_fn()->name()), "linear_relu");
  EXPECT_EQ(std::string(y.grad_fn()->name()), "relu");
  const auto parameters = model.parameters();
  const auto of_fused = grad({sum(square(fused))}, parameters);
  const auto of_layers = grad({sum(square(y))}, parameters);
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_EQ(of_fused[i].to_vector<float>(), of_layers[i].to_vector<float>()) << i;

  // A hook observes the result of a layer, and may keep it.
  Variable kept;
  const HookHandle hook = model[-2].register_forward_hook(
      [&](Module&, std::span<const Variable>, std::span<Variable> results) { kept = results[0]; });
  EXPECT_EQ(std::string(model(x).grad_fn()->name()), "relu");
  EXPECT_LT(min(kept).item(), 0);
}

TEST(Sequential, AsksALinearForItsTanhGelu) {
  manual_seed(3);
  const Sequential model{Linear({.in_features = 6, .out_features = 7}), GELU(Gelu::kTanh),
                         Linear({.in_features = 7, .out_features = 4}), GELU(),
                         Linear({.in_features = 4, .out_features = 5}), GELU(Gelu::kTanh),
                         Linear({.in_features = 5, .out_features = 6}), GELU(Gelu::kTanh),
                         Linear({.in_features = 6, .out_features = 3}), ReLU()};
  const Variable x = randn({5, 6}).requires_grad_();
  std::vector<Variable> leaves = model.parameters();
  leaves.push_back(x);
  const auto layers = [&](size_t count) {
    Variable y = x;
    for (size_t i = 0; i < count; ++i) y = model[int64_t(i)].call(y, Where::current());
    return y;
  };
  const Variable fused = model(x), y = layers(10);
  EXPECT_EQ(fused.to_vector<float>(), y.to_vector<float>());
  const auto of_fused = grad(sum(square(fused)), leaves), of_layers = grad(sum(square(y)), leaves);
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_EQ(of_fused[i].to_vector<float>(), of_layers[i].to_vector<float>()) << i;

  const NoGrad off;
  EXPECT_EQ(model(x).to_vector<float>(), fused.to_vector<float>());
}

// A ReLU before a MaxPool2d runs after it, on fewer values.
TEST(Sequential, RectifiesWhatAMaxPoolLeaves) {
  manual_seed(4);
  const Sequential model{Conv2d({.in_channels = 1, .out_channels = 3, .kernel_size = 3}), ReLU(),
                         MaxPool2d({.kernel_size = 3, .stride = 2, .padding = 1})};
  // has windows of zeros, and windows with equal elements
  Variable x = round(randn({4, 1, 12, 12}) * 2);
  x.requires_grad_();
  const Variable pooled = model(x);
  EXPECT_EQ(std::string(pooled.grad_fn()->name()), "relu");
  Variable y = x;
  for (int i = 0; i < model.size(); ++i) y = model[i].call(y, Where::current());
  EXPECT_EQ(pooled.to_vector<float>(), y.to_vector<float>());
  std::vector<Variable> leaves = model.parameters();
  leaves.push_back(x);
  const auto of_pooled = grad(sum(square(pooled + 1)), leaves);
  const auto of_layers = grad(sum(square(y + 1)), leaves);
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_EQ(of_pooled[i].to_vector<float>(), of_layers[i].to_vector<float>()) << i;

  // A window that is entirely in the padding has the result -inf, with or without ReLU.
  const Sequential gaps{ReLU(), MaxPool2d({.kernel_size = 2, .padding = 1, .dilation = 2})};
  EXPECT_EQ(gaps(ones({1, 1, 1, 1})).item(), -INFINITY);

  const Sequential only{ReLU(), MaxPool2d(2)};
  const Variable zero = only(tensor({-1.f, -0.f, -3.f, -0.f}, {1, 1, 2, 2}));
  EXPECT_EQ(zero.item(), 0);
  EXPECT_FALSE(std::signbit(zero.item()));
  EXPECT_EQ(only(tensor({-1.f, -2.f, -3.f, -4.f}, {1, 1, 2, 2})).item(), 0);
  EXPECT_TRUE(std::isnan(only(tensor({-1.f, 2.f, std::nanf(""), -4.f}, {1, 1, 2, 2})).item()));
}

TEST(Sequential, CloneSharesNothing) {
  Sequential model{Linear({.in_features = 2, .out_features = 20}), ReLU(),
                   Linear({.in_features = 20, .out_features = 5}), ReLU(),
                   Linear({.in_features = 5, .out_features = 1})};
  EXPECT_EQ(model.parameter_count(), 171);
  Sequential copy = model.clone();
  const Variable x = ones({3, 2});
  EXPECT_EQ(copy(x).to_vector<float>(), model(x).to_vector<float>());
  for (size_t i = 0; i < model.parameters().size(); ++i)
    EXPECT_FALSE(model.parameters()[i].value().shares_storage(copy.parameters()[i].value()));
  Sequential handle = model;
  EXPECT_TRUE(handle.parameters()[0].is_same(model.parameters()[0]));
}

TEST(Sequential, PrintsItsLayers) {
  const Sequential model{Linear({.in_features = 2, .out_features = 3}), ReLU(),
                         Sequential{Dropout(0.25)}};
  std::ostringstream text;
  text << model;
  EXPECT_EQ(text.str(),
            "Sequential(\n"
            "  (0): Linear(in_features=2, out_features=3)\n"
            "  (1): ReLU()\n"
            "  (2): Sequential(\n"
            "    (0): Dropout(p=0.25)\n"
            "  )\n"
            ")");
}

TEST(Module, T48_ThreadsRunOneModuleAsOneDoes) {
  Sequential net({Conv2d({.in_channels = 2, .out_channels = 4, .kernel_size = 3}),
                  BatchNorm2d({.num_features = 4}), ReLU(), Flatten(), Dropout(0.5),
                  Linear({.in_features = 64, .out_features = 5})});
  const Variable x = randn({3, 2, 6, 6});
  net(x);  // makes running statistics differ from the initial ones
  net.eval();
  const std::vector<float> expected = net(x).to_vector<float>();
  std::vector<int> wrong(8);
  std::vector<std::thread> crew;
  for (int& count : wrong)
    crew.emplace_back([&] {
      const NoGrad off;
      for (int k = 0; k < 50; ++k) count += net(x).to_vector<float>() != expected;
    });
  for (std::thread& worker : crew) worker.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

}  // namespace
}  // namespace tapegrad::nn
