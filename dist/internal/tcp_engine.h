// An engine whose ranks are processes connected by TCP, for machines without MPI. Each pair of
// ranks has a connection. As with PyTorch's env://, the other ranks connect to the address of rank
// 0, which sends them the addresses of all ranks.
#pragma once

#include <memory>

#include "dist/init.h"
#include "dist/internal/engine.h"

namespace tapegrad::dist {

/// Connects the ranks. Throws TimeoutError, which names the missing ranks, unless all ranks have
/// connected within `timeout` seconds; ArgumentError if ranks have different sizes, or two ranks
/// have the same number; Error for an address that cannot be used.
std::unique_ptr<Engine> make_tcp_engine(const Rendezvous& place, double timeout);

}  // namespace tapegrad::dist
