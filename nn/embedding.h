// Embedding and EmbeddingBag, which look up rows of a table; Dropout and related random layers.
#pragma once

#include <optional>

#include "nn/module.h"
#include "nn/option_checks.h"
#include "nn/refused_nullptr.h"
#include "ops/embedding_bag.h"
#include "ops/noise.h"
#include "ops/random.h"

namespace tapegrad::nn {

namespace detail {
/// Returns the options of a table with the given sizes.
template <typename Options>
Options with_sizes(Options options, int64_t num_embeddings, int64_t embedding_dim) {
  options.num_embeddings = num_embeddings;
  options.embedding_dim = embedding_dim;
  return options;
}
}  // namespace detail

struct EmbeddingSettings {
  ByName by_name = {};
  int64_t num_embeddings = 0;  // number of rows; required
  int64_t embedding_dim = 0;   // length of a row; required
  /// Row that is 0 and receives no gradient. A negative number counts from the end.
  std::optional<int64_t> padding_idx = {};
  /// If set, each row that is looked up is first scaled, in place, so that its norm of order
  /// norm_type is at most max_norm.
  std::optional<double> max_norm = {};
  double norm_type = 2.0;
  /// Divides the gradient of a row by the number of times that one call looks it up.
  bool scale_grad_by_freq = false;
  bool sparse = false;  // gradient as rows, for large tables (core/autograd/sparse_gradient.h)
  std::optional<DType> dtype = {};  // of the parameters; default_dtype() by default
};
/// Maps ids [...] to rows [..., embedding_dim]. The weight [num_embeddings, embedding_dim] is
/// initially standard normal.
class Embedding final : public Model<Embedding> {
 public:
  static constexpr std::string_view kName = "Embedding";
  explicit Embedding(RefusedNullptr);
  explicit Embedding(EmbeddingSettings options);
  Embedding(int64_t num_embeddings, int64_t embedding_dim, std::optional<int64_t> padding_idx = {},
            Where where = Where::current());
  /// Takes both sizes, and options by name: Embedding(1000, 64, {.sparse = true}).
  Embedding(int64_t num_embeddings, int64_t embedding_dim, EmbeddingSettings options);
  /// Makes a table from rows, whose memory it shares. The table is frozen unless freeze is false.
  static Embedding from_pretrained(const Variable& rows, bool freeze = true,
                                   std::optional<int64_t> padding_idx = {},
                                   Where where = Where::current());
  struct PretrainedOptions {
    ByName by_name = {};
    bool freeze = true;
    std::optional<int64_t> padding_idx = {};
  };
  static Embedding from_pretrained(const Variable& rows, PretrainedOptions options);
  int64_t num_embeddings() const;
  int64_t embedding_dim() const;

  void members(Members& m) override;
  Variable forward(const Variable& ids, Where where = Where::current()) const;
  std::string options() const override;

  Parameter weight;

 private:
  int64_t padding_idx_;  // negative: none
  std::optional<double> max_norm_;
  double norm_type_;
  bool scale_grad_by_freq_, sparse_;
};

struct EmbeddingBagOptions {
  ByName by_name = {};
  int64_t num_embeddings = 0;           // required
  int64_t embedding_dim = 0;            // required
  std::optional<double> max_norm = {};  // as in EmbeddingSettings
  double norm_type = 2.0;
  Choice<BagMode> mode = BagMode::kMean;
  bool sparse = false;  // as in EmbeddingSettings
  bool include_last_offset = false;
  std::optional<int64_t> padding_idx = {};  // as in EmbeddingSettings
};
/// Computes sums, means or maxima of bags of rows without storing the rows. Maps ids [bags, size],
/// or ids [count] with offsets [bags] (the start of each bag), to [bags, embedding_dim].
class EmbeddingBag final : public Model<EmbeddingBag> {
 public:
  static constexpr std::string_view kName = "EmbeddingBag";
  explicit EmbeddingBag(RefusedNullptr);
  explicit EmbeddingBag(EmbeddingBagOptions options);
  EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, Where where = Where::current());
  EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, EmbeddingBagOptions options);

  void members(Members& m) override;
  Variable forward(const Variable& ids, Where where = Where::current()) const;
  /// per_sample_weights has the shape of ids, and requires mode kSum.
  Variable forward(const Variable& ids, const Variable& offsets,
                   const Variable& per_sample_weights = {}, Where where = Where::current()) const;

  Parameter weight;

 private:
  EmbeddingBagOptions options_;
};

struct DropoutOptions {
  ByName by_name = {};
  double p = 0.5;
  bool inplace = false;  // has no effect
};
/// In training, sets each element to 0 with probability p, else to x / (1 - p). Returns x after
/// eval().
class Dropout final : public Stateless<Dropout> {
 public:
  static constexpr std::string_view kName = "Dropout";
  explicit Dropout(RefusedNullptr);
  explicit Dropout(double p = 0.5, bool inplace = false, Where where = Where::current());
  explicit Dropout(DropoutOptions options);

  Variable forward(Variable x, Where where = Where::current()) const;
  std::string options() const override;

 private:
  double p_;
};

/// Base of random layers: function(x, p, training).
template <typename Self, auto function>
class Noise : public Stateless<Self> {
 public:
  explicit Noise(double p = 0.5, Where where = Where::current()) : p_(p) {
    require_share(this->kind(), "p", p, where);
    this->note_mode();
  }
  explicit Noise(DropoutOptions options) : Noise(options.p, options.by_name.where) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return function(x, p_, this->is_training(), default_generator(), where);
  }

 private:
  double p_;
};

/// Sets whole channels to zero instead of elements.
struct Dropout1d final : Noise<Dropout1d, dropout1d> {
  using Noise::Noise;
};
struct Dropout2d final : Noise<Dropout2d, dropout2d> {
  using Noise::Noise;
};
struct Dropout3d final : Noise<Dropout3d, dropout3d> {
  using Noise::Noise;
};
/// Preserves mean and variance, for networks with SELU.
struct AlphaDropout final : Noise<AlphaDropout, alpha_dropout> {
  using Noise::Noise;
};
struct FeatureAlphaDropout final : Noise<FeatureAlphaDropout, feature_alpha_dropout> {
  using Noise::Noise;
};

// Programs do not compile the virtual functions of these layers.
extern template class Model<Embedding, Module, false>;
extern template class Model<Dropout, Module, false>;

}  // namespace tapegrad::nn
