// State of optimizers: its tensors, and saving and loading them.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/autograd/internal/capture.h"
#include "core/base/internal/classic_text.h"
#include "optim/internal/checks.h"
#include "optim/optimizer.h"

namespace tapegrad::optim {
namespace {

/// Number of parameters of a group, behind "groups.0".
constexpr const char* kCount = ".params";

DType state_dtype(DType param) { return param == f16 || param == bf16 ? f32 : param; }

Tensor scalar_tensor(Number value, DType dtype) { return Tensor::full({}, value, dtype); }

/// Reads the entries of a state and collects what does not fit.
class StateReader {
 public:
  explicit StateReader(const TensorMap& state) : state_(state) {}

  /// Returns the entry, or an empty tensor if the state has no such entry.
  Tensor find(const std::string& name, const Shape& shape, DType dtype) {
    const auto found = state_.find(name);
    if (found == state_.end()) {
      wrong_ << "\n  missing: " << name;
      return {};
    }
    ++used_;
    const Tensor& value = found->second;
    if (value.shape() != shape || value.dtype() != dtype)
      wrong_ << "\n  " << name << " is " << value.shape() << ' ' << value.dtype() << ", expected "
             << shape << ' ' << dtype;
    return value;
  }

  /// Compares the number of parameters of group g. Files of earlier versions have no such numbers.
  void check_count(size_t g, const std::string& name, int64_t has) {
    const auto found = state_.find(name);
    if (found == state_.end()) return;
    if (const auto count = number_in(*found); count && *count != has)
      wrong_ << "\n  group " << g << " has " << *count << " parameters in the state, " << has
             << " in the optimizer";
  }

  /// Reads the state of a parameter, whose entries begin with `path`. A parameter that has made no
  /// step has no entries.
  void read(const std::string& path, const auto& infos, auto& slot) {
    slot.steps = 0;
    slot.state.clear();
    const auto steps = state_.find(path + "step");
    if (steps == state_.end()) return;
    slot.steps = number_in(*steps).value_or(0);
    if (slot.steps < 0) wrong_ << "\n  " << path << "step is " << slot.steps << ", below 0";
    const Variable& param = slot.param;
    slot.shape = param.shape();
    for (const auto& info : infos) {
      const auto shape = info.shape_for(slot.shape);
      slot.state.push_back(shape ? find(path + info.name, *shape, state_dtype(param.dtype()))
                                 : Tensor());
    }
  }

  /// Throws ArgumentError, which lists the faults, if there are any.
  void finish(std::string_view kind, Where made_at) {
    if (used_ < state_.size())
      wrong_ << "\n  " << state_.size() - used_ << " names that belong to no parameter";
    if (const std::string text = wrong_.str(); !text.empty())
      fail<ArgumentError>(kind, ": load_state_dict: the state does not fit:", text,
                          "\n  optimizer of ", made_at.file_name(), ':', made_at.line());
  }

 private:
  /// Returns the whole number of an entry, or nothing if the entry has several elements or none.
  std::optional<int64_t> number_in(const TensorMap::value_type& entry) {
    ++used_;
    if (entry.second.numel() == 1) return entry.second.number().to<int64_t>();
    wrong_ << "\n  " << entry.first << " is not one number";
    return {};
  }

  const TensorMap& state_;
  ClassicText wrong_;
  size_t used_ = 0;
};

}  // namespace

std::vector<Optimizer::StateInfo> Optimizer::state_info(const Group&) const { return {}; }
std::optional<Shape> Optimizer::StateInfo::shape_for(const Shape& param) const {
  if (!initial) return {};
  return shape == nullptr ? param : shape(param);
}
void Optimizer::prepare_state(const Group& group, Slot& slot) {
  const Tensor& param = slot.param.value();
  const DType dtype = state_dtype(param.dtype());
  if (!slot.state.empty() && slot.shape != param.shape()) [[unlikely]] {  // rebound: it starts anew
    slot.state.clear();
    slot.steps = 0;
  }
  if (slot.state.empty()) {
    if (Capture* capture = Capture::current())
      capture->give_up(kind_ + ": the state of a parameter is made in the step");
    std::vector<Tensor> state;
    for (const StateInfo& info : state_info(group)) {
      const auto shape = info.shape_for(param.shape());
      state.push_back(shape ? Tensor::full(*shape, *info.initial, dtype, param.device())
                            : Tensor());
    }
    slot.state = std::move(state);
    slot.shape = param.shape();
  }
  for (Tensor& state : slot.state)
    if (state && (state.device() != param.device() || state.dtype() != dtype)) [[unlikely]]
      state = state.to(param.device()).to(dtype);
}

bool Optimizer::lacks_state() const {
  for (const Group& group : groups_)
    for (const Slot& slot : group.slots)
      if ((slot.state.empty() || slot.shape != slot.param.shape()) &&
          (rows_of(group, slot) || slot.param.grad().defined()))
        return true;
  return false;
}

TensorMap Optimizer::state_dict() const {
  require_here("state_dict()");
  settle();
  TensorMap result;
  int64_t number = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<StateInfo> infos = state_info(groups_[g]);
    const std::string prefix = "groups." + std::to_string(g);
    result[prefix + ".lr"] = scalar_tensor(groups_[g].lr, f64);
    result[prefix + ".weight_decay"] = scalar_tensor(groups_[g].weight_decay, f64);
    result[prefix + kCount] = scalar_tensor(int64_t(groups_[g].slots.size()), i64);
    for (const Slot& slot : groups_[g].slots) {
      const std::string path = "state." + std::to_string(number++) + '.';
      if (slot.state.empty() && slot.steps == 0) continue;
      result[path + "step"] = scalar_tensor(slot.steps, i64);
      for (size_t i = 0; i < slot.state.size(); ++i)
        if (slot.state[i]) result[path + infos[i].name] = slot.state[i].clone();
    }
  }
  return result;
}

std::vector<Tensor> Optimizer::state() const {
  std::vector<Tensor> tensors;
  for (const Group& group : groups_)
    for (const Slot& slot : group.slots)
      std::copy_if(slot.state.begin(), slot.state.end(), std::back_inserter(tensors),
                   [](const Tensor& tensor) { return bool(tensor); });
  return tensors;
}

void Optimizer::load_state_dict(const TensorMap& state) {
  require_here("load_state_dict()");
  settle();
  StateReader reader(state);
  std::vector<Group> loaded = groups_;
  std::vector<std::pair<double*, Tensor>> rates;
  int64_t number = 0;
  for (size_t g = 0; g < loaded.size(); ++g) {
    const std::vector<StateInfo> infos = state_info(loaded[g]);
    const std::string prefix = "groups." + std::to_string(g);
    rates.emplace_back(&loaded[g].lr, reader.find(prefix + ".lr", {}, f64));
    rates.emplace_back(&loaded[g].weight_decay, reader.find(prefix + ".weight_decay", {}, f64));
    reader.check_count(g, prefix + kCount, int64_t(loaded[g].slots.size()));
    for (Slot& slot : loaded[g].slots)
      reader.read("state." + std::to_string(number++) + '.', infos, slot);
  }
  reader.finish(kind_, where_);
  for (auto& [rate, value] : rates) {
    *rate = value.item();
    check_range(kind_ + ": load_state_dict", "a rate", *rate, 0, kNoLimit);
  }
  for (Group& group : loaded) {
    group.initial_lr = group.lr;
    for (Slot& slot : group.slots)
      for (Tensor& value : slot.state)
        if (value) value = value.clone().to(slot.param.device());
  }
  groups_ = std::move(loaded);
}

}  // namespace tapegrad::optim
