// First guesses of a user of PyTorch or libtorch in the first hour: arrays, layers in float64,
// streams, hooks, masks, boxes and returns. Each is as its user typed it; the numbers are
// PyTorch's.
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;
namespace F = torch::nn::functional;

namespace {

TEST(FirstHour, TensorsOfArrays) {
  const double a[3] = {1, 2, 3};
  const int m[2][2] = {{1, 2}, {3, 4}};
  GUESS("[1, 2, 3]", tensor(a));
  GUESS("float32", tensor(a).dtype());
  GUESS("float64", tensor(a, {.dtype = f64}).dtype());
  GUESS("[[1, 2], [3, 4]]", tensor(m));
  GUESS("int64", tensor(m).dtype());
  GUESS("[1, 2]", tensor(std::array<float, 2>{1, 2}));
  GUESS("[[1, 2], [3, 4]]", tensor(std::array<std::array<float, 2>, 2>{{{1, 2}, {3, 4}}}));
  GUESS("[1, 2, 3]", tensor({1, 2, 3}));
  const Variable x = ones({2}, f64);
  GUESS("float64", x.new_zeros({3}).dtype());
  GUESS("int64", x.new_zeros({3}, kLong).dtype());
  GUESS("[3, 3]", x.new_full({2}, 3));
  GUESS("[1, 2]", x.new_tensor({1, 2}));
  GUESS("float64", x.new_tensor({1, 2}).dtype());
}

TEST(FirstHour, PrintsNamedResults) {
  const Variable x = arange(6.0).view({2, 3});
  GUESS("0\n5", x.aminmax());
  GUESS("[1, 1]\n[1, 4]", var_mean(x, 1));
  GUESS("1\n0", linalg::slogdet(eye(2)));
}

TEST(FirstHour, LayersInFloat64) {
  GUESS("float64", nn::Linear(3, 2, {.dtype = f64}).weight.dtype());
  GUESS("float64", nn::Linear(3, 2, {.dtype = kDouble})(ones({1, 3}, f64)).dtype());
  GUESS("float64", nn::Linear({.out_features = 2, .dtype = f64})(ones({1, 3}, f64)).dtype());
  EXPECT_FALSE(nn::Linear(3, 2, {.bias = false, .dtype = f64}).bias.defined());
  GUESS("float64", nn::Conv2d(1, 2, 3, {.dtype = f64})(ones({1, 1, 4, 4}, f64)).dtype());
  GUESS("float64", nn::ConvTranspose2d(1, 2, 3, {.dtype = f64}).bias.dtype());
  GUESS("float64", nn::Embedding(4, 3, {.dtype = f64})(tensor({1})).dtype());
  GUESS("float64", nn::LSTM(2, 3, {.dtype = f64})(ones({4, 1, 2}, f64))[0].dtype());
  GUESS("float64", nn::LayerNorm({.normalized_shape = {3}, .dtype = f64}).weight.dtype());
  const nn::BatchNorm1d norm({.num_features = 3, .dtype = f64});
  GUESS("float64", norm.running_var.dtype());
  GUESS("int64", norm.num_batches_tracked.dtype());
  GUESS("[2, 3]", norm(ones({2, 3}, f64)).shape());
}

TEST(FirstHour, Streams) {
  const nn::Linear a(2, 2);
  nn::Linear b(2, 2), c(2, 2);
  std::stringstream text;
  torch::save(a, text);
  torch::load(b, text);
  EXPECT_TRUE(equal(a.weight, b.weight));
  const tapegrad::testing::TempDir dir;
  {
    std::ofstream file(dir.path() / "model.bin", std::ios::binary);
    save(a, file);
  }
  std::ifstream file(dir.path() / "model.bin", std::ios::binary);
  load(c, file);
  EXPECT_TRUE(equal(a.weight, c.weight));
  load(c, dir.path() / "model.bin");  // a stream has the content of a file
  std::stringstream of_tensor, broken("12345678");
  save(arange(3.0), of_tensor);
  Variable x;
  load(x, of_tensor);
  GUESS("[0, 1, 2]", x);
  EXPECT_THROW(load(b, broken), FormatError);
  std::ifstream missing(dir.path() / "missing");
  EXPECT_THROW(load(b, missing), IoError);
  std::ofstream unwritable(dir.path() / "no" / "folder");
  EXPECT_THROW(save(a, unwritable), IoError);
  EXPECT_TRUE(equal(a.weight, b.weight));
}

TEST(FirstHour, HooksOfTheInput) {
  nn::Linear l(2, 2, false);
  nn::init::ones_(l.weight);
  auto handle = l.register_forward_pre_hook([](nn::Module&, const Variable& in) { return in * 2; });
  GUESS("[[4, 4]]", l(ones({1, 2})));
  handle.remove();
  int calls = 0;
  l.register_forward_pre_hook([&](nn::Module&, const Variable&) { ++calls; });
  GUESS("[[2, 2]]", l(ones({1, 2})));
  EXPECT_EQ(calls, 1);
}

TEST(FirstHour, GradientOfOneParameter) {
  const Variable w = ones({2}).requires_grad_();
  (w * tensor({3.0, 4.0})).sum().backward();
  GUESS("4", nn::utils::clip_grad_norm_(w, 10.0, INFINITY));
  GUESS("5", nn::utils::clip_grad_norm_(w, 1.0));
  GUESS("0.6", w.grad()[0]);
  GUESS("1", nn::utils::clip_grad_norm_(w, 10.0, {.norm_type = 2.0, .error_if_nonfinite = true}));
}

TEST(FirstHour, ModulesAndIndices) {
  nn::Sequential net(nn::Linear(4, 3), nn::ReLU(), nn::Linear(3, 2));
  net.pop_back();
  net.push_back(nn::Linear(3, 7));
  GUESS("[1, 7]", net(ones({1, 4})).sizes());
  net.pop_back();
  net.pop_back();
  net.pop_back();
  EXPECT_THROW(net.pop_back(), IndexError);
  const Variable x = arange(6.0).view({3, 2});
  GUESS("6", x.nelement());
  GUESS("[[0, 1], [4, 5]]", x.index_select(0, {0, 2}));
  GUESS("[[1], [3], [5]]", x.index_select(1, {1}));
}

TEST(FirstHour, BoxesAndMasks) {
  const Variable a = tensor({{0., 0., 10., 10.}}), b = tensor({{5., 5., 15., 15.}});
  const Variable lt =
      torch::max(a.index({Slice(), None, Slice(None, 2)}), b.index({Slice(), Slice(None, 2)}));
  const Variable rb = torch::min(a.index({Slice(), None, Slice(2)}), b.index({Slice(), Slice(2)}));
  GUESS("[[25]]", (rb - lt).clamp_min(0).prod(-1));
  GUESS("[1]", where(tensor({1, -1, 2}) < 0)[0]);
  const Variable h = arange(12.0).view({1, 3, 4}), mask = tensor({{1.0, 1.0, 0.0}});
  GUESS("[[2, 3, 4, 5]]", (h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, true).clamp_min(1));
  const Variable steps = arange(12.0).view({2, 3, 2}), lengths = tensor({3, 1});
  GUESS("[[4, 5], [6, 7]]", steps.index({arange(2), lengths - 1}));
  auto pe = zeros({2, 4});
  pe.index_put_({Slice(), Slice(0, None, 2)}, 1.0);
  GUESS("[[1, 0, 1, 0], [1, 0, 1, 0]]", pe);
  GUESS("[1, 1, 4, 4, 4]", nn::Conv3d(1, 1, 3, {.padding = "same"})(ones({1, 1, 4, 4, 4})).sizes());
}

TEST(FirstHour, LossesAndSpecialFunctions) {
  const nn::TripletMarginWithDistanceLoss loss(
      {.distance_function = [](const Variable& p,
                               const Variable& q) { return 1.0 - F::cosine_similarity(p, q); },
       .margin = 0.5});
  guesses::expect_close(loss(tensor({{1., 0.}}), tensor({{1., 1.}}), tensor({{1., 0.5}})),
                        tensor(0.687320409813));
  const Variable x = tensor({0.5, 1.0});
  guesses::expect_close(i0(x), tensor({1.0634833, 1.2660658}));
  guesses::expect_close(torch::special::i1e(x), tensor({0.15642080, 0.20791042}));
  guesses::expect_close(special::log_ndtr(x), tensor({-0.36894642, -0.17275378}));
  EXPECT_TRUE((nextafter(x, x + 1) > x).all().item<bool>());
  guesses::expect_close(linalg::tensorsolve(eye(6).reshape({2, 3, 6}), arange(6.0).view({2, 3})),
                        arange(6.0));
}

}  // namespace
