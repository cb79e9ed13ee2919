// Normalisation layers; the formulas stand in ops/norm.h.
#pragma once

#include "nn/module.h"

namespace tapegrad::nn {

struct BatchNormOptions {
  int64_t num_features = 0;  // channels; may be left out: the first input tells
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;               // a weight (1 at first) and a bias (0) per channel
  bool track_running_stats = true;  // else every batch is normalised by itself, in eval() too
};

/// Per channel (dimension 1). In training by the batch's mean and variance, towards which the
/// buffers running_mean and running_var are moved; after eval() by the buffers.
template <typename Self>
class BatchNorm : public Model<Self> {
 public:
  Variable weight, bias;
  Variable running_mean, running_var, num_batches_tracked;

  void members(Members& m) override;
  std::string options() const override;
  bool is_inferred() const override;

 protected:
  explicit BatchNorm(BatchNormOptions options);
  Variable normalize(const Variable& x, Where where) const;

 private:
  void allocate(int64_t channels) const;

  BatchNormOptions options_;
};

/// Of [n, c] or [n, c, l].
class BatchNorm1d final : public BatchNorm<BatchNorm1d> {
 public:
  static constexpr std::string_view kName = "BatchNorm1d";
  explicit BatchNorm1d(BatchNormOptions options = {}) : BatchNorm(options) {}
  Variable forward(const Variable& x, Where where = Where::current()) const;
};

/// Of [n, c, h, w].
class BatchNorm2d final : public BatchNorm<BatchNorm2d> {
 public:
  static constexpr std::string_view kName = "BatchNorm2d";
  explicit BatchNorm2d(BatchNormOptions options = {}) : BatchNorm(options) {}
  Variable forward(const Variable& x, Where where = Where::current()) const;
};

struct LayerNormOptions {
  Shape normalized_shape = {};  // the last dimensions' sizes; required
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;
};
class LayerNorm final : public Model<LayerNorm> {
 public:
  static constexpr std::string_view kName = "LayerNorm";
  explicit LayerNorm(LayerNormOptions options);

  void members(Members& m) override { m("weight", weight)("bias", bias); }
  Variable forward(const Variable& x, Where where = Where::current()) const;
  std::string options() const override;

  Variable weight, bias;

 private:
  LayerNormOptions options_;
};

}  // namespace tapegrad::nn
