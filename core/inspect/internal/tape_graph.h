// The tape as a graph to be drawn: what write_svg and write_dot (core/inspect/tape_picture.h) draw.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// Nodes that reach a root, oldest first, with edges the way values went: from inputs to results.
struct TapeGraph {
  struct Vertex {
    std::string name;                 // of the op; of a leaf, its name in the model, or "leaf"
    std::vector<std::string> values;  // its outputs, "float32 [2, 3]"
    std::string where;                // "model.cpp:12"; empty for a leaf
    int64_t saved_bytes = 0;
    int recomputed = 0;  // values that a checkpoint computes again
    bool is_leaf = false;
    bool is_root = false;
    int group = 0;
  };
  struct Edge {
    int from, to;
    bool operator==(const Edge&) const = default;
  };
  /// A part of the model, for one time that it ran.
  struct Group {
    std::string name;
    int parent = -1;
  };

  std::vector<Vertex> vertices;
  std::vector<Edge> edges;    // each once
  std::vector<Group> groups;  // parents first; 0 is the whole picture, without a name
  int64_t saved_bytes = 0;    // of all, each storage once

  bool is_within(int group, int ancestor) const;
};

/// What `root` was computed from. Shapes are learnt from a backward pass that runs the rules and
/// gives its results to nobody. AutogradError when root has no history, or it was freed.
TapeGraph collect_tape(const Variable& root);

/// All that root reaches, oldest first; leaves, which have no age, in front.
std::vector<const Node*> reach(const Node& root);

/// "1.5 MB"
std::string format_bytes(int64_t bytes);

}  // namespace tapegrad
