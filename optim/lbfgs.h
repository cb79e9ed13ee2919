// LBFGS: a quasi-Newton method for smooth losses over all data (not over batches).
//
//   optim::LBFGS opt(model, {.line_search_fn = "strong_wolfe"});
//   for (int i = 0; i < 10; ++i)
//     opt.step([&] {                      // called several times per step
//       opt.zero_grad();
//       Variable loss = mse_loss(model(x), y);
//       loss.backward();
//       return loss;
//     });
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace tapegrad::optim {

/// Options with PyTorch's names and defaults.
struct LBFGSOptions {
  double lr = 1.0;
  int64_t max_iter = 20;                 // iterations per step
  std::optional<int64_t> max_eval = {};  // calls of the closure per step; default: 1.25 max_iter
  double tolerance_grad = 1e-7;          // a step ends if no gradient exceeds this magnitude
  double tolerance_change = 1e-9;        // a step ends if parameters and loss change by less
  int64_t history_size = 100;
  std::string line_search_fn = {};  // "" or "strong_wolfe" (Nocedal and Wright 2006, 3.5 and 3.6)
};

/// L-BFGS for one group of parameters of one dtype and device. state_dict() has the state of the
/// method under "lbfgs.". step() without a closure throws ArgumentError.
class LBFGS final : public Optimizer {
 public:
  explicit LBFGS(Params params, LBFGSOptions options = {});
  LBFGS(Params params, Rate auto lr, int64_t max_iter = 20)
      : LBFGS(std::move(params), LBFGSOptions{.lr = double(lr), .max_iter = max_iter}) {}
  ~LBFGS() override;
  LBFGS(LBFGS&&) noexcept;
  LBFGS& operator=(LBFGS&&) noexcept;

  using Optimizer::step;
  /// Returns the loss before the step.
  Variable step(LossClosure closure) override;
  TensorMap state_dict() const override;
  void load_state_dict(const TensorMap& state) override;

 private:
  struct Point;
  std::vector<StateInfo> state_info(const Group&) const override;
  void update(const Group&, const ParamUpdates&, const StepGuard&) override;

  Variable gradient() const;
  Variable values() const;
  void set_values(const Variable& values) const;
  void move(double t, const Variable& direction) const;
  /// Returns the direction of the next line search, from the gradient and the stored pairs.
  Variable direction(const Variable& gradient) const;
  /// Stores the change of the gradient over the last step.
  void note_pair(const Variable& gradient);
  /// Returns the loss and its derivatives at start + t direction. The parameters keep the values of
  /// this point.
  Point evaluate(const std::function<Variable()>& closure, const Variable& start, double t) const;
  /// Returns the result of a line search that makes about `most` calls.
  Point search(const std::function<Variable()>& closure, const Point& from, double t,
               int64_t most) const;

  LBFGSOptions options_;
  // State. The vectors are concatenations over all parameters.
  int64_t iterations_ = 0;
  double t_ = 0, scale_ = 1;
  Variable direction_, last_gradient_;
  std::vector<Variable> gradient_changes_, steps_;
};

}  // namespace tapegrad::optim
