// One layer of an LSTM or GRU in one direction over a whole sequence, as one op.
#pragma once

#include <vector>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {
namespace kernels {

// Kernels for one time step. Tensors are contiguous; states are [batch, hidden], and tensors of k
// gates are [batch, k hidden]. Gradients that a kernel reads may be empty, which means zero.

/// Computes gates = activated(x + product), [batch, 4 hidden].
extern constinit Kernel<void(const Tensor& x, const Tensor& product, const Tensor& c_before,
                             Tensor& gates, Tensor& c, Tensor& h)>
    lstm_cell;
/// dgates is the gradient of the gates before their activation. h has two gradients: dy from the
/// caller and dh from the next step.
extern constinit Kernel<void(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                             const Tensor& dy, const Tensor& dh, const Tensor& dc, Tensor& dgates,
                             Tensor& dc_before)>
    lstm_cell_backward;

/// x, and product with its bias, are [batch, 3 hidden]. gates [batch, 4 hidden] receives the
/// activated r, z and n, and the part of n that comes from the product, which r scales.
extern constinit Kernel<void(const Tensor& x, const Tensor& product, const Tensor& h_before,
                             Tensor& gates, Tensor& h)>
    gru_cell;
/// h has three gradients: dy from the caller, dh from the next step through its product, and
/// `direct` from the next step directly. `direct_before` is the direct gradient for the previous
/// step.
extern constinit Kernel<void(const Tensor& gates, const Tensor& h_before, const Tensor& dy,
                             const Tensor& dh, const Tensor& direct, Tensor& dx, Tensor& dproduct,
                             Tensor& direct_before)>
    gru_cell_backward;

// Products with one factor in every step. There is no fallback: the ops call linear and matmul on
// devices without these.

/// Writes b [k, n] to `packed` in the layout that products a b + bias with `rows` rows read
/// fastest. `packed` is contiguous and has at least the elements of b; the sizes of b, rounded up
/// to multiples of 64, are enough for the padding of all layouts. The bias may be empty.
extern constinit Kernel<void(const Tensor& b, const Tensor& bias, int64_t rows, Tensor& packed)>
    pack_factor;
/// Computes y = a b + bias for the b that pack_factor() packed for a's rows.
extern constinit Kernel<void(const Tensor& a, const Tensor& packed, const Tensor& bias, Tensor& y)>
    multiply_by_packed;

}  // namespace kernels

namespace detail {

/// Returns {h of every step [time, batch, hidden], final c [batch, hidden]}. from_input
/// [time, batch, 4 hidden] is the input's contribution to the gates, including all biases.
std::vector<Variable> lstm_sequence(const Variable& from_input, const Variable& h0,
                                    const Variable& c0, const Variable& w_hh, bool backwards,
                                    Where where);

/// Returns h of every step [time, batch, hidden]. from_input [time, batch, 3 hidden] is the input's
/// contribution to the gates, including its bias. b_hh may be empty.
Variable gru_sequence(const Variable& from_input, const Variable& h0, const Variable& w_hh,
                      const Variable& b_hh, bool backwards, Where where);

}  // namespace detail
}  // namespace tapegrad
