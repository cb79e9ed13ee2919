#include "dist/sharded_optimizer.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::dist {
namespace {

/// A view of `count` elements of a contiguous tensor, as a row.
Tensor elements(const Tensor& x, int64_t first, int64_t count) {
  return x.with_layout(Layout{{count}, {1}, x.layout().offset + first});
}

}  // namespace

FlatParameters::FlatParameters(const nn::Module& model, const Communicator& world) : world_(world) {
  std::map<std::pair<DType, int>, Row> rows;
  for (const Variable& leaf : model.parameters()) {
    if (!leaf.requires_grad() || leaf.numel() == 0) continue;
    Row& row = rows[{leaf.dtype(), int(leaf.device().type)}];
    row.leaves.push_back(leaf);
    row.numel += leaf.numel();
  }
  if (rows.empty()) fail<ArgumentError>("ShardedOptimizer: no parameter requires a gradient");
  for (auto& [kind, row] : rows) {
    const int64_t length = (row.numel + world.size() - 1) / world.size();
    const Variable& leaf = row.leaves[0];
    row.part = Variable(Tensor::full({length}, 0, leaf.dtype(), leaf.device())).requires_grad_();
    rows_.push_back(std::move(row));
  }
}

std::vector<Variable> FlatParameters::parts() const {
  std::vector<Variable> all;
  for (const Row& row : rows_) all.push_back(row.part);
  return all;
}

/// Calls visit(leaf, first element in the leaf, first element in the part, count) for what the part
/// of this rank consists of.
template <typename Visit>
void FlatParameters::visit_part(const Row& row, Visit visit) const {
  const int64_t length = row.part.numel(), begin = world_.rank() * length, end = begin + length;
  int64_t at = 0;
  for (const Variable& leaf : row.leaves) {
    const int64_t from = std::max(at, begin), to = std::min(at + leaf.numel(), end);
    if (from < to) visit(leaf, from - at, from - begin, to - from);
    at += leaf.numel();
  }
}

void FlatParameters::read() const {
  for (const Row& row : rows_) {
    for (const Variable& leaf : row.leaves)
      if (!leaf.grad().defined())
        fail<AutogradError>("ShardedOptimizer: a parameter of ", leaf.shape(), " has no gradient");
    Tensor gradient = Tensor::full(row.part.shape(), 0, row.part.dtype(), row.part.device());
    visit_part(row, [&](const Variable& leaf, int64_t from, int64_t to, int64_t count) {
      Tensor values = elements(row.part.value(), to, count), part = elements(gradient, to, count);
      kernels::copy(elements(leaf.value().contiguous(), from, count), values);
      kernels::copy(elements(leaf.grad().value().contiguous(), from, count), part);
    });
    row.part.zero_grad();
    row.part.backward(Variable(gradient));
  }
}

void FlatParameters::write() const {
  for (const Row& row : rows_) {
    row.part.zero_grad();  // frees the memory
    const Tensor all = world_.all_gather(row.part.value(), "updated parameters");
    int64_t at = 0;
    for (Variable leaf : row.leaves) {
      Tensor target = leaf.value();
      kernels::copy(all.with_layout({leaf.shape(), contiguous_strides(leaf.shape()), at}), target);
      target.storage().bump_version();
      at += leaf.numel();
    }
  }
}

void FlatParameters::zero_grad() const {
  for (const Row& row : rows_)
    for (const Variable& leaf : row.leaves) leaf.zero_grad();
}

TensorMap FlatParameters::gather(const TensorMap& state) const {
  TensorMap whole = state;
  for (auto& [name, tensor] : whole)
    for (size_t i = 0; i < rows_.size(); ++i)
      if (name.starts_with("state." + std::to_string(i) + ".") &&
          tensor.shape() == rows_[i].part.shape())
        tensor = elements(world_.all_gather(tensor, name), 0, rows_[i].numel).clone();
  return whole;
}

TensorMap FlatParameters::cut(const TensorMap& whole) const {
  TensorMap state = whole;
  for (auto& [name, tensor] : state)
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      if (!name.starts_with("state." + std::to_string(i) + ".") || tensor.rank() == 0) continue;
      if (tensor.shape() != Shape{row.numel})
        fail<ArgumentError>("ShardedOptimizer: ", name, " of shape ", tensor.shape(),
                            " does not belong to ", row.numel, " parameters");
      const int64_t length = row.part.numel(), begin = world_.rank() * length;
      const int64_t count = std::clamp<int64_t>(row.numel - begin, 0, length);
      const Tensor part = Tensor::full({length}, 0, tensor.dtype(), tensor.device());
      if (count > 0) {
        Tensor target = elements(part, 0, count);
        kernels::copy(elements(tensor.contiguous(), begin, count), target);
      }
      tensor = part;
    }
  return state;
}

}  // namespace tapegrad::dist
