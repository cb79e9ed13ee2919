// Starts the communication of the processes that mpirun, srun or another launcher started.
//
//   int main() {
//     auto world = dist::init();
//     dist::DataParallel parallel(model, world);                      // dist/data_parallel.h
//     DataLoader batches(train, {.batch_size = 128, .shuffle = true, .shard = world});
//     fit(model, batches, optimizer, {.epochs = 12, .world = world});
//   }
//
//   mpirun -n 4 ./program        # docs/scale_out.md has more
//
// The same program runs alone: without a launcher there is one rank, and MPI is not started.
#pragma once

#include <optional>

#include "dist/communicator.h"

namespace tapegrad::dist {

struct InitOptions {
  /// How long a rank waits for the others, in seconds; by default TAPEGRAD_DIST_TIMEOUT, or 300.
  std::optional<double> timeout = {};
};

/// Returns the ranks of this program; a second call returns the same ones. Throws Error if a
/// launcher started several ranks and MPI cannot be used; the message says what is missing.
///
/// From then on, an uncaught exception of a rank is printed with the rank and ends all ranks with
/// status 75, and so does a rank that leaves main() after an error while others still run.
Communicator init(InitOptions options = {});

/// Number of this process among those that the launcher started on this host; 0 alone. For a GPU of
/// its own: `set_default_device({DeviceType::kCuda, int8_t(dist::local_rank())})`.
int local_rank();

}  // namespace tapegrad::dist
