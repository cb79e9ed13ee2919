// The groups of an optimizer as param_groups() shows them.
#include "core/base/error.h"
#include "optim/optimizer.h"

namespace tapegrad::optim {

GroupRate::GroupRate(Optimizer& optimizer, int64_t group, Kind kind)
    : optimizer_(&optimizer), group_(group), kind_(kind) {}
GroupRate::GroupRate(const GroupRate& other) : value_(other) {}
const GroupRate& GroupRate::operator=(const GroupRate& other) const {
  return *this = double(other);
}
GroupRate GroupRate::of_same_group() const { return {*optimizer_, group_, kind_}; }
OptimizerGroup::OptimizerGroup(Optimizer& optimizer, int64_t group)
    : lr(optimizer, group), weight_decay(optimizer, group, GroupRate::kWeightDecay) {}
OptimizerGroup::OptimizerGroup(const OptimizerGroup& other)
    : params(other.params),
      lr(other.lr.of_same_group()),
      weight_decay(other.weight_decay.of_same_group()) {}

OptimizerGroup& OptimizerGroups::operator[](tapegrad::detail::IndexHere i) {
  if (i.index < -int64_t(size()) || i.index >= int64_t(size()))
    fail_at<IndexError>(i.where, "param_groups: no group ", i.index, " among ", size());
  return data()[i.index < 0 ? i.index + int64_t(size()) : i.index];
}
OptimizerGroups& Optimizer::param_groups() {
  require_here("param_groups()");
  while (views_.size() < groups_.size()) {
    views_.emplace_back(*this, int64_t(views_.size()));
    for (const Slot& slot : groups_[views_.size() - 1].slots)
      views_.back().params.push_back(slot.param);
  }
  return views_;
}
GroupRate::operator double() const {
  if (optimizer_ == nullptr) return value_;
  return kind_ == kLr ? optimizer_->lr(group_) : optimizer_->weight_decay(group_);
}
const GroupRate& GroupRate::operator=(double value) const {
  if (optimizer_ == nullptr)
    value_ = value;
  else if (kind_ == kLr)
    optimizer_->set_lr(group_, value);
  else
    optimizer_->set_weight_decay(group_, value);
  return *this;
}
const GroupRate& OptimizerGroup::operator[](std::string_view name) const {
  if (name == "weight_decay") return weight_decay;
  if (name != "lr")
    fail<ArgumentError>("param_groups: \"", name,
                        "\" cannot be set after the construction, only \"lr\" and "
                        "\"weight_decay\"");
  return lr;
}

}  // namespace tapegrad::optim
