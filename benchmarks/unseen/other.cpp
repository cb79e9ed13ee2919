// Perceptrons, generative, physical, graph and recommendation networks.
#include <cmath>

#include "benchmarks/unseen/networks.h"

namespace tapegrad::bench {
namespace {

/// GELU as users write it from elementwise ops, and the gradient of its mean.
Step hand_gelu() {
  const Variable x = randn({1024, 4096}).requires_grad_();
  return [=] {
    x.zero_grad();
    const Variable y = 0.5 * x * (1.0 + tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * pow(x, 3))));
    const Variable loss = mean(y);
    loss.backward();
    return loss;
  };
}

nn::Sequential perceptron(const std::vector<int64_t>& sizes) {
  std::vector<nn::AnyModule> layers;
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (i > 1) layers.emplace_back(nn::ReLU());
    layers.emplace_back(nn::Linear({.in_features = sizes[i - 1], .out_features = sizes[i]}));
  }
  return nn::Sequential(layers);
}

Step wide_perceptron() {
  const Variable x = randn({256, 1024}), y = randint(0, 10, {256});
  return training<optim::Adam>(perceptron({1024, 4096, 4096, 10}),
                               [=](auto& net) { return cross_entropy(net(x), y); });
}

Step tiny_perceptron() {
  const Variable x = randn({1, 8}), y = randn({1, 4});
  return training<optim::Adam>(perceptron({8, 64, 64, 4}),
                               [=](auto& net) { return mse_loss(net(x), y); });
}

struct Critic : nn::Model<Critic> {
  nn::Conv2d conv1{
      {.in_channels = 3, .out_channels = 64, .kernel_size = 4, .stride = 2, .padding = 1}};
  nn::Conv2d conv2{
      {.in_channels = 64, .out_channels = 128, .kernel_size = 4, .stride = 2, .padding = 1}};
  nn::Linear out{{.in_features = 128 * 8 * 8, .out_features = 1}};

  void members(nn::Members& m) override { m("conv1", conv1)("conv2", conv2)("out", out); }
  Variable forward(const Variable& x) const {
    return out(flatten(leaky_relu(conv2(leaky_relu(conv1(x), 0.2)), 0.2), 1));
  }
};

Step gradient_penalty() {
  const Variable real = randn({32, 3, 32, 32}), fake = randn({32, 3, 32, 32});
  return training<optim::Adam>(Critic(), [=](const auto& net) {
    const Variable share = rand({32, 1, 1, 1});
    const Variable mixed = (share * real + (1 - share) * fake).detach().requires_grad_();
    const Variable slope = grad(sum(net(mixed)), mixed, {.create_graph = true});
    const Variable penalty = mean(square(norm(flatten(slope, 1), 2.0, {1}) - 1));
    return mean(net(fake)) - mean(net(real)) + 10 * penalty;
  });
}

/// Two layers of mean aggregation over the edges of a graph.
struct GraphNet : nn::Model<GraphNet> {
  nn::Linear own1{{.in_features = 64, .out_features = 64}},
      near1{{.in_features = 64, .out_features = 64}};
  nn::Linear own2{{.in_features = 64, .out_features = 8}},
      near2{{.in_features = 64, .out_features = 8}};

  void members(nn::Members& m) override {
    m("own1", own1)("near1", near1)("own2", own2)("near2", near2);
  }
  static Variable gather_near(const Variable& x, const Variable& from, const Variable& to,
                              const Variable& degree) {
    return index_add(zeros(x.shape()), 0, to, index_select(x, 0, from)) / degree;
  }
  Variable forward(const Variable& x, const Variable& from, const Variable& to,
                   const Variable& degree) const {
    const Variable y = relu(own1(x) + near1(gather_near(x, from, to, degree)));
    return own2(y) + near2(gather_near(y, from, to, degree));
  }
};

Step graph_net() {
  constexpr int64_t kNodes = 10'000, kEdges = 80'000;
  const Variable x = randn({kNodes, 64}), y = randint(0, 8, {kNodes});
  const Variable from = randint(0, kNodes, {kEdges}), to = randint(0, kNodes, {kEdges});
  const Variable degree = maximum(index_add(zeros({kNodes, 1}), 0, to, ones({kEdges, 1})), 1.0);
  return training<optim::Adam>(
      GraphNet(), [=](const auto& net) { return cross_entropy(net(x, from, to, degree), y); });
}

/// Recommendation from numbers and categories: the dot products of all pairs of features.
struct Recommender : nn::Model<Recommender> {
  static constexpr int64_t kTables = 8, kRows = 50'000, kWidth = 16;
  std::vector<nn::EmbeddingBag> tables;
  nn::Sequential bottom = perceptron({13, 128, kWidth}), top = perceptron({36 + kWidth, 128, 1});

  Recommender() {
    for (int64_t i = 0; i < kTables; ++i)
      tables.emplace_back(nn::EmbeddingBagOptions{
          .num_embeddings = kRows, .embedding_dim = kWidth, .mode = BagMode::kSum});
  }
  void members(nn::Members& m) override { m("tables", tables)("bottom", bottom)("top", top); }
  Variable forward(const Variable& numbers, const Variable& ids, const Variable& pairs) const {
    std::vector<Variable> features = {bottom(numbers)};
    for (size_t i = 0; i < tables.size(); ++i)
      features.push_back(tables[i](select(ids, 0, int64_t(i))));
    const Variable all = stack(features, 1);
    const Variable products = flatten(matmul(all, transpose(all, 1, 2)), 1);
    return top(cat({features[0], index_select(products, 1, pairs)}, 1));
  }
};

Step recommender() {
  constexpr int64_t kBatch = 512, kFeatures = Recommender::kTables + 1;
  const Variable numbers = randn({kBatch, 13}), y = (rand({kBatch, 1}) < 0.3).to(f32);
  const Variable ids = randint(0, Recommender::kRows, {Recommender::kTables, kBatch, 4});
  std::vector<int64_t> below;  // positions of the products of different features
  for (int64_t i = 1; i < kFeatures; ++i)
    for (int64_t j = 0; j < i; ++j) below.push_back(i * kFeatures + j);
  const Variable pairs = tensor(below);
  return training(Recommender(), [=](const auto& net) {
    return binary_cross_entropy_with_logits(net(numbers, ids, pairs), y);
  });
}

/// Burgers' equation: u_t + u u_x = 0.01 u_xx, from the derivatives of the network.
Step physics() {
  const Variable points = rand({2000, 2}) * 2 - 1;
  nn::Sequential net({nn::Linear({.in_features = 2, .out_features = 50}), nn::Tanh(),
                      nn::Linear({.in_features = 50, .out_features = 50}), nn::Tanh(),
                      nn::Linear({.in_features = 50, .out_features = 50}), nn::Tanh(),
                      nn::Linear({.in_features = 50, .out_features = 1})});
  return training<optim::Adam>(net, [=](auto& net) {
    const Variable x = points.detach().requires_grad_();
    const Variable u = net(x);
    const Variable slope = grad(sum(u), x, {.create_graph = true});
    const Variable u_x = narrow(slope, 1, 0, 1), u_t = narrow(slope, 1, 1, 1);
    const Variable u_xx = narrow(grad(sum(u_x), x, {.create_graph = true}), 1, 0, 1);
    return mean(square(u_t + u * u_x - 0.01 * u_xx));
  });
}

/// Sixteen decisions of a policy, one state at a time, and the gradient of their log probabilities.
Step policy() {
  const Variable states = randn({16, 1, 8}), gains = randn({16});
  return training<optim::Adam>(perceptron({8, 64, 64, 4}), [=](auto& net) {
    std::vector<Variable> chosen;
    for (int64_t i = 0; i < 16; ++i) {
      const Variable shares = log_softmax(net(select(states, 0, i)), -1);
      const auto action = int64_t(multinomial(exp(shares.detach()), 1).item());
      chosen.push_back(select(shares, 1, action));
    }
    return -sum(cat(chosen) * gains);
  });
}

/// Colours of rays, added up along their samples.
struct Nerf : nn::Model<Nerf> {
  std::vector<nn::Linear> layers;
  nn::Linear out{256, 4};
  Variable bands = pow(2.0, arange(0, 10, {.dtype = f32}));
  Nerf() {
    layers.emplace_back(60, 256);
    for (int i = 0; i < 5; ++i) layers.emplace_back(256, 256);
  }
  void members(nn::Members& m) override { m("layers", layers)("out", out).buffer("bands", bands); }
  Variable forward(const Variable& p) const {  // rays x samples x 3
    auto e = (p.unsqueeze(-1) * bands).flatten(-2);
    auto h = cat({sin(e), cos(e)}, -1);
    for (auto& l : layers) h = relu(l(h));
    auto o = out(h);
    auto rgb = sigmoid(o.narrow(-1, 0, 3));
    auto alpha = 1 - exp(-relu(o.select(-1, 3)) * 0.1);
    auto through = cumprod(1 - alpha + 1e-10, 1);
    auto t = cat({ones({p.size(0), 1}), through.narrow(1, 0, p.size(1) - 1)}, 1);
    return ((alpha * t).unsqueeze(-1) * rgb).sum(1);
  }
};
Step nerf() {
  auto p = rand({256, 32, 3}), y = rand({256, 3});
  return training<optim::Adam>(Nerf(), [=](auto& net) { return mse_loss(net(p), y); });
}

/// Layers of each point, and the maximum over all points.
struct PointNet : nn::Model<PointNet> {
  nn::Conv1d conv1{3, 64, 1}, conv2{64, 128, 1}, conv3{128, 512, 1};
  nn::BatchNorm1d norm1{64}, norm2{128}, norm3{512};
  nn::Linear hidden{512, 256}, out{256, 10};
  void members(nn::Members& m) override {
    m("conv1", conv1)("conv2", conv2)("conv3", conv3)("norm1", norm1)("norm2", norm2)(
        "norm3", norm3)("hidden", hidden)("out", out);
  }
  Variable forward(const Variable& x) const {
    auto y = relu(norm1(conv1(x)));
    y = relu(norm2(conv2(y)));
    y = norm3(conv3(y));
    y = max(y, 2).values;
    return out(relu(hidden(y)));
  }
};
Step point_net() {
  auto x = randn({16, 3, 1024}), y = randint(0, 10, {16});
  return training<optim::Adam>(PointNet(), [=](auto& net) { return cross_entropy(net(x), y); });
}

/// Attention over the edges that lead to a node.
struct Gat : nn::Model<Gat> {
  nn::Linear w{64, 64, {.bias = false}}, out{64, 7};
  Variable a_from = (randn({4, 16}) * 0.1).detach().requires_grad_();
  Variable a_to = (randn({4, 16}) * 0.1).detach().requires_grad_();
  void members(nn::Members& m) override { m("w", w)("out", out)("a_from", a_from)("a_to", a_to); }
  Variable forward(const Variable& x, const Variable& from, const Variable& to) const {
    const auto n = x.size(0);
    auto h = w(x).view({n, 4, 16});
    auto e = leaky_relu(
        (h * a_from).sum(-1).index_select(0, from) + (h * a_to).sum(-1).index_select(0, to), 0.2);
    auto index = to.unsqueeze(1).expand({to.size(0), 4});
    auto top = full({n, 4}, -1e9).scatter_reduce(0, index, e, "amax");
    auto p = exp(e - top.detach().index_select(0, to));
    auto total = zeros({n, 4}).index_add(0, to, p);
    auto alpha = p / total.index_select(0, to);
    auto y = zeros({n, 4, 16}).index_add(0, to, h.index_select(0, from) * alpha.unsqueeze(-1));
    return out(elu(y.flatten(1)));
  }
};
Step gat() {
  auto x = randn({5000, 64}), y = randint(0, 7, {5000});
  auto from = randint(0, 5000, {40000}), to = randint(0, 5000, {40000});
  return training<optim::Adam>(Gat(),
                               [=](auto& net) { return cross_entropy(net(x, from, to), y); });
}

/// Neurons that fire above a threshold, with the slope of a sigmoid as their gradient.
struct Spiking : nn::Model<Spiking> {
  nn::Linear hidden{784, 256}, out{256, 10};
  void members(nn::Members& m) override { m("hidden", hidden)("out", out); }
  static Variable spike(const Variable& v) {
    auto soft = sigmoid(5 * v);
    return soft + ((v > 0).to(f32) - soft).detach();
  }
  Variable forward(const Variable& x) const {
    auto v1 = zeros({64, 256}), v2 = zeros({64, 10}), count = zeros({64, 10});
    auto current = hidden(x);
    for (int t = 0; t < 25; ++t) {
      v1 = 0.9 * v1 + current;
      auto s = spike(v1 - 1);
      v1 = v1 * (1 - s);
      v2 = 0.9 * v2 + out(s);
      auto o = spike(v2 - 1);
      v2 = v2 - o;
      count = count + o;
    }
    return count;
  }
};
Step spiking() {
  auto x = rand({64, 784}), y = randint(0, 10, {64});
  return training<optim::Adam>(Spiking(), [=](auto& net) { return cross_entropy(net(x), y); });
}

/// Triplet loss with the farthest image of the same class and the nearest of another class.
struct Metric : nn::Model<Metric> {
  nn::Linear hidden{128, 256}, out{256, 64};
  void members(nn::Members& m) override { m("hidden", hidden)("out", out); }
  Variable forward(const Variable& x) const { return normalize(out(relu(hidden(x)))); }
};
Step triplets() {
  auto x = randn({256, 128}), y = randint(0, 16, {256});
  return training<optim::Adam>(Metric(), [=](auto& net) {
    auto e = net(x);
    auto d = cdist(e, e);
    auto same = y.unsqueeze(0) == y.unsqueeze(1);
    auto far = max(masked_fill(d, !same, -1.0), 1).values;
    auto near = min(masked_fill(d, same, 1e9), 1).values;
    return relu(far - near + 0.2).mean();
  });
}

}  // namespace

std::vector<Network> other_networks() {
  return {
      {"hand_gelu", "GELU of elementwise ops on 1024 x 4096, with its gradient", hand_gelu},
      {"wide_perceptron", "1024-4096-4096-10, batch 256, Adam", wide_perceptron},
      {"tiny_perceptron", "8-64-64-4, batch 1, Adam", tiny_perceptron},
      {"gradient_penalty", "WGAN critic with gradient penalty, 32 x 32, batch 32, Adam",
       gradient_penalty},
      {"graph_net", "mean aggregation by index_add, 10,000 nodes, 80,000 edges, Adam", graph_net},
      {"recommender", "DLRM: eight tables of 50,000 x 16, pairs of features, batch 512, SGD",
       recommender},
      {"physics", "Burgers' equation with second derivatives, 2000 points, Adam", physics},
      {"policy", "policy gradient, 16 states at batch 1, Adam", policy},
      {"nerf", "radiance field of six layers of 256, 256 rays of 32 samples, Adam", nerf},
      {"point_net", "1024 points, Conv1d of one point, batch 16, Adam", point_net},
      {"gat", "attention over 40,000 edges of 5,000 nodes, Adam", gat},
      {"spiking", "25 steps of spiking neurons, batch 64, Adam", spiking},
      {"triplets", "hardest triplets of 256 by cdist, Adam", triplets},
  };
}

}  // namespace tapegrad::bench
