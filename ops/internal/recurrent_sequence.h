// One layer of an LSTM or a GRU in one direction over a whole sequence, as one op.
#pragma once

#include <vector>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {
namespace kernels {

// Cells take one step. All tensors are contiguous; states are [batch, hidden], and what is made of
// k gates [batch, k hidden]. Gradients that a kernel reads may be empty, for zero.

/// gates = activated(x + product) [batch, 4 hidden].
extern constinit Kernel<void(const Tensor& x, const Tensor& product, const Tensor& c_before,
                             Tensor& gates, Tensor& c, Tensor& h)>
    lstm_cell;
/// dgates: of the gates before their activation. h has two gradients: the caller's and the next
/// step's.
extern constinit Kernel<void(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                             const Tensor& dy, const Tensor& dh, const Tensor& dc, Tensor& dgates,
                             Tensor& dc_before)>
    lstm_cell_backward;

/// x and product, with its bias, [batch, 3 hidden]. gates [batch, 4 hidden]: r, z and n activated,
/// and the product's part of n, which r scales.
extern constinit Kernel<void(const Tensor& x, const Tensor& product, const Tensor& h_before,
                             Tensor& gates, Tensor& h)>
    gru_cell;
/// h has three gradients: the caller's, the next step's by way of its product, and the next step's
/// directly, which for this step is `direct_before`.
extern constinit Kernel<void(const Tensor& gates, const Tensor& h_before, const Tensor& dy,
                             const Tensor& dh, const Tensor& direct, Tensor& dx, Tensor& dproduct,
                             Tensor& direct_before)>
    gru_cell_backward;

}  // namespace kernels

namespace detail {

/// {h at every step [time, batch, hidden], the last c [batch, hidden]}, from the input's share of
/// the gates with all biases [time, batch, 4 hidden].
std::vector<Variable> lstm_sequence(const Variable& from_input, const Variable& h0,
                                    const Variable& c0, const Variable& w_hh, bool backwards,
                                    Where where);

/// h at every step [time, batch, hidden], from the input's share of the gates with its own bias
/// [time, batch, 3 hidden]. b_hh may be empty.
Variable gru_sequence(const Variable& from_input, const Variable& h0, const Variable& w_hh,
                      const Variable& b_hh, bool backwards, Where where);

}  // namespace detail
}  // namespace tapegrad
