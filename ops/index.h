// Ops that read and write by index. Indices are int32 or int64 in [0, size); negative indices are
// not allowed. IndexError names the first invalid index and its position, and nothing is written.
// Contributions of repeated indices are summed in a fixed order, so results do not depend on the
// number of threads. Gradients flow to values, never to indices.
#pragma once

#include <optional>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Looks up rows of weight [n, d]: indices [...] give [..., d]. The row padding_idx receives no
/// gradient; a negative number counts from the end.
Variable embedding(const Variable& indices, const Variable& weight,
                   std::optional<int64_t> padding_idx = {}, Where where = Where::current());
/// Overload with `sparse`: if true, a weight that is a leaf keeps its gradient as rows if possible
/// (core/autograd/sparse_gradient.h).
Variable embedding(const Variable& indices, const Variable& weight,
                   std::optional<int64_t> padding_idx, bool sparse, Where where = Where::current());

/// Options of embedding(indices, weight, {.padding_idx = 0}).
struct EmbeddingFuncOptions {
  ByName by_name = {};
  std::optional<int64_t> padding_idx = {};
  bool scale_grad_by_freq =
      false;  // divide gradients by the number of uses of their row in indices
  bool sparse = false;
};
Variable embedding(const Variable& indices, const Variable& weight, EmbeddingFuncOptions options,
                   Where where = Where::current());

/// Selects entries along dim: y has the size of the vector index in dimension dim.
Variable index_select(const Variable& x, int dim, const Variable& index,
                      Where where = Where::current());
/// Returns x with alpha * source added at the positions of the vector index along dim.
/// Contributions of repeated indices are summed.
Variable index_add(const Variable& x, int dim, const Variable& index, const Variable& source,
                   double alpha = 1.0, Where where = Where::current());

/// For dim 0, y[i][j] = x[index[i][j]][j]; likewise for other dims and ranks. y has the shape of
/// index, which may be smaller than x in the other dimensions.
Variable gather(const Variable& x, int dim, const Variable& index, Where where = Where::current());
/// Returns x with source[i][j] added to element [index[i][j]][j] for dim 0; likewise for other dims
/// and ranks.
Variable scatter_add(const Variable& x, int dim, const Variable& index, const Variable& source,
                     Where where = Where::current());

/// Replaces elements of x by `value` where mask (bool, broadcasts to x) is true.
Variable masked_fill(Variable x, const Variable& mask, Number value,
                     Where where = Where::current());
/// Overload with a value of rank 0, which receives the sum of the gradients.
Variable masked_fill(Variable x, const Variable& mask, const Variable& value,
                     Where where = Where::current());
Variable& masked_fill_(Variable& x, const Variable& mask, Number value,
                       Where where = Where::current());

/// Encodes ids as one-hot vectors: ids [...] give int64 [..., num_classes]. num_classes = -1 means
/// one more than the largest id.
Variable one_hot(const Variable& ids, int64_t num_classes = -1, Where where = Where::current());

namespace kernels {

struct IndexScan {
  int64_t outside = -1;  // position of the first index outside [0, size), or -1
  int64_t value = 0;     // value of this index
  int64_t largest = -1;
};

// The index is contiguous int64. Every kernel except scan_index requires indices in range.
extern Kernel<void(const Tensor& index, int64_t size, IndexScan& scan)> scan_index;
extern Kernel<void(const Tensor& x, const Tensor& index, int dim, Tensor& y)> index_select;
/// Adds alpha * source to y at the index; source and y are contiguous. If the index has k times as
/// many entries as source along dim, each entry of source is added at k successive entries of the
/// index.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Number alpha, Tensor& y)>
    index_add;
/// y has the shape of index; x has the same shape except along dim.
extern Kernel<void(const Tensor& x, const Tensor& index, int dim, Tensor& y)> gather;
/// Adds source to y at the index. source is contiguous and has the shape of index; y has the same
/// shape except along dim.
extern Kernel<void(const Tensor& source, const Tensor& index, int dim, Tensor& y)> scatter_add;
/// Computes y = value where mask is true, else x. y may alias x.
extern Kernel<void(const Tensor& x, const Tensor& mask, Number value, Tensor& y)> masked_fill;

}  // namespace kernels

}  // namespace tapegrad
