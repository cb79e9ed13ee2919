// Positions of the boxes and lines of a tape picture.
#pragma once

#include <vector>

#include "core/inspect/internal/tape_graph.h"

namespace tapegrad {

struct TapeLayout {
  struct Point {
    double x = 0, y = 0;
  };
  struct Box {
    double x = 0, y = 0, width = 0, height = 0;  // x, y of the upper left corner
  };

  std::vector<Box> vertices;              // in the order of the graph's vertices
  std::vector<Box> groups;                // groups[0] is the whole picture
  std::vector<std::vector<Point>> edges;  // polylines
};

/// Computes a layered layout, top to bottom (Sugiyama, Tagawa and Toda 1981): ranks by longest
/// path, order within a rank by the mean position of neighbours, then coordinates as close to this
/// mean as the widths allow. Each group is laid out separately and is one box for its surroundings,
/// so groups never overlap. `sizes` gives the width and height of each vertex.
TapeLayout lay_out(const TapeGraph& graph, const std::vector<TapeLayout::Box>& sizes);

}  // namespace tapegrad
