// SyncBatchNorm: batch normalization with the statistics of all ranks' batches.
//
//   dist::SyncBatchNorm norm({.num_features = 64}, world);     // in place of nn::BatchNorm2d
//
// With this layer, training on n ranks equals training in one process with a batch n times as
// large.
#pragma once

#include "dist/communicator.h"
#include "nn/norm.h"

namespace tapegrad::dist {

/// For [n, c], [n, c, l], [n, c, h, w] and [n, c, d, h, w]. Parameters, buffers and options are
/// those of nn::BatchNorm2d. Batches of the ranks may have different sizes. Each training step
/// costs two collectives in the forward pass and two in the backward pass.
class SyncBatchNorm final : public nn::Model<SyncBatchNorm> {
 public:
  static constexpr std::string_view kName = "SyncBatchNorm";
  /// Throws ArgumentError unless num_features is above 0.
  SyncBatchNorm(nn::BatchNormOptions options, const Communicator& world);

  Variable weight, bias;
  Variable running_mean, running_var, num_batches_tracked;

  void members(nn::Members& m) override;
  std::string options() const override;
  Variable forward(const Variable& x, Where where = Where::current()) const;

 private:
  nn::BatchNormOptions options_;
  Communicator world_;
};

}  // namespace tapegrad::dist
