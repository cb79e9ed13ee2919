// Sequential: layers one after another.
//
//   nn::Sequential mlp(nn::Linear(784, 100), nn::ReLU(), nn::Linear(100, 10));
//   nn::Sequential model({nn::Conv2d({.out_channels = 32, .kernel_size = 3}), nn::ReLU(),
//                         nn::Flatten(), nn::Linear({.out_features = 10})},
//                        {.input_shape = {1, 28, 28}});
//   model[-1].out_shape();                         // [10]
//   model[0].as<nn::Conv2d>().weight;              // named "0.weight"
//
// A ReLU directly after a Linear or Conv2d, and a GELU(Gelu::kTanh) after a Linear, is computed by
// the kernel of that layer (ops/epilogue.h). A ReLU directly before a MaxPool2d is computed after
// the pooling. Values and gradients are the same, in less time and memory. Hooks on one of the
// layers prevent this.
//
// Input sizes that are omitted (in_features, in_channels, num_features) are inferred from the
// input_shape if given, else from the first input.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/module.h"
#include "nn/refused_nullptr.h"
#include "ops/subscript.h"

namespace tapegrad::nn {

namespace detail {
/// Type of an op without options, such as tanh.
using OneOperandOp = Variable(Variable, Where);
}  // namespace detail

/// Any module by value; holds a handle to the module.
class AnyModule {
 public:
  AnyModule() = default;  // holds no module
  AnyModule(const Module& module);
  /// Makes a layer of a function of one Variable, like nn::Lambda.
  template <typename F>
  requires(!std::derived_from<F, Module> && !std::derived_from<F, Variable> &&
           !std::same_as<F, AnyModule> && std::is_invocable_r_v<Variable, F&, const Variable&>)
      AnyModule(F function)
      : AnyModule(of_function(std::move(function))) {}
  /// Makes a layer of an op without options: Sequential(nn::Linear(2, 8), torch::tanh).
  template <std::same_as<detail::OneOperandOp> Op>
  AnyModule(Op* op) : AnyModule(of_function([op](const Variable& x) { return op(x, Where()); })) {}
  AnyModule(const AnyModule& other);
  AnyModule(AnyModule&&) = default;
  AnyModule& operator=(AnyModule other);

  /// The dereference operators throw ArgumentError if there is no module.
  Module& operator*() const;
  Module* operator->() const { return &**this; }
  explicit operator bool() const { return module_ != nullptr; }
  Variable operator()(const Variable& x, Where where = Where::current()) const;
  Variable forward(const Variable& x, Where where = Where::current()) const;
  /// Calls a layer of several arguments through its type.
  template <tapegrad::detail::NotWhere... Xs>
  requires(sizeof...(Xs) > 1) auto operator()(const Xs&...) const {
    static_assert(tapegrad::detail::kNever<AnyModule, Xs...>,
                  "type std::vector<Block> blocks, or blocks[i].as<Block>()(x, mask): a ModuleList "
                  "calls layers of one Variable");
  }
  /// Members of Module:
  Variable weight() const;
  Variable bias() const;
  std::vector<Variable> parameters() const;
  NamedVariables named_parameters() const;
  void requires_grad_(bool on = true) const;
  template <std::derived_from<Module> M>
  bool is() const {
    return (**this).template is<M>();
  }
  template <std::derived_from<Module> M>
  M& as() const {
    return (**this).template as<M>();
  }
  template <std::derived_from<Module> M>
  M& get() const {
    return as<M>();
  }

 private:
  [[noreturn]] static Module& fail_empty();
  static AnyModule of_function(std::function<Variable(const Variable&)> function);

  std::unique_ptr<Module> module_;
};

/// Prints the module.
std::ostream& operator<<(std::ostream& out, const AnyModule& module);

namespace detail {
/// Returns the position of an index that may count from the end. Throws IndexError.
size_t place_in_list(int64_t index, size_t size);
}  // namespace detail
template <typename T>
struct ListOf : std::vector<T> {
  using std::vector<T>::vector;
  void append(T part) { this->push_back(std::move(part)); }
  void extend(const std::vector<T>& parts) {
    for (const T& part : parts) append(part);
  }
  /// Returns an element. A negative index counts from the end. Throws IndexError.
  template <std::integral I>
  T& operator[](I index) {
    return this->data()[detail::place_in_list(int64_t(index), this->size())];
  }
  template <std::integral I>
  const T& operator[](I index) const {
    return this->data()[detail::place_in_list(int64_t(index), this->size())];
  }
  ListOf* operator->() { return this; }  // for code that holds modules by pointer
  ListOf& operator*() { return *this; }
};
/// Modules by position, themselves a module without forward(): `nn::ModuleList blocks{nn::Linear(4,
/// 4), nn::ReLU()};`, named "blocks.0" ... by `m("blocks", blocks)`.
class ModuleList final : public Module, public ListOf<AnyModule> {
 public:
  ModuleList();
  /// A list with a single ModuleList as its only element is a copy of that ModuleList.
  ModuleList(std::initializer_list<AnyModule> modules);
  explicit ModuleList(std::vector<AnyModule> modules);
  ModuleList(const ModuleList&);
  ModuleList& operator=(const ModuleList&);

  std::string kind() const override { return "ModuleList"; }
  void members(Members& m) override;
  std::unique_ptr<Module> copy() const override;
  std::span<const std::byte> bytes() const override;
  ModuleList clone() const;  // as Model::clone()
  using ListOf<AnyModule>::operator[];
  ModuleList* operator->() { return this; }
  ModuleList& operator*() { return *this; }
};
/// Modules by name: "heads.a" ... by `m("heads", heads)`.
class ModuleDict final : public Module, public std::map<std::string, AnyModule> {
 public:
  using Map = std::map<std::string, AnyModule>;
  ModuleDict();
  ModuleDict(std::initializer_list<std::pair<const std::string, AnyModule>> modules);
  ModuleDict(const ModuleDict&);
  ModuleDict& operator=(const ModuleDict&);

  std::string kind() const override { return "ModuleDict"; }
  void members(Members& m) override;
  std::unique_ptr<Module> copy() const override;
  std::span<const std::byte> bytes() const override;
  ModuleDict clone() const;  // as Model::clone()
  using Map::insert;
  using Map::operator[];
  void insert(const std::string& key, AnyModule module);
  const AnyModule& operator[](const std::string& key) const;
  /// Return the module of this name. Throw IndexError, which lists the names, if there is none.
  AnyModule& at(const std::string& key, Where where = Where::current());
  const AnyModule& at(const std::string& key, Where where = Where::current()) const;
  /// Returns the entries: `for (auto& [name, module] : heads.items())`.
  const ModuleDict& items() const { return *this; }
  std::vector<std::string> keys() const;
  ModuleDict* operator->() { return this; }
};
namespace detail {
/// Returns the variable, or a parameter with its values if the variable is a float that requires no
/// gradient.
Variable as_parameter(const Variable& x);
}  // namespace detail
/// A list of parameters. A tensor that requires no gradient becomes a parameter that is trained, as
/// in PyTorch: `nn::ParameterList scales{ones({3})};`. To freeze an element, call its
/// requires_grad_(false).
struct ParameterList : ListOf<Variable> {
  ParameterList() = default;
  ParameterList(const std::vector<Variable>& parts);
  ParameterList(std::initializer_list<Variable> parts);
  void append(const Variable& part);
  void push_back(const Variable& part);
  ParameterList* operator->() { return this; }
  ParameterList& operator*() { return *this; }
};
/// Parameters by name, with the conversion of ParameterList. A variable that is assigned, dict["a"]
/// = x, is kept unchanged.
struct ParameterDict : std::map<std::string, Variable> {
  ParameterDict() = default;
  ParameterDict(std::initializer_list<std::pair<const std::string, Variable>> parts);
  void insert(const std::string& key, const Variable& parameter);
  void insert(const std::pair<const std::string, Variable>& part);
  ParameterDict* operator->() { return this; }
};

/// An optional shape: {1, 28, 28}.
struct InputShape : std::optional<Shape> {
  using std::optional<Shape>::optional;
  InputShape(std::initializer_list<int64_t> sizes);
};
struct SequentialOptions {
  InputShape input_shape = {};  // without the batch dimension
  Init init = {};               // initialiser of all layers, for example nn::init::keras
};

struct NamedLayer {
  std::string name;
  AnyModule layer;
};

class Sequential final : public Model<Sequential> {
 public:
  static constexpr std::string_view kName = "Sequential";
  explicit Sequential(RefusedNullptr);
  Sequential() = default;
  /// A copy shares the layers. A move is a copy, so that a Sequential that was moved from is not an
  /// empty one, which returns its input.
  Sequential(const Sequential&);
  Sequential& operator=(const Sequential&);
  Sequential(std::initializer_list<AnyModule> layers, SequentialOptions options = {});
  explicit Sequential(std::vector<AnyModule> layers, SequentialOptions options = {});
  /// Takes layers with names, "fc.weight": Sequential({{"fc", nn::Linear(2, 4)}, {"act",
  /// nn::ReLU()}}).
  Sequential(std::initializer_list<NamedLayer> layers, SequentialOptions options = {});
  template <std::same_as<Module> M>
  explicit Sequential(const std::vector<M>&) {
    static_assert(tapegrad::detail::kNever<M>,
                  "a std::vector<nn::Module> holds no layers: type std::vector<nn::AnyModule>");
  }
  /// Takes modules, and functions of one Variable.
  template <typename... Layers>
  requires(sizeof...(Layers) > 0 &&
           ((std::convertible_to<const Layers&, AnyModule> &&
             !std::same_as<Layers, ModuleList>)&&...)) explicit Sequential(const Layers&... layers)
      : Sequential({AnyModule(layers)...}) {}

  void push_back(AnyModule layer);
  /// Appends a layer. Throws ArgumentError if a layer has this name.
  void push_back(std::string name, AnyModule layer);
  void extend(const std::vector<AnyModule>& layers);
  void append(AnyModule layer);
  void add(AnyModule layer);
  void add_module(std::string name, AnyModule layer);
  int64_t size() const;
  bool is_empty() const;
  bool empty() const;
  /// Returns a layer; a negative index counts from the end. Throws IndexError.
  Module& operator[](tapegrad::detail::IndexHere index) const;
  /// Returns the layer with this name. Throws ArgumentError if there is none.
  Module& operator[](tapegrad::detail::NameHere name) const;
  /// Removes the last layer. Throws IndexError if there is none.
  void pop_back(Where where = Where::current());
  /// Inserts a layer before the layer `index`, which may be size(). The layers behind it are
  /// renumbered; throws ArgumentError if one of them has a name of its own.
  void insert(int64_t index, AnyModule layer);
  /// Replaces a layer: net.replace(-1, nn::Linear(512, 2)).
  void replace(int64_t index, AnyModule layer);
  /// Returns a Sequential of some of the layers, which both objects share: features[Slice(0, 10)].
  /// The layers are named by their new positions.
  Sequential operator[](const Slice& slice) const;
  /// Returns a layer by libtorch's spelling, net->at<nn::Linear>(0). Throws ArgumentError for a
  /// layer of another type.
  template <std::derived_from<Module> M>
  M& at(int64_t index) const {
    return (*this)[index].as<M>();
  }
  Sequential& operator*() { return *this; }
  const Sequential& operator*() const { return *this; }
  /// Iterates over the layers: `for (auto& layer : net) x = layer(x);`.
  const AnyModule* begin() const;
  const AnyModule* end() const;

  void members(Members& m) override;
  Variable forward(const Variable& x, Where where = Where::current()) const;

 private:
  size_t place_of(int64_t index) const;

  std::vector<AnyModule> layers_;
  std::vector<std::string> names_;
};

// Programs do not compile the virtual functions of these layers.
extern template class Model<Sequential, Module, false>;

}  // namespace tapegrad::nn
