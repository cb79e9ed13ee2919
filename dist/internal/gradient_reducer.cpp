#include "dist/internal/gradient_reducer.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

#include "core/dispatch/kernels.h"
#include "core/dispatch/span.h"
#include "dist/internal/connection.h"

namespace tapegrad::dist {

GradientReducer::GradientReducer(const std::vector<nn::NamedVariable>& parameters,
                                 Communicator world, DataParallelOptions options)
    : world_(std::move(world)),
      options_(options),
      is_of_threads_(Connections::is_of_threads(world_)) {
  for (const auto& [name, variable] : parameters) {
    names_.push_back(name);
    leaves_.push_back(variable);
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

/// Groups the parameters, last first. Each dtype has its own open bucket.
void GradientReducer::plan() {
  slots_.assign(leaves_.size(), {});
  buckets_.clear();
  struct Open {
    int64_t bucket, numel;
  };
  std::map<DType, Open> open;
  for (size_t i = leaves_.size(); i-- > 0;) {
    const Variable& leaf = leaves_[i];
    if (!leaf.requires_grad() || leaf.numel() == 0) continue;
    auto at = open.find(leaf.dtype());
    if (at == open.end()) {
      buckets_.emplace_back();
      at = open.insert({leaf.dtype(), {int64_t(buckets_.size()) - 1, 0}}).first;
    }
    Open& here = at->second;
    slots_[i] = {here.bucket, here.numel, leaf.numel(), leaf.dtype()};
    buckets_[size_t(here.bucket)].leaves.push_back(i);
    here.numel += leaf.numel();
    const int64_t limit = here.bucket == 0 ? options_.first_bucket_bytes : options_.bucket_bytes;
    if (here.numel * size_of(leaf.dtype()) >= limit) open.erase(at);
  }
  for (Bucket& bucket : buckets_) {
    const Slot& last = slots_[bucket.leaves.back()];
    bucket.flat = Tensor::full({last.offset + last.numel}, 0, last.dtype);
  }
  stats_.buckets = int64_t(buckets_.size());
}

std::string GradientReducer::name_of(size_t bucket) const {
  const std::vector<size_t>& leaves = buckets_[bucket].leaves;
  std::string name =
      absl::StrCat("gradients ", bucket + 1, "/", buckets_.size(), ": ", names_[leaves.front()]);
  if (leaves.size() > 1) absl::StrAppend(&name, " ... ", names_[leaves.back()]);
  return name;
}

Tensor GradientReducer::part_of(const Slot& slot) const {
  const Tensor& flat = buckets_[size_t(slot.bucket)].flat;
  return flat.with_layout(Layout{{slot.numel}, {1}, slot.offset});
}

bool GradientReducer::begin(const std::vector<bool>& reached, const BackwardOptions& options) {
  if (is_silent()) {
    has_local_ = true;
    return false;
  }
  if (options.create_graph)
    fail<AutogradError>(
        "DataParallel: backward() with create_graph would lose the graph; use grad()");
  if (plan_is_stale()) plan();
  std::vector<size_t> unused;
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (slots_[i].bucket >= 0 && !reached[i]) unused.push_back(i);
  if (!unused.empty() && !options_.find_unused_parameters)
    fail<AutogradError>("DataParallel: rank ", world_.rank(), ": the loss does not depend on ",
                        names_[unused[0]], unused.size() > 1 ? " and " : "",
                        unused.size() > 1 ? std::to_string(unused.size() - 1) + " more" : "",
                        ": freeze what is not used, or set find_unused_parameters");
  next_ = 0;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.leaves.size();
  if (options_.find_unused_parameters) {
    used_ = Tensor::full({int64_t(leaves_.size())}, 0, i64);
    for (size_t i = 0; i < leaves_.size(); ++i) used_.data<int64_t>()[i] = reached[i];
    used_pending_ = world_.start_all_reduce(used_, {.name = "used parameters"});
  }
  for (const size_t i : unused) on_gradient(i, {});
  return true;
}

void GradientReducer::on_gradient(size_t leaf, const Variable& gradient) {
  const Slot& slot = slots_[leaf];
  if (slot.bucket < 0) return;
  Tensor part = part_of(slot);
  const Variable local = has_local_ ? leaves_[leaf].grad() : Variable();
  const auto flatten = [&](const Variable& x) {
    const Tensor host = x.value().to(cpu).contiguous();
    return host.with_layout(Layout{{slot.numel}, {1}, host.layout().offset});
  };
  if (gradient.defined())
    kernels::copy(flatten(gradient), part);
  else
    kernels::fill(part, 0);
  if (local.defined()) kernels::accumulate(flatten(local), part);
  --buckets_[size_t(slot.bucket)].missing;
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    const ReduceOptions how{Scale::kMean, options_.compress, name_of(next_)};
    buckets_[next_].pending = world_.start_all_reduce(buckets_[next_].flat, how);
  }
}

void GradientReducer::finish(std::span<Variable> gradients) {
  const double begin = now();
  {
    const OpSpan span("all_reduce", Pass::kBackward);
    used_pending_.wait();
    for (const Bucket& bucket : buckets_) bucket.pending.wait();
  }
  const double end = now();
  for (const Bucket& bucket : buckets_) {
    const Interval interval = bucket.pending.interval();
    stats_.busy += interval.end - interval.begin;
    stats_.early += interval.begin < begin;
    stats_.bytes += bucket.flat.numel() * size_of(bucket.flat.dtype());
  }
  stats_.exposed += end - begin;
  ++stats_.passes;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.bucket < 0) continue;
    if (options_.find_unused_parameters && used_.data<int64_t>()[i] == 0) continue;
    if (has_local_) leaves_[i].zero_grad();
    Variable& gradient = gradients[i];
    const Tensor part = part_of(slot);
    Tensor target =
        gradient.defined() && gradient.is_sole_owner() && gradient.value().is_contiguous()
            ? gradient.value()
            : leaves_[i].value().empty_like(leaves_[i].shape());
    Tensor flat = target.with_layout(Layout{{slot.numel}, {1}, target.layout().offset});
    kernels::copy(part.to(target.device()), flat);
    gradient = Variable(target);
  }
  has_local_ = false;
}

}  // namespace tapegrad::dist
