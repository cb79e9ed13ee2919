// Reading and writing by index. Indices are int32 or int64; one outside [0, size), so also a
// negative one, is an IndexError that names the first offender and its position, before anything is
// written. Sums over repeated indices are made in a fixed order, the same for any number of
// threads. Gradients flow to values, never to indices.
#pragma once

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Rows of weight [n, d] by number: [...] -> [..., d]. The row padding_idx, if not negative,
/// receives no gradient.
Variable embedding(const Variable& indices, const Variable& weight, int64_t padding_idx = -1,
                   Where where = Where::current());

/// y = x with dimension dim replaced by the entries that the vector index names.
Variable index_select(const Variable& x, int dim, const Variable& index,
                      Where where = Where::current());
/// x + alpha * source, added where the vector index points along dim; repeats add up.
Variable index_add(const Variable& x, int dim, const Variable& index, const Variable& source,
                   double alpha = 1.0, Where where = Where::current());

/// y[i][j] = x[index[i][j]][j] for dim 0, and so on; y has index's shape, which may be smaller than
/// x's in the other dimensions.
Variable gather(const Variable& x, int dim, const Variable& index, Where where = Where::current());
/// x with y[index[i][j]][j] += source[i][j] for dim 0, and so on.
Variable scatter_add(const Variable& x, int dim, const Variable& index, const Variable& source,
                     Where where = Where::current());

/// x with `value` where the mask (bool, broadcasts to x) holds.
Variable masked_fill(const Variable& x, const Variable& mask, Number value,
                     Where where = Where::current());
Variable& masked_fill_(Variable& x, const Variable& mask, Number value,
                       Where where = Where::current());

/// int64 rows of zeros with a one at each id: [...] -> [..., num_classes]. num_classes = -1 takes
/// one more than the largest id.
Variable one_hot(const Variable& ids, int64_t num_classes = -1, Where where = Where::current());

namespace kernels {

struct IndexScan {
  int64_t outside = -1;  // where the first one outside [0, size) stands, or -1
  int64_t value = 0;     // that one
  int64_t largest = -1;
};

// For all of these the index is contiguous, int64 and, but for the first, known to be in range.
extern Kernel<void(const Tensor& index, int64_t size, IndexScan& scan)> scan_index;
extern Kernel<void(const Tensor& x, const Tensor& index, int dim, Tensor& y)> index_select;
/// y += alpha * source at the index; source and y are contiguous.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Number alpha, Tensor& y)>
    index_add;
/// y has the shape of index, x too but along dim.
extern Kernel<void(const Tensor& x, const Tensor& index, int dim, Tensor& y)> gather;
/// y += source at the index; source is contiguous and has its shape, y too but along dim.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Tensor& y)> scatter_add;
/// y = value where the mask holds, else x. y may be x.
extern Kernel<void(const Tensor& x, const Tensor& mask, Number value, Tensor& y)> masked_fill;

}  // namespace kernels

}  // namespace tapegrad
