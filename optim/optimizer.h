// Optimizer: updates parameters from their gradients.
//
//   optim::Adam opt(model, {.lr = 1e-3});      // or opt(model, 0.08), or opt(model.parameters())
//   for (auto& [x, y] : batches) {
//     opt.zero_grad();
//     cross_entropy(model(x), y).backward();
//     opt.step();
//   }
//
// Parameters may be in groups with their own learning rates:
//
//   optim::SGD opt({{.params = body.parameters()}, {.params = head.parameters(), .lr = 0.1}},
//                  {.lr = 0.01, .momentum = 0.9});
//
// An optimizer holds handles: the model may move to another device or dtype, and the optimizer's
// state follows at the next step. An optimizer itself may be moved, for example into a std::vector;
// its schedulers and captured steps follow the optimizer to its new place.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/by_name.h"
#include "core/base/error.h"
#include "core/base/row_gradient.h"
#include "core/base/tensor_map.h"
#include "core/base/tracked.h"
#include "core/tape/variable.h"

namespace tapegrad {
struct ParamUpdates;  // ops/update.h
struct StepGuard;
}  // namespace tapegrad

namespace tapegrad::optim {

/// Parameters with their own options. Options that are not set are the optimizer's. Throws
/// ArgumentError for an option that the optimizer does not have.
struct ParamGroup {
  std::vector<Variable> params;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
  std::optional<double> momentum = {}, dampening = {};
  std::optional<bool> nesterov = {};
  std::optional<std::pair<double, double>> betas = {};
  std::optional<double> eps = {};
  std::optional<bool> amsgrad = {};
  std::optional<double> lr_decay = {}, alpha = {}, rho = {};
  std::optional<bool> centered = {};
};

/// Any type with parameters(), for example a module.
template <typename Model>
concept HasParameters = requires(const Model& model) {
  { model.parameters() } -> std::convertible_to<std::vector<Variable>>;
};

/// A list of named parameters, as model.named_parameters().
template <typename Named>
concept NamedParameters = requires(const Named& named) {
  { named.values() } -> std::convertible_to<std::vector<Variable>>;
};

/// A learning rate. `Adam(model, {})` means the default options, not the number 0.
template <typename T>
concept Rate = std::integral<T> || std::floating_point<T>;

/// Constructor argument of optimizers: a model, a list of parameters, or groups.
class Params {
 public:
  template <HasParameters Model>
  Params(const Model& model, Where where = Where::current())
      : Params(std::vector<Variable>(model.parameters()), where) {}
  Params(std::vector<Variable> params, Where where = Where::current());
  /// Takes the values of a list of names and parameters, as model.named_parameters().
  template <NamedParameters Named>
  Params(const Named& named, Where where = Where::current())
      : Params(std::vector<Variable>(named.values()), where) {}
  Params(std::initializer_list<Variable> params, Where where = Where::current());
  Params(std::initializer_list<std::vector<Variable>> lists,  // one group of all parameters
         Where where = Where::current());
  Params(std::vector<ParamGroup> groups, Where where = Where::current());
  Params(std::initializer_list<ParamGroup> groups, Where where = Where::current());
  template <std::derived_from<ParamGroup> G>
  requires(!std::same_as<G, ParamGroup>)
      Params(const std::vector<G>& groups, Where where = Where::current())
      : Params(std::vector<ParamGroup>(groups.begin(), groups.end()), where) {}
  Params(const Params&);
  Params(Params&&) noexcept;
  ~Params();

  std::vector<ParamGroup>& groups() { return groups_; }
  Where where() const { return where_; }

 private:
  std::vector<ParamGroup> groups_;
  Where where_;
};

class Optimizer;
/// The learning rate, or the weight decay, of a group of an optimizer. Assignment sets the value of
/// the group. A copy is a number: `auto first = group.lr;` keeps the value, and changing it does
/// not change the group.
class GroupRate {
 public:
  enum Kind { kLr, kWeightDecay };
  GroupRate(Optimizer& optimizer, int64_t group, Kind kind = kLr);
  // Not trivial: clang refuses printf("%g", group.lr), for which g++ -Wall warns.
  GroupRate(const GroupRate& other);
  operator double() const;
  /// Access by libtorch's spelling, group.lr() and group.lr(0.1).
  double operator()() const { return *this; }
  const GroupRate& operator()(double lr) const { return *this = lr; }
  const GroupRate& operator=(double lr) const;
  const GroupRate& operator=(const GroupRate& other) const;
  const GroupRate& operator*=(double factor) const { return *this = *this * factor; }
  const GroupRate& operator/=(double factor) const { return *this = *this / factor; }

 private:
  friend struct OptimizerGroup;
  GroupRate of_same_group() const;

  Optimizer* optimizer_ = nullptr;  // null in a copy
  int64_t group_ = 0;
  Kind kind_ = kLr;
  mutable double value_ = 0;  // value of a copy
};
/// Product in `p.sub_(group.lr * p.grad())`.
template <std::derived_from<Variable> V>
Variable operator*(const GroupRate& rate, const V& x) {
  return x * double(rate);
}
template <std::derived_from<Variable> V>
Variable operator*(const V& x, const GroupRate& rate) {
  return x * double(rate);
}
/// The parameters of a group. Callable, for libtorch's group.params().
struct GroupParams : std::vector<Variable> {
  using std::vector<Variable>::vector;
  GroupParams& operator()() { return *this; }
};
/// A group of an optimizer. The optimizer must outlive this object. A copy is another handle to the
/// group.
struct OptimizerGroup {
  GroupParams params;
  GroupRate lr, weight_decay;

  OptimizerGroup(Optimizer& optimizer, int64_t group);
  OptimizerGroup(const OptimizerGroup& other);
  OptimizerGroup& operator=(const OptimizerGroup&) = default;

  /// Returns an option by name: group["lr"] = 0.1, group["weight_decay"] = 0. Throws ArgumentError
  /// for another name.
  const GroupRate& operator[](std::string_view name) const;
  // Members for libtorch's group.options().set_lr(0.1).
  OptimizerGroup& options() { return *this; }
  bool has_options() const { return true; }
  double get_lr() const { return lr; }
  void set_lr(double rate) { lr = rate; }
  template <typename T>
  requires(!std::same_as<T, OptimizerGroup>) explicit operator T&() {
    static_assert(tapegrad::detail::kNever<T>,
                  "static_cast<AdamOptions&>(group.options()).lr(1e-5): write group.lr = 1e-5, or "
                  "group.options().set_lr(1e-5)");
  }
};
/// The groups of an optimizer. Throws IndexError for a group that does not exist.
class OptimizerGroups : public std::vector<OptimizerGroup> {
 public:
  OptimizerGroup& operator[](tapegrad::detail::IndexHere i);
};

using tapegrad::ZeroGradOptions;

/// Argument of step(closure).
using LossClosure = std::function<Variable()>;

class Optimizer : public tapegrad::detail::Tracked {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  /// Moves the parameters, the state and the id. Calls of the moved-from optimizer that step, set
  /// an option, clear gradients, save or load throw ArgumentError. Move assignment destroys the
  /// optimizer that was there before; its schedulers throw ArgumentError at their next step.
  Optimizer(Optimizer&& other) noexcept;
  Optimizer& operator=(Optimizer&& other) noexcept;

  /// Updates every parameter that has a gradient, once. Not recorded. A frozen parameter that still
  /// has a gradient is updated, as in PyTorch; zero_grad() clears the gradient. The first step
  /// without any gradient prints a warning.
  virtual void step();
  /// Calls the closure, which clears the gradients, computes the loss, calls backward() and returns
  /// the loss; then steps. Returns the loss. An empty closure is not called.
  virtual Variable step(LossClosure closure);
  template <std::same_as<std::vector<Variable>> Gradients>
  auto step(const Gradients&) {
    static_assert(tapegrad::detail::kNever<Gradients>,
                  "opt.step(grads): set p.grad() = ... of each parameter, then call opt.step()");
  }
  /// Clears the gradients, or fills them with zeros if `set_to_none` is false.
  void zero_grad(bool set_to_none = true) const;
  void zero_grad(ZeroGradOptions options) const;
  /// Returns the parameters of all groups.
  std::vector<Variable> parameters() const;

  /// Adds parameters with their own options, for example those of a module that is no longer
  /// frozen.
  void add_param_group(ParamGroup group, Where where = Where::current());
  /// Sets the learning rate of all groups, or of one group.
  void set_lr(double lr, Where where = Where::current());
  void set_lr(int64_t group, double lr, Where where = Where::current());
  double lr(int64_t group = 0) const;
  /// Sets the weight decay of a group. Throws ArgumentError for a negative value.
  void set_weight_decay(int64_t group, double weight_decay);
  double weight_decay(int64_t group = 0) const;
  /// Returns the groups, to read and to set: `for (auto& group : optimizer.param_groups()) group.lr
  /// *= 0.1;`. The optimizer owns the list, which is valid until the optimizer is moved or a group
  /// is added.
  OptimizerGroups& param_groups();
  int64_t group_count() const;
  const std::string& kind() const { return kind_; }
  /// Returns an id that is unique in the process, also after this optimizer is destroyed.
  uint64_t id() const { return id_; }

  /// Returns learning rates, weight decays and numbers of parameters of the groups ("groups.0.lr",
  /// "groups.0.params"), and each parameter's step count and state ("state.3.step",
  /// "state.3.exp_avg"). Parameters are numbered across groups.
  virtual TensorMap state_dict() const;
  /// Returns the state tensors themselves, not copies.
  std::vector<Tensor> state() const;
  template <std::derived_from<Variable> V>
  auto state(const V&) const {
    static_assert(tapegrad::detail::kNever<V>,
                  "state(p)[\"name\"]: derive from optim::CustomOptimizer, whose p.state[0] is the "
                  "state of a parameter");
  }
  /// Throws ArgumentError, and changes nothing, unless `state` fits the parameters.
  virtual void load_state_dict(const TensorMap& state);
  template <std::same_as<Tensor> T>
  void load_state_dict(const T&) {
    static_assert(tapegrad::detail::kNever<T>,
                  "load_state_dict(run[\"adam\"]): write load_state_dict(part_of(run, \"adam\"))");
  }

 protected:
  struct Slot {
    Variable param;
    int64_t steps = 0;               // number of steps made
    bool guarded = false;            // steps may include skipped ones; see settle()
    std::vector<Tensor> state = {};  // one per state_info(); empty if not used
    Shape shape = {};                // of the parameter when the state was made
  };
  struct Group {
    double lr, weight_decay;
    std::vector<Slot> slots;
    ParamGroup own;             // options that the group was given, without the parameters
    double initial_lr;          // the rate that the program gave, before schedulers changed it
    bool is_scheduled = false;  // whether a scheduler of the group was constructed
  };
  /// Returns the options of a group: those of the optimizer, with the group's own in their place.
  template <typename T, typename U>
  static void replace(T& option, const std::optional<U>& own) {
    if (own) option = *own;
  }

  /// `kind` names the optimizer in messages. Throws ArgumentError if no parameter requires a
  /// gradient, if a parameter occurs twice or is the result of an op, and for a negative learning
  /// rate or decay. `options` are the names of further options that a group may have.
  Optimizer(std::string_view kind, Params params, double lr, double weight_decay,
            std::initializer_list<std::string_view> options = {});
  /// Constructor for a class that overrides step(), reads param_groups() and writes the parameters
  /// under NoGrad. State of such a class is not in state_dict(), in contrast to that of a
  /// CustomOptimizer (optim/custom.h).
  explicit Optimizer(Params params, double lr = 1e-3, double weight_decay = 0.0);
  /// Throws ArgumentError for options of a group out of range. Constructors of derived classes call
  /// check_groups(), which calls this function for every group.
  virtual void check_group(const Group&) const {}
  void check_groups() const;
  /// Returns the line of the constructor's call, for its errors.
  Where made_at() const { return where_; }

  /// Name, initial value and shape of one state per parameter; nullopt for a state that is not
  /// used.
  struct StateInfo {
    std::string name;
    std::optional<double> initial = 0.0;
    std::optional<Shape> (*shape)(const Shape& param) = nullptr;  // null: the parameter's shape

    /// Returns the shape of the state of a parameter.
    std::optional<Shape> shape_for(const Shape& param) const;
  };
  virtual std::vector<StateInfo> state_info(const Group& group) const;
  /// Overwrites parameters of the group and their state, unless the guard forbids it. Makes one
  /// kernel call, whose arguments contain all values that change from step to step (learning rate,
  /// step numbers, guard). The default throws ArgumentError: the class overrides step() instead.
  virtual void update(const Group& group, const ParamUpdates& params, const StepGuard& guard);
  /// Returns whether a gradient kept as rows (core/autograd/sparse_gradient.h) updates only these
  /// rows. If not, the gradient becomes dense.
  virtual bool updates_rows(const Group&) const { return false; }
  /// Sets the momentum, or beta1, of a group. The default does nothing, for optimizers without
  /// momentum.
  virtual void set_momentum(Group&, double) const {}
  /// Makes update() get the negated gradients.
  void set_maximize(bool on) { maximize_ = on; }

 private:
  friend class GradScaler;
  friend class OptimizerHere;
  friend class ReduceLROnPlateau;
  friend class Scheduler;

  void take(Optimizer&& other) noexcept;  // everything but the handles
  void add_group(ParamGroup group);
  /// A captured step that has read an option is recorded again after a change of the option.
  void note_read(double value, std::function<double(const Optimizer&)> read) const;
  /// set_lr() that does not change the initial rate.
  void schedule_lr(size_t group, double lr);

  /// Slots of one group, by index, whose parameters have one device and dtype.
  struct Run {
    size_t group;
    std::vector<size_t> slots;
  };
  /// Slots of the parameters that have a gradient, with prepared state.
  std::vector<Run> runs();
  void prepare_state(const Group& group, Slot& slot);
  /// Returns whether a step makes the state of a parameter.
  bool lacks_state() const;
  /// Throws ArgumentError if the optimizer was moved from; `call` is the call for the message.
  void require_here(std::string_view call) const;
  /// Returns the gradient of a parameter if only its rows are updated, otherwise null.
  RowGradientPtr rows_of(const Group& group, const Slot& slot) const;
  void make_row_step(const Group& group, Slot& slot, const RowGradient& gradient);
  void make_steps(const StepGuard& guard);
  /// Prints a warning, once for an optimizer.
  void warn_of_no_gradients();
  struct RecordedStep;
  /// Makes the running capture, if there is one, call replay_step() before each replay. Returns
  /// null if there is none.
  std::shared_ptr<RecordedStep> record_step(const StepGuard& guard) const;
  void replay_step(const RecordedStep& step);
  void count_step(Slot& slot, const StepGuard& guard);
  /// Makes a step that changes nothing if *found_inf is true. For steps recorded in a CUDA graph
  /// (core/autograd/internal/capture.h).
  void step_unless(const Tensor& found_inf);
  /// Allocates the counter of skipped steps. The first call must be made outside of a recording.
  void prepare_to_skip(Device device);
  /// Subtracts skipped steps from the step counts. Waits for the device.
  void settle() const;

  std::string kind_;
  Where where_;
  std::vector<std::string_view> options_of_groups_;
  uint64_t id_;
  double lr_, weight_decay_;  // for groups without their own values
  bool maximize_ = false;
  bool has_warned_ = false;
  mutable std::vector<Group> groups_;
  OptimizerGroups views_;             // returned by param_groups(); may be shorter than groups_
  mutable Tensor skipped_;            // on the device: steps skipped since the last settle()
  mutable bool has_guarded_ = false;  // whether steps were made that may have been skipped
};

/// First constructor argument of schedulers: an optimizer, and the line of the program that passed
/// it, for errors.
class OptimizerHere {
 public:
  OptimizerHere(Optimizer& optimizer, Where where = Where::current());
  OptimizerHere(const OptimizerHere&);
  OptimizerHere& operator=(const OptimizerHere&);
  ~OptimizerHere();

  /// Returns the optimizer, also after it was moved. Throws ArgumentError if the optimizer no
  /// longer exists.
  Optimizer& get() const;
  Where where() const { return where_; }

 private:
  tapegrad::detail::Tracked::Handle optimizer_;
  Where where_;
};

/// Prints "Adam(2 parameters, lr=0.001)".
std::ostream& operator<<(std::ostream& out, const Optimizer& optimizer);

/// Throws ArgumentError unless low <= value < high.
void check_range(std::string_view kind, std::string_view option, double value, double low,
                 double high);

}  // namespace tapegrad::optim
