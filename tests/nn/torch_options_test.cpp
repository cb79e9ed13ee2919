// Options and forms of PyTorch's layers and functions. Expected values were printed by PyTorch 2.15
// (CPU, float64), except where a comment says otherwise.
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/function_transforms.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "nn/summary.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using Doubles = std::vector<double>;

Variable count(const Shape& shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return reshape(arange(0, numel, 1, {.dtype = f64}), shape);
}

/// Returns the layer, in float64 with the weights 0, 1, 2 ..., applied to 0, 1, 2 ...
template <typename Layer>
Doubles of_counts(Layer layer, const Shape& input) {
  layer.to(f64);
  layer.weight.copy_(count(layer.weight.shape()));
  return layer(count(input)).template to_vector<double>();
}

TEST(PaddingModes, OfConv2d) {
  const NoGrad no_grad;
  const auto y = [](const char* mode) {
    return of_counts(nn::Conv2d(1, 1, 3, {.padding = 1, .bias = false, .padding_mode = mode}),
                     {1, 1, 3, 4});
  };
  EXPECT_EQ(y("circular"), (Doubles{150, 150, 186, 162, 258, 258, 294, 270, 150, 150, 186, 162}));
  EXPECT_EQ(y("reflect"), (Doubles{120, 138, 174, 180, 240, 258, 294, 300, 216, 234, 270, 276}));
  EXPECT_EQ(y("replicate"), (Doubles{99, 126, 162, 183, 231, 258, 294, 315, 291, 318, 354, 375}));
  EXPECT_EQ(y("zeros"), (Doubles{73, 121, 154, 103, 171, 258, 294, 186, 91, 127, 142, 81}));
  EXPECT_EQ(of_counts(nn::Conv2d(1, 1, {2, 3},
                                 {.padding = "same", .bias = false, .padding_mode = "reflect"}),
                      {1, 1, 3, 4}),
            (Doubles{58, 67, 82, 83, 118, 127, 142, 143, 82, 91, 106, 107}));
}

TEST(PaddingModes, OfConv1dAndConv3d) {
  const NoGrad no_grad;
  EXPECT_EQ(of_counts(nn::Conv1d(1, 1, 4,
                                 {.stride = 2,
                                  .padding = 3,
                                  .bias = false,
                                  .padding_mode = nn::PaddingMode::kCircular}),
                      {1, 1, 5}),
            (Doubles{11, 8, 20, 7}));
  EXPECT_EQ(
      of_counts(nn::Conv3d(1, 1, 2, {.padding = 1, .bias = false, .padding_mode = "replicate"}),
                {1, 1, 2, 2, 2}),
      (Doubles{0,   16,  28,  36,  52,  64,  56,  72,  84,  88,  104, 116, 124, 140,
               152, 144, 160, 172, 112, 128, 140, 148, 164, 176, 168, 184, 196}));
}

TEST(PaddingModes, InASequentialAndInWords) {
  manual_seed(1);
  const nn::Conv2d conv(2, 3, 3, {.padding = 1, .padding_mode = "circular"});
  const Variable x = randn({2, 2, 5, 4});
  const nn::Sequential net{conv, nn::ReLU()};
  EXPECT_TRUE(allclose(net(x), maximum(conv(x), 0.0)));
  EXPECT_NE(conv.options().find("padding_mode=circular"), std::string::npos) << conv.options();
  EXPECT_EQ(nn::Conv2d(1, 1, 3).options().find("padding_mode"), std::string::npos);
  EXPECT_THROW(nn::Conv2d(1, 1, 3, {.padding_mode = "mirror"}), ArgumentError);
  EXPECT_THROW(nn::Conv2d(1, 1, 3, {.padding = 5, .padding_mode = "reflect"})(ones({1, 1, 4, 4})),
               Error);
}

TEST(MaxPools, ReturnTheirIndices) {
  const Variable x = count({1, 1, 4, 4});
  const nn::MaxPool2d pool(2, 2);
  const auto [y, indices] = pool.forward_with_indices(x);
  EXPECT_EQ(y.to_vector<double>(), (Doubles{5, 7, 13, 15}));
  EXPECT_EQ(indices.to_vector<int64_t>(), (std::vector<int64_t>{5, 7, 13, 15}));
  const Variable back = nn::MaxUnpool2d(2, 2)(y, indices);
  EXPECT_EQ(back.to_vector<double>(), (Doubles{0, 0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0, 13, 0, 15}));
  EXPECT_EQ(nn::MaxPool1d(2).forward_with_indices(count({1, 1, 4})).indices.to_vector<int64_t>(),
            (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(nn::MaxPool3d(2).forward_with_indices(count({1, 1, 2, 2, 2})).indices.item(), 7);
  EXPECT_EQ(nn::AdaptiveMaxPool2d(1).forward_with_indices(x).indices.item(), 15);
  EXPECT_EQ(nn::AdaptiveMaxPool1d(1).forward_with_indices(count({1, 1, 3})).indices.item(), 2);
  EXPECT_EQ(nn::AdaptiveMaxPool3d(1).forward_with_indices(count({1, 1, 1, 2, 2})).indices.item(),
            3);
}

TEST(BatchNorms, WithoutAMomentumTheyAverageAllBatches) {
  nn::BatchNorm1d norm(1, {.momentum = {}});
  for (const Doubles& batch : {Doubles{1, 2, 3}, Doubles{4, 8}, Doubles{0, 10, 20, 30}})
    norm(tensor(batch, {int64_t(batch.size()), 1}, {.dtype = f32}));
  EXPECT_NEAR(norm.running_mean.item(), 7.6666665077, 1e-6);
  EXPECT_NEAR(norm.running_var.item(), 58.5555572510, 1e-5);
  EXPECT_EQ(norm.num_batches_tracked.item(), 3);
  norm.eval();
  EXPECT_NEAR(norm(full({1, 1}, 7.6666665077)).item(), 0, 1e-6);
  norm.reset_running_stats();
  norm.set_momentum(0.5);
  EXPECT_EQ(norm.momentum(), 0.5);
  EXPECT_EQ(norm.running_mean.item(), 0);
  EXPECT_EQ(norm.running_var.item(), 1);
  EXPECT_THROW(norm.set_momentum(1.5), ArgumentError);
  EXPECT_THROW(norm.set_momentum(NAN), ArgumentError);
  EXPECT_THROW(nn::InstanceNorm1d(2).set_momentum(std::nullopt), ArgumentError);
}

TEST(Functions, LinearWithAVector) {
  const Variable w = tensor({1., 2., 3.}).requires_grad_();
  EXPECT_EQ(linear(count({2, 3}), w.to(f64)).to_vector<double>(), (Doubles{8, 26}));
  EXPECT_EQ(linear(count({3}), w.to(f64)).shape(), Shape{});
  EXPECT_EQ(linear(count({2, 2, 3}), w.to(f64)).shape(), (Shape{2, 2}));
  sum(linear(count({2, 3}).to(f32), w, full({}, 0.5))).backward();
  EXPECT_EQ(w.grad().to_vector<double>(), (Doubles{3, 5, 7}));
  EXPECT_THROW(linear(count({2, 3}), w.to(f64), ones({2}, f64)), ShapeError);
  EXPECT_THROW(linear(count({2, 4}), w.to(f64)), ShapeError);
}

TEST(Functions, SqueezeOfSeveralDimensions) {
  const Variable x = count({1, 2, 1, 3, 1});
  EXPECT_EQ(squeeze(x, {0, 2}).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(squeeze(x, {0, 1, -1}).shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(squeeze(x, Dims{}).shape(), x.shape());
  EXPECT_EQ(squeeze(full({}, 1), Dims{-1}).shape(), Shape{});
  EXPECT_TRUE(squeeze(x, {0, 2}).value().shares_storage(x.value()));
  EXPECT_THROW(squeeze(x, {0, 0}), ArgumentError);
  EXPECT_THROW(squeeze(x, {0, 5}), IndexError);
}

struct TwoHeads : nn::Model<TwoHeads> {
  nn::Linear body{4, 8}, policy{8, 3}, value{8, 1};
  void members(nn::Members& m) override { m("body", body)("policy", policy)("value", value); }
  std::tuple<Variable, Variable> forward(const Variable& x) const {
    const Variable h = body(x);
    return {policy(h), value(h)};
  }
};
struct Masked : nn::Model<Masked> {
  nn::Linear fc{4, 2};
  void members(nn::Members& m) override { m("fc", fc); }
  Variable forward(const Variable& x, const Variable& mask) const { return fc(x * mask); }
};

TEST(Summaries, OfModelsWithSeveralResultsAndInputs) {
  TwoHeads heads;
  const std::string text = nn::summary(heads, {4});
  EXPECT_NE(text.find("policy (Linear)"), std::string::npos) << text;
  EXPECT_NE(text.find("[-1, 3]"), std::string::npos) << text;
  EXPECT_NE(text.find("[-1, 1]"), std::string::npos) << text;
  EXPECT_NE(text.find("Total parameters: 76"), std::string::npos) << text;
  Masked masked;
  EXPECT_NE(nn::summary(masked, ones({5, 4}), zeros({5, 4})).find("[-1, 2]"), std::string::npos);
  nn::LSTM lstm(4, 6);
  const std::string layers = nn::summary(lstm, randn({7, 3, 4}));
  EXPECT_NE(layers.find("Total parameters: 288"), std::string::npos) << layers;
  EXPECT_FALSE(heads.body.weight.grad().defined());
}

TEST(Summaries, BuildIsInfer) {
  nn::Linear layer({.out_features = 3});
  layer.build({5});
  EXPECT_EQ(layer.weight.shape(), (Shape{3, 5}));
}

TEST(Func, StackModuleState) {
  manual_seed(3);
  using Net = nn::Sequential;
  std::vector<Net> nets;
  for (int i = 0; i < 3; ++i) nets.push_back(Net{nn::Linear(2, 1), nn::BatchNorm1d(1)});
  auto [params, buffers] = func::stack_module_state(nets);
  EXPECT_EQ(params.at("0.weight").shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(params.at("1.bias").shape(), (Shape{3, 1}));
  EXPECT_EQ(buffers.at("1.running_mean").shape(), (Shape{3, 1}));
  EXPECT_EQ(buffers.at("1.num_batches_tracked").shape(), Shape{3});
  EXPECT_TRUE(params.at("0.weight").requires_grad());
  EXPECT_TRUE(params.at("0.weight").is_leaf());
  EXPECT_FALSE(buffers.at("1.running_mean").requires_grad());
  nets[0].eval();
  EXPECT_THROW(func::stack_module_state(nets), ArgumentError);
  std::vector<nn::Module*> none;
  EXPECT_THROW(func::stack_module_state(none), ArgumentError);
  nn::Linear other(2, 1);
  EXPECT_THROW(func::stack_module_state(std::vector<nn::Module*>{&nets[1], &other}), ArgumentError);
}

TEST(Func, AnEnsembleOfStackedModels) {
  manual_seed(4);
  std::vector<nn::Linear> nets;
  for (int i = 0; i < 3; ++i) nets.emplace_back(2, 4);
  const auto [params, buffers] = func::stack_module_state(nets);
  nn::Linear base(2, 4);
  const Variable x = randn({5, 2});
  auto all = vmap([&](const VariableMap& p,
                      const Variable& input) { return nn::functional_call(base, p, input); },
                  {.in_dims = {0, None}});
  const Variable y = all(params, x);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(select(y, 0, i).to_vector<float>(), nets[size_t(i)](x).to_vector<float>());
  sum(y).backward();
  EXPECT_EQ(params.at("bias").grad().to_vector<double>(), Doubles(12, 5.0));
}

}  // namespace
}  // namespace tapegrad
