#include "dist/sharded_optimizer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "core/tape/recording.h"
#include "dist/data_parallel.h"
#include "dist/internal/device_moves.h"
#include "dist/internal/gradient_reducer.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/clip.h"

namespace tapegrad::dist {
namespace {

constexpr int64_t kRowBytes = 25 << 20;  // bounds the memory of write()

/// "state.3.exp_avg" is the state "exp_avg" of number 3.
struct StateName {
  size_t number = 0;
  std::string state = {};  // empty: no such name

  explicit StateName(const std::string& name) {
    if (!name.starts_with("state.")) return;
    const char *begin = name.data() + 6, *end = name.data() + name.size();
    const auto [point, error] = std::from_chars(begin, end, number);
    if (error == std::errc() && point != end && *point == '.') state.assign(point + 1, end);
  }
  static std::string of(size_t number, const std::string& state) {
    return absl::StrCat("state.", number, ".", state);
  }
};

constexpr const char* kSteps = "step";  // one number for each parameter

/// Returns whether the name is that of a group's number of parameters. The number of a part is that
/// of its rows, so a whole state of parts has none.
bool is_count(const std::string& name) {
  return name.starts_with("groups.") && name.ends_with(".params");
}

}  // namespace

FlatParameters::FlatParameters(const nn::Module& model, const Communicator& world) : world_(world) {
  const std::vector<Variable> parameters = model.parameters();
  make_rows(parameters, group_leaves(parameters, kRowBytes, kRowBytes));
}

FlatParameters::FlatParameters(const DataParallel& net)
    : world_(net.reducer_->world()), reducer_(net.reducer_) {
  if (!reducer_->shards())
    fail<ArgumentError>(
        "ShardedOptimizer: the DataParallel has no shard_gradients; pass the model and the ranks "
        "to share its whole gradients");
  make_rows(net.parameters(), reducer_->bucket_leaves());
}

void FlatParameters::make_rows(const std::vector<Variable>& parameters,
                               const std::vector<std::vector<size_t>>& groups) {
  if (groups.empty()) fail<ArgumentError>("ShardedOptimizer: no parameter requires a gradient");
  count_ = parameters.size();
  for (const std::vector<size_t>& group : groups) {
    Row row{.indices = group};
    for (const size_t i : group) {
      row.leaves.push_back(parameters[i]);
      row.numel += parameters[i].numel();
    }
    const int64_t length = (row.numel + world_.size() - 1) / world_.size();
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

/// Calls visit(number of the leaf in the row, first element in the leaf, first element in the part,
/// count) for each section of a leaf that belongs to the part of this rank.
template <typename Visit>
void FlatParameters::visit_part(const Row& row, Visit visit) const {
  const int64_t length = row.part.numel(), begin = world_.rank() * length, end = begin + length;
  int64_t at = 0;
  for (size_t i = 0; i < row.leaves.size(); ++i) {
    const int64_t numel = row.leaves[i].numel();
    const int64_t from = std::max(at, begin), to = std::min(at + numel, end);
    if (from < to) visit(i, from - at, from - begin, to - from);
    at += numel;
  }
}

void FlatParameters::read() const {
  for (size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    Tensor gradient;
    if (reducer_) {
      gradient = reducer_->take_shard(r);
      if (!gradient)
        fail<AutogradError>("ShardedOptimizer: there are no gradients: call backward() first");
      gradient = gradient.to(row.part.device());
    } else {
      for (const Variable& leaf : row.leaves)
        if (!leaf.grad().defined())
          fail<AutogradError>("ShardedOptimizer: a parameter of ", leaf.shape(),
                              " has no gradient");
      gradient = Tensor::full(row.part.shape(), 0, row.part.dtype(), row.part.device());
    }
    visit_part(row, [&](size_t i, int64_t from, int64_t to, int64_t count) {
      const Variable& leaf = row.leaves[i];
      Tensor values = elements(row.part.value(), to, count), part = elements(gradient, to, count);
      kernels::copy(elements(leaf.value().contiguous(), from, count), values);
      if (!reducer_) kernels::copy(elements(leaf.grad().value().contiguous(), from, count), part);
    });
    row.part.zero_grad();
    row.part.backward(Variable(gradient));
  }
}

double FlatParameters::clip(double max_norm) const {
  if (!(max_norm >= 0)) fail<ArgumentError>("clip_and_step: max_norm is ", max_norm, ", not >= 0");
  const double own = optim::clip_grad_norm_(parts(), HUGE_VAL);  // changes nothing
  const Tensor total = Tensor::full({}, own * own, f64);
  world_.all_reduce(total, {.name = "squares of the gradients"});
  const double norm = std::sqrt(total.item());
  if (max_norm / (norm + 1e-6) >= 1) return norm;
  const NoGrad no_grad;
  for (const Row& row : rows_) {
    Variable gradient = row.part.grad();
    mul_(gradient, max_norm / (norm + 1e-6));
  }
  return norm;
}

void FlatParameters::spread_infinities() const {
  const NoGrad no_grad;
  bool is_finite = true;
  for (const Row& row : rows_) is_finite &= isfinite(row.part.grad()).all().item() != 0;
  if (world_.max(!is_finite, "infinities") == 0) return;
  Variable gradient = rows_[0].part.grad();
  kernels::fill(gradient.writable(), NAN);
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
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (const Variable& leaf : rows_[r].leaves) leaf.zero_grad();
    if (reducer_) reducer_->take_shard(r);
  }
}

template <typename Visit, typename Other>
void FlatParameters::visit_state(const TensorMap& state, Visit visit, Other other) const {
  for (const auto& [name, tensor] : state) {
    const StateName at(name);
    if (!at.state.empty() && at.number < rows_.size())
      visit(rows_[at.number], at.state, tensor);
    else if (!is_count(name))
      other(name, tensor);
  }
}

TensorMap FlatParameters::gather(const TensorMap& state) const {
  TensorMap whole;
  visit_state(
      state,
      [&](const Row& row, const std::string& kind, const Tensor& tensor) {
        const bool is_divided = kind != kSteps;
        const Tensor all = is_divided ? world_.all_gather(tensor, kind) : tensor;
        int64_t at = 0;
        for (size_t i = 0; i < row.leaves.size(); ++i) {
          const Shape& shape = row.leaves[i].shape();
          whole[StateName::of(row.indices[i], kind)] =
              is_divided ? all.with_layout(contiguous_layout(shape, at)).clone() : tensor;
          at += row.leaves[i].numel();
        }
      },
      [&](const std::string& name, const Tensor& tensor) { whole[name] = tensor; });
  return whole;
}

TensorMap FlatParameters::name_shards(const TensorMap& state) const {
  TensorMap named;
  visit_state(
      state,
      [&](const Row& row, const std::string& kind, const Tensor& tensor) {
        const auto name_of = [&](size_t i) { return StateName::of(row.indices[i], kind); };
        for (size_t i = 0; i < row.leaves.size(); ++i) {
          if (kind == kSteps) {
            named[name_of(i)] = tensor;
            continue;
          }
          const Shape& shape = row.leaves[i].shape();
          const Tensor sizes = Tensor::empty({shape.rank()}, i64);
          std::ranges::copy(shape, sizes.data<int64_t>());
          named[name_of(i) + "@shape"] = sizes;
        }
        if (kind == kSteps) return;
        visit_part(row, [&](size_t i, int64_t from, int64_t to, int64_t count) {
          named[absl::StrCat(name_of(i), "@", from)] = elements(tensor, to, count).clone();
        });
      },
      [&](const std::string& name, const Tensor& tensor) { named[name] = tensor; });
  return named;
}

TensorMap FlatParameters::cut(const TensorMap& whole) const {
  std::vector<TensorMap> of_parameter(count_);
  TensorMap state;
  for (const auto& [name, tensor] : whole) {
    const StateName at(name);
    if (at.state.empty()) {
      if (!is_count(name))
        state[name] = tensor;
      else if (tensor.numel() != 1 || tensor.item() != double(count_))
        fail<ArgumentError>("ShardedOptimizer: ", name, " is not ", count_,
                            ", the number of parameters of this model");
      continue;
    }
    if (at.number >= count_)
      fail<ArgumentError>("ShardedOptimizer: ", name, " belongs to another model: this one has ",
                          count_, " parameters");
    of_parameter[at.number][at.state] = tensor;
  }
  for (size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    const TensorMap& first = of_parameter[row.indices[0]];
    for (const size_t i : row.indices)
      if (of_parameter[i].size() != first.size())
        fail<ArgumentError>("ShardedOptimizer: parameters ", row.indices[0], " and ", i,
                            " have different state");
    for (const auto& [kind, example] : first) {
      const auto of_leaf = [&](size_t i) {
        const std::string name = StateName::of(row.indices[i], kind);
        const TensorMap& all = of_parameter[row.indices[i]];
        const auto found = all.find(kind);
        if (found == all.end()) fail<ArgumentError>("ShardedOptimizer: ", name, " is missing");
        const Shape expected = kind == kSteps ? Shape{} : row.leaves[i].shape();
        if (found->second.shape() != expected || found->second.dtype() != example.dtype())
          fail<ArgumentError>("ShardedOptimizer: ", name, " is ", found->second.shape(), ' ',
                              found->second.dtype(), ", expected ", expected, ' ', example.dtype());
        return found->second;
      };
      const std::string name = StateName::of(r, kind);
      for (size_t i = 0; i < row.leaves.size(); ++i)
        if (const Tensor tensor = of_leaf(i); kind == kSteps && tensor.item() != example.item())
          fail<ArgumentError>("ShardedOptimizer: parameters ", row.indices[0], " and ",
                              row.indices[i], " made different numbers of steps");
      if (kind == kSteps) {
        state[name] = example;
        continue;
      }
      const Tensor part = Tensor::full(row.part.shape(), 0, example.dtype(), example.device());
      visit_part(row, [&](size_t i, int64_t from, int64_t to, int64_t count) {
        Tensor target = elements(part, to, count);
        kernels::copy(elements(of_leaf(i).contiguous(), from, count), target);
      });
      state[name] = part;
    }
  }
  return state;
}

void AnyShardedOptimizer::step() {
  parameters_.read();
  local_optimizer().step();
  parameters_.write();
}

double AnyShardedOptimizer::clip_and_step(double max_norm) {
  parameters_.read();
  const double norm = parameters_.clip(max_norm);
  local_optimizer().step();
  parameters_.write();
  return norm;
}

bool AnyShardedOptimizer::step(optim::GradScaler& scaler, std::optional<double> max_norm) {
  parameters_.read();
  if (scaler.is_enabled()) parameters_.spread_infinities();
  if (max_norm) {
    scaler.unscale_(local_optimizer());
    parameters_.clip(*max_norm);
  }
  const bool has_stepped = scaler.step(local_optimizer());
  parameters_.write();
  return has_stepped;
}

void AnyShardedOptimizer::zero_grad() const { parameters_.zero_grad(); }
TensorMap AnyShardedOptimizer::state_dict() const { return parameters_.gather(state_of_part()); }
void AnyShardedOptimizer::load_state_dict(const TensorMap& state) {
  local_optimizer().load_state_dict(parameters_.cut(state));
}
TensorMap AnyShardedOptimizer::shard_dict() const {
  return parameters_.name_shards(state_of_part());
}
AnyShardedOptimizer::AnyShardedOptimizer(FlatParameters parameters)
    : parameters_(std::move(parameters)) {}
}  // namespace tapegrad::dist
