// The functions of PyTorch's torch.distributed, on the ranks that init() has connected.
//
//   dist::init_process_group();                  // or: auto world = dist::init();
//   dist::all_reduce(x, {.op = dist::ReduceOp::kMax});
//   if (dist::get_rank() == 0) std::cout << x << '\n';
//   dist::destroy_process_group();
//
// The functions are equivalent to the members of Communicator with the same names. All but the
// first three throw Error before init().
#pragma once

#include "dist/init.h"

namespace tapegrad::dist {

/// Calls init() and keeps the connection until destroy_process_group() or the end of the program.
void init_process_group(InitOptions options = {});
/// Ends the connection to the other ranks, or, if a Communicator still exists, leaves that to the
/// last one.
void destroy_process_group();
bool is_initialized();
/// Returns the result of init(). Throws Error if no object returned by init() exists.
Communicator world();

int get_rank();
int get_world_size();
Communicator new_group(const std::vector<int>& ranks);
void barrier();
void all_reduce(const Values& x, const ReduceOptions& options = {});
void reduce(const Values& x, int root, const ReduceOptions& options = {});
void broadcast(const Values& x, int root = 0);
Tensor all_gather(const Values& x);
Tensor gather(const Values& x, int root = 0);
void scatter(const Tensor& all, const Values& own, int root = 0);
Tensor reduce_scatter(const Values& x, const ReduceOptions& options = {});
Tensor all_to_all(const Values& x);

}  // namespace tapegrad::dist
