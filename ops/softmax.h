// softmax and log_softmax along one dimension. A row of which every element is -inf gives NaN, as
// in PyTorch.
#pragma once

#include "core/dispatcher.h"
#include "core/variable.h"

namespace tapegrad {

/// exp(x) / sum(exp(x)) along dim, shifted by the maximum so that it never overflows.
Variable softmax(const Variable& x, int dim, Where where = Where::current());

/// x - log(sum(exp(x))) along dim, shifted likewise.
Variable log_softmax(const Variable& x, int dim, Where where = Where::current());

}  // namespace tapegrad
