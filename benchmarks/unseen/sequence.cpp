// Networks on sequences.
#include <cmath>

#include "benchmarks/unseen/networks.h"

namespace tapegrad::bench {
namespace {

struct GptBlock : nn::Model<GptBlock> {
  static constexpr int64_t kWidth = 512, kHeads = 8;
  nn::LayerNorm norm1{{.normalized_shape = {kWidth}}}, norm2{{.normalized_shape = {kWidth}}};
  nn::Linear qkv{{.in_features = kWidth, .out_features = 3 * kWidth}};
  nn::Linear proj{{.in_features = kWidth, .out_features = kWidth}};
  nn::Linear up{{.in_features = kWidth, .out_features = 4 * kWidth}};
  nn::Linear down{{.in_features = 4 * kWidth, .out_features = kWidth}};

  void members(nn::Members& m) override {
    m("norm1", norm1)("norm2", norm2)("qkv", qkv)("proj", proj)("up", up)("down", down);
  }
  Variable forward(const Variable& x) const {
    const auto heads = [&](const Variable& t) {
      return transpose(reshape(t, {x.size(0), x.size(1), kHeads, kWidth / kHeads}), 1, 2);
    };
    const std::vector<Variable> parts = chunk(qkv(norm1(x)), 3, 2);
    const Variable seen = scaled_dot_product_attention(heads(parts[0]), heads(parts[1]),
                                                       heads(parts[2]), {.is_causal = true});
    const Variable y = x + proj(reshape(transpose(seen, 1, 2), x.shape()));
    return y + down(gelu(up(norm2(y))));
  }
};

struct MiddleGpt : nn::Model<MiddleGpt> {
  static constexpr int64_t kWords = 8192, kLength = 128, kWidth = GptBlock::kWidth;
  nn::Embedding word{{.num_embeddings = kWords, .embedding_dim = kWidth}};
  nn::Embedding place{{.num_embeddings = kLength, .embedding_dim = kWidth}};
  std::vector<GptBlock> blocks = std::vector<GptBlock>(4);
  nn::LayerNorm norm{{.normalized_shape = {kWidth}}};
  nn::Linear head{{.in_features = kWidth, .out_features = kWords, .bias = false}};

  void members(nn::Members& m) override {
    m("word", word)("place", place)("blocks", blocks)("norm", norm)("head", head);
  }
  Variable forward(const Variable& x) const {
    Variable y = word(x) + place(arange(kLength, {.dtype = i64}));
    for (const GptBlock& block : blocks) y = block(y);
    return head(norm(y));
  }
};

struct WideLstm : nn::Model<WideLstm> {
  nn::Embedding embedding{{.num_embeddings = 2000, .embedding_dim = 512}};
  nn::LSTM lstm{{.input_size = 512, .hidden_size = 1024}};
  nn::Linear out{{.in_features = 1024, .out_features = 2000}};

  void members(nn::Members& m) override { m("embedding", embedding)("lstm", lstm)("out", out); }
  Variable forward(const Variable& x) const { return out(flatten(lstm(embedding(x))[0], 0, 1)); }
};

struct BiGru : nn::Model<BiGru> {
  nn::GRU gru{{.input_size = 32,
               .hidden_size = 64,
               .num_layers = 2,
               .batch_first = true,
               .bidirectional = true}};
  nn::Linear out{{.in_features = 128, .out_features = 5}};

  void members(nn::Members& m) override { m("gru", gru)("out", out); }
  Variable forward(const Variable& x) const { return out(mean(gru(x)[0], {1})); }
};

struct TcnBlock : nn::Model<TcnBlock> {
  nn::Conv1d conv1, conv2;
  int64_t pad_size;

  TcnBlock(int64_t channels, int64_t dilation)
      : conv1({.in_channels = channels,
               .out_channels = channels,
               .kernel_size = 3,
               .dilation = dilation}),
        conv2({.in_channels = channels,
               .out_channels = channels,
               .kernel_size = 3,
               .dilation = dilation}),
        pad_size(2 * dilation) {}
  void members(nn::Members& m) override { m("conv1", conv1)("conv2", conv2); }
  Variable causal(const nn::Conv1d& conv, const Variable& x) const {
    return relu(conv(pad(x, {pad_size, 0})));
  }
  Variable forward(const Variable& x) const { return relu(x + causal(conv2, causal(conv1, x))); }
};

struct Tcn : nn::Model<Tcn> {
  nn::Conv1d in{{.in_channels = 8, .out_channels = 64, .kernel_size = 1}};
  std::vector<TcnBlock> blocks;
  nn::Linear out{{.in_features = 64, .out_features = 10}};

  Tcn() {
    for (int64_t dilation = 1; dilation <= 32; dilation *= 2) blocks.emplace_back(64, dilation);
  }
  void members(nn::Members& m) override { m("in", in)("blocks", blocks)("out", out); }
  Variable forward(const Variable& x) const {
    Variable y = in(x);
    for (const TcnBlock& block : blocks) y = block(y);
    return out(select(y, 2, -1));
  }
};

struct BigEmbedding : nn::Model<BigEmbedding> {
  nn::Embedding embedding{{.num_embeddings = 200'000, .embedding_dim = 64}};
  nn::Linear out{{.in_features = 64, .out_features = 20}};

  void members(nn::Members& m) override { m("embedding", embedding)("out", out); }
  Variable forward(const Variable& x) const { return out(mean(embedding(x), {1})); }
};

/// An LSTM cell as users write it, one step at a time.
struct HandLstm : nn::Model<HandLstm> {
  static constexpr int64_t kInput = 64, kWidth = 128;
  nn::Linear gates{{.in_features = kInput + kWidth, .out_features = 4 * kWidth}};
  nn::Linear out{{.in_features = kWidth, .out_features = 10}};

  void members(nn::Members& m) override { m("gates", gates)("out", out); }
  Variable forward(const Variable& x) const {
    Variable h = zeros({x.size(1), kWidth}), c = h;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const std::vector<Variable> parts = chunk(gates(cat({select(x, 0, t), h}, 1)), 4, 1);
      c = sigmoid(parts[0]) * c + sigmoid(parts[1]) * tanh(parts[2]);
      h = sigmoid(parts[3]) * tanh(c);
    }
    return out(h);
  }
};

/// Encoder layers over sentences of different lengths.
struct Encoder : nn::Model<Encoder> {
  nn::Embedding embedding{{.num_embeddings = 5000, .embedding_dim = 256}};
  std::vector<nn::TransformerEncoderLayer> layers;
  nn::Linear out{{.in_features = 256, .out_features = 2}};

  Encoder() {
    for (int i = 0; i < 2; ++i)
      layers.emplace_back(nn::TransformerEncoderLayerOptions{
          .d_model = 256, .nhead = 4, .dim_feedforward = 1024, .batch_first = true});
  }
  void members(nn::Members& m) override { m("embedding", embedding)("layers", layers)("out", out); }
  Variable forward(const Variable& x, const Variable& padding) const {
    Variable y = embedding(x);
    for (const auto& layer : layers) y = layer(y, nn::AttentionMasks{.key_padding_mask = padding});
    return out(mean(y, {1}));
  }
};

/// Writes 32 words, one at a time, with the keys and values of those before.
Step decoder() {
  const auto net = std::make_shared<MiddleGpt>();
  net->to(default_device());
  return [=] {
    const NoGrad no_grad;
    std::vector<Variable> keys(net->blocks.size()), values(net->blocks.size());
    Variable word = zeros({1, 1}, {.dtype = i64});
    for (int64_t at = 0; at < 32; ++at) {
      Variable y = net->word(word) + net->place(full({1, 1}, at, {.dtype = i64}));
      for (size_t i = 0; i < net->blocks.size(); ++i) {
        const GptBlock& block = net->blocks[i];
        const std::vector<Variable> parts = chunk(block.qkv(block.norm1(y)), 3, 2);
        const auto heads = [](const Variable& t) {
          return transpose(reshape(t, {1, 1, GptBlock::kHeads, -1}), 1, 2);
        };
        keys[i] = keys[i].defined() ? cat({keys[i], heads(parts[1])}, 2) : heads(parts[1]);
        values[i] = values[i].defined() ? cat({values[i], heads(parts[2])}, 2) : heads(parts[2]);
        const Variable seen = scaled_dot_product_attention(heads(parts[0]), keys[i], values[i]);
        y = y + block.proj(reshape(transpose(seen, 1, 2), y.shape()));
        y = y + block.down(gelu(block.up(block.norm2(y))));
      }
      word = argmax(net->head(net->norm(y)), -1);
    }
    return word;
  };
}

Step middle_gpt(bool is_bf16) {
  constexpr int64_t kBatch = 8;
  const Variable x = randint(0, MiddleGpt::kWords, {kBatch, MiddleGpt::kLength});
  const Variable y = randint(0, MiddleGpt::kWords, {kBatch * MiddleGpt::kLength});
  return training<optim::AdamW>(MiddleGpt(), [=](const auto& net) {
    const Autocast amp(bf16, is_bf16);
    return cross_entropy(flatten(net(x), 0, 1), y);
  });
}

Step wide_lstm() {
  const Variable x = randint(0, 2000, {32, 32}), y = randint(0, 2000, {32 * 32});
  return training<optim::Adam>(WideLstm(),
                               [=](const auto& net) { return cross_entropy(net(x), y); });
}

Step bi_gru() {
  const Variable x = randn({16, 50, 32}), y = randint(0, 5, {16});
  return training<optim::Adam>(BiGru(), [=](const auto& net) { return cross_entropy(net(x), y); });
}

Step tcn() {
  const Variable x = randn({16, 8, 1024}), y = randint(0, 10, {16});
  return training<optim::Adam>(Tcn(), [=](const auto& net) { return cross_entropy(net(x), y); });
}

Step hand_lstm() {
  const Variable x = randn({40, 32, HandLstm::kInput}), y = randint(0, 10, {32});
  return training<optim::Adam>(HandLstm(),
                               [=](const auto& net) { return cross_entropy(net(x), y); });
}

Step encoder() {
  const Variable x = randint(0, 5000, {16, 64}), y = randint(0, 2, {16});
  const Variable padding = arange(64) >= randint(16, 65, {16, 1});
  return training<optim::AdamW>(Encoder(),
                                [=](const auto& net) { return cross_entropy(net(x, padding), y); });
}

Step big_embedding() {
  const Variable x = randint(0, 200'000, {64, 50}), y = randint(0, 20, {64});
  return training(
      BigEmbedding(), [=](const auto& net) { return cross_entropy(net(x), y); }, 0.1);
}

struct WaveBlock : nn::Model<WaveBlock> {
  int64_t dilation;
  nn::Conv1d filter, gate, residual{32, 32, 1}, skip{32, 64, 1};
  explicit WaveBlock(int64_t dilation)
      : dilation(dilation),
        filter(32, 32, 2, {.dilation = dilation}),
        gate(32, 32, 2, {.dilation = dilation}) {}
  void members(nn::Members& m) override {
    m("filter", filter)("gate", gate)("residual", residual)("skip", skip);
  }
};
/// Gated convolutions of doubling dilation, whose results are added.
struct WaveNet : nn::Model<WaveNet> {
  nn::Conv1d in{1, 32, 1}, out1{64, 64, 1}, out2{64, 256, 1};
  std::vector<WaveBlock> blocks;
  WaveNet() {
    for (int64_t dilation : {1, 2, 4, 8, 16, 32, 64, 128}) blocks.emplace_back(dilation);
  }
  void members(nn::Members& m) override {
    m("in", in)("out1", out1)("out2", out2)("blocks", blocks);
  }
  Variable forward(const Variable& x) const {
    auto y = in(x);
    Variable skips;
    for (auto& b : blocks) {
      auto p = pad(y, {b.dilation, 0});
      auto z = tanh(b.filter(p)) * sigmoid(b.gate(p));
      auto s = b.skip(z);
      skips = skips.defined() ? skips + s : s;
      y = y + b.residual(z);
    }
    return out2(relu(out1(relu(skips))));
  }
};
Step wave_net() {
  auto x = randn({4, 1, 2048}), y = randint(0, 256, {4, 2048});
  return training<optim::Adam>(WaveNet(), [=](auto& net) { return cross_entropy(net(x), y); });
}

/// A state space whose rates depend on the input, one step after the other.
struct Mamba : nn::Model<Mamba> {
  nn::Linear in{64, 256}, rate{128, 128}, mixing{128, 32}, out{128, 64};
  nn::Conv1d conv{128, 128, 4, {.padding = 3, .groups = 128}};
  Variable a_log = log(arange(1, 17, {.dtype = f32}).repeat({128, 1})).requires_grad_();
  Variable direct = ones({128}).requires_grad_();
  void members(nn::Members& m) override {
    m("in", in)("rate", rate)("mixing", mixing)("out", out)("conv", conv)("a_log", a_log)("direct",
                                                                                          direct);
  }
  Variable forward(const Variable& x0) const {
    const auto length = x0.size(1);
    auto parts = chunk(in(x0), 2, -1);
    auto x = silu(conv(parts[0].transpose(1, 2)).narrow(2, 0, length).transpose(1, 2));
    auto delta = softplus(rate(x));
    auto mixed = split(mixing(x), 16, -1);
    auto decay = exp(delta.unsqueeze(-1) * -exp(a_log));
    auto input = delta.unsqueeze(-1) * mixed[0].unsqueeze(2) * x.unsqueeze(-1);
    auto h = zeros({x0.size(0), 128, 16});
    std::vector<Variable> ys;
    for (int64_t t = 0; t < length; ++t) {
      h = decay.select(1, t) * h + input.select(1, t);
      ys.push_back((h * mixed[1].select(1, t).unsqueeze(1)).sum(-1));
    }
    auto y = stack(ys, 1) + x * direct;
    return out(y * silu(parts[1]));
  }
};
Step mamba() {
  auto x = randn({8, 64, 64}), y = randn({8, 64, 64});
  return training<optim::AdamW>(Mamba(), [=](auto& net) { return mse_loss(net(x), y); });
}

/// A GRU encoder, and a GRU decoder with attention.
struct Translator : nn::Model<Translator> {
  nn::Embedding source{2000, 64}, target{2000, 64};
  nn::GRU encoder{{.input_size = 64, .hidden_size = 128, .batch_first = true}};
  nn::GRUCell cell{192, 128};
  nn::Linear query{128, 128}, key{128, 128}, score{128, 1}, out{256, 2000};
  void members(nn::Members& m) override {
    m("source", source)("target", target)("encoder", encoder)("cell", cell)("query", query)("key",
                                                                                            key);
    m("score", score)("out", out);
  }
  Variable forward(const Variable& x, const Variable& y) const {
    auto [seen, last] = encoder(source(x));
    auto h = last[0];
    auto keys = key(seen);
    std::vector<Variable> outs;
    for (int64_t t = 0; t < y.size(1); ++t) {
      auto scores = score(tanh(query(h).unsqueeze(1) + keys)).squeeze(-1);
      auto context = bmm(softmax(scores, -1).unsqueeze(1), seen).squeeze(1);
      h = cell(cat({target(y.select(1, t)), context}, -1), h);
      outs.push_back(out(cat({h, context}, -1)));
    }
    return stack(outs, 1);
  }
};
Step translator() {
  auto x = randint(0, 2000, {32, 20}), y = randint(0, 2000, {32, 20}),
       z = randint(0, 2000, {32, 20});
  return training<optim::Adam>(
      Translator(), [=](auto& net) { return cross_entropy(net(x, y).flatten(0, 1), z.flatten()); });
}

/// Convolution, bidirectional LSTM and CTC loss.
struct Speech : nn::Model<Speech> {
  nn::Conv1d conv{40, 128, 5, {.stride = 2, .padding = 2}};
  nn::LSTM lstm{
      {.input_size = 128, .hidden_size = 128, .batch_first = true, .bidirectional = true}};
  nn::Linear out{256, 29};
  void members(nn::Members& m) override { m("conv", conv)("lstm", lstm)("out", out); }
  Variable forward(const Variable& x) const {
    auto y = relu(conv(x)).transpose(1, 2);
    return log_softmax(out(lstm(y)[0]), -1).transpose(0, 1);
  }
};
Step speech() {
  auto x = randn({16, 40, 200}), y = randint(1, 29, {16, 20});
  auto in = full({16}, 100, {.dtype = i64}), to = full({16}, 20, {.dtype = i64});
  return training<optim::Adam>(Speech(), [=](auto& net) { return ctc_loss(net(x), y, in, to); });
}

/// A transformer block whose attention, norms, dropout and gates are written with elementwise ops.
struct HandBlock : nn::Model<HandBlock> {
  static constexpr int64_t kWidth = 256, kHeads = 8;
  nn::Linear q{kWidth, kWidth}, k{kWidth, kWidth}, v{kWidth, kWidth}, proj{kWidth, kWidth};
  nn::Linear up{kWidth, 1024}, down{512, kWidth};
  Variable scale1 = ones({kWidth}).requires_grad_(), scale2 = ones({kWidth}).requires_grad_();
  void members(nn::Members& m) override {
    m("q", q)("k", k)("v", v)("proj", proj)("up", up)("down", down)("scale1", scale1)("scale2",
                                                                                      scale2);
  }
  static Variable norm(const Variable& x, const Variable& scale) {
    return x * rsqrt(mean(x * x, {-1}, true) + 1e-6) * scale;
  }
  Variable forward(const Variable& x, const Variable& mask) const {
    const auto b = x.size(0), t = x.size(1);
    auto heads = [&](const Variable& y) { return y.view({b, t, kHeads, -1}).transpose(1, 2); };
    auto y = norm(x, scale1);
    auto scores = matmul(heads(q(y)), heads(k(y)).transpose(-2, -1)) / std::sqrt(32.0);
    scores = masked_fill(scores, mask, -1e9);
    auto e = exp(scores - amax(scores, {-1}, true).detach());
    auto shares = dropout(e / sum(e, {-1}, true), 0.1);
    auto seen = matmul(shares, heads(v(y))).transpose(1, 2).reshape(x.shape());
    auto z = x + dropout(proj(seen), 0.1);
    auto parts = chunk(up(norm(z, scale2)), 2, -1);
    return z + dropout(down(parts[0] * sigmoid(parts[0]) * parts[1]), 0.1);
  }
};
struct HandTransformer : nn::Model<HandTransformer> {
  nn::Embedding word{2000, HandBlock::kWidth};
  std::vector<HandBlock> blocks = std::vector<HandBlock>(2);
  nn::Linear out{HandBlock::kWidth, 2000};
  void members(nn::Members& m) override { m("word", word)("blocks", blocks)("out", out); }
  Variable forward(const Variable& x, const Variable& mask) const {
    auto y = word(x);
    for (auto& block : blocks) y = block(y, mask);
    return out(y);
  }
};
Step hand_transformer() {
  auto x = randint(0, 2000, {16, 128}), y = randint(0, 2000, {16 * 128});
  auto mask = triu(ones({128, 128}), 1) > 0;
  return training<optim::AdamW>(
      HandTransformer(), [=](auto& net) { return cross_entropy(net(x, mask).flatten(0, 1), y); });
}

}  // namespace

std::vector<Network> sequence_networks() {
  return {
      {"middle_gpt", "four blocks of 512, 8192 words, 8 x 128, AdamW",
       [] { return middle_gpt(false); }},
      {"middle_gpt_bf16", "the same under Autocast(bf16)", [] { return middle_gpt(true); }},
      {"decoder", "32 words written by that GPT with a cache, batch 1", decoder},
      {"encoder", "two encoder layers of 256 with padding and dropout, 16 x 64, AdamW", encoder},
      {"hand_transformer", "two blocks of 256 from elementwise ops, 16 x 128, AdamW",
       hand_transformer},
      {"hand_lstm", "an LSTM cell of elementwise ops, 40 steps, batch 32, Adam", hand_lstm},
      {"wide_lstm", "one LSTM layer of 1024, 2000 words, 32 steps, batch 32, Adam", wide_lstm},
      {"bi_gru", "two bidirectional GRU layers of 64, 50 steps, batch 16, Adam", bi_gru},
      {"tcn", "dilated Conv1d stack of 64 channels, length 1024, batch 16, Adam", tcn},
      {"big_embedding", "embedding of 200,000 x 64 with a dense gradient, 64 x 50, SGD",
       big_embedding},
      {"wave_net", "gated dilated Conv1d, length 2048, batch 4, Adam", wave_net},
      {"mamba", "selective state space, 64 steps one by one, batch 8, AdamW", mamba},
      {"translator", "GRU with attention over 20 words, batch 32, Adam", translator},
      {"speech", "Conv1d, bidirectional LSTM of 128, ctc_loss, 100 steps, batch 16, Adam", speech},
  };
}

}  // namespace tapegrad::bench
