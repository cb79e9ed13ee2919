#include "dist/collective_ops.h"

#include "core/tape/op.h"

namespace tapegrad::dist {
namespace {

/// Sums over the ranks in the passes where `forward_sums` and `backward_sums` say so; else copies.
struct RankSum {
  static constexpr std::string_view kName = "all_reduce";
  Communicator world;
  bool forward_sums, backward_sums;

  Tensor forward(const Tensor& x) const {
    const Tensor y = x.clone();
    if (forward_sums) world.all_reduce(y, {.name = "values"});
    return y;
  }
  Variable backward(const Variable& dy) const {
    return apply(RankSum{world, backward_sums, forward_sums}, Where(), dy);
  }
};

}  // namespace

Variable all_reduce(const Variable& x, const Communicator& world, Where where) {
  return apply(RankSum{world, true, true}, where, x);
}
Variable reduce_from_ranks(const Variable& x, const Communicator& world, Where where) {
  return apply(RankSum{world, true, false}, where, x);
}
Variable copy_to_ranks(const Variable& x, const Communicator& world, Where where) {
  return apply(RankSum{world, false, true}, where, x);
}

}  // namespace tapegrad::dist
