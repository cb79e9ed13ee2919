// One layer of an LSTM in one direction over a whole sequence, as one op.
#pragma once

#include <vector>

#include "core/dispatcher.h"
#include "core/variable.h"

namespace tapegrad {
namespace kernels {

/// One step. gates = activated(x + product) [batch, 4 hidden]; c and h [batch, hidden]. All
/// contiguous.
extern constinit Kernel<void(const Tensor& x, const Tensor& product, const Tensor& c_before,
                             Tensor& gates, Tensor& c, Tensor& h)>
    lstm_cell;
/// dgates: of the gates before their activation. h has two gradients, which may be empty as dc may:
/// the caller's and the next step's.
extern constinit Kernel<void(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                             const Tensor& dy, const Tensor& dh, const Tensor& dc, Tensor& dgates,
                             Tensor& dc_before)>
    lstm_cell_backward;

}  // namespace kernels

namespace detail {

/// {h at every step [time, batch, hidden], the last c [batch, hidden]}, from the input's share of
/// the gates with all biases [time, batch, 4 hidden].
std::vector<Variable> lstm_sequence(const Variable& from_input, const Variable& h0,
                                    const Variable& c0, const Variable& w_hh, bool backwards,
                                    Where where);

}  // namespace detail
}  // namespace tapegrad
