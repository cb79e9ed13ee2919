// Networks on sequences.
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

}  // namespace

std::vector<Network> sequence_networks() {
  return {
      {"middle_gpt", "four blocks of 512, 8192 words, 8 x 128, AdamW",
       [] { return middle_gpt(false); }},
      {"middle_gpt_bf16", "the same under Autocast(bf16)", [] { return middle_gpt(true); }},
      {"decoder", "32 words written by that GPT with a cache, batch 1", decoder},
      {"encoder", "two encoder layers of 256 with padding and dropout, 16 x 64, AdamW", encoder},
      {"hand_lstm", "an LSTM cell of elementwise ops, 40 steps, batch 32, Adam", hand_lstm},
      {"wide_lstm", "one LSTM layer of 1024, 2000 words, 32 steps, batch 32, Adam", wide_lstm},
      {"bi_gru", "two bidirectional GRU layers of 64, 50 steps, batch 16, Adam", bi_gru},
      {"tcn", "dilated Conv1d stack of 64 channels, length 1024, batch 16, Adam", tcn},
      {"big_embedding", "embedding of 200,000 x 64 with a dense gradient, 64 x 50, SGD",
       big_embedding},
  };
}

}  // namespace tapegrad::bench
