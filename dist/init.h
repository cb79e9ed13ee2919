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
// Without MPI, ranks find each other by TCP: either by PyTorch's variables RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT, which torchrun and Kubernetes' PyTorchJob set, too, or by a
// Rendezvous. If all four variables are set, MPI is not used.
//
//   for r in 0 1 2 3; do
//     RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./program &
//   done; wait
//
// The same program runs alone: without a launcher there is one rank, and neither MPI nor a socket.
#pragma once

#include <optional>
#include <string>

#include "dist/communicator.h"

namespace tapegrad::dist {

/// Where ranks meet that no launcher has introduced: rank 0 listens there, the others connect.
/// Connections are neither encrypted nor authenticated: use a network that you trust.
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";
  int port = 29500;
};

struct InitOptions {
  /// How long a rank waits for the others, in seconds; by default TAPEGRAD_DIST_TIMEOUT, or 300.
  std::optional<double> timeout = {};
  /// In place of a launcher and of variables.
  std::optional<Rendezvous> rendezvous = {};
};

/// Returns the ranks of this program; a second call returns the same ones. The connection ends with
/// the last of the returned objects, so keep one until the end of main(), in main(): a global
/// variable lives too long, which looks like an exit().
///
/// Throws Error if a launcher started several ranks and MPI cannot be used; the message says what
/// is missing. By TCP: throws ArgumentError for variables that are missing or no numbers, for two
/// processes with one rank and for different sizes; TimeoutError, which names the missing ranks, if
/// the ranks have not come in time; Error for an address that cannot be used.
///
/// From then on, an uncaught exception of a rank is printed with the rank and ends all ranks with
/// status 75, and so does a rank that leaves main() after an error while others still run.
[[nodiscard]] Communicator init(InitOptions options = {});

/// Returns the message of an error with the rank of this process: "rank 1 of 3: no such file".
/// Returns the message itself if it begins with the rank, or if init() has connected no other
/// ranks. Works after the last Communicator is gone, so that main() can print what it has caught.
std::string with_rank(const std::string& message);

/// Number of this process among those that the launcher started on this host; 0 alone. For a GPU of
/// its own: `set_default_device({DeviceType::kCuda, int8_t(dist::local_rank())})`.
int local_rank();

}  // namespace tapegrad::dist
