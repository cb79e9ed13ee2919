// Embedding and EmbeddingBag, which look up rows of a table.
#pragma once

#include <optional>

#include "nn/module.h"
#include "nn/option_checks.h"
#include "nn/refused_nullptr.h"
#include "ops/embedding_bag.h"

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

// Programs do not compile the virtual functions of this layer.
extern template class Model<Embedding, Module, false>;

}  // namespace tapegrad::nn
