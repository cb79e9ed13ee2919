// Graphs and tensors in ONNX files.
#pragma once

#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {

/// A graph with its nodes in execution order.
struct Graph {
  struct Step {
    Node node;                                 // without its inputs
    std::vector<std::string> inputs, outputs;  // "" for one that is left out
  };
  std::vector<std::string> inputs, outputs;
  std::vector<int64_t> input_types, output_types;  // ONNX's type numbers
  std::map<std::string, Variable> constants;
  std::vector<Step> steps;
};

/// Throws Unsupported for content that the interpreter cannot represent: nested graphs, sequences,
/// strings.
Graph read_graph(const std::string& path);
/// `type` is the type in the graph: a bfloat16 tensor is stored as unsigned integers.
Variable read_tensor(const std::string& path, int64_t type);

/// Returns the outputs. Throws Unsupported, naming the operator, if `table` does not have it.
Values run(const Graph& graph, const Values& inputs, const Operators& table);

}  // namespace tapegrad::onnx_conformance
