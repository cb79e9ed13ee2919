// Idioms of PyTorch programs, each as its user typed it at first: None and "..." among subscripts,
// numbers of dtypes, threads, states of random numbers, the namespace autograd.
#include "tests/first_guess/guess.h"

using namespace tapegrad;

namespace {

TEST(FirstGuessIdioms, Subscripts) {
  const Variable x = arange(24).view(2, 3, 4);
  GUESS("[2, 1, 3, 4]", x.index({Slice(), None}).sizes());
  GUESS("[[11],[23]]", x.index({Slice(), -1, Slice(3, None)}));
  GUESS("[[8, 11],[20, 23]]", x.index({Slice(), 2, Slice(None, None, 3)}));
  GUESS("[2, 3]", x.index({"...", 0}).sizes());
  GUESS("[2, 3]", x.index({Ellipsis, 0}).sizes());
  GUESS("[2, 3, 4]", x.index({torch::indexing::Slice(None), torch::indexing::Ellipsis}).sizes());
  Variable y = zeros({2, 2});
  y.index_put_({Slice(1, None), 0}, 5.0);
  GUESS("[[0, 0],[5, 0]]", y);
  EXPECT_THROW(x.index({"..", 0}), ArgumentError);
  EXPECT_THROW(x.index({static_cast<const char*>(nullptr)}), ArgumentError);
}

TEST(FirstGuessIdioms, NumbersOfDtypes) {
  GUESS("65504", finfo(f16).max);
  GUESS("true", finfo(torch::kFloat32).eps == 0x1p-23);
  GUESS("true", finfo(bf16).max == scalar(3.3895313892515355e38, {.dtype = bf16}).item());
  GUESS("-128", iinfo(i8).min);
  GUESS("9223372036854775807", iinfo(i64).max);
  EXPECT_THROW(finfo(i32), DTypeError);
  EXPECT_THROW(iinfo(f32), DTypeError);
  GUESS("float32", promote_types(i32, f32));
  GUESS("float32", result_type(tensor({1}), 0.5));
  GUESS("int64", result_type(2, tensor({1})));
  GUESS("float64", result_type(tensor({1}), ones({1}, f64)));
  GUESS("float32", get_default_dtype());
  GUESS("2.5", scalar_tensor(2.5));
}

TEST(FirstGuessIdioms, ThreadsAndRandomNumbers) {
  const int64_t threads = get_num_threads();
  torch::set_num_threads(1);
  GUESS("1", torch::get_num_threads());
  set_num_threads(threads);
  EXPECT_THROW(set_num_threads(0), ArgumentError);
  EXPECT_THROW(set_num_threads(1 << 20), ArgumentError);
  torch::manual_seed(5);
  GUESS("5", torch::initial_seed());
  const auto state = torch::get_rng_state();
  const Variable first = randn({3});
  torch::set_rng_state(state);
  EXPECT_TRUE(first.equal(randn({3})));
}

TEST(FirstGuessIdioms, Gradients) {
  const Variable x = tensor({1.0, 2.0}, {.requires_grad = true});
  GUESS("[2, 4]", autograd::grad({sum(x * x)}, {x})[0]);
  GUESS("[[2, 0],[0, 2]]", autograd::functional::hessian(
                               [](const Variable& v) { return v.pow(2).sum(); }, x.detach()));
  GUESS("true", is_grad_enabled());
  {
    torch::AutoGradMode off(false);
    GUESS("false", torch::GradMode::is_enabled());
  }
  GUESS("true", (mse_loss(x, 3 * x, torch::kSum) > mse_loss(x, 3 * x)).item() != 0);
  nn::Linear fc(3, 2);
  optim::LBFGS lbfgs(fc.parameters(), 0.5, 10);
  GUESS("0.5", lbfgs.lr());
}

}  // namespace
