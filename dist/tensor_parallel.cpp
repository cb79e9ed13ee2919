#include "dist/tensor_parallel.h"

#include "core/base/error.h"
#include "dist/collective_ops.h"
#include "ops/binary.h"
#include "ops/linear.h"
#include "ops/view.h"

namespace tapegrad::dist {
namespace {

/// Returns this rank's part of a parameter, as a leaf with memory of its own.
Variable part_of(const Variable& whole, int dim, const Communicator& world, const char* layer) {
  if (!whole.defined()) return {};
  if (whole.size(dim) == 0 || whole.size(dim) % world.size() != 0)
    fail<ArgumentError>(layer, ": ", world.size(), " ranks do not divide ", whole.size(dim),
                        " features");
  const int64_t length = whole.size(dim) / world.size();
  const Variable part = narrow(whole.detach(), dim, world.rank() * length, length);
  return Variable(part.value().clone()).requires_grad_();
}

nn::Linear whole_layer(nn::LinearSettings options, const char* layer) {
  if (options.in_features < 1 || options.out_features < 1)
    fail<ArgumentError>(layer, ": in_features is ", options.in_features, " and out_features ",
                        options.out_features, "; both must be at least 1");
  return nn::Linear(options);
}

}  // namespace

ColumnLinear::ColumnLinear(nn::LinearSettings options, const Communicator& world)
    : ColumnLinear(whole_layer(options, "ColumnLinear"), world) {}

ColumnLinear::ColumnLinear(const nn::Linear& whole, const Communicator& world)
    : weight(part_of(whole.weight, 0, world, "ColumnLinear")),
      bias(part_of(whole.bias, 0, world, "ColumnLinear")),
      world_(world) {}

Variable ColumnLinear::forward(const Variable& x, Where where) const {
  return linear(copy_to_ranks(x, world_, where), weight, bias, {}, where);
}

RowLinear::RowLinear(nn::LinearSettings options, const Communicator& world)
    : RowLinear(whole_layer(options, "RowLinear"), world) {}

RowLinear::RowLinear(const nn::Linear& whole, const Communicator& world)
    : weight(part_of(whole.weight, 1, world, "RowLinear")),
      bias(whole.bias.defined() ? Variable(whole.bias.value().clone()).requires_grad_()
                                : Variable()),
      world_(world) {}

Variable RowLinear::forward(const Variable& x, Where where) const {
  const Variable y = reduce_from_ranks(linear(x, weight, {}, {}, where), world_, where);
  return bias.defined() ? y + bias : y;
}

void ColumnLinear::members(nn::Members& m) { m("weight", weight)("bias", bias); }
void RowLinear::members(nn::Members& m) { m("weight", weight)("bias", bias); }
}  // namespace tapegrad::dist
