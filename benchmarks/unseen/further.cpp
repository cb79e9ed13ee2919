// Networks with short rows, windows, neighbours and loops of small ops: capsules, state spaces,
// optimal transport, graphs, generators and memory.
#include <cmath>
#include <tuple>

#include "benchmarks/unseen/networks.h"

namespace tapegrad::bench {
namespace {

/// Capsules of 16 numbers that agree in three rounds of routing.
struct Capsules : nn::Model<Capsules> {
  nn::Conv2d conv1{1, 64, 9}, conv2{64, 128, 9, 2};
  nn::Parameter weight{0.05 * randn({576, 10, 16, 8})};
  void members(nn::Members& m) override { m("conv1", conv1)("conv2", conv2)("weight", weight); }

  static Variable squash(const Variable& x) {
    const Variable square = sum(x * x, -1, true);
    return x * (square / (1 + square) / sqrt(square + 1e-8));
  }
  Variable forward(const Variable& image) const {
    const Variable parts = conv2(relu(conv1(image))).view({16, 16, 8, 36}).permute({0, 1, 3, 2});
    const Variable votes = einsum("njoi,bni->bnjo", {weight, squash(parts.reshape({16, 576, 8}))});
    const Variable still = votes.detach();
    Variable logits = zeros({16, 576, 10});
    for (int round = 0; round < 2; ++round) {
      const Variable whole = squash(sum(softmax(logits, 2).unsqueeze(-1) * still, 1));
      logits = logits + sum(still * whole.unsqueeze(1), -1);
    }
    return norm(squash(sum(softmax(logits, 2).unsqueeze(-1) * votes, 1)), 2.0, {-1});
  }
};
Step capsules() {
  auto x = randn({16, 1, 28, 28}), y = one_hot(randint(0, 10, {16}), 10).to(f32);
  return training<optim::Adam>(Capsules(), [=](auto& net) {
    auto length = net(x);
    return sum(y * square(relu(0.9 - length)) + 0.5 * (1 - y) * square(relu(length - 0.1))) / 16;
  });
}

/// A diagonal state space as a long convolution by FFT.
struct StateSpace : nn::Model<StateSpace> {
  nn::Linear in{1, 64}, out{64, 10};
  nn::Parameter log_dt{4 * rand({64}) - 6}, log_decay{full({64, 16}, std::log(0.5))},
      frequency{M_PI * arange(16, f32).repeat({64, 1})}, re{randn({64, 16})}, im{randn({64, 16})},
      skip{randn({64})};
  nn::Conv1d mix{64, 128, 1};
  void members(nn::Members& m) override {
    m("in", in)("out", out)("log_dt", log_dt)("log_decay", log_decay)("frequency", frequency);
    m("re", re)("im", im)("skip", skip)("mix", mix);
  }
  Variable forward(const Variable& signal) const {
    const Variable x = in(signal).transpose(1, 2), time = arange(1024, f32);
    const Variable dt = exp(log_dt).unsqueeze(-1);
    const Variable decay = exp((-exp(log_decay) * dt).unsqueeze(-1) * time);
    const Variable phase = (frequency * dt).unsqueeze(-1) * time;
    const Variable filter =
        2 * sum(re.unsqueeze(-1) * decay * cos(phase) - im.unsqueeze(-1) * decay * sin(phase), 1);
    const Variable product = complex_mul(fft::rfft(x, 2048), fft::rfft(filter, 2048));
    const Variable y = fft::irfft(product, 2048).index({"...", Slice(None, 1024)});
    return out(mean(glu(mix(gelu(y + x * skip.unsqueeze(-1))), 1), -1));
  }
};
Step state_space() {
  auto x = randn({8, 1024, 1}), y = randint(0, 10, {8});
  return training<optim::Adam>(StateSpace(), [=](auto& net) { return cross_entropy(net(x), y); });
}

/// Returns the cost of optimal transport between two clouds, by 20 rounds of Sinkhorn's algorithm.
Step sinkhorn() {
  auto x = randn({4, 128, 16}), y = randn({4, 128, 8});
  nn::Sequential layers(nn::Linear(16, 128), nn::Softplus(), nn::Linear(128, 8));
  return training<optim::Adam>(layers, [=](auto& net) {
    auto cost = square(cdist(net(x), y));
    auto u = zeros({4, 128}), v = zeros({4, 128});
    for (int round = 0; round < 20; ++round) {
      u = -0.5 * (std::log(128) + logsumexp((v.unsqueeze(1) - cost) / 0.5, 2));
      v = -0.5 * (std::log(128) + logsumexp((u.unsqueeze(2) - cost) / 0.5, 1));
    }
    return sum(exp((u.unsqueeze(2) + v.unsqueeze(1) - cost) / 0.5) * cost) / 4;
  });
}

/// Convolutions over the 20 nearest neighbours in the space of features.
struct EdgeConv : nn::Model<EdgeConv> {
  nn::Conv2d conv1{6, 64, 1}, conv2{128, 64, 1};
  nn::BatchNorm2d norm1{64}, norm2{64};
  nn::Conv1d wide{128, 256, 1};
  nn::Linear out{512, 40};
  void members(nn::Members& m) override {
    m("conv1", conv1)("conv2", conv2)("norm1", norm1)("norm2", norm2)("wide", wide)("out", out);
  }
  static Variable edges(const Variable& x) {
    const int64_t b = x.size(0), c = x.size(1), n = x.size(2), k = 20;
    const Variable points = x.transpose(1, 2);
    const Variable index = topk(cdist(points, points), k, -1, false).indices;
    const Variable near = gather(points.unsqueeze(1).expand({b, n, n, c}), 2,
                                 index.unsqueeze(-1).expand({b, n, k, c}));
    const Variable here = points.unsqueeze(2).expand({b, n, k, c});
    return cat({near - here, here}, -1).permute({0, 3, 1, 2});
  }
  Variable forward(const Variable& x) const {
    const Variable a = max(leaky_relu(norm1(conv1(edges(x))), 0.2), -1).values;
    const Variable b = max(leaky_relu(norm2(conv2(edges(a))), 0.2), -1).values;
    const Variable y = wide(cat({a, b}, 1));
    return out(cat({amax(y, -1), mean(y, -1)}, 1));
  }
};
Step edge_conv() {
  auto x = randn({4, 3, 512}), y = randint(0, 40, {4});
  return training(EdgeConv(), [=](auto& net) { return cross_entropy(net(x), y); });
}

/// A generator whose convolutions have weights of their own for each image.
struct Generator : nn::Model<Generator> {
  nn::Linear map1{128, 128}, map2{128, 128};
  nn::Parameter start{randn({1, 64, 8, 8})};
  std::vector<nn::Linear> styles;
  std::vector<nn::Parameter> weights;
  nn::Conv2d rgb{64, 3, 1};
  Generator() {
    for (int i = 0; i < 3; ++i) {
      styles.emplace_back(128, 64);
      weights.emplace_back(randn({64, 64, 3, 3}) / 24);
    }
  }
  void members(nn::Members& m) override {
    m("map1", map1)("map2", map2)("start", start)("styles", styles)("weights", weights)("rgb", rgb);
  }
  Variable forward(const Variable& z) const {
    const Variable w = leaky_relu(map2(leaky_relu(map1(z), 0.2)), 0.2);
    const int64_t b = z.size(0);
    Variable x = start.expand({b, -1, -1, -1});
    for (size_t i = 0; i < 3; ++i) {
      Variable m = weights[i].unsqueeze(0) * (styles[i](w) + 1).view({b, 1, -1, 1, 1});
      m = m * rsqrt(sum(square(m), {2, 3, 4}, true) + 1e-8);
      x = interpolate(x, {.scale_factor = 2, .mode = "bilinear"});
      const int64_t size = x.size(2);
      x = conv2d(x.reshape({1, b * 64, size, size}), m.view({b * 64, 64, 3, 3}), {},
                 {.padding = 1, .groups = b});
      x = leaky_relu(x.view({b, 64, size, size}), 0.2);
    }
    return rgb(x);
  }
};
Step generator() {
  auto z = randn({8, 128}), y = randn({8, 3, 64, 64});
  return training<optim::Adam>(Generator(), [=](auto& net) { return mse_loss(net(z), y); });
}

/// Attention to 16 words before and after.
struct Windows : nn::Model<Windows> {
  nn::Embedding word{1000, 128};
  nn::Linear qkv{128, 384}, proj{128, 128}, out{128, 1000};
  void members(nn::Members& m) override { m("word", word)("qkv", qkv)("proj", proj)("out", out); }
  Variable forward(const Variable& ids) const {
    const Variable x = word(ids);
    auto parts = qkv(x).chunk(3, -1);
    for (auto& part : parts) part = part.view({4, 256, 4, 32}).transpose(1, 2);
    const Variable k = pad(parts[1], {0, 0, 16, 16}).unfold(2, 33, 1);
    const Variable v = pad(parts[2], {0, 0, 16, 16}).unfold(2, 33, 1);
    const Variable place = arange(256).unsqueeze(1) + arange(-16, 17);
    const Variable scores = einsum("bhtd,bhtdw->bhtw", {parts[0], k}) / std::sqrt(32);
    const Variable shares = softmax(masked_fill(scores, (place < 0) | (place >= 256), -1e9), -1);
    const Variable seen = einsum("bhtw,bhtdw->bhtd", {shares, v}).transpose(1, 2);
    return out(x + proj(seen.reshape({4, 256, 128})));
  }
};
Step windows() {
  auto x = randint(0, 1000, {4, 256}), y = randint(0, 1000, {1024});
  return training<optim::AdamW>(Windows(),
                                [=](auto& net) { return cross_entropy(flatten(net(x), 0, 1), y); });
}

/// Integrates the field of a learned energy by two steps of Runge and Kutta.
Step hamiltonian() {
  auto start = randn({128, 4}), y = randn({128, 4});
  nn::Sequential layers(nn::Linear(4, 200), nn::Tanh(), nn::Linear(200, 200), nn::Tanh(),
                        nn::Linear(200, 1));
  return training<optim::Adam>(layers, [=](auto& net) {
    const auto field = [&](const Variable& x) {
      auto parts = grad(sum(net(x)), x, {.create_graph = true}).chunk(2, 1);
      return cat({parts[1], -parts[0]}, 1);
    };
    Variable x = start.detach().requires_grad_();
    for (int i = 0; i < 2; ++i) {
      auto k1 = field(x), k2 = field(x + 0.05 * k1), k3 = field(x + 0.05 * k2);
      auto k4 = field(x + 0.1 * k3);
      x = x + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
    }
    return mse_loss(x, y);
  });
}

/// A Turing machine with a memory of 128 cells that it finds by content and by place.
struct TuringMachine : nn::Model<TuringMachine> {
  nn::LSTMCell cell{29, 100};
  nn::Linear head{100, 26}, erase{100, 20}, write{100, 20}, out{120, 8};
  void members(nn::Members& m) override {
    m("cell", cell)("head", head)("erase", erase)("write", write)("out", out);
  }
  Variable forward(const Variable& x) const {
    auto h = zeros({16, 100}), c = zeros({16, 100}), memory = full({16, 128, 20}, 0.01),
         w = full({16, 128}, 1.0 / 128), read = zeros({16, 20});
    std::vector<Variable> outputs;
    for (int64_t t = 0; t < x.size(0); ++t) {
      std::tie(h, c) = cell(cat({x[t], read}, 1), {h, c});
      auto p = split(head(h), {20, 1, 1, 3, 1}, 1);
      auto near = softplus(p[1]) * cosine_similarity(memory, p[0].unsqueeze(1), -1);
      auto gate = sigmoid(p[2]), shift = softmax(p[3], 1);
      w = gate * softmax(near, 1) + (1 - gate) * w;
      w = shift.index({Slice(), Slice(0, 1)}) * roll(w, 1, 1) +
          shift.index({Slice(), Slice(1, 2)}) * w +
          shift.index({Slice(), Slice(2, 3)}) * roll(w, -1, 1);
      w = pow(w, 1 + softplus(p[4]));
      w = w / (sum(w, 1, true) + 1e-16);
      read = bmm(w.unsqueeze(1), memory).squeeze(1);
      memory = memory * (1 - bmm(w.unsqueeze(2), sigmoid(erase(h)).unsqueeze(1))) +
               bmm(w.unsqueeze(2), tanh(write(h)).unsqueeze(1));
      outputs.push_back(out(cat({h, read}, 1)));
    }
    return stack(outputs);
  }
};
Step turing_machine() {
  auto x = randint(0, 2, {20, 16, 9}).to(f32), y = randint(0, 2, {20, 16, 8}).to(f32);
  return training<optim::RMSprop>(
      TuringMachine(), [=](auto& net) { return binary_cross_entropy_with_logits(net(x), y); });
}

}  // namespace

std::vector<Network> further_networks() {
  return {
      {"capsules", "576 capsules routed to 10, 28 x 28, batch 16, Adam", capsules},
      {"state_space", "diagonal state space by FFT, length 1024, batch 8, Adam", state_space},
      {"sinkhorn", "optimal transport of 128 points in 20 rounds, batch 4, Adam", sinkhorn},
      {"edge_conv", "convolutions over 20 nearest of 512 points, batch 4, SGD", edge_conv},
      {"generator", "convolutions with weights for each image, 64 x 64, batch 8, Adam", generator},
      {"windows", "attention in windows of 33 of 256 words, batch 4, AdamW", windows},
      {"hamiltonian", "Runge-Kutta on the gradient of an energy, batch 128, Adam", hamiltonian},
      {"turing_machine", "memory of 128 cells, 20 steps, batch 16, RMSprop", turing_machine},
  };
}

}  // namespace tapegrad::bench
