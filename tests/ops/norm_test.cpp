#include "ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/expect_near.h"

namespace tapegrad {
namespace {

using testing::expect_near;
using Doubles = std::vector<double>;
Doubles values(const Variable& x) { return x.to_vector<double>(); }
Variable make(const Doubles& numbers, const Shape& shape, DType dtype = f64) {
  return tensor(numbers, shape, {.dtype = dtype});
}
Variable wave(const Shape& shape, DType dtype = f64) {
  Doubles numbers(numel(shape));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(double(i * i % 97) + 0.5);
  return make(numbers, shape, dtype);
}

TEST(BatchNorm, T44_RunningStatistics) {
  for (bool recording : {true, false}) {
    const Recording mode(recording);
    const Variable x = make({0, 0, 2, 4}, {2, 2});
    const Variable mean = make({0, 0}, {2}), var = make({1, 1}, {2});
    const uint32_t version = mean.value().storage().version();
    const Variable y =
        batch_norm(x, mean, var, {}, {}, {.training = true, .momentum = 0.1, .eps = 0});
    expect_near(values(y), {-1, -1, 1, 1}, 1e-15);
    expect_near(values(mean), {0.1, 0.2}, 1e-16);
    expect_near(values(var), {1.1, 1.7}, 3e-16);
    EXPECT_GT(mean.value().storage().version(), version);
  }
}

// The kernel has the bits of running * (1 - momentum) + batch * momentum in the type of the
// statistics, for running statistics of any dtype and layout.
TEST(BatchNorm, T44_RunningStatisticsOfAnyDtype) {
  for (const DType dtype : {f32, f64, bf16})
    for (const DType kept : {f16, bf16, f32, f64})
      for (const bool strided : {false, true}) {
        const DType wide = dtype == f64 ? f64 : f32;
        const Variable x = wave({4, 3, 5}, dtype);
        Variable now[2] = {zeros({3}, {.dtype = wide}), zeros({3}, {.dtype = wide})};
        batch_norm(x, now[0], now[1], {}, {}, {.training = true, .momentum = 1});
        Variable running[2], expected[2];
        for (int i = 0; i < 2; ++i) {
          const Variable rows = wave({3, 2}, kept);
          running[i] = strided ? select(rows, 1, i) : clone(select(rows, 1, i));
          expected[i] = (running[i].to(wide) * (1 - 0.3) + now[i] * 0.3).to(kept);
        }
        batch_norm(x, running[0], running[1], {}, {}, {.training = true, .momentum = 0.3});
        for (int i = 0; i < 2; ++i)
          EXPECT_EQ(values(running[i]), values(expected[i])) << dtype << kept << strided << i;
      }
}

TEST(BatchNorm, T44_EvaluationUsesAndKeepsThem) {
  Variable x = make({0, 0, 2, 4}, {2, 2}).requires_grad_();
  Variable weight = make({2, 3}, {2}).requires_grad_(), bias = make({5, 7}, {2}).requires_grad_();
  const Variable mean = make({1, 2}, {2}), var = make({4, 16}, {2});
  const Variable y = batch_norm(x, mean, var, weight, bias, {.eps = 0});
  EXPECT_EQ(values(y), (Doubles{4, 5.5, 6, 8.5}));
  EXPECT_EQ(values(mean), (Doubles{1, 2}));
  EXPECT_EQ(values(var), (Doubles{4, 16}));
  zero_(const_cast<Variable&>(mean));  // later changes do not affect backward
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 0.75, 1, 0.75}));
  EXPECT_EQ(values(weight.grad()), (Doubles{0, 0}));
  EXPECT_EQ(values(bias.grad()), (Doubles{2, 2}));
}

TEST(BatchNorm, T43_EmptyBatchAndOneValue) {
  const Variable mean = make({1, 2}, {2}), var = make({3, 4}, {2});
  Variable weight = make({2, 3}, {2}).requires_grad_();
  const Variable y = batch_norm(make({}, {0, 2, 5}), mean, var, weight, {}, {.training = true});
  EXPECT_EQ(y.shape(), (Shape{0, 2, 5}));
  EXPECT_EQ(values(mean), (Doubles{1, 2}));
  EXPECT_EQ(values(var), (Doubles{3, 4}));
  sum(y).backward();
  EXPECT_EQ(values(weight.grad()), (Doubles{0, 0}));
  EXPECT_THROW(batch_norm(ones({1, 2}, {.dtype = f64}), mean, var, {}, {}, {.training = true}),
               ArgumentError);
  EXPECT_THROW(batch_norm(ones({1, 2, 1, 1}), {}, {}, {}, {}, {.training = true}), ArgumentError);
  EXPECT_EQ(values(mean), (Doubles{1, 2}));
}

TEST(BatchNorm, Errors) {
  const Variable x = ones({4, 3}), two = ones({2}), three = ones({3});
  EXPECT_THROW(batch_norm(x, {}, {}), ArgumentError);
  EXPECT_THROW(batch_norm(x, three, {}, {}, {}, {.training = true}), ArgumentError);
  EXPECT_THROW(batch_norm(x, two, two), ShapeError);
  EXPECT_THROW(batch_norm(x, three, three, two), ShapeError);
  EXPECT_THROW(batch_norm(three, three, three), ShapeError);
  EXPECT_THROW(batch_norm(x, three, three, three.to(f64)), DTypeError);
  EXPECT_THROW(batch_norm(x.to(i64), three, three), DTypeError);
}

/// Values and gradients of larger inputs, compared with the definition composed of other ops.
TEST(BatchNorm, AgreesWithItsDefinition) {
  for (const Shape& shape : {Shape{50, 300}, Shape{6, 5, 1200}, Shape{8, 3, 7, 9}, Shape{4, 1100}})
    for (bool training : {true, false}) {
      const int64_t channels = shape[1];
      Dims dims{0};
      Shape wide{1, channels};
      for (int i = 2; i < shape.rank(); ++i) dims.push_back(i), wide.push_back(1);
      Variable x = wave(shape).requires_grad_();
      Variable w = (wave({channels}) + 2.0).detach().requires_grad_();
      Variable b = wave({channels}).requires_grad_();
      const Variable mu = wave({channels}), sigma = (wave({channels}) + 1.5).detach();
      const Variable middle = training ? mean(x, dims, true) : reshape(mu, wide);
      const Variable spread =
          training ? var(x, dims, {.correction = 0, .keepdim = true}) : reshape(sigma, wide);
      const Variable expected =
          (x - middle) / sqrt(spread + 1e-5) * reshape(w, wide) + reshape(b, wide);
      const Variable y = batch_norm(x, clone(mu), clone(sigma), w, b, {.training = training});
      expect_near(values(y), values(expected), 1e-12);
      const Variable seed = wave(shape) * wave(shape);
      const Variable xs[] = {x, w, b};
      std::vector<Doubles> got, recorded, wanted;
      for (const Variable& input : xs) {
        got.push_back(values(grad(sum(y * seed), input, {.retain_graph = true})));
        recorded.push_back(values(grad(sum(y * seed), input, {.create_graph = true})));
        wanted.push_back(values(grad(sum(expected * seed), input, {.retain_graph = true})));
      }
      for (size_t i = 0; i < 3; ++i) {
        expect_near(got[i], wanted[i], 1e-11);
        expect_near(recorded[i], wanted[i], 1e-11);
      }
    }
}

TEST(BatchNorm, SecondOrder) {
  const Variable x = wave({3, 2, 2}).requires_grad_(), w = wave({2}).requires_grad_(),
                 b = wave({2}).requires_grad_();
  for (bool training : {true, false}) {
    const auto f = [&](const std::vector<Variable>& in) {
      return batch_norm(in[0], zeros({2}, {.dtype = f64}), ones({2}, {.dtype = f64}), in[1], in[2],
                        {.training = training, .eps = 1e-3});
    };
    const GradcheckResult result = gradcheck(f, {x, w, b}, {.order = 2});
    EXPECT_TRUE(result) << result.message;
  }
}

TEST(BatchNorm, SixteenBitsKeepFloatStatistics) {
  Variable x = full({512, 2}, 300.0, {.dtype = f16});  // the sum exceeds float16
  const Variable mean = zeros({2}), var = ones({2});
  const Variable y = batch_norm(x, mean, var, {}, {}, {.training = true, .momentum = 1.0});
  EXPECT_EQ(values(mean), (Doubles{300, 300}));
  EXPECT_EQ(values(var), (Doubles{0, 0}));
  for (double value : values(y)) EXPECT_EQ(value, 0);
}

// A model in mixed precision: parameters and statistics are float32. Values of PyTorch 1.13.
TEST(BatchNorm, SixteenBitsWithFloatParameters) {
  struct Expected {
    bool training;
    Doubles y, dx, dweight, mean, var;
  };
  for (const Expected& e :
       {Expected{
            .training = true,
  .y = {-0.11865234375, 0.03857421875, 0.75390625, 2.75, -1.4296875, -1.3125, 1.1953125, -2.671875},
  .dx = {0.00518798828125, -1.4921875, 0.421875, 0.5859375, -0.07275390625, 0.6328125, -0.353515625,
         0.271484375},
  .dweight = {-6.6556396484375, 2.0706257820129395},
  .mean = {0.6, 1.0625},
  .var = {4.3, 2.45625}},
        Expected{.training = false,
        .y = {0.349609375, 1.1171875, 1.3515625, 5.375, -1.1484375, -1.0078125, 1.8515625, -3.125},
        .dx = {0.5, -1.4140625, 0.25, 2.828125, 1.5, 1.4140625, -1.0, 0.353515625},
        .dweight = {-6.3749918937683105, 4.2426300048828125},
        .mean = {0.5, 1},
        .var = {4, 2}}}) {
    const Variable x = make({1, 2, 3, 5, -2, 0.5, 4, -1}, {4, 2}, bf16).requires_grad_();
    const Variable weight = make({1.001, 2.003}, {2}, f32).requires_grad_();
    const Variable bias = make({0.1, -0.3}, {2}, f32).requires_grad_();
    const Variable mean = make({0.5, 1}, {2}, f32), var = make({4, 2}, {2}, f32);
    const Variable y = batch_norm(x, mean, var, weight, bias, {.training = e.training});
    EXPECT_EQ(y.dtype(), bf16);
    EXPECT_EQ(values(y), e.y);
    expect_near(values(mean), e.mean, 1e-6);
    expect_near(values(var), e.var, 1e-6);
    const Variable seed = make({1, -1, 0.5, 2, 3, 1, -2, 0.25}, {4, 2}, bf16);
    for (bool recorded : {false, true}) {
      std::vector<Variable> d;
      for (const Variable& input : {x, weight, bias})
        d.push_back(grad(sum(y * seed), input, {.retain_graph = true, .create_graph = recorded}));
      EXPECT_EQ(d[0].dtype(), bf16);
      for (size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(values(d[0])[i], e.dx[i], std::abs(e.dx[i]) * 0x1p-7);  // one bit
      EXPECT_EQ(d[1].dtype(), f32);
      expect_near(values(d[1]), e.dweight, 1e-5);
      EXPECT_EQ(values(d[2]), (Doubles{2.5, 2.25}));
    }
    EXPECT_THROW(batch_norm(x, mean, var, weight.to(f16)), DTypeError);
    EXPECT_THROW(batch_norm(x, mean, var, weight, bias.to(bf16)), DTypeError);
    EXPECT_THROW(batch_norm(x.to(f64), mean, var, weight), DTypeError);
  }
}

TEST(LayerNorm, T37_ConstantRowGivesTheBias) {
  for (DType dtype : {f32, f64, bf16, f16})
    for (double constant : {1e4, 0.1, 1234.567}) {
      const Variable x = full({3, 1500}, constant, {.dtype = dtype});
      const Variable bias = wave({1500}, dtype);
      const Doubles y = values(layer_norm(x, {1500}, ones({1500}, {.dtype = dtype}), bias));
      const Doubles b = values(bias);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], b[i % 1500]);
    }
}

TEST(LayerNorm, AgreesWithItsDefinition) {
  for (const Shape& shape : {Shape{5, 2500}, Shape{300, 40}, Shape{4000, 20}, Shape{2, 3, 4}}) {
    const int64_t n = shape[shape.rank() - 1];
    Variable x = wave(shape).requires_grad_();
    Variable w = (wave({n}) + 2.0).detach().requires_grad_(), b = wave({n}).requires_grad_();
    const Variable expected = (x - mean(x, {-1}, true)) /
                                  sqrt(var(x, {-1}, {.correction = 0, .keepdim = true}) + 1e-5) *
                                  w +
                              b;
    const Variable y = layer_norm(x, {n}, w, b);
    expect_near(values(y), values(expected), 1e-12);
    const Variable seed = wave(shape) * wave(shape);
    for (const Variable& input : {x, w, b}) {
      const Doubles wanted = values(grad(sum(expected * seed), input, {.retain_graph = true}));
      expect_near(values(grad(sum(y * seed), input, {.retain_graph = true})), wanted, 1e-11);
      expect_near(values(grad(sum(y * seed), input, {.create_graph = true})), wanted, 1e-11);
    }
  }
}

/// Gradients of rows that fill registers and that do not, with each combination of operands.
TEST(LayerNorm, GradientsOfFloats) {
  for (const auto& [rows, n] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {7, 5}, {100, 16}, {3000, 33}, {50, 1030}, {2000, 64}})
    for (const int wanted : {1, 2, 3, 4, 5, 6, 7}) {
      const auto gradients = [&](DType dtype) {
        const Variable x = wave({rows, n}).to(dtype).detach().requires_grad_(wanted & 1);
        const Variable w = (wave({n}) + 2.0).to(dtype).detach().requires_grad_(wanted & 2);
        const Variable b = wave({n}).to(dtype).detach().requires_grad_(wanted & 4);
        const Variable seed = (wave({rows, n}) * wave({rows, n}) + 0.1).to(dtype);
        sum(layer_norm(x, {n}, w, b, 0.1) * seed).backward();
        std::vector<Variable> all;
        for (const Variable& v : {x, w, b})
          if (v.requires_grad()) all.push_back(v.grad().to(f64));
        return all;
      };
      const std::vector<Variable> of_floats = gradients(f32), exact = gradients(f64);
      for (size_t i = 0; i < exact.size(); ++i)
        expect_near(values(of_floats[i]), values(exact[i]),
                    2e-5 * std::max(1.0, max(abs(exact[i])).item()));
    }
}

void expect_normalised_floats(const Variable& x, double offset) {
  const int64_t n = x.shape()[1];
  const TensorOptions wide{.dtype = f64};
  const Variable exact = layer_norm(x.to(f64), {n}, ones({n}, wide), zeros({n}, wide), 0.0);
  const Variable y = layer_norm(x, {n}, ones({n}), zeros({n}), 0.0);
  // y itself is rounded a few times, and so is the mean.
  const double tolerance = (4 * max(abs(exact)).item() + 2 * offset) * 0x1p-23;
  for (const double distance : values(abs(y.to(f64) - exact))) ASSERT_LE(distance, tolerance);
}

/// Floats whose squares underflow or overflow, and means that are large relative to the
/// differences.
TEST(LayerNorm, FloatsOfAnySize) {
  for (int64_t n : {2, 31, 32, 100, 1024, 2500})
    for (double size : {1.0, 1e-25, 1e-35, 1e25, 1e38})
      for (double offset : {0.0, 0.3, 1000.0}) {
        if (size == 1e38 && offset > 1) continue;
        SCOPED_TRACE(::testing::Message() << n << ' ' << size << ' ' << offset);
        expect_normalised_floats(((wave({3, n}) + offset) * size).to(f32), offset);
      }
}

/// A row is summed around the mean of its first elements, unless that mean is far from the other
/// elements.
TEST(LayerNorm, FirstElementsUnlikeTheOthers) {
  for (int64_t n : {5, 64, 1024, 40000})
    for (double ahead : {0.5, 3.0, 100.0, 1e6}) {
      SCOPED_TRACE(::testing::Message() << n << ' ' << ahead);
      Doubles first(n, 0.0);
      std::fill_n(first.begin(), 4, ahead);
      expect_normalised_floats((wave({3, n}) + tensor(first)).to(f32), 0);
    }
}

TEST(LayerNorm, SecondOrder) {
  const Variable x = wave({2, 2, 2}).requires_grad_(), w = wave({2, 2}).requires_grad_(),
                 b = wave({2, 2}).requires_grad_();
  const auto f = [](const std::vector<Variable>& in) {
    return layer_norm(in[0], {2, 2}, in[1], in[2], 1e-2);
  };
  const GradcheckResult result = gradcheck(f, {x, w, b}, {.order = 2});
  EXPECT_TRUE(result) << result.message;
}

TEST(LayerNorm, ErrorsAndEmptyBatch) {
  const Variable x = ones({2, 3});
  const int64_t wide = int64_t(1) << 31;
  EXPECT_EQ(layer_norm(ones({0, wide, wide}), {wide, wide}).shape(), (Shape{0, wide, wide}));
  EXPECT_THROW(layer_norm(x, {2}), ShapeError);
  EXPECT_THROW(layer_norm(x, {}), ShapeError);
  EXPECT_THROW(layer_norm(x, {1, 2, 3}), ShapeError);
  EXPECT_THROW(layer_norm(x, {3}, ones({2})), ShapeError);
  EXPECT_THROW(layer_norm(x, {3}, ones({3}, {.dtype = f64})), DTypeError);
  EXPECT_THROW(layer_norm(x.to(i64), {3}), DTypeError);
  Variable w = ones({3}).requires_grad_();
  const Variable y = layer_norm(zeros({0, 3}), {3}, w);
  EXPECT_EQ(y.shape(), (Shape{0, 3}));
  sum(y).backward();
  EXPECT_EQ(values(w.grad()), (Doubles{0, 0, 0}));
}

// x[i] = i^1.5 in [1, 4, 3]; expected values of PyTorch 1.13.
Variable powers() {
  Doubles numbers(12);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::pow(double(i), 1.5);
  return make(numbers, {1, 4, 3});
}

TEST(GroupNorm, Exact) {
  const Variable y = group_norm(powers(), 2, make({1, 2, 3, 4}, {4}), make({0, 1, 0, 1}, {4}));
  expect_near(values(y),
              {-1.1977903031331727, -0.9429857526229817, -0.4770942009613877, 1.2524259586340616,
               2.681292201896711, 4.302022352904313, -4.210628782435366, -2.6717788709016563,
               -1.0186872496700252, 1.9883139477279146, 4.469144926560033, 7.077334329721449},
              1e-14);
}

TEST(GroupNorm, OneValueInAGroupIsTheBias) {
  EXPECT_EQ(values(group_norm(make({5, 6}, {1, 2}), 2, {}, make({7, 8}, {2}))), (Doubles{7, 8}));
}

/// Channels of no, one, few and many elements, beside the mean and variance of each group.
TEST(GroupNorm, ShortChannels) {
  for (DType dtype : {f32, f64})
    for (int64_t size : {0, 1, 3, 31, 32}) {
      const Variable x = wave({5, 80, size}, dtype), weight = wave({80}, dtype), bias = cos(weight);
      const Variable rows = x.view({5, 2, 40 * size});
      const Variable centred = rows - mean(rows, {2}, true);
      const Variable unit = centred / sqrt(mean(square(centred), {2}, true) + 1e-5);
      const Variable expected = unit.view(x.shape()) * weight.view({80, 1}) + bias.view({80, 1});
      const Variable y = group_norm(x, 2, weight, bias);
      ASSERT_EQ(y.shape(), x.shape());
      expect_near(values(y), values(expected), dtype == f32 ? 2e-6 : 1e-14);
    }
  const auto f = [](const std::vector<Variable>& in) { return group_norm(in[0], 2, in[1], in[2]); };
  for (const Shape& shape : {Shape{5, 6}, Shape{5, 6, 3}})
    EXPECT_TRUE(gradcheck(f, {wave(shape).requires_grad_(), wave({6}).requires_grad_(),
                              cos(wave({6})).detach().requires_grad_()}));
}

TEST(InstanceNorm, T44_RunningStatistics) {
  const Variable x = cat({powers(), 2 * powers()});
  const Variable mean = zeros({4}, {.dtype = f64}), var = ones({4}, {.dtype = f64});
  const Variable y = instance_norm(x, mean, var, {}, {}, {.momentum = 0.25});
  expect_near(values(mean),
              {0.47855339059327384, 3.047061538775697, 6.9805768290150905, 11.88820616194915},
              1e-14);
  expect_near(values(var),
              {2.0357443490112104, 6.352773192759189, 10.581147561450834, 14.803695006628573},
              1e-14);
  const Doubles kept = values(mean);
  const Variable z = instance_norm(x, mean, var, {}, {}, {.use_input_stats = false, .eps = 0});
  EXPECT_EQ(values(mean), kept);
  EXPECT_NEAR(values(z)[0], -kept[0] / std::sqrt(2.0357443490112104), 1e-15);
}

TEST(RmsNorm, ExactAndTheDefaultEps) {
  expect_near(values(rms_norm(make({3, 4}, {1, 2}), {2}, make({1, 2}, {2}), 0.0)),
              {3 / std::sqrt(12.5), 8 / std::sqrt(12.5)}, 1e-15);
  EXPECT_EQ(values(rms_norm(zeros({1, 2}, {.dtype = f16}), {2})), (Doubles{0, 0}));
  expect_near(values(rms_norm(make({0x1p-26, 0x1p-26}, {1, 2}), {2})),
              {std::sqrt(0.5), std::sqrt(0.5)},
              1e-15);  // the default is 2^-52, as large as the mean
}

TEST(LocalResponseNorm, Exact) {
  expect_near(values(local_response_norm(powers(), 3, {.alpha = 0.5, .beta = 0.75, .k = 2.0})),
              {0.0, 0.1474841650631682, 0.2594970526992242, 0.3121692956893668, 0.3305722981164661,
               0.33028923348352757, 0.3206963296919105, 0.3070956758073483, 0.2922466392332611,
               0.6015798050373559, 0.5428239067673255, 0.4948169067642944},
              1e-15);
}

TEST(Norm, ComposedOnesRefuseWhatCannotBeMeant) {
  const Variable x = wave({2, 4, 3});
  EXPECT_THROW(group_norm(x, 3), ArgumentError);
  EXPECT_THROW(group_norm(x, 0), ArgumentError);
  EXPECT_THROW(group_norm(x, 2, ones({3}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(group_norm(x, 2, ones({4}, {.dtype = f32})), DTypeError);
  EXPECT_THROW(group_norm(wave({4}), 2), ShapeError);
  EXPECT_THROW(instance_norm(wave({2, 4})), ArgumentError);
  EXPECT_THROW(instance_norm(x, {}, {}, {}, {}, {.use_input_stats = false}), ArgumentError);
  EXPECT_THROW(instance_norm(x, {}, {}, ones({3}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(rms_norm(x, {4}), ShapeError);
  EXPECT_THROW(local_response_norm(x, 0), ArgumentError);
  EXPECT_THROW(local_response_norm(wave({2, 4}), 1), ShapeError);
}

}  // namespace
}  // namespace tapegrad
