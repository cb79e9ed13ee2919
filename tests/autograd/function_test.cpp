// User-defined ops: saved tensors, several outputs, outputs without a gradient, in-place ops, and
// outputs that are inputs.
#include <cmath>

#include "core/autograd/function.h"
#include "core/autograd/gradcheck.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "nn/named.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

const Where kHere = Where::current();

// exp(x), written with ops on constants, which are not recorded.
struct Exp {
  static constexpr std::string_view kName = "my_exp";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }

  Tensor forward(const Tensor& x) { return exp(Variable(x)).value(); }
  Variable backward(const Variable& dy) const { return dy * y(); }
};

TEST(Function, ForwardWithOps) {
  const Variable x = leaf({0.1, -0.2});
  const auto mine = [](const auto& in) { return apply(Exp{}, kHere, in[0]); };
  const auto checked = gradcheck(mine, {x}, {.order = 2});
  EXPECT_TRUE(checked) << checked.message;
}

// Returns the largest element, which has a gradient, its index, which has none, and a float output
// without a gradient.
struct Largest {
  static constexpr std::string_view kName = "largest";
  SavedOutput<1> index{};
  Shape shape{};
  auto saved() { return std::tie(index); }

  std::vector<Tensor> forward(const Tensor& x) {
    shape = x.shape();
    const Variable v{x};
    const Variable place = argmax(v, 0);
    const double at = place.item();
    return {select(v, 0, int64_t(at)).value().clone(), place.value(),
            Tensor::full({}, at / double(x.numel()), x.dtype())};
  }
  bool is_differentiable(size_t output) const { return output == 0; }
  std::vector<Variable> backward(std::span<const Variable> dy) const {
    if (!dy[0].defined()) return {Variable()};
    EXPECT_FALSE(dy[1].defined() || dy[2].defined());
    Variable dx(Tensor::full(shape, 0.0, dy[0].dtype()));
    Variable place = select(dx, 0, int64_t(index.value().item()));
    copy_(place, dy[0]);
    return {dx};
  }
};

TEST(Function, OutputsWithoutGradient) {
  const Variable x = leaf({1, 5, 3});
  const auto out = apply(Largest{}, kHere, x);
  EXPECT_TRUE(out[0].requires_grad());
  EXPECT_FALSE(out[1].requires_grad()) << "an integer";
  EXPECT_FALSE(out[2].requires_grad()) << "a float that was marked";
  EXPECT_NEAR(out[2].item(), 1.0 / 3, 1e-15);
  sum(out[0] * out[2] * 3.0).backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 1, 0}));
  EXPECT_THROW(out[2].backward(), AutogradError);
}

// x = x * scale in place. Also returns the largest magnitude of x before the call.
struct Scale {
  static constexpr std::string_view kName = "scale_";
  double scale;

  std::vector<Tensor> write(const Tensor& x, Tensor& y) const {
    const Variable before{x};
    const Tensor largest = max(abs(before)).value();
    copy_values(before * scale, y);
    return {largest};
  }
  static void copy_values(const Variable& from, Tensor& to) {
    Variable target{to};
    copy_(target, from);
  }
  bool is_differentiable(size_t output) const { return output == 0; }
  Variable backward(std::span<const Variable> dy) const {
    return dy[0].defined() ? dy[0] * scale : Variable();
  }
};

TEST(Function, MarkDirty) {
  const Variable x = leaf({1, -4, 2});
  Variable y = x * 1.0, seen = slice(y, 0, 0, 2);
  const uint32_t before = y.value().storage().version();
  const auto more = apply_in_place(Scale{0.5}, kHere, y);
  EXPECT_GT(y.value().storage().version(), before);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].item(), 4);
  EXPECT_FALSE(more[0].requires_grad());
  EXPECT_EQ(values(y), (Values{0.5, -2, 1}));
  sum(y * y).backward({.retain_graph = true});
  EXPECT_EQ(values(x.grad()), (Values{0.5, -2, 1}));
  x.zero_grad();
  sum(seen).backward();
  EXPECT_EQ(values(x.grad()), (Values{0.5, 0.5, 0})) << "a view taken before follows";

  Variable handle = x;
  expect_error<AutogradError>([&] { apply_in_place(Scale{2}, kHere, handle); },
                              {"scale_", "leaf", "function_test.cpp"});
  EXPECT_EQ(values(x), (Values{1, -4, 2}));
  Variable plain = make({1, 2});
  apply_in_place(Scale{2}, kHere, plain);
  EXPECT_EQ(values(plain), (Values{2, 4}));
}

TEST(Function, T12_ADirtyValueThatWasSavedIsAnError) {
  const Variable x = leaf({1, 2});
  Variable y = exp(x);
  apply_in_place(Scale{2}, kHere, y);
  expect_error<AutogradError>([&] { sum(y).backward(); }, {"exp", "changed in place"});
}

// Returns its input.
struct Identity {
  static constexpr std::string_view kName = "identity";
  Tensor forward(const Tensor& x) const { return x; }
  Variable backward(const Variable& dy) const { return dy * 10.0; }
};

TEST(Function, AnInputHandedOnIsAView) {
  const Variable x = leaf({1, 2}), y = x * 1.0;
  Variable same = apply(Identity{}, kHere, y);
  same *= 3.0;
  EXPECT_EQ(values(y), (Values{3, 6}));
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Values{30, 30})) << "what was written came by way of the op";
  x.zero_grad();
  sum(apply(Identity{}, kHere, x)).backward();
  EXPECT_EQ(values(x.grad()), (Values{10, 10}));
}

// x / |x|. The norm is a second output, so that the gradient is differentiable.
struct Direction {
  static constexpr std::string_view kName = "direction";
  SavedInput<0> x{};
  SavedOutput<1> norm{};
  auto saved() { return std::tie(x, norm); }

  std::vector<Tensor> forward(const Tensor& x) {
    const Variable v{x}, n = sqrt(sum(v * v));
    return {(v / n).value(), n.value()};
  }
  std::vector<Variable> backward(std::span<const Variable> dy) const {
    const Variable n = norm(), unit = x() / n;
    Variable dx;
    if (dy[0].defined()) dx = (dy[0] - unit * sum(dy[0] * unit)) / n;
    if (dy[1].defined()) dx = dx.defined() ? dx + dy[1] * unit : dy[1] * unit;
    return {dx};
  }
};

TEST(Function, AnIntermediateAsAnOutputIsRightToOrderTwo) {
  const auto f = [](const auto& in) { return apply(Direction{}, kHere, in[0]); };
  const auto checked = gradcheck(f, {leaf({0.3, -1.2, 0.8})}, {.order = 2});
  EXPECT_TRUE(checked) << checked.message;
}

struct Doubles : autograd::Function<Doubles> {
  static Variable forward(autograd::Context&, const Variable& x) {
    Variable(x).mul_(2.0);
    return x.clone();
  }
  static std::vector<Variable> backward(autograd::Context&, std::vector<Variable> grads) {
    return {grads[0] * 2.0};
  }
};

TEST(Function, T16_ForwardDoesNotWriteToResultsOfOps) {
  const Variable x = leaf({1, 2});
  EXPECT_THROW(Doubles::apply(x * 1.0), AutogradError);
  EXPECT_EQ(values(Doubles::apply(make({1, 2}))), (Values{2, 4}));
  const NoGrad off;
  EXPECT_EQ(values(Doubles::apply(x * 1.0)), (Values{2, 4}));
}

struct ScaledProduct : autograd::Function<ScaledProduct> {
  static Variable forward(autograd::Context& ctx, Variable a, Variable b, double scale) {
    ctx.save_for_backward({a, b});
    ctx.saved_data["scale"] = scale;
    return scale * a * b;
  }
  static std::vector<Variable> backward(autograd::Context& ctx, std::vector<Variable> grads) {
    const auto saved = ctx.get_saved_variables();
    const double scale = ctx.saved_data["scale"].toDouble();
    return {grads[0] * scale * saved[1], grads[0] * scale * saved[0], {}};
  }
};

TEST(Function, ParametersOfAModelAreVariables) {
  const nn::Parameter weight{make({3, 4})};
  const Variable x = leaf({1, 2});
  ScaledProduct::apply(x, weight, 2.0).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{6, 8}));
  EXPECT_EQ(values(weight.grad()), (Values{2, 4}));
}

}  // namespace
}  // namespace tapegrad::testing
