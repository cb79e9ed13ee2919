// Collectives with derivatives, for models whose layers exchange values.
//
// All ranks must run the same ops in the same order, forward and backward. Gradients of any order
// work.
#pragma once

#include "core/tape/variable.h"
#include "dist/communicator.h"

namespace tapegrad::dist {

/// The sum of x over the ranks, on all ranks. The gradient of x is the sum of the ranks' gradients.
Variable all_reduce(const Variable& x, const Communicator& world, Where where = Where::current());
/// The sum of x over the ranks, where all ranks use it for the same: the gradient is passed on as
/// it is. Behind the second of a pair of split layers (dist/tensor_parallel.h).
Variable reduce_from_ranks(const Variable& x, const Communicator& world,
                           Where where = Where::current());
/// x of all ranks, [size, ...]. The gradient of x is the sum of the ranks' gradients of x.
Variable all_gather(const Variable& x, const Communicator& world, Where where = Where::current());
/// Entries rank * n ... (rank + 1) * n - 1 of the sum of x over the ranks; see Communicator. The
/// gradient is gathered.
Variable reduce_scatter(const Variable& x, const Communicator& world,
                        Where where = Where::current());
/// Part r of x, along dimension 0, goes to rank r, and part r of the result comes from rank r. The
/// gradient goes back.
Variable all_to_all(const Variable& x, const Communicator& world, Where where = Where::current());
/// x itself, which is the same on all ranks, but used for other things on each: the gradient is the
/// sum of the ranks' gradients. In front of the first of a pair of split layers.
Variable copy_to_ranks(const Variable& x, const Communicator& world,
                       Where where = Where::current());

}  // namespace tapegrad::dist
