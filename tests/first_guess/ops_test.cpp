// First guesses of users of PyTorch, libtorch, Keras, NumPy and Flux for tensors and ops that work
// as typed. ops_refused.txt has those that the compiler rejects with advice.
#include <iostream>

#include "tests/first_guess/guess.h"

using namespace tapegrad;

namespace {

struct FirstGuess : testing::Test {
  Variable x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  Variable v = tensor({3.0, 1.0, 2.0});
  Variable a = tensor({{2.0, 0.0}, {1.0, 3.0}});
};

TEST_F(FirstGuess, Create) {
  GUESS("3", tensor(3.0));
  GUESS("3", tensor(3));
  GUESS("[1, 2, 3]", tensor({1, 2, 3}));
  GUESS("[1, 2.5]", tensor({1, 2.5}));
  GUESS("[[1,2],[3,4]]", tensor({{1, 2}, {3, 4}}).to("float32"));
  GUESS("[2, 1, 2]", tensor({{{1.0, 2.0}}, {{3.0, 4.0}}}).shape());
  GUESS("int64", tensor({{1, 2}, {3, 4}}).dtype());
  GUESS("bool", tensor({true, false}).dtype());
  GUESS("float64", tensor({1.0, 2.0}, f64).dtype());
  GUESS("[2, 2]", tensor(std::vector<std::vector<float>>{{1, 2}, {3, 4}}).shape());
  GUESS("[2, 3]", zeros({2, 3}).shape());
  GUESS("[2, 3]", zeros(2, 3).shape());
  GUESS("[1, 1, 1]", ones(3));
  GUESS("[2, 3]", ones(2, 3).shape());
  GUESS("int64", zeros({2, 3}, kInt64).dtype());
  GUESS("float64", zeros({2, 3}, float64).dtype());
  GUESS("[7, 7]", full({2}, 7));
  GUESS("[2, 3]", empty({2, 3}).shape());
  GUESS("[2]", zeros(std::vector<int64_t>{2}).shape());
  GUESS("[[1, 0],[0, 1]]", eye(2));
  GUESS("[0, 1, 2]", arange(3));
  GUESS("[0, 2, 4]", arange(0, 6, 2));
  GUESS("float32", arange(0, 6, {.dtype = f32}).dtype());
  GUESS("float64", arange(0, 6, kFloat64).dtype());
  GUESS("[0, 0.5, 1]", linspace(0, 1, 3));
  GUESS("[1, 10, 100]", logspace(0, 2, 3));
  GUESS("[2, 3]", rand({2, 3}).shape());
  GUESS("[2, 3]", randn(2, 3).shape());
  GUESS("[2, 3]", randn_like(x).shape());
  GUESS("[2, 3]", rand_like(x).shape());
  GUESS("[2, 3]", zeros_like(x).shape());
  GUESS("[2, 3]", full_like(x, 2).shape());
  GUESS("[4]", randint(0, 10, {4}).shape());
  GUESS("[4]", randint(10, {4}).shape());
  GUESS("[5]", randperm(5).shape());
  GUESS("[[1, 0],[0, 1]]", one_hot(tensor({0, 1}), 2));
  GUESS("[[0,1, 1],[0, 0, 1]]", tril_indices(2, 2));
}

TEST_F(FirstGuess, Attributes) {
  GUESS("[2, 3]", x.shape());
  GUESS("[2, 3]", x.sizes());
  GUESS("2", x.shape()[0]);
  GUESS("2", x.shape(0));
  GUESS("2", x.size(0));
  GUESS("3", x.size(-1));
  GUESS("2", x.dim());
  GUESS("2", x.ndim());
  GUESS("6", x.numel());
  GUESS("float32", x.dtype());
  GUESS("cpu", x.device());
  GUESS("true", x.is_contiguous());
  GUESS("true", x.defined());
  GUESS("false", x.requires_grad());
  GUESS("2", x[0][1].item<float>());
  GUESS("6", x[-1][-1].item<int64_t>());
  GUESS("21", x.sum().item());
  GUESS("21", double(x.sum()));
  GUESS("21", static_cast<float>(sum(x)));
  GUESS("1", *x.data_ptr<float>());
  GUESS("6", x.to_vector<double>().size());
  GUESS("float64", x.to(kFloat64).dtype());
  GUESS("float16", x.to(kHalf).dtype());
  GUESS("cpu", x.to(kCPU).device());
  GUESS("cpu", x.detach().cpu().device());
  GUESS("float64", x.to("float64").dtype());
  GUESS("cpu", x.to("cpu").device());
  GUESS("[3, 2]", x.T().contiguous().shape());
  std::cout << x << '\n';
  print(x);
  if (cuda::is_available()) {
    GUESS("cuda:0", x.cuda().device());
  }
}

TEST_F(FirstGuess, Members) {
  GUESS("21", x.sum());
  GUESS("[6, 15]", x.sum(1));
  GUESS("[6, 15]", x.sum(-1));
  GUESS("21", x.sum({0, 1}));
  GUESS("[[6],[15]]", x.sum(1, true));
  GUESS("3.5", x.mean());
  GUESS("[2.5, 3.5, 4.5]", x.mean(0));
  GUESS("1", v.std());
  GUESS("1", v.var(0));
  GUESS("6", x.max());
  GUESS("[3, 6], [2, 2]", x.max(1));
  GUESS("1", x.min());
  GUESS("[2, 2]", x.argmax(1));
  GUESS("5", x.argmax());
  GUESS("[1, 3, 6]", x[0].cumsum(0));
  GUESS("[3, 2]", x.view({3, 2}).shape());
  GUESS("[3, 2]", x.view(3, 2).shape());
  GUESS("[6]", x.reshape(-1).shape());
  GUESS("[6]", x.view(-1).shape());
  GUESS("[6, 1]", x.reshape({-1, 1}).shape());
  GUESS("[3, 2]", x.t().shape());
  GUESS("[3, 2]", x.transpose(0, 1).shape());
  GUESS("[3, 2]", x.permute({1, 0}).shape());
  GUESS("[3, 2]", x.permute(1, 0).shape());
  GUESS("[1, 2, 3]", x.unsqueeze(0).shape());
  GUESS("[2, 3]", x.unsqueeze(0).squeeze(0).shape());
  GUESS("[6]", x.flatten().shape());
  GUESS("[2, 2, 3]", x.expand({2, 2, 3}).shape());
  GUESS("[4, 3]", x.repeat(2, 1).shape());
  GUESS("[2, 2]", x.matmul(x.t()).shape());
  GUESS("[2, 2]", x.mm(x.t()).shape());
  GUESS("14", v.dot(v));
  GUESS("[9, 1, 4]", v.pow(2));
  GUESS("[9, 1, 4]", v.square());
  GUESS("[2, 1, 2]", v.clamp(0, 2));
  GUESS("[3, 1, 2]", v.abs());
  GUESS("[3, 1, 2]", v.exp().log());
  GUESS("1", v.softmax(0).sum());
  GUESS("[3, 1, 2]", v.relu());
  GUESS("5", tensor({3.0, 4.0}).norm());
  GUESS("true", (x > 0).all());
  GUESS("false", (x > 6).any());
  GUESS("[1, 2]", x.select(0, 0).narrow(0, 0, 2));
  GUESS("[4, 5]", x.slice(0, 1, 2)[0].slice(0, 0, 2));
  GUESS("[0, 0, 2]", v.masked_fill(v != 2, 0));
  GUESS("[4, 2, 3]", v.add(1));
  GUESS("[6, 2, 4]", v.mul(2));
  GUESS("2", x.chunk(2).size());
  GUESS("2", x.split(1).size());
  GUESS("[2, 3]", v.index_select(0, tensor({2, 0})));
  GUESS("[2, 3]", v.gather(0, tensor({2, 0})));
}

TEST_F(FirstGuess, Index) {
  GUESS("[1, 2, 3]", x[0]);
  GUESS("2", x[0][1]);
  GUESS("[4, 5, 6]", x[-1]);
  GUESS("[4, 5, 6]", x[x > 3]);
  GUESS("[2, 5]", x.index({Slice(), 1}));
  GUESS("[1, 3]", x.index({0, Slice{.step = 2}}));
  GUESS("[2, 3]", at(x, {0, Slice{1}}));
  Variable w = x.clone();
  w[0] = 1.0;
  GUESS("[1, 1, 1]", w[0]);
  w[0] = v;
  GUESS("[3, 1, 2]", w[0]);
  w[0] += 1;
  GUESS("[4, 2, 3]", w[0]);
  w[0][1] = 9;
  GUESS("[4, 9, 3]", w[0]);
  w[1].zero_();
  GUESS("[0, 0, 0]", w[1]);
  int64_t rows = 0;
  for (const Variable& row : x) rows += row.numel();
  EXPECT_EQ(rows, 6);
}

TEST_F(FirstGuess, Arithmetic) {
  GUESS("[4, 2, 3]", v + 1);
  GUESS("[5, 1, 3]", 2 * v - 1);
  GUESS("[1, 3, 1.5]", 3 / v);
  GUESS("[-3, -1, -2]", -v);
  GUESS("[1, 1, 0]", v % 2);
  Variable w = v.clone();
  w += 1;
  w *= 2;
  w -= 2;
  w /= 2;
  GUESS("[3, 1, 2]", w);
  w.add_(1).mul_(2);
  GUESS("[8, 4, 6]", w);
  GUESS("[true, false, true]", v > 1);
  GUESS("[false, true, false]", v == 1);
  GUESS("[false, true, false]", 2 > v);
  GUESS("[false, true, false]", !(v > 1));
  GUESS("[false, true, false]", ~(v > 1));
  GUESS("[false, false, true]", (v > 1) & (v < 3));
  GUESS("[true, true, false]", (v < 2) | (v > 2));
  if (v.sum() > 5) {
    GUESS("6", v.sum());
  }
  GUESS("[4, 2, 3]", add(v, 1));
  GUESS("[5, 3, 4]", add(v, 1, 2));
  GUESS("[1, 0, 1]", div(v, 2, "floor"));
  GUESS("[-2, 2]", div(tensor({-5, 5}), 2, "trunc"));
  GUESS("[1, 0, 1]", floor_divide(v, 2));
  GUESS("[9, 1, 4]", pow(v, 2));
  GUESS("[8, 2, 4]", pow(2, v));
  GUESS("[1.5, 0.5, 1]", true_divide(v, 2));
  GUESS("[6, 2, 4]", multiply(v, 2));
  GUESS("[2, 0, 1]", subtract(v, 1));
}

TEST_F(FirstGuess, Reduce) {
  GUESS("21", sum(x));
  GUESS("[6, 15]", sum(x, 1));
  GUESS("[6, 15]", sum(x, -1));
  GUESS("[[6],[15]]", sum(x, 1, true));
  GUESS("21", sum(x, {0, 1}));
  GUESS("float64", sum(x, f64).dtype());
  GUESS("[2.5, 3.5, 4.5]", mean(x, 0));
  GUESS("2", mean(tensor({1, 2, 3}), f32));
  GUESS("6", max(x));
  GUESS("[3, 6], [2, 2]", max(x, 1));
  GUESS("[3, 2, 3]", max(v, tensor({2.0, 2.0, 3.0})));
  GUESS("[1, 2, 3], [0, 0, 0]", min(x, 0));
  auto [values, indices] = max(x, 1);
  GUESS("[2, 2]", indices);
  GUESS("5", argmax(x));
  GUESS("[2, 2]", argmax(x, 1));
  GUESS("6", prod(v));
  GUESS("1", stddev(v));
  GUESS("1", stddev(v, 0));
  GUESS("1", tapegrad::std(v, 0));
  GUESS("1", var(v));
  GUESS("1", var(v, 0));
  GUESS("0.666667", var(v, 0, false));
  GUESS("2", median(v));
  GUESS("true", any(v > 2));
  GUESS("[true, true]", all(x > 0, 1));
  GUESS("5", norm(tensor({3.0, 4.0})));
  GUESS("7", norm(tensor({3.0, 4.0}), 1));
  GUESS("5", norm(tensor({3.0, 4.0}), "fro"));
  GUESS("[6, 15]", norm(x, 1, 1));
  GUESS("[3, 4, 6]", cumsum(v, 0));
  GUESS("[3, 3, 6]", cumprod(v, 0));
  GUESS("[3, 6]", amax(x, 1));
  GUESS("[2]", logsumexp(x, 1).shape());
  GUESS("[3, 2], [0, 2]", topk(v, 2));
  GUESS("[1, 2, 3], [1, 2, 0]", sort(v));
  GUESS("[3, 2, 1], [0, 2, 1]", sort(v, 0, true));
  GUESS("[1, 2, 0]", argsort(v));
  GUESS("2", quantile(v, 0.5));
  GUESS("[1, 3]", quantile(v, {0.0, 1.0}));
  GUESS("[2, 5]", quantile(x, 0.5, 1));
  GUESS("3", count_nonzero(v));
  GUESS("[1, 2, 3]", unique(v).values);
}

TEST_F(FirstGuess, Elementwise) {
  GUESS("[0, 1, 0.5]", clamp(tensor({-1.0, 2.0, 0.5}), 0, 1));
  GUESS("[0, 1, 0.5]", clip(tensor({-1.0, 2.0, 0.5}), 0, 1));
  GUESS("[2, 2, 2]", clamp(v, tensor({1.0, 2.0, 0.0}), 2));
  GUESS("[3, 2, 2]", clamp(v, 2));
  GUESS("[3, 2, 2]", maximum(v, 2));
  GUESS("[3, 1, 2]", where(v > 0, v, 0.0));
  GUESS("[2, 1, 1.5]", lerp(v, tensor({1.0, 1.0, 1.0}), 0.5));
  GUESS("[1, 2, 3]", log10(tensor({10.0, 100.0, 1000.0})));
  GUESS("[8, 2, 4]", exp2(v));
  GUESS("[180]", rad2deg(tensor({3.14159265})));
  GUESS("[-3, 1, -2]", copysign(v, tensor({-1.0, 1.0, -0.0})));
  GUESS("[3, 2, 2]", fmax(v, 2));
  GUESS("[12]", lcm(tensor({4}), tensor({6})));
  GUESS("[0, 0.5, 1]", heaviside(tensor({-1.0, 0.0, 2.0}), 0.5));
  GUESS("[true, false, true]", isin(v, tensor({2.0, 3.0})));
  GUESS("[false, true]", isinf(tensor({1.0, 1e39}).to(f32)));
  GUESS("[3, 1, 2]", positive(v));
  GUESS("[-3, -1, -2]", negative(v));
  GUESS("[3, 1, 2]", absolute(v));
  GUESS("[12, 2, 8]", ldexp(v, tensor({2.0, 1.0, 2.0})));
  GUESS("[0, 0, 0]", fmod(v, 1));
  GUESS("[0, 0, 2]", masked_fill(v, v != 2, 0));
  GUESS("[5, 5, 2]", masked_fill(v, v != 2, tensor(5.0)));
  GUESS("true", equal(v, v));
  GUESS("true", allclose(v, v, 1e-5, 1e-8));
  GUESS("[true, true, true]", eq(v, v));
  GUESS("[true, false, true]", greater(v, 1));
}

TEST_F(FirstGuess, Shapes) {
  GUESS("[3, 2]", reshape(x, {3, 2}).shape());
  GUESS("[6]", reshape(x, -1).shape());
  GUESS("[6]", flatten(x).shape());
  GUESS("[6]", ravel(x).shape());
  GUESS("[3, 2]", transpose(x, 0, 1).shape());
  GUESS("[3, 2]", transpose(x).shape());
  GUESS("[3, 2]", swapaxes(x, 0, 1).shape());
  GUESS("[3, 2]", movedim(x, 0, 1).shape());
  GUESS("[1, 2, 3]", expand_dims(x, 0).shape());
  GUESS("[4, 3]", cat({x, x}).shape());
  GUESS("[2, 6]", cat({x, x}, 1).shape());
  GUESS("[2, 6]", concat({x, x}, -1).shape());
  GUESS("[4, 3]", concatenate({x, x}).shape());
  GUESS("[4, 3]", vstack({x, x}).shape());
  GUESS("[2, 6]", hstack({x, x}).shape());
  GUESS("[2, 2, 3]", stack({x, x}).shape());
  GUESS("[2, 2, 3]", stack({x, x}, 1).shape());
  GUESS("[4, 3]", cat(std::vector<Variable>{x, x}).shape());
  GUESS("2", split(x, 1).size());
  GUESS("2", split(x, {1, 2}, 1).size());
  // A list of one number is a list.
  GUESS("[[1, 2, 3]]", split(x, {1, 1})[0]);
  EXPECT_THROW(split(x, {1}), ShapeError);
  EXPECT_THROW(x.split({1}), ShapeError);
  GUESS("2", tensor_split(x, {1}).size());
  GUESS("1", tensor_split(x, 1).size());
  GUESS("2", x.tensor_split({2}, 1).size());
  GUESS("2", x.hsplit({1}).size());
  GUESS("[[2], [5]]", x.hsplit({1, 2})[1]);
  GUESS("1", vsplit(x, 1).size());
  GUESS("3", chunk(x, 3, 1).size());
  GUESS("[4, 3]", tile(x, {2, 1}).shape());
  GUESS("[3, 3, 1, 1, 2, 2]", repeat_interleave(v, 2));
  GUESS("[3, 2, 2]", repeat_interleave(v, tensor({1, 0, 2}), 0));
  GUESS("[2, 2, 3]", expand(x, {2, 2, 3}).shape());
  GUESS("[2, 3]", broadcast_to(v, {2, 3}).shape());
  GUESS("[2, 1, 3]", flip(v, 0));
  GUESS("[2, 1, 3]", flip(v, {0}));
  GUESS("[[3, 2, 1],[6, 5, 4]]", fliplr(x));
  GUESS("[[4, 5, 6],[1, 2, 3]]", flipud(x));
  GUESS("[2, 3, 1]", roll(v, 1));
  GUESS("[2, 3, 1]", roll(v, 1, 0));
  GUESS("[3, 3]", diag(v).shape());
  GUESS("[2, 5]", pad(x, {1, 1}).shape());
  GUESS("[2, 1, 2, 3, 2]", pad(x, {1, 1}, "reflect")[0]);
  GUESS("3", unbind(v).size());
  GUESS("[[0],[1],[2]]", nonzero(v));
  GUESS("[9, 1, 9]", index_fill(v, 0, tensor({0, 2}), 9));
  GUESS("[2, 3]", meshgrid({tensor({1.0, 2.0}), v})[0].shape());
}

TEST_F(FirstGuess, LinearAlgebra) {
  GUESS("[2, 2]", matmul(x, x.t()).shape());
  GUESS("[14, 32]", mv(x, tensor({1.0, 2.0, 3.0})));
  GUESS("14", dot(v, v));
  GUESS("14", vdot(v, v));
  GUESS("[3, 3]", outer(v, v).shape());
  GUESS("[2, 2]", einsum("ij,kj->ik", {x, x}).shape());
  GUESS("[2, 2]", einsum("ij,kj->ik", x, x).shape());
  GUESS("6", det(a));
  GUESS("[2, 2]", inverse(a).shape());
  GUESS("[2, 2]", linalg::inv(a).shape());
  GUESS("[1, 1]", linalg::solve(a, tensor({2.0, 4.0})));
  GUESS("5", trace(a));
  GUESS("[4, 0]", matrix_power(a, 2)[0]);
  GUESS("int64", addmm(tensor({{1}}), tensor({{2}}), tensor({{3}})).dtype());
  GUESS("[2, 2]", addmm(zeros(2), x, x.t()).shape());
  GUESS("[2, 3, 3]", tensordot(ones({2, 3, 1}), ones({1, 3}), 1).shape());
}

TEST_F(FirstGuess, Networks) {
  const Variable image = ones({1, 1, 4, 4}), weight = ones({2, 1, 3, 3});
  GUESS("[1, 2, 2, 2]", conv2d(image, weight).shape());
  GUESS("[1, 2, 2, 2]", conv2d(image, weight, zeros(2)).shape());
  GUESS("[1, 2, 4, 4]", conv2d(image, weight, {}, 1, 1).shape());
  GUESS("[1, 2, 4, 4]", conv2d(image, weight, {}, {1, 1}, {1, 1}).shape());
  GUESS("[1, 2, 4, 4]", conv2d(image, weight, {}, 1, "same").shape());
  GUESS("[2, 2, 2]", conv2d(image[0], weight).shape());
  GUESS("[1, 1, 2, 2]", max_pool2d(image, 2).shape());
  GUESS("[1, 1, 3, 3]", max_pool2d(image, 2, 1).shape());
  GUESS("[1, 1, 3, 2]", max_pool2d(image, {2, 2}, {1, 2}).shape());
  GUESS("[1, 2, 2]", max_pool2d(image[0], 2).shape());
  GUESS("[1, 1, 2, 2]", avg_pool2d(image, 2).shape());
  GUESS("[1, 1, 1, 1]", adaptive_avg_pool2d(image, 1).shape());
  GUESS("[1, 1, 4, 2]", adaptive_avg_pool2d(image, {-1, 2}).shape());
  GUESS("1", softmax(x, 1)[0].sum());
  GUESS("float64", softmax(x, 1, f64).dtype());
  GUESS("[2, 3]", log_softmax(x, -1).shape());
  GUESS("[3, 1, 2]", relu(v));
  GUESS("[3, 1, 2]", nn::functional::relu(v));
  GUESS("[3]", gelu(v, "tanh").shape());
  GUESS("[3, 1, 2]", leaky_relu(v, 0.1));
  GUESS("[2, 3]", layer_norm(x, 3).shape());
  GUESS("[2, 3]", dropout(x, 0.5, false).shape());
  GUESS("[2, 2]", linear(x, ones({2, 3})).shape());
  GUESS("0", mse_loss(x, x));
  GUESS("0", mse_loss(x, x, "sum"));
  GUESS("[2, 3]", l1_loss(x, x, "none").shape());
  GUESS("[]", cross_entropy(x, tensor({0, 1})).shape());
  GUESS("[]", cross_entropy(x, tensor({0, 1}), "sum").shape());
  GUESS("0", kl_div(log(v), v, "batchmean"));
  GUESS("0", smooth_l1_loss(v, v, "sum"));
  GUESS("[1, 4, 8]",
        scaled_dot_product_attention(ones({1, 4, 8}), ones({1, 4, 8}), ones({1, 4, 8})).shape());
}

TEST_F(FirstGuess, Autograd) {
  Variable w = tensor({1.0, 2.0}, {.requires_grad = true});
  sum(w * w).backward();
  GUESS("[2, 4]", w.grad());
  w.grad().zero_();
  GUESS("[0, 0]", w.grad());
  backward(sum(w));
  GUESS("[1, 1]", w.grad());
  w.zero_grad();
  const Variable b = tensor(3.0).requires_grad_();
  GUESS("[3, 3], 3", grad(sum(w) * b, {w, b}));
  GUESS("[2, 4]", grad(sum(w * w), w));
  GUESS("[2, 4]", grad({sum(w * w)}, {w}));
  GUESS("[2, 4]", gradient([](const Variable& z) { return sum(z * z); }, w));
  {
    NoGradGuard guard;
    GUESS("false", (w * 2).requires_grad());
  }
  GUESS("false", no_grad([&] { return w * 2; }).requires_grad());
  GUESS("false", w.detach().requires_grad());
  GUESS("false", stop_gradient(w).requires_grad());
  GUESS("true", zeros(3).set_requires_grad(true).requires_grad());
}

TEST_F(FirstGuess, ErrorsNameTheLine) {
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string file = "ops_test.cpp:";
  EXPECT_NE(message([&] { x.item(); }).find(file), std::string::npos);
  EXPECT_NE(message([&] { x.item<float>(); }).find(file), std::string::npos);
  EXPECT_NE(message([&] { x.backward(); }).find(file), std::string::npos);
  EXPECT_NE(message([&] { x.view({7}); }).find(file), std::string::npos);
  if (!is_available(gpu)) {
    EXPECT_NE(message([&] { x.to(gpu); }).find(file), std::string::npos);
    EXPECT_NE(message([&] { x.cuda(); }).find(file), std::string::npos);
  }
  EXPECT_NE(message([&] { v ^ 2; }).find("pow"), std::string::npos);
  EXPECT_NE(message([&] { tensor({{1, 2}, {3}}); }).find("a list of 1 entries"), std::string::npos);
  EXPECT_NE(message([&] { mse_loss(x, x, "average"); }).find("\"sum\""), std::string::npos);
}

TEST_F(FirstGuess, OptionsByName) {
  const Variable image = rand({1, 1, 4, 4});
  GUESS("[1, 1, 8, 8]", interpolate(image, {.scale_factor = 2.0, .mode = "bilinear"}).shape());
  GUESS("[1, 1, 8, 4]", interpolate(image, {.scale_factor = {2, 1}, .mode = "nearest"}).shape());
  GUESS("[1, 1, 8, 8]", interpolate(image, {.size = {8, 8}, .mode = "nearest"}).shape());
  GUESS("[1, 1, 6, 6]", interpolate(image, {.size = 6}).shape());
  GUESS("[1, 1, 8, 6]", interpolate(image, {8, 6}, "bilinear").shape());
  GUESS("[1, 1, 8, 8]", interpolate(image, 8, "bicubic", /*align_corners=*/true).shape());
  GUESS("[2, 3, 1, 2, 3]", pad(v, {1, 1}, "circular"));
  GUESS("true", allclose(gelu(v, "tanh"), gelu(v, Gelu::kTanh)));
  GUESS("2.75", quantile(tensor({1.0, 2.0, 3.5}), 0.75, {.interpolation = "midpoint"}));
  GUESS("-0.0485874", log_sigmoid(v)[0]);
  EXPECT_THROW(interpolate(image, {.scale_factor = 2.0, .mode = "best"}), ArgumentError);
  GUESS("cpu", x.to("cpu").device());
  GUESS("float64", x.to("float64").dtype());
  GUESS("cpu", zeros({2}, {.device = "cpu"}).device());
  GUESS("true", Device("cpu") == cpu);
  EXPECT_THROW(Device("tpu"), ArgumentError);
  EXPECT_THROW(x.to("tpu"), Error);
}

TEST_F(FirstGuess, Gradchecks) {
  const Variable z = x.to(f64).requires_grad_();
  const Variable w = randn({2, 3}, f64).requires_grad_();
  EXPECT_TRUE(gradcheck([](const Variable& u) { return logsumexp(u * u, 1); }, z));
  EXPECT_TRUE(gradcheck([](const Variable& u, const Variable& t) { return u * t; }, {z, w}));
  EXPECT_TRUE(gradcheck([](const auto& in) { return in[0] * in[1]; }, {z, w}));
  EXPECT_TRUE(gradcheck([](const Variable& u) { return sin(u); }, std::vector<Variable>{z}));
  EXPECT_TRUE(gradcheck([](auto u, auto t) { return u * t; }, std::vector<Variable>{z, w}));
  EXPECT_TRUE(gradcheck([](Variable a, Variable b, Variable c) { return a * b + c; }, {z, w, z}));
  EXPECT_TRUE(gradgradcheck([](const Variable& u) { return exp(u); }, z));
  EXPECT_TRUE(gradgradcheck([](const Variable& u) { return exp(u); }, std::vector<Variable>{z}));
  EXPECT_TRUE(gradgradcheck([](const Variable& u, const Variable& t) { return u * t; }, {z, w}));
}

TEST_F(FirstGuess, SortAndSlicesByName) {
  using namespace tapegrad::indexing;
  const Variable v = tensor({2, 3, 1});
  auto [values, order] = sort(v, {.descending = true});
  GUESS("[3, 2, 1]", values);
  GUESS("[1, 0, 2]", argsort(v, {.dim = 0, .descending = true}));
  GUESS("[2, 3]", v.index({Slice(0, 2)}));
  GUESS("[3, 1]", v.index({Slice(1, None)}));
}

TEST_F(FirstGuess, SizesAndNamedOptions) {
  const Variable image = randn({1, 2, 8, 8});
  GUESS("[1, 2, 4, 4]", max_pool2d(image, 3, {.stride = 2, .padding = 1}).shape());
  GUESS("[1, 2, 4, 3]", avg_pool2d(image, {2, 3}, {.stride = 2}).shape());
  GUESS("[2, 8, 4]", max_pool1d(image[0], 2, {.stride = 2}).shape());
  GUESS("[2, 4, 4]", max_pool3d(image, 1, {.stride = {1, 2, 2}})[0].shape());
  GUESS("[1, 2, 4, 4]", max_pool2d_with_indices(image, 2, {.stride = 2}).indices.shape());
  GUESS("[2, 1, 2, 3, 2]", pad(tensor({1, 2, 3}), {1, 1}, {.mode = "reflect"}));
  GUESS("[9, 1, 2, 3]", pad(tensor({1, 2, 3}), {1, 0}, {.value = 9}));
  const Variable log_probs = log_softmax(randn({6, 2, 4}), -1);
  const Variable targets = tensor({{1, 2}, {3, 1}}), steps = tensor({6, 5}),
                 labels = tensor({2, 1});
  GUESS("true", equal(ctc_loss(log_probs, targets, steps, labels),
                      ctc_loss(log_probs, targets, {6, 5}, {2, 1})));
}

}  // namespace
