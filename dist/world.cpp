#include "dist/world.h"

namespace tapegrad::dist {
int get_rank() { return world().rank(); }
int get_world_size() { return world().size(); }
Communicator new_group(const std::vector<int>& ranks) { return world().group(ranks); }
void barrier() { world().barrier(); }
void all_reduce(const Values& x, const ReduceOptions& options) { world().all_reduce(x, options); }
void reduce(const Values& x, int root, const ReduceOptions& options) {
  world().reduce(x, root, options);
}
void broadcast(const Values& x, int root) { world().broadcast(x, root); }
Tensor all_gather(const Values& x) { return world().all_gather(x); }
Tensor gather(const Values& x, int root) { return world().gather(x, root); }
void scatter(const Tensor& all, const Values& own, int root) { world().scatter(all, own, root); }
Tensor reduce_scatter(const Values& x, const ReduceOptions& options) {
  return world().reduce_scatter(x, options);
}
Tensor all_to_all(const Values& x) { return world().all_to_all(x); }
}  // namespace tapegrad::dist
