// An engine whose ranks are processes connected by TCP, for machines without MPI. Each pair of
// ranks has a connection. Rank 0 introduces the ranks to each other, as rank 0 of PyTorch's env://
// does: the others connect to its address, and learn the addresses of all.
#pragma once

#include <memory>

#include "dist/init.h"
#include "dist/internal/engine.h"

namespace tapegrad::dist {

/// Connects the ranks. Throws TimeoutError, which says who is missing, unless all ranks have come
/// within `timeout` seconds; ArgumentError if they disagree about their number, or two have one
/// rank; Error for an address that cannot be used.
std::unique_ptr<Engine> make_tcp_engine(const Rendezvous& place, double timeout);

}  // namespace tapegrad::dist
