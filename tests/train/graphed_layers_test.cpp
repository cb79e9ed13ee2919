// Captured steps of every kind of layer, loss, distribution and optimizer give the bits of the
// function, for inputs that differ from call to call, and are replayed.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/autograd/derivatives.h"
#include "core/base/generator.h"
#include "tapegrad.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {
namespace {

namespace d = distributions;
using Call = std::function<Variable(const Variable& x)>;
using Bits = std::vector<std::vector<double>>;

/// A step of a model: a loss, its gradients for the input and the parameters, and an update.
struct Case {
  std::string name;
  Shape shape;                                                   // of the input
  std::function<Call(std::shared_ptr<nn::Module>& owner)> make;  // after manual_seed()
};

/// Returns the results of 8 steps, with or without a recording.
Bits run(const Case& c, bool enabled) {
  manual_seed(3);
  std::shared_ptr<nn::Module> owner;
  const Call call = c.make(owner);
  GraphedStep step(
      [&](const Variable& given) {
        const Variable x = given.detach().requires_grad_();
        const Variable y = call(x);
        std::vector<Variable> results{y.detach()};
        if (owner) owner->zero_grad();
        if (y.requires_grad()) {
          mean(square(y) + y).backward();
          if (x.grad().defined()) results.push_back(x.grad());
        }
        if (!owner) return results;
        const NoGrad no_grad;
        for (Variable& p : owner->parameters())
          if (p.grad().defined()) add_(p, p.grad() * -0.1);
        return results;
      },
      {}, {.enabled = enabled});
  Bits bits;
  for (int i = 0; i < 8; ++i) {
    RandomGenerator numbers{uint64_t(50 + i)};
    for (const Variable& result : step.run_all({{rand(c.shape, {}, numbers) + 0.1}}))
      bits.push_back(result.to_vector<double>());
  }
  if (owner)
    for (const auto& [name, tensor] : owner->state_dict())
      bits.push_back(Variable(tensor).to_vector<double>());
  EXPECT_TRUE(!enabled || step.is_graphed()) << step.reason();
  return bits;
}

void compare(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(run(c, true), run(c, false));
  }
}

template <typename M>
Case layer(const char* name, Shape shape, M make) {
  return {name, shape, [make](std::shared_ptr<nn::Module>& owner) -> Call {
            auto net = std::make_shared<decltype(make())>(make());
            owner = net;
            return [net](const Variable& x) { return Variable((*net)(x)); };
          }};
}
Case function(const char* name, Shape shape, Call call) {
  return {name, shape, [call](std::shared_ptr<nn::Module>&) { return call; }};
}

TEST(GraphedLayers, Layers) {
  const Shape rows{6, 8}, image{2, 4, 8, 8}, signal{2, 4, 9}, volume{2, 4, 4, 4, 4};
  compare({
      layer("Linear", rows, [] { return nn::Linear(8, 3); }),
      layer("Conv1d", signal, [] { return nn::Conv1d(4, 6, 3); }),
      layer("Conv2d", image, [] { return nn::Conv2d(4, 6, 3, {.padding = 1}); }),
      layer("Conv3d", volume, [] { return nn::Conv3d(4, 2, 3); }),
      layer("ConvTranspose1d", signal, [] { return nn::ConvTranspose1d(4, 6, 3); }),
      layer("ConvTranspose2d", image, [] { return nn::ConvTranspose2d(4, 6, 3); }),
      layer("ConvTranspose3d", volume, [] { return nn::ConvTranspose3d(4, 2, 3); }),
      layer("BatchNorm1d", rows, [] { return nn::BatchNorm1d(8); }),
      layer("BatchNorm2d", image, [] { return nn::BatchNorm2d(4); }),
      layer("BatchNorm3d", volume, [] { return nn::BatchNorm3d(4); }),
      layer("BatchNorm2d, averages", image,
            [] {
              return nn::BatchNorm2d(
                  nn::BatchNormOptions{.num_features = 4, .momentum = std::nullopt});
            }),
      layer("InstanceNorm1d", signal, [] { return nn::InstanceNorm1d(4); }),
      layer("InstanceNorm2d", image, [] { return nn::InstanceNorm2d(4); }),
      layer("InstanceNorm3d", volume, [] { return nn::InstanceNorm3d(4); }),
      layer("GroupNorm", image, [] { return nn::GroupNorm(2, 4); }),
      layer("LayerNorm", rows, [] { return nn::LayerNorm({8}); }),
      layer("RMSNorm", rows, [] { return nn::RMSNorm({8}); }),
      layer("LocalResponseNorm", image, [] { return nn::LocalResponseNorm(2); }),
      layer("Dropout", rows, [] { return nn::Dropout(0.5); }),
      layer("Dropout2d", image, [] { return nn::Dropout2d(0.5); }),
      layer("AlphaDropout", rows, [] { return nn::AlphaDropout(0.5); }),
      layer("RReLU", rows, [] { return nn::RReLU(); }),
      layer("PReLU", rows, [] { return nn::PReLU(); }),
      layer("Softmax", rows, [] { return nn::Softmax(1); }),
      layer("MaxPool2d", image, [] { return nn::MaxPool2d(2); }),
      layer("AvgPool2d", image, [] { return nn::AvgPool2d(2); }),
      layer("AdaptiveAvgPool2d", image, [] { return nn::AdaptiveAvgPool2d(3); }),
      layer("AdaptiveMaxPool2d", image, [] { return nn::AdaptiveMaxPool2d(3); }),
      layer("MaxPool1d", signal, [] { return nn::MaxPool1d(2); }),
      layer("MaxPool3d", volume, [] { return nn::MaxPool3d(2); }),
      layer("LPPool2d", image, [] { return nn::LPPool2d(2, 2); }),
      layer("Upsample", image, [] { return nn::Upsample({.scale_factor = 2}); }),
      layer("PixelShuffle", image, [] { return nn::PixelShuffle(2); }),
      layer("ZeroPad2d", image, [] { return nn::ZeroPad2d(1); }),
      layer("ReflectionPad2d", image, [] { return nn::ReflectionPad2d(1); }),
      layer("Unfold", image, [] { return nn::Unfold(2); }),
      layer("TransformerEncoderLayer", {5, 2, 8},
            [] { return nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16}); }),
  });
}

TEST(GraphedLayers, LayersOfSeveralResults) {
  struct Sequences : nn::Model<Sequences> {
    nn::LSTM lstm{8, 4, {.num_layers = 2, .dropout = 0.5, .bidirectional = true}};
    nn::GRU gru{8, 4};
    nn::RNN rnn{8, 4};
    nn::LSTMCell cell{4, 3};
    nn::MultiheadAttention attention{8, 2};
    nn::Bilinear bilinear{4, 4, 3};
    nn::Embedding table{10, 8};
    nn::EmbeddingBag bag{10, 4};
    void members(nn::Members& m) override {
      m("lstm", lstm), m("gru", gru), m("rnn", rnn), m("cell", cell), m("attention", attention);
      m("bilinear", bilinear), m("table", table), m("bag", bag);
    }
    Variable forward(const Variable& x) {
      const Variable ids = (x.detach().select(2, 0) * 8.0).to(i64);
      const Variable z = x + table(ids);
      const auto attended = attention(z, z, z);
      const Variable y = std::get<0>(lstm(z)).narrow(2, 0, 4) + std::get<0>(gru(attended));
      const Variable w = std::get<0>(rnn(z));
      const auto [h, c] = cell(y.select(0, 0));
      return mean(bilinear(y, w)) + mean(h * c) + mean(bag(ids));
    }
  };
  compare({{"sequences", {5, 2, 8}, [](std::shared_ptr<nn::Module>& owner) -> Call {
              auto net = std::make_shared<Sequences>();
              owner = net;
              return [net](const Variable& x) { return net->forward(x); };
            }}});
}

Variable classes_of(const Variable& x) { return argmax(x.detach(), 1); }
Variable other_of(const Variable& x) { return flip(x.detach(), {0}); }

TEST(GraphedLayers, Losses) {
  const Shape rows{6, 8};
  const auto with_other = [&](const char* name, auto loss) {
    return function(name, rows, [loss](const Variable& x) { return loss(x, other_of(x)); });
  };
  const auto with_classes = [&](const char* name, auto loss) {
    return function(name, rows, [loss](const Variable& x) { return loss(x, classes_of(x)); });
  };
  const auto signs = [](const Variable& x) { return sign(other_of(x).select(1, 0) - 0.6); };
  compare({
      with_other("MSELoss", nn::MSELoss()),
      with_other("L1Loss", nn::L1Loss()),
      with_other("SmoothL1Loss", nn::SmoothL1Loss()),
      with_other("HuberLoss", nn::HuberLoss()),
      with_other("KLDivLoss", nn::KLDivLoss()),
      with_other("BCEWithLogitsLoss", nn::BCEWithLogitsLoss()),
      with_other("PoissonNLLLoss", nn::PoissonNLLLoss()),
      with_other("SoftMarginLoss", nn::SoftMarginLoss()),
      with_classes("CrossEntropyLoss", nn::CrossEntropyLoss({.label_smoothing = 0.1})),
      with_classes("NLLLoss", nn::NLLLoss()),
      with_classes("MultiMarginLoss", nn::MultiMarginLoss()),
      function("BCELoss", rows,
               [](const Variable& x) { return nn::BCELoss()(x * 0.8, other_of(x) * 0.8); }),
      function("weighted CrossEntropyLoss", rows,
               [](const Variable& x) {
                 return cross_entropy(x, classes_of(x),
                                      {.weight = tensor({1., 2., 3., 1., 1., 1., 1., 4.})});
               }),
      function("GaussianNLLLoss", rows,
               [](const Variable& x) { return nn::GaussianNLLLoss()(x, other_of(x), exp(x)); }),
      function("TripletMarginLoss", rows,
               [](const Variable& x) {
                 return nn::TripletMarginLoss()(x, other_of(x), other_of(x) * 0.5);
               }),
      function("MarginRankingLoss", rows,
               [=](const Variable& x) {
                 return nn::MarginRankingLoss()(x.select(1, 0), x.select(1, 1), signs(x));
               }),
      function(
          "CosineEmbeddingLoss", rows,
          [=](const Variable& x) { return nn::CosineEmbeddingLoss()(x, other_of(x), signs(x)); }),
      function("HingeEmbeddingLoss", rows,
               [=](const Variable& x) {
                 return nn::HingeEmbeddingLoss()(x, expand(signs(x).unsqueeze(1), x.shape()));
               }),
      function(
          "MultiLabelMarginLoss", rows,
          [](const Variable& x) { return nn::MultiLabelMarginLoss()(x, argsort(other_of(x), 1)); }),
      function("MultiLabelSoftMarginLoss", rows,
               [](const Variable& x) {
                 return nn::MultiLabelSoftMarginLoss()(x, (other_of(x) > 0.5).to(f32));
               }),
      function("CTCLoss", {7, 3, 4},
               [](const Variable& x) {
                 const Variable labels = argmax(x.detach(), 2).t().narrow(1, 0, 3) % 3 + 1;
                 return nn::CTCLoss()(log_softmax(x, 2), labels, std::vector<int64_t>{7, 7, 6},
                                      std::vector<int64_t>{3, 2, 3});
               }),
      function("perplexity of tokens that count", rows,
               [](const Variable& x) {
                 const Variable keep = (other_of(x).select(1, 0) > 0.5).to(f32);
                 const Variable losses =
                     cross_entropy(x, classes_of(x), {.reduction = Reduction::kNone});
                 return sum(losses * keep) / clamp_min(sum(keep), 1);
               }),
  });
}

TEST(GraphedLayers, Distributions) {
  const Shape rows{6, 3};
  const auto with_sample = [&](const char* name, auto make) {
    return function(name, rows, [make](const Variable& x) {
      const auto distribution = make(x);
      const Variable z = distribution.rsample();
      return mean(z) + mean(distribution.log_prob(z.detach()));
    });
  };
  const auto with_draw = [&](const char* name, auto make) {
    return function(name, rows, [make](const Variable& x) {
      const auto distribution = make(x);
      return distribution.log_prob(distribution.sample());
    });
  };
  compare({
      with_sample("Normal", [](const Variable& x) { return d::Normal(x, x); }),
      with_sample("LogNormal", [](const Variable& x) { return d::LogNormal(x, x); }),
      with_sample("HalfNormal", [](const Variable& x) { return d::HalfNormal(x); }),
      with_sample("Uniform", [](const Variable& x) { return d::Uniform(x - 1.0, x + 1.0); }),
      with_sample("Exponential", [](const Variable& x) { return d::Exponential(x); }),
      with_sample("Laplace", [](const Variable& x) { return d::Laplace(x, x); }),
      with_sample("Cauchy", [](const Variable& x) { return d::Cauchy(x, x); }),
      with_sample("Gumbel", [](const Variable& x) { return d::Gumbel(x, x); }),
      with_sample("Weibull", [](const Variable& x) { return d::Weibull(x, x); }),
      with_sample("Pareto", [](const Variable& x) { return d::Pareto(x, x); }),
      with_sample("Gamma", [](const Variable& x) { return d::Gamma(x, x); }),
      with_sample("Chi2", [](const Variable& x) { return d::Chi2(x * 3.0); }),
      with_sample("StudentT", [](const Variable& x) { return d::StudentT(x * 3.0); }),
      with_sample("Beta", [](const Variable& x) { return d::Beta(x, x); }),
      with_sample("Dirichlet", [](const Variable& x) { return d::Dirichlet(x); }),
      with_sample("MultivariateNormal",
                  [](const Variable& x) { return d::MultivariateNormal(x, diag_embed(x)); }),
      with_draw("VonMises", [](const Variable& x) { return d::VonMises(x, x); }),
      with_draw("Bernoulli", [](const Variable& x) { return d::Bernoulli(x * 0.8); }),
      with_draw("Binomial", [](const Variable& x) { return d::Binomial(5, x * 0.8); }),
      with_draw("Poisson", [](const Variable& x) { return d::Poisson(x); }),
      with_draw("Geometric", [](const Variable& x) { return d::Geometric(x * 0.8); }),
      with_draw("NegativeBinomial",
                [](const Variable& x) { return d::NegativeBinomial(5.0, x * 0.8); }),
      with_draw("Categorical", [](const Variable& x) { return d::Categorical(x); }),
      with_draw("OneHotCategorical", [](const Variable& x) { return d::OneHotCategorical(x); }),
      with_draw("Multinomial", [](const Variable& x) { return d::Multinomial(4, x); }),
      with_sample("RelaxedOneHotCategorical",
                  [](const Variable& x) { return d::RelaxedOneHotCategorical(0.5, x); }),
      function("kl_divergence", rows,
               [](const Variable& x) {
                 return d::kl_divergence(d::Normal(x, x), d::Normal(0.0, 1.0)) +
                        d::kl_divergence(d::Beta(x, x), d::Beta(1.0, 2.0));
               }),
      function("gumbel_softmax", rows, [](const Variable& x) { return gumbel_softmax(x, 0.5); }),
      function("multinomial", rows,
               [](const Variable& x) { return gather(x, 1, multinomial(x.detach(), 2)); }),
  });
}

/// Weights and state after 10 steps with clipping and a schedule that acts between them.
Bits weights_after(const std::function<std::unique_ptr<optim::Optimizer>(const nn::Module&)>& make,
                   bool enabled) {
  manual_seed(4);
  nn::Sequential net{nn::Linear(5, 6), nn::Tanh(), nn::Linear(6, 2)};
  const auto optimizer = make(net);
  optim::CosineAnnealingLR schedule(*optimizer, {.T_max = 10});
  GraphedStep step(
      [&](const Variable& x) {
        optimizer->zero_grad();
        const Variable loss = mean(square(net(x) - 1.0));
        loss.backward();
        optim::clip_grad_value_(net.parameters(), 0.5);
        optimizer->step();
        return loss;
      },
      {}, {.enabled = enabled});
  Bits bits;
  for (int i = 0; i < 10; ++i) {
    RandomGenerator numbers{uint64_t(i)};
    bits.push_back(step(randn({7, 5}, {}, numbers)).to_vector<double>());
    schedule.step();
  }
  EXPECT_EQ(step.is_graphed(), enabled) << step.reason();
  for (const Variable& p : net.parameters()) bits.push_back(p.to_vector<double>());
  for (const auto& [name, tensor] : optimizer->state_dict())
    bits.push_back(Variable(tensor).to_vector<double>());
  return bits;
}

TEST(GraphedLayers, Optimizers) {
  using optim::Optimizer;
  using Make = std::function<std::unique_ptr<Optimizer>(const nn::Module&)>;
  const std::pair<const char*, Make> cases[] = {
      {"Adadelta", [](auto& net) { return std::make_unique<optim::Adadelta>(net, 0.5); }},
      {"Adamax", [](auto& net) { return std::make_unique<optim::Adamax>(net, 0.01); }},
      {"NAdam", [](auto& net) { return std::make_unique<optim::NAdam>(net, 0.01); }},
      {"RAdam", [](auto& net) { return std::make_unique<optim::RAdam>(net, 0.01); }},
      {"ASGD", [](auto& net) { return std::make_unique<optim::ASGD>(net, 0.05); }},
      {"Rprop", [](auto& net) { return std::make_unique<optim::Rprop>(net, 0.01); }},
      {"AdamW", [](auto& net) { return std::make_unique<optim::AdamW>(net, 0.01); }},
      {"SGD with Nesterov's momentum",
       [](auto& net) {
         return std::make_unique<optim::SGD>(
             net, optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .nesterov = true});
       }},
  };
  for (const auto& [name, make] : cases) {
    SCOPED_TRACE(name);
    EXPECT_EQ(weights_after(make, true), weights_after(make, false));
  }
}

}  // namespace
}  // namespace tapegrad::testing
