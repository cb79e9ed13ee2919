// Gradients of leaves that are kept as rows (core/base/row_gradient.h).
//
//   nn::Embedding table({.num_embeddings = 50'000, .embedding_dim = 100, .sparse = true});
//   loss.backward();
//   row_gradient(table.weight)->rows();   // [distinct ids, 100]
//   table.weight.grad();                  // [50'000, 100]: the rows become a dense gradient
//
// A leaf keeps its gradient as rows while only rows were accumulated into it and grad() was not
// called. SGD without momentum, Adagrad and SparseAdam update only these rows.
#pragma once

#include "core/base/row_gradient.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Returns the gradient of a leaf if the leaf keeps it as rows, otherwise null.
RowGradientPtr row_gradient(const Variable& leaf);

/// Returns the stored values of a leaf's gradient, which may be overwritten: the rows if the
/// gradient is kept as rows, otherwise grad().
Variable gradient_values(const Variable& leaf);

// Functions for rules of ops:

/// Returns whether the gradient of this input of the running rule may be sent as rows: the input
/// must be a leaf without hooks, and the pass must neither record nor capture gradients. A captured
/// step stops recording in this case, because a recorded step has fixed sizes.
bool takes_rows(size_t input);
/// Sends a gradient of this input of the running rule. Requires takes_rows(input).
void send_rows(size_t input, RowGradientPtr gradient);

}  // namespace tapegrad
