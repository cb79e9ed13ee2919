#include "nn/embedding.h"

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/index.h"
#include "ops/internal/embedding_rows.h"
#include "ops/linalg_composed.h"
#include "ops/random.h"
#include "ops/scatter.h"
#include "ops/view.h"

namespace tapegrad::nn {

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim,
                     std::optional<int64_t> padding_idx, Where where)
    : Embedding(EmbeddingSettings{{where}, num_embeddings, embedding_dim, padding_idx}) {}
Embedding Embedding::from_pretrained(const Variable& rows, bool freeze,
                                     std::optional<int64_t> padding_idx, Where where) {
  const ErrorLine line(where);
  if (rows.rank() != 2)
    fail<ShapeError>("Embedding: from_pretrained: a matrix of rows wanted, not ", rows.shape());
  Embedding table(EmbeddingSettings{{where}, 1, rows.size(1)});
  table.padding_idx_ = tapegrad::detail::padding_row(kName, padding_idx, rows.size(0));
  table.weight = Parameter(rows, !freeze);
  return table;
}
Embedding::Embedding(EmbeddingSettings options)
    : padding_idx_(-1),
      max_norm_(options.max_norm),
      norm_type_(options.norm_type),
      scale_grad_by_freq_(options.scale_grad_by_freq),
      sparse_(options.sparse) {
  const ErrorLine line(options.by_name.where);
  require_option(kName, ".num_embeddings", options.num_embeddings);
  require_option(kName, ".embedding_dim", options.embedding_dim);
  if (max_norm_) require_not_negative(kName, ".max_norm", *max_norm_);
  require_positive(kName, ".norm_type", norm_type_);
  padding_idx_ = tapegrad::detail::padding_row(kName, options.padding_idx, options.num_embeddings);
  const Variable rows = randn({options.num_embeddings, options.embedding_dim},
                              {.dtype = options.dtype.value_or(default_dtype())});
  if (padding_idx_ >= 0) {
    Variable row = select(rows, 0, padding_idx_);
    zero_(row);
  }
  weight = rows;
}

/// Scales the rows with these ids in place to norms of at most max_norm; writes no other rows.
static void shorten_rows(const Variable& table, const Variable& ids, double max_norm, double p) {
  if (ids.numel() == 0) return;
  const NoGrad off;
  const Variable flat = flatten(ids).to(i64);
  Variable here = table.detach();
  const Variable rows = index_select(here, 0, flat);
  const Variable norms = linalg::vector_norm(rows, p, {1}, true);
  // As in PyTorch, the divisor exceeds the norm by 1e-7.
  const Variable scaled = rows * where(norms > max_norm, max_norm / (norms + 1e-7), 1.0);
  // The scatter kernel takes an index for each element.
  const Variable places = expand(unsqueeze(flat, 1), rows.shape()).contiguous();
  kernels::scatter(scaled.value(), places.value(), 0, here.writable());
  here.value().storage().bump_version();
}

Variable Embedding::forward(const Variable& ids, Where where) const {
  if (max_norm_) shorten_rows(weight, ids, *max_norm_, norm_type_);
  return embedding(ids, weight,
                   {.padding_idx = tapegrad::detail::row_or_none(padding_idx_),
                    .scale_grad_by_freq = scale_grad_by_freq_,
                    .sparse = sparse_},
                   where);
}

std::string Embedding::options() const {
  ClassicText text;
  text << "num_embeddings=" << weight.size(0) << ", embedding_dim=" << weight.size(1);
  if (padding_idx_ >= 0) text << ", padding_idx=" << padding_idx_;
  if (max_norm_) text << ", max_norm=" << *max_norm_;
  if (scale_grad_by_freq_) text << ", scale_grad_by_freq=true";
  if (sparse_) text << ", sparse=true";
  return text.str();
}

EmbeddingBag::EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, Where where)
    : EmbeddingBag(EmbeddingBagOptions{{where}, num_embeddings, embedding_dim}) {}
EmbeddingBag::EmbeddingBag(EmbeddingBagOptions options) : options_(options) {
  const ErrorLine line(options.by_name.where);
  weight = Embedding({.num_embeddings = options.num_embeddings,
                      .embedding_dim = options.embedding_dim,
                      .padding_idx = options.padding_idx,
                      .max_norm = options.max_norm,
                      .norm_type = options.norm_type})
               .weight;
}

Variable EmbeddingBag::forward(const Variable& ids, const Variable& offsets,
                               const Variable& per_sample_weights, Where where) const {
  if (options_.max_norm) shorten_rows(weight, ids, *options_.max_norm, options_.norm_type);
  return embedding_bag(ids, weight, offsets,
                       {.mode = options_.mode,
                        .sparse = options_.sparse,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = options_.include_last_offset,
                        .padding_idx = options_.padding_idx},
                       where);
}

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, EmbeddingSettings options)
    : Embedding(detail::with_sizes(options, num_embeddings, embedding_dim)) {}
Embedding Embedding::from_pretrained(const Variable& rows, PretrainedOptions options) {
  return from_pretrained(rows, options.freeze, options.padding_idx, options.by_name.where);
}
int64_t Embedding::num_embeddings() const { return weight.size(0); }
int64_t Embedding::embedding_dim() const { return weight.size(1); }
void Embedding::members(Members& m) { m("weight", weight); }
EmbeddingBag::EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim,
                           EmbeddingBagOptions options)
    : EmbeddingBag(detail::with_sizes(options, num_embeddings, embedding_dim)) {}
void EmbeddingBag::members(Members& m) { m("weight", weight); }
Variable EmbeddingBag::forward(const Variable& ids, Where where) const {
  return forward(ids, {}, {}, where);
}
template class Model<Embedding, Module, false>;

}  // namespace tapegrad::nn
