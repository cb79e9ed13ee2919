// Distances and directions. p is the norm's, as in ops/reduce.h; the gradient at distance 0 is 0.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// The p-norm of all of a - b, which broadcast.
Variable dist(const Variable& a, const Variable& b, double p = 2.0, Where where = Where::current());
/// Between every row of a and every row of b: [..., m, d] and [..., n, d] -> [..., m, n]; what is
/// in front broadcasts. The differences are made, m n d numbers: exact where a and b are close.
Variable cdist(const Variable& a, const Variable& b, double p = 2.0,
               Where where = Where::current());
/// Between rows one by one, the p-norm of a - b + eps along the last dimension.
Variable pairwise_distance(const Variable& a, const Variable& b, double p = 2.0, double eps = 1e-6,
                           bool keepdim = false, Where where = Where::current());

/// a . b / (max(|a|, eps) max(|b|, eps)) along dim.
Variable cosine_similarity(const Variable& a, const Variable& b, int dim = 1, double eps = 1e-8,
                           Where where = Where::current());
/// x / max(|x|, eps) with the p-norm along dim.
Variable normalize(const Variable& x, double p = 2.0, int dim = 1, double eps = 1e-12,
                   Where where = Where::current());

}  // namespace tapegrad
