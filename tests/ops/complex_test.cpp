// Complex numbers as pairs, compared with std::complex.
#include "ops/complex.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/fft.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Number = std::complex<double>;

std::vector<Number> numbers(const Variable& z) {
  const std::vector<double> parts = z.to_vector<double>();
  std::vector<Number> result;
  for (size_t i = 0; i < parts.size(); i += 2) result.emplace_back(parts[i], parts[i + 1]);
  return result;
}

void expect_equal(const Variable& got, const std::function<Number(size_t)>& expected) {
  const std::vector<Number> values = numbers(got);
  ASSERT_FALSE(values.empty());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_LT(std::abs(values[i] - expected(i)), 1e-14 * (1 + std::abs(expected(i)))) << i;
}

struct Complex : testing::Test {
  Complex() { manual_seed(3); }
  Variable a = randn({5, 2}, {.dtype = f64}), b = randn({5, 2}, {.dtype = f64});
  std::vector<Number> x = numbers(a), y = numbers(b);
};

TEST_F(Complex, ArithmeticOfPairs) {
  expect_equal(complex_mul(a, b), [&](size_t i) { return x[i] * y[i]; });
  expect_equal(complex_div(a, b), [&](size_t i) { return x[i] / y[i]; });
  expect_equal(conj(a), [&](size_t i) { return std::conj(x[i]); });
  expect_equal(complex_mul(a, b[0]), [&](size_t i) { return x[i] * y[0]; });
}

/// float32 has a kernel of its own, other types compose ops: values and gradients of both agree.
TEST_F(Complex, ProductsOfFloats) {
  for (int64_t n : {1, 2, 7, 8, 9, 31, 1500}) {
    const Variable wide = randn({3, n + 1, 2}), flat = randn({3, 2 * n + 1});
    const std::vector<std::pair<Variable, Variable>> operands = {
        {randn({3, n, 2}), randn({3, n, 2})},
        {randn({3, n, 2}), randn({n, 2})},
        {randn({3, 1, 2}), randn({1, n, 2})},
        {randn({n, 3, 2}).transpose(0, 1), randn({2})},
        {slice(wide, 1, 1, n + 1), randn({2, 3, n}).permute({1, 2, 0})},
        {reshape(slice(flat, 1, 1, 2 * n + 1), {3, n, 2}), randn({3, n, 2})}};
    for (const auto& [left, right] : operands) {
      Variable a = left.detach().requires_grad_(), b = right.detach().requires_grad_();
      Variable c = left.to(f64).requires_grad_(), d = right.to(f64).requires_grad_();
      const auto twice = [](const Variable& x, const Variable& y) {
        return complex_mul(complex_mul(x, y), x);
      };
      const auto expect_near = [&](const Variable& got, const Variable& wanted) {
        ASSERT_EQ(got.shape(), wanted.shape());
        const double size = 1 + wanted.abs().max().item();
        EXPECT_LT((got.to(f64) - wanted).abs().max().item() / size, 1e-5) << a.shape() << b.shape();
      };
      const Variable y = twice(a, b), z = twice(c, d);
      EXPECT_EQ(y.dtype(), f32);
      expect_near(y, z);
      const auto first = grad(sum(y * y), {a, b}, {.create_graph = true});
      const auto wanted = grad(sum(z * z), {c, d}, {.create_graph = true});
      for (size_t i : {0, 1}) expect_near(first[i], wanted[i]);
      const auto second = grad(sum(first[0]) + sum(first[1] * first[1]), {a, b});
      const auto second_wanted = grad(sum(wanted[0]) + sum(wanted[1] * wanted[1]), {c, d});
      for (size_t i : {0, 1}) expect_near(second[i], second_wanted[i]);
    }
  }
}

TEST_F(Complex, PartsAndPolarForm) {
  EXPECT_TRUE(complex(real(a), imag(a)).equal(a));
  expect_equal(polar(complex_abs(a), angle(a)), [&](size_t i) { return x[i]; });
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(complex_abs(a)[i].item(), std::abs(x[size_t(i)]), 1e-14);
    EXPECT_NEAR(angle(a)[i].item(), std::arg(x[size_t(i)]), 1e-14);
  }
  EXPECT_EQ(complex(ones({3, 1}), zeros({4})).shape(), (Shape{3, 4, 2}));
  EXPECT_TRUE(view_as_complex(view_as_real(a)).equal(a));
}

TEST_F(Complex, Gradients) {
  const auto holds = [&](auto f) {
    return bool(gradcheck(f, {a.requires_grad_(), b.requires_grad_()}, {.order = 2}));
  };
  EXPECT_TRUE(holds([](const auto& u, const auto& v) { return complex_mul(u, v); }));
  EXPECT_TRUE(holds([](const auto& u, const auto& v) { return complex_div(u, v); }));
  EXPECT_TRUE(holds([](const auto& u, const auto& v) { return complex_abs(u) * angle(v); }));
  EXPECT_TRUE(holds([](const auto& u, const auto& v) { return polar(real(u), imag(conj(v))); }));
  const Variable zero = zeros({1, 2}).requires_grad_();
  sum(complex_abs(zero)).backward();
  EXPECT_EQ(zero.grad().to_vector<float>(), (std::vector<float>{0, 0}));
}

// The transform of a circular convolution is the product of the transforms.
TEST_F(Complex, ConvolutionTheorem) {
  const Variable u = randn({8}, {.dtype = f64}), v = randn({8}, {.dtype = f64});
  const Variable w = fft::irfft(complex_mul(fft::rfft(u), fft::rfft(v)), {.n = 8});
  for (int64_t k = 0; k < 8; ++k) {
    double expected = 0;
    for (int64_t j = 0; j < 8; ++j) expected += u[j].item() * v[(k - j + 8) % 8].item();
    EXPECT_NEAR(w[k].item(), expected, 1e-13);
  }
}

TEST_F(Complex, RefusesOtherShapes) {
  EXPECT_THROW(real(ones({2, 3})), ShapeError);
  EXPECT_THROW(imag(scalar(1.0)), ShapeError);
  EXPECT_THROW(view_as_complex(ones({4})), ShapeError);
  EXPECT_THROW(complex_mul(a, ones({5})), ShapeError);
  EXPECT_THROW(complex_mul(a, ones({4, 2})), ShapeError);
  EXPECT_THROW(complex_abs(Variable()), ShapeError);
  EXPECT_THROW(complex(ones({2}), ones({3})), ShapeError);
}

// Squares of the parts are beyond the range of the dtype.
TEST_F(Complex, OfAnyMagnitude) {
  for (const double size : {1e-300, 1e-160, 1e160, 1e300}) {
    const Variable z = tensor({{3 * size, -4 * size}}, {.dtype = f64, .requires_grad = true});
    EXPECT_DOUBLE_EQ(complex_abs(z).item(), 5 * size);
    sum(complex_abs(z)).backward();
    EXPECT_DOUBLE_EQ(z.grad().to_vector<double>()[0], 0.6);
    EXPECT_DOUBLE_EQ(z.grad().to_vector<double>()[1], -0.8);
    const Variable one = tensor({{1.0, 2.0}}, {.dtype = f64});
    const Number quotient = numbers(complex_div(one * size, z))[0];
    EXPECT_NEAR(quotient.real(), -0.2, 1e-15) << size;
    EXPECT_NEAR(quotient.imag(), 0.4, 1e-15) << size;
  }
  const Variable half = tensor({{300.0, 400.0}}, {.dtype = f16});
  EXPECT_EQ(complex_abs(half).item(), 500);
  EXPECT_EQ(numbers(complex_div(half, half).to(f64))[0], Number(1, 0));
  const Variable zero = zeros({1, 2}, {.dtype = f64, .requires_grad = true});
  sum(complex_abs(zero)).backward();
  EXPECT_EQ(zero.grad().to_vector<double>(), (std::vector<double>{0, 0}));
}

// A float32 divisor does not round the quotient of a float64 dividend.
TEST_F(Complex, QuotientsOfMixedDtypes) {
  const Variable narrow = b.to(f32);
  const std::vector<Number> divisor = numbers(narrow.to(f64));
  expect_equal(complex_div(a, narrow), [&](size_t i) { return x[i] / divisor[i]; });
  const auto checked = gradcheck([](const auto& in) { return complex_div(in[0], in[1]); },
                                 {a.requires_grad_(), b.requires_grad_()}, {.order = 2});
  EXPECT_TRUE(checked) << checked.message;
}

}  // namespace
}  // namespace tapegrad
