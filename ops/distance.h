// Distances, cosine similarity and normalization. p selects the norm as in ops/reduce.h. The
// gradient at distance 0 is 0.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// Returns the p-norm over all elements of a - b, after broadcasting. PyTorch calls this function
/// dist(); here dist is the namespace of dist/init.h.
Variable distance(const Variable& a, const Variable& b, double p = 2.0,
                  Where where = Where::current());
/// Returns distances between every row of a and every row of b: [..., m, d] and [..., n, d] give
/// [..., m, n]; leading dimensions broadcast. All m n d differences are computed, so the result is
/// accurate even where a and b are close.
Variable cdist(const Variable& a, const Variable& b, double p = 2.0,
               Where where = Where::current());
/// Returns the distances between the rows of x [n, d], one for each pair: [n (n - 1) / 2].
Variable pdist(const Variable& x, double p = 2.0, Where where = Where::current());

/// Returns the p-norm of a - b + eps along the last dimension.
Variable pairwise_distance(const Variable& a, const Variable& b, double p = 2.0, double eps = 1e-6,
                           bool keepdim = false, Where where = Where::current());

/// Returns a . b / (max(|a|, eps) max(|b|, eps)) along dim.
Variable cosine_similarity(const Variable& a, const Variable& b, int dim = 1, double eps = 1e-8,
                           Where where = Where::current());
/// Returns x / max(|x|, eps) with the p-norm along dim.
Variable normalize(const Variable& x, double p = 2.0, int dim = 1, double eps = 1e-12,
                   Where where = Where::current());

}  // namespace tapegrad
