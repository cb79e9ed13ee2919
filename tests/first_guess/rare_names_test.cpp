// Names and options of PyTorch that are used rarely. The numbers are those of PyTorch 2.15.
#include "tests/first_guess/guess.h"

namespace tapegrad {
namespace {

using guesses::expect_close;

const Variable x = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}, {.dtype = f64});
const Variable source = tensor({{2.0, -1.0}, {0.5, 3.0}, {4.0, 1.0}}, {.dtype = f64});
const Variable rows = tensor({0, 2, 0});

TEST(RareNames, IndexReduce) {
  GUESS("[[8, -2], [3, 4], [2.5, 18]]", index_reduce(x, 0, rows, source, "prod"));
  GUESS("[[8, -1], [3, 4], [0.5, 3]]",
        x.index_reduce(0, rows, source, "prod", {.include_self = false}));
  GUESS("[[3, 0], [3, 4], [0.5, 3]]", x.index_reduce(0, rows, source, "mean", false));
  GUESS("[[4, 2], [3, 4], [5, 6]]", index_reduce(x, -2, rows, source, "amax"));
  GUESS("[[2, -1], [3, 4], [0.5, 3]]",
        index_reduce(x, 0, rows, source, "amin", {.include_self = false}));
  Variable y = x.clone();
  y.index_reduce_(0, rows, source, "amin")
      .index_reduce_(0, rows, source, "prod", {.include_self = true});
  GUESS("[[8, 1], [3, 4], [0.25, 9]]", y);
  Variable a = x.clone().requires_grad_(), b = source.clone().requires_grad_();
  const Variable factors = arange(6).to(f64).reshape({3, 2});
  sum(index_reduce(a, 0, rows, b, "prod") * factors).backward();
  GUESS("[[0, -1], [2, 3], [2, 15]]", a.grad());
  GUESS("[[0, 2], [20, 30], [0, -2]]", b.grad());
  EXPECT_THROW(index_reduce(x, 0, rows, source, "sum"), ArgumentError);
  EXPECT_THROW(index_reduce(x, 0, tensor({0, 1}), source, "prod"), ShapeError);
  EXPECT_THROW(index_reduce(x, 0, rows, ones({3, 3}, f64), "prod"), ShapeError);
  EXPECT_THROW(index_reduce(x, 0, tensor({0, 3, 1}), source, "prod"), IndexError);
}

TEST(RareNames, MembersAndOptions) {
  GUESS("[[1, 2], [3, 4], [5, 6]]", x.nextafter(x + 1).to(f32));
  EXPECT_EQ(x.nextafter(x + 1)[0][0].item(), std::nextafter(1.0, 2.0));
  const auto [mantissa, exponent] = x.frexp();
  GUESS("[1, 2]", exponent[0]);
  GUESS("[[3, 10], [21, 36], [55, 78]]", x.addcmul(x, x, {.value = 2}));
  GUESS("[[1.5, 2.5], [3.5, 4.5], [5.5, 6.5]]", x.addcdiv(x, x, {.value = 0.5}));
  const Variable index = rows.unsqueeze(1).expand({3, 2});
  GUESS("[[7, 2], [3, 4], [5.5, 9]]", x.scatter_reduce(0, index, source, {.reduce = "sum"}));
  GUESS("[[3, 0], [3, 4], [0.5, 3]]",
        x.scatter_reduce(0, index, source, {.reduce = "mean", .include_self = false}));
  GUESS("[[3, 3], [3, 4], [5, 6]]", x.clip(3));
  GUESS("[[0, 1], [1, 2], [2, 3]]", x.div(2.0, {.rounding_mode = "floor"}));
  GUESS("[[2, 3], [3, 4]]", x.quantile(tensor({0.25, 0.5}, {.dtype = f64}), 0));
  GUESS("2.25", x.quantile(tensor(0.25, {.dtype = f64})));
  const auto [a, b] = meshgrid(arange(3), arange(2), {.indexing = "xy"});
  GUESS("[[0, 1, 2], [0, 1, 2]]", a);
  GUESS("[[0, 0], [1, 1], [2, 2]]", meshgrid({arange(3), arange(2)}, {.indexing = "ij"})[0]);
  GUESS("[[0, 0], [0, 1], [1, 1]]", combinations(arange(2), {.r = 2, .with_replacement = true}));
  GUESS("[[0.75], [1.75], [2.75]]", cumulative_trapezoid(x, {.dx = 0.5}));
  const Variable theta = tensor({{{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}});
  expect_close(affine_grid(theta, {1, 1, 2, 2}, {.align_corners = true}),
               affine_grid(theta, {1, 1, 2, 2}, true));
  const std::string pinned = guesses::message_of([] { x.pin_memory(); });
  EXPECT_TRUE(cuda::is_available() || pinned.find("pin_memory") != std::string::npos) << pinned;
}

TEST(RareNames, NoDimensions) {
  GUESS("3", movedim(tensor(3), 0, -1));
  EXPECT_THROW(movedim(tensor(3), 1, 0), IndexError);
  GUESS("[1, 9]", index_copy(tensor({1, 2}), 0, tensor({1}), tensor(9)));
}

TEST(RareNames, CyclicLR) {
  nn::Linear model(2, 1);
  optim::SGD sgd(model.parameters(), 0.1);
  optim::lr_scheduler::CyclicLR cyclic(sgd, 0.01, 0.1, 3, {.mode = "triangular2"});
  for (const double rate : {0.04, 0.07, 0.1, 0.07, 0.04, 0.01, 0.025, 0.04}) {
    sgd.step(), cyclic.step();
    EXPECT_NEAR(cyclic.get_last_lr()[0], rate, 1e-12);
  }
}

TEST(RareNames, LinearAlgebra) {
  const Variable A = tensor({{4.0, 1.0, 0.5}, {1.0, 3.0, 0.2}, {0.5, 0.2, 2.0}}, {.dtype = f64});
  const double inf = INFINITY;
  const double norms[] = {1, -1, 2, -2, inf, -inf};
  const double expected[] = {3.2550493189290743, 1.161672146547675,  2.5113573582302027,
                             0.3981910406827635, 3.2550493189290743, 1.161672146547675};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(linalg::cond(A, norms[i]).item(), expected[i], 1e-12);
  expect_close(linalg::vector_norm(A, {.ord = 3, .dim = 1}), linalg::vector_norm(A, 3.0, {1}));
  Variable v = tensor({{1.0, 2.0}, {0.5, 1.0}, {0.25, -0.5}}, {.dtype = f64}).requires_grad_();
  Variable tau = tensor({1.2, 0.7}, {.dtype = f64}).requires_grad_();
  const Variable product = linalg::householder_product(v, tau);
  expect_close(product, tensor({{-0.2, -0.285}, {-0.6, 0.1575}, {-0.3, 0.27875}}));
  sum(product * arange(6).to(f64).reshape({3, 2})).backward();
  expect_close(v.grad(), tensor({{0.0, 0.0}, {-4.605, 0.0}, {-7.8, -2.7125}}));
  expect_close(tau.grad(), tensor({-2.890625, 1.1875}));
  expect_close(linalg::householder_product(stack({v, v * 2}), stack({tau, tau}))[0], product);
  EXPECT_THROW(linalg::householder_product(v, ones({3}, f64)), ShapeError);
}

TEST(RareNames, FourierTransforms) {
  const Variable z = tensor({{1.0, 0.0}, {2.0, -1.0}, {3.0, 0.5}}, {.dtype = f64});
  expect_close(fft::hfft(z), tensor({8.0, -4.0, 0.0, 0.0}));
  expect_close(fft::hfft(z, {.norm = "ortho"}), tensor({4.0, -2.0, 0.0, 0.0}));
  expect_close(fft::hfft(z, {.norm = "forward"}), tensor({2.0, -1.0, 0.0, 0.0}));
  expect_close(fft::hfft(z, 3), tensor({5.0, -2.732050807568877, 0.7320508075688772}));
  const Variable t = tensor({1.0, 2.0, -1.0, 0.5}, {.dtype = f64});
  const Variable spectrum = tensor({{0.625, 0.0}, {0.5, 0.375}, {-0.625, 0.0}});
  expect_close(fft::ihfft(t), spectrum);
  expect_close(fft::ihfft(t, {.norm = "ortho"}), spectrum * 2);
  expect_close(fft::ihfft(t, {.norm = "forward"}), spectrum * 4);
  expect_close(fft::hfft(fft::ihfft(t), 4), t);
}

}  // namespace
}  // namespace tapegrad
