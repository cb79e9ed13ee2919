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
// A module is a handle, like a Variable: copies share parameters, buffers and mode. So
// `std::vector<nn::Linear> v(3, nn::Linear(4, 4))` holds one weight three times, and summary() says
// "3 names, one parameter". To tie two weights, assign the handle: `head.weight =
// embedding.weight`. A tied weight counts, moves and is saved once, under its first name.
//
// A module that members() leaves out would be neither trained nor saved: the first call, count or
// optimizer throws ArgumentError with the type and place of the module. For a parameter left out,
// the first recorded call prints a warning with the line that used the parameter, unless the model
// also gets Variables that the check cannot see: in a struct, a list, or a lambda's capture.
#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "core/base/by_name.h"
#include "core/base/error.h"
#include "core/base/tensor_map.h"
#include "core/tape/variable.h"
#include "nn/members.h"
#include "nn/module_call.h"
#include "nn/named.h"
#include "nn/refused_methods.h"

namespace tapegrad::detail {

template <typename T>
concept NotWhere = !std::same_as<T, Where>;

// Declared outside of Module, where their names cannot hide those of a user's types.
struct ModuleHooks;
struct ModuleState;

}  // namespace tapegrad::detail

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

using tapegrad::ZeroGradOptions;
/// Options of load_state_dict(state, {.strict = false}).
struct LoadOptions {
  ByName by_name = {};
  bool strict = true;
};
/// Names that load_state_dict() skipped.
struct LoadReport {
  std::vector<std::string> missing_keys;     // names of the model
  std::vector<std::string> unexpected_keys;  // names of the given state
  bool is_complete() const { return missing_keys.empty() && unexpected_keys.empty(); }
};
std::ostream& operator<<(std::ostream& out, const LoadReport& report);

/// Base of all modules. Derive from Model<Self>, below.
class Module : public RefusedMethods {
 public:
  virtual ~Module();

  /// Names the parameters, buffers and submodules in a fixed order. Every model must override this
  /// function; otherwise Model<Self> does not compile.
  virtual void members(Members&) {}
  /// Return the name of the layer, "Linear", and its options, "in_features=784, out_features=10".
  virtual std::string kind() const;
  virtual std::string options() const;
  /// Calls forward of a module that takes one Variable and returns one. Throws ArgumentError for
  /// other modules.
  virtual Variable call(Variable x, Where where);
  /// Calls a module whose type is not known here, such as net[0](x).
  Variable operator()(Variable x, Where where = Where::current()) const {
    return const_cast<Module*>(this)->call(std::move(x), where);
  }
  /// Returns another handle to this module.
  virtual std::unique_ptr<Module> copy() const;
  /// Returns the bytes of the object, which contain the members that are not on the heap.
  virtual std::span<const std::byte> bytes() const;
  virtual bool is_inferred() const { return true; }  // whether the own parameters have sizes
  /// Sets the initialiser of a layer with a weight. The layer is initialised at once, or as soon as
  /// its size is known.
  virtual void initialize(const Init&) {}

  /// Return parameters and buffers by dotted name, each once. Throw ArgumentError while a size is
  /// unknown.
  NamedVariables named_parameters() const;
  NamedVariables named_buffers() const;
  std::vector<Variable> parameters() const;
  std::vector<Variable> buffers() const;
  DType dtype() const;  // of the first float parameter or buffer; ArgumentError if there is none
  int64_t parameter_count() const;
  int64_t num_parameters() const { return parameter_count(); }
  /// Returns this module and all modules within it, in the order of members(). The entries refer to
  /// the modules and are not copies.
  std::vector<NamedModule> named_modules() const;
  std::vector<Module*> modules(bool include_self = true) const;
  /// Returns the modules that members() names.
  std::vector<NamedModule> named_children() const;
  std::vector<Module*> children() const;
  /// Return a module or parameter by its dotted name: get_submodule("body.0"). Throw ArgumentError
  /// for an unknown name.
  Module& get_submodule(std::string_view name, Where where = Where::current()) const;
  Variable get_parameter(std::string_view name, Where where = Where::current()) const;
  /// Returns the child at this position: net.features[0][3]. A negative index counts from the end.
  /// Throws IndexError.
  Module& operator[](tapegrad::detail::IndexHere index) const;
  /// Return the weight or bias of a module of any type: net[0].weight(). A layer of known type has
  /// the member: fc.weight. Throw ArgumentError if there is none.
  Variable weight() const;
  Variable bias() const;
  /// Calls fn for this module and every module within it, the innermost first.
  void apply(const std::function<void(Module&)>& fn);
  void visit(MemberVisitor& visitor, const std::string& path = {}) const;

  /// Sets training or evaluation mode of this module and all submodules. Dropout and BatchNorm
  /// depend on it.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const;
  bool training() const { return is_training(); }

  /// Registers a hook that runs for every call through any handle; a clone() has no hooks. Hooks
  /// see the arguments that are Variables, and results that are a Variable or a vector or tuple of
  /// Variables.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  /// Overload for hook(module, inputs) with a std::vector, and for hook(module, input) with the
  /// first argument. Variables that the hook returns replace the inputs.
  template <typename Hook>
  requires(!std::convertible_to<Hook, ForwardPreHook> &&
           (std::invocable<Hook&, Module&, const std::vector<Variable>&> ||
            std::invocable<Hook&, Module&, const Variable&>)) HookHandle
      register_forward_pre_hook(Hook hook) {
    return register_forward_pre_hook(
        ForwardPreHook([hook](Module& module, std::span<Variable> in) mutable {
          const std::vector<Variable> inputs(in.begin(), in.end());
          if constexpr (std::invocable<Hook&, Module&, const std::vector<Variable>&>)
            tapegrad::detail::replace_by([&] { return hook(module, inputs); }, in);
          else if (!in.empty())
            tapegrad::detail::replace_by([&] { return hook(module, inputs[0]); }, in.first(1));
        }));
  }
  /// The hook is called as hook(module, inputs, output) or hook(module, input, output), where the
  /// inputs are a std::vector or the first argument and the output is a Variable, or as a
  /// ForwardHook. A Variable that the hook returns replaces the result.
  template <typename Hook>
  HookHandle register_forward_hook(Hook hook) {
    // A generic lambda takes all forms; its body is compiled for the first one only.
    constexpr bool kTakesList =
        std::invocable<Hook&, Module&, const std::vector<Variable>&, Variable&>;
    if constexpr (kTakesList || std::invocable<Hook&, Module&, const Variable&, Variable&>)
      return add_forward_hook(
          [hook](Module& module, std::span<const Variable> in, std::span<Variable> out) mutable {
            const std::vector<Variable> inputs(in.begin(), in.end());
            const auto run = [&](Variable& y) {
              if constexpr (kTakesList)
                return hook(module, inputs, y);
              else
                return hook(module, inputs.empty() ? Variable() : inputs[0], y);
            };
            for (Variable& y : out)
              tapegrad::detail::replace_by([&] { return run(y); }, std::span(&y, 1));
          });
    else
      return add_forward_hook(std::move(hook));
  }
  /// Registers a hook that a backward pass calls when the gradients of all arguments are complete
  /// (if no argument has a gradient: the gradients of all results). Arguments and results must not
  /// be written in place.
  HookHandle register_full_backward_hook(BackwardHook hook);
  /// Overload for hook(module, grad_inputs, grad_outputs) with std::vectors. Variables that the
  /// hook returns replace the gradients of the arguments.
  template <typename Hook>
  requires(
      !std::convertible_to<Hook, BackwardHook> &&
      std::invocable<Hook&, Module&, const std::vector<Variable>&, const std::vector<Variable>&>)
      HookHandle register_full_backward_hook(Hook hook) {
    return register_full_backward_hook(BackwardHook(
        [hook](Module& module, std::span<Variable> in, std::span<const Variable> out) mutable {
          const std::vector<Variable> inputs(in.begin(), in.end());
          const std::vector<Variable> outputs(out.begin(), out.end());
          tapegrad::detail::replace_by([&] { return hook(module, inputs, outputs); }, in);
        }));
  }

  /// Clears the gradients, or fills them with zeros if `set_to_none` is false.
  void zero_grad(bool set_to_none = true) const;
  void zero_grad(ZeroGradOptions options) const { zero_grad(options.set_to_none); }
  void requires_grad_(bool on = true) const;  // of all parameters
  /// Moves or converts all parameters and buffers under their existing handles, and clears
  /// gradients. A dtype converts only floats. If an error is thrown, nothing has changed.
  void to(Device device, Where where = Where::current()) const;  // or its name: to("cuda")
  void to(DType dtype, Where where = Where::current()) const;

  /// Returns parameters and buffers by name. They share memory with the module.
  TensorMap state_dict() const;
  /// Copies values into the module, converting floats to the module's dtype. Throws one
  /// ArgumentError that lists all names that are missing, unknown, of another shape, or of integers
  /// where floats are wanted or the reverse; the module is then unchanged. Unless `strict`, skips
  /// missing and unknown names and returns them.
  LoadReport load_state_dict(const TensorMap& state, bool strict = true,
                             Where where = Where::current());
  LoadReport load_state_dict(const TensorMap& state, LoadOptions options) {
    return load_state_dict(state, options.strict, options.by_name.where);
  }
  /// Overload for Variables by name, such as nn::parameter_map(model).
  template <typename Map>
  requires std::derived_from<typename Map::mapped_type, Variable> LoadReport
  load_state_dict(const Map& state, bool strict = true, Where where = Where::current()) {
    TensorMap values;
    for (const auto& [name, variable] : state) values[name] = variable.value();
    return load_state_dict(values, strict, where);
  }

  template <std::same_as<Tensor> T>
  auto load_state_dict(const T&) {
    static_assert(
        tapegrad::detail::kNever<T>,
        "load_state_dict(run[\"model\"]): write load_state_dict(part_of(run, \"model\"))");
  }

  /// Runs zeros of this shape (without the batch dimension) through the model, in evaluation mode
  /// and without recording. Sets the sizes that were left out, and every module's out_shape().
  Shape infer(const Shape& input_shape);
  /// infer() under Keras's name.
  void build(const Shape& input_shape) { infer(input_shape); }
  /// Returns whether hooks or infer() observe the result of this module. If not, the module may be
  /// fused with another module.
  bool is_watched() const;
  /// Returns the shape of this module's result in the last infer(), without the batch dimension.
  const Shape& out_shape() const;
  bool has_out_shape() const;

  template <std::derived_from<Module> M>
  requires(!std::same_as<M, Module>) auto operator=(const M&) {
    static_assert(tapegrad::detail::kNever<M>,
                  "net[2] = nn::Linear(3, 5): write net.replace(2, nn::Linear(3, 5))");
  }
  /// Returns whether the layer has this type: `if (m.is<nn::Conv2d>()) m.as<nn::Conv2d>().weight`.
  template <std::derived_from<Module> M>
  bool is() const {
    return dynamic_cast<const M*>(this) != nullptr;
  }
  /// Casts to the layer's type. Throws ArgumentError if this is another layer.
  template <std::derived_from<Module> M>
  M& as() {
    M* module = dynamic_cast<M*>(this);
    if (module == nullptr) fail<ArgumentError>("as: this module is a ", kind());
    return *module;
  }

  template <typename T = void>
  Module() noexcept(refuse_base<T>()) {}

 protected:
  struct OfModel {};
  explicit Module(OfModel);
  template <typename T>
  static constexpr bool refuse_base() {
    static_assert(tapegrad::detail::kNever<T>,
                  "struct Net : nn::Module: write `struct Net : nn::Model<Net>`, and name the "
                  "parts in `void members(nn::Members& m) override { m(\"fc\", fc); }`");
    return true;
  }
  Module(const Module&);
  Module& operator=(const Module&) = default;

  /// Called by a module whose result depends on is_training().
  void note_mode() const;
  /// Calls allocate() unless is_inferred(). Calls it only once, even if several threads make the
  /// first call.
  template <std::invocable Allocate>
  void infer_once(const Allocate& allocate) const {
    if (!has_sizes()) [[unlikely]]
      infer_under_lock(allocate);
  }
  /// Records the shape of y for infer().
  void note_output(const Variable& y);
  /// Overload for several results, of which the first one is recorded.
  template <typename Ys>
  requires(!std::derived_from<Ys, Variable>) void note_output(const Ys& ys) {
    if constexpr (requires { std::tuple_size<Ys>::value; })
      std::apply(
          [&](const auto& first, const auto&...) {
            if constexpr (std::derived_from<std::remove_cvref_t<decltype(first)>, Variable>)
              if (first.defined()) note_output(first);
          },
          ys);
  }
  /// Returns the function passed to the last initialize(); empty before.
  const Init& init() const;
  void set_init(const Init& init);
  /// Replaces all shared state by copies. Ties are preserved.
  void unshare();
  static std::string kind_of(const std::type_info& type);
  static std::string kind_of(std::string_view name);
  [[noreturn]] void fail_inputs() const;
  [[noreturn]] void fail_copy() const;
  [[noreturn]] void fail_type(const std::type_info& base) const;

 private:
  friend class ModuleCall;
  friend class MemberCheck;
  friend class HookedCall;
  tapegrad::detail::ModuleHooks& hooks();
  HookHandle add_forward_hook(ForwardHook hook);
  bool has_sizes() const;
  void infer_under_lock(const std::function<void()>& allocate) const;

  std::shared_ptr<tapegrad::detail::ModuleState> state_;
};

/// Base of user modules: `struct Net : nn::Model<Net>`. Self has members() and forward(), of any
/// arguments and result, and optionally a kName. Base is a class derived from Module, whose
/// constructor is `Base() : Module(OfModel()) {}`.
///
/// `is_complete` must keep its default: Self is incomplete where it names its own base, and
/// complete where another class names Self by mistake.
template <typename Self, typename Base = Module, bool is_complete = requires { sizeof(Self); }
> class Model : public Base {
  static_assert(!is_complete,
                "nn::Model<Other> as a base: write `struct Name : nn::Model<Name>`, with the name "
                "of the struct itself (and just `Model` inside of it)");

 public:
  /// Calls forward(...). A forward that takes a Where as its last argument receives the caller's
  /// line.
  template <typename X>
  auto operator()(const X& x, Where where = Where::current()) {
    return run(self(), where, x);
  }
  /// Overload for an operand that the caller passes as an rvalue: an activation may then overwrite
  /// it.
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
  /// Overload for calls with more than three arguments. An error names the module and the line of
  /// the failing op.
  template <detail::NotWhere... Xs>
  requires(sizeof...(Xs) > 3) auto operator()(const Xs&... xs) {
    return run(self(), Where(), xs...);
  }
  template <detail::NotWhere... Xs>
  requires(sizeof...(Xs) > 3) auto operator()(const Xs&... xs) const {
    return run(self(), Where(), xs...);
  }

  /// Returns a copy with its own parameters, buffers and mode. Ties are preserved.
  Self clone() const {
    static_assert(std::is_copy_constructible_v<Self>,
                  "clone: a member cannot be copied; hold it by value or in a std::shared_ptr "
                  "instead of a std::unique_ptr");
    check_type();
    Self copy = self();
    static_cast<Model&>(copy).unshare();
    return copy;
  }
  Self& to(Device device, Where where = Where::current()) {
    Base::to(device, where);
    return self();
  }
  Self& to(DType dtype, Where where = Where::current()) {
    Base::to(dtype, where);
    return self();
  }
  Self& to(Device device, DType dtype, Where where = Where::current()) {
    return to(device, where).to(dtype, where);
  }
  Self& train(bool on = true) {
    Base::train(on);
    return self();
  }
  Self& eval() { return train(false); }
  Self& requires_grad_(bool on = true) {
    Base::requires_grad_(on);
    return self();
  }
  const Self& requires_grad_(bool on = true) const {
    Base::requires_grad_(on);
    return self();
  }
  Self& cuda(int index = 0, Where where = Where::current()) {
    return to(Device{DeviceType::kCuda, int8_t(index)}, where);
  }
  /// For code that holds modules by pointer, as with libtorch: `fc1->forward(x)`.
  Self* operator->() { return &self(); }
  const Self* operator->() const { return &self(); }

  // These functions are not inline, so that programs do not compile them for a layer of the library
  // with an `extern template class`.
  std::string kind() const override;
  Variable call(Variable x, Where where) override;
  std::unique_ptr<Module> copy() const override;
  std::span<const std::byte> bytes() const override;

 protected:
  using Base::Base;
  Model() requires std::same_as<Base, Module> : Base(Module::OfModel()) {}
  Model() requires(!std::same_as<Base, Module>) = default;

 private:
  /// Whether forward() can get a Variable only through arguments that are checked: not through a
  /// struct, a list or a function.
  template <typename... Xs>
  static constexpr bool kSeesInputs = (... && (std::derived_from<Xs, Variable> ||
                                               std::is_arithmetic_v<Xs> || std::is_enum_v<Xs>));

  /// Rejects a class derived from Self, which would be called by forward() of Self and copied as a
  /// Self.
  void check_type() const {
    if (const Module& module = *this; typeid(module) != typeid(Self)) [[unlikely]]
      this->fail_type(typeid(Self));
  }
  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }

  template <typename S, typename... Xs>
  static auto run(S& self, Where where, Xs&&... xs) {
    static_assert(!(... || std::same_as<std::remove_cvref_t<Xs>, Tensor>),
                  "type Variable instead of Tensor");
    ModuleCall call(self, where);
    try {
      if (call.is_first()) [[unlikely]] {
        self.check_type();
        call.check_modules(self, {ModuleCall::variable_of(xs)...});
      }
      auto y = call.has_hooks() ? run_hooked(self, where, xs...)
                                : run_forward(self, where, std::forward<Xs>(xs)...);
      const_cast<Self&>(self).note_output(y);
      if constexpr (kSeesInputs<std::remove_cvref_t<Xs>...> && !requires { Self::kIsFunction; })
        if (call.is_first()) [[unlikely]]
          call.check_parameters(y);
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

template <typename Self, typename Base, bool is_complete>
std::string Model<Self, Base, is_complete>::kind() const {
  static_assert(
      !requires { requires std::same_as<decltype(&Self::members), void (Module::*)(Members&)>; },
      "a model names its parts: write `void members(nn::Members& m) override { m(\"fc\", fc); "
      "}`");
  if constexpr (requires { Self::kName; })
    return Module::kind_of(Self::kName);
  else
    return Module::kind_of(typeid(Self));
}
template <typename Self, typename Base, bool is_complete>
Variable Model<Self, Base, is_complete>::call(Variable x, Where where) {
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
template <typename Self, typename Base, bool is_complete>
std::unique_ptr<Module> Model<Self, Base, is_complete>::copy() const {
  check_type();
  if constexpr (requires(const Self& self) { Self(self); })
    return std::unique_ptr<Module>(new Self(self()));  // instead of make_unique: compiles faster
  else
    this->fail_copy();
}
template <typename Self, typename Base, bool is_complete>
std::span<const std::byte> Model<Self, Base, is_complete>::bytes() const {
  return {reinterpret_cast<const std::byte*>(&self()), sizeof(Self)};
}

/// A model without parameters, buffers and submodules.
template <typename Self, bool is_complete = requires { sizeof(Self); }
> class Stateless : public Model<Self, Module, false> {
  static_assert(!is_complete,
                "nn::Stateless<Other> as a base: write `struct Name : nn::Stateless<Name>`, with "
                "the name of the struct itself");

 public:
  /// Variables that the model holds are options, such as the weights of a loss.
  static constexpr bool kIsFunction = true;
  void members(Members&) override {}
};

/// Moves the model and returns it: `model | gpu`. If the device is not available, prints one notice
/// and does nothing.
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

/// The functions of ops/ under PyTorch's name, nn::functional::relu. ops/aliases.h has more.
namespace functional {
using namespace ::tapegrad;
}

/// Prints the modules with their options, indented by depth.
std::ostream& operator<<(std::ostream& out, const Module& module);
/// Prints the model and an end of line to standard output.
void print(const Module& module);

}  // namespace tapegrad::nn
