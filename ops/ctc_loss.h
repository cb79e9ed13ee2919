// Connectionist temporal classification (Graves et al. 2006): a loss for sequences whose alignment
// with their labels is unknown.
#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/loss.h"

namespace tapegrad {

struct CtcLossOptions {
  int64_t blank = 0;  // class that means "no label"
  Reduction reduction = Reduction::kMean;
  bool zero_infinity = false;  // an infinite loss (target too long for its input) becomes 0
};
/// Returns the negative log probability of each target, summed over all alignments: a label may be
/// repeated, and blanks may be inserted anywhere and must separate equal labels.
///
/// log_probs is [t, n, classes], or [t, classes] for one example, and holds log probabilities as
/// returned by log_softmax. targets holds labels as [n, longest], or concatenated in one vector.
/// Example i uses the first input_lengths[i] steps and target_lengths[i] labels. kMean divides each
/// loss by the length of its target and averages over the batch. The gradient is taken with respect
/// to log_probs as given; it cannot be differentiated again.
Variable ctc_loss(const Variable& log_probs, const Variable& targets,
                  const std::vector<int64_t>& input_lengths,
                  const std::vector<int64_t>& target_lengths, CtcLossOptions options = {},
                  Where where = Where::current());

namespace detail {
/// Returns the lengths, which the host reads.
std::vector<int64_t> ctc_lengths(const Variable& lengths);
}  // namespace detail
/// Overload with lengths as integer tensors [n], which the host reads. A template, so that {100,
/// 80} means a vector.
template <std::derived_from<Variable> Lengths>
Variable ctc_loss(const Variable& log_probs, const Variable& targets, const Lengths& input_lengths,
                  const Lengths& target_lengths, CtcLossOptions options = {},
                  Where where = Where::current()) {
  return ctc_loss(log_probs, targets, detail::ctc_lengths(input_lengths),
                  detail::ctc_lengths(target_lengths), options, where);
}

/// Overload with PyTorch's arguments: ctc_loss(log_probs, targets, {50}, {12}, 0, "mean", true).
template <std::convertible_to<Reduction> R = Reduction>
Variable ctc_loss(const Variable& log_probs, const Variable& targets,
                  const std::vector<int64_t>& input_lengths,
                  const std::vector<int64_t>& target_lengths, int64_t blank, R reduction,
                  bool zero_infinity = false, Where where = Where::current()) {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths,
                  {.blank = blank, .reduction = reduction, .zero_infinity = zero_infinity}, where);
}

/// Arguments of the kernel that are not tensors.
struct CtcBatch {
  std::vector<int64_t> input_lengths, target_lengths;
  std::vector<int64_t> first_labels;  // position of each example's first label in labels
  int64_t blank;

  bool operator==(const CtcBatch&) const = default;
};

namespace kernels {

/// Writes losses [n] (float64) for log_probs [t, n, classes] and int64 labels; all tensors are
/// contiguous. If gradients is not empty, it has the shape and dtype of log_probs and receives the
/// gradient of each loss, or NaN where the loss is infinite.
extern Kernel<void(const Tensor& log_probs, const Tensor& labels, const CtcBatch& batch,
                   Tensor& losses, Tensor& gradients)>
    ctc_loss;

}  // namespace kernels
}  // namespace tapegrad
