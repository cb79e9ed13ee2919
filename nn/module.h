// Module: a part of a model, made of parameters, buffers and submodules.
//
//   struct Net : nn::Model<Net> {
//     nn::Conv2d conv{{.in_channels = 1, .out_channels = 8, .kernel_size = 3}};
//     nn::Linear head{{.in_features = 8 * 26 * 26, .out_features = 10}};
//
//     void members(nn::Members& m) override { m("conv", conv)("head", head); }
//     Variable forward(const Variable& x) const { return head(flatten(relu(conv(x)), 1)); }
//   };
//
//   Net net;
//   net.to(gpu);                          // or net | gpu; handles and optimizers stay valid
//   Variable logits = net(images);
//   net.head.weight.grad();               // named "head.weight"
//   Net other = net.clone();              // shares nothing with net
//
// A module is a handle, like a Variable: copies share parameters, buffers and mode. Members are
// held by value. To tie two weights, assign the handle: `head.weight = embedding.weight`. A tied
// weight counts, moves and is saved once, under its first name.
#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <tuple>
#include <typeinfo>
#include <vector>

#include "core/base/error.h"
#include "core/base/tensor_map.h"
#include "core/tape/variable.h"

namespace tapegrad::detail {
template <typename T>
concept NotWhere = !std::same_as<T, Where>;
}

namespace tapegrad::nn {

class Module;

/// Called before forward with the Variables among the module's arguments, which it may replace.
using ForwardPreHook = std::function<void(Module& module, std::span<Variable> inputs)>;
/// Called after forward with the Variables among the arguments and the results. May replace the
/// results.
using ForwardHook = std::function<void(Module& module, std::span<const Variable> inputs,
                                       std::span<Variable> outputs)>;
/// Called with the gradients of the results and of the arguments (empty variables for those without
/// a gradient). May replace the gradients of the arguments.
using BackwardHook = std::function<void(Module& module, std::span<Variable> grad_inputs,
                                        std::span<const Variable> grad_outputs)>;

/// Initialises a layer's weight and bias (empty if the layer has none); see nn/init.h.
using Init = std::function<void(Variable& weight, Variable& bias)>;

/// Visitor of a model's modules, parameters and buffers. Paths are dotted; the outermost module's
/// path is empty.
struct MemberVisitor {
  virtual ~MemberVisitor() = default;
  virtual void on_module(const std::string&, Module&) {}
  virtual void on_parameter(const std::string&, Variable&) {}
  virtual void on_buffer(const std::string&, Variable&) {}
};

/// Receives the names of a module's members. Empty variables are left out.
class Members {
 public:
  Members(MemberVisitor& visitor, const std::string& path) : visitor_(visitor), path_(path) {}

  Members& operator()(std::string_view name, Module& module);
  Members& operator()(std::string_view name, Variable& parameter);
  /// A buffer is saved and moved with the model, but not trained.
  Members& buffer(std::string_view name, Variable& buffer);
  /// Names the modules name.0, name.1 ...
  template <std::derived_from<Module> M>
  Members& operator()(std::string_view name, std::vector<M>& modules) {
    for (size_t i = 0; i < modules.size(); ++i) visit(child(name, i), modules[i]);
    return *this;
  }

 private:
  std::string child(std::string_view name) const;
  std::string child(std::string_view name, size_t index) const;
  void visit(const std::string& path, Module& module);

  MemberVisitor& visitor_;
  const std::string& path_;
};

struct NamedVariable {
  std::string name;
  Variable variable;
};

/// Base of all modules. Derive from Model<Self>, below.
class Module {
 public:
  virtual ~Module();

  /// Names the parameters, buffers and submodules in a fixed order.
  virtual void members(Members& m) = 0;
  /// Name of the layer, "Linear", and its options, "in_features=784, out_features=10".
  virtual std::string kind() const = 0;
  virtual std::string options() const { return {}; }
  /// Calls forward of a module that takes one Variable and returns one. Throws ArgumentError for
  /// other modules.
  virtual Variable call(Variable x, Where where) = 0;
  /// Returns another handle to this module.
  virtual std::unique_ptr<Module> copy() const = 0;
  /// Whether the sizes of the module's own parameters are known.
  virtual bool is_inferred() const { return true; }
  /// A layer with a weight initialises it with the given function, at once or when its size becomes
  /// known.
  virtual void initialize(const Init&) {}

  /// Parameters and buffers by dotted name, each once. Throws ArgumentError while a size is
  /// unknown.
  std::vector<NamedVariable> named_parameters() const;
  std::vector<NamedVariable> named_buffers() const;
  std::vector<Variable> parameters() const;
  int64_t parameter_count() const;
  void visit(MemberVisitor& visitor, const std::string& path = {}) const;

  /// Sets training or evaluation mode of this module and all submodules. Dropout and BatchNorm
  /// depend on it.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const;

  /// Registers a hook that runs for every call through any handle; a clone() has no hooks. Hooks
  /// see the arguments that are Variables, and results that are a Variable or a vector or tuple of
  /// Variables.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  /// Registers a hook that runs in a backward pass when the gradients of all arguments are complete
  /// (if no argument has one: the gradients of all results). Arguments and results must not be
  /// written in place.
  HookHandle register_full_backward_hook(BackwardHook hook);

  void zero_grad() const;
  void requires_grad_(bool on = true) const;  // of all parameters
  /// Moves or converts all parameters and buffers under their existing handles, and clears
  /// gradients. A dtype converts only floats. After an error nothing has changed.
  void to(Device device) const;
  void to(DType dtype) const;

  /// Parameters and buffers by name, sharing memory with the module.
  TensorMap state_dict() const;
  /// Copies values into the module. Throws one ArgumentError that lists all names that are missing,
  /// unknown, or of another shape or dtype; the module is then unchanged.
  void load_state_dict(const TensorMap& state);

  /// Runs zeros of this shape (without the batch dimension) through the model, in evaluation mode
  /// and without recording. Sets the sizes that were left out, and every module's out_shape().
  Shape infer(const Shape& input_shape);
  /// Whether hooks or infer() observe the result of this module. If not, the module may be fused
  /// with another one.
  bool is_watched() const;
  /// Shape of this module's result in the last infer(), without the batch dimension.
  const Shape& out_shape() const;
  bool has_out_shape() const;

  /// Casts to the layer's type. Throws ArgumentError if this is another layer.
  template <std::derived_from<Module> M>
  M& as() {
    M* module = dynamic_cast<M*>(this);
    if (module == nullptr) fail<ArgumentError>("as: this module is a ", kind());
    return *module;
  }

 protected:
  Module();
  Module(const Module&);
  Module& operator=(const Module&) = default;

  /// Calls allocate() unless is_inferred(): once, however many threads make the first call.
  template <std::invocable Allocate>
  void infer_once(const Allocate& allocate) const {
    if (!has_sizes()) [[unlikely]]
      infer_under_lock(allocate);
  }
  /// Records the shape of y for infer().
  void note_output(const Variable& y);
  template <typename Y>
  void note_output(const Y&) {}
  /// The function given to the last initialize(); empty before.
  const Init& init() const;
  void set_init(const Init& init);
  /// Replaces all shared state by copies. Ties are kept.
  void unshare();
  static std::string kind_of(const std::type_info& type);
  [[noreturn]] void fail_inputs() const;

 private:
  friend class ModuleCall;
  friend class HookedCall;
  struct Hooks;
  struct State;
  Hooks& hooks();
  bool has_sizes() const;
  void infer_under_lock(const std::function<void()>& allocate) const;

  std::shared_ptr<State> state_;
};

/// Marks a module as running on this thread. Ops are recorded, and errors reported, under the
/// module's name in the outermost model, "Net.fc1".
class [[nodiscard]] ModuleCall {
 public:
  ModuleCall(const Module& module, Where where);
  ~ModuleCall();
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

  bool has_hooks() const { return has_hooks_; }
  /// Line where the module that runs on this thread was called, for a forward() without a Where.
  static Where line() { return line_; }

 private:
  struct Root {
    uint64_t id;
    const Module* module;
    bool named_anew;  // during this call
  };
  static constinit thread_local Root root_;
  static constinit thread_local Where line_;
  static const std::string* name_of(const Module& module);
  static void name_parts(const Module& root, uint64_t id);

  Root root_before_;
  Where line_before_;
  detail::Set<&detail::Context::scope> scope_;
  bool has_hooks_;
};

/// A call of a module that has hooks.
class HookedCall {
 public:
  explicit HookedCall(const Module& module);
  ~HookedCall();
  HookedCall(const HookedCall&) = delete;
  HookedCall& operator=(const HookedCall&) = delete;

  void add_input(const Variable& x);
  template <typename X>
  void add_input(const X&) {}
  void run_before();
  /// Returns the argument that forward receives after the hooks.
  const Variable& input(const Variable& x) const;
  template <typename X>
  const X& input(const X& x) const {
    return x;
  }
  void run_after(Variable& y) { run_after(std::span(&y, 1)); }
  void run_after(std::vector<Variable>& ys) { run_after(std::span<Variable>(ys)); }
  template <typename Ys>
  void run_after(Ys& ys) {
    if constexpr (requires { std::tuple_size<Ys>::value; }) {
      std::apply(
          [&](auto&... y) {
            Variable list[] = {y...};
            run_after(std::span<Variable>(list));
            size_t i = 0;
            ((y = list[i++]), ...);
          },
          ys);
    } else {
      run_after(std::span<Variable>());
    }
  }

 private:
  struct Parts;
  void run_after(std::span<Variable> outputs);

  Parts* parts_;
};

/// Base of user modules: `struct Net : nn::Model<Net>`. Self has members() and forward(), of any
/// arguments and result, and optionally a kName. Base is a class derived from Module.
template <typename Self, typename Base = Module>
class Model : public Base {
 public:
  /// Calls forward(...). A forward that takes a Where as its last argument receives the caller's
  /// line.
  template <typename X>
  auto operator()(const X& x, Where where = Where::current()) {
    return run(self(), where, x);
  }
  /// Of an operand that the caller gives away: an activation may then write over it.
  auto operator()(Variable&& x, Where where = Where::current()) {
    return run(self(), where, std::move(x));
  }
  auto operator()(Variable&& x, Where where = Where::current()) const {
    return run(self(), where, std::move(x));
  }
  template <typename X>
  auto operator()(const X& x, Where where = Where::current()) const {
    return run(self(), where, x);
  }
  template <typename X, detail::NotWhere Y>
  auto operator()(const X& x, const Y& y, Where where = Where::current()) {
    return run(self(), where, x, y);
  }
  template <typename X, detail::NotWhere Y>
  auto operator()(const X& x, const Y& y, Where where = Where::current()) const {
    return run(self(), where, x, y);
  }
  template <typename X, detail::NotWhere Y, detail::NotWhere Z>
  auto operator()(const X& x, const Y& y, const Z& z, Where where = Where::current()) {
    return run(self(), where, x, y, z);
  }
  template <typename X, detail::NotWhere Y, detail::NotWhere Z>
  auto operator()(const X& x, const Y& y, const Z& z, Where where = Where::current()) const {
    return run(self(), where, x, y, z);
  }
  /// Calls with more than three arguments: an error names the module, and the line of the failing
  /// op.
  template <detail::NotWhere... Xs>
  requires(sizeof...(Xs) > 3) auto operator()(const Xs&... xs) {
    return run(self(), Where(), xs...);
  }
  template <detail::NotWhere... Xs>
  requires(sizeof...(Xs) > 3) auto operator()(const Xs&... xs) const {
    return run(self(), Where(), xs...);
  }

  /// Returns a copy with its own parameters, buffers and mode. Ties are kept.
  Self clone() const {
    Self copy = self();
    static_cast<Model&>(copy).unshare();
    return copy;
  }
  Self& to(Device device) {
    Base::to(device);
    return self();
  }
  Self& to(DType dtype) {
    Base::to(dtype);
    return self();
  }

  std::string kind() const override {
    if constexpr (requires { Self::kName; })
      return std::string(Self::kName);
    else
      return Module::kind_of(typeid(Self));
  }
  Variable call(Variable x, Where where) override {
    if constexpr (requires(const Self s) {
                    { s.forward(x) } -> std::convertible_to<Variable>;
                  })
      return run(std::as_const(*this).self(), where, std::move(x));
    else if constexpr (requires(Self s) {
                         { s.forward(x) } -> std::convertible_to<Variable>;
                       })
      return run(self(), where, std::move(x));
    else
      this->fail_inputs();
  }
  std::unique_ptr<Module> copy() const override {
    return std::unique_ptr<Module>(new Self(self()));  // instead of make_unique: compiles faster
  }

 protected:
  using Base::Base;

 private:
  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }

  template <typename S, typename... Xs>
  static auto run(S& self, Where where, Xs&&... xs) {
    const ModuleCall call(self, where);
    try {
      auto y = call.has_hooks() ? run_hooked(self, where, xs...)
                                : run_forward(self, where, std::forward<Xs>(xs)...);
      const_cast<Self&>(self).note_output(y);
      return y;
    } catch (Error& error) {
      detail::locate(error, where);
      throw;
    }
  }
  template <typename S, typename... Xs>
  static auto run_hooked(S& self, Where where, const Xs&... xs) {
    HookedCall call(self);
    (call.add_input(xs), ...);
    call.run_before();
    auto y = run_forward(self, where, call.input(xs)...);
    call.run_after(y);
    return y;
  }
  template <typename S, typename... Xs>
  static auto run_forward(S& self, Where where, Xs&&... xs) {
    if constexpr (sizeof...(xs) < 4 && requires { self.forward(std::forward<Xs>(xs)..., where); })
      return self.forward(std::forward<Xs>(xs)..., where);
    else
      return self.forward(std::forward<Xs>(xs)...);
  }
};

/// A model without parameters, buffers and submodules.
template <typename Self>
class Stateless : public Model<Self> {
 public:
  void members(Members&) override {}
};

/// Moves the model and returns it: `model | gpu`. If there is no such device, prints one notice and
/// does nothing.
template <std::derived_from<Module> M>
M& operator|(M& model, Device device) {
  model.to(device_or_cpu(device));
  return model;
}
template <std::derived_from<Module> M>
requires(!std::is_lvalue_reference_v<M>) M operator|(M&& model, Device device) {
  model.to(device_or_cpu(device));
  return std::move(model);
}

/// Prints the modules with their options, indented by depth.
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace tapegrad::nn
