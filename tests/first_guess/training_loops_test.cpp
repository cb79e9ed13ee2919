// First guesses about whole programs, typed from memory before reading a header. Loops with
// rates of their own, expressions in place, averages of weights, rules of gradients.
#include <vector>

#include "tests/first_guess/guess.h"

using namespace tapegrad;
using guesses::text;

namespace {

// As in Python, where group["lr"] is a number.
TEST(TrainingLoops, CopyOfARateIsANumber) {
  nn::Linear layer(2, 2);
  optim::SGD sgd(layer, {.lr = 0.5, .weight_decay = 0.25});
  auto& group = sgd.param_groups()[0];
  const auto base = group.lr;
  for (int step = 1; step <= 2; ++step) group.lr = base * (step / 2.0);  // a warm-up
  GUESS("0.5", double(group.lr));
  auto old = group["weight_decay"];
  group.weight_decay = 0.125;
  GUESS("0.25", double(old));
  old *= 2;
  GUESS("0.5 0.125", text(double(old)) + ' ' + text(double(group.weight_decay)));
  for (auto handle : sgd.param_groups()) handle.lr *= 0.5;  // a copy of a group is the group
  GUESS("0.25", sgd.lr());
}

// y *= w, where y is the result of an op and w requires a gradient.
TEST(TrainingLoops, ProductsInPlace) {
  Variable w = torch::tensor({1.0, 2.0}).requires_grad_();
  Variable p = w + 1;
  p *= w;
  p -= w.exp();
  p /= w * w + 2;
  p.sum().backward();
  Variable v = w.detach().requires_grad_();
  Variable q = ((v + 1) * v - v.exp()) / (v * v + 2);
  q.sum().backward();
  EXPECT_TRUE(torch::allclose(p, q));
  EXPECT_TRUE(torch::allclose(w.grad(), v.grad()));
}

struct Scale : autograd::Function<Scale> {
  static Variable forward(autograd::Context& ctx, const Variable& x, const Variable& scale) {
    ctx.save_for_backward({x, scale});
    return x * scale;
  }
  static std::vector<Variable> backward(autograd::Context& ctx, std::vector<Variable> grads) {
    auto saved = ctx.saved_tensors();
    return {grads[0] * saved[1], grads[0] * saved[0]};  // the second one has the shape of x
  }
};
struct ToDouble : autograd::Function<ToDouble> {
  static Variable forward(autograd::Context&, const Variable& x) { return x * 1; }
  static std::vector<Variable> backward(autograd::Context&, std::vector<Variable> grads) {
    return {grads[0].to(f64)};
  }
};

// As in PyTorch, the gradient of an argument that was broadcast is summed, and converted.
TEST(TrainingLoops, GradientsOfFunctionsFit) {
  const Variable x = torch::arange(6).to(f32).view({2, 3});
  Variable row = torch::ones({3}).requires_grad_(), number = torch::tensor(2.0).requires_grad_();
  Variable column = torch::ones({2, 1}).requires_grad_();
  Scale::apply(x, row).sum().backward();
  Scale::apply(x, number).sum().backward();
  Scale::apply(x, column).sum().backward();
  GUESS("[3, 5, 7]", row.grad());
  GUESS("15", number.grad());
  GUESS("[[3], [12]]", column.grad());
  const Variable again =
      torch::autograd::grad({Scale::apply(row, row).sum()}, {row}, {}, true, true)[0];
  GUESS("[2, 2, 2]", again);
  row.zero_grad();
  ToDouble::apply(row).sum().backward();
  EXPECT_EQ(row.grad().dtype(), f32);
  // A gradient that no broadcast explains is an error.
  struct Wrong : autograd::Function<Wrong> {
    static Variable forward(autograd::Context&, const Variable& x) { return x.sum(); }
    static std::vector<Variable> backward(autograd::Context&, std::vector<Variable>) {
      return {torch::ones({4})};
    }
  };
  EXPECT_THROW(Wrong::apply(row).backward(), AutogradError);
}

// remove[..., 0] = 0 of a filter of logits; finished |= token == end.
TEST(TrainingLoops, MasksAreWritten) {
  Variable mask = torch::ones({2, 3}, torch::kBool);
  mask.index_put_({"...", 0}, 0);
  mask.index_put_({torch::tensor({1}), torch::tensor({2})}, 0);
  GUESS("[[false, true, true], [false, true, false]]", mask);
  mask.index_put_({0}, 1);
  GUESS("[[true, true, true], [false, true, false]]", mask);
  EXPECT_THROW(mask.index_put_({0}, 0.5), DTypeError);
  Variable finished = torch::tensor({false, true, false});
  const Variable same = finished;
  finished |= torch::tensor({3, 0, 0}) == 3;
  GUESS("[true, true, false]", same);  // in place
  finished &= torch::tensor({true, false, true});
  finished ^= true;
  GUESS("[false, true, true]", same);
  mask[0] &= torch::tensor({true, false, true});
  mask.index({Slice(), 1}) |= torch::tensor({false, false});
  mask[torch::tensor({1})] |= torch::tensor({true, false, false});
  GUESS("[[true, false, true], [true, true, false]]", mask);
  Variable bits = torch::tensor({6, 5});
  bits &= 3;
  bits |= 8;
  GUESS("[10, 9]", bits);
  EXPECT_THROW(finished |= bits.slice(0, 0, 1), DTypeError);
  EXPECT_THROW(bits |= torch::ones({2, 2}, i64), ShapeError);
}

// p.grad = g: gradients that a program computes itself.
TEST(TrainingLoops, GradientsAreSet) {
  const Variable x = torch::tensor({1.0, 2.0}).requires_grad_();
  const Variable g = torch::tensor({3.0, 4.0});
  sum(x * g).backward();
  GUESS("[3, 4]", x.grad());
  x.grad() = g * 2;
  GUESS("[6, 8]", x.grad());
  optim::SGD sgd({x}, 0.5);
  x.grad().copy_(torch::tensor({2.0, 2.0}));
  sgd.step();
  GUESS("[0, 1]", x);
}

// The kept gradient is the one that the hooks leave, whichever was registered first.
TEST(TrainingLoops, HooksBeforeAndAfterRetainGrad) {
  const Variable x = torch::tensor({1.0, 2.0}).requires_grad_();
  Variable y = x * 2;
  y.register_hook([](const Variable& g) { return g * 3; });
  y.retain_grad();
  y.register_hook([](const Variable& g) { return g * 10; });
  y.sum().backward();
  GUESS("[30, 30]", y.grad());
  GUESS("[60, 60]", x.grad());
}

TEST(TrainingLoops, PartsOfADictionaryAndFunctionsAsLayers) {
  nn::ModuleDict heads{{"a", nn::Linear(2, 1)}, {"b", nn::Linear(2, 1)}};
  for (auto& p : heads["a"].parameters()) p.requires_grad_(false);
  heads["b"].requires_grad_(false);
  for (auto& [name, head] : heads.items())
    for (auto& [part, p] : head.named_parameters()) EXPECT_FALSE(p.requires_grad()) << part;
  const nn::Sequential net(nn::Linear(2, 2), torch::tanh, torch::relu);
  EXPECT_GE(net(torch::randn({3, 2})).min().item(), 0);
}

TEST(TrainingLoops, OptionsByName) {
  nn::Linear layer(2, 2);
  optim::SGD sgd(layer, 1.0);
  optim::PolynomialLR schedule(sgd, {.total_iters = 4, .power = 2.0});
  sgd.step();
  schedule.step();
  GUESS("0.5625", sgd.lr());
  TensorDataset data(torch::randn({8, 2}), torch::randint(0, 2, {8}));
  DataLoader batches(data, 4), test(data, {.batch_size = 8});
  const History history =
      fit(layer, batches, sgd, {.epochs = 2, .verbose = 0, .validation_data = test});
  EXPECT_GT(history.epochs.back().val_loss, 0);
}

}  // namespace
