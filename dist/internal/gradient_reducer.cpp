#include "dist/internal/gradient_reducer.h"

#include <algorithm>
#include <map>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "core/autograd/internal/capture.h"
#include "core/base/internal/clock.h"
#include "core/dispatch/kernels.h"
#include "core/dispatch/span.h"
#include "core/tape/internal/backward.h"
#include "core/tape/recording.h"
#include "dist/internal/connection.h"
#include "ops/binary.h"

namespace tapegrad::dist {
namespace {

/// Number of buckets sent at the same time, with shard_gradients.
constexpr size_t kInFlight = 2;

}  // namespace

GradientReducer::GradientReducer(const std::vector<nn::NamedVariable>& parameters,
                                 Communicator world, DataParallelOptions options)
    : world_(std::move(world)),
      options_(options),
      is_of_threads_(Connections::is_of_threads(world_)) {
  for (const auto& [name, variable] : parameters) {
    names_.push_back(name);
    leaves_.push_back(variable);
    // Gradients of earlier passes are this rank's own.
    has_local_ |= variable.requires_grad() && variable.grad().defined();
  }
}

bool GradientReducer::plan_is_stale() const {
  if (slots_.empty() || buckets_.empty()) return true;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const bool is_sent = leaves_[i].requires_grad() && leaves_[i].numel() > 0;
    if (is_sent != (slots_[i].bucket >= 0)) return true;
    if (is_sent && (leaves_[i].numel() != slots_[i].numel || leaves_[i].dtype() != slots_[i].dtype))
      return true;
  }
  return false;
}

std::vector<std::vector<size_t>> group_leaves(std::span<const Variable> leaves, int64_t first_bytes,
                                              int64_t bytes) {
  std::vector<std::vector<size_t>> groups;
  struct Open {
    size_t group;
    int64_t bytes;
  };
  std::map<std::pair<DType, DeviceType>, Open> open;
  for (size_t i = leaves.size(); i-- > 0;) {
    const Variable& leaf = leaves[i];
    if (!leaf.requires_grad() || leaf.numel() == 0) continue;
    const std::pair kind(leaf.dtype(), leaf.device().type);
    auto at = open.find(kind);
    if (at == open.end()) {
      at = open.insert({kind, {groups.size(), 0}}).first;
      groups.emplace_back();
    }
    Open& here = at->second;
    groups[here.group].push_back(i);
    here.bytes += leaf.numel() * size_of(leaf.dtype());
    if (here.bytes >= (here.group == 0 ? first_bytes : bytes)) open.erase(at);
  }
  return groups;
}

void GradientReducer::plan() {
  slots_.assign(leaves_.size(), {});
  buckets_.clear();
  for (auto& leaves : group_leaves(leaves_, options_.first_bucket_bytes, options_.bucket_bytes)) {
    Bucket bucket{.dtype = leaves_[leaves[0]].dtype()};
    if (const Device device = leaves_[leaves[0]].device(); world_.has_nccl(device))
      bucket.device = device;
    for (const size_t i : leaves) {
      slots_[i] = {int64_t(buckets_.size()), bucket.numel, leaves_[i].numel(), bucket.dtype};
      bucket.numel += leaves_[i].numel();
    }
    bucket.leaves = std::move(leaves);
    buckets_.push_back(std::move(bucket));
  }
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i].name = name_of(i);
  stats_.buckets = int64_t(buckets_.size());
}

std::vector<std::vector<size_t>> GradientReducer::bucket_leaves() {
  if (plan_is_stale()) plan();
  std::vector<std::vector<size_t>> all;
  for (const Bucket& bucket : buckets_) all.push_back(bucket.leaves);
  return all;
}

/// With shard_gradients, the parts of all ranks have equal length.
Tensor GradientReducer::make_flat(const Bucket& bucket) const {
  const int64_t ranks = shards() ? world_.size() : 1;
  const int64_t length = (bucket.numel + ranks - 1) / ranks * ranks;
  const Tensor flat = Tensor::empty({length}, bucket.dtype, bucket.device);
  Tensor rest = flat.with_layout(StridedLayout{{length - bucket.numel}, {1}, bucket.numel});
  if (rest.numel() > 0) kernels::fill(rest, 0);
  return flat;
}

std::string GradientReducer::name_of(size_t bucket) const {
  const std::vector<size_t>& leaves = buckets_[bucket].leaves;
  std::string name =
      absl::StrCat("gradients ", bucket + 1, "/", buckets_.size(), ": ", names_[leaves.front()]);
  if (leaves.size() > 1) absl::StrAppend(&name, " ... ", names_[leaves.back()]);
  // If ranks froze different parameters in between, their gradients would be mixed up.
  std::string frozen;
  int64_t count = 0;
  for (size_t i = leaves.back(); i < leaves.front(); ++i) {
    if (leaves_[i].requires_grad() || leaves_[i].numel() == 0) continue;
    if (count++ == 0) absl::StrAppend(&name, ", without ", names_[i]);
    absl::StrAppend(&frozen, names_[i], "\n");
  }
  if (count > 1)
    absl::StrAppend(&name, " and ", count - 1, " more (",
                    absl::Hex(std::hash<std::string>()(frozen)), ")");
  return name;
}

Tensor GradientReducer::part_of(const Slot& slot) const {
  const Tensor& flat = buckets_[size_t(slot.bucket)].flat;
  return flat.with_layout(StridedLayout{{slot.numel}, {1}, slot.offset});
}

void GradientReducer::check_plan() {
  if (!plan_is_stale()) return;
  if (shards() && !buckets_.empty())
    fail<AutogradError>(
        "DataParallel: with shard_gradients, parameters must stay as they were when the "
        "optimizer was made");
  plan();
}

void GradientReducer::require_used(const std::vector<bool>& used) const {
  if (options_.find_unused_parameters) return;
  std::vector<size_t> unused;
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (slots_[i].bucket >= 0 && !used[i]) unused.push_back(i);
  if (!unused.empty())
    fail<AutogradError>("DataParallel: rank ", world_.rank(), ": the loss does not depend on ",
                        names_[unused[0]], unused.size() > 1 ? " and " : "",
                        unused.size() > 1 ? std::to_string(unused.size() - 1) + " more" : "",
                        ": freeze what is not used, or set find_unused_parameters");
}

void GradientReducer::start_pass(const std::vector<bool>& used, bool is_active) {
  next_ = 0;
  begin_ = detail::steady_seconds();
  for (Bucket& bucket : buckets_) bucket.missing = bucket.leaves.size();
  if (!options_.find_unused_parameters && !is_joining()) return;
  own_passes_ += is_active;
  const int64_t count = int64_t(leaves_.size());
  used_ = Tensor::full({count + 1}, 0, i64);
  for (int64_t i = 0; i < count; ++i) used_.data<int64_t>()[i] = used[size_t(i)];
  used_.data<int64_t>()[count] = is_active;
  used_pending_ = world_.start_all_reduce(used_, {.name = "used parameters"});
}

bool GradientReducer::begin(const std::vector<bool>& reached, const BackwardOptions& options) {
  if (is_silent()) {
    has_local_ = true;
    if (Capture* capture = Capture::current()) repeat_silent_pass(*capture);
    return false;
  }
  if (Capture* capture = Capture::current())
    capture->give_up("the gradients are sent to other ranks");
  if (options.create_graph)
    fail<AutogradError>(
        "DataParallel: backward() with create_graph would lose the graph; use grad()");
  check_plan();
  require_used(reached);
  start_pass(reached, true);
  Variable zero;
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (slots_[i].bucket >= 0 && !reached[i]) on_gradient(i, zero);
  return true;
}

/// A replay calls no observer. The step is captured again if a scope around it has ended.
void GradientReducer::repeat_silent_pass(Capture& capture) {
  const std::weak_ptr<GradientReducer> weak = weak_from_this();
  capture.before_replay([weak] {
    if (const auto self = weak.lock()) self->has_local_ = true;
  });
  if (captured_silence_ == 0)
    capture.on_setting([weak] {
      const auto self = weak.lock();
      return !self || self->is_silent();
    });
}

void GradientReducer::set_gradients(std::span<const Variable> gradients) {
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (slots_[i].bucket >= 0)
      static_cast<Leaf&>(*leaves_[i].edge().node).set_gradient(gradients[i]);
}

void GradientReducer::reduce_gradients() {
  if (world_.size() == 1 && !shards()) return;
  check_plan();
  std::vector<Variable> gradients;
  std::vector<bool> used;
  for (const Variable& leaf : leaves_) {
    gradients.push_back(leaf.requires_grad() ? leaf.grad() : Variable());
    used.push_back(gradients.back().defined());
  }
  require_used(used);
  has_local_ = true;
  is_in_place_ = true;
  const absl::Cleanup not_in_place = [&] { is_in_place_ = false; };
  start_pass(used, true);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    Variable zero;
    on_gradient(i, zero);
  }
  finish(gradients);
  set_gradients(gradients);
}

void GradientReducer::add_join(int change) {
  joins_ += change;
  own_passes_ = 0;
}

bool GradientReducer::follow() {
  if (world_.size() == 1) return false;
  check_plan();
  start_pass(std::vector<bool>(leaves_.size()), false);
  used_pending_.wait();
  if (used_.data<int64_t>()[leaves_.size()] == 0) return false;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    Variable zero;
    on_gradient(i, zero);
  }
  std::vector<Variable> gradients(leaves_.size());
  finish(gradients);
  set_gradients(gradients);
  return true;
}

int GradientReducer::busiest_rank() const {
  const Tensor all = world_.all_gather(Tensor::full({}, own_passes_, i64), "passes");
  const auto* passes = all.data<int64_t>();
  return int(std::max_element(passes, passes + all.numel()) - passes);
}

void GradientReducer::on_gradient(size_t leaf, Variable& gradient) {
  const Slot& slot = slots_[leaf];
  if (slot.bucket < 0) return;
  Bucket& bucket = buckets_[size_t(slot.bucket)];
  if (!bucket.flat) bucket.flat = make_flat(bucket);
  Tensor part = part_of(slot);
  const Variable local = has_local_ ? leaves_[leaf].grad() : Variable();
  const auto flatten = [&](const Variable& x) {
    const Tensor dense = x.value().to(bucket.device).contiguous();
    return dense.with_layout(StridedLayout{{slot.numel}, {1}, dense.layout().offset});
  };
  if (gradient.defined())
    kernels::copy(flatten(gradient), part);
  else
    kernels::fill(part, 0);
  if (local.defined()) kernels::accumulate(flatten(local), part);
  if (shards()) gradient = {};
  --bucket.missing;
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) send(next_);
}

void GradientReducer::send(size_t index) {
  Bucket& bucket = buckets_[index];
  bucket.ready = detail::steady_seconds();
  const ReduceOptions how{is_joining() ? ReduceOp::kSum : ReduceOp::kMean, options_.compress,
                          bucket.name, told_};
  if (!shards()) {
    bucket.pending = world_.start_all_reduce(bucket.flat, how);
    return;
  }
  if (index >= kInFlight) {  // so that few buckets are in memory
    const double begin = detail::steady_seconds();
    buckets_[index - kInFlight].pending.wait();
    stats_.exposed += detail::steady_seconds() - begin;
  }
  bucket.arrived =
      Tensor::empty({bucket.flat.numel() / world_.size()}, bucket.dtype, bucket.device);
  bucket.pending = world_.start_reduce_scatter(bucket.flat, bucket.arrived, how);
  bucket.flat = {};  // freed when it has been sent
}

void GradientReducer::finish(std::span<Variable> gradients) {
  const double begin = detail::steady_seconds();
  {
    const OpSpan span("all_reduce", Pass::kBackward);
    used_pending_.wait();
    for (const Bucket& bucket : buckets_) bucket.pending.wait();
  }
  if (is_joining()) active_ = used_.data<int64_t>()[leaves_.size()];
  const double end = detail::steady_seconds();
  stats_.last.clear();
  for (const Bucket& bucket : buckets_) {
    const Interval interval = bucket.pending.interval();
    stats_.last.push_back({bucket.numel * size_of(bucket.dtype), bucket.ready - begin_,
                           interval.begin - begin_, interval.end - begin_});
    stats_.busy += interval.end - interval.begin;
    stats_.early += interval.begin < begin;
    stats_.bytes += bucket.numel * size_of(bucket.dtype);
  }
  stats_.exposed += end - begin;
  stats_.backward = end - begin_;
  ++stats_.passes;
  if (!buckets_.empty()) heard_ = buckets_.back().pending.note();
  shards() ? keep_shards(gradients) : keep_means(gradients);
  has_local_ = false;
}

/// Returns the mean over the ranks. In a join() scope, the ranks exchanged sums.
Tensor GradientReducer::mean_of(const Tensor& reduced) const {
  if (!is_joining()) return reduced;
  const NoGrad no_grad;
  return (Variable(reduced) / double(active_)).value();
}

/// Adds the parts that have arrived to those of earlier passes.
void GradientReducer::keep_shards(std::span<Variable> gradients) {
  for (Bucket& bucket : buckets_) {
    const Tensor mean = mean_of(std::exchange(bucket.arrived, {}));
    if (bucket.shard)
      kernels::accumulate(mean, bucket.shard);
    else
      bucket.shard = mean;
  }
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (slots_[i].bucket < 0) continue;
    if (has_local_) leaves_[i].zero_grad();
    gradients[i] = {};
  }
}

void GradientReducer::keep_means(std::span<Variable> gradients) {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.bucket < 0) continue;
    if (options_.find_unused_parameters && used_.data<int64_t>()[i] == 0) continue;
    if (has_local_) leaves_[i].zero_grad();
    Variable& gradient = gradients[i];
    const Tensor part = mean_of(part_of(slot));
    const bool reuses = gradient.defined() && gradient.value().is_contiguous() &&
                        (is_in_place_ || gradient.is_sole_owner());
    Tensor target = reuses ? gradient.value() : leaves_[i].value().empty_like(leaves_[i].shape());
    Tensor flat = target.with_layout(StridedLayout{{slot.numel}, {1}, target.layout().offset});
    kernels::copy(part.to(target.device()), flat);
    if (is_in_place_) target.storage().bump_version();
    if (!reuses) gradient = Variable(target);
  }
  for (Bucket& bucket : buckets_) bucket.flat = {};  // memory for the next forward pass
}

/// Communication may still use the buckets, so the next pass makes new buckets. Parts of
/// earlier passes stay.
void GradientReducer::cancel() noexcept {
  for (Bucket& bucket : buckets_) bucket.flat = bucket.arrived = {};
}

}  // namespace tapegrad::dist
