// gradcheck itself: correct ops pass, and each kind of wrong op is found.
#include "core/autograd/gradcheck.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"

namespace tapegrad {
namespace {

Tensor elementwise(const Tensor& a, const Tensor& b, double (*f)(double, double)) {
  const Tensor x = a.contiguous(), z = b.contiguous();
  Tensor y = Tensor::empty(a.shape(), f64);
  for (int64_t i = 0; i < y.numel(); ++i)
    y.data<double>()[i] = f(x.data<double>()[i], z.data<double>()[i]);
  return y;
}

Variable times(const Variable& a, const Variable& b);

// a * b. A factor makes its gradient with respect to a wrong.
struct Times {
  static constexpr std::string_view kName = "times";
  double wrong = 1;
  SavedInput<0, 1> a{};
  SavedInput<1, 0> b{};
  auto saved() { return std::tie(a, b); }

  Tensor forward(const Tensor& a, const Tensor& b) {
    return elementwise(a, b, [](double a, double b) { return a * b; });
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = times(dy, b());
    if (needs[0] && wrong != 1)
      dx[0] = times(dx[0], Variable(Tensor::full(dy.shape(), wrong, f64)));
    if (needs[1]) dx[1] = times(dy, a());
    return dx;
  }
};
Variable times(const Variable& a, const Variable& b) {
  return apply(Times{}, Where::current(), a, b);
}

// a^3 with a right gradient and a wrong second derivative: the gradient treats a as a constant.
struct Cube {
  static constexpr std::string_view kName = "cube";
  SavedInput<0> a{};
  auto saved() { return std::tie(a); }

  Tensor forward(const Tensor& a) {
    return elementwise(a, a, [](double a, double) { return a * a * a; });
  }
  Variable backward(const Variable& dy) const {
    const Variable x = a().detach();
    return times(dy, times(Variable(Tensor::full(x.shape(), 3.0, f64)), times(x, x)));
  }
};

// Returns a gradient only when not recording.
struct Once {
  static constexpr std::string_view kName = "once";
  Tensor forward(const Tensor& a) { return a.clone(); }
  Variable backward(const Variable& dy) const {
    require_first_order();
    return dy;
  }
};

// a^2, declared without a derivative.
struct Cut {
  static constexpr std::string_view kName = "cut";
  static constexpr bool kDifferentiable = false;
  Tensor forward(const Tensor& a) {
    return elementwise(a, a, [](double a, double) { return a * a; });
  }
};

Variable leaf(const std::vector<double>& values, const Shape& shape) {
  return Variable(Tensor::from<double>(values, shape)).requires_grad_();
}

using List = std::vector<Variable>;

TEST(Gradcheck, RightRulesPassInBothOrders) {
  const Variable a = leaf({0.5, -1, 2}, {3}), b = leaf({1.5, 0.25, -3}, {3});
  const auto f = [](const List& in) { return times(times(in[0], in[1]), in[0]); };
  EXPECT_TRUE(gradcheck(f, {a, b}));
  const GradcheckResult second = gradcheck(f, {a, b}, {.order = 2});
  EXPECT_TRUE(second) << second.message;
  EXPECT_EQ(a.to_vector<double>(), (std::vector<double>{0.5, -1, 2})) << "inputs as they were";
  EXPECT_FALSE(a.grad().defined()) << "leaves are left alone";
}

TEST(Gradcheck, SeveralOutputsAndIntegerOnes) {
  const Variable a = leaf({0.5, -1}, {2}), b = leaf({1.5, 0.25}, {2});
  const auto f = [](const List& in) -> List {
    return {times(in[0], in[1]), cast(in[0], i64), times(in[1], in[1]), clone(in[0])};
  };
  const GradcheckResult result = gradcheck(f, {a, b}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(Gradcheck, LinearFunctionsHaveZeroSecondDerivatives) {
  const GradcheckResult result =
      gradcheck([](const List& in) { return clone(in[0]); }, {leaf({1, 2}, {2})}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
  EXPECT_TRUE(gradcheck([](const List& in) { return in[0]; }, {leaf({1, 2}, {2})}, {.order = 2}));
}

TEST(Gradcheck, UnusedInputHasZeroGradient) {
  const GradcheckResult result = gradcheck([](const List& in) { return times(in[0], in[0]); },
                                           {leaf({1, 2}, {2}), leaf({3}, {1})}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(Gradcheck, WrongGradientNamesInputElementAndValues) {
  const auto f = [](const List& in) { return apply(Times{1.5}, Where::current(), in[0], in[1]); };
  const GradcheckResult result = gradcheck(f, {leaf({1, 2}, {1, 2}), leaf({4, 5}, {1, 2})});
  EXPECT_FALSE(result);
  for (const char* part : {"output 0, element [0, 0]", "input 0, element [0, 0]", " 6,", " 4"})
    EXPECT_NE(result.message.find(part), std::string::npos) << result.message;
}

TEST(Gradcheck, GradientThatIsCutIsFound) {
  const auto cut = [](const List& in) { return apply(Cut{}, Where::current(), in[0]); };
  EXPECT_FALSE(gradcheck(cut, {leaf({1, 2}, {2})}));
}

TEST(Gradcheck, WrongSecondGradientIsFound) {
  const auto f = [](const List& in) { return apply(Cube{}, Where::current(), in[0]); };
  EXPECT_TRUE(gradcheck(f, {leaf({1, 2}, {2})}));
  const GradcheckResult result = gradcheck(f, {leaf({1, 2}, {2})}, {.order = 2});
  EXPECT_FALSE(result);
  EXPECT_NE(result.message.find("gradient in input 0"), std::string::npos) << result.message;
}

TEST(Gradcheck, RuleThatCannotBeRecordedThrows) {
  const auto f = [](const List& in) { return apply(Once{}, Where::current(), in[0]); };
  EXPECT_TRUE(gradcheck(f, {leaf({1}, {1})}));
  EXPECT_THROW(gradcheck(f, {leaf({1}, {1})}, {.order = 2}), AutogradError);
}

TEST(Gradcheck, RandomFunctionsAreFound) {
  int calls = 0;
  const auto f = [&](const List& in) {
    return times(in[0], Variable(Tensor::full(in[0].shape(), double(++calls), f64)));
  };
  EXPECT_NE(gradcheck(f, {leaf({1}, {1})}).message.find("called again"), std::string::npos);
}

TEST(Gradcheck, StridedInputsAreVariedWhereTheyAre) {
  const Tensor storage = Tensor::from<double>(std::vector<double>{1, 2, 3, 4, 5, 6}, {6});
  const Variable a = Variable(storage.with_layout({{3}, {-2}, 5})).requires_grad_();  // 6, 4, 2
  const Variable b = Variable(storage.with_layout({{3}, {2}, 0})).requires_grad_();   // 1, 3, 5
  const GradcheckResult result =
      gradcheck([](const List& in) { return times(in[0], in[1]); }, {a, b}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
  EXPECT_EQ(Variable(storage).to_vector<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(Gradcheck, AnExceptionLeavesTheInputsAsTheyWere) {
  const Variable a = leaf({1, 2}, {2});
  int calls = 0;
  const auto f = [&](const List& in) {
    if (++calls == 4) fail<ArgumentError>("the fourth call");
    return times(in[0], in[0]);
  };
  EXPECT_THROW(gradcheck(f, {a}), ArgumentError);
  EXPECT_EQ(a.to_vector<double>(), (std::vector<double>{1, 2}));
}

TEST(Gradcheck, WorksWhileRecordingIsOff) {
  const NoGrad off;
  EXPECT_TRUE(gradcheck([](const List& in) { return times(in[0], in[0]); }, {leaf({3}, {1})},
                        {.order = 2}));
  EXPECT_FALSE(is_recording());
}

TEST(Gradcheck, RefusesWhatItCannotCheck) {
  const auto f = [](const List& in) { return clone(in[0]); };
  const auto single = Variable(Tensor::full({2}, 1.0, f32)).requires_grad_();
  EXPECT_THROW(gradcheck(f, {single}), DTypeError);
  EXPECT_THROW(gradcheck(f, {Variable(Tensor::full({2}, 1.0, f64))}), ArgumentError);
  EXPECT_THROW(gradcheck(f, {leaf({1}, {1})}, {.order = 4}), ArgumentError);
  const Variable wide =
      Variable(Tensor::full({1}, 1.0, f64).with_layout({{3}, {0}, 0})).requires_grad_();
  EXPECT_THROW(gradcheck(f, {wide}), ArgumentError);
  const auto to_single = [](const List& in) { return cast(in[0], f32); };
  EXPECT_THROW(gradcheck(to_single, {leaf({1}, {1})}), DTypeError);
}

}  // namespace
}  // namespace tapegrad
