// Parameters, buffers and modules with the names that members() gives them.
//
//   for (auto& [name, p] : model.named_parameters()) std::cout << name << p.shape() << '\n';
//   auto params = model.named_parameters();
//   if (params.contains("fc.bias")) params["fc.bias"].requires_grad_(false);
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad::detail {
/// A name in brackets, with the line of the call.
struct NameHere {
  template <std::convertible_to<std::string_view> T>
  NameHere(const T& text, Where here = Where::current()) : name(text), where(here) {}
  std::string_view name;
  Where where;
};
[[noreturn]] void fail_unknown_name(NameHere name, const std::vector<std::string>& known);
/// Returns the place of an entry of a list. Throws IndexError for an index outside [0, size).
size_t place_of(IndexHere i, size_t size);
}  // namespace tapegrad::detail

namespace tapegrad::nn {

class Module;

struct NamedVariable {
  std::string name;
  Variable variable;

  const std::string& key() const { return name; }  // as in libtorch
  Variable& value() { return variable; }
  const Variable& value() const { return variable; }
};

/// Variables in the order of members(), also by name: PyTorch's dict(model.named_parameters()) and
/// libtorch's OrderedDict. A template, so that programs that do not use it compile faster.
template <typename Named>
class NamedList : public std::vector<Named> {
 public:
  using std::vector<Named>::vector;
  NamedList(std::vector<Named> list) : std::vector<Named>(std::move(list)) {}

  /// Return an entry, or a handle to the variable of a name. Throw IndexError and ArgumentError.
  Named& operator[](tapegrad::detail::IndexHere i) {
    return this->data()[tapegrad::detail::place_of(i, this->size())];
  }
  const Named& operator[](tapegrad::detail::IndexHere i) const {
    return this->data()[tapegrad::detail::place_of(i, this->size())];
  }
  Variable operator[](tapegrad::detail::NameHere name) const {
    const Variable* found = find(name.name);
    if (found == nullptr) tapegrad::detail::fail_unknown_name(name, keys());
    return *found;
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Returns null for an unknown name.
  const Variable* find(std::string_view name) const {
    for (const Named& named : *this)
      if (named.name == name) return &named.variable;
    return nullptr;
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const Named& named : *this) names.push_back(named.name);
    return names;
  }
  std::vector<Variable> values() const {
    std::vector<Variable> variables;
    for (const Named& named : *this) variables.push_back(named.variable);
    return variables;
  }
};
using NamedVariables = NamedList<NamedVariable>;

/// A Variable that requires a gradient, for a member: `nn::Parameter scale{ones({3})};`. Shares the
/// memory of its value. Assigning another Variable ties the two.
struct Parameter : Variable {
  Parameter() = default;
  Parameter(const Variable& value, bool requires_grad = true);
  /// Becomes a handle to `other`. A value without history is trained, unless this one is frozen.
  Parameter& operator=(const Variable& other);
};

/// A member that is saved and moved with the model, but not trained: `m("mean", mean)`.
struct Buffer : Variable {
  Buffer() = default;
  Buffer(const Variable& value) : Variable(value.detach()) {}
  Buffer& operator=(const Variable& other) {
    Variable::operator=(other);
    return *this;
  }
};

struct NamedModule {
  std::string name;  // empty for the outermost module
  Module* module;

  const std::string& key() const { return name; }
  Module* value() const { return module; }
};

}  // namespace tapegrad::nn
