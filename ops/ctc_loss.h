// Connectionist temporal classification (Graves et al. 2006): the loss of sequences whose alignment
// to their labels is not known.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/loss.h"

namespace tapegrad {

struct CtcLossOptions {
  int64_t blank = 0;           // the class that stands for no label
  bool zero_infinity = false;  // a target too long for its input gives 0 instead of infinity
  Reduction reduction = Reduction::kMean;
};
/// -log of the probability of each target: the sum over all ways to write it along the input, where
/// a label may be repeated and blanks may stand anywhere, and must stand between equal labels.
///
/// log_probs [t, n, classes] are log probabilities, as log_softmax gives them (or [t, classes] of
/// one example); targets are labels [n, longest], or all of them in one vector; each example uses
/// as many steps and labels as its lengths say. The mean is over the batch, each loss divided by
/// its target's length. The gradient is that of the formula in log_probs as they are; it cannot be
/// differentiated again.
Variable ctc_loss(const Variable& log_probs, const Variable& targets,
                  const std::vector<int64_t>& input_lengths,
                  const std::vector<int64_t>& target_lengths, CtcLossOptions options = {},
                  Where where = Where::current());

/// What the kernel knows of a batch beside the tensors.
struct CtcBatch {
  std::vector<int64_t> input_lengths, target_lengths;
  std::vector<int64_t> first_labels;  // where each example's begin
  int64_t blank;
};

namespace kernels {

/// losses [n] (float64) of log_probs [t, n, classes] and int64 labels; all are contiguous. Unless
/// it is empty, gradients (of log_probs' shape and type) receives those of the losses, NaN where a
/// loss is infinite.
extern Kernel<void(const Tensor& log_probs, const Tensor& labels, const CtcBatch& batch,
                   Tensor& losses, Tensor& gradients)>
    ctc_loss;

}  // namespace kernels
}  // namespace tapegrad
