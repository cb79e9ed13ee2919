// set_matmul_precision. On the CPU kMedium rounds operands to bfloat16 if the processor has
// instructions for it, or if the environment demands it (a second run of this file); otherwise it
// changes no bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "core/base/generator.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

bool rounds() {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) return false;  // set to AVX2 by a ctest
#if defined(__x86_64__)
  const char* text = std::getenv("TAPEGRAD_CPU_BFLOAT16");
  if (text != nullptr && std::string_view(text) == "1") return __builtin_cpu_supports("avx512bw");
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

struct Precision {
  explicit Precision(MatmulPrecision precision) { set_matmul_precision(precision); }
  ~Precision() { set_matmul_precision(MatmulPrecision::kHighest); }
};

/// A product and its gradients.
using Products = std::vector<Variable>;
struct Case {
  const char* name;
  std::function<Variable(const Variable&, const Variable&)> product;
  Shape a, b;
};
Variable affine(const Variable& x, const Variable& w) {
  return linear(x, w, squeeze(narrow(w, 1, 0, 1), 1));
}

const Case kCases[] = {
    {"plain", [](auto& a, auto& b) { return matmul(a, b); }, {70, 90}, {90, 130}},
    {"transposed left",
     [](auto& a, auto& b) { return matmul(transpose(a, 0, 1), b); },
     {90, 70},
     {90, 130}},
    {"transposed both",
     [](auto& a, auto& b) { return matmul(transpose(a, 0, 1), transpose(b, 0, 1)); },
     {90, 70},
     {130, 90}},
    {"narrowed",
     [](auto& a, auto& b) { return matmul(narrow(a, 1, 3, 90), narrow(b, 0, 1, 90)); },
     {70, 97},
     {93, 130}},
    {"one row", [](auto& a, auto& b) { return matmul(a, b); }, {1, 900}, {900, 130}},
    {"one column", [](auto& a, auto& b) { return matmul(a, b); }, {700, 130}, {130, 1}},
    {"outer", [](auto& a, auto& b) { return matmul(a, b); }, {300, 1}, {1, 300}},
    {"batch", [](auto& a, auto& b) { return matmul(a, b); }, {3, 130, 140}, {3, 140, 150}},
    {"small batch", [](auto& a, auto& b) { return matmul(a, b); }, {40, 20, 30}, {40, 30, 20}},
    {"layer", [](auto& a, auto& b) { return affine(a, b); }, {100, 300}, {70, 300}},
    {"long layer", [](auto& a, auto& b) { return affine(a, b); }, {600, 80}, {90, 80}},
    {"narrow layer", [](auto& a, auto& b) { return affine(a, b); }, {600, 20}, {30, 20}},
    {"small", [](auto& a, auto& b) { return matmul(a, b); }, {5, 7}, {7, 3}},
    {"nothing", [](auto& a, auto& b) { return matmul(a, b); }, {0, 7}, {7, 3}},
    {"empty sums", [](auto& a, auto& b) { return matmul(a, b); }, {300, 0}, {0, 300}},
};

Products run(const Case& c, Variable a, Variable b, const Variable& dy) {
  a.requires_grad_(), b.requires_grad_();
  Variable y = c.product(a, b);
  const std::vector<Variable> gradients = grad(y, std::vector{a, b}, dy.to(a.dtype()));
  return {y.detach(), gradients[0], gradients[1]};
}
Products run(const Case& c, MatmulPrecision precision, const Variable& a, const Variable& b,
             const Variable& dy) {
  const Precision scope(precision);
  return run(c, a.detach(), b.detach(), dy);
}
Variable wide(const Variable& x) { return x.detach().to(f64); }
Variable like_result(const Case& c, const Variable& a, const Variable& b) {
  return randn(c.product(a, b).shape());
}

TEST(MatmulPrecision, HighIsHighestOnTheCpu) {
  ASSERT_EQ(matmul_precision(), MatmulPrecision::kHighest);
  manual_seed(1);
  for (const Case& c : kCases) {
    const Variable a = randn(c.a), b = randn(c.b), dy = like_result(c, a, b);
    const Products highest = run(c, MatmulPrecision::kHighest, a, b, dy);
    for (const auto precision : {MatmulPrecision::kHigh, MatmulPrecision::kHighest}) {
      const Products again = run(c, precision, a, b, dy);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(again[i].to_vector<float>(), highest[i].to_vector<float>()) << c.name << i;
    }
  }
}

// Each operand has an error of at most 2^-8 of its value, so a sum has an error of at most 2^-7 of
// the sum of its terms' magnitudes.
TEST(MatmulPrecision, MediumIsAsNearAsBFloat16) {
  manual_seed(2);
  int rounded = 0;
  for (const Case& c : kCases) {
    const Variable a = randn(c.a), b = randn(c.b), dy = like_result(c, a, b);
    const Products highest = run(c, MatmulPrecision::kHighest, a, b, dy);
    const Products medium = run(c, MatmulPrecision::kMedium, a, b, dy);
    const Products sizes = run(c, abs(wide(a)), abs(wide(b)), abs(dy));
    for (size_t i = 0; i < 3; ++i) {
      const auto got = medium[i].to_vector<float>(), exact = highest[i].to_vector<float>();
      const auto size = sizes[i].to_vector<double>();
      EXPECT_TRUE(rounds() || got == exact) << c.name << i;
      rounded += got != exact;
      for (size_t k = 0; k < got.size(); ++k)
        ASSERT_LE(std::abs(double(got[k]) - exact[k]), 1.01 / 128 * size[k]) << c.name << i;
    }
  }
  EXPECT_TRUE(!rounds() || rounded > 20) << rounded;
}

// Sums are float32, and only the operands are rounded: large products equal those of the rounded
// matrices.
TEST(MatmulPrecision, MediumRoundsOperandsOnly) {
  if (!rounds()) return;
  manual_seed(3);
  const auto bits = [](const Variable& x) { return x.to(bf16).to(f64); };
  const Variable a = randn({70, 200}), w = randn({130, 200}), b = randn({130}),
                 dy = randn({70, 130});
  const Precision scope(MatmulPrecision::kMedium);
  const auto expect_near = [](const Variable& got, const Variable& wanted) {
    const auto x = got.to_vector<double>(), y = wanted.to_vector<double>();
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4) << i;
  };
  expect_near(linear(a, w, b), linear(bits(a), bits(w), b.to(f64)));
  expect_near(matmul(dy, w), matmul(bits(dy), bits(w)));
  expect_near(matmul(transpose(dy, 0, 1), a), matmul(transpose(bits(dy), 0, 1), bits(a)));
}

// The setting affects neither float16, which has more bits, nor bfloat16.
TEST(MatmulPrecision, SixteenBitTypesKeepEveryBit) {
  manual_seed(6);
  for (const DType dtype : {f16, bf16, f64}) {
    const Case& layer = kCases[9];
    const Variable a = randn(layer.a).to(dtype), b = randn(layer.b).to(dtype),
                   dy = like_result(layer, a, b);
    const Products highest = run(layer, MatmulPrecision::kHighest, a, b, dy);
    const Products medium = run(layer, MatmulPrecision::kMedium, a, b, dy);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(medium[i].to_vector<double>(), highest[i].to_vector<double>()) << dtype << i;
  }
}

// Sums of bfloat16 products are float32, rounded once, also by a processor's bfloat16 instructions.
TEST(MatmulPrecision, BFloat16IsSummedInFloat) {
  manual_seed(7);
  const auto rounded = [](const Shape& shape) { return randn(shape).to(bf16); };
  for (const Case& c : kCases) {
    const Variable a = rounded(c.a), b = rounded(c.b), dy = rounded(c.product(a, b).shape());
    const Products got = run(c, a, b, dy), exact = run(c, wide(a), wide(b), dy.to(f64));
    const Products sizes = run(c, abs(wide(a)), abs(wide(b)), abs(dy.to(f64)));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(got[i].dtype(), bf16);
      const auto x = got[i].to_vector<double>(), y = exact[i].to_vector<double>(),
                 size = sizes[i].to_vector<double>();
      if (i == 2 && std::string_view(c.name).ends_with("layer")) continue;  // b is also a bias
      for (size_t k = 0; k < x.size(); ++k)
        ASSERT_NEAR(x[k], y[k], 0x1p-8 * std::abs(y[k]) + 0x1p-17 * size[k]) << c.name << i;
    }
  }
}

TEST(MatmulPrecision, ABackwardPassGoesByItsOwnMoment) {
  manual_seed(4);
  Variable x = randn({80, 200}), w = randn({90, 200});
  x.requires_grad_(), w.requires_grad_();
  const Variable dy = randn({80, 90}), inputs[] = {x, w};
  const auto gradients = [&](MatmulPrecision forward, MatmulPrecision backward) {
    Variable y;
    {
      const Precision scope(forward);
      y = linear(x, w);
    }
    const Precision scope(backward);
    return grad(y, inputs, dy)[1].to_vector<float>();
  };
  constexpr auto kHighest = MatmulPrecision::kHighest, kMedium = MatmulPrecision::kMedium;
  EXPECT_EQ(gradients(kHighest, kHighest), gradients(kMedium, kHighest));
  EXPECT_EQ(gradients(kHighest, kMedium), gradients(kMedium, kMedium));
  EXPECT_EQ(gradients(kHighest, kHighest) != gradients(kHighest, kMedium), rounds());
}

// bfloat16 represents whole numbers up to 256, and the sums are exact.
TEST(MatmulPrecision, WholeNumbersStayExactForAnyNumberOfThreads) {
  const int64_t before = get_num_threads();
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (const Case& c : kCases) {
      RandomGenerator generator(5);
      const auto whole = [&](const Shape& shape) {
        return randint(-8, 9, shape, {.dtype = f32}, generator);
      };
      const Variable a = whole(c.a), b = whole(c.b), dy = whole(c.product(a, b).shape());
      const Products medium = run(c, MatmulPrecision::kMedium, a, b, dy);
      const Products exact = run(c, wide(a), wide(b), dy);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(medium[i].to_vector<double>(), exact[i].to_vector<double>())
            << c.name << i << ", " << threads << " threads";
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tapegrad
