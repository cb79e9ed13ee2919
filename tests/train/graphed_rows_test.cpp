// Segments with kernels of whole rows (softmax, norms, sums of rows) and with operands that
// correspond to rows: columns, slices of rows, masks. They give the bits of separate kernels.
#include <algorithm>
#include <cmath>
#include <random>

#include "core/autograd/derivatives.h"
#include "core/dispatch/implementations.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/complex.h"
#include "ops/dropout.h"
#include "ops/fft.h"
#include "ops/index.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/norm_composed.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/train/expect_same_bits.h"

namespace tapegrad::testing {

Device step_device() { return cpu; }

namespace {

using Variables = std::vector<Variable>;

Variable leaf(const Variable& x) { return x.detach().requires_grad_(); }

Variable softmax_by_hand(const Variable& x) {
  const Variable e = exp(x - amax(x, {-1}, true).detach());
  return e / sum(e, {-1}, true);
}

Variable layer_norm_by_hand(const Variable& x, const Variable& weight, const Variable& bias) {
  const Variable centred = x - mean(x, {-1}, true);
  return centred * rsqrt(mean(square(centred), {-1}, true) + 1e-5) * weight + bias;
}

TEST(SegmentOfRows, SoftmaxByHandWithItsGradientIsOne) {
  for (const DType dtype : {f32, f64, bf16})
    expect_same_bits(
        [](GraphedStep::Inputs in) -> Variables {
          const Variable x = leaf(in[0]);
          const Variable y = softmax_by_hand(x * 0.125);
          const Variable loss = sum(y * y * in[1]);
          loss.backward();
          return {loss, x.grad()};
        },
        {randn({3, 140, 96}).to(dtype), randn({3, 140, 96}).to(dtype)},
        dtype == bf16 ? "" : "in 1 segments");
}

TEST(GraphedStep, RecordsAConvolutionByFft) {
  expect_same_bits(
      [](GraphedStep::Inputs in) -> Variables {
        const Variable filter = leaf(in[1]);
        const Variable product = complex_mul(fft::rfft(in[0], 64), fft::rfft(filter, 64));
        const Variable loss = sum(square(fft::irfft(product, 64)));
        loss.backward();
        return {loss, filter.grad()};
      },
      {randn({3, 32}), randn({3, 32})});
}

/// Probabilities of attention, with the mask of the case.
Variables attention_step(int mask, GraphedStep::Inputs in) {
  const Variable x = leaf(in[0]);
  Variable scores = x * 0.125;
  const int64_t rows = x.size(2), columns = x.size(3);
  if (mask == 0) scores = masked_fill(scores, in[1] > 0.5, -1e9);  // of rows and columns
  if (mask == 1)                                                   // of examples and columns
    scores = masked_fill(scores, reshape(in[2] > 1.0, {x.size(0), 1, 1, columns}), -1e9);
  if (mask == 2) scores = scores + reshape(in[1], {1, 1, rows, columns});
  if (mask == 3) scores = scores + reshape(in[2], {x.size(0), 1, 1, columns});
  const Variable shares = mask % 2 == 0 ? softmax(scores, -1) : softmax_by_hand(scores);
  const Variable y = dropout(shares, 0.2);
  const Variable loss = sum(y * y);
  loss.backward();
  return {loss, y, x.grad()};
}

TEST(SegmentOfRows, MasksOfAttentionAreRepeated) {
  for (int mask = 0; mask < 5; ++mask) {
    SCOPED_TRACE(mask);
    for (const int64_t rows : {48, 96})
      expect_same_bits([&](GraphedStep::Inputs in) { return attention_step(mask, in); },
                       {randn({3, 2, rows, 128}), randn({rows, 128}), randn({3, 128})},
                       "in 1 segments");
  }
}

TEST(GraphedStep, RecordsAGradientPenaltyThroughAttention) {
  expect_same_bits(
      [](GraphedStep::Inputs in) -> Variables {
        const Variable q = leaf(in[0]);
        const Variable y = sum(square(scaled_dot_product_attention(q, in[1], in[2])));
        const Variable slope = grad(y, Variables{q}, {}, {.create_graph = true})[0];
        sum(square(slope)).backward();
        return {y, slope.detach(), q.grad()};
      },
      {randn({2, 5, 4}), randn({2, 7, 4}), randn({2, 7, 3})});
}

TEST(SegmentOfRows, NormsJoinWhatIsAroundThem) {
  for (const DType dtype : {f32, f64, bf16})
    for (int kind = 0; kind < 4; ++kind) {
      SCOPED_TRACE(kind);
      expect_same_bits(
          [&](GraphedStep::Inputs in) -> Variables {
            const Variable x = leaf(in[0]), weight = leaf(in[1]), bias = leaf(in[2]);
            Variable y = x + dropout(x * 2.0, 0.1);
            if (kind == 0) y = layer_norm(y, {72}, weight, bias);
            if (kind == 1) y = layer_norm(y, {72});
            if (kind == 2) y = layer_norm_by_hand(y, weight, bias);
            if (kind == 3) y = rms_norm(y, {72}, weight);
            const Variable z = gelu(y) * 0.5 + x;
            const Variable loss = mean(z * z);
            loss.backward();
            Variables results{loss, z, x.grad()};
            if (weight.grad().defined()) results.push_back(weight.grad());
            if (bias.grad().defined()) results.push_back(bias.grad());
            return results;
          },
          {randn({5, 128, 72}).to(dtype), randn({72}).to(dtype), randn({72}).to(dtype)});
    }
}

/// Sets the number of threads for a scope. One thread joins no values that stay in its cache.
class Threads {
 public:
  explicit Threads(int64_t count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }

 private:
  const int64_t before_ = get_num_threads();
};

TEST(SegmentOfRows, ForwardAndBackwardOfALayerNormAreOne) {
  const Threads two(2);
  expect_same_bits(
      [](GraphedStep::Inputs in) -> Variables {
        const Variable x = leaf(in[0]), weight = leaf(in[1]), bias = leaf(in[2]);
        const Variable y = layer_norm(x * 2.0, {96}, weight, bias) + x;
        sum(square(y)).backward();
        return {x.grad(), weight.grad(), bias.grad()};
      },
      {randn({1024, 96}), randn({96}), randn({96})}, "in 1 segments");
}

/// Distances of all pairs by broadcasting: short rows, sums over middle dimensions and sums over
/// rows of more than kBlock elements.
TEST(SegmentOfRows, DistancesOfAllPairsAreOne) {
  const Threads two(2);
  for (const int64_t width : {2, 3, 16, 31, 32})
    for (const DType dtype : {f32, f64}) {
      SCOPED_TRACE(width);
      expect_same_bits(
          [](GraphedStep::Inputs in) -> Variables {
            const Variable x = leaf(in[0]), y = leaf(in[1]);
            const Variable d = mean(square(unsqueeze(x, 1) - unsqueeze(y, 0)), {2});
            const Variable loss = sum(exp(-d));
            loss.backward();
            return {loss, d, x.grad(), y.grad()};
          },
          {randn({260, width}, dtype), randn({128, width}, dtype)},
          dtype == f32 || width >= 32 ? "in 1 segments" : "");
    }
}

TEST(SegmentOfRows, ExtremesOfShortRowsJoin) {
  for (const DType dtype : {f32, f64, bf16})
    for (const int64_t width : {3, 7, 20, 33}) {
      SCOPED_TRACE(width);
      expect_same_bits(
          [](GraphedStep::Inputs in) -> Variables {
            const Variable x = in[0] * 0.5, most = amax(x, {-1}, true);
            return {most, amin(x, {-1}), sum(exp(x - most), {-1}), sum(x * x, {1})};
          },
          {randn({2000, 9, width}).to(dtype)}, dtype == f32 ? "in 1 segments" : "");
    }
}

/// Rows that an index names are copied into a block of the segment that reads them.
TEST(SegmentOfRows, SelectedRowsJoinWhatReadsThem) {
  const Variable from = randint(0, 300, {9000}), to = randint(0, 300, {9000});
  const Variable table = randint(0, 300, {40, 50});
  for (const DType dtype : {f32, f64})
    for (const int64_t width : {1, 5, 16, 44}) {
      SCOPED_TRACE(width);
      expect_same_bits(
          [=](GraphedStep::Inputs in) -> Variables {
            const Variable x = leaf(in[0]);
            const Variable messages = index_select(x, 0, from) * exp(-index_select(x, 0, to));
            const Variable loss = sum(tanh(messages)) + sum(square(embedding(table, x) * 0.5));
            loss.backward();
            return {loss, x.grad()};
          },
          {randn({300, width}).to(dtype)}, width >= 16 ? "  index_select at" : "");
    }
}

/// The gradient of a factor is one call, without memory for the products, or a product and a sum,
/// which can join a segment.
TEST(SegmentOfRows, GradientsOfBroadcastFactorsKeepTheirBits) {
  for (const int64_t width : {16, 40, 300})
    expect_same_bits(
        [](GraphedStep::Inputs in) -> Variables {
          const Variable m = leaf(in[0]), u = leaf(in[1]);
          const Variable p = softmax(sum(m * u.unsqueeze(1), -1), -1);
          const Variable loss = sum(square(sum(p.unsqueeze(-1) * m, 1)));
          loss.backward();
          return {loss, m.grad(), u.grad()};
        },
        {randn({6, 50, width}), randn({6, width})});
}

TEST(SegmentOfRows, SlicesOfRowsAreOperands) {
  expect_same_bits(
      [](GraphedStep::Inputs in) -> Variables {
        const Variable x = leaf(in[0]);
        const Variables parts = chunk(x * 2.0, 3, -1);
        const Variable y = silu(parts[0]) * parts[1] + tanh(parts[2]);
        const Variable turned = cat({-narrow(y, -1, 20, 20), narrow(y, -1, 0, 20)}, -1);
        const Variable loss = sum(y * turned);
        loss.backward();
        return {loss, y, turned, x.grad()};
      },
      {randn({4, 40, 120})});
  Variable target = zeros({160, 120});
  expect_same_bits(
      [&](GraphedStep::Inputs in) -> Variables {
        const Variable x = in[0] * 2.0;
        Variable left = narrow(target, 1, 0, 60), right = narrow(target, 1, 60, 60);
        copy_(left, narrow(x, 1, 30, 60));
        copy_(right, left * 3.0);
        add_(left, narrow(x, 1, 60, 60) * narrow(target, 1, 90, 1));
        return {target * 1.0, narrow(target, 1, 30, 60) + left};
      },
      {randn({160, 120})});
}

/// Ops on matrices whose rows remain rows.
Variables drawn_step(uint64_t seed, GraphedStep::Inputs in) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  Variables leaves, wide, columns;
  for (size_t i = 0; i < 5; ++i) leaves.push_back(leaf(in[i]));
  wide = {leaves[0], leaves[1]}, columns = {leaves[3]};
  const Variable &row = leaves[2], &mask = in[5];
  const auto any = [&](const Variables& from) { return from[below(from.size())]; };
  for (int i = 0; i < 22; ++i) {
    const Variable a = any(wide), b = any(wide), c = any(columns);
    Variable y;
    switch (below(18)) {
      case 0:
        y = a + b;
        break;
      case 1:
        y = a * c;
        break;
      case 2:
        y = a - mean(b, {-1}, true);
        break;
      case 3:
        y = tanh(a) * row;
        break;
      case 4:
        y = softmax(a, -1) * 3.0;
        break;
      case 5:
        y = log_softmax(a, -1) * 0.25;
        break;
      case 6:
        y = layer_norm(a, {a.size(-1)}, row, leaves[4]);
        break;
      case 7:
        y = softmax_by_hand(a);
        break;
      case 8:
        y = dropout(a, 0.2) + b;
        break;
      case 9:
        y = rms_norm(a, {a.size(-1)}, row);
        break;
      case 10:
        y = masked_fill(a, mask, -2.0);
        break;
      case 11:
        y = matmul(a, in[6]) * 0.05;
        break;
      case 12:
        columns.push_back(norm(a, 2.0, {-1}, true) * 0.1 + c);
        continue;
      case 13:
        columns.push_back(c * logsumexp(b, {-1}, true));
        continue;
      case 14:
        columns.push_back(tanh(c) + var(a, {-1}, {.keepdim = true}));
        continue;
      case 15: {
        const Variables halves = chunk(a, 2, -1);
        y = cat({halves[1] * c, -halves[0]}, -1);
        break;
      }
      case 16:
        y = a + sum(b, {0}, true) * 0.01;
        break;
      default:
        y = (a.to(f64) * c.to(f64)).to(f32);
        break;
    }
    wide.push_back(below(3) == 0 ? tanh(y) : y);
  }
  Variable loss = mean(columns.back());
  for (size_t i = 0; i < 3; ++i) loss = loss + mean(square(wide[wide.size() - 1 - i]));
  loss.backward();
  Variables results{loss, wide.back()};
  for (const Variable& x : leaves)
    if (x.grad().defined()) results.push_back(x.grad());
  return results;
}

// Sums over rows of narrow layers are those of pieces of rows, one after the other.
TEST(SegmentOfRows, ThreadsChangeNoGradientOfNarrowLayers) {
  const int64_t threads = get_num_threads();
  for (const int64_t rows : {323, 4096, 4487, 12800})
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{3, 2}, {40, 33}}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(in));
      const auto step = [](GraphedStep::Inputs given) -> Variables {
        const Variable w = leaf(given[1]), b = leaf(given[2]), v = leaf(given[3]);
        const Variable y = linear(tanh(linear(given[0].to(w.dtype()), w, b)), v);
        sum(square(y) * (1.0 / double(y.size(0)))).backward();
        return {w.grad(), b.grad(), v.grad()};
      };
      std::vector<std::vector<double>> first;
      for (const int count : {1, 2, 5}) {
        set_num_threads(count);
        manual_seed(1);
        const Variables inputs{randn({rows, in}), randn({out, in}), randn({out}),
                               randn({out, out})};
        expect_same_bits(step, inputs);
        const Variables results = step(inputs);
        std::vector<std::vector<double>> values;
        for (const Variable& x : results) values.push_back(x.to_vector<double>());
        if (first.empty() || only_fallbacks()) first = values;
        EXPECT_EQ(values, first) << count;
        Variables doubles;
        for (const Variable& x : inputs) doubles.push_back(x.to(f64));
        const Variables exact = step(doubles);
        for (size_t i = 0; i < exact.size(); ++i)
          EXPECT_LT(amax(abs(results[i].to(f64) - exact[i])).item(),
                    1e-4 * amax(abs(exact[i])).item());
      }
    }
  set_num_threads(threads);
}

// With one thread, blocks of narrow layers cost more than values that stay in the cache.
TEST(SegmentOfRows, NarrowLayersOfOneThreadJoinIfThisSavesMemory) {
  if (only_fallbacks()) GTEST_SKIP() << "TAPEGRAD_FAST_PATHS=0: narrow layers have no rows";
  const Threads one(1);
  const auto fn = [](GraphedStep::Inputs given) -> Variables {
    const Variable w = leaf(given[1]), v = leaf(given[2]);
    mean(square(linear(tanh(linear(given[0], w)), v))).backward();
    return {w.grad(), v.grad()};
  };
  for (const int64_t rows : {2048, 65536}) {
    const Variables inputs{randn({rows, 32}), randn({32, 32}), randn({32, 32})};
    expect_same_bits(fn, inputs);
    GraphedStep step(fn, inputs, {.warmup = 1});
    for (int i = 0; i < 3; ++i) step.run_all(inputs);
    const std::string plan = step.explain();
    const std::string segments =
        plan.substr(0, std::min(plan.find("not joined"), plan.find("at most")));
    EXPECT_EQ(segments.find("linear") != std::string::npos, rows > 2048) << plan;
  }
}

TEST(SegmentOfRows, DrawnStepsHaveTheBitsOfEagerOnes) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    manual_seed(seed);
    const Shape shape = seed % 2 == 0 ? Shape{160, 96} : Shape{4, 48, 64};
    const int64_t n = shape[-1];
    Shape column = shape;
    column[-1] = 1;
    expect_same_bits([&](GraphedStep::Inputs in) { return drawn_step(seed, in); },
                     {randn(shape), randn(shape), randn({n}), randn(column), randn({n}),
                      rand(shape) > 0.8, randn({n, n})});
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace tapegrad::testing
