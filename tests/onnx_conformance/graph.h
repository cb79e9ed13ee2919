// ONNX files: graphs of nodes, and tensors.
#pragma once

#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {

/// A graph, its nodes in an order in which they can run.
struct Graph {
  struct Step {
    Node node;                                 // without inputs
    std::vector<std::string> inputs, outputs;  // "" for one that is left out
  };
  std::vector<std::string> inputs, outputs;
  std::vector<int64_t> input_types, output_types;  // ONNX's numbers
  std::map<std::string, Variable> constants;
  std::vector<Step> steps;
};

/// Unsupported for what the interpreter has no form for: graphs inside graphs, sequences, strings.
Graph read_graph(const std::string& path);
/// The type is the graph's: bfloat16 is stored as unsigned integers.
Variable read_tensor(const std::string& path, int64_t type);

/// The outputs; Unsupported, naming the operator, when there is none of that name.
Values run(const Graph& graph, const Values& inputs, const Operators& table);

}  // namespace tapegrad::onnx_conformance
