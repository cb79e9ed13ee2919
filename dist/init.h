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
// Without a launcher, the same program runs as a single rank and uses neither MPI nor a socket.
#pragma once

#include <optional>
#include <string>

#include "dist/communicator.h"

namespace tapegrad::dist {

/// Meeting point of ranks that were started without a launcher: rank 0 listens at the address, and
/// the other ranks connect to it. Connections are neither encrypted nor authenticated: use a
/// trusted network.
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";
  int port = 29500;
};

struct InitOptions {
  /// Seconds that a rank waits for the other ranks. Default: TAPEGRAD_DIST_TIMEOUT, or 300.
  std::optional<double> timeout = {};
  /// If set, used in place of a launcher and of environment variables.
  std::optional<Rendezvous> rendezvous = {};
};

/// Returns the ranks of this program; a second call returns the same ranks. The connection ends
/// with the last of the returned objects. Keep one in a variable of main(); a global variable is
/// destroyed too late, and the process then appears to have called exit().
///
/// Throws Error if a launcher started several ranks and MPI cannot be used; the message names the
/// missing part. With TCP, throws ArgumentError for variables that are missing or are not numbers,
/// for two processes with one rank and for different sizes; TimeoutError, which names the missing
/// ranks, if ranks have not connected in time; Error for an address that cannot be used.
///
/// After init(), an uncaught exception of a rank is printed with the rank and ends all ranks with
/// status 75. A rank that leaves main() after an error while others still run also ends all ranks.
[[nodiscard]] Communicator init(InitOptions options = {});

/// Returns the message of an error, preceded by the rank of this process: "rank 1 of 3: no such
/// file". Returns the message unchanged if it begins with the rank, or if init() has connected no
/// other ranks. Also works after the last Communicator was destroyed, so that main() can print the
/// error that it caught.
std::string with_rank(const std::string& message);

/// Returns the number of this process among the processes that the launcher started on this host; 0
/// without a launcher. To give each process a separate GPU: `set_default_device({DeviceType::kCuda,
/// int8_t(dist::local_rank())})`.
int local_rank();

}  // namespace tapegrad::dist
