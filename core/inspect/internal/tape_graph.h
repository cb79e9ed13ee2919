// The tape as a graph, drawn by write_svg and write_dot (core/inspect/tape_picture.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// The nodes that reach a root, oldest first. Edges have the direction of values: from inputs to
/// results.
struct TapeGraph {
  struct Vertex {
    std::string name;                 // of the op; for a leaf, the parameter name or "leaf"
    std::vector<std::string> values;  // dtype and shape of each output, "float32 [2, 3]"
    std::string where;                // "model.cpp:12"; empty for a leaf
    int64_t saved_bytes = 0;
    int recomputed = 0;  // number of saved tensors that a checkpoint recomputes
    bool is_leaf = false;
    bool is_root = false;
    int group = 0;
  };
  struct Edge {
    int from, to;
    bool operator==(const Edge&) const = default;
  };
  /// One run of a module.
  struct Group {
    std::string name;
    int parent = -1;
  };

  std::vector<Vertex> vertices;
  std::vector<Edge> edges;    // without duplicates
  std::vector<Group> groups;  // parents first; group 0 is the whole picture and has no name
  int64_t saved_bytes = 0;    // total; each storage counts once

  bool is_within(int group, int ancestor) const;
};

/// Collects the graph from which `root` was computed. A backward pass whose results are discarded
/// provides the shapes. Throws AutogradError if root has no history or its graph was freed.
TapeGraph collect_tape(const Variable& root);

/// All nodes that root reaches, oldest first; leaves, which have no age, come first.
std::vector<const TapeNode*> reach(const TapeNode& root);

/// Returns the size as text, for example "1.5 MB".
std::string format_bytes(int64_t bytes);

}  // namespace tapegrad
