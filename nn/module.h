// Module: a part of a model, made of parameters, buffers and further modules.
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
// A module is a handle, as a Variable is: copies share parameters, buffers and mode. Members are
// held by value. Two that are to share a weight are tied by assigning the handle, `head.weight =
// embedding.weight`; it then counts, moves and is saved once, under its first name.
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

/// Sees the Variables among a module's arguments before forward, and may replace them.
using ForwardPreHook = std::function<void(Module& module, std::span<Variable> inputs)>;
/// Sees them and the results after forward, and may replace the results.
using ForwardHook = std::function<void(Module& module, std::span<const Variable> inputs,
                                       std::span<Variable> outputs)>;
/// Sees the gradients of the results and of the arguments (empty ones where there is none), and may
/// replace those of the arguments.
using BackwardHook = std::function<void(Module& module, std::span<Variable> grad_inputs,
                                        std::span<const Variable> grad_outputs)>;

/// How a model initialises a layer's weight and bias (empty when there is none); see nn/init.h.
using Init = std::function<void(Variable& weight, Variable& bias)>;

/// What walks through a model. Paths are dotted; the outermost module's is empty.
struct MemberVisitor {
  virtual ~MemberVisitor() = default;
  virtual void on_module(const std::string&, Module&) {}
  virtual void on_parameter(const std::string&, Variable&) {}
  virtual void on_buffer(const std::string&, Variable&) {}
};

/// Takes the names of a module's members. Empty variables are left out.
class Members {
 public:
  Members(MemberVisitor& visitor, const std::string& path) : visitor_(visitor), path_(path) {}

  Members& operator()(std::string_view name, Module& module);
  Members& operator()(std::string_view name, Variable& parameter);
  /// Saved and moved with the model, but not trained.
  Members& buffer(std::string_view name, Variable& buffer);
  /// name.0, name.1 ...
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

/// What every part of a model can do. Derive from Model<Self>, below.
class Module {
 public:
  virtual ~Module();

  /// Names the parameters, buffers and modules this one consists of, in a fixed order.
  virtual void members(Members& m) = 0;
  /// The layer's name, "Linear", and its options, "in_features=784, out_features=10".
  virtual std::string kind() const = 0;
  virtual std::string options() const { return {}; }
  /// forward, for a module that takes one Variable and gives one; else an ArgumentError.
  virtual Variable call(const Variable& x, Where where) = 0;
  /// Another handle to this module.
  virtual std::unique_ptr<Module> copy() const = 0;
  /// Whether the sizes of its own parameters are known.
  virtual bool is_inferred() const { return true; }
  /// Layers with a weight initialise it so, at once or when its size becomes known.
  virtual void initialize(const Init&) {}

  /// Parameters and buffers by dotted name, each once. ArgumentError when a size is not yet known.
  std::vector<NamedVariable> named_parameters() const;
  std::vector<NamedVariable> named_buffers() const;
  std::vector<Variable> parameters() const;
  int64_t parameter_count() const;
  void visit(MemberVisitor& visitor, const std::string& path = {}) const;

  /// The mode of this module and all within: it matters to Dropout and BatchNorm.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const;

  /// Hooks of this module, whoever calls it, with its handle; a clone() has none. They see the
  /// arguments that are Variables, and results that are a Variable or a vector or tuple of them.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  /// Called in a backward pass when the gradients of all arguments are there (of a module whose
  /// arguments have none: of all results). Arguments and results must not be written in place.
  HookHandle register_full_backward_hook(BackwardHook hook);

  void zero_grad() const;
  void requires_grad_(bool on = true) const;  // of all parameters
  /// Moves or converts all parameters and buffers (a dtype converts the floats) under their
  /// handles; gradients are cleared. After an error nothing has changed.
  void to(Device device) const;
  void to(DType dtype) const;

  /// Parameters and buffers by name; they share memory with the module.
  TensorMap state_dict() const;
  /// Copies values into the module. One ArgumentError lists all names that are missing, unknown, or
  /// of another shape or dtype; the module is then unchanged.
  void load_state_dict(const TensorMap& state);

  /// Runs zeros of this shape through the model (the batch dimension left out), in evaluation mode
  /// and unrecorded: sets the sizes that were left out, and every module's out_shape().
  Shape infer(const Shape& input_shape);
  /// Whether hooks or infer() look at what this module gives: else it may be made part of another
  /// op.
  bool is_watched() const;
  /// The shape that the last infer() saw this module give, without the batch dimension.
  const Shape& out_shape() const;
  bool has_out_shape() const;

  /// This, as the layer it is. ArgumentError when it is another.
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

  /// For infer().
  void note_output(const Variable& y);
  template <typename Y>
  void note_output(const Y&) {}
  /// What initialize() was given last, empty before.
  const Init& init() const;
  void set_init(const Init& init);
  /// Puts copies of everything behind the handles, ties kept.
  void unshare();
  static std::string kind_of(const std::type_info& type);
  [[noreturn]] void fail_inputs() const;

 private:
  friend class ModuleCall;
  friend class HookedCall;
  struct Hooks;
  struct State;
  Hooks& hooks();

  std::shared_ptr<State> state_;
};

/// While it lives, this thread works for the module: ops are recorded, and errors reported, under
/// its name in the model that was called first, "Net.fc1".
class [[nodiscard]] ModuleCall {
 public:
  ModuleCall(const Module& module, Where where);
  ~ModuleCall();
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

  bool has_hooks() const { return has_hooks_; }
  /// Where the module that runs on this thread was called: for a forward that takes no Where.
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

  const std::string* scope_before_;
  Root root_before_;
  Where line_before_;
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
  /// What forward is to see instead.
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

/// What modules derive from, as `struct Net : nn::Model<Net>`. Self has members() and forward(), of
/// any inputs and result, and may give itself a kName. Base is a Module that has the rest.
template <typename Self, typename Base = Module>
class Model : public Base {
 public:
  /// forward(...). A layer whose forward takes a Where last passes on the caller's line.
  template <typename X>
  auto operator()(const X& x, Where where = Where::current()) {
    return run(self(), where, x);
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
  /// Of more than three: an error names the module, and the line of the op that failed.
  template <detail::NotWhere... Xs>
  requires(sizeof...(Xs) > 3) auto operator()(const Xs&... xs) {
    return run(self(), Where(), xs...);
  }
  template <detail::NotWhere... Xs>
  requires(sizeof...(Xs) > 3) auto operator()(const Xs&... xs) const {
    return run(self(), Where(), xs...);
  }

  /// The same model with its own parameters, buffers and mode; ties are kept.
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
  Variable call(const Variable& x, Where where) override {
    if constexpr (requires(const Self s) {
                    { s.forward(x) } -> std::convertible_to<Variable>;
                  })
      return run(std::as_const(*this).self(), where, x);
    else if constexpr (requires(Self s) {
                         { s.forward(x) } -> std::convertible_to<Variable>;
                       })
      return run(self(), where, x);
    else
      this->fail_inputs();
  }
  std::unique_ptr<Module> copy() const override {
    return std::unique_ptr<Module>(new Self(self()));  // no unique_ptr<Self>: compiles faster
  }

 protected:
  using Base::Base;

 private:
  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }

  template <typename S, typename... Xs>
  static auto run(S& self, Where where, const Xs&... xs) {
    const ModuleCall call(self, where);
    try {
      auto y = call.has_hooks() ? run_hooked(self, where, xs...) : run_forward(self, where, xs...);
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
  static auto run_forward(S& self, Where where, const Xs&... xs) {
    if constexpr (sizeof...(xs) < 4 && requires { self.forward(xs..., where); })
      return self.forward(xs..., where);
    else
      return self.forward(xs...);
  }
};

/// A model without parameters, buffers and parts.
template <typename Self>
class Stateless : public Model<Self> {
 public:
  void members(Members&) override {}
};

/// Moves the model and gives it on, as `model | gpu`: a no-op with one notice without such a
/// device.
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

/// The modules, indented, each with its options.
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace tapegrad::nn
