#include "dist/collective_ops.h"

#include "core/tape/op.h"

namespace tapegrad::dist {
namespace {

/// Sums over the ranks in the forward pass if `forward_sums` and in the backward pass if
/// `backward_sums`; otherwise copies.
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

struct Scatter;

struct Gather {
  static constexpr std::string_view kName = "all_gather";
  Communicator world;

  Tensor forward(const Tensor& x) const { return world.all_gather(x, "values"); }
  Variable backward(const Variable& dy) const;
};

struct Scatter {
  static constexpr std::string_view kName = "reduce_scatter";
  Communicator world;

  Tensor forward(const Tensor& x) const { return world.reduce_scatter(x, {.name = "values"}); }
  Variable backward(const Variable& dy) const {
    const Variable all = apply(Gather{world}, Where(), dy);
    Shape shape = dy.shape();
    shape[0] *= world.size();
    return all.reshape(shape);
  }
};

Variable Gather::backward(const Variable& dy) const {
  Shape shape;
  for (int dim = 1; dim < dy.rank(); ++dim) shape.push_back(dy.size(dim));
  return apply(Scatter{world}, Where(), dy).reshape(shape);
}

struct AllToAll {
  static constexpr std::string_view kName = "all_to_all";
  Communicator world;

  Tensor forward(const Tensor& x) const { return world.all_to_all(x, "values"); }
  Variable backward(const Variable& dy) const { return apply(AllToAll{world}, Where(), dy); }
};

}  // namespace

Variable all_reduce(const Variable& x, const Communicator& world, Where where) {
  return apply(RankSum{world, true, true}, where, x);
}
Variable reduce_from_ranks(const Variable& x, const Communicator& world, Where where) {
  return apply(RankSum{world, true, false}, where, x);
}
Variable all_gather(const Variable& x, const Communicator& world, Where where) {
  return apply(Gather{world}, where, x);
}
Variable reduce_scatter(const Variable& x, const Communicator& world, Where where) {
  return apply(Scatter{world}, where, x);
}
Variable all_to_all(const Variable& x, const Communicator& world, Where where) {
  return apply(AllToAll{world}, where, x);
}
Variable copy_to_ranks(const Variable& x, const Communicator& world, Where where) {
  return apply(RankSum{world, false, true}, where, x);
}

}  // namespace tapegrad::dist
