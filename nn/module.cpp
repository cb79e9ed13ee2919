#include "nn/module.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <ranges>
#include <set>

#include "core/base/internal/classic_text.h"
#include "core/base/internal/step_observer.h"
#include "core/base/output.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "nn/internal/member_check.h"
#include "nn/internal/module_state.h"
#include "ops/create.h"

namespace tapegrad::nn {
namespace {

void check_name(std::string_view name) {
  if (name.empty() || name.find('.') != name.npos)
    fail<ArgumentError>("members: a name is not empty and has no dot: \"", name, "\"");
}

/// Collects every parameter and buffer under its first name.
struct Collector final : MemberVisitor {
  std::vector<NamedVariable> parameters, buffers;
  std::set<std::string> names;                // all names, including those of tied parameters
  std::set<std::string> unsaved;              // names of buffers that are not persistent
  std::map<std::string, NamedVariable> tied;  // by a further name: the first name, and the variable
  std::string not_inferred;                   // the first module whose sizes are unknown

  void on_module(const std::string& path, Module& module) override {
    if (!module.is_inferred() && not_inferred.empty())
      not_inferred = path.empty() ? module.kind() : path + " (" + module.kind() + ")";
  }
  void on_parameter(const std::string& path, Variable& x) override { add(parameters, path, x); }
  void on_buffer(const std::string& path, Variable& x) override { add(buffers, path, x); }
  void on_unsaved_buffer(const std::string& path, Variable& x) override {
    unsaved.insert(path);
    on_buffer(path, x);
  }
  /// Calls fn for the parameters and buffers that are saved.
  void for_saved(const std::function<void(const NamedVariable&)>& fn) const {
    for (const auto* list : {&parameters, &buffers})
      for (const NamedVariable& named : *list)
        if (!unsaved.contains(named.name)) fn(named);
  }

  void add(std::vector<NamedVariable>& list, const std::string& path, const Variable& x) {
    if (!names.insert(path).second) fail<ArgumentError>("members: two are named \"", path, "\"");
    for (const NamedVariable& known : list)
      if (known.variable.is_same(x)) {
        tied.emplace(path, known);
        return;
      }
    list.push_back({path, x});
  }
};

Collector collect(const Module& module) {
  Collector found;
  module.visit(found);
  return found;
}

Collector collect_inferred(const Module& module) {
  Collector found = collect(module);
  MemberCheck::check_modules(module);
  if (!found.not_inferred.empty())
    fail<ArgumentError>("parameters: the sizes of ", found.not_inferred,
                        " are not known yet; give its input size, call infer() with an input "
                        "shape, or run the model once");
  return found;
}

/// Whether two tensors have equal shapes, dtypes and bits.
bool is_equal(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.to(cpu).contiguous(), y = b.to(cpu).contiguous();
  const auto bytes = [](const Tensor& t) {
    return t.storage().data() + t.layout().offset * size_of(t.dtype());
  };
  return std::memcmp(bytes(x), bytes(y), size_t(x.numel() * size_of(x.dtype()))) == 0;
}

/// Converts all variables before it rebinds any, so that an error changes nothing.
template <typename Convert>
void rebind_all(const Module& module, Convert convert) {
  const Collector found = collect(module);
  std::vector<std::pair<Variable, Tensor>> changes;
  for (const auto* list : {&found.parameters, &found.buffers})
    for (const NamedVariable& named : *list) {
      Tensor value = convert(named.variable.value());
      if (!value.shares_storage(named.variable.value()))
        changes.emplace_back(named.variable, std::move(value));
    }
  for (auto& [variable, value] : changes) variable.rebind(std::move(value));
}

void print(std::ostream& out, Module& module, const std::string& indent);

struct Printer final : MemberVisitor {
  Printer(std::ostream& out, const std::string& indent) : out(out), indent(indent) {}
  void on_module(const std::string& path, Module& module) override {
    if (path.empty() || (any && path.starts_with(last + "."))) return;
    last = path;
    out << (any ? "" : "(\n") << indent << "  (" << path << "): ";
    any = true;
    print(out, module, indent + "  ");
    out << '\n';
  }
  std::ostream& out;
  const std::string& indent;
  std::string last;
  bool any = false;
};

void print(std::ostream& out, Module& module, const std::string& indent) {
  out << module.kind();
  Printer printer(out, indent);
  module.visit(printer);
  if (printer.any)
    out << indent << ')';
  else
    out << '(' << module.options() << ')';
}

}  // namespace

std::string Members::child(std::string_view name) const {
  check_name(name);
  return path_.empty() ? std::string(name) : path_ + '.' + std::string(name);
}
void Members::visit(const std::string& path, Module& module) {
  constexpr size_t kLongestPath = 8192;
  if (path.size() > kLongestPath)
    fail<ArgumentError>("members: a module contains itself: ", path.substr(0, 40), "...");
  module.visit(visitor_, path);
}

Members& Members::operator()(std::string_view name, Module& module) {
  visit(child(name), module);
  return *this;
}
Members& Members::operator()(std::string_view name, Variable& parameter) {
  if (parameter.defined()) visitor_.on_parameter(child(name), parameter);
  return *this;
}
Members& Members::operator()(std::string_view name, Buffer& part) { return buffer(name, part); }
Members& Members::buffer(std::string_view name, Variable& buffer, bool persistent) {
  if (!buffer.defined()) return *this;
  if (persistent)
    visitor_.on_buffer(child(name), buffer);
  else
    visitor_.on_unsaved_buffer(child(name), buffer);
  return *this;
}

// Every module overrides these. They are not pure, so that `struct Net : nn::Module` gets the error
// of Module's constructor.
std::string Module::kind() const { return "Module"; }
Variable Module::call(Variable, Where) { fail_inputs(); }
std::unique_ptr<Module> Module::copy() const { fail_copy(); }
std::span<const std::byte> Module::bytes() const { return {}; }

Module::Module(OfModel) : state_(std::make_shared<tapegrad::detail::ModuleState>()) {
  live_modules::add(this);
}
Module::Module(const Module& other) : state_(other.state_) { live_modules::add(this); }
Module::~Module() { live_modules::remove(this); }

void Module::visit(MemberVisitor& visitor, const std::string& path) const {
  Module& self = const_cast<Module&>(*this);  // members() does not modify the module here
  visitor.on_module(path, self);
  Members members(visitor, path);
  self.members(members);
}

NamedVariables Module::named_parameters() const { return collect_inferred(*this).parameters; }
NamedVariables Module::named_buffers() const { return collect_inferred(*this).buffers; }
std::vector<Variable> Module::parameters() const {
  std::vector<Variable> variables;
  for (NamedVariable& named : named_parameters()) variables.push_back(std::move(named.variable));
  return variables;
}

std::vector<Variable> Module::buffers() const {
  std::vector<Variable> variables;
  for (NamedVariable& named : named_buffers()) variables.push_back(std::move(named.variable));
  return variables;
}

std::vector<NamedModule> Module::named_modules() const {
  struct Lister final : MemberVisitor {
    void on_module(const std::string& path, Module& module) override {
      modules.push_back({path, &module});
    }
    std::vector<NamedModule> modules;
  } lister;
  visit(lister);
  return std::move(lister.modules);
}

std::vector<Module*> Module::modules(bool include_self) const {
  std::vector<Module*> modules;
  for (const NamedModule& named : named_modules()) modules.push_back(named.module);
  if (!include_self) modules.erase(modules.begin());
  return modules;
}

std::vector<NamedModule> Module::named_children() const {
  struct Lister final : MemberVisitor {
    explicit Lister(const Module* parent) : parent(parent) {}
    void on_module(const std::string& path, Module& module) override {
      if (&module == parent) return;
      const bool inside = !children.empty() && path.starts_with(children.back().name + '.');
      if (!inside) children.push_back({path, &module});
    }
    const Module* parent;
    std::vector<NamedModule> children;
  } lister(this);
  visit(lister);
  return std::move(lister.children);
}

std::vector<Module*> Module::children() const {
  std::vector<Module*> modules;
  for (const NamedModule& named : named_children()) modules.push_back(named.module);
  return modules;
}

Module& Module::operator[](tapegrad::detail::IndexHere i) const {
  const std::vector<Module*> parts = children();
  const int64_t count = int64_t(parts.size()), at = i.index < 0 ? i.index + count : i.index;
  if (at < 0 || at >= count)
    fail_at<IndexError>(i.where, kind(), ": there is no child ", i.index, "; there are ", count);
  return *parts[size_t(at)];
}

Module& Module::get_submodule(std::string_view name, Where where) const {
  std::string names;
  for (const NamedModule& named : named_modules()) {
    if (named.name == name) return *named.module;
    if (!named.name.empty()) names += (names.empty() ? "" : ", ") + named.name;
  }
  fail_at<ArgumentError>(where, "get_submodule: ", kind(), " has no module \"", name,
                         "\"; there are: ", names);
}

Variable Module::get_parameter(std::string_view name, Where where) const {
  const ErrorLine line(where);
  const Collector found = collect_inferred(*this);
  std::string names;
  for (const NamedVariable& named : found.parameters) {
    if (named.name == name) return named.variable;
    names += (names.empty() ? "" : ", ") + named.name;
  }
  if (const auto tied = found.tied.find(std::string(name)); tied != found.tied.end())
    return tied->second.variable;
  fail<ArgumentError>("get_parameter: ", kind(), " has no parameter \"", name,
                      "\"; there are: ", names);
}

Variable Module::weight() const { return get_parameter("weight"); }
Variable Module::bias() const { return get_parameter("bias"); }

void Module::apply(const std::function<void(Module&)>& fn) {
  if (!fn) fail<ArgumentError>("apply: the function is empty");
  const std::vector<NamedModule> modules = named_modules();
  for (const NamedModule& named : std::views::reverse(modules)) fn(*named.module);
}

DType Module::dtype() const {
  struct Finder final : MemberVisitor {
    std::optional<DType> parameter, buffer;
    static void note(std::optional<DType>& first, const Variable& x) {
      if (!first && x.defined() && is_float(x.dtype())) first = x.dtype();
    }
    void on_parameter(const std::string&, Variable& x) override { note(parameter, x); }
    void on_buffer(const std::string&, Variable& x) override { note(buffer, x); }
  } finder;
  visit(finder);
  if (finder.parameter) return *finder.parameter;
  if (!finder.buffer) fail<ArgumentError>(kind(), ": dtype: no float parameter or buffer");
  return *finder.buffer;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Variable& parameter : parameters()) count += parameter.numel();
  return count;
}

void Module::train(bool on) {
  struct Switch final : MemberVisitor {
    explicit Switch(bool on) : on(on) {}
    void on_module(const std::string&, Module& module) override { module.state_->training = on; }
    bool on;
  } visitor(on);
  visit(visitor);
}

bool Module::is_training() const {
  note_mode();
  if (StepObserver* step = StepObserver::current())
    step->on_setting([state = state_, on = state_->training] { return state->training == on; });
  return state_->training && !tapegrad::detail::context.is_inferring;
}

void Module::note_mode() const {
  std::atomic<bool>& uses_mode = state_->own.uses_mode;
  if (!uses_mode.load(std::memory_order_relaxed)) uses_mode.store(true, std::memory_order_relaxed);
}

void Module::zero_grad(bool set_to_none) const {
  for (const NamedVariable& named : collect(*this).parameters)
    named.variable.zero_grad(set_to_none);
}

void Module::requires_grad_(bool on) const {
  for (NamedVariable& named : collect(*this).parameters) named.variable.requires_grad_(on);
}

void Module::to(Device device, Where where) const {
  const ErrorLine line(where);
  rebind_all(*this, [&](const Tensor& value) { return value.to(device); });
}

void Module::to(DType dtype, Where where) const {
  const ErrorLine line(where);
  if (!is_float(dtype)) fail<DTypeError>("to: a model's parameters are floats, not ", dtype);
  rebind_all(*this, [&](const Tensor& value) {
    return is_float(value.dtype()) ? value.to(dtype) : value;
  });
}

TensorMap Module::state_dict() const {
  const Collector found = collect_inferred(*this);
  TensorMap state;
  found.for_saved(
      [&](const NamedVariable& named) { state.emplace(named.name, named.variable.value()); });
  return state;
}

LoadReport Module::load_state_dict(const TensorMap& state, bool strict, Where where) {
  const ErrorLine line(where);
  const Collector found = collect_inferred(*this);
  LoadReport report;
  ClassicText wrong;
  std::vector<std::pair<Variable, Tensor>> changes;
  found.for_saved([&](const NamedVariable& named) {
    const auto& [name, variable] = named;
    const auto given = state.find(name);
    if (given == state.end()) {
      report.missing_keys.push_back(name);
    } else if (given->second.shape() != variable.shape()) {
      wrong << "\n  shape: " << name << " is " << variable.shape() << ", given "
            << given->second.shape();
    } else if (given->second.dtype() != variable.dtype() &&
               !(is_float(given->second.dtype()) && is_float(variable.dtype()))) {
      wrong << "\n  dtype: " << name << " is " << variable.dtype() << ", given "
            << given->second.dtype();
    } else {
      changes.emplace_back(variable, given->second);
    }
  });
  for (const auto& [name, first] : found.tied)
    if (const auto given = state.find(name), other = state.find(first.name);
        given != state.end() && other != state.end() && !is_equal(given->second, other->second))
      wrong << "\n  tied: " << name << " and " << first.name
            << " are one parameter, given two values";
  for (const auto& entry : state)
    if (!found.names.contains(entry.first) || found.unsaved.contains(entry.first))
      report.unexpected_keys.push_back(entry.first);
  if (strict) wrong << report;
  if (const std::string text = wrong.str(); !text.empty())
    fail<ArgumentError>("load_state_dict: the names do not fit the model:", text);
  for (auto& [variable, value] : changes)
    value = value.clone().to(variable.dtype()).to(variable.device());
  for (auto& [variable, value] : changes) variable.rebind(std::move(value));
  return report;
}

std::ostream& operator<<(std::ostream& out, const LoadReport& report) {
  for (const std::string& name : report.missing_keys) out << "\n  missing: " << name;
  for (const std::string& name : report.unexpected_keys) out << "\n  unknown: " << name;
  return out;
}

bool Module::has_sizes() const { return state_->own.has_sizes.load(std::memory_order_acquire); }

void Module::infer_under_lock(const std::function<void()>& allocate) const {
  const std::lock_guard lock(first_call);
  if (!is_inferred()) allocate();
  state_->own.has_sizes.store(true, std::memory_order_release);
}

Shape Module::infer(const Shape& input_shape) {
  Shape shape{1};
  for (const int64_t size : input_shape) shape.push_back(size);
  TensorOptions like;
  for (const NamedVariable& named : collect(*this).parameters)
    if (!like.dtype) like = {.dtype = named.variable.dtype(), .device = named.variable.device()};
  const tapegrad::detail::Set<&tapegrad::detail::Context::is_inferring> inferring(true);
  const NoGrad no_grad;
  call(zeros(shape, like), Where::current());
  return out_shape();
}

const Shape& Module::out_shape() const {
  if (!state_->has_output)
    fail<ArgumentError>("out_shape: not known for this ", kind(),
                        "; call infer() with an input shape first");
  return state_->output;
}

bool Module::is_watched() const {
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    MemberCheck::watch(*this, *step);
  return tapegrad::detail::context.is_inferring || state_->own.hooks != nullptr;
}

bool Module::has_out_shape() const { return state_->has_output; }

void Module::note_output(const Variable& y) {
  if (!tapegrad::detail::context.is_inferring) [[likely]]
    return;
  Shape shape;
  for (int i = 1; i < y.rank(); ++i) shape.push_back(y.shape()[i]);
  state_->output = shape;
  state_->has_output = true;
}

const Init& Module::init() const { return state_->init; }
void Module::set_init(const Init& init) { state_->init = init; }

void Module::unshare() {
  struct Unshare final : MemberVisitor {
    void on_module(const std::string&, Module& module) override {
      for (const auto& [old, fresh] : states)
        if (old == module.state_) return void(module.state_ = fresh);
      states.emplace_back(module.state_,
                          std::make_shared<tapegrad::detail::ModuleState>(*module.state_));
      module.state_ = states.back().second;
    }
    void on_parameter(const std::string&, Variable& x) override { replace(x); }
    void on_buffer(const std::string&, Variable& x) override { replace(x); }
    void replace(Variable& x) {
      for (const auto& [old, fresh] : variables)
        if (old.is_same(x)) return void(x = fresh);
      Variable fresh(x.value().clone());
      fresh.requires_grad_(x.requires_grad());
      variables.emplace_back(x, fresh);
      x = std::move(fresh);
    }
    Copies* copies() override { return &pointees; }
    Copies pointees;
    std::vector<std::pair<std::shared_ptr<tapegrad::detail::ModuleState>,
                          std::shared_ptr<tapegrad::detail::ModuleState>>>
        states;
    std::vector<std::pair<Variable, Variable>> variables;
  } visitor;
  visit(visitor);
}

std::string Module::kind_of(std::string_view name) { return std::string(name); }
std::string Module::options() const { return {}; }
std::string Module::kind_of(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : type.name();
  std::free(text);
  return name.substr(name.rfind(':') + 1);
}

void Module::fail_inputs() const {
  fail<ArgumentError>(kind(), ": its forward does not take one variable and give one");
}

Parameter::Parameter(const Variable& value, bool requires_grad) : Variable(value.detach()) {
  requires_grad_(requires_grad);
}
Parameter& Parameter::operator=(const Variable& other) {
  const bool is_frozen = defined() && !requires_grad();
  const bool is_value = other.defined() && is_float(other.dtype()) && !other.requires_grad();
  Variable::operator=(is_value && !is_frozen ? other.detach().requires_grad_() : other);
  return *this;
}

void Module::fail_copy() const {
  fail<ArgumentError>(kind(), ": a member cannot be copied (a std::unique_ptr?), so the module ",
                      "cannot be a layer of a Sequential or have backward hooks");
}

void Module::fail_type(const std::type_info& base) const {
  const std::string derived = kind_of(typeid(*this)), model = kind_of(base);
  fail<ArgumentError>(derived, " derives from the model ", model,
                      ", whose forward() would be called "
                      "and whose copies would be made: write struct ",
                      derived, " : nn::Model<", derived, ", ", model, ">");
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  print(out, const_cast<Module&>(module), "");
  return out;
}
void print(const Module& module) { standard_output() << module << std::endl; }

}  // namespace tapegrad::nn
