// Linear layers whose weights are split over the ranks: two building blocks.
//
//   dist::ColumnLinear up({.in_features = 512, .out_features = 2048}, world);
//   dist::RowLinear down({.in_features = 2048, .out_features = 512}, world);
//   Variable y = down(gelu(up(x)));     // x and y are the same on all ranks
//
// Each rank computes a part of the hidden units; only the result of the pair is summed. All ranks
// must use the same batches, so these layers cannot be combined with DataParallel on the same
// communicator. Attention heads are split in the same way: ColumnLinear for the projections of
// queries, keys and values, 1 / size() of the heads on each rank, and RowLinear for the output
// projection.
//
// Initial weights are the same as in one process: each rank draws the whole weight from the default
// generator, which must have the same state on all ranks, and keeps a part.
#pragma once

#include "dist/communicator.h"
#include "nn/linear.h"

namespace tapegrad::dist {

/// Maps x [..., in_features], equal on all ranks, to out_features / size() results: on rank r those
/// of part r of the rows of the weight of an nn::Linear. The gradient of x is summed over the
/// ranks.
class ColumnLinear final : public nn::Model<ColumnLinear> {
 public:
  static constexpr std::string_view kName = "ColumnLinear";
  /// Throws ArgumentError unless size() divides out_features, and for sizes below 1.
  ColumnLinear(nn::LinearSettings options, const Communicator& world);
  /// Takes the rank's part of an existing layer.
  ColumnLinear(const nn::Linear& whole, const Communicator& world);

  void members(nn::Members& m) override;
  Variable forward(const Variable& x, Where where = Where::current()) const;

  Variable weight, bias;

 private:
  Communicator world_;
};

/// Maps this rank's x [..., in_features / size()] to [..., out_features], equal on all ranks: the
/// sum over the ranks plus the bias.
class RowLinear final : public nn::Model<RowLinear> {
 public:
  static constexpr std::string_view kName = "RowLinear";
  /// Throws ArgumentError unless size() divides in_features, and for sizes below 1.
  RowLinear(nn::LinearSettings options, const Communicator& world);
  RowLinear(const nn::Linear& whole, const Communicator& world);

  void members(nn::Members& m) override;
  Variable forward(const Variable& x, Where where = Where::current()) const;

  Variable weight, bias;

 private:
  Communicator world_;
};

}  // namespace tapegrad::dist
