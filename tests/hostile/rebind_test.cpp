// T71: views of the old value, and the state of an optimizer, stay valid after rebind(). T12 and
// T15 hold for views that were made without recording.
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "nn/linear.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

TEST(HostileRebind, T71_AViewKeepsTheOldValue) {
  const Variable x = make({1, 2, 3, 4});
  Variable view = narrow(x, 0, 1, 2);
  x.rebind(Tensor::full({1}, 9.0, f64));
  EXPECT_EQ(values(view), (Values{2, 3}));
  const Variable w = leaf({5, 6});
  view += w * w;  // of the old value only
  EXPECT_EQ(values(view), (Values{27, 39}));
  EXPECT_EQ(values(x), (Values{9}));
  EXPECT_FALSE(x.requires_grad());
  sum(view).backward();
  EXPECT_EQ(values(w.grad()), (Values{10, 12}));
  Variable inner = narrow(view, 0, 0, 1);  // a view of a view whose base is gone
  inner *= 2;
  EXPECT_EQ(values(view), (Values{54, 39}));
}

TEST(HostileRebind, T71_AViewOfALeafKeepsItsHistory) {
  const Variable x = leaf({1, 2, 3, 4});
  const Variable view = narrow(x, 0, 1, 2), y = view * view;
  x.rebind(Tensor::full({2}, 1.0, f64));
  sum(y).backward();  // to the leaf that there was
  EXPECT_FALSE(x.grad().defined());
  sum(x * x).backward();
  EXPECT_EQ(values(x.grad()), (Values{2, 2}));
}

TEST(HostileRebind, T71_ModuleToAndLoadStateDict) {
  const nn::Linear model({.in_features = 3, .out_features = 2});
  nn::Linear other({.in_features = 3, .out_features = 2});
  TensorMap state;
  for (auto& [name, tensor] : other.state_dict()) state[name] = tensor.clone();
  NoGrad no_grad;
  Variable before = narrow(other.weight, 0, 0, 1);
  const Values old = values(before);
  other.to(f64);
  EXPECT_EQ(values(before), old);
  fill_(before, 7.0);
  EXPECT_NE(values(narrow(other.weight, 0, 0, 1)), values(before));
  other.load_state_dict([&] {
    TensorMap wide;
    for (auto& [name, tensor] : state) wide[name] = tensor.to(f64);
    return wide;
  }());
  EXPECT_EQ(values(narrow(other.weight, 0, 0, 1)), old);
}

TEST(HostileRebind, T71_OptimizersStartAnewWithAnotherShape) {
  const auto train = [](auto&& make_optimizer) {
    const Variable x = leaf({1, 2, 3});
    auto optimizer = make_optimizer(x);
    const auto step = [&] {
      optimizer.zero_grad();
      sum(x * x).backward();
      optimizer.step();
    };
    for (int i = 0; i < 3; ++i) step();
    x.rebind(Tensor::full({1000}, 2.0, f64));
    for (int i = 0; i < 2; ++i) step();
    const Variable fresh(Tensor::full({1000}, 2.0, f64));
    fresh.rebind(Tensor::full({1000}, 2.0, f64));
    Variable y = Variable(Tensor::full({1000}, 2.0, f64)).requires_grad_();
    auto another = make_optimizer(y);
    for (int i = 0; i < 2; ++i) {
      another.zero_grad();
      sum(y * y).backward();
      another.step();
    }
    EXPECT_EQ(values(x), values(y));
  };
  train([](const Variable& x) { return optim::SGD({x}, {.lr = 0.1, .momentum = 0.9}); });
  train([](const Variable& x) { return optim::Adam({x}, {.lr = 0.1, .amsgrad = true}); });
  train([](const Variable& x) {
    return optim::RMSprop({x}, {.lr = 0.1, .momentum = 0.9, .centered = true});
  });
  train([](const Variable& x) { return optim::Adagrad({x}, {.lr = 0.1}); });
  train([](const Variable& x) { return optim::Adadelta({x}, {.lr = 0.1}); });
}

TEST(HostileRebind, T71_AViewMadeWithoutRecordingIsNotWrittenWhileRecording) {
  const Variable w = leaf({1, 2, 3}), x = w * 2;
  Variable view;
  {
    const NoGrad no_grad;
    view = narrow(x, 0, 0, 2);
  }
  const Values before = values(x);
  expect_error<AutogradError>([&] { view *= make({3, 4}); }, {"mul", "without recording"});
  expect_error<AutogradError>([&] { fill_(view, 0.0); }, {"fill_"});
  EXPECT_EQ(values(x), before);
  Variable inner = narrow(view, 0, 0, 1);
  expect_error<AutogradError>([&] { inner *= 2; }, {"without recording"});
  {
    const NoGrad no_grad;
    view *= 3;  // without recording, only the values change
  }
  EXPECT_EQ(values(x), (Values{6, 12, 6}));
  Variable proper = narrow(x, 0, 0, 2);
  proper *= make({3, 4});
  sum(x).backward();
  EXPECT_EQ(values(w.grad()), (Values{6, 8, 2}));
}

TEST(HostileRebind, T71_AViewOfAConstantMadeWithoutRecording) {
  const Variable x = make({1, 2, 3}), w = leaf({5, 6});
  Variable view;
  {
    const NoGrad no_grad;
    view = narrow(x, 0, 0, 2);
  }
  view += w * w;
  sum(x).backward();
  EXPECT_EQ(values(w.grad()), (Values{10, 12}));
}

/// Overwrites half of its target, then throws.
template <typename Exception>
struct HalfWrite {
  static constexpr std::string_view kName = "half_write";
  void write(const Tensor&, Tensor& y) const {
    y.data<double>()[0] = 100;
    throw Exception("in the middle");
  }
  Variable backward(const Variable& dy) const { return dy; }
};

template <typename Exception>
void throw_in_the_middle() {
  const Variable w = leaf({1, 2, 3, 4, 5, 6});
  const Variable x = w * 1;
  const Variable y = x * x;  // keeps x
  for (Variable target : {x, view(x, {2, 3}), slice(x, 0, 0, kEnd, 2)}) {
    EXPECT_THROW(apply_in_place(HalfWrite<Exception>{}, Where::current(), target), Exception);
    EXPECT_EQ(values(x), values(w));
  }
  sum(y).backward();
  EXPECT_EQ(values(w.grad()), values(w * 2));
}

TEST(HostileRebind, T13_AWriteThatThrowsIsUndone) {
  throw_in_the_middle<std::runtime_error>();
  throw_in_the_middle<ArgumentError>();
  throw_in_the_middle<AutogradError>();
}

/// As HalfWrite, of an op that says that it checks first.
struct Careless : HalfWrite<std::runtime_error> {
  static constexpr bool kChecksFirst = true;
};

TEST(HostileRebind, T13_AWriteThatThrowsCounts) {
  const Variable w = leaf({1, 2, 3});
  Variable x = w * 1;
  const Variable y = x * x;
  EXPECT_THROW(apply_in_place(Careless{}, Where::current(), x), std::runtime_error);
  expect_error<AutogradError>([&] { sum(y).backward(); }, {"mul", "changed in place"});
  EXPECT_FALSE(w.grad().defined());
}

TEST(HostileRebind, T12_ARefusedWriteChangesNothing) {
  // A base that is not contiguous cannot take the history of a write through its views.
  const Variable w = leaf({5, 6});
  const Variable x = transpose(make({1, 2, 3, 4, 5, 6}, {2, 3}), 0, 1).detach();
  Variable row = select(x, 0, 1);
  const Values before = values(x);
  expect_error<AutogradError>([&] { row += w; }, {"add", "contiguous"});
  expect_error<AutogradError>([&] { row *= w; }, {"mul", "contiguous"});
  EXPECT_EQ(values(x), before);
  row += make({1, 1});  // needs no history
  EXPECT_EQ(values(row), (Values{3, 6}));
}

TEST(HostileRebind, T16_AViewThatIsALeafIsNotWritten) {
  const Variable x = make({1, 2, 3});
  Variable part = narrow(x, 0, 0, 2);
  part.requires_grad_();
  expect_error<AutogradError>([&] { part *= 2; }, {"mul", "leaf"});
  expect_error<AutogradError>([&] { fill_(part, 0.0); }, {"leaf"});
  EXPECT_EQ(values(x), (Values{1, 2, 3}));
  sum(part * part).backward();
  EXPECT_EQ(values(part.grad()), (Values{2, 4}));
}

}  // namespace
}  // namespace tapegrad::testing
