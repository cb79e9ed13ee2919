// CustomOptimizer: base of optimizers whose steps are written with ops.
//
//   struct SignMomentum : optim::CustomOptimizer {
//     explicit SignMomentum(optim::Params params, double lr = 1e-4)
//         : CustomOptimizer("SignMomentum", std::move(params), lr, 0.0, {"exp_avg"}) {}
//     void update(Parameter& p) override {
//       Variable& m = p.state[0];
//       p.value = p.value - p.lr * sign(0.9 * m + 0.1 * p.grad);
//       m = 0.99 * m + 0.01 * p.grad;
//     }
//   };
//
// Learning rates, groups, schedules, frozen parameters, state_dict() and resume work as for the
// optimizers of optim/optimizers.h. The steps of those are single kernels and therefore faster.
#pragma once

#include "optim/optimizer.h"

namespace tapegrad::optim {

class CustomOptimizer : public Optimizer {
 public:
  /// A parameter in a step. Nothing is recorded.
  struct Parameter {
    Variable value;               // may be assigned, or written in place
    const Variable& grad;         // of the parameter's dtype
    std::vector<Variable> state;  // in the order of the names; initially zeros; float32 for 16 bits
    double lr, weight_decay;      // values of the group
    int64_t step;                 // number of this step of the parameter, from 1
    const ParamGroup& options;    // options that the group was given, without the parameters
  };

 protected:
  /// `state` names the state of each parameter. A state has the shape of its parameter, unless
  /// state_info() is overridden. `options` are the options of ParamGroup, besides lr and
  /// weight_decay, that a group may have.
  CustomOptimizer(std::string_view kind, Params params, double lr, double weight_decay = 0.0,
                  std::vector<std::string> state = {},
                  std::initializer_list<std::string_view> options = {});

  virtual void update(Parameter& parameter) = 0;
  /// Overridden by an optimizer whose states have other shapes or initial values. A state that a
  /// parameter does not use is an empty Variable.
  std::vector<StateInfo> state_info(const Group& group) const override;

 private:
  void update(const Group& group, const ParamUpdates& params, const StepGuard& guard) final;

  std::vector<std::string> state_;
};

}  // namespace tapegrad::optim
