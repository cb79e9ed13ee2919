// Embedding: rows of a table by number; and Dropout.
#pragma once

#include "nn/module.h"
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

}  // namespace tapegrad::nn
