// Each member of Variable gives the result of the function of its name, and each member that ends
// with `_` writes that result in place.
#include <gtest/gtest.h>

#include "tests/first_guess/guess.h"

using namespace tapegrad;
using guesses::text;

namespace {

#define SAME(member, function) EXPECT_EQ(text(member), text(function))
// A member without further arguments than those given.
#define MEMBER(x, name, ...) SAME(x.name(__VA_ARGS__), name(x __VA_OPT__(, ) __VA_ARGS__))
#define IN_PLACE(x, name, ...)                               \
  {                                                          \
    Variable target = x.clone();                             \
    const auto version = target.value().storage().version(); \
    Variable& result = target.name##_(__VA_ARGS__);          \
    SAME(target, x.name(__VA_ARGS__));                       \
    EXPECT_TRUE(result.is_same(target));                     \
    EXPECT_GT(target.value().storage().version(), version);  \
  }

struct Members : testing::Test {
  Variable x = tensor({{0.5, -2.0, 3.0}, {4.0, 0.25, -6.0}});
  Variable y = tensor({{1.5, 2.0, 3.0}, {4.0, -1.0, 2.0}});
  Variable u = tensor({{0.1, 0.2, 0.9}, {0.5, 0.3, 0.7}});
  Variable n = tensor({{1, 6, 3}, {4, 5, 2}}), m = tensor({{2, 3, 3}, {1, 5, 4}});
  Variable a = tensor({{4.0, 1.0}, {1.0, 3.0}});
  Variable index = tensor({0, 1}), places = tensor({{0, 1, 1}, {1, 0, 0}});
};

TEST_F(Members, OfOneOperand) {
  MEMBER(x, abs);
  MEMBER(x, absolute);
  MEMBER(x, neg);
  MEMBER(x, negative);
  MEMBER(x, sign);
  MEMBER(x, sgn);
  MEMBER(x, signbit);
  MEMBER(x, square);
  MEMBER(u, sqrt);
  MEMBER(u, rsqrt);
  MEMBER(x, reciprocal);
  MEMBER(x, exp);
  MEMBER(x, exp2);
  MEMBER(x, expm1);
  MEMBER(u, log);
  MEMBER(u, log2);
  MEMBER(u, log10);
  MEMBER(u, log1p);
  MEMBER(x, sin);
  MEMBER(x, cos);
  MEMBER(x, tan);
  MEMBER(u, asin);
  MEMBER(u, acos);
  MEMBER(x, atan);
  MEMBER(u, arcsin);
  MEMBER(u, arccos);
  MEMBER(x, arctan);
  MEMBER(x, sinh);
  MEMBER(x, cosh);
  MEMBER(x, tanh);
  MEMBER(x, asinh);
  MEMBER(n.to(f32), acosh);
  MEMBER(u, atanh);
  MEMBER(x, sinc);
  MEMBER(x, erf);
  MEMBER(x, erfc);
  MEMBER(u, erfinv);
  MEMBER(u, lgamma);
  MEMBER(u, digamma);
  MEMBER(x, sigmoid);
  MEMBER(x, relu);
  MEMBER(x, floor);
  MEMBER(x, ceil);
  MEMBER(x, round);
  MEMBER(x, trunc);
  MEMBER(x, fix);
  MEMBER(x, frac);
  MEMBER(x, deg2rad);
  MEMBER(x, rad2deg);
  MEMBER(x, logical_not);
  MEMBER(n, bitwise_not);
  MEMBER(x, isnan);
  MEMBER(x, isinf);
  MEMBER(x, isposinf);
  MEMBER(x, isneginf);
  MEMBER(x, isfinite);
  MEMBER(u, logit);
  MEMBER(x, nan_to_num);
  MEMBER(x, clamp, -1, 1);
  MEMBER(x, clip, -1, y);
  MEMBER(x, clamp_min, 0);
  MEMBER(x, clamp_max, 0);
  MEMBER(x, softmax, 1);
  MEMBER(x, log_softmax, 0);
}

TEST_F(Members, OfTwoOperands) {
  MEMBER(x, add, y);
  MEMBER(x, sub, 2);
  MEMBER(x, mul, y);
  MEMBER(x, div, y);
  MEMBER(x, subtract, y);
  MEMBER(x, multiply, y);
  MEMBER(x, divide, y);
  MEMBER(x, true_divide, y);
  MEMBER(x, floor_divide, y);
  MEMBER(x, remainder, y);
  MEMBER(x, fmod, y);
  MEMBER(x, pow, 2);
  MEMBER(u, float_power, y);
  MEMBER(x, maximum, y);
  MEMBER(x, minimum, y);
  SAME(x.max(y), maximum(x, y));
  SAME(x.min(y), minimum(x, y));
  MEMBER(x, fmax, y);
  MEMBER(x, fmin, y);
  MEMBER(x, atan2, y);
  MEMBER(x, arctan2, y);
  MEMBER(x, hypot, y);
  MEMBER(x, copysign, y);
  MEMBER(x, ldexp, n);
  MEMBER(u, xlogy, u);
  MEMBER(x, logaddexp, y);
  MEMBER(n, gcd, m);
  MEMBER(n, lcm, m);
  MEMBER(x, eq, y);
  MEMBER(x, ne, y);
  MEMBER(x, lt, y);
  MEMBER(x, le, y);
  MEMBER(x, gt, 0);
  MEMBER(x, ge, 0);
  MEMBER(x, less, y);
  MEMBER(x, less_equal, y);
  MEMBER(x, greater, y);
  MEMBER(x, greater_equal, y);
  MEMBER(x, not_equal, y);
  MEMBER(n, logical_and, m);
  MEMBER(n, logical_or, m);
  MEMBER(n, logical_xor, m);
  MEMBER(n, bitwise_and, m);
  MEMBER(n, bitwise_or, m);
  MEMBER(n, bitwise_xor, m);
  MEMBER(x, lerp, y, 0.5);
  MEMBER(x, addcmul, u, y, 2);
  MEMBER(x, addcdiv, u, y);
  MEMBER(x, isclose, y, 0.5);
  MEMBER(x, allclose, x);
  MEMBER(x, equal, y);
  SAME(x.where(x > 0, y), where(x > 0, x, y));
  SAME(x.where(x > 0, 0), where(x > 0, x, 0));
}

TEST_F(Members, ReductionsAndSorting) {
  MEMBER(x, sum);
  MEMBER(x, sum, 1);
  MEMBER(x, mean);
  MEMBER(x, mean, {0}, true);
  MEMBER(x, nansum);
  MEMBER(x, nanmean, 1);
  MEMBER(x, prod);
  MEMBER(x, prod, 1);
  SAME(x.std(), tapegrad::std(x));
  SAME(x.std(1, false), tapegrad::std(x, 1, {.correction = 0}));
  SAME(x.var(1), var(x, 1));
  MEMBER(x, norm);
  MEMBER(x, norm, 1.0, 1);
  SAME(x.dist(y), distance(x, y));
  MEMBER(x, logsumexp, 1);
  MEMBER(x, max);
  MEMBER(x, max, 1);
  MEMBER(x, min, 0, true);
  MEMBER(x, amax, 1);
  MEMBER(x, amin, {0, 1});
  MEMBER(n, any, 1);
  MEMBER(n, all, 0, true);
  SAME(x.aminmax().max, aminmax(x).max);
  SAME(x.argmax(), argmax(x));
  MEMBER(x, argmin, 1);
  MEMBER(x, median);
  MEMBER(x, median, 1);
  MEMBER(x, nanmedian);
  MEMBER(x, quantile, 0.3);
  MEMBER(x, quantile, 0.3, 1);
  MEMBER(x, kthvalue, 2);
  MEMBER(x, count_nonzero);
  SAME(index.bincount(), bincount(index));
  MEMBER(u, histc, 4, 0, 1);
  MEMBER(a, trace);
  MEMBER(a, cov);
  MEMBER(a, corrcoef);
  MEMBER(x, cumsum, 1);
  MEMBER(x, cumprod, 1);
  MEMBER(x, logcumsumexp, 1);
  MEMBER(x, cummax, 1);
  MEMBER(x, cummin, 1);
  MEMBER(x, diff);
  MEMBER(x, sort);
  MEMBER(x, argsort, 0, true);
  MEMBER(x, msort);
  MEMBER(x, topk, 2);
  SAME(n.unique().values, unique(n).values);
}

TEST_F(Members, Shapes) {
  MEMBER(x, reshape, {3, 2});
  SAME(x.view(3, 2), view(x, {3, 2}));
  MEMBER(x, reshape_as, transpose(y, 0, 1));
  MEMBER(x, view_as, y);
  SAME(x[0].expand_as(y), expand_as(x[0], y));
  MEMBER(x, flatten);
  MEMBER(x, ravel);
  MEMBER(x, unflatten, 1, {3, 1});
  MEMBER(x, unsqueeze, 1);
  SAME(x.unsqueeze(0).squeeze(0), x);
  MEMBER(x, transpose, 0, 1);
  MEMBER(x, swapaxes, 0, 1);
  MEMBER(x, swapdims, 0, 1);
  MEMBER(x, t);
  SAME(x.permute(1, 0), permute(x, {1, 0}));
  MEMBER(x, movedim, 0, 1);
  MEMBER(x, moveaxis, 0, 1);
  SAME(x.expand(2, 2, 3), expand(x, {2, 2, 3}));
  MEMBER(x, broadcast_to, {2, 2, 3});
  SAME(x.repeat(2, 1), repeat(x, {2, 1}));
  MEMBER(x, tile, {2, 1});
  MEMBER(x, repeat_interleave, 2);
  MEMBER(x, repeat_interleave, index, 0);
  MEMBER(x, select, 1, 2);
  MEMBER(x, slice, 1, 1, 3);
  MEMBER(x, narrow, 1, 1, 2);
  MEMBER(x, split, 2, 1);
  MEMBER(x, chunk, 2, 1);
  MEMBER(x, tensor_split, 2, 1);
  MEMBER(x, unbind);
  MEMBER(x, flip, 1);
  MEMBER(x, fliplr);
  MEMBER(x, flipud);
  MEMBER(x, roll, 1, 1);
  MEMBER(x, rot90);
  MEMBER(a, diag);
  MEMBER(x, diagonal);
  MEMBER(x, diag_embed);
  MEMBER(x, tril);
  MEMBER(x, triu, 1);
  SAME(x.t().contiguous(), x.t());
}

TEST_F(Members, IndexingAndProducts) {
  SAME(x.index({0, ellipsis}), at(x, {0, ellipsis}));
  MEMBER(x, index_put, {0}, 1.0);
  MEMBER(x, gather, 0, places);
  MEMBER(x, index_select, 1, index);
  MEMBER(x, take, index);
  MEMBER(x, take_along_dim, places, 0);
  MEMBER(x, index_add, 0, index, y);
  MEMBER(x, index_copy, 0, index, y);
  MEMBER(x, index_fill, 0, index, 7);
  MEMBER(x, scatter, 0, places, y);
  MEMBER(x, scatter, 0, places, 9);
  MEMBER(x, scatter_add, 0, places, y);
  MEMBER(x, scatter_reduce, 0, places, y, "amax");
  EXPECT_THROW(x.scatter_reduce(0, places, y, "max"), ArgumentError);
  MEMBER(x, masked_fill, x > 0, 3);
  MEMBER(x, masked_select, x > 0);
  MEMBER(x, masked_scatter, x > 0, y);
  MEMBER(x, nonzero);
  MEMBER(x, argwhere);
  MEMBER(x, matmul, y.t());
  MEMBER(x, mm, y.t());
  SAME(x[0].dot(y[0]), dot(x[0], y[0]));
  SAME(x[0].vdot(y[0]), vdot(x[0], y[0]));
  SAME(x.mv(y[0]), mv(x, y[0]));
  SAME(x[0].outer(y[0]), outer(x[0], y[0]));
  MEMBER(x, inner, y);
  MEMBER(x, kron, y);
  MEMBER(x, cross, y);
  SAME(x.unsqueeze(0).bmm(y.t().unsqueeze(0)), bmm(x.unsqueeze(0), y.t().unsqueeze(0)));
  SAME(a.addmm(x, y.t(), 2, 3), addmm(a, x, y.t(), {.beta = 2, .alpha = 3}));
  SAME(index.to(f32).addmv(x, y[0]), addmv(index.to(f32), x, y[0]));
  SAME(a.addr(x[0].narrow(0, 0, 2), y[0].narrow(0, 0, 2)),
       addr(a, x[0].narrow(0, 0, 2), y[0].narrow(0, 0, 2)));
  MEMBER(a, det);
  MEMBER(a, logdet);
  MEMBER(a, inverse);
  MEMBER(a, pinverse);
  MEMBER(a, matrix_exp);
  MEMBER(a, matrix_power, 2);
  SAME(a.cholesky(), linalg::cholesky(a));
  SAME(a.slogdet().logabsdet, linalg::slogdet(a).logabsdet);
}

TEST_F(Members, WriteInPlace) {
  IN_PLACE(x, abs);
  IN_PLACE(x, neg);
  IN_PLACE(x, sign);
  IN_PLACE(x, square);
  IN_PLACE(x, exp);
  IN_PLACE(x, expm1);
  IN_PLACE(u, sqrt);
  IN_PLACE(u, rsqrt);
  IN_PLACE(u, log);
  IN_PLACE(u, log2);
  IN_PLACE(u, log10);
  IN_PLACE(u, log1p);
  IN_PLACE(x, reciprocal);
  IN_PLACE(x, sin);
  IN_PLACE(x, cos);
  IN_PLACE(x, tanh);
  IN_PLACE(x, erf);
  IN_PLACE(x, relu);
  IN_PLACE(x, sigmoid);
  IN_PLACE(x, floor);
  IN_PLACE(x, ceil);
  IN_PLACE(x, round);
  IN_PLACE(x, trunc);
  IN_PLACE(x, frac);
  IN_PLACE(x, nan_to_num);
  IN_PLACE(x, add, y);
  IN_PLACE(x, sub, 1);
  IN_PLACE(x, mul, y);
  IN_PLACE(x, div, y);
  IN_PLACE(x, pow, 2);
  IN_PLACE(x, remainder, y);
  IN_PLACE(x, fmod, y);
  IN_PLACE(x, floor_divide, y);
  IN_PLACE(x, clamp, -1, 1);
  IN_PLACE(x, clip, -1, 1);
  IN_PLACE(x, clamp_min, 0);
  IN_PLACE(x, clamp_max, 0);
  IN_PLACE(x, lerp, y, 0.5);
  IN_PLACE(x, addcmul, u, y);
  IN_PLACE(x, addcdiv, u, y);
  IN_PLACE(a, addmm, x, y.t());
  IN_PLACE(x, masked_fill, x > 0, 3);
  IN_PLACE(x, masked_scatter, x > 0, y);
  IN_PLACE(x, index_put, {0}, 1.0);
  IN_PLACE(x, index_add, 0, index, y);
  IN_PLACE(x, index_copy, 0, index, y);
  IN_PLACE(x, index_fill, 0, index, 7);
  IN_PLACE(x, scatter, 0, places, y);
  IN_PLACE(x, scatter, 0, places, 9);
  IN_PLACE(x, scatter_add, 0, places, y);
  IN_PLACE(x, tril);
  IN_PLACE(x, triu);
}

TEST_F(Members, InPlaceRecordsGradients) {
  Variable leaf = u.clone().requires_grad_();
  Variable z = leaf * 2;
  z.log_().clamp_min_(-1.0);
  z.sum().backward();
  const Variable by_functions = grad(clamp_min(log(leaf * 2), -1.0).sum(), leaf);
  SAME(leaf.grad(), by_functions);
}

TEST_F(Members, InPlaceRefusesOtherTypesAndShapes) {
  EXPECT_THROW(n.log_(), DTypeError);
  EXPECT_THROW(n.clamp_(0.5, 1.5), DTypeError);
  Variable row = x[0].clone();
  EXPECT_THROW(row.clamp_min_(y), ShapeError);
  Variable leaf = x.clone().requires_grad_();
  EXPECT_THROW(leaf.abs_(), AutogradError);
}

TEST_F(Members, Random) {
  manual_seed(3);
  const Variable first = u.bernoulli();
  manual_seed(3);
  SAME(bernoulli(u), first);
  EXPECT_EQ(u.multinomial(2).shape(), (Shape{2, 2}));
  Variable z = zeros({1000});
  z.uniform_(1, 2);
  EXPECT_GE(z.min().item(), 1);
  z.normal_(5, 0.1);
  EXPECT_NEAR(z.mean().item(), 5, 0.05);
  z.exponential_(2);
  EXPECT_NEAR(z.mean().item(), 0.5, 0.1);
}

}  // namespace
