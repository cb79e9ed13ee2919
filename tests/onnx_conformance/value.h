// Types of the ONNX interpreter: nodes with their inputs, and the table of operators. An operator
// is a function of a node that calls public ops.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad::onnx_conformance {

using Values = std::vector<Variable>;  // an empty Variable is an input that is left out
using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

/// Thrown for a missing feature; its text appears in docs/onnx_conformance.md.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Attribute = std::variant<int64_t, double, std::string, Ints, Reals, Variable>;

/// A node whose inputs are known.
struct Node {
  std::string op;
  std::map<std::string, Attribute> attributes;
  Values inputs;
  size_t outputs = 1;
  int64_t opset = 0;

  bool has(size_t input) const { return input < inputs.size() && inputs[input].defined(); }
  const Variable& operator[](size_t input) const;  // throws Unsupported if it was left out
  Ints ints_at(size_t input) const { return (*this)[input].to_vector<int64_t>(); }
  Ints ints_at(size_t input, const Ints& otherwise) const {
    return has(input) ? ints_at(input) : otherwise;
  }

  bool has(const std::string& attribute) const { return attributes.contains(attribute); }
  int64_t integer(const std::string& name, int64_t otherwise) const;
  double real(const std::string& name, double otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  Ints ints(const std::string& name, const Ints& otherwise = {}) const;
  bool flag(const std::string& name, bool otherwise) const {
    return integer(name, otherwise ? 1 : 0) != 0;
  }
  int axis(int64_t otherwise) const { return int(integer("axis", otherwise)); }
};

using Operator = std::function<Values(const Node&)>;
using Operators = std::map<std::string, Operator, std::less<>>;

// Functions that add the operators of a family.
void add_elementwise(Operators& table);
void add_reductions(Operators& table);
void add_shapes(Operators& table);
void add_indexing(Operators& table);
void add_networks(Operators& table);
void add_pooling(Operators& table);
void add_resizing(Operators& table);
void add_recurrent(Operators& table);
void add_quantized(Operators& table);
void add_signal(Operators& table);

/// Adds an operator with one result.
inline void add(Operators& table, const std::string& name,
                std::function<Variable(const Node&)> one) {
  table[name] = [one = std::move(one)](const Node& node) -> Values { return {one(node)}; };
}

/// Converts an ONNX type number to a dtype. Throws Unsupported if there is none.
DType dtype_of(int64_t onnx_type);

}  // namespace tapegrad::onnx_conformance
