// Optimizer: moves parameters along their gradients.
//
//   optim::Adam opt(model, {.lr = 1e-3});      // or opt(model, 0.08), or opt(model.parameters())
//   for (auto& [x, y] : batches) {
//     opt.zero_grad();
//     cross_entropy(model(x), y).backward();
//     opt.step();
//   }
//
// Parameters may be in groups with a rate of their own:
//
//   optim::SGD opt({{.params = body.parameters()}, {.params = head.parameters(), .lr = 0.1}},
//                  {.lr = 0.01, .momentum = 0.9});
//
// An optimizer holds handles: the model may move to another device or dtype, and the optimizer's
// state follows at the next step.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/tensor_map.h"
#include "core/tape/variable.h"

namespace tapegrad {
struct ParamUpdates;  // ops/update.h
struct StepGuard;
}  // namespace tapegrad

namespace tapegrad::optim {

/// Parameters with options of their own; what is left out is the optimizer's.
struct ParamGroup {
  std::vector<Variable> params;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

/// Anything with parameters(), as a module.
template <typename Model>
concept HasParameters = requires(const Model& model) {
  { model.parameters() } -> std::convertible_to<std::vector<Variable>>;
};

/// What an optimizer is built from: a model, a list of parameters, or groups.
class Params {
 public:
  template <HasParameters Model>
  Params(const Model& model) : Params(std::vector<Variable>(model.parameters())) {}
  Params(std::vector<Variable> params);
  Params(std::initializer_list<Variable> params);
  Params(std::vector<ParamGroup> groups);
  Params(std::initializer_list<ParamGroup> groups);
  Params(Params&&) noexcept;
  ~Params();

  std::vector<ParamGroup>& groups() { return groups_; }

 private:
  std::vector<ParamGroup> groups_;
};

class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient. Not recorded.
  void step();
  void zero_grad() const;
  /// Those of all groups.
  std::vector<Variable> parameters() const;

  /// The learning rate of all groups, or of one.
  void set_lr(double lr);
  void set_lr(int64_t group, double lr);
  double lr(int64_t group = 0) const;
  int64_t group_count() const { return int64_t(groups_.size()); }

  /// The rates and weight decays of the groups ("groups.0.lr"), and each parameter's step count and
  /// state ("state.3.step", "state.3.exp_avg"), numbered across the groups.
  TensorMap state_dict() const;
  /// What it keeps for the parameters so far: the tensors of their states themselves, no copies.
  std::vector<Tensor> state() const;
  /// ArgumentError, and nothing changed, unless it fits the parameters.
  void load_state_dict(const TensorMap& state);

 protected:
  struct Slot {
    Variable param;
    int64_t steps = 0;          // made
    bool guarded = false;       // some of them perhaps left out
    std::vector<Tensor> state;  // of each of state_names(); empty ones are not used
  };
  struct Group {
    double lr, weight_decay;
    std::vector<Slot> slots;
  };

  /// `kind` names the optimizer in messages. ArgumentError for no parameters, one that is given
  /// twice, one that requires no gradient or is not a leaf, and for a negative rate or decay.
  Optimizer(std::string_view kind, Params params, double lr, double weight_decay);

  /// What state a parameter has, and how it starts: a value, or nullopt for a state not in use.
  struct StateInfo {
    std::string name;
    std::optional<double> initial = 0.0;
  };
  virtual std::vector<StateInfo> state_info() const = 0;
  /// Overwrites parameters of the group and their state, unless the guard forbids it, by one call
  /// of a kernel that is given what may change from step to step (rate, numbers, guard).
  virtual void update(const Group& group, const ParamUpdates& params, const StepGuard& guard) = 0;

 private:
  friend class GradScaler;

  /// Slots of a group, by their numbers, whose parameters are of one device and dtype.
  struct Run {
    size_t group;
    std::vector<size_t> slots;
  };
  /// Those with a gradient, their state prepared.
  std::vector<Run> runs();
  void prepare_state(Slot& slot);
  void make_steps(const StepGuard& guard);
  /// In a recorded step (core/autograd/internal/capture.h): nothing is changed where *found_inf is
  /// true.
  void step_unless(const Tensor& found_inf);
  /// Where step_unless() counts; made by the first call that is not recorded.
  void prepare_to_skip(Device device);
  /// Takes steps that were left out from the counts; waits for the device.
  void settle() const;

  std::string kind_;
  mutable std::vector<Group> groups_;
  mutable Tensor skipped_;            // on the device: steps left out since settle()
  mutable bool has_guarded_ = false;  // steps were made that may have been left out
};

/// ArgumentError unless low <= value < high.
void check_range(std::string_view kind, std::string_view option, double value, double low,
                 double high);

}  // namespace tapegrad::optim
