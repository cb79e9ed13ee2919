// Collectives with derivatives, for models whose layers exchange values.
//
// All ranks must run the same ops in the same order, forward and backward. Gradients of any order
// are supported.
#pragma once

#include "core/tape/variable.h"
#include "dist/communicator.h"

namespace tapegrad::dist {

/// Returns the sum of x over the ranks, on all ranks. The gradient of x is the sum of the ranks'
/// gradients.
Variable all_reduce(const Variable& x, const Communicator& world, Where where = Where::current());
/// Returns the sum of x over the ranks, for use where all ranks compute the same from it: the
/// gradient of x is the gradient of the result. For use after the second of a pair of split layers
/// (dist/tensor_parallel.h).
Variable reduce_from_ranks(const Variable& x, const Communicator& world,
                           Where where = Where::current());
/// Returns x of all ranks, [size, ...]. The gradient of x is the sum of the ranks' gradients of x.
Variable all_gather(const Variable& x, const Communicator& world, Where where = Where::current());
/// Returns entries rank * n ... (rank + 1) * n - 1 of the sum of x over the ranks; see
/// Communicator::reduce_scatter(). The gradient is gathered from the ranks.
Variable reduce_scatter(const Variable& x, const Communicator& world,
                        Where where = Where::current());
/// Sends part r of x, along dimension 0, to rank r. Part r of the result comes from rank r. The
/// gradient is sent back in the same way.
Variable all_to_all(const Variable& x, const Communicator& world, Where where = Where::current());
/// Returns x, which is the same on all ranks but used differently on each: the gradient is the sum
/// of the ranks' gradients. For use before the first of a pair of split layers.
Variable copy_to_ranks(const Variable& x, const Communicator& world,
                       Where where = Where::current());

}  // namespace tapegrad::dist
