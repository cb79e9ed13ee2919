// Embedding: rows of a table by number, alone or in bags; and the layers that drop at random.
#pragma once

#include "nn/module.h"
#include "ops/attention.h"
#include "ops/noise.h"
#include "ops/random.h"

namespace tapegrad::nn {

struct EmbeddingOptions {
  int64_t num_embeddings = 0;  // rows; required
  int64_t embedding_dim = 0;   // required
  int64_t padding_idx = -1;    // a row that stays 0 and receives no gradient; -1 for none
};
/// ids [...] -> [..., embedding_dim]. The weight [num_embeddings, embedding_dim] is standard normal
/// at first.
class Embedding final : public Model<Embedding> {
 public:
  static constexpr std::string_view kName = "Embedding";
  explicit Embedding(EmbeddingOptions options);

  void members(Members& m) override { m("weight", weight); }
  Variable forward(const Variable& ids, Where where = Where::current()) const;
  std::string options() const override;

  Variable weight;

 private:
  int64_t padding_idx_;
};

struct EmbeddingBagOptions {
  int64_t num_embeddings = 0;  // required
  int64_t embedding_dim = 0;   // required
  BagMode mode = BagMode::kMean;
  bool include_last_offset = false;
  int64_t padding_idx = -1;
};
/// Sums, means or maxima of bags of rows, without the rows themselves: ids [bags, size], or [count]
/// with offsets [bags] where each bag begins -> [bags, embedding_dim].
class EmbeddingBag final : public Model<EmbeddingBag> {
 public:
  static constexpr std::string_view kName = "EmbeddingBag";
  explicit EmbeddingBag(EmbeddingBagOptions options);

  void members(Members& m) override { m("weight", weight); }
  Variable forward(const Variable& ids, Where where = Where::current()) const {
    return forward(ids, {}, {}, where);
  }
  /// per_sample_weights, of ids' shape, are for sums.
  Variable forward(const Variable& ids, const Variable& offsets,
                   const Variable& per_sample_weights = {}, Where where = Where::current()) const;

  Variable weight;

 private:
  EmbeddingBagOptions options_;
};

/// In training each element is 0 with probability p, else x / (1 - p); after eval() x itself.
class Dropout final : public Stateless<Dropout> {
 public:
  static constexpr std::string_view kName = "Dropout";
  explicit Dropout(double p = 0.5);

  Variable forward(const Variable& x, Where where = Where::current()) const {
    return dropout(x, p_, is_training(), default_generator(), where);
  }
  std::string options() const override;

 private:
  double p_;
};

/// A layer that draws: function(x, p, training).
template <typename Self, auto function>
class Noise : public Stateless<Self> {
 public:
  explicit Noise(double p = 0.5) : p_(p) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return function(x, p_, this->is_training(), default_generator(), where);
  }

 private:
  double p_;
};

/// Whole channels are dropped.
struct Dropout1d final : Noise<Dropout1d, dropout1d> {
  using Noise::Noise;
};
struct Dropout2d final : Noise<Dropout2d, dropout2d> {
  using Noise::Noise;
};
struct Dropout3d final : Noise<Dropout3d, dropout3d> {
  using Noise::Noise;
};
/// For SELU: mean and variance stay.
struct AlphaDropout final : Noise<AlphaDropout, alpha_dropout> {
  using Noise::Noise;
};
struct FeatureAlphaDropout final : Noise<FeatureAlphaDropout, feature_alpha_dropout> {
  using Noise::Noise;
};

}  // namespace tapegrad::nn
