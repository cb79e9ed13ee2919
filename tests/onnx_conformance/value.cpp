#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {
namespace {

template <typename T>
T attribute(const Node& node, const std::string& name, const T& otherwise) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? otherwise : std::get<T>(found->second);
}

}  // namespace

const Variable& Node::operator[](size_t input) const {
  if (!has(input)) throw Unsupported(op + " without input " + std::to_string(input));
  return inputs[input];
}
int64_t Node::integer(const std::string& name, int64_t otherwise) const {
  return attribute(*this, name, otherwise);
}
double Node::real(const std::string& name, double otherwise) const {
  return attribute(*this, name, otherwise);
}
std::string Node::text(const std::string& name, const std::string& otherwise) const {
  return attribute(*this, name, otherwise);
}
Ints Node::ints(const std::string& name, const Ints& otherwise) const {
  return attribute(*this, name, otherwise);
}

}  // namespace tapegrad::onnx_conformance
